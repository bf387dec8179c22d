/* SPDX-License-Identifier: MIT */
/* Makes the records that the kernel would have written if it had recorded earlier, from /proc. */
#include "record/perf_event/proc.h"

#include "perfdata/byte_buffer.h"
#include "perfdata/build_id.h"
#include "perfdata/format.h"
#include "record/proc_stat.h"
#include "support/list.h"

#include <ptah/base.h>

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MAX_PATH  4096
#define SAMPLE_ID 32

/* Records */

static void begin_proc_record(struct perfdata_buffer *b, uint32_t type, uint16_t misc)
{
	b->size = 0;
	perfdata_put32(b, type);
	perfdata_put16(b, misc);
	perfdata_put16(b, 0); /* the size, which end_proc_record() fills in */
}

/* Ends the record with its sample id, as attr.sample_type describes it, and passes it on. */
static int end_proc_record(const struct proc_reporter *reporter, struct perfdata_buffer *b,
			   int32_t pid, int32_t tid)
{
	uint16_t size;

	perfdata_put32(b, (uint32_t)pid);
	perfdata_put32(b, (uint32_t)tid);
	perfdata_put64(b, 0); /* time */
	perfdata_put64(b, 0); /* processor */
	perfdata_put64(b, reporter->id);
	if (b->failed)
		return PTAH_E_NOMEM;
	size = (uint16_t)b->size;
	memcpy(b->bytes + 6, &size, sizeof(size));
	return reporter->take(reporter->context, b->bytes, b->size);
}

static int report_comm(const struct proc_reporter *reporter, int32_t pid, int32_t tid,
		       const char *name)
{
	struct perfdata_buffer b = {0};
	int status;

	begin_proc_record(&b, PERFDATA_COMM, 0);
	perfdata_put32(&b, (uint32_t)pid);
	perfdata_put32(&b, (uint32_t)tid);
	perfdata_put_string(&b, name, 8);
	status = end_proc_record(reporter, &b, pid, tid);
	perfdata_buffer_free(&b);
	return status;
}

static int report_fork(const struct proc_reporter *reporter, int32_t pid, int32_t tid,
		       int32_t parent)
{
	struct perfdata_buffer b = {0};
	int32_t of = tid == pid ? parent : pid; /* the parent of a thread is its process */
	int status;

	begin_proc_record(&b, PERFDATA_FORK, 0);
	perfdata_put32(&b, (uint32_t)pid);
	perfdata_put32(&b, (uint32_t)of);
	perfdata_put32(&b, (uint32_t)tid);
	perfdata_put32(&b, (uint32_t)of);
	perfdata_put64(&b, 0);
	status = end_proc_record(reporter, &b, pid, tid);
	perfdata_buffer_free(&b);
	return status;
}

/* Replaces "\012" by the newline that it stands for. The kernel escapes nothing else. */
static void unescape(char *path)
{
	char *to = path;

	for (; *path; path++) {
		if (!strncmp(path, "\\012", 4)) {
			*to++ = '\n';
			path += 3;
		} else {
			*to++ = *path;
		}
	}
	*to = '\0';
}

bool proc_parse_mapping(char *line, struct proc_mapping *m)
{
	char perms[5];
	int at = 0;

	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 " %n",
		   &m->start, &m->end, perms, &m->offset, &m->major, &m->minor, &m->inode,
		   &at) != 7 ||
	    !at || m->end <= m->start || strlen(perms) != 4)
		return false;
	m->prot =
	    (perms[0] == 'r' ? 1u : 0) | (perms[1] == 'w' ? 2u : 0) | (perms[2] == 'x' ? 4u : 0);
	m->flags = perms[3] == 's' ? 1 : 2; /* MAP_SHARED, MAP_PRIVATE */
	line[strcspn(line, "\n")] = '\0';
	unescape(line + at);
	/* The name that the kernel's own records have for memory of no file. */
	m->path = line[at] ? line + at : "//anon";
	return true;
}

/* The build id of the mapped file. False if its path leads to another file now. */
static bool build_id_of(const struct proc_reporter *reporter, const struct proc_mapping *m,
			struct perfdata_build_id *id)
{
	struct stat st;

	return reporter->build_ids && m->path[0] == '/' && m->inode && !stat(m->path, &st) &&
	       S_ISREG(st.st_mode) && st.st_ino == m->inode && major(st.st_dev) == m->major &&
	       minor(st.st_dev) == m->minor && perfdata_build_id_read(m->path, id) >= 0 && id->size;
}

