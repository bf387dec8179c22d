/* SPDX-License-Identifier: MIT */
/* Opening a recording: who ran, where the trace lies, what was mapped when. */
#include "session/session.h"

#include "perfdata/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANY_PID (-1)

/* Grows an array to hold one more. NULL when memory is out. */
static void *grow(void *array, size_t count, size_t *capacity, size_t size)
{
	size_t more = *capacity ? *capacity * 2 : 16;
	void *bigger;

	if (count < *capacity)
		return array;
	bigger = realloc(array, more * size);
	if (bigger)
		*capacity = more;
	return bigger;
}

/* Arrays of a few entries, without a capacity of their own. */
static void *grow_one(void *array, size_t count, size_t size)
{
	if (count & (count - 1)) /* room up to the next power of two */
		return array;
	return realloc(array, (count ? 2 * count : 1) * size);
}

/* A string of the session's own. */
static char *keep_string(struct ptah_session *s, const char *text, size_t n)
{
	char **strings = grow_one(s->strings, s->string_count, sizeof(*strings));
	char *copy;

	if (!strings)
		return NULL;
	s->strings = strings;
	copy = strndup(text, n);
	if (copy)
		strings[s->string_count++] = copy;
	return copy;
}

static int add_note(struct ptah_session *s, const char *text, size_t n)
{
	char **notes = grow_one(s->notes, s->note_count, sizeof(*notes));
	char *note;

	if (!notes)
		return PTAH_E_NOMEM;
	s->notes = notes;
	note = keep_string(s, text, n);
	if (!note)
		return PTAH_E_NOMEM;
	notes[s->note_count++] = note;
	return 0;
}

/* Processes and threads */

