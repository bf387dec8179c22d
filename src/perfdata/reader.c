/* SPDX-License-Identifier: MIT */
/* Opens a recording, goes from record to record, and releases the pages that were read. */
#include "perfdata/file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int perfdata_bad(const struct perfdata_file *f, struct ptah_message *why, uint64_t offset,
		 const char *what)
{
	size_t i = f->part_count;

	if (offset >= PERFDATA_SPOOL_BASE)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: %s at offset %" PRIu64 " of what was compressed",
					f->path, what, offset - PERFDATA_SPOOL_BASE);
	while (i > 1 && f->parts[i - 1].base > offset)
		i--;
	return perfdata_message(why, PTAH_E_BAD_FILE, "%s: %s at offset %" PRIu64,
				i > 1 ? f->parts[i - 1].path : f->path, what,
				i ? offset - f->parts[i - 1].base : offset);
}

int perfdata_open(const char *path, struct perfdata_file **file, struct ptah_message *why)
{
	struct perfdata_file *f = calloc(1, sizeof(*f));
	int status;

	if (!f)
		return PTAH_E_NOMEM;
	f->path = strdup(path);
	status = f->path ? perfdata_map(f, path, why) : PTAH_E_NOMEM;
	if (status >= 0)
		status = perfdata_read_header(f, why);
	if (status < 0) {
		perfdata_close(f);
		return status;
	}
	*file = f;
	return 0;
}

void perfdata_close(struct perfdata_file *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->part_count; i++) {
		if (f->parts[i].bytes && !f->parts[i].shared)
			munmap((void *)(uintptr_t)f->parts[i].bytes, f->parts[i].size);
		free(f->parts[i].path);
	}
	if (f->spool)
		munmap((void *)(uintptr_t)f->spool, f->spool_size);
	free(f->parts);
	free(f->attrs);
	free(f->ids);
	free(f->places);
	free(f->more_build_ids);
	free(f->kcore);
	free(f->kallsyms);
	perfdata_buffer_free(&f->command);
	free((void *)(uintptr_t)f->path);
	free(f);
}

void perfdata_forget(const uint8_t *begin, const uint8_t *end)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)begin + page - 1) & ~(page - 1);
	uintptr_t to = (uintptr_t)end & ~(page - 1);

	/* A failure only means that the memory stays in use. */
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/*
 * Reading records touches pages all over the file. With each, the kernel also maps some pages
 * around it, and some of these had been released already. So each release begins FORGET_AGAIN bytes
 * before the end of the last one.
 */
#define FORGET_EVERY ((uint64_t)1 << 20)
#define FORGET_AGAIN ((uint64_t)1 << 16)

static void forget_behind(struct perfdata_part *part)
{
	if (part->at < part->forgotten || part->at - part->forgotten < FORGET_EVERY)
		return;
	perfdata_forget(part->bytes + part->forgotten -
			    (part->forgotten < FORGET_AGAIN ? part->forgotten : FORGET_AGAIN),
			part->bytes + part->at);
	part->forgotten = part->at;
}

/* The records being read. `at` and `end` are offsets from `bytes`. */
struct window {
	const uint8_t *bytes;
	uint64_t base; /* added to them for the offsets in records and messages */
	uint64_t *at, end;
	const struct perfdata_part *part; /* NULL: they were unpacked */
};

/*
 * The records end here although the header promised more. False: that is an error, because the
 * recorder ended properly. A pipe and bare records have no header that could say how much there is.
 */
static bool is_cut(struct perfdata_file *f, const struct window *w)
{
	if (!w->part)
		return false;
	if (f->bare && !f->truncated)
		f->cut = (size_t)(w->part - f->parts);
	f->truncated = f->truncated || f->pipe || f->bare;
	return f->unfinished || f->pipe || f->bare;
}

/* Takes the trace after a record, which belongs to it. PTAH_E_BAD_FILE: it is not complete. */
static int take_reader_trace(struct perfdata_file *f, const struct window *w, uint64_t size,
			     struct perfdata_record *record, struct ptah_message *why)
{
	const uint64_t left = w->end - *w->at;

