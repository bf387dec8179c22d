/* SPDX-License-Identifier: MIT */
/*
 * What Fuchsia's insntrace leaves, and the files that its insntrace_print takes:
 *
 *	PREFIX.ptlist, PREFIX.xptlist	lines of "NUMBER PATH", a file of packets for each CPU
 *	PREFIX.cpuN.pt, PREFIX.thrN.pt	the packets
 *	PREFIX.ktrace	records of the kernel: the processor, and the CR3 of each process
 *	PREFIX.cpuid	of older versions: the processor and the MTC frequency as text
 *	*.log, *.map	the system's log: lines "@trace_load:" say what ld.so loaded where
 *	ids.txt, *.ids	lines of "BUILD-ID PATH"; or .build-id/xx/yyy.debug
 *	zircon.elf	the kernel
 *
 * Source: garnet/bin/insntrace, garnet/lib/intel_pt_decode and zircon-internal/ktrace.h of Fuchsia,
 * 2017 to 2020. No recording was available: written after these sources alone.
 */
#include "traceset/foreign.h"

#include "base/bits.h"
#include "base/order.h"
#include "perfdata/message.h"
#include "support/list.h"
#include "traceset/set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_SIZE 4096
#define LINE_SIZE 1024			/* insntrace_print ignores longer lines */
#define ITEMS_MAX ((size_t)1 << 16)	/* processes, programs, build ids: each */
#define LOG_MAX	  ((uint64_t)256 << 20) /* bytes of one text or ktrace file */

/* A process, by the CR3 that PIP packets show for it. */
struct process {
	uint64_t pid, cr3;
};

/* A program or library that ld.so loaded. */
struct load {
	uint64_t pid, sequence;
	uint64_t begin; /* of its lowest segment */
	char *build_id, *name;
};

/* Where the file with a build id lies. */
struct id {
	char *build_id, *path;
};

struct array {
	void *items;
	size_t count, capacity;
};

struct insntrace {
	struct ptah_trace_set *set;
	struct ptah_message *why;
	char list[PATH_SIZE];	/* the path of the list */
	char folder[PATH_SIZE]; /* that it lies in */
	char prefix[PATH_SIZE]; /* path without .ptlist */
	struct ptah_trace_processor processor;
	struct array processes, loads, ids;
	size_t no_process, no_file; /* programs that are left out */
	char missing[128];	    /* the first of them without a file */
};

/* Appends a zeroed item. NULL: no memory, or too many. */
static void *append_zeroed_item(struct array *a, size_t size)
{
	if (a->count == a->capacity &&
	    (a->count >= ITEMS_MAX ||
	     !list_grow(&a->items, a->count, 1, &a->capacity, sizeof(a->capacity), size)))
		return NULL;
	return memset((char *)a->items + size * a->count++, 0, size);
}