const struct process *session_process(const struct ptah_session *s, int32_t pid)
{
	for (size_t i = 0; i < s->process_count; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

static struct process *process_of(struct ptah_session *s, int32_t pid)
{
	struct process *p = (struct process *)(uintptr_t)session_process(s, pid), *processes;

	if (p)
		return p;
	processes = grow_one(s->processes, s->process_count, sizeof(*processes));
	if (!processes)
		return NULL;
	s->processes = processes;
	processes[s->process_count] = (struct process){.pid = pid};
	return &processes[s->process_count++];
}

static struct thread_name *thread_of(struct ptah_session *s, int32_t pid, int32_t tid)
{
	struct thread_name *threads;

	for (size_t i = 0; i < s->thread_count; i++)
		if (s->threads[i].tid == tid)
			return &s->threads[i];
	threads = grow_one(s->threads, s->thread_count, sizeof(*threads));
	if (!threads)
		return NULL;
	s->threads = threads;
	threads[s->thread_count] = (struct thread_name){.pid = pid, .tid = tid};
	return &threads[s->thread_count++];
}

/* Changes of memory */

static bool same_map(const struct change *a, const struct change *b)
{
	return a->type == CHANGE_MAP && b->type == CHANGE_MAP && a->address == b->address &&
	       a->size == b->size && a->file_offset == b->file_offset && !strcmp(a->path, b->path);
}

static int add_change(struct ptah_session *s, int32_t pid, const struct change *change)
{
	struct process *p = process_of(s, pid);
	struct change *changes;
	size_t at;

	if (!p)
		return PTAH_E_NOMEM;
	/* perf repeats what is mapped already; that is no change. */
	for (size_t i = p->count; change->type == CHANGE_MAP && i-- > 0;) {
		if (p->changes[i].type == CHANGE_EXEC)
			break;
		if (same_map(&p->changes[i], change))
			return 0;
	}
	changes = grow(p->changes, p->count, &p->capacity, sizeof(*changes));
	if (!changes)
		return PTAH_E_NOMEM;
	p->changes = changes;
	/* In the order of time; of the same time, in the order of the file. */
	for (at = p->count; at > 0 && changes[at - 1].tsc > change->tsc; at--)
		;
	memmove(changes + at + 1, changes + at, (p->count - at) * sizeof(*changes));
	changes[at] = *change;
	p->count++;
	return 0;
}

static uint64_t to_tsc(const struct ptah_session *s, uint64_t time)
{
	const struct perfdata_clock *c = &s->clock;
	uint64_t t;

	if (!s->has_clock || time < c->zero)
		return 0;
	t = time - c->zero;
	/* (t << shift) / mult without losing the high bits. */
	return ((t / c->mult) << c->shift) + (((t % c->mult) << c->shift) / c->mult);
}

static int on_map(struct ptah_session *s, const struct perfdata_record *r)
{
	struct change change = {
	    .type = CHANGE_MAP,
	    .tsc = to_tsc(s, r->time),
	    .address = r->address,
	    .size = r->size,
	    .file_offset = r->file_offset,
	    .id = r->id,
	};

	if (!r->executable || !r->size || r->size - 1 > UINT64_MAX - r->address || r->pid < 0)
		return 0;
	change.path = keep_string(s, r->text, r->text_size);
	return change.path ? add_change(s, r->pid, &change) : PTAH_E_NOMEM;
}

static int on_code(struct ptah_session *s, const struct perfdata_record *r)
{
	struct change change = {
	    .type = CHANGE_CODE,
	    .tsc = r->tsc,
	    .address = r->address,
	    .size = r->size,
	    .bytes = r->bytes,
	};

	if (!r->size || r->size - 1 > UINT64_MAX - r->address)
		return 0;
	return add_change(s, r->pid, &change);
}

static int on_comm(struct ptah_session *s, const struct perfdata_record *r)
{
	struct thread_name *t = thread_of(s, r->pid, r->tid);
	size_t n = r->text_size < sizeof(t->comm) - 1 ? r->text_size : sizeof(t->comm) - 1;

	if (!t)
		return PTAH_E_NOMEM;
	memset(t->comm, 0, sizeof(t->comm));
	memcpy(t->comm, r->text, n);
	if (r->exec) {
		struct change change = {.type = CHANGE_EXEC, .tsc = to_tsc(s, r->time)};

		change.size = UINT64_MAX;
		return add_change(s, r->pid, &change);
	}
	return 0;
}

/* A new process begins with its parent's memory, a thread with its process's. */
static int on_fork(struct ptah_session *s, const struct perfdata_record *r)
{
	struct thread_name *t = thread_of(s, r->pid, r->tid);
	const struct process *parent = session_process(s, r->ppid);

	if (!t)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < s->thread_count; i++)
		if (s->threads[i].tid == r->ppid && !t->comm[0])
			memcpy(t->comm, s->threads[i].comm, sizeof(t->comm));
	if (r->pid == r->ppid || !parent)
		return 0;
	for (size_t i = 0, n = parent->count; i < n; i++) {
		struct change change = session_process(s, r->ppid)->changes[i];
		int status = add_change(s, r->pid, &change);

		if (status < 0)
			return status;
	}
	return 0;
}

/* Streams */

static struct stream *stream_of(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu)
{
	struct stream *streams, *stream;

	for (size_t i = 0; i < s->stream_count; i++)
		if (s->streams[i].index == index && s->streams[i].info.tid == tid &&
		    s->streams[i].info.cpu == cpu)
			return &s->streams[i];
	streams = grow_one(s->streams, s->stream_count, sizeof(*streams));
	if (!streams)
		return NULL;
	s->streams = streams;
	stream = &streams[s->stream_count++];
	*stream = (struct stream){.index = index};
	stream->info.pid = ANY_PID;
	stream->info.tid = tid;
	stream->info.cpu = cpu;
	return stream;
}

static int on_auxtrace(struct ptah_session *s, const struct perfdata_record *r)
{
	struct stream *stream = stream_of(s, r->index, r->tid, r->cpu);
	struct piece *pieces;

	if (!stream)
		return PTAH_E_NOMEM;
	/* perf counts its padding in the size but not in the next offset: up to 7 bytes less. */
	if (stream->count && r->trace_offset > stream->expected)
		stream->info.lost += r->trace_offset - stream->expected;
	stream->expected = r->trace_offset + r->trace_size;
	if (!r->trace_size)
		return 0;
	pieces = grow(stream->pieces, stream->count, &stream->capacity, sizeof(*pieces));
	if (!pieces)
		return PTAH_E_NOMEM;
	stream->pieces = pieces;
	pieces[stream->count++] = (struct piece){r->bytes, stream->info.bytes, r->trace_size};
	stream->info.bytes += r->trace_size;
	return 0;
}

static int on_truth(struct ptah_session *s, const struct perfdata_record *r)
{
	struct stream *stream = stream_of(s, r->index, r->tid, -1);

	if (!stream)
		return PTAH_E_NOMEM;
	stream->info.pid = r->pid;
	stream->info.has_truth = true;
	stream->info.truth = r->truth;
	return 0;
}

static int on_record(struct ptah_session *s, const struct perfdata_record *r)
{
	switch (r->type) {
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		return on_map(s, r);
	case PERFDATA_COMM:
		return on_comm(s, r);
	case PERFDATA_FORK:
		return on_fork(s, r);
	case PERFDATA_ITRACE_START:
		return thread_of(s, r->pid, r->tid) ? 0 : PTAH_E_NOMEM;
	case PERFDATA_AUXTRACE:
		return on_auxtrace(s, r);
	case PERFDATA_HEADER_EVENT_TYPE:
		if (r->tag == PERFDATA_PTAH_TRUTH)
			return on_truth(s, r);
		if (r->tag == PERFDATA_PTAH_CODE)
			return on_code(s, r);
		if (r->tag == PERFDATA_PTAH_NOTE)
			return add_note(s, r->text, r->text_size);
		return 0;
	default:
		return 0;
	}
}

static int read_records(struct ptah_session *s, const char *path, struct ptah_message *why)
{
	struct perfdata_record r;
	uint64_t lost = 0, truncated = 0;
	char text[128];
	int status;

	while ((status = perfdata_next(s->file, &r, why)) > 0) {
		s->has_clock = perfdata_clock(s->file, &s->clock);
		if (r.type == PERFDATA_LOST)
			lost += r.lost;
		else if (r.type == PERFDATA_AUX)
			truncated += r.lost != 0;
		status = on_record(s, &r);
		if (status < 0)
			return perfdata_message(why, status, "%s: %s", path, ptah_strerror(status));
	}
	if (status < 0)
		return status;
	if (lost) {
		snprintf(text, sizeof(text), "the kernel lost %" PRIu64 " side-band events", lost);
		add_note(s, text, strlen(text));
	}
	if (truncated) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " pieces of trace are cut: the buffer was full", truncated);
		add_note(s, text, strlen(text));
	}
	if (perfdata_unfinished(s->file)) {
		snprintf(text, sizeof(text),
			 "the recorder did not end properly: this is what it had written");
		add_note(s, text, strlen(text));
	}
	return 0;
}

