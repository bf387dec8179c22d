/* SPDX-License-Identifier: MIT */
#include "perfdata/writer.h"

#include "base/bits.h"
#include "perfdata/buffer.h"
#include "perfdata/build_id.h"
#include "perfdata/format.h"
#include "perfdata/message.h"

#include <ptah/rtit.h>
#include <ptah/version.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PMU_TYPE     8 /* intel_pt's number on most machines; AUXTRACE_INFO repeats it */
#define EVENT_ID     1
#define EVENT_NAME   "intel_pt//u"
#define ATTR_ENTRY   (PERFDATA_ATTR_SIZE + PERFDATA_SECTION_SIZE)
#define WRITE_BEHIND (64u << 10)
#define MAX_RECORD   65528 /* a record's size is a u16, and ours are multiples of 8 */

/* A file that was mapped: its build id is read once and listed in the header. */
struct file {
	struct file *next;
	int32_t pid;
	struct perfdata_build_id id;
	char path[];
};

/* How far a stream has been written, padding included. */
struct stream {
	uint32_t index;
	uint64_t size;
};

/* An event of ours: a copy. */
struct event {
	char *name;
	uint64_t *ids;
	size_t id_count;
	uint8_t attr[PERFDATA_ATTR_SIZE];
};

struct perfdata_writer {
	int fd;
	int status;
	bool regular, renamed;
	char *path, *old_path;
	struct perfdata_clock clock;
	uint64_t size; /* of the data section, as far as written or buffered */
	struct perfdata_buffer pending;
	struct file *files;
	struct stream *streams;
	size_t stream_count;
	char **command;
	struct ptah_message why;
	struct event *events;
	size_t event_count;
	uint64_t event_id;    /* of the records that are made here */
	uint64_t data_offset; /* behind the header, the ids and the attributes */
	uint32_t pmu_type;
	char *pmus, *cpuid;
	bool indexed; /* the header is to list the AUXTRACE records */
	struct perfdata_buffer index;
	int (*take)(void *context, const struct perfdata_piece *piece);
	void *context;
};

/* Output */

static int fail(struct perfdata_writer *w, int status)
{
	if (w->status >= 0)
		w->status = status;
	return w->status;
}

static int fail_system(struct perfdata_writer *w, const char *what)
{
	if (w->status < 0)
		return w->status;
	return fail(w, perfdata_system_message(&w->why, errno, w->path, what));
}

static bool write_at(int fd, const void *bytes, size_t n, uint64_t offset)
{
	const uint8_t *p = bytes;

	while (n) {
		ssize_t k = pwrite(fd, p, n, (off_t)offset);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			if (!k)
				errno = ENOSPC;
			return false;
		}
		p += k;
		offset += (uint64_t)k;
		n -= (size_t)k;
	}
	return true;
}

/* Writes what is buffered. w->size already counts it. */
static int write_pending(struct perfdata_writer *w)
{
	if (w->status < 0)
		return w->status;
	if (w->pending.failed)
		return fail(w,
			    perfdata_message(&w->why, PTAH_E_NOMEM, "%s: out of memory", w->path));
	if (w->take)
		return 0;
	if (w->pending.size && !write_at(w->fd, w->pending.bytes, w->pending.size,
					 w->data_offset + w->size - w->pending.size))
		return fail_system(w, "write");
	w->pending.size = 0;
	return 0;
}

/* Records */

/* Begins a record of `size` bytes, which is a multiple of 8. */
static void begin(struct perfdata_writer *w, uint32_t type, uint16_t misc, size_t size)
{
	perfdata_put32(&w->pending, type);
	perfdata_put16(&w->pending, misc);
	perfdata_put16(&w->pending, (uint16_t)size);
	w->size += size;
}

/* Gives a piece away. What a callback answers is its own affair, but it ends the writer. */
static int hand_over(struct perfdata_writer *w, const struct perfdata_piece *piece)
{
	int status = w->status < 0 ? w->status : w->take(w->context, piece);

	return status < 0 && w->status >= 0
		   ? fail(w, perfdata_message(&w->why, status, "the output was refused: %s",
					      ptah_strerror(status)))
		   : w->status;
}

static int hand_over_record(struct perfdata_writer *w)
{
	const struct perfdata_piece piece = {
	    .tid = -1, .cpu = -1, .bytes = w->pending.bytes, .size = w->pending.size};
	int status = write_pending(w); /* out of memory? */

	if (status >= 0)
		status = hand_over(w, &piece);
	w->pending.size = 0;
	return status;
}