static bool has_suffix(const char *name, const char *suffix)
{
	const size_t n = strlen(name), m = strlen(suffix);

	return n > m && !strcmp(name + n - m, suffix);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_regular(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Whether a name is that of a list; one with the paths of this machine (.xptlist) is better. */
static int list_rank(const char *name)
{
	return has_suffix(name, ".xptlist") ? 2 : has_suffix(name, ".ptlist") ? 1 : 0;
}

/*
 * The list in a folder. 1: it is in `name`; 0: there is none; 2: there are lists of several traces,
 * and `other` is one of another trace than `name`.
 */
static int find_list(const char *folder, char name[PATH_SIZE], char other[PATH_SIZE])
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	int rank = 0, found = 0;

	while (d && found < 2 && (entry = readdir(d))) {
		const int r = list_rank(entry->d_name);
		const size_t stem = strlen(entry->d_name) - (r == 2 ? 8 : 7);

		if (!r)
			continue;
		if (found && (strlen(name) - (rank == 2 ? 8 : 7) != stem ||
			      strncmp(name, entry->d_name, stem) != 0)) {
			snprintf(other, PATH_SIZE, "%s", entry->d_name);
			found = 2;
		} else if (r > rank) {
			snprintf(name, PATH_SIZE, "%s", entry->d_name);
			rank = r;
			found = 1;
		}
	}
	if (d)
		closedir(d);
	return found;
}

static bool is_insntrace(const char *path)
{
	char name[PATH_SIZE], other[PATH_SIZE];
	struct stat st;

	if (stat(path, &st))
		return false;
	return S_ISDIR(st.st_mode) ? find_list(path, name, other) > 0
				   : S_ISREG(st.st_mode) && list_rank(path);
}

static int fail_at(const struct insntrace *t, const char *path, unsigned line, const char *what)
{
	return perfdata_message(t->why, PTAH_E_BAD_FILE, "%s:%u: %s", path, line, what);
}

/*
 * Calls `use` for each line of a text file, without its end. Lines that are empty, too long or
 * begin with "#" are left out, as insntrace_print does. 0, PTAH_E_MISSING: there is no such file,
 * or an error.
 */
static int read_lines(struct insntrace *t, const char *path,
		      int (*use)(struct insntrace *t, const char *path, unsigned number,
				 char *line))
{
	FILE *f = is_regular(path) ? fopen(path, "re") : NULL;
	char line[LINE_SIZE];
	uint64_t bytes = 0;
	unsigned number = 0;
	bool whole = true; /* the last read ended with the line */
	int status = 0;

	if (!f)
		return access(path, F_OK) ? PTAH_E_MISSING
					  : perfdata_system_message(t->why, errno, path, "open");
	while (!status && fgets(line, sizeof(line), f)) {
		const size_t n = strlen(line);
		const bool begins = whole;

		bytes += n;
		whole = n && line[n - 1] == '\n';
		number += begins;
		if (bytes > LOG_MAX)
			status = perfdata_message(t->why, PTAH_E_LIMIT,
						  "%s: more than %" PRIu64
						  " MB of text: keep the lines of "
						  "the traced programs only",
						  path, LOG_MAX >> 20);
		else if (begins && (whole || feof(f)) && *line != '#') {
			line[strcspn(line, "\r\n")] = '\0';
			if (*line)
				status = use(t, path, number, line);
		}
	}
	if (!status && ferror(f))
		status = perfdata_system_message(t->why, errno, path, "read");
	fclose(f);
	return status;
}

/* The streams */

/* The file of a list's entry: as it is written or, if it has moved, of that name beside the list.
 */
static bool find_insntrace_file(const struct insntrace *t, const char *path, char *found)
{
	if (*path == '/' && snprintf(found, PATH_SIZE, "%s", path) < PATH_SIZE && is_regular(found))
		return true;
	if (*path != '/' && snprintf(found, PATH_SIZE, "%s/%s", t->folder, path) < PATH_SIZE &&
	    is_regular(found))
		return true;
	return snprintf(found, PATH_SIZE, "%s/%s", t->folder, base_name(path)) < PATH_SIZE &&
	       is_regular(found);
}

static int on_stream(struct insntrace *t, const char *path, unsigned number, char *line)
{
	struct ptah_trace_stream stream = {.size = sizeof(stream), .cpu = -1, .pid = -1, .tid = -1};
	char file[PATH_SIZE], name[LINE_SIZE], *end;
	struct stat st;
	uint64_t id;

	errno = 0;
	id = strtoull(line, &end, 10);
	if (end == line || errno || id > INT32_MAX || sscanf(end, " %1023[^\n]", name) != 1)
		return fail_at(t, path, number, "not a number and the path of a file of packets");
	if (!find_insntrace_file(t, name, file))
		return perfdata_message(t->why, PTAH_E_MISSING,
					"%s:%u: %s is neither there nor beside the list; copy the "
					"files of packets into the folder of the list",
					path, number, name);
	if (!stat(file, &st) && !st.st_size) /* a CPU that was idle */
		return 0;
	if (strstr(base_name(file), ".thr"))
		stream.tid = (int32_t)id;
	else
		stream.cpu = (int32_t)id;
	stream.file.path = file;
	return ptah_trace_set_add_stream(t->set, &stream);
}

/* The kernel's records */

/* Events of group ARCH (zircon-internal/ktrace-def.h). */
enum {
	KTRACE_ARCH = 0x080,
	KTRACE_IPT_START = 0x200,
	KTRACE_IPT_CPU_INFO = 0x201,
	KTRACE_IPT_PROCESS_CREATE = 0x203
};

static int on_record(struct insntrace *t, const uint8_t *record, size_t size)
{
	const uint32_t tag = load_le32(record);
	struct process *process;

	if (tag >> 20 != KTRACE_ARCH || size < 32)
		return 0;
	switch (tag >> 8 & 0xfff) {
	case KTRACE_IPT_START: /* there may be many: the last one counts */
		t->processor.nominal_ratio = record[16];
		return 0;
	case KTRACE_IPT_CPU_INFO: /* the processor's type, family, model, stepping */
		t->processor.cpu = (struct ptah_cpu){
		    .family = load_le16(record + 20), .model = record[24], .stepping = record[28]};
		return 0;
	case KTRACE_IPT_PROCESS_CREATE:
		process = append_zeroed_item(&t->processes, sizeof(*process));
		if (!process)
			return PTAH_E_NOMEM;
		*process = (struct process){load_le64(record + 16), load_le64(record + 24)};
		return 0;
	default:
		return 0;
	}
}

/* tag u32, tid u32, time u64, and what the tag says: its low four bits are the size in u64. */
static int read_ktrace(struct insntrace *t)
{
	char path[PATH_SIZE + 8], note[PATH_SIZE + 128];
	uint8_t record[15 * 8];
	uint64_t offset = 0;
	int status = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s.ktrace", t->prefix);
	f = is_regular(path) ? fopen(path, "re") : NULL;
	if (!f)
		return trace_set_note(t->set, "no .ktrace file: the address spaces of the "
					      "processes are not known");
	while (!status && fread(record, 1, 16, f) == 16) {
		const size_t size = (size_t)(load_le32(record) & 0xf) * 8;

		if (!load_le32(record)) /* the rest of the buffer is empty */
			break;
		if (size < 16 || fread(record + 16, 1, size - 16, f) != size - 16) {
			snprintf(note, sizeof(note),
				 "%s: a record at offset %" PRIu64 " is cut: what follows is lost",
				 path, offset);
			status = trace_set_note(t->set, note);
			break;
		}
		offset += size;
		status = offset > LOG_MAX ? perfdata_message(t->why, PTAH_E_LIMIT,
							     "%s: larger than %" PRIu64 " MB", path,
							     LOG_MAX >> 20)
					  : on_record(t, record, size);
	}
	fclose(f);
	return status;
}

/* "mtc_freq: 3", and the processor as "  family: 6". */
static int on_cpuid(struct insntrace *t, const char *path, unsigned number, char *line)
{
	struct ptah_cpu *cpu = &t->processor.cpu;
	unsigned n;

	(void)path;
	(void)number;
	if (sscanf(line, "mtc_freq: %u", &n) == 1 && n < 16)
		t->processor.trace.mtc_period = (uint8_t)n;
	else if (sscanf(line, " family: %u", &n) == 1 && n <= UINT16_MAX)
		cpu->family = (uint16_t)n;
	else if (sscanf(line, " model: %u", &n) == 1 && n <= UINT8_MAX)
		cpu->model = (uint8_t)n;
	else if (sscanf(line, " stepping: %u", &n) == 1 && n <= UINT8_MAX)
		cpu->stepping = (uint8_t)n;
	return 0;
}

/* The code */

static void forget_loads(struct insntrace *t)
{
	struct load *loads = t->loads.items;

	for (size_t i = 0; i < t->loads.count; i++) {
		free(loads[i].build_id);
		free(loads[i].name);
	}
	t->loads.count = 0;
}

/* The load that the lines b and c of this process and number complete: the last one so numbered. */
static struct load *find_load(const struct insntrace *t, uint64_t pid, uint64_t sequence)
{
	struct load *loads = t->loads.items;

	/* The three lines of a load follow each other, with those of few other processes between.
	 */
	for (size_t i = t->loads.count; i-- > 0 && t->loads.count - i < 1000;)
		if (loads[i].pid == pid && loads[i].sequence == sequence)
			return &loads[i];
	return NULL;
}

/*
 * "...@trace_load: PID:Na BASE BEGIN END", "...:Nb BUILD-ID", "...:Nc SONAME PATH". The log may be
 * of several boots, of which the last one counts.
 */
static int on_log(struct insntrace *t, const char *path, unsigned number, char *line)
{
	const char *at = strstr(line, "@trace_load: ");
	uint64_t pid, sequence, base, begin, end;
	char first[LINE_SIZE], second[LINE_SIZE];
	struct load *load;
	char kind;
	int n = 0;

	(void)path;
	(void)number;
	if (strstr(line, "welcome to lk/MP"))
		forget_loads(t);
	if (!at ||
	    sscanf(at, "@trace_load: %" SCNu64 ":%" SCNu64 "%c%n", &pid, &sequence, &kind, &n) < 3)
		return 0;
	at += n;
	if (kind == 'a' &&
	    sscanf(at, " %" SCNx64 " %" SCNx64 " %" SCNx64, &base, &begin, &end) == 3) {
		load = append_zeroed_item(&t->loads, sizeof(*load));
		if (!load)
			return PTAH_E_NOMEM;
		*load = (struct load){.pid = pid, .sequence = sequence, .begin = begin};
		return 0;
	}
	load = find_load(t, pid, sequence);
	if (!load)
		return 0;
	if (kind == 'b' && !load->build_id && sscanf(at, " %1023s", first) == 1) {
		load->build_id = strdup(first);
		return load->build_id ? 0 : PTAH_E_NOMEM;
	}
	if (kind == 'c' && !load->name && sscanf(at, " %1023s %1023s", first, second) >= 1) {
		load->name = strdup(first);
		return load->name ? 0 : PTAH_E_NOMEM;
	}
	return 0;
}

static int on_id(struct insntrace *t, const char *path, unsigned number, char *line)
{
	char build_id[LINE_SIZE], file[LINE_SIZE];
	struct id *id;

	(void)path;
	(void)number;
	if (sscanf(line, "%1023s %1023[^\n]", build_id, file) != 2)
		return 0;
	id = append_zeroed_item(&t->ids, sizeof(*id));
	if (!id)
		return PTAH_E_NOMEM;
	id->build_id = strdup(build_id);
	id->path = strdup(file);
	return id->build_id && id->path ? 0 : PTAH_E_NOMEM;
}

static int compare_processes(const void *x, const void *y)
{
	const struct process *a = x, *b = y;

	return a->pid != b->pid ? a->pid < b->pid ? -1 : 1 : COMPARE(a->cr3, b->cr3);
}

static int compare_ids(const void *x, const void *y)
{
	return strcmp(((const struct id *)x)->build_id, ((const struct id *)y)->build_id);
}

/* The texts of the folder: logs and lists of build ids. */
static int read_texts(struct insntrace *t)
{
	DIR *d = opendir(t->folder);
	struct dirent *entry;
	int status = 0;

	while (d && status >= 0 && (entry = readdir(d))) {
		const char *name = entry->d_name;
		char path[PATH_SIZE];

		if (snprintf(path, sizeof(path), "%s/%s", t->folder, name) >= (int)sizeof(path))
			continue;
		if (has_suffix(name, ".log") || has_suffix(name, ".map"))
			status = read_lines(t, path, on_log);
		else if (!strcmp(name, "ids.txt") || has_suffix(name, ".ids"))
			status = read_lines(t, path, on_id);
	}
	if (d)
		closedir(d);
	if (t->ids.count)
		qsort(t->ids.items, t->ids.count, sizeof(struct id), compare_ids);
	if (t->processes.count)
		qsort(t->processes.items, t->processes.count, sizeof(struct process),
		      compare_processes);
	return status < 0 ? status : 0;
}

/* The file of a load: by its build id, or by its name in the folder. */
static bool find_insntrace_program(const struct insntrace *t, const struct load *load, char *found)
{
	const struct id key = {.build_id = load->build_id};
	const struct id *id =
	    load->build_id && t->ids.count
		? bsearch(&key, t->ids.items, t->ids.count, sizeof(key), compare_ids)
		: NULL;
	const char *b = load->build_id;

	if (id && find_insntrace_file(t, id->path, found))
		return true;
	if (b && strlen(b) > 2 && !strchr(b, '/') &&
	    (snprintf(found, PATH_SIZE, "%s/.build-id/%.2s/%s.debug", t->folder, b, b + 2) <
	     PATH_SIZE) &&
	    is_regular(found))
		return true;
	return load->name && *base_name(load->name) && find_insntrace_file(t, load->name, found);
}

static uint8_t parse_build_id(const char *text, uint8_t id[PTAH_BUILD_ID_MAX])
{
	uint8_t n = 0;
	unsigned byte;

	while (text && n < PTAH_BUILD_ID_MAX && sscanf(text + 2 * n, "%2x", &byte) == 1 &&
	       text[2 * n + 1])
		id[n++] = (uint8_t)byte;
	return n;
}

/* The CR3 of a process. The numbers of processes are not used again. */
static const struct process *find_insntrace_process(const struct insntrace *t, uint64_t pid)
{
	const struct process *processes = t->processes.items;
	size_t at;

	BISECT(at, 0, t->processes.count, processes[at].pid <= pid);
	return at && processes[at - 1].pid == pid ? &processes[at - 1] : NULL;
}

static int add_load(struct insntrace *t, const struct load *load)
{
	const struct process *process = find_insntrace_process(t, load->pid);
	struct ptah_trace_code code = {.size = sizeof(code),
				       .kind = PTAH_TRACE_CODE_ELF,
				       .address = load->begin,
				       .recorded_path = load->name,
				       .space.vmcs = PTAH_SPACE_ANY};
	char path[PATH_SIZE];

	if (!process) {
		t->no_process++;
		return 0;
	}
	if (!find_insntrace_program(t, load, path)) {
		if (!t->no_file++)
			snprintf(t->missing, sizeof(t->missing), "%s",
				 load->build_id ? load->build_id
				 : load->name	? load->name
						: "?");
		return 0;
	}
	code.file.path = path;
	code.space.cr3 = process->cr3;
	code.build_id_size = parse_build_id(load->build_id, code.build_id);
	return ptah_trace_set_add_code(t->set, &code);
}

static int note_missing(struct insntrace *t)
{
	char note[512];
	int status = 0;

	if (t->no_file) {
		snprintf(
		    note, sizeof(note),
		    "%zu programs and libraries have no file here, %s first: add an ids.txt, or "
		    "the files themselves",
		    t->no_file, t->missing);
		status = trace_set_note(t->set, note);
	}
	if (t->no_process && status >= 0) {
		snprintf(
		    note, sizeof(note),
		    "%zu programs and libraries are left out: the kernel's records do not name the "
		    "address space of their process",
		    t->no_process);
		status = trace_set_note(t->set, note);
	}
	return status;
}

static int add_insntrace_code(struct insntrace *t)
{
	static const char *const kernels[] = {"zircon.elf", "zircon.elf.debug", "kernel.elf"};
	const struct load *loads = t->loads.items;
	int status = 0;

	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels) && status >= 0; i++) {
		char path[PATH_SIZE];
		struct ptah_trace_code code = {
		    .size = sizeof(code), .kind = PTAH_TRACE_CODE_ELF, .file.path = path};

		if (snprintf(path, sizeof(path), "%s/%s", t->folder, kernels[i]) <
			(int)sizeof(path) &&
		    is_regular(path)) {
			status = ptah_trace_set_add_code(t->set, &code);
			break;
		}
	}
	for (size_t i = 0; i < t->loads.count && status >= 0; i++)
		status = add_load(t, &loads[i]);
	return status < 0 ? status : note_missing(t);
}