/* A thread's process and name; a per-CPU stream has the recording's only process, if it is one. */
static void name_streams(struct ptah_session *s)
{
	for (size_t i = 0; i < s->stream_count; i++) {
		struct ptah_stream_info *info = &s->streams[i].info;

		for (size_t k = 0; k < s->thread_count; k++) {
			if (s->threads[k].tid != info->tid || info->tid < 0)
				continue;
			info->pid = s->threads[k].pid;
			memcpy(info->comm, s->threads[k].comm, sizeof(info->comm));
		}
		if (info->pid == ANY_PID && s->process_count == 1)
			info->pid = s->processes[0].pid;
	}
}

/* Files */

bool session_is_file(const char *path)
{
	return path[0] == '/' && path[1] != '/' && strncmp(path, "/dev/", 5) != 0 &&
	       strncmp(path, "/memfd:", 7) != 0 && !strstr(path, " (deleted)");
}

char *session_path(const struct ptah_session *s, const char *path)
{
	char *full;

	if (!s->symfs)
		return strdup(path);
	return asprintf(&full, "%s%s", s->symfs, path) < 0 ? NULL : full;
}

static int check_file(const struct ptah_session *s, const struct change *change,
		      struct ptah_message *why)
{
	char *path = session_path(s, change->path);
	char was[2 * PERFDATA_BUILD_ID_MAX + 1], is[2 * PERFDATA_BUILD_ID_MAX + 1];
	struct perfdata_build_id id;
	int status = 0;