static int end(struct perfdata_writer *w)
{
	if (w->take)
		return hand_over_record(w);
	return w->pending.size >= WRITE_BEHIND || w->pending.failed ? write_pending(w) : w->status;
}

static uint64_t to_time(const struct perfdata_writer *w, uint64_t tsc)
{
	const struct perfdata_clock *c = &w->clock;
	uint64_t quotient = tsc >> c->shift;
	uint64_t rest = tsc & ((UINT64_C(1) << c->shift) - 1);

	return c->zero + quotient * c->mult + (rest * c->mult >> c->shift);
}

#define SAMPLE_ID_SIZE 32

static void put_sample_id(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc)
{
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put64(&w->pending, to_time(w, tsc));
	perfdata_put32(&w->pending, 0); /* cpu */
	perfdata_put32(&w->pending, 0);
	perfdata_put64(&w->pending, w->event_id);
}

static size_t string_size(const char *text)
{
	return (strlen(text) + 8) & ~(size_t)7;
}

int perfdata_write_comm(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			bool exec, const char *comm)
{
	char name[16];

	snprintf(name, sizeof(name), "%s", comm);
	begin(w, PERFDATA_COMM, exec ? PERFDATA_MISC_COMM_EXEC : 0,
	      8 + 8 + string_size(name) + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put_string(&w->pending, name, 8);
	put_sample_id(w, pid, tid, tsc);
	return end(w);
}

static int write_task(struct perfdata_writer *w, uint32_t type, int32_t pid, int32_t tid,
		      int32_t ppid, int32_t ptid, uint64_t tsc)
{
	begin(w, type, 0, 8 + 24 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)ppid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put32(&w->pending, (uint32_t)ptid);
	perfdata_put64(&w->pending, to_time(w, tsc));
	put_sample_id(w, pid, tid, tsc);
	return end(w);
}

int perfdata_write_fork(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc)
{
	return write_task(w, PERFDATA_FORK, pid, tid, ppid, ptid, tsc);
}

int perfdata_write_exit(struct perfdata_writer *w, int32_t pid, int32_t tid, int32_t ppid,
			int32_t ptid, uint64_t tsc)
{
	return write_task(w, PERFDATA_EXIT, pid, tid, ppid, ptid, tsc);
}

int perfdata_write_itrace_start(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc)
{
	begin(w, PERFDATA_ITRACE_START, 0, 8 + 8 + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	put_sample_id(w, pid, tid, tsc);
	return end(w);
}

static const struct file *file_of(struct perfdata_writer *w, const char *path, int32_t pid)
{
	size_t n = strlen(path) + 1;
	struct file *f;

	for (f = w->files; f; f = f->next)
		if (!strcmp(f->path, path))
			return f;
	f = malloc(sizeof(*f) + n);
	if (!f)
		return NULL;
	memcpy(f->path, path, n);
	f->pid = pid;
	/* A file that cannot be read has no id: what matters is told when it is decoded. */
	if (perfdata_build_id_read(path, &f->id) < 0)
		f->id.size = 0;
	f->next = w->files;
	w->files = f;
	return f;
}

int perfdata_write_mmap2(struct perfdata_writer *w, int32_t pid, int32_t tid, uint64_t tsc,
			 uint64_t address, uint64_t size, uint64_t file_offset, uint32_t prot,
			 const char *path)
{
	const struct file *file = file_of(w, path, pid);
	bool id = file && file->id.size;

	if (string_size(path) > 4096 + 8)
		return fail(w, perfdata_message(&w->why, PTAH_E_LIMIT,
						"the path of a mapped file is too long"));
	begin(w, PERFDATA_MMAP2,
	      (uint16_t)(PERFDATA_MISC_USER | (id ? PERFDATA_MISC_MMAP_BUILD_ID : 0)),
	      8 + 8 + 24 + 24 + 8 + string_size(path) + SAMPLE_ID_SIZE);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put64(&w->pending, address);
	perfdata_put64(&w->pending, size);
	perfdata_put64(&w->pending, file_offset);
	if (id) {
		perfdata_put32(&w->pending, file->id.size);
		perfdata_put(&w->pending, file->id.bytes, sizeof(file->id.bytes));
	} else {
		perfdata_put(&w->pending, NULL, 24); /* device and inode are not known */
	}
	perfdata_put32(&w->pending, prot);
	perfdata_put32(&w->pending, 2); /* MAP_PRIVATE */
	perfdata_put_string(&w->pending, path, 8);
	put_sample_id(w, pid, tid, tsc);
	return end(w);
}

/* Trace */

static struct stream *stream_of(struct perfdata_writer *w, uint32_t index)
{
	struct stream *streams;

	for (size_t i = w->stream_count; i-- > 0;)
		if (w->streams[i].index == index)
			return &w->streams[i];
	streams = realloc(w->streams, (w->stream_count + 1) * sizeof(*streams));
	if (!streams)
		return NULL;
	w->streams = streams;
	streams[w->stream_count] = (struct stream){index, 0};
	return &streams[w->stream_count++];
}

/*
 * One AUXTRACE record. As perf's own, it is filled up to a multiple of eight
 * with PAD, and it must not end inside a packet: perf does not join packets
 * that lie in two records.
 */
int perfdata_write_aux(struct perfdata_writer *w, const struct perfdata_aux *aux)
{
	const struct perfdata_piece piece = {
	    .trace = true,
	    .stream = aux->index,
	    .tid = aux->tid,
	    .cpu = aux->cpu,
	    .offset = aux->offset,
	    .bytes = aux->bytes,
	    .size = aux->size,
	};
	size_t padding = -aux->size & 7;

	if (w->status < 0 || !aux->size)
		return w->status;
	if (w->take)
		return hand_over(w, &piece);
	if (w->indexed) {
		perfdata_put64(&w->index, w->data_offset + w->size);
		perfdata_put64(&w->index, PERFDATA_AUXTRACE_HEADER);
	}
	begin(w, PERFDATA_AUXTRACE, 0, PERFDATA_AUXTRACE_HEADER);
	perfdata_put64(&w->pending, aux->size + padding);
	perfdata_put64(&w->pending, aux->offset);
	perfdata_put64(&w->pending, aux->reference);
	perfdata_put32(&w->pending, aux->index);
	perfdata_put32(&w->pending, (uint32_t)aux->tid);
	perfdata_put32(&w->pending, (uint32_t)aux->cpu);
	perfdata_put32(&w->pending, 0);
	if (write_pending(w) < 0)
		return w->status;
	if (!write_at(w->fd, aux->bytes, aux->size, w->data_offset + w->size))
		return fail_system(w, "write");
	w->size += aux->size;
	perfdata_put(&w->pending, NULL, padding);
	w->size += padding;
	return end(w);
}

int perfdata_write_auxtrace(struct perfdata_writer *w, uint32_t index, int32_t tid,
			    const void *bytes, size_t size)
{
	struct stream *s = stream_of(w, index);
	struct perfdata_aux aux = {
	    .index = index,
	    .tid = tid,
	    .cpu = -1,
	    /* Where perf takes the TSC's highest byte from; with 0 it knows no time at all. */
	    .reference = 1,
	    .bytes = bytes,
	    .size = size,
	};

	if (w->status < 0 || !size)
		return w->status;
	if (!s)
		return fail(w,
			    perfdata_message(&w->why, PTAH_E_NOMEM, "%s: out of memory", w->path));
	aux.offset = s->size;
	/* In a file the next piece lies behind the padding. */
	s->size += w->take ? size : (size + 7) & ~(size_t)7;
	return perfdata_write_aux(w, &aux);
}

/* The file of an MMAP2 record without a build id, for the header's list. */
static void list_file(struct perfdata_writer *w, const uint8_t *record, size_t size)
{
	const size_t path = PERFDATA_RECORD_HEADER + 64;

	if (load_le32(record) == PERFDATA_MMAP2 && size > path && record[path] == '/' &&
	    !(load_le16(record + 4) & PERFDATA_MISC_MMAP_BUILD_ID) &&
	    memchr(record + path, '\0', size - path))
		file_of(w, (const char *)record + path, (int32_t)load_le32(record + 8));
}

int perfdata_write_raw(struct perfdata_writer *w, const void *record, size_t size)
{
	if (w->status < 0)
		return w->status;
	if (size < PERFDATA_RECORD_HEADER || size % 8 || size > MAX_RECORD)
		return fail(w, perfdata_message(&w->why, PTAH_E_INVAL,
						"a record of %zu bytes is not one", size));
	list_file(w, record, size);
	perfdata_put(&w->pending, record, size);
	w->size += size;
	return end(w);
}

int perfdata_skip_auxtrace(struct perfdata_writer *w, uint32_t index, uint64_t size)
{
	struct stream *s = stream_of(w, index);

	if (!s)
		return fail(w,
			    perfdata_message(&w->why, PTAH_E_NOMEM, "%s: out of memory", w->path));
	s->size += (size + 7) & ~UINT64_C(7);
	return w->status;
}

/* Ptah's own records (docs/perf-data.md) */

static void begin_ptah(struct perfdata_writer *w, uint32_t tag, size_t n)
{
	begin(w, PERFDATA_HEADER_EVENT_TYPE, 0, 8 + 16 + ((n + 7) & ~(size_t)7));
	perfdata_put32(&w->pending, PERFDATA_PTAH_MAGIC);
	perfdata_put32(&w->pending, PERFDATA_PTAH_VERSION);
	perfdata_put32(&w->pending, tag);
	perfdata_put32(&w->pending, (uint32_t)n);
}

static void put_padded(struct perfdata_writer *w, const void *bytes, size_t n)
{
	perfdata_put(&w->pending, bytes, n);
	if (n % 8)
		perfdata_put(&w->pending, NULL, 8 - n % 8);
}

int perfdata_add_truth(struct perfdata_writer *w, uint32_t index, int32_t pid, int32_t tid,
		       const struct ptah_truth *truth, uint64_t lost)
{
	begin_ptah(w, PERFDATA_PTAH_TRUTH, PERFDATA_PTAH_TRUTH_SIZE);
	perfdata_put32(&w->pending, index);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)tid);
	perfdata_put32(&w->pending, 0);
	perfdata_put64(&w->pending, truth->instructions);
	perfdata_put64(&w->pending, truth->conditional);
	perfdata_put64(&w->pending, truth->indirect);
	perfdata_put64(&w->pending, truth->returns);
	perfdata_put64(&w->pending, truth->path_hash);
	perfdata_put64(&w->pending, lost);
	return end(w);
}

