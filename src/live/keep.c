/* SPDX-License-Identifier: MIT */
/*
 * Keeps the end of a recording in memory: all records, and the last trace of each stream, so that
 * what led to a moment can be saved when the moment has come.
 */
#include "live/live.h"

#include <ptah/packet.h>

#include "base/bits.h"
#include "perfdata/format.h"
#include "perfdata/message.h"
#include "perfdata/writer.h"
#include "support/list.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A stream of trace, of which the end is kept. */
struct kept_stream {
	uint32_t stream;
	struct live_list list;
	uint64_t bytes;
	int32_t tid, cpu;
	bool cut; /* its beginning is not kept */
};

/* Of how many threads the trace waits until it is told how their processes have ended. */
#define MOST_UNTOLD 256

/* Which process a thread is of. Times are of CLOCK_MONOTONIC, when it became known; 0: not yet. */
struct kept_thread {
	int32_t pid, tid;
	uint64_t ended; /* that it does not run any more */
	uint64_t told;	/* how its process ended */
	bool waits;	/* it has ended with all others of its process, and that was not told yet */
};

struct ptah_live_keep {
	uint64_t per_stream, memory;
	bool await;	      /* how processes end will be told */
	pthread_mutex_t lock; /* of what follows */
	struct ptah_record_sink sink;
	struct live_list records;
	struct live_list
	    switches; /* records of context switches and samples, of which the last ones are kept */
	uint64_t record_bytes, switch_bytes, bytes;
	struct kept_stream *streams;
	size_t count, capacity;
	struct kept_thread *threads;
	size_t thread_count, thread_capacity;
};

static struct live_entry *copy_of(const struct ptah_record_piece *p)
{
	const uint8_t *end = (const uint8_t *)p->bytes + p->size;
	struct live_entry *e = malloc(sizeof(*e) + p->size);

	if (!e)
		return NULL;
	*e = (struct live_entry){.stream = p->stream,
				 .tid = p->tid,
				 .cpu = p->cpu,
				 .offset = p->offset,
				 .when = live_now(),
				 .size = p->size};
	e->has_psb = p->kind == PTAH_RECORD_PIECE_TRACE && ptah_packet_find_psb(p->bytes, end);
	memcpy(e->bytes, p->bytes, p->size);
	return e;
}

/* Streams */

/* The lists point into themselves while they are empty. */
static void mend(struct kept_stream *s)
{
	if (!s->list.first)
		live_list_init(&s->list);
}

static struct kept_stream *stream_of(struct ptah_live_keep *k, const struct ptah_record_piece *p)
{
	struct kept_stream *s;

	for (size_t i = k->count; i-- > 0;)
		if (k->streams[i].stream == p->stream)
			return &k->streams[i];
	if (!LIST_ROOM(k->streams, k->count, k->capacity))
		return NULL;
	for (size_t i = 0; i < k->count; i++)
		mend(&k->streams[i]);
	s = &k->streams[k->count++];
	*s = (struct kept_stream){.stream = p->stream, .tid = p->tid, .cpu = p->cpu};
	live_list_init(&s->list);
	return s;
}

static void forget_first(struct ptah_live_keep *k, struct kept_stream *s)
{
	struct live_entry *e = s->list.first;

	s->list.first = e->next;
	if (!e->next)
		live_list_init(&s->list);
	s->bytes -= e->size;
	k->bytes -= e->size;
	s->cut = true;
	free(e);
}

/*
 * The first piece behind the oldest one that decoding can begin at, or NULL. *before: the bytes
 * before that piece.
 */
static const struct live_entry *next_start(const struct kept_stream *s, uint64_t *before)
{
	const struct live_entry *e = s->list.first;

	*before = e ? e->size : 0;
	for (e = e ? e->next : NULL; e && !e->has_psb; e = e->next)
		*before += e->size;
	return e;
}

static void forget_up_to(struct ptah_live_keep *k, struct kept_stream *s,
			 const struct live_entry *start)
{
	while (s->list.first != start)
		forget_first(k, s);
}