/* The paths of the list, its folder and its prefix, all absolute. */
static int find_parts(struct insntrace *t, const char *path)
{
	char name[PATH_SIZE] = "", other[PATH_SIZE] = "", *full = realpath(path, NULL);
	struct stat st;
	int n = -1;

	if (!full || stat(full, &st)) {
		free(full);
		return perfdata_system_message(t->why, errno, path, "open");
	}
	if (!S_ISDIR(st.st_mode)) {
		snprintf(name, sizeof(name), "%s", base_name(full));
		full[base_name(full) - full - 1] = '\0';
	} else if (find_list(full, name, other) != 1) {
		free(full);
		return perfdata_message(
		    t->why, PTAH_E_FOREIGN,
		    "%s: lists of several traces, %s and %s: give the path of one of "
		    "them",
		    path, name, other);
	}
	n = snprintf(t->folder, sizeof(t->folder), "%s", full);
	if (n < PATH_SIZE)
		n = snprintf(t->list, sizeof(t->list), "%s/%s", full, name);
	free(full);
	if (n >= PATH_SIZE)
		return perfdata_system_message(t->why, ENAMETOOLONG, path, "open");
	snprintf(t->prefix, sizeof(t->prefix), "%.*s",
		 (int)(strlen(t->list) - (list_rank(t->list) == 2 ? 8 : 7)), t->list);
	return 0;
}