int perfdata_add_code(struct perfdata_writer *w, int32_t pid, uint64_t tsc, uint64_t address,
		      const void *bytes, size_t size)
{
	if (size > MAX_RECORD - 64)
		return fail(w,
			    perfdata_message(&w->why, PTAH_E_LIMIT, "a piece of code is too long"));
	begin_ptah(w, PERFDATA_PTAH_CODE, PERFDATA_PTAH_CODE_HEADER + size);
	perfdata_put32(&w->pending, (uint32_t)pid);
	perfdata_put32(&w->pending, (uint32_t)size);
	perfdata_put64(&w->pending, tsc);
	perfdata_put64(&w->pending, address);
	put_padded(w, bytes, size);
	return end(w);
}

int perfdata_add_note(struct perfdata_writer *w, const char *text)
{
	size_t n = strnlen(text, 4096);

	begin_ptah(w, PERFDATA_PTAH_NOTE, n);
	put_padded(w, text, n);
	return end(w);
}

/* The header */

static void build_attr(uint8_t *attr, const struct perfdata_writer_config *c)
{
	uint64_t config = PERFDATA_PT_PT | PERFDATA_PT_BRANCH | (c->tsc ? PERFDATA_PT_TSC : 0) |
			  (c->retcomp ? 0 : PERFDATA_PT_NORETCOMP) |
			  (c->mtc ? PERFDATA_PT_MTC : 0) | (c->cyc ? PERFDATA_PT_CYC : 0) |
			  (uint64_t)c->mtc_period << PTAH_RTIT_CTL_MTC_FREQ |
			  (uint64_t)c->cyc_threshold << PTAH_RTIT_CTL_CYC_THRESH |
			  (uint64_t)c->psb_period << PTAH_RTIT_CTL_PSB_FREQ;
	uint64_t flags = PERFDATA_ATTR_INHERIT | PERFDATA_ATTR_EXCLUDE_KERNEL |
			 PERFDATA_ATTR_EXCLUDE_HV | PERFDATA_ATTR_MMAP | PERFDATA_ATTR_COMM |
			 PERFDATA_ATTR_TASK | PERFDATA_ATTR_SAMPLE_ID_ALL | PERFDATA_ATTR_MMAP2 |
			 PERFDATA_ATTR_COMM_EXEC | PERFDATA_ATTR_BUILD_ID;

	store_le32(attr + PERFDATA_ATTR_AT_TYPE, PMU_TYPE);
	store_le32(attr + PERFDATA_ATTR_AT_SIZE, PERFDATA_ATTR_SIZE);
	store_le64(attr + PERFDATA_ATTR_AT_CONFIG, config);
	store_le64(attr + PERFDATA_ATTR_AT_PERIOD, 1);
	/* Without IP perf refuses to print addresses. */
	store_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE,
		   PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME |
		       PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER);
	store_le64(attr + PERFDATA_ATTR_AT_READ_FORMAT, PERFDATA_READ_FORMAT_ID);
	store_le64(attr + PERFDATA_ATTR_AT_FLAGS, flags);
}