/* The stream whose first piece is the oldest. */
static struct kept_stream *oldest(struct ptah_live_keep *k)
{
	struct kept_stream *found = NULL;

	for (size_t i = 0; i < k->count; i++) {
		struct kept_stream *s = &k->streams[i];

		if (s->list.first && (!found || s->list.first->when < found->list.first->when))
			found = s;
	}
	return found;
}

static int keep_trace(struct ptah_live_keep *k, const struct ptah_record_piece *p)
{
	struct kept_stream *s = stream_of(k, p);
	struct live_entry *e = s ? copy_of(p) : NULL;
	const struct live_entry *start;
	uint64_t before;

	if (!e)
		return PTAH_E_NOMEM;
	live_list_add(&s->list, e);
	s->bytes += e->size;
	k->bytes += e->size;
	while ((start = next_start(s, &before)) && s->bytes - before >= k->per_stream)
		forget_up_to(k, s, start);
	while (k->bytes > k->memory)
		forget_first(k, oldest(k));
	return 0;
}

/* Threads */

static struct kept_thread *thread_of(struct ptah_live_keep *k, int32_t tid)
{
	for (size_t i = k->thread_count; i-- > 0;)
		if (k->threads[i].tid == tid)
			return &k->threads[i];
	return NULL;
}

static int note_thread(struct ptah_live_keep *k, int32_t pid, int32_t tid)
{
	struct kept_thread *known = thread_of(k, tid);

	if (known && known->pid == pid && !known->ended)
		return 0;
	if (!LIST_ROOM(k->threads, k->thread_count, k->thread_capacity))
		return PTAH_E_NOMEM;
	k->threads[k->thread_count++] = (struct kept_thread){.pid = pid, .tid = tid};
	return 0;
}

/* Takes from a record which process a thread is of, and that it has ended. */
static int note_ids(struct ptah_live_keep *k, const uint8_t *bytes, size_t size)
{
	const uint32_t type = load_le32(bytes);
	struct kept_thread *t;

	if (size < PERFDATA_RECORD_HEADER + 16)
		return 0;
	if (type == PERFDATA_COMM || type == PERFDATA_ITRACE_START)
		return note_thread(k, (int32_t)load_le32(bytes + 8),
				   (int32_t)load_le32(bytes + 12));
	if (type == PERFDATA_FORK)
		return note_thread(k, (int32_t)load_le32(bytes + 8),
				   (int32_t)load_le32(bytes + 16));
	t = type == PERFDATA_EXIT ? thread_of(k, (int32_t)load_le32(bytes + 16)) : NULL;
	if (t)
		t->ended = live_now();
	return 0;
}

static bool has_ended(const struct ptah_live_keep *k, int32_t pid)
{
	for (size_t i = 0; i < k->thread_count; i++)
		if (k->threads[i].pid == pid && !k->threads[i].ended)
			return false;
	return true;
}

bool ptah_live_keep_has_ended(struct ptah_live_keep *k, int32_t pid)
{
	bool ended;

	if (!k)
		return true;
	pthread_mutex_lock(&k->lock);
	ended = has_ended(k, pid);
	pthread_mutex_unlock(&k->lock);
	return ended;
}

/*
 * Finds the threads whose processes have ended, and nobody has said how: who waits for them may do
 * so late, or never.
 */
static void find_waiting(struct ptah_live_keep *k)
{
	size_t n = 0;

	for (size_t i = k->thread_count; k->await && i-- > 0;) {
		struct kept_thread *t = &k->threads[i];

		t->waits =
		    t->ended && !t->told && n < MOST_UNTOLD && (t->waits || has_ended(k, t->pid));
		n += t->waits;
	}
}

/* Whether the end of the thread is that of its process, of which it is or was told after `before`.
 */
static bool is_wanted(const struct kept_thread *t, uint64_t before)
{
	return t->waits || t->told > before;
}

static bool is_past(const struct kept_thread *t, uint64_t before)
{
	return t->ended && t->ended <= before && !is_wanted(t, before);
}

