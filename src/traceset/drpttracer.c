/* SPDX-License-Identifier: MIT */
/*
 * Reads what DynamoRIO's tracers leave of Intel PT.
 *
 * drmemtrace with -enable_kernel_tracing traces the kernel's part of each system call through its
 * extension drpttracer. A folder kernel.raw beside the traces of user code has kcore and kallsyms,
 * copied from /proc, and a file TID.raw.pt for each thread: the processor, then the packets of one
 * system call after the other. Before May 2023 these were files TID.INDEX.pt, with the processor in
 * TID.INDEX.pt.metadata.
 *
 * The tests of DynamoRIO's decoder drpt2trace have folders with the packets of one CPU in pt.bin,
 * and perf's records about them in files *.sideband.pevent.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The entries of a file TID.raw.pt: 5 bits of type above 59 of value, little-endian. */
enum entry_type {
	ENTRY_PID,
	ENTRY_TID,
	ENTRY_METADATA, /* value: bytes of metadata that follow */
	ENTRY_DATA,	/* value: bytes of the system call, see read_call() */
	ENTRY_SYSNUM,
	ENTRY_INDEX,
	ENTRY_ARGUMENTS, /* value: arguments of 8 bytes each between the entries and the packets */
};

#define HEAD	 24 /* pid, tid, metadata */
#define CALL	 48 /* pid, tid, data, sysnum, index, arguments */
#define METADATA 18 /* struct pt_metadata_t of drpttracer_shared.h */

#define PACKETS_FILE "pt.bin"
#define RECORDS_END  ".pevent"

static bool is_entry(const uint8_t *at, enum entry_type type)
{
	return at[7] >> 3 == type;
}

static uint64_t value_of(const uint8_t *at)
{
	return load_le64(at) & (UINT64_MAX >> 5);
}

static bool is_head(const uint8_t *at)
{
	return is_entry(at, ENTRY_PID) && is_entry(at + 8, ENTRY_TID) &&
	       is_entry(at + 16, ENTRY_METADATA) && value_of(at + 16) == METADATA;
}

/* Files */

struct file {
	const char *path;
	const uint8_t *bytes;
	size_t size;
};

static int open_drpttracer_file(struct file *file, const char *path, struct ptah_message *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	void *bytes = NULL;

	*file = (struct file){.path = path};
	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return perfdata_message(why, PTAH_E_BAD_FILE, "%s: not a regular file", path);
	}
	if (st.st_size)
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return perfdata_system_message(why, errno, path, "map");
	file->bytes = bytes;
	file->size = (size_t)st.st_size;
	return 0;
}

static void close_file(struct file *file)
{
	if (file->bytes)
		munmap((void *)(uintptr_t)file->bytes, file->size);
	file->bytes = NULL;
}

static bool starts_with_head(const char *path)
{
	uint8_t head[HEAD];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

	if (fd >= 0)
		close(fd);
	return n == sizeof(head) && is_head(head);
}

static bool ends_with(const char *name, const char *end)
{
	const size_t n = strlen(name), e = strlen(end);

	return n > e && !strcmp(name + n - e, end);
}

/* FOLDER/NAME; the caller frees it. NULL: out of memory, or `exists` and there is no such file. */
static char *join_trace_path(const char *folder, const char *name, bool exists)
{
	char *path;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		return NULL;
	if (!exists || !access(path, F_OK))
		return path;
	free(path);
	return NULL;
}

/* Folders */

enum kind {
	NONE,
	THREADS, /* TID.raw.pt */
	CALLS,	 /* TID.INDEX.pt, TID.INDEX.pt.metadata */
	RECORDS, /* pt.bin, *.pevent */
};

/* A file of packets: that of a thread, or of its system call `index`. */
struct name {
	char *text;
	uint64_t tid, index;
};

struct names {
	struct name *list;
	size_t count, capacity;
};

static void free_names(struct names *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->list[i].text);
	free(names->list);
}

static int by_drpttracer_thread(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return COMPARE_THEN(x->tid, y->tid,
			    COMPARE_THEN(x->index, y->index, strcmp(x->text, y->text)));
}