static bool copy_event(struct event *to, const struct perfdata_event *from)
{
	memcpy(to->attr, from->attr, sizeof(to->attr));
	to->name = strdup(from->name);
	to->ids = calloc(from->id_count ? from->id_count : 1, sizeof(*to->ids));
	to->id_count = from->id_count;
	if (to->ids && from->id_count)
		memcpy(to->ids, from->ids, from->id_count * sizeof(*to->ids));
	return to->name && to->ids;
}

/* Copies what the header will say of the events. False: out of memory. */
static bool copy_events(struct perfdata_writer *w, const struct perfdata_writer_config *config)
{
	static const uint64_t id = EVENT_ID;
	const struct perfdata_driver *driver = config->driver;
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};
	const struct perfdata_event emulated = {EVENT_NAME, attr, &id, 1};
	size_t n = driver ? driver->event_count : 1, ids = 0;

	build_attr(attr, config);
	w->pmu_type = driver ? driver->pmu_type : PMU_TYPE;
	w->indexed = driver && driver->pmu_type;
	w->events = calloc(n, sizeof(*w->events));
	for (size_t i = 0; w->events && i < n; i++) {
		w->event_count++;
		if (!copy_event(&w->events[i], driver ? &driver->events[i] : &emulated))
			return false;
		ids += w->events[i].id_count;
	}
	w->data_offset = PERFDATA_HEADER_SIZE + 8 * ids + ATTR_ENTRY * n;
	w->event_id = w->events && w->events[0].id_count ? w->events[0].ids[0] : 0;
	if (driver && driver->pmus)
		w->pmus = strdup(driver->pmus);
	if (driver && driver->cpuid)
		w->cpuid = strdup(driver->cpuid);
	return w->events && (!driver || !driver->pmus || w->pmus) &&
	       (!driver || !driver->cpuid || w->cpuid);
}