static int report_mapping(const struct proc_reporter *reporter, int32_t pid,
			  const struct proc_mapping *m)
{
	struct perfdata_build_id id = {0};
	bool has_id = build_id_of(reporter, m, &id);
	struct perfdata_buffer b = {0};
	int status;

	if (strlen(m->path) >= MAX_PATH)
		return 0; /* longer than any path the kernel would open */
	begin_proc_record(
	    &b, PERFDATA_MMAP2,
	    (uint16_t)(PERFDATA_MISC_USER | (has_id ? PERFDATA_MISC_MMAP_BUILD_ID : 0)));
	perfdata_put32(&b, (uint32_t)pid);
	perfdata_put32(&b, (uint32_t)pid);
	perfdata_put64(&b, m->start);
	perfdata_put64(&b, m->end - m->start);
	perfdata_put64(&b, m->offset);
	if (has_id) {
		perfdata_put32(&b, id.size);
		perfdata_put(&b, id.bytes, sizeof(id.bytes));
	} else {
		perfdata_put32(&b, m->major);
		perfdata_put32(&b, m->minor);
		perfdata_put64(&b, m->inode);
		perfdata_put64(&b, 0); /* generation */
	}
	perfdata_put32(&b, m->prot);
	perfdata_put32(&b, m->flags);
	perfdata_put_string(&b, m->path, 8);
	status = end_proc_record(reporter, &b, pid, pid);
	perfdata_buffer_free(&b);
	return status;
}

/* Processes */

static FILE *open_proc_file(const char *root, const char *format, int32_t pid, int32_t tid)
{
	char path[MAX_PATH];
	int n = snprintf(path, sizeof(path), "%s", root);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (n >= 0 && (size_t)n < sizeof(path))
		snprintf(path + n, sizeof(path) - (size_t)n, format, pid, tid);
#pragma GCC diagnostic pop
	return fopen(path, "re");
}

static int report_mappings(const struct proc_reporter *reporter, int32_t pid)
{
	FILE *f = open_proc_file(reporter->root, "/proc/%d/maps", pid, 0);
	char *line = NULL;
	size_t capacity = 0;
	int status = 0;

	if (!f)
		return errno == ENOENT || errno == ESRCH ? PTAH_E_MISSING : PTAH_E_SYSTEM;
	while (status >= 0 && getline(&line, &capacity, f) > 0) {
		struct proc_mapping m;

		if (proc_parse_mapping(line, &m) && m.prot & 4)
			status = report_mapping(reporter, pid, &m);
	}
	free(line);
	fclose(f);
	return status < 0 ? status : 0;
}

bool proc_own_vdso(const char *root, uint64_t *start, uint64_t *end)
{
	FILE *f = open_proc_file(root, "/proc/%d/maps", (int32_t)getpid(), 0);
	size_t capacity = 0;
	char *line = NULL;
	bool found = false;

	while (f && !found && getline(&line, &capacity, f) > 0) {
		struct proc_mapping m;

		found = proc_parse_mapping(line, &m) && !strcmp(m.path, "[vdso]");
		if (found) {
			*start = m.start;
			*end = m.end;
		}
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

int32_t proc_process_of(const char *root, int32_t tid)
{
	const int32_t pid = (int32_t)proc_status_number(root, tid, "Tgid", 10);

	return pid > 0 ? pid : 0;
}

static int report_thread(const struct proc_reporter *reporter, int32_t pid, int32_t tid,
			 int32_t parent)
{
	FILE *f = open_proc_file(reporter->root, "/proc/%d/task/%d/comm", pid, tid);
	char name[64] = "";
	int status;

	if (!f)
		return 0; /* the process has ended */
	if (fgets(name, sizeof(name), f))
		name[strcspn(name, "\n")] = '\0';
	fclose(f);
	status = report_fork(reporter, pid, tid, parent);
	return status < 0 ? status : report_comm(reporter, pid, tid, name);
}

static size_t list_cpus(const char *root, const char *file, int32_t **cpus)
{
	char path[MAX_PATH], text[4096] = "";
	size_t n = 0;
	FILE *f;

	/* Room for all processors with numbers below 4096. */
	*cpus = calloc(4096, sizeof(**cpus));
	snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/%s", root, file);
	f = fopen(path, "re");
	if (f && !fgets(text, sizeof(text), f))
		text[0] = '\0';
	if (f)
		fclose(f);
	for (char *p = text; *cpus && *p >= '0' && *p <= '9';) {
		unsigned long first = strtoul(p, &p, 10),
			      last = *p == '-' ? strtoul(p + 1, &p, 10) : first;

		for (; first <= last && n < 4096; first++)
			(*cpus)[n++] = (int32_t)first;
		p += *p == ',';
	}
	return n;
}

size_t proc_cpus(const char *root, int32_t **cpus)
{
	return list_cpus(root, "online", cpus);
}

size_t proc_possible_cpus(const char *root, int32_t **cpus)
{
	return list_cpus(root, "possible", cpus);
}

int proc_report(const struct proc_reporter *reporter, int32_t pid, int32_t tid)
{
	const int32_t parent = (int32_t)proc_status_number(reporter->root, pid, "PPid", 10);
	int32_t *tids = NULL;
	size_t n = tid ? 0 : proc_threads(reporter->root, pid, &tids);
	int status = parent < 0 ? PTAH_E_MISSING : 0;

	/* The process comes first, because its threads get their maps from it. */
	if (status >= 0)
		status = report_thread(reporter, pid, pid, parent);
	for (size_t i = 0; i < n && status >= 0; i++)
		if (tids[i] != pid)
			status = report_thread(reporter, pid, tids[i], parent);
	if (tid && tid != pid && status >= 0)
		status = report_thread(reporter, pid, tid, parent);
	free(tids);
	return status < 0 ? status : report_mappings(reporter, pid);
}

int proc_report_all(const struct proc_reporter *reporter)
{
	char path[MAX_PATH];
	int32_t *pids;
	size_t n;
	int status = 0;

	snprintf(path, sizeof(path), "%s/proc", reporter->root);
	n = proc_list_numbers(path, &pids);
	for (size_t i = 0; i < n && status >= 0; i++) {
		status = proc_report(reporter, pids[i], 0);
		if (status == PTAH_E_MISSING || status == PTAH_E_SYSTEM)
			status = 0; /* it has ended, or belongs to another user */
	}
	free(pids);
	return status;
}

/* The kernel */

uint64_t proc_symbol(const char *root, const char *name)
{
	FILE *f = open_proc_file(root, "/proc/kallsyms", 0, 0);
	char line[512], symbol[128];
	uint64_t address = 0, value;
	char type;

	while (f && !address && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 " %c %127s", &value, &type, symbol) == 3 &&
		    !strcmp(symbol, name))
			address = value;
	if (f)
		fclose(f);
	return address;
}

bool proc_next_module(void *stream, struct proc_module *module)
{
	char line[4096];

	/* name, size, references, users (a list without spaces), state, address */
	while (fgets(line, sizeof(line), stream))
		if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s %" SCNx64, module->name,
			   &module->size, &module->address) == 3 &&
		    module->address && module->size)
			return true;
	return false;
}