static void forget_old(struct ptah_live_keep *k, struct kept_stream *s, uint64_t before)
{
	const struct kept_thread *t = s->cpu < 0 ? thread_of(k, s->tid) : NULL;
	const struct live_entry *start;
	uint64_t bytes;

	if (t && is_wanted(t, before))
		return;
	while ((start = next_start(s, &bytes)) && start->when <= before)
		forget_up_to(k, s, start);
}

/* Forgets what ended before that time. A tid may have been given again since. */
static void forget_ended(struct ptah_live_keep *k, uint64_t before)
{
	size_t n = 0;

	for (size_t i = 0; i < k->count; i++) {
		struct kept_stream *s = &k->streams[i];
		const struct kept_thread *t = s->cpu < 0 ? thread_of(k, s->tid) : NULL;
		const bool ended = t && is_past(t, before);

		while (ended && s->list.first && s->list.first->when <= before)
			forget_first(k, s);
		if (!ended || s->list.first)
			k->streams[n++] = *s;
	}
	k->count = n;
	for (size_t i = 0; i < n; i++)
		mend(&k->streams[i]);
	n = 0;
	for (size_t i = 0; i < k->thread_count; i++)
		if (!is_past(&k->threads[i], before))
			k->threads[n++] = k->threads[i];
	k->thread_count = n;
}

/* Records */

/* What says nothing that is needed to decode: ends of rounds, and trace that came without loss. */
static bool is_needless(const uint8_t *bytes, size_t size)
{
	switch (load_le32(bytes)) {
	case PERFDATA_FINISHED_ROUND:
		return true;
	case PERFDATA_AUX:
		return size >= PERFDATA_RECORD_HEADER + 24 && !load_le64(bytes + 24);
	case PERFDATA_HEADER_EVENT_TYPE:
		return size >= PERFDATA_RECORD_HEADER + 12 &&
		       load_le32(bytes + 8) == PERFDATA_PTAH_MAGIC &&
		       load_le32(bytes + 16) == PERFDATA_PTAH_ROUND;
	default:
		return false;
	}
}

/* What comes again and again, and concerns the moment alone: context switches, samples. */
static bool is_of_moment(const uint8_t *bytes)
{
	const uint32_t type = load_le32(bytes);

	return type == PERFDATA_SWITCH || type == PERFDATA_SWITCH_CPU_WIDE ||
	       type == PERFDATA_SAMPLE;
}

/* Keeps the last ones, in an eighth of the memory. */
static void keep_for_moment(struct ptah_live_keep *k, struct live_entry *e)
{
	live_list_add(&k->switches, e);
	k->switch_bytes += sizeof(*e) + e->size;
	while (k->switch_bytes > k->memory / 8) {
		struct live_entry *first = k->switches.first;

		k->switches.first = first->next;
		if (!first->next)
			live_list_init(&k->switches);
		k->switch_bytes -= sizeof(*first) + first->size;
		free(first);
	}
}

static int keep_record(struct ptah_live_keep *k, const struct ptah_record_piece *p)
{
	struct live_entry *e;

	if (p->size < PERFDATA_RECORD_HEADER || is_needless(p->bytes, p->size))
		return 0;
	if (note_ids(k, p->bytes, p->size) < 0)
		return PTAH_E_NOMEM;
	if (k->record_bytes + p->size > k->memory)
		return PTAH_E_LIMIT;
	e = copy_of(p);
	if (!e)
		return PTAH_E_NOMEM;
	if (is_of_moment(p->bytes)) {
		keep_for_moment(k, e);
		return 0;
	}
	k->record_bytes += sizeof(*e) + p->size;
	live_list_add(&k->records, e);
	return 0;
}

static int take_kept_piece(void *context, const struct ptah_record_piece *p)
{
	struct ptah_live_keep *k = context;
	int status = 0;

	pthread_mutex_lock(&k->lock);
	if (p->kind == PTAH_RECORD_PIECE_TRACE && p->size)
		status = keep_trace(k, p);
	else if (p->kind == PTAH_RECORD_PIECE_RECORD)
		status = keep_record(k, p);
	pthread_mutex_unlock(&k->lock);
	return status;
}