/* As the records of a file made through a pipe begin: HEADER_ATTR with the ids. */
static int hand_over_events(struct perfdata_writer *w)
{
	for (size_t i = 0; i < w->event_count; i++) {
		const struct event *e = &w->events[i];

		if (8 + sizeof(e->attr) + 8 * e->id_count > MAX_RECORD)
			return fail(w, perfdata_message(&w->why, PTAH_E_LIMIT,
							"too many events for one record"));
		begin(w, PERFDATA_HEADER_ATTR, 0, 8 + sizeof(e->attr) + 8 * e->id_count);
		perfdata_put(&w->pending, e->attr, sizeof(e->attr));
		for (size_t k = 0; k < e->id_count; k++)
			perfdata_put64(&w->pending, e->ids[k]);
		if (end(w) < 0)
			return w->status;
	}
	return 0;
}

/* The header, all ids, then the attributes with their sections of ids. */
static int write_header(struct perfdata_writer *w)
{
	uint64_t attrs = w->data_offset - ATTR_ENTRY * w->event_count;
	uint64_t ids = PERFDATA_HEADER_SIZE;
	uint8_t head[PERFDATA_HEADER_SIZE] = {0};
	struct perfdata_buffer b = {0};
	bool ok;

	if (w->take)
		return hand_over_events(w);
	memcpy(head, PERFDATA_MAGIC, 8);
	store_le64(head + PERFDATA_AT_SIZE, PERFDATA_HEADER_SIZE);
	store_le64(head + PERFDATA_AT_ATTR_SIZE, ATTR_ENTRY);
	store_le64(head + PERFDATA_AT_ATTRS, attrs);
	store_le64(head + PERFDATA_AT_ATTRS + 8, ATTR_ENTRY * w->event_count);
	store_le64(head + PERFDATA_AT_DATA, w->data_offset);
	perfdata_put(&b, head, sizeof(head));
	for (size_t i = 0; i < w->event_count; i++)
		for (size_t k = 0; k < w->events[i].id_count; k++)
			perfdata_put64(&b, w->events[i].ids[k]);
	for (size_t i = 0; i < w->event_count; i++) {
		perfdata_put(&b, w->events[i].attr, PERFDATA_ATTR_SIZE);
		perfdata_put64(&b, ids);
		perfdata_put64(&b, 8 * w->events[i].id_count);
		ids += 8 * w->events[i].id_count;
	}
	if (b.failed) {
		perfdata_buffer_free(&b);
		return fail(w,
			    perfdata_message(&w->why, PTAH_E_NOMEM, "%s: out of memory", w->path));
	}
	ok = write_at(w->fd, b.bytes, b.size, 0);
	perfdata_buffer_free(&b);
	return ok ? 0 : fail_system(w, "write");
}

