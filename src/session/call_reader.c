/* SPDX-License-Identifier: MIT */
/*
 * Call readers: decodes streams, and hands what each thread ran to its call machine
 * (call_reader.h).
 *
 * A source is a stream that is being read. Sources per CPU are open at the same time; the one whose
 * next turn began first is read, up to its next turn. A thread runs on one CPU at a time, so that
 * order has the turns of each thread in the order of time.
 */
#include "session/call_threads.h"
#include "session/parallel_reader.h"

#include "base/compiler.h"

#include <ptah/call_reader.h>

#include <stdlib.h>
#include <string.h>

#define ITEMS 256
#define MARKS 512

/* A stream that is being read. */
struct source {
	size_t index;
	struct ptah_reader *reader; /* NULL: it has ended */
	struct ptah_item items[ITEMS];
	size_t count, next;
	const struct turn *turn;    /* of these items */
	uint64_t since;		    /* when it began; of an unknown one, when the one before did */
	struct call_thread *thread; /* whose turn it is; NULL: not looked up yet */
	bool has_spaces;	    /* its items have numbers of address spaces */
	uint64_t generation;	    /* of the image */
};

struct ptah_call_reader {
	const struct ptah_session *session;
	struct ptah_call_reader_config config;
	struct ptah_jobs jobs;
	struct ptah_workers *own; /* the workers, if the caller has given none */
	struct call_threads threads;
	struct source alone; /* one stream of a thread after the other */
	size_t next_stream;
	struct source *cpus; /* the streams per CPU, once the others have ended */
	size_t cpu_count;
	struct source *now;	    /* the source that is being read, or NULL */
	struct call_thread *ending; /* a thread whose open calls are being ended, or NULL */
	size_t next_ending;
	uint64_t code_changes; /* how often code has changed, in any stream */
	uint64_t done;	       /* bytes of the streams that have ended */
	int status;
	struct ptah_call_batch batch;
	struct ptah_call_mark marks[MARKS];
};

/* Sources */

static int open_source(struct ptah_call_reader *r, struct source *s, size_t index,
		       const struct ptah_jobs *jobs)
{
	const struct stream *stream = &r->session->streams[index];

	s->index = index;
	s->count = s->next = 0;
	s->turn = NULL;
	s->since = 0;
	s->thread = NULL;
	s->has_spaces = !stream_is_shared(stream) && session_has_spaces(r->session, stream);
	return ptah_reader_new(r->session, index, jobs, &s->reader);
}

static void close_source(struct ptah_call_reader *r, struct source *s)
{
	if (s->reader)
		r->done += r->session->streams[s->index].info.bytes;
	ptah_reader_free(s->reader);
	s->reader = NULL;
}

/*
 * Gives the address spaces the numbers that they have in marks: 0 is the thread's own process, n
 * the n-th address space that the session knows.
 */
static int number_spaces(struct source *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct ptah_item *item = &s->items[i];
		int32_t space = -1;

		if (item->type != PTAH_ITEM_BLOCK && item->type != PTAH_ITEM_ERROR)
			continue;
		if (s->has_spaces)
			space = ptah_reader_space(s->reader, item->code.space);
		item->code.space = space < -1 ? (uint32_t)(-1 - space) : 0;
		if (item->code.space > UINT16_MAX)
			return PTAH_E_LIMIT;
	}
	return 0;
}

/* Each thread that may have run unseen in a source has a loss there. */
static int lose_threads(struct ptah_call_reader *r, const struct source *s)
{
	struct ptah_stream *stream = s->reader->s;
	const struct turn *from = stream->unsure_from, *to = stream->unsure_to;
	int status = 0;

	if (!from)
		return 0;
	stream->unsure_from = stream->unsure_to = NULL;
	/* Also the thread before them, which may have run on. */
	if (from > r->session->cpus[stream->stream->cpu].turns) {
		struct turn before = from[-1];

		before.tsc = from->tsc;
		status = call_threads_lose(&r->threads, s->index, &before);
	}
	for (; from <= to && status >= 0; from++)
		status = call_threads_lose(&r->threads, s->index, from);
	return status;
}

/*
 * Reads the next items of a source. Returns 1; 0: the source has ended. Sets *turned if they are
 * those of another turn.
 */
static int fill(struct ptah_call_reader *r, struct source *s, bool *turned)
{
	const int n = ptah_reader_read(s->reader, s->items, ITEMS);
	const struct turn *turn;
	int status;

	*turned = false;
	s->next = 0;
	s->count = n > 0 ? (size_t)n : 0;
	if (n <= 0)
		return n;
	turn = s->reader->s->turn;
	*turned = turn != s->turn;
	if (*turned) {
		s->turn = turn;
		s->since = turn ? turn->tsc : s->since;
		s->thread = NULL;
	}
	if (s->generation != ptah_image_generation(s->reader->s->image)) {
		s->generation = ptah_image_generation(s->reader->s->image);
		r->code_changes++;
	}
	status = number_spaces(s);
	if (status >= 0)
		status = lose_threads(r, s);
	return status < 0 ? status : 1;
}