static int add_drpttracer_name(struct names *names, const char *text)
{
	struct name *name;
	char *end;

	if (!LIST_ROOM(names->list, names->count, names->capacity))
		return PTAH_E_NOMEM;
	name = &names->list[names->count];
	name->text = strdup(text);
	if (!name->text)
		return PTAH_E_NOMEM;
	names->count++;
	name->tid = strtoull(text, &end, 10);
	name->index = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
	return 0;
}

static bool is_of(const char *folder, const char *name, enum kind kind)
{
	char *path = NULL;
	bool is = false;

	if (kind == RECORDS)
		return ends_with(name, RECORDS_END);
	if (!ends_with(name, ".pt"))
		return false;
	if (kind == CALLS) {
		if (asprintf(&path, "%s/%s.metadata", folder, name) < 0)
			return false;
		is = !access(path, F_OK);
	} else {
		path = join_trace_path(folder, name, false);
		is = path && starts_with_head(path);
	}
	free(path);
	return is;
}

/* Lists the files of a kind in the folder, in the order of threads; with `first`, one of them. */
static int list_drpttracer_names(const char *folder, enum kind kind, bool first,
				 struct names *names)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	int status = 0;

	*names = (struct names){NULL, 0, 0};
	while (dir && status >= 0 && !(first && names->count) && (entry = readdir(dir)))
		if (is_of(folder, entry->d_name, kind))
			status = add_drpttracer_name(names, entry->d_name);
	if (dir)
		closedir(dir);
	if (names->count)
		qsort(names->list, names->count, sizeof(*names->list), by_drpttracer_thread);
	return status;
}

static enum kind kind_of(const char *folder)
{
	static const enum kind kinds[] = {THREADS, CALLS, RECORDS};
	char *packets;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct names names;
		bool has;

		has = list_drpttracer_names(folder, kinds[i], true, &names) >= 0 && names.count;
		free_names(&names);
		if (has && kinds[i] != RECORDS)
			return kinds[i];
		packets = has ? join_trace_path(folder, PACKETS_FILE, true) : NULL;
		free(packets);
		if (packets)
			return RECORDS;
	}
	return NONE;
}

/* The folder itself, or its kernel.raw. Sets *kind; the caller frees the path. NULL: none. */
static char *find_folder(const char *path, enum kind *kind)
{
	char *folder = strdup(path);

	*kind = folder ? kind_of(folder) : NONE;
	if (folder && *kind == NONE) {
		free(folder);
		folder = join_trace_path(path, "kernel.raw", true);
		*kind = folder ? kind_of(folder) : NONE;
	}
	if (*kind != NONE)
		return folder;
	free(folder);
	return NULL;
}

static bool is_folder(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool is_drpttracer(const char *path)
{
	enum kind kind;
	char *folder;

	if (!is_folder(path))
		return starts_with_head(path);
	folder = find_folder(path, &kind);
	free(folder);
	return folder != NULL;
}

/* What is read */

struct reading {
	struct ptah_trace_set *set;
	struct ptah_message *why;
	bool has_processor, differs; /* differs: the files are of different processors */
	uint64_t calls;
	char *cut; /* the file that ends in the middle of a system call; NULL: none */
};

static int take_metadata(struct reading *r, const uint8_t *at)
{
	const struct ptah_cpu *known = &r->set->processor.cpu;
	struct ptah_trace_processor p = {
	    .size = sizeof(p),
	    .cpu = {.family = load_le16(at), .model = at[2], .stepping = at[3]},
	    .trace.os = true,
	    .time_shift = load_le16(at + 4),
	    .time_mult = load_le32(at + 6),
	    .time_zero = load_le64(at + 10),
	};

	if (r->has_processor) {
		r->differs = r->differs || known->family != p.cpu.family ||
			     known->model != p.cpu.model || known->stepping != p.cpu.stepping;
		return 0;
	}
	r->has_processor = true;
	p.has_clock = p.time_mult && p.time_shift < 64;
	return ptah_trace_set_processor(r->set, &p);
}

/* The packets of a system call, which are a trace of their own if they begin with a PSB. */
static int add_packets(struct reading *r, const struct file *file, size_t from, size_t to,
		       uint64_t pid, uint64_t tid)
{
	static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
					2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream),
	    .file = {file->path, from, to},
	    .cpu = -1,
	    .pid = pid && pid <= INT32_MAX ? (int32_t)pid : -1,
	    .tid = tid && tid <= INT32_MAX ? (int32_t)tid : -1,
	    .separate = to - from >= sizeof(psb) && !memcmp(file->bytes + from, psb, sizeof(psb)),
	};

	r->calls++;
	return from == to ? 0 : ptah_trace_set_add_stream(r->set, &stream);
}