static void fill_driver(uint64_t *info, const struct perfdata_driver *driver)
{
	info[PERFDATA_INFO_PMU_TYPE] = driver->pmu_type;
	info[PERFDATA_INFO_CAP_TIME_ZERO] = driver->time_zero;
	info[PERFDATA_INFO_TSC_BIT] = driver->tsc_bit;
	info[PERFDATA_INFO_NORETCOMP_BIT] = driver->noretcomp_bit;
	info[PERFDATA_INFO_MTC_BIT] = driver->mtc_bit;
	info[PERFDATA_INFO_MTC_FREQ_BITS] = driver->mtc_freq_bits;
	info[PERFDATA_INFO_CYC_BIT] = driver->cyc_bit;
	info[PERFDATA_INFO_SCHED_SWITCH] = driver->sched_switch;
	info[PERFDATA_INFO_SNAPSHOT] = driver->snapshot;
	info[PERFDATA_INFO_PER_CPU] = driver->per_cpu;
}

static int write_info(struct perfdata_writer *w, const struct perfdata_writer_config *config)
{
	size_t n = config->filter ? strlen(config->filter) : 0;
	size_t padded = n ? (n + 8) & ~(size_t)7 : 0; /* a NUL at least */
	uint64_t info[PERFDATA_INFO_MAX] = {
	    [PERFDATA_INFO_PMU_TYPE] = PMU_TYPE,
	    [PERFDATA_INFO_TIME_SHIFT] = w->clock.shift,
	    [PERFDATA_INFO_TIME_MULT] = w->clock.mult,
	    [PERFDATA_INFO_TIME_ZERO] = w->clock.zero,
	    [PERFDATA_INFO_CAP_TIME_ZERO] = config->tsc,
	    [PERFDATA_INFO_TSC_BIT] = PERFDATA_PT_TSC,
	    [PERFDATA_INFO_NORETCOMP_BIT] = PERFDATA_PT_NORETCOMP,
	    [PERFDATA_INFO_SNAPSHOT] = config->snapshot,
	    [PERFDATA_INFO_MTC_BIT] = PERFDATA_PT_MTC,
	    [PERFDATA_INFO_MTC_FREQ_BITS] = PERFDATA_PT_MTC_PERIOD,
	    [PERFDATA_INFO_TSC_CTC_N] = config->tsc_n,
	    [PERFDATA_INFO_TSC_CTC_D] = config->tsc_d,
	    [PERFDATA_INFO_CYC_BIT] = PERFDATA_PT_CYC,
	    [PERFDATA_INFO_MAX_NONTURBO] = config->max_nonturbo_ratio,
	    [PERFDATA_INFO_FILTER_LENGTH] = n,
	};

	if (padded > MAX_RECORD - 16 - sizeof(info))
		return fail(
		    w, perfdata_message(&w->why, PTAH_E_LIMIT, "the address filters are too long"));
	if (config->driver)
		fill_driver(info, config->driver);
	begin(w, PERFDATA_AUXTRACE_INFO, 0, 8 + 8 + sizeof(info) + padded);
	perfdata_put32(&w->pending, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put32(&w->pending, 0);
	perfdata_put(&w->pending, info, sizeof(info));
	if (n)
		put_padded(w, config->filter, n + 1);
	return end(w);
}

int perfdata_writer_flush(struct perfdata_writer *w)
{
	uint8_t size[8];

	if (write_pending(w) < 0 || w->take)
		return w->status;
	store_le64(size, w->size);
	if (!write_at(w->fd, size, sizeof(size), PERFDATA_AT_DATA_SIZE))
		return fail_system(w, "write");
	return 0;
}

/* Features */

static void put_build_ids(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	for (const struct file *f = w->files; f; f = f->next) {
		size_t name = (strlen(f->path) + 64) & ~(size_t)63;

		if (!f->id.size)
			continue;
		perfdata_put32(b, PERFDATA_HEADER_BUILD_ID);
		perfdata_put16(b, PERFDATA_MISC_USER | PERFDATA_MISC_BUILD_ID_SIZE);
		perfdata_put16(b, (uint16_t)(PERFDATA_BUILD_ID_FIXED + name));
		perfdata_put32(b, UINT32_MAX); /* host, not a guest's pid */
		perfdata_put(b, f->id.bytes, sizeof(f->id.bytes));
		perfdata_put32(b, f->id.size);
		perfdata_put_string(b, f->path, 64);
	}
}

static void put_command_line(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	uint32_t n = 0;

	while (w->command && w->command[n])
		n++;
	perfdata_put32(b, n + 3);
	perfdata_put_header_string(b, "ptah");
	perfdata_put_header_string(b, "record");
	perfdata_put_header_string(b, "--");
	for (uint32_t i = 0; i < n; i++)
		perfdata_put_header_string(b, w->command[i]);
}

static void put_event_desc(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	perfdata_put32(b, (uint32_t)w->event_count);
	perfdata_put32(b, PERFDATA_ATTR_SIZE);
	for (size_t i = 0; i < w->event_count; i++) {
		const struct event *e = &w->events[i];

		perfdata_put(b, e->attr, sizeof(e->attr));
		perfdata_put32(b, (uint32_t)e->id_count);
		perfdata_put_header_string(b, e->name);
		for (size_t k = 0; k < e->id_count; k++)
			perfdata_put64(b, e->ids[k]);
	}
}

static void put_pmus(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	uint32_t n = 0;

	for (const char *p = w->pmus; p && *p; p++)
		n += *p == '\n';
	if (!n) {
		perfdata_put32(b, 1);
		perfdata_put32(b, w->pmu_type);
		perfdata_put_header_string(b, "intel_pt");
		return;
	}
	perfdata_put32(b, n);
	for (const char *p = w->pmus; n--; p++) {
		char name[64], *end;
		uint32_t type = (uint32_t)strtoul(p, &end, 10);
		size_t length = strcspn(end, "\n");

		snprintf(name, sizeof(name), "%.*s", length ? (int)length - 1 : 0, end + 1);
		perfdata_put32(b, type);
		perfdata_put_header_string(b, name);
		p = end + length;
	}
}

/*
 * Where the AUXTRACE records lie: a count, then offset and size of each. A processor's trace
 * is written later than the switches and maps in it, by as much as its buffer holds.
 * With this perf has all of it in hand before the first of them.
 */
static void put_index(const struct perfdata_writer *w, struct perfdata_buffer *b)
{
	perfdata_put64(b, w->index.size / 16);
	perfdata_put(b, w->index.bytes, w->index.size);
	b->failed = b->failed || w->index.failed;
}

static bool has_feature(const struct perfdata_writer *w, unsigned feature)
{
	return feature == PERFDATA_FEATURE_CPUID      ? w->cpuid != NULL
	       : feature == PERFDATA_FEATURE_AUXTRACE ? w->indexed
						      : true;
}

static void put_feature(const struct perfdata_writer *w, struct perfdata_buffer *b,
			unsigned feature, const struct utsname *system)
{
	uint32_t cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);

	switch (feature) {
	case PERFDATA_FEATURE_BUILD_ID:
		put_build_ids(w, b);
		break;
	case PERFDATA_FEATURE_HOSTNAME:
		perfdata_put_header_string(b, system->nodename);
		break;
	case PERFDATA_FEATURE_OSRELEASE:
		perfdata_put_header_string(b, system->release);
		break;
	case PERFDATA_FEATURE_VERSION:
		perfdata_put_header_string(b, "ptah " PTAH_VERSION_STRING);
		break;
	case PERFDATA_FEATURE_ARCH:
		perfdata_put_header_string(b, "x86_64");
		break;
	case PERFDATA_FEATURE_NRCPUS:
		perfdata_put32(b, cpus);
		perfdata_put32(b, cpus);
		break;
	case PERFDATA_FEATURE_CMDLINE:
		put_command_line(w, b);
		break;
	case PERFDATA_FEATURE_EVENT_DESC:
		put_event_desc(w, b);
		break;
	case PERFDATA_FEATURE_PMU_MAPPINGS:
		put_pmus(w, b);
		break;
	case PERFDATA_FEATURE_AUXTRACE:
		put_index(w, b);
		break;
	case PERFDATA_FEATURE_CPUID:
		perfdata_put_header_string(b, w->cpuid);
		break;
	default:
		break;
	}
}