/* Which source is next */

static bool is_wanted(const struct ptah_call_reader *r, size_t stream)
{
	return !r->config.wants || r->config.wants(r->config.context, stream);
}

static bool is_per_cpu(const struct ptah_call_reader *r, size_t stream)
{
	return r->session->streams[stream].cpu != SESSION_NONE;
}

/* Opens all streams per CPU, and reads the first items of each. */
static int open_cpus(struct ptah_call_reader *r)
{
	const size_t streams = r->session->stream_count;
	bool turned;
	int status = 0;

	r->cpus = calloc(streams + 1, sizeof(*r->cpus));
	if (!r->cpus)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < streams && status >= 0; i++) {
		struct source *s = &r->cpus[r->cpu_count];

		if (!is_per_cpu(r, i) || !is_wanted(r, i))
			continue;
		status = open_source(r, s, i, NULL);
		if (status < 0)
			break;
		r->cpu_count++;
		status = fill(r, s, &turned);
		if (!status)
			close_source(r, s);
	}
	return status < 0 ? status : 0;
}

/* The source whose turn began first. */
static struct source *first_cpu(const struct ptah_call_reader *r)
{
	struct source *first = NULL;

	for (size_t i = 0; i < r->cpu_count; i++)
		if (r->cpus[i].reader && (!first || r->cpus[i].since < first->since))
			first = &r->cpus[i];
	return first;
}

/* Sets `now`, to NULL at the end. */
static int choose_source(struct ptah_call_reader *r)
{
	int status;

	for (; r->next_stream < r->session->stream_count; r->next_stream++) {
		if (is_per_cpu(r, r->next_stream) || !is_wanted(r, r->next_stream))
			continue;
		r->now = &r->alone;
		return open_source(r, r->now, r->next_stream++, &r->jobs);
	}
	status = r->cpus ? 0 : open_cpus(r);
	r->now = first_cpu(r);
	return status;
}

/* Threads */

/* Looks up the thread whose turn it is. */
static int find_thread(struct ptah_call_reader *r, struct source *s)
{
	const struct ptah_item *first = &s->items[s->next];
	struct ptah_thread who;
	int status = 0;

	if (s == &r->alone) {
		ptah_reader_thread(s->reader, &who);
		s->thread = call_threads_new(&r->threads, s->index, &who);
	} else {
		s->thread = call_threads_find(&r->threads, s->index, s->turn);
	}
	if (!s->thread)
		return PTAH_E_NOMEM;
	s->thread->info.stream = s->index;
	call_thread_begin(s->thread, first->tsc);
	if (s != &r->alone && (!s->turn || call_thread_is_lost(s->thread, s->since)))
		status = ptah_calls_lost(s->thread->calls);
	return status;
}

/* The thread executes another program: its calls end. */
static int execute(struct ptah_call_reader *r, struct source *s)
{
	const struct ptah_item *first = &s->items[s->next];

	r->ending = s->thread;
	s->thread = call_threads_exec(&r->threads, s->thread);
	if (!s->thread)
		return PTAH_E_NOMEM;
	return ptah_calls_exec(r->ending->calls, first->tsc);
}

/* The stream has ended, and so has its thread, if it is of one. */
static int end_source(struct ptah_call_reader *r, struct source *s)
{
	const struct stream *stream = &r->session->streams[s->index];
	int status = 0;

	close_source(r, s);
	r->now = NULL;
	if (s != &r->alone || !s->thread)
		return 0;
	r->ending = s->thread;
	/* The stream ends where the process executed another program. */
	if (stream->process != SESSION_NONE && stream->last != SESSION_NONE)
		status = ptah_calls_exec(r->ending->calls, 0);
	return status;
}

/* Batches */

static int deliver(struct ptah_call_reader *r, const struct call_thread *t, size_t count)
{
	r->batch.thread = &t->info;
	r->batch.marks = r->marks;
	r->batch.count = count;
	return 1;
}

/* Ends the calls that are open. */
static int finish_thread(struct ptah_call_reader *r)
{
	struct call_thread *t = r->ending;
	const int n = ptah_calls_finish(t->calls, r->marks, MARKS);

	if (n < 0)
		return n;
	if (!n) {
		r->batch.ended = t->ended = true;
		ptah_calls_free(t->calls);
		t->calls = NULL;
		r->ending = NULL;
	}
	return deliver(r, t, (size_t)n);
}