	if (!path)
		return PTAH_E_NOMEM;
	if (perfdata_build_id_read(path, &id) < 0)
		status =
		    perfdata_message(why, PTAH_E_MISSING,
				     "%s: the recording ran this file, but it cannot be opened "
				     "(%s); put it back, name another root with --symfs, or go on "
				     "without it with --force",
				     path, strerror(errno));
	else if (change->id.size &&
		 (id.size != change->id.size || memcmp(id.bytes, change->id.bytes, id.size) != 0))
		status = perfdata_message(
		    why, PTAH_E_CHANGED,
		    "%s is not the file that ran: its build id is %s, recorded was "
		    "%s; restore it, name another root with --symfs, or decode all "
		    "the same with --force",
		    path, perfdata_build_id_text(&id, is),
		    perfdata_build_id_text(&change->id, was));
	free(path);
	return status;
}

static bool seen_before(const struct process *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p->changes[i].type == CHANGE_MAP &&
		    !strcmp(p->changes[i].path, p->changes[n].path))
			return true;
	return false;
}

static int check_files(const struct ptah_session *s, struct ptah_message *why)
{
	for (size_t i = 0; i < s->process_count; i++) {
		const struct process *p = &s->processes[i];

		for (size_t k = 0; k < p->count; k++) {
			int status;

			if (p->changes[k].type != CHANGE_MAP ||
			    !session_is_file(p->changes[k].path) || seen_before(p, k))
				continue;
			status = check_file(s, &p->changes[k], why);
			if (status < 0)
				return status;
		}
	}
	return 0;
}

/* Opening */

static int copy_config(struct ptah_session *s, const struct ptah_session_config *config)
{
	if (!config)
		return 0;
	if (config->size < sizeof(*config))
		return PTAH_E_INVAL;
	s->config = *config;
	if (config->symfs && *config->symfs) {
		size_t n;

		s->symfs = strdup(config->symfs);
		if (!s->symfs)
			return PTAH_E_NOMEM;
		n = strlen(s->symfs);
		while (n && s->symfs[n - 1] == '/')
			s->symfs[--n] = '\0';
	}
	return 0;
}

static int open_recording(struct ptah_session *s, const char *path, struct ptah_message *why)
{
	uint64_t bytes = 0;
	int status = perfdata_open(path, &s->file, why);

	if (status >= 0)
		status = read_records(s, path, why);
	if (status < 0)
		return status;
	for (size_t i = 0; i < s->stream_count; i++)
		bytes += s->streams[i].info.bytes;
	if (!bytes)
		return perfdata_message(why, PTAH_E_EMPTY,
					perfdata_is_pt(s->file)
					    ? "%s: the recording holds no Intel PT trace"
					    : "%s: not a recording of Intel PT (record with `ptah "
					      "record` or `perf record -e intel_pt//`)",
					path);
	name_streams(s);
	if (!s->config.no_images && !s->config.ignore_build_ids)
		status = check_files(s, why);
	return status;
}

int ptah_session_open(const char *path, const struct ptah_session_config *config,
		      struct ptah_session **session, struct ptah_message *why)
{
	struct ptah_session *s;
	int status;

	if (!path || !session)
		return PTAH_E_INVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return PTAH_E_NOMEM;
	status = copy_config(s, config);
	if (status >= 0)
		status = open_recording(s, path, why);
	if (status < 0) {
		ptah_session_close(s);
		return status;
	}
	*session = s;
	return 0;
}

static int map_raw(struct ptah_session *s, const char *path, struct ptah_message *why)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
		close(fd);
		return perfdata_message(why, PTAH_E_EMPTY, "%s: %s", path,
					S_ISREG(st.st_mode) ? "the file is empty"
							    : "not a regular file");
	}
	s->raw = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (s->raw == MAP_FAILED) {
		s->raw = NULL;
		return perfdata_system_message(why, errno, path, "map");
	}
	s->raw_size = (uint64_t)st.st_size;
	return 0;
}