	if (!w->part)
		return perfdata_bad(f, why, record->offset, "trace data in a compressed record");
	if (size > left) {
		if (!is_cut(f, w))
			return perfdata_bad(f, why, record->offset,
					    record->type == PERFDATA_AUXTRACE
						? "trace data that does not fit the data section,"
						: "tracing data that do not fit the data section,");
		size = left;
	}
	if (record->type == PERFDATA_AUXTRACE)
		record->trace_size = size;
	record->bytes = w->bytes + *w->at;
	*w->at += size;
	return 0;
}

/* Continues with the records inside a compressed one. */
static int enter_spool(struct perfdata_file *f, uint64_t offset, struct ptah_message *why)
{
	uint64_t size;
	int status = 0;

	if (f->bare)
		return perfdata_bad(f, why, offset,
				    "a compressed record, which only its recording can unpack,");
	if (!f->unpacked) {
		f->first_compressed = offset - f->parts[f->part].base;
		status = perfdata_unpack(f, why);
	}
	if (status < 0)
		return status;
	if (f->spool_size - f->spool_at < 8)
		return perfdata_bad(f, why, offset, "a compressed record that was not unpacked,");
	size = load_le64(f->spool + f->spool_at);
	f->spool_at += 8;
	if (size > f->spool_size - f->spool_at)
		return perfdata_bad(f, why, offset, "a compressed record that was not unpacked,");
	f->chunk_at = f->spool_at;
	f->spool_at = f->chunk_end = f->chunk_at + size;
	return 0;
}

/*
 * Bare records say what the kernel saw. Trace, and what belongs to streams of trace or to the whole
 * recording, is the business of the set that they are a part of.
 */
static bool is_read(const struct perfdata_file *f, uint32_t type)
{
	return !f->bare || type == PERFDATA_HEADER_EVENT_TYPE || type == PERFDATA_AUXTRACE ||
	       (type < PERFDATA_USER && type != PERFDATA_SAMPLE);
}

/* Adds what a bare record lacks. False: it is not used. */
static bool complete_bare(const struct perfdata_part *part, struct perfdata_record *record)
{
	if (record->type == PERFDATA_AUXTRACE || record->tag == PERFDATA_PTAH_TRUTH)
		return false;
	record->primary = part->primary;
	if (record->cpu < 0)
		record->cpu = part->cpu;
	/* A mapping of pid -1 is the kernel's. */
	if (record->pid < 0 && record->type != PERFDATA_MMAP && record->type != PERFDATA_MMAP2) {
		record->pid = part->pid;
		record->tid = part->tid;
	}
	/* Time 0 is that of a record which is valid from the beginning. */
	if (part->earlier > 0 && record->time <= (uint64_t)part->earlier)
		record->time = 0;
	else if (record->time)
		record->time -= (uint64_t)part->earlier;
	return true;
}

/* A file that got its size before its content ends with zeros, which are no record. */
static bool is_filling(const uint8_t *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return true;
}

/*
 * Reads one record. 1: *record is filled in, 0: the record is not used, PTAH_E_END: there is none.
 */
static int read_next_record(struct perfdata_file *f, const struct window *w,
			    struct perfdata_record *record, struct ptah_message *why)
{
	const uint64_t left = w->end - *w->at, offset = w->base + *w->at;
	const uint8_t *p = w->bytes + *w->at;
	struct reader r;
	uint64_t size;
	bool useful;
	int status;