static int read_files(struct insntrace *t, const char *path)
{
	char cpuid[PATH_SIZE + 8];
	int status = find_parts(t, path);

	if (status >= 0)
		status = read_lines(t, t->list, on_stream);
	if (status >= 0) {
		snprintf(cpuid, sizeof(cpuid), "%s.cpuid", t->prefix);
		status = read_lines(t, cpuid, on_cpuid);
		status = status == PTAH_E_MISSING ? 0 : status;
	}
	if (status >= 0)
		status = read_ktrace(t);
	if (status >= 0)
		status = ptah_trace_set_processor(t->set, &t->processor);
	if (status >= 0)
		status = read_texts(t);
	return status < 0 ? status : add_insntrace_code(t);
}

static int read_insntrace(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	struct insntrace *t = calloc(1, sizeof(*t));
	struct id *ids;
	int status;

	if (!t)
		return PTAH_E_NOMEM;
	t->set = set;
	t->why = why;
	t->processor.size = sizeof(t->processor);
	status = read_files(t, path);
	ids = t->ids.items;
	for (size_t i = 0; i < t->ids.count; i++) {
		free(ids[i].build_id);
		free(ids[i].path);
	}
	forget_loads(t);
	free(t->ids.items);
	free(t->loads.items);
	free(t->processes.items);
	free(t);
	return status;
}

const struct foreign_reader foreign_insntrace = {"Fuchsia's insntrace", is_insntrace,
						 read_insntrace};