int ptah_session_open_raw(const char *pt, const struct ptah_image *image,
			  struct ptah_session **session, struct ptah_message *why)
{
	struct ptah_session *s;
	int status;

	if (!pt || !image || !session)
		return PTAH_E_INVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return PTAH_E_NOMEM;
	status = map_raw(s, pt, why);
	if (status >= 0)
		status = ptah_image_clone(image, &s->image);
	if (status >= 0) {
		struct perfdata_record r = {
		    .tid = -1, .cpu = -1, .bytes = s->raw, .trace_size = s->raw_size};

		status = on_auxtrace(s, &r);
	}
	if (status < 0) {
		ptah_session_close(s);
		return status;
	}
	*session = s;
	return 0;
}

void ptah_session_close(struct ptah_session *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->stream_count; i++)
		free(s->streams[i].pieces);
	for (size_t i = 0; i < s->process_count; i++)
		free(s->processes[i].changes);
	for (size_t i = 0; i < s->string_count; i++)
		free(s->strings[i]);
	free(s->streams);
	free(s->processes);
	free(s->threads);
	free(s->strings);
	free(s->notes);
	free(s->symfs);
	perfdata_close(s->file);
	ptah_image_free(s->image);
	if (s->raw)
		munmap(s->raw, s->raw_size);
	free(s);
}

/* Asking */

size_t ptah_session_streams(const struct ptah_session *s)
{
	return s->stream_count;
}

int ptah_session_stream_info(const struct ptah_session *s, size_t stream,
			     struct ptah_stream_info *info)
{
	if (!s || !info || stream >= s->stream_count)
		return PTAH_E_INVAL;
	*info = s->streams[stream].info;
	return 0;
}

size_t ptah_session_stream_bytes(const struct ptah_session *s, size_t stream, uint64_t offset,
				 const uint8_t **bytes)
{
	const struct stream *st;
	size_t low = 0, high;

	if (!s || stream >= s->stream_count)
		return 0;
	st = &s->streams[stream];
	high = st->count;
	while (low < high) { /* the first piece that ends behind `offset` */
		size_t middle = low + (high - low) / 2;

		if (st->pieces[middle].offset + st->pieces[middle].size <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == st->count)
		return 0;
	*bytes = st->pieces[low].bytes + (offset - st->pieces[low].offset);
	return (size_t)(st->pieces[low].size - (offset - st->pieces[low].offset));
}

bool ptah_session_find_map(const struct ptah_session *s, int32_t pid, uint64_t address,
			   uint64_t tsc, struct ptah_map *map)
{
	const struct process *p = session_process(s, pid);

	for (size_t i = p ? p->count : 0; i-- > 0;) {
		const struct change *c = &p->changes[i];

		if ((tsc && c->tsc > tsc) || address < c->address ||
		    address - c->address >= c->size)
			continue;
		if (c->type == CHANGE_EXEC)
			return false;
		*map = (struct ptah_map){c->address, c->size, c->file_offset,
					 c->type == CHANGE_MAP ? c->path : "[code]"};
		if (c->type == CHANGE_CODE)
			map->file_offset = c->address;
		return true;
	}
	return false;
}

uint64_t ptah_session_time(const struct ptah_session *s, uint64_t tsc)
{
	const struct perfdata_clock *c = &s->clock;
	uint64_t low = tsc & ((UINT64_C(1) << c->shift) - 1);

	if (!s->has_clock)
		return 0;
	return c->zero + (tsc >> c->shift) * c->mult + (low * c->mult >> c->shift);
}

const char *ptah_session_note(const struct ptah_session *s, size_t i)
{
	return i < s->note_count ? s->notes[i] : NULL;
}

const char *ptah_session_command(const struct ptah_session *s)
{
	return s->file ? perfdata_command(s->file) : NULL;
}