	if (f->bare && is_filling(p, left))
		return PTAH_E_END;
	if (left < PERFDATA_RECORD_HEADER || load_le16(p + 6) > left)
		/* cut, because the recorder was killed */
		return is_cut(f, w) ? PTAH_E_END
				    : perfdata_bad(f, why, offset,
						   "a record does not fit the data section,");
	size = load_le16(p + 6);
	if (size < PERFDATA_RECORD_HEADER)
		return perfdata_bad(f, why, offset, "a record smaller than its header,");
	memset(record, 0, sizeof(*record));
	record->type = load_le32(p);
	record->offset = offset;
	record->raw = p;
	record->raw_size = (uint16_t)size;
	record->pid = record->tid = record->ppid = record->ptid = record->cpu = -1;
	r = (struct reader){p + PERFDATA_RECORD_HEADER, p + size, false};
	f->first_attr = w->part ? w->part->attr : 0;
	useful = is_read(f, record->type) && perfdata_read_record(f, &r, load_le16(p + 4), record);
	status = f->pipe && !r.failed ? perfdata_read_piped(f, &r, p, record->type, why) : 0;
	if (status < 0 && status != PTAH_E_BAD_FILE)
		return status;
	if (r.failed || status < 0)
		return perfdata_bad(f, why, offset, "a record that ends too early");
	*w->at += size;
	switch (record->type) {
	case PERFDATA_COMPRESSED:
	case PERFDATA_COMPRESSED2:
		return !w->part ? perfdata_bad(f, why, offset, "a compressed record in another one")
				: enter_spool(f, offset, why);
	case PERFDATA_AUXTRACE:
		status = take_reader_trace(f, w, record->trace_size, record, why);
		break;
	case PERFDATA_HEADER_TRACING_DATA:
		status =
		    size < 12
			? 0
			: take_reader_trace(f, w, (load_le32(p + 8) + UINT64_C(7)) & ~UINT64_C(7),
					    record, why);
		if (record->bytes && !f->tracing.p)
			f->tracing = (struct reader){record->bytes, w->bytes + *w->at, false};
		break;
	default:
		break;
	}
	if (useful && f->bare)
		useful = complete_bare(w->part, record);
	return status < 0 ? status : useful || f->all;
}

int perfdata_next(struct perfdata_file *f, struct perfdata_record *record, struct ptah_message *why)
{
	while (f->part < f->part_count) {
		struct perfdata_part *part = &f->parts[f->part];
		struct window w = {part->bytes, part->base, &part->at, part->end, part};
		int status;

		if (f->chunk_at < f->chunk_end) {
			w = (struct window){f->spool, PERFDATA_SPOOL_BASE, &f->chunk_at,
					    f->chunk_end, NULL};
		} else if (part->at >= part->end) {
			f->part++;
			continue;
		} else {
			forget_behind(part);
		}
		status = read_next_record(f, &w, record, why);
		if (status == PTAH_E_END)
			f->part++;
		else if (status)
			return status;
	}
	return 0;
}

bool perfdata_timing(const struct perfdata_file *f, struct perfdata_timing *timing)
{
	*timing = f->timing;
	return f->has_timing;
}

const char *perfdata_cpuid(const struct perfdata_file *f)
{
	return f->cpuid;
}

const char *perfdata_filter(const struct perfdata_file *f, size_t *n)
{
	*n = f->filter_size ? strnlen((const char *)f->filter, f->filter_size) : 0;
	return (const char *)f->filter;
}

enum perfdata_time_source perfdata_time_source(const struct perfdata_file *f)
{
	return f->time_source <= PERFDATA_TIME_SIMULATED ? f->time_source : PERFDATA_TIME_NOT_SAID;
}

bool perfdata_clock(const struct perfdata_file *f, struct perfdata_clock *clock)
{
	*clock = f->clock;
	return f->has_clock;
}

/* The window that contains a record's offset; `end` is 0 if none does. */
static struct window window_of(const struct perfdata_file *f, uint64_t offset, uint64_t *at)
{
	if (offset >= PERFDATA_SPOOL_BASE) {
		*at = offset - PERFDATA_SPOOL_BASE;
		return (struct window){f->spool, PERFDATA_SPOOL_BASE, at, f->spool_size, NULL};
	}
	for (size_t i = f->part_count; i-- > 0;) {
		const struct perfdata_part *part = &f->parts[i];

		if (part->base > offset)
			continue;
		*at = offset - part->base;
		return (struct window){part->bytes, part->base, at,
				       *at < part->start ? 0 : part->end, part};
	}
	return (struct window){0};
}

int perfdata_read_at(struct perfdata_file *f, uint64_t offset, struct perfdata_record *record)
{
	uint64_t at = 0;
	struct window w = window_of(f, offset, &at);
	int status;

	if (at >= w.end)
		return PTAH_E_INVAL;
	status = read_next_record(f, &w, record, NULL);
	if (!status)
		record->type = 0;
	return status < 0 ? PTAH_E_BAD_FILE : 0;
}