static int report_kernel_map(const struct proc_reporter *reporter, uint64_t address, uint64_t size,
			     uint64_t offset, const char *name)
{
	struct perfdata_buffer b = {0};
	int status;

	begin_proc_record(&b, PERFDATA_MMAP, PERFDATA_MISC_KERNEL);
	perfdata_put32(&b, UINT32_MAX);
	perfdata_put32(&b, 0);
	perfdata_put64(&b, address);
	perfdata_put64(&b, size);
	perfdata_put64(&b, offset);
	perfdata_put_string(&b, name, 8);
	status = end_proc_record(reporter, &b, 0, 0);
	perfdata_buffer_free(&b);
	return status;
}

/* Whether a line of modules.dep ("kernel/fs/x-y.ko.xz: ...") describes the module x_y. */
static bool is_file_of(const char *line, const char *module)
{
	const char *name = line, *end = line + strcspn(line, ":\n");

	for (const char *p = line; p < end; p++)
		if (*p == '/')
			name = p + 1;
	for (; *module; module++, name++)
		if (name >= end || (*name == '-' ? '_' : *name) != *module)
			return false;
	return (size_t)(end - name) >= 3 && !strncmp(name, ".ko", 3);
}

/* The path of the module's file, or "[module]" as perf writes it. */
static void module_path(const char *root, const char *module, char *path, size_t size)
{
	struct utsname system;
	char name[MAX_PATH], *line = NULL;
	size_t capacity = 0;
	FILE *f;

	snprintf(path, size, "[%s]", module);
	if (uname(&system))
		return;
	snprintf(name, sizeof(name), "%s/lib/modules/%s/modules.dep", root, system.release);
	f = fopen(name, "re");
	while (f && getline(&line, &capacity, f) > 0) {
		if (!is_file_of(line, module))
			continue;
		snprintf(path, size, "/lib/modules/%s/%.*s", system.release,
			 (int)strcspn(line, ":\n"), line);
		break;
	}
	free(line);
	if (f)
		fclose(f);
}

int proc_report_kernel(const struct proc_reporter *reporter)
{
	uint64_t start = proc_symbol(reporter->root, "_text");
	uint64_t end = start ? proc_symbol(reporter->root, "_etext") : 0;
	struct proc_module module;
	char path[MAX_PATH];
	int status;
	FILE *f;

	if (!start || end <= start)
		return PTAH_E_MISSING;
	/*
	 * The file offset is the address of the symbol in the name, from which perf computes how
	 * far the kernel was moved (KASLR).
	 */
	status = report_kernel_map(reporter, start, end - start, start, "[kernel.kallsyms]_text");
	f = status < 0 ? NULL : open_proc_file(reporter->root, "/proc/modules", 0, 0);
	while (f && status >= 0 && proc_next_module(f, &module)) {
		module_path(reporter->root, module.name, path, sizeof(path));
		status = report_kernel_map(reporter, module.address, module.size, 0, path);
	}
	if (f)
		fclose(f);
	return status < 0 ? status : 0;
}