/* How a process ended is told. */
static int take_end(void *context, int32_t pid, int wait_status)
{
	struct ptah_live_keep *k = context;

	(void)wait_status;
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < k->thread_count; i++)
		if (k->threads[i].pid == pid) {
			k->threads[i].told = live_now();
			k->threads[i].waits = false;
		}
	pthread_mutex_unlock(&k->lock);
	return 0;
}

static void trim(struct ptah_live_keep *k, struct kept_stream *s, uint64_t bytes, uint64_t before)
{
	const struct live_entry *start;
	uint64_t old = 0, first;

	for (const struct live_entry *e = s->list.first; e && e->when <= before; e = e->next)
		old += e->size;
	while ((start = next_start(s, &first)) && start->when <= before && old - first >= bytes) {
		forget_up_to(k, s, start);
		old -= first;
	}
}

void ptah_live_keep_forget(struct ptah_live_keep *k, uint64_t bytes, uint64_t before)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	if (!bytes)
		find_waiting(k);
	for (size_t i = 0; i < k->count; i++)
		if (bytes)
			trim(k, &k->streams[i], bytes, before);
		else
			forget_old(k, &k->streams[i], before);
	if (!bytes)
		forget_ended(k, before);
	pthread_mutex_unlock(&k->lock);
}

int ptah_live_keep_new(uint64_t bytes, uint64_t memory, bool await, struct ptah_live_keep **keep)
{
	struct ptah_live_keep *k;

	if (!bytes || !memory || !keep)
		return PTAH_E_INVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return PTAH_E_NOMEM;
	k->per_stream = bytes;
	k->memory = memory;
	k->await = await;
	k->sink =
	    (struct ptah_record_sink){.take = take_kept_piece, .ended = take_end, .context = k};
	pthread_mutex_init(&k->lock, NULL);
	live_list_init(&k->records);
	live_list_init(&k->switches);
	*keep = k;
	return 0;
}

const struct ptah_record_sink *ptah_live_keep_sink(struct ptah_live_keep *k)
{
	return k ? &k->sink : NULL;
}

/* Saving */

static int give(const struct ptah_record_sink *to, const struct live_entry *e, uint8_t kind,
		uint64_t skip)
{
	const struct ptah_record_piece piece = {.kind = kind,
						.stream = e->stream,
						.tid = e->tid,
						.cpu = e->cpu,
						.offset = e->offset + skip,
						.bytes = e->bytes + skip,
						.size = e->size - skip};

	return piece.size ? to->take(to->context, &piece) : 0;
}

/* What is kept of a stream, from a PSB on if its beginning is not. */
static int save_stream(const struct kept_stream *s, const struct ptah_record_sink *to)
{
	bool begun = !s->cut;
	int status = 0;

	for (const struct live_entry *e = s->list.first; e && status >= 0; e = e->next) {
		const uint8_t *psb =
		    begun ? e->bytes : ptah_packet_find_psb(e->bytes, e->bytes + e->size);

		if (!psb)
			continue;
		begun = true;
		status = give(to, e, PTAH_RECORD_PIECE_TRACE, (uint64_t)(psb - e->bytes));
	}
	return status;
}

static int pass_hit(void *context, const struct perfdata_piece *p)
{
	const struct ptah_record_sink *to = context;
	const struct ptah_record_piece piece = {
	    .kind = PTAH_RECORD_PIECE_RECORD, .bytes = p->bytes, .size = p->size};

	/* The description of the recording has come already: only the hit is wanted. */
	if (p->trace || p->size < 20 || load_le32(p->bytes) != PERFDATA_HEADER_EVENT_TYPE)
		return 0;
	return to->take(to->context, &piece);
}

static int save_hit(const struct ptah_record_sink *to, const struct ptah_hit *hit)
{
	const struct perfdata_writer_config config = {
	    .path = "", .take = pass_hit, .context = (void *)(uintptr_t)to, .clock.mult = 1};
	struct perfdata_writer *w;
	int status = perfdata_writer_open(&config, &w, NULL);

	if (status < 0)
		return status;
	status = perfdata_add_hit(w, hit);
	perfdata_writer_abort(w);
	return status;
}