/* The entries of one list, but for those of virtual machines, until `visit` returns false. */
static bool visit_build_ids(struct reader r,
			    bool (*visit)(void *context, const struct perfdata_listed_file *file),
			    void *context)
{
	while (r.p && (size_t)(r.end - r.p) >= PERFDATA_BUILD_ID_FIXED) {
		const uint8_t *entry = r.p;
		const uint16_t misc = load_le16(entry + 4), size = load_le16(entry + 6);
		struct perfdata_listed_file file = {
		    .kernel = (misc & PERFDATA_MISC_CPUMODE) == PERFDATA_MISC_KERNEL,
		    .path = (const char *)entry + PERFDATA_BUILD_ID_FIXED,
		    .id.size = PERFDATA_BUILD_ID_MAX};

		if (size <= PERFDATA_BUILD_ID_FIXED || !reader_bytes(&r, size))
			break;
		if (misc & PERFDATA_MISC_BUILD_ID_SIZE && entry[32] <= PERFDATA_BUILD_ID_MAX)
			file.id.size = entry[32];
		memcpy(file.id.bytes, entry + 12, PERFDATA_BUILD_ID_MAX);
		/* A guest's also has the number of its process, where the host's has -1. */
		if (!perfdata_is_guest_mode(misc) && (int32_t)load_le32(entry + 8) <= 0 &&
		    memchr(file.path, '\0', (size_t)(size - PERFDATA_BUILD_ID_FIXED)) &&
		    !visit(context, &file))
			return false;
	}
	return true;
}

void perfdata_each_build_id(const struct perfdata_file *f,
			    bool (*visit)(void *context, const struct perfdata_listed_file *file),
			    void *context)
{
	bool more = visit_build_ids(f->build_ids, visit, context);

	for (size_t i = 0; i < f->build_id_count && more; i++)
		more = visit_build_ids(f->more_build_ids[i], visit, context);
}

void perfdata_keep_all(struct perfdata_file *f)
{
	f->all = true;
}

const uint8_t *perfdata_tracing_data(const struct perfdata_file *f, size_t *size)
{
	*size = f->tracing.p ? (size_t)(f->tracing.end - f->tracing.p) : 0;
	return f->tracing.p;
}

struct build_id_search {
	const char *path;
	struct perfdata_build_id *id;
	bool found;
};

static bool take_build_id(void *context, const struct perfdata_listed_file *file)
{
	struct build_id_search *search = context;

	search->found = !strcmp(file->path, search->path);
	if (search->found)
		*search->id = file->id;
	return !search->found;
}

bool perfdata_find_build_id(const struct perfdata_file *f, const char *path,
			    struct perfdata_build_id *id)
{
	struct build_id_search search = {.path = path, .id = id};

	perfdata_each_build_id(f, take_build_id, &search);
	return search.found;
}

uint32_t perfdata_auxtrace(const struct perfdata_file *f)
{
	return f->auxtrace;
}

bool perfdata_snapshot(const struct perfdata_file *f)
{
	return f->snapshot || f->aux_samples;
}

bool perfdata_per_cpu(const struct perfdata_file *f)
{
	return f->per_cpu;
}

bool perfdata_unfinished(const struct perfdata_file *f)
{
	return f->unfinished;
}

bool perfdata_truncated(const struct perfdata_file *f)
{
	return f->truncated;
}

uint64_t perfdata_size(const struct perfdata_file *f)
{
	return f->bare ? f->parts[f->cut].end : f->parts[0].size;
}

const char *perfdata_cut_path(const struct perfdata_file *f)
{
	return f->bare ? f->parts[f->cut].path : f->path;
}

const char *perfdata_kcore(const struct perfdata_file *f)
{
	return f->kcore;
}

const char *perfdata_kallsyms(const struct perfdata_file *f)
{
	return f->kallsyms;
}

bool perfdata_has_kernel(const struct perfdata_file *f)
{
	return f->kernel;
}

const char *perfdata_osrelease(const struct perfdata_file *f)
{
	return f->osrelease;
}

const char *perfdata_hostname(const struct perfdata_file *f)
{
	return f->hostname;
}

const char *perfdata_command(const struct perfdata_file *f)
{
	return f->command.size && !f->command.failed ? (const char *)f->command.bytes : NULL;
}