static bool is_returned(const struct ptah_call_reader *r, const struct ptah_item *item)
{
	return item->type != PTAH_ITEM_BLOCK &&
	       (r->config.events || item->type == PTAH_ITEM_ERROR ||
		item->type == PTAH_ITEM_OVERFLOW || item->type == PTAH_ITEM_GAP);
}

/*
 * Gives the thread's machine its items up to the first event that is returned. 1: there is a batch.
 */
static int take_items(struct ptah_call_reader *r, struct source *s)
{
	size_t end = s->next, count;
	bool has_event = false;
	int used;

	for (; end < s->count && s->items[end].tsc < s->thread->exec && !has_event; end++)
		has_event = is_returned(r, &s->items[end]);
	if (end == s->next)
		return execute(r, s);
	if (s->thread->code_changes != r->code_changes) {
		s->thread->code_changes = r->code_changes;
		ptah_calls_code_changed(s->thread->calls);
	}
	used = ptah_calls_take(s->thread->calls, s->items + s->next, end - s->next, r->marks, MARKS,
			       &count);
	if (used < 0)
		return used;
	s->next += (size_t)used;
	if (has_event && s->next == end)
		r->batch.event = &s->items[end - 1];
	return count || r->batch.event ? deliver(r, s->thread, count) : 0;
}

/* One step. 1: there is a batch. */
static int step(struct ptah_call_reader *r)
{
	struct source *s = r->now;
	bool turned;
	int status;

	if (s->next == s->count) {
		status = fill(r, s, &turned);
		if (!status)
			return end_source(r, s);
		if (status < 0)
			return status;
		if (turned && s != &r->alone) {
			r->now = NULL;
			return 0;
		}
	}
	if (!s->thread) {
		status = find_thread(r, s);
		if (status < 0)
			return status;
	}
	return take_items(r, s);
}

/* Finds a thread that still has to end. */
static bool end_next(struct ptah_call_reader *r)
{
	while (r->next_ending < r->threads.count && !r->ending) {
		struct call_thread *t = r->threads.list[r->next_ending++];

		if (!t->ended)
			r->ending = t;
	}
	return r->ending;
}

static int next_batch(struct ptah_call_reader *r)
{
	int status = 0;

	r->batch = (struct ptah_call_batch){0};
	while (!status) {
		if (r->ending) {
			status = finish_thread(r);
		} else if (r->now) {
			status = step(r);
		} else {
			status = choose_source(r);
			if (status >= 0 && !r->now && !end_next(r))
				break;
		}
	}
	return status;
}

int ptah_call_reader_next(struct ptah_call_reader *r, const struct ptah_call_batch **batch)
{
	int status;

	if (!r || !batch)
		return PTAH_E_INVAL;
	if (r->status < 0)
		return r->status;
	status = next_batch(r);
	if (status < 0)
		r->status = status;
	*batch = &r->batch;
	return status;
}

int ptah_call_reader_new(const struct ptah_session *session,
			 const struct ptah_call_reader_config *config,
			 struct ptah_call_reader **reader)
{
	struct ptah_call_reader *r;
	int status = 0;

	if (!session || !reader ||
	    (config && (config->size < sizeof(*config) || config->jobs > MAX_JOBS ||
			(config->workers && config->workers->session != session))))
		return PTAH_E_INVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return PTAH_E_NOMEM;
	r->session = session;
	if (config)
		r->config = *config;
	if (!r->config.workers)
		status = ptah_workers_new(session, &r->own);
	r->jobs = (struct ptah_jobs){.size = sizeof(r->jobs),
				     .jobs = r->config.jobs,
				     .workers = r->own ? r->own : r->config.workers};
	call_threads_init(&r->threads, session, &r->config);
	if (status < 0) {
		ptah_call_reader_free(r);
		return status;
	}
	*reader = r;
	return 0;
}

void ptah_call_reader_free(struct ptah_call_reader *r)
{
	if (!r)
		return;
	close_source(r, &r->alone);
	for (size_t i = 0; i < r->cpu_count; i++)
		close_source(r, &r->cpus[i]);
	free(r->cpus);
	call_threads_fini(&r->threads);
	ptah_workers_free(r->own);
	free(r);
}

uint64_t ptah_call_reader_offset(const struct ptah_call_reader *r)
{
	uint64_t bytes = r->done;

	if (r->alone.reader)
		bytes += ptah_reader_offset(r->alone.reader);
	for (size_t i = 0; i < r->cpu_count; i++)
		if (r->cpus[i].reader)
			bytes += ptah_reader_offset(r->cpus[i].reader);
	return bytes;
}