/* Behind the data: a table of sections in the order of their bits, then the sections. */
static int write_features(struct perfdata_writer *w)
{
	static const uint8_t features[] = {
	    PERFDATA_FEATURE_BUILD_ID,	   PERFDATA_FEATURE_HOSTNAME, PERFDATA_FEATURE_OSRELEASE,
	    PERFDATA_FEATURE_VERSION,	   PERFDATA_FEATURE_ARCH,     PERFDATA_FEATURE_NRCPUS,
	    PERFDATA_FEATURE_CPUID,	   PERFDATA_FEATURE_CMDLINE,  PERFDATA_FEATURE_EVENT_DESC,
	    PERFDATA_FEATURE_PMU_MAPPINGS, PERFDATA_FEATURE_AUXTRACE,
	};
	struct perfdata_buffer table = {0}, sections = {0};
	uint64_t at = w->data_offset + w->size;
	uint8_t bits[8 * PERFDATA_FEATURE_WORDS] = {0};
	struct utsname system = {0};
	size_t count = 0;
	bool ok;

	uname(&system);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		count += has_feature(w, features[i]);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		size_t start = sections.size;

		if (!has_feature(w, features[i]))
			continue;
		put_feature(w, &sections, features[i], &system);
		perfdata_put64(&table, at + count * PERFDATA_SECTION_SIZE + start);
		perfdata_put64(&table, sections.size - start);
		bits[features[i] / 8] |= (uint8_t)(1 << features[i] % 8);
	}
	ok = !table.failed && !sections.failed;
	if (!ok)
		fail(w, perfdata_message(&w->why, PTAH_E_NOMEM, "%s: out of memory", w->path));
	else if (!write_at(w->fd, table.bytes, table.size, at) ||
		 !write_at(w->fd, sections.bytes, sections.size, at + table.size) ||
		 !write_at(w->fd, bits, sizeof(bits), PERFDATA_AT_FEATURES))
		fail_system(w, "write");
	perfdata_buffer_free(&table);
	perfdata_buffer_free(&sections);
	return w->status;
}