/* A thread's file */

struct call {
	uint64_t pid, tid;
	size_t from, to; /* its packets */
	bool cut;	 /* the file ends before them */
};

/*
 * Reads the system call at an offset. Since October 2023 its size counts all six entries, and
 * before that only the last three. False: there is none.
 */
static bool read_call(const struct file *file, size_t offset, bool old, struct call *call)
{
	const uint8_t *at = file->bytes + offset;
	const size_t counted = old ? CALL / 2 : CALL;
	uint64_t size, arguments;

	if (file->size - offset < CALL)
		return false;
	for (unsigned i = 0; i < 6; i++)
		if (!is_entry(at + 8 * i, i < 2 ? (enum entry_type)i : (enum entry_type)(i + 1)))
			return false;
	size = value_of(at + 16);
	arguments = value_of(at + 40);
	if (size < counted || arguments > (size - counted) / 8)
		return false;
	size -= counted;
	*call = (struct call){.pid = value_of(at), .tid = value_of(at + 8)};
	call->cut = size > file->size - offset - CALL;
	call->to = call->cut ? file->size : offset + CALL + (size_t)size;
	call->from = offset + CALL + (size_t)(8 * arguments);
	call->from = call->from < call->to ? call->from : call->to;
	return true;
}

/* The offset at which the system calls end: that of the file's end if all of them can be read. */
static size_t follow_calls(const struct file *file, bool old)
{
	size_t offset = HEAD + METADATA;
	struct call call;

	while (offset < file->size && read_call(file, offset, old, &call))
		offset = call.to;
	return offset;
}

/* Whether the file ends here, or in the first entries of a call, which are those of all calls. */
static bool is_cut_entry(const struct file *file, size_t offset)
{
	const size_t rest = file->size - offset;

	return rest < CALL && !memcmp(file->bytes + offset, file->bytes, rest < 16 ? rest : 16);
}

static int read_drpttracer_thread(struct reading *r, const struct file *file)
{
	size_t offset = HEAD + METADATA, end;
	struct call call = {0};
	bool old = false;
	int status;

	if (file->size < HEAD + METADATA || !is_head(file->bytes))
		return perfdata_message(r->why, PTAH_E_BAD_FILE,
					"%s: does not begin with the processor's data, as "
					"DynamoRIO's traces of system calls do",
					file->path);
	status = take_metadata(r, file->bytes + HEAD);
	end = follow_calls(file, false);
	if (!is_cut_entry(file, end) && follow_calls(file, true) == file->size) {
		old = true;
		end = file->size;
	}
	if (end != file->size && file->size - end >= CALL)
		return perfdata_message(
		    r->why, PTAH_E_BAD_FILE,
		    "%s: there is no system call's trace at offset %zu; copy the file again",
		    file->path, end);
	while (status >= 0 && offset < end && read_call(file, offset, old, &call)) {
		status = add_packets(r, file, call.from, call.to, call.pid, call.tid);
		offset = call.to;
	}
	if (status >= 0 && (call.cut || end != file->size) && !r->cut) {
		r->cut = strdup(file->path);
		status = r->cut ? 0 : PTAH_E_NOMEM;
	}
	return status;
}

/* The files of a thread's system calls, before May 2023 */

static int read_metadata(struct reading *r, const char *path)
{
	struct file file;
	char *name;
	int status;

	if (asprintf(&name, "%s.metadata", path) < 0)
		return PTAH_E_NOMEM;
	status = open_drpttracer_file(&file, name, r->why);
	if (status >= 0 && file.size != METADATA)
		status =
		    perfdata_message(r->why, PTAH_E_BAD_FILE,
				     "%s: has %zu bytes, but the processor's data are %d; copy "
				     "the file again",
				     name, file.size, METADATA);
	if (status >= 0)
		status = take_metadata(r, file.bytes);
	close_file(&file);
	free(name);
	return status;
}