/* Whether the stream is of the process, as far as known. */
static bool is_of(struct ptah_live_keep *k, const struct kept_stream *s, int32_t pid)
{
	const struct kept_thread *t = s->cpu < 0 ? thread_of(k, s->tid) : NULL;

	return pid <= 0 || !t || t->pid == pid;
}

/* Whether something would be saved of it. */
static bool has_start(const struct kept_stream *s)
{
	const struct live_entry *e = s->list.first;

	while (s->cut && e && !e->has_psb)
		e = e->next;
	return e != NULL;
}

static bool has_trace(struct ptah_live_keep *k, int32_t pid)
{
	bool found = false;

	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < k->count && !found; i++)
		found = is_of(k, &k->streams[i], pid) && has_start(&k->streams[i]);
	pthread_mutex_unlock(&k->lock);
	return found;
}

static int save_all(struct ptah_live_keep *k, const struct ptah_record_sink *to, int32_t pid)
{
	int status = 0;

	for (const struct live_entry *e = k->records.first; e && status >= 0; e = e->next)
		status = give(to, e, PTAH_RECORD_PIECE_RECORD, 0);
	for (const struct live_entry *e = k->switches.first; e && status >= 0; e = e->next)
		status = give(to, e, PTAH_RECORD_PIECE_RECORD, 0);
	for (size_t i = 0; i < k->count && status >= 0; i++)
		if (is_of(k, &k->streams[i], pid))
			status = save_stream(&k->streams[i], to);
	return status;
}

/*
 * Whoever saves may be a thread that decodes, for which everything else waits: it must not wait for
 * somebody to open a FIFO. *fd keeps the reader until it is opened again; -1: the path is no FIFO.
 */
static int open_fifo(const char *path, int *fd, struct ptah_message *why)
{
	struct stat st;

	*fd = -1;
	if (stat(path, &st) || !S_ISFIFO(st.st_mode))
		return 0;
	*fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	return *fd >= 0 ? 0
			: perfdata_message(why, PTAH_E_SYSTEM,
					   "%s: not written: nobody reads from this FIFO", path);
}

static int save_kept(struct ptah_live_keep *k, const char *path, const struct ptah_hit *hit,
		     struct ptah_message *why)
{
	struct ptah_live_file *file;
	struct stat st;
	int fifo, status, end;

	if (!k || !path || (hit && !hit->text))
		return PTAH_E_INVAL;
	if (!has_trace(k, hit ? hit->pid : -1))
		return perfdata_message(why, PTAH_E_EMPTY,
					"%s: not written: no trace is kept of what ran", path);
	status = open_fifo(path, &fifo, why);
	if (status >= 0)
		status = ptah_live_file_new(path, &file, why);
	if (fifo >= 0)
		close(fifo);
	if (status < 0)
		return status;
	pthread_mutex_lock(&k->lock);
	status = save_all(k, ptah_live_file_sink(file), hit ? hit->pid : -1);
	pthread_mutex_unlock(&k->lock);
	if (hit && status >= 0)
		status = save_hit(ptah_live_file_sink(file), hit);
	end = ptah_live_file_finish(file);
	ptah_live_file_free(file);
	status = status < 0 ? status : end;
	if (status >= 0)
		return 0;
	if (!stat(path, &st) && S_ISREG(st.st_mode))
		unlink(path);
	return perfdata_message(why, status, "%s: could not be written", path);
}

int ptah_live_keep_save(struct ptah_live_keep *k, const char *path, const struct ptah_hit *hit,
			struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, save_kept(k, path, hit, why));
}

void ptah_live_keep_free(struct ptah_live_keep *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->count; i++)
		live_list_free(&k->streams[i].list);
	free(k->streams);
	free(k->threads);
	live_list_free(&k->records);
	live_list_free(&k->switches);
	pthread_mutex_destroy(&k->lock);
	free(k);
}