/* Opening and closing */

static void writer_free(struct perfdata_writer *w)
{
	while (w->files) {
		struct file *next = w->files->next;

		free(w->files);
		w->files = next;
	}
	if (w->fd >= 0)
		close(w->fd);
	perfdata_buffer_free(&w->pending);
	perfdata_buffer_free(&w->index);
	free(w->streams);
	for (size_t i = 0; i < w->event_count; i++) {
		free(w->events[i].name);
		free(w->events[i].ids);
	}
	free(w->events);
	free(w->pmus);
	free(w->cpuid);
	for (char **arg = w->command; arg && *arg; arg++)
		free(*arg);
	free(w->command);
	free(w->path);
	free(w->old_path);
	free(w);
}

static char **copy_command(char *const *command)
{
	size_t n = 0;
	char **copy;

	while (command && command[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	for (size_t i = 0; copy && i < n; i++)
		copy[i] = strdup(command[i]);
	return copy;
}

static int open_file(struct perfdata_writer *w)
{
	struct stat st;
	bool there = stat(w->path, &st) == 0;

	/* A device or pipe is written to as it is; a file is kept as PATH.old. */
	if (there && S_ISREG(st.st_mode) && st.st_size) {
		if (rename(w->path, w->old_path))
			return fail_system(w, "rename the old recording");
		w->renamed = true;
	}
	w->fd = open(w->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (w->fd < 0)
		return fail_system(w, "create");
	w->regular = fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode);
	return 0;
}

int perfdata_writer_open(const struct perfdata_writer_config *config,
			 struct perfdata_writer **writer, struct ptah_message *why)
{
	struct perfdata_writer *w = calloc(1, sizeof(*w));
	int status;

	if (!w)
		return PTAH_E_NOMEM;
	w->fd = -1;
	w->path = strdup(config->path);
	w->clock = config->clock;
	w->command = copy_command(config->command);
	if (!w->path || !w->command || asprintf(&w->old_path, "%s.old", config->path) < 0) {
		w->old_path = NULL;
		writer_free(w);
		return PTAH_E_NOMEM;
	}
	w->take = config->take;
	w->context = config->context;
	if (!copy_events(w, config)) {
		writer_free(w);
		return PTAH_E_NOMEM;
	}
	status = w->take ? 0 : open_file(w);
	if (status >= 0)
		status = write_header(w);
	if (status >= 0 && w->pmu_type)
		status = write_info(w, config);
	if (status >= 0)
		status = perfdata_writer_flush(w);
	if (status < 0) {
		if (why)
			*why = w->why;
		perfdata_writer_abort(w);
		return status;
	}
	*writer = w;
	return 0;
}

const char *perfdata_writer_why(const struct perfdata_writer *w)
{
	return w->status < 0 ? w->why.text : NULL;
}

int perfdata_writer_finish(struct perfdata_writer *w, struct ptah_message *why)
{
	int status = perfdata_writer_flush(w);

	if (status >= 0 && !w->take)
		status = write_features(w);
	if (status >= 0 && !w->take && close(w->fd)) {
		w->fd = -1;
		status = fail_system(w, "close");
	}
	if (status < 0) {
		if (why)
			*why = w->why;
		perfdata_writer_abort(w);
		return status;
	}
	w->fd = -1;
	writer_free(w);
	return 0;
}

void perfdata_writer_abort(struct perfdata_writer *w)
{
	if (w->regular)
		unlink(w->path);
	if (w->renamed && rename(w->old_path, w->path))
		w->renamed = false; /* it stays as PATH.old, where perf leaves it too */
	writer_free(w);
}