static int read_call_file(struct reading *r, const struct file *file, const struct name *name)
{
	int status = read_metadata(r, file->path);

	return status < 0 ? status : add_packets(r, file, 0, file->size, 0, name->tid);
}

/* The folders of drpt2trace's tests */

/* What perf's tool gives every event: TID, TIME, CPU, IDENTIFIER, which take 32 bytes. */
#define SAMPLE_TYPE UINT64_C(0x10086)
#define TRAILER	    32

/* perf's tool numbers its own records from here on; they have no trailer. */
#define FIRST_OF_TOOL 64
#define TIME_CONV     79 /* the clock: shift, mult, zero */

struct records {
	bool clock;
	uint16_t shift;
	uint32_t mult;
	uint64_t zero;
	int32_t cpu;	/* of all of them; -1: of several, or not known */
	size_t strange; /* the offset of a record that does not end like that; SIZE_MAX: none */
};

static void look_at_record(struct records *r, const uint8_t *at, size_t offset, size_t size,
			   bool *first)
{
	const uint32_t type = load_le32(at);
	int32_t cpu;

	if (type == TIME_CONV && size >= 32 && !r->clock) {
		r->shift = load_le64(at + 8) < 64 ? (uint16_t)load_le64(at + 8) : 64;
		r->mult = (uint32_t)load_le64(at + 16);
		r->zero = load_le64(at + 24);
		r->clock = r->shift < 64 && r->mult;
	}
	if (type >= FIRST_OF_TOOL)
		return;
	if (size < 8 + TRAILER || load_le32(at + size - 12) ||
	    load_le32(at + size - 16) > INT32_MAX) {
		r->strange = r->strange < offset ? r->strange : offset;
		return;
	}
	cpu = (int32_t)load_le32(at + size - 16);
	r->cpu = *first || r->cpu == cpu ? cpu : -1;
	*first = false;
}

/* Only the sizes of records are relied on. Records that are damaged are left to the session. */
static void look_at_records(struct records *r, const struct file *file)
{
	bool first = true;

	*r = (struct records){.cpu = -1, .strange = SIZE_MAX};
	for (size_t at = 0; file->size - at >= 8;) {
		const size_t size = load_le16(file->bytes + at + 6);

		if (size < 8 || size > file->size - at)
			return;
		look_at_record(r, file->bytes + at, at, size, &first);
		at += size;
	}
}

static int set_clock(struct reading *r, const struct records *records)
{
	struct ptah_trace_processor p = {
	    .size = sizeof(p),
	    .has_clock = true,
	    .time_shift = records->shift,
	    .time_mult = records->mult,
	    .time_zero = records->zero,
	};

	if (!records->clock || r->has_processor)
		return 0;
	r->has_processor = true;
	return ptah_trace_set_processor(r->set, &p);
}

static int read_drpttracer_records(struct reading *r, const struct file *file,
				   const struct name *name, int32_t *cpu)
{
	const struct ptah_trace_sideband sideband = {.size = sizeof(sideband),
						     .file.path = file->path,
						     .sample_type = SAMPLE_TYPE,
						     .cpu = -1};
	struct records records;
	int status;

	if (!file->size)
		return 0;
	look_at_records(&records, file);
	if (records.strange != SIZE_MAX)
		return perfdata_message(
		    r->why, PTAH_E_UNSUPPORTED,
		    "%s: the record at offset %zu does not end with thread, time, CPU and id "
		    "(sample_type 0x10086), as perf's do by default: write a ptah.trace that names "
		    "this file with its sample-type",
		    file->path, records.strange);
	if (!strncmp(name->text, "primary", 7) || *cpu < 0)
		*cpu = records.cpu;
	status = set_clock(r, &records);
	return status < 0 ? status : ptah_trace_set_add_sideband(r->set, &sideband);
}

static int read_packets(struct reading *r, const char *folder, int32_t cpu)
{
	char *path = join_trace_path(folder, PACKETS_FILE, false);
	const struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .file.path = path, .cpu = cpu};
	const struct ptah_trace_system system = {.size = sizeof(system), .root = folder};
	int status = path ? ptah_trace_set_add_stream(r->set, &stream) : PTAH_E_NOMEM;

	free(path);
	return status < 0 ? status : ptah_trace_set_system(r->set, &system);
}

/* All */

static int read_name(struct reading *r, const char *folder, const struct name *name, enum kind kind,
		     int32_t *cpu)
{
	char *path = join_trace_path(folder, name->text, false);
	struct file file = {0};
	int status = path ? open_drpttracer_file(&file, path, r->why) : PTAH_E_NOMEM;

	if (status >= 0)
		status = kind == THREADS ? read_drpttracer_thread(r, &file)
			 : kind == CALLS ? read_call_file(r, &file, name)
					 : read_drpttracer_records(r, &file, name, cpu);
	close_file(&file);
	free(path);
	return status;
}

/* Whoever keeps the kernel's code has traced the kernel. */
static int set_kernel_traced(struct reading *r)
{
	struct ptah_trace_processor p = r->set->processor;

	p.size = sizeof(p);
	p.trace.os = true;
	return ptah_trace_set_processor(r->set, &p);
}

static int add_drpttracer_kernel(struct reading *r, const char *folder)
{
	char *kcore = join_trace_path(folder, "kcore", true),
	     *kallsyms = join_trace_path(folder, "kallsyms", true);
	const struct ptah_trace_system system = {
	    .size = sizeof(system), .kcore = kcore, .kallsyms = kallsyms};
	int status = ptah_trace_set_system(r->set, &system);

	if (status >= 0 && kcore)
		status = set_kernel_traced(r);
	if (status >= 0 && !kcore && r->calls)
		status = trace_set_note(
		    r->set, "the kernel's code was not copied when this was traced (kcore)");
	free(kcore);
	free(kallsyms);
	return status;
}

static int add_notes(struct reading *r)
{
	char text[512];
	int status = 0;

	if (r->calls) {
		snprintf(text, sizeof(text),
			 "DynamoRIO traced the kernel's part of %" PRIu64
			 " system calls; user code is not in the packets",
			 r->calls);
		status = trace_set_note(r->set, text);
	}
	if (status >= 0 && r->differs)
		status = trace_set_note(r->set, "the threads' files name different processors; the "
						"first one's is used");
	if (status >= 0 && r->cut) {
		snprintf(text, sizeof(text), "%.400s ends in the middle of a system call", r->cut);
		status = trace_set_note(r->set, text);
	}
	return status;
}

static int read_folder(struct reading *r, const char *folder, enum kind kind)
{
	struct names names;
	int32_t cpu = -1;
	int status = list_drpttracer_names(folder, kind, false, &names);

	for (size_t i = 0; i < names.count && status >= 0; i++)
		status = read_name(r, folder, &names.list[i], kind, &cpu);
	if (status >= 0 && kind == RECORDS)
		status = read_packets(r, folder, cpu);
	free_names(&names);
	return status < 0 ? status : add_drpttracer_kernel(r, folder);
}

/* One thread's file. The kernel's code lies beside it. */
static int read_file(struct reading *r, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
	struct file file = {0};
	int status = folder ? open_drpttracer_file(&file, path, r->why) : PTAH_E_NOMEM;

	if (status >= 0)
		status = read_drpttracer_thread(r, &file);
	close_file(&file);
	if (status >= 0)
		status = add_drpttracer_kernel(r, folder);
	free(folder);
	return status;
}

static int read_drpttracer(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	struct reading r = {.set = set, .why = why};
	char *full = realpath(path, NULL), *folder = NULL;
	enum kind kind = NONE;
	int status = PTAH_E_NOMEM;

	if (!full)
		status = perfdata_system_message(why, errno, path, "open");
	else if (!is_folder(full))
		status = read_file(&r, full);
	else if ((folder = find_folder(full, &kind)))
		status = read_folder(&r, folder, kind);
	if (status >= 0)
		status = add_notes(&r);
	free(r.cut);
	free(folder);
	free(full);
	return status;
}

const struct foreign_reader foreign_drpttracer = {"DynamoRIO's traces", is_drpttracer,
						  read_drpttracer};
