/* SPDX-License-Identifier: MIT */
/*
 * Call readers: decodes streams, and hands what each thread ran to its call machine
 * (call_reader.h).
 *
 * A source is a stream that is being read. Sources per CPU are open at the same time; the one whose
 * next turn began first is read, up to its next turn. A thread runs on one CPU at a time, so that
 * order has the turns of each thread in the order of time.
 */
#include "session/call_reader.h"

#include "session/span_reader.h"

#include "calls/steps.h"

#include "base/compiler.h"
#include "calls/calls.h"

#include <stdlib.h>
#include <string.h>

#define MARKS 512

/* So many bytes of trace between two reports of progress, at least, while trees are made. */
#define TREE_STEP (UINT64_C(1) << 20)

/* A stream that is being read. */
struct source {
	size_t index;
	struct span_reader in;		/* its reader is NULL: the source has ended */
	struct span_batch batch;	/* what is read: spans or items */
	size_t next;			/* the first of them that is left */
	uint64_t cycles_before, cycles; /* the stream's, before the batch and at its end */
	bool has_cycles;		/* the spans have those of the thread */
	size_t turn;	/* number of the turn whose batch it is; SESSION_NONE: unknown */
	uint64_t since; /* when it began; of an unknown one, when the one before did */
	struct call_thread *thread;	   /* whose turn it is; NULL: not looked up yet */
	bool has_spaces;		   /* the session knows its address spaces */
	uint64_t generation;		   /* of the image */
	struct stamp_bounds bounds;	   /* of its times, where these are known at stamps, */
	const struct call_thread *bounded; /* and the thread whose tree has them */
};

struct ptah_call_reader {
	const struct ptah_session *session;
	struct ptah_call_reader_config config;
	struct ptah_jobs jobs;
	/* The workers and functions, if the caller has given none. */
	struct ptah_workers *own_workers;
	struct ptah_functions *own_functions;
	struct ptah_call_tree_config trees;
	struct call_unit unit;
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
	union {
		struct ptah_call_mark marks[MARKS];
		struct ptah_call_step steps[MARKS];
	};
};

/* Sources */

static int open_source(struct ptah_call_reader *r, struct source *s, size_t index,
		       const struct ptah_jobs *jobs)
{
	const struct stream *stream = &r->session->streams[index];

	s->index = index;
	s->batch = (struct span_batch){0};
	s->next = 0;
	s->cycles = 0;
	s->turn = SESSION_NONE;
	s->since = 0;
	s->thread = NULL;
	s->bounds = (struct stamp_bounds){0};
	s->bounded = NULL;
	s->has_spaces = !stream_is_shared(stream) && session_has_spaces(r->session, stream);
	return span_reader_open(&s->in, r->session, index, jobs, r->config.functions,
				r->threads.trees, r->threads.trees || !r->config.events,
				!r->config.no_estimates);
}

static void close_source(struct ptah_call_reader *r, struct source *s)
{
	if (s->in.reader)
		r->done += r->session->streams[s->index].info.bytes;
	span_reader_close(&s->in);
}

/* What is left of a batch. */
static size_t left_of(const struct source *s)
{
	return s->batch.span_count + s->batch.item_count - s->next;
}

/* The number in marks of an address space of the flow. */
static int number_space(const struct source *s, uint32_t *number)
{
	const int32_t space = s->has_spaces ? ptah_reader_space(s->in.reader, *number) : -1;

	*number = space < -1 ? (uint32_t)(-1 - space) : 0;
	return *number > UINT16_MAX ? PTAH_E_LIMIT : 0;
}

/*
 * Gives the address spaces the numbers that they have in marks: 0 is the thread's own process, n
 * the n-th address space that the session knows.
 */
static int number_spaces(struct source *s)
{
	int status = 0;

	for (size_t i = 0; i < s->batch.item_count && status >= 0; i++) {
		struct ptah_item *item = &s->batch.items[i];

		if (item->type == PTAH_ITEM_BLOCK || item->type == PTAH_ITEM_ERROR)
			status = number_space(s, &item->code.space);
	}
	/* Mostly the session knows none, and the flow has met none. */
	if (!s->has_spaces && s->in.reader->alone && s->in.reader->s->flow->code.space_count == 1)
		return status;
	for (size_t i = 0; i < s->batch.span_count && status >= 0; i++) {
		uint32_t number = s->batch.spans[i].space;

		if (!number && !s->has_spaces)
			continue;
		status = number_space(s, &number);
		s->batch.spans[i].space = (uint16_t)number;
	}
	return status;
}

/* Each thread that may have run unseen in a source has a loss there. */
static int lose_threads(struct ptah_call_reader *r, const struct source *s)
{
	struct stream_decoder *stream = s->in.reader->s;
	const size_t from = stream->unsure_from, to = stream->unsure_to;

	stream->unsure_from = stream->unsure_to = SESSION_NONE;
	return from == SESSION_NONE ? 0 : call_threads_lose_turns(&r->threads, s->index, from, to);
}

/* The thread's cycles after `n` spans, if they were `before`. Events among them have none. */
static uint64_t cycles_after(const struct ptah_span *spans, size_t n, uint64_t before)
{
	while (n && spans[n - 1].insn_class == FLOW_SPAN_EVENT)
		n--;
	return n ? spans[n - 1].cycles : before;
}

/* The time of what a source has next. */
static uint64_t next_time(const struct source *s)
{
	if (s->batch.summary)
		return calls_summary_time(s->batch.summary);
	return s->batch.span_count ? s->batch.spans[s->next].tsc : s->batch.items[s->next].tsc;
}

/*
 * When the stream's turn began. Of the first one on a CPU the time may not be known (0): the thread
 * has run elsewhere before.
 */
static uint64_t begin_of(const struct stream_decoder *stream, const struct source *s)
{
	uint64_t tsc;

	if (stream->turn == SESSION_NONE)
		return s->since;
	tsc = stream_turn(stream, stream->turn)->tsc;
	return tsc ? tsc : next_time(s);
}

/*
 * Reads the next items of a source. Returns 1; 0: the source has ended. Sets *turned if they are
 * those of another turn.
 */
static int fill(struct ptah_call_reader *r, struct source *s, bool *turned)
{
	const struct stream_decoder *stream = s->in.reader->s;
	int status;

	*turned = false;
	s->next = 0;
	status = span_reader_next(&s->in, &s->batch);
	if (status <= 0)
		return status;
	*turned = stream->turn != s->turn;
	s->cycles_before = s->cycles;
	s->has_cycles = false;
	s->cycles = cycles_after(s->batch.spans, s->batch.span_count, s->cycles);
	if (*turned) {
		s->turn = stream->turn;
		s->since = begin_of(stream, s);
		s->thread = NULL;
	}
	if (s->generation != s->batch.generation) {
		s->generation = s->batch.generation;
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
	if (!call_unit_has(&r->unit, r->session, stream))
		return false;
	return !r->config.wants || r->config.wants(r->config.context, stream);
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

		if (!call_is_per_cpu(r->session, i) || !is_wanted(r, i))
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
		if (r->cpus[i].in.reader && (!first || r->cpus[i].since < first->since))
			first = &r->cpus[i];
	return first;
}

/* Sets `now`, to NULL at the end. */
static int choose_source(struct ptah_call_reader *r)
{
	int status;

	for (; r->next_stream < r->session->stream_count; r->next_stream++) {
		if (call_is_per_cpu(r->session, r->next_stream) || !is_wanted(r, r->next_stream))
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
	const bool alone = s == &r->alone;
	struct call_thread *t;
	struct ptah_thread who;

	if (alone) {
		ptah_reader_thread(s->in.reader, &who);
		t = call_threads_new(&r->threads, s->index, &who);
	} else {
		t = call_threads_find(&r->threads, s->index, stream_turn(s->in.reader->s, s->turn));
	}
	if (!t)
		return PTAH_E_NOMEM;
	s->thread = t;
	t->info.stream = s->index;
	t->more_cycles = t->cycles - s->cycles_before;
	call_thread_begin(t, next_time(s));
	return !alone && (s->turn == SESSION_NONE || call_thread_is_lost(t, s->since))
		   ? call_thread_lost(t)
		   : 0;
}

/* Makes the cycles of the stream those of the thread. */
static void add_cycles(const struct source *s, uint64_t more)
{
	if (more)
		for (size_t i = s->next; i < s->batch.span_count; i++)
			s->batch.spans[i].cycles += more;
}

/* The thread executes another program: its calls end. */
static int execute(struct ptah_call_reader *r, struct source *s)
{
	add_cycles(s, -s->thread->cycles);
	r->ending = s->thread;
	s->thread = call_threads_exec(&r->threads, s->thread);
	return s->thread ? call_thread_exec(r->ending, next_time(s)) : PTAH_E_NOMEM;
}

/* The trace of a thread has ended: it may have waited after that. */
static void end_with_wait(struct ptah_call_reader *r, struct call_thread *t)
{
	const uint64_t tsc = call_thread_time(t);

	r->ending = t;
	if (tsc && r->config.ended)
		call_thread_wait(t, r->config.ended(r->config.context, &t->info, tsc));
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
	/* The stream ends where the process executed another program. */
	if (stream->process != SESSION_NONE && stream->last != SESSION_NONE)
		status = call_thread_exec(s->thread, 0);
	else
		end_with_wait(r, s->thread);
	r->ending = s->thread;
	return status;
}

/* Batches */

static int deliver(struct ptah_call_reader *r, const struct call_thread *t, size_t count)
{
	r->batch.thread = &t->info;
	if (r->config.steps)
		r->batch.steps = r->steps;
	else
		r->batch.marks = r->marks;
	r->batch.count = count;
	return 1;
}

/* Ends the calls that are open. */
static int finish_thread(struct ptah_call_reader *r)
{
	struct call_thread *t = r->ending;
	const int n = t->adder		? calls_adder_finish(t->adder)
		      : r->config.steps ? calls_finish_steps(t->calls, r->steps, MARKS)
					: calls_marks_finish(t->calls, r->marks, MARKS);

	if (n < 0)
		return n;
	if (!n) {
		call_thread_end(t);
		r->batch.ended = true;
		r->ending = NULL;
	}
	return deliver(r, t, (size_t)n);
}

static bool is_returned(const struct ptah_call_reader *r, const struct ptah_item *item)
{
	return item->type != PTAH_ITEM_BLOCK && !r->threads.trees &&
	       (r->config.events || item->type == PTAH_ITEM_ERROR ||
		item->type == PTAH_ITEM_OVERFLOW);
}

/*
 * An event after the thread's next execve is none of the new program if it is of a CPU: it may have
 * come after the thread left, and the thread executes the program elsewhere.
 */
static bool is_after(const struct ptah_call_reader *r, const struct call_thread *t, uint64_t tsc,
		     bool is_event)
{
	return tsc >= t->exec && (!is_event || r->now == &r->alone);
}

static bool span_is_after(const struct ptah_call_reader *r, const struct call_thread *t,
			  const struct ptah_span *span)
{
	return is_after(r, t, span->tsc, span->insn_class == FLOW_SPAN_EVENT);
}

static bool item_is_after(const struct ptah_call_reader *r, const struct call_thread *t,
			  const struct ptah_item *item)
{
	return is_after(r, t, item->tsc, item->type != PTAH_ITEM_BLOCK);
}

/* Whether what is next is of the thread's next program. */
static bool next_is_after(const struct ptah_call_reader *r, const struct source *s)
{
	return s->batch.span_count ? span_is_after(r, s->thread, &s->batch.spans[s->next])
				   : item_is_after(r, s->thread, &s->batch.items[s->next]);
}

/* What has this offset is next: says within which times it ran. */
static int bound_next(struct ptah_call_reader *r, struct source *s, uint64_t offset)
{
	uint64_t low, high;

	if (s->bounded == s->thread && offset >= s->bounds.offset && offset < s->bounds.until)
		return 0;
	s->bounded = s->thread;
	stamps_bound(&s->bounds, r->session, &r->session->streams[s->index], offset, &low, &high);
	return calls_adder_bound(s->thread->adder, offset, low, high);
}

/* Whether the trees' functions get bounds of their times. */
static bool is_bounded(const struct ptah_call_reader *r, const struct source *s)
{
	return r->config.bounds && s->in.times.used;
}

/* Gives the thread's tree spans, those with the same bounds of their times at once. */
static int add_spans(struct ptah_call_reader *r, struct source *s, const struct ptah_span *spans,
		     size_t n)
{
	const bool bounded = is_bounded(r, s);
	int status = 0;

	for (size_t i = 0, k; i < n && status >= 0; i = k) {
		k = n;
		if (bounded) {
			status = bound_next(r, s, spans[i].offset);
			for (k = i + 1; k < n && spans[k].offset < s->bounds.until; k++)
				;
		}
		if (status >= 0)
			status = calls_adder_take_spans(s->thread->adder, spans + i, k - i);
	}
	return status < 0 ? status : (int)n;
}

static int add_items(struct ptah_call_reader *r, struct source *s, const struct ptah_item *items,
		     size_t n)
{
	const bool bounded = is_bounded(r, s);
	int status = 0;

	for (size_t i = 0, k; i < n && status >= 0; i = k) {
		k = bounded ? i + 1 : n;
		if (bounded)
			status = bound_next(r, s, items[i].offset);
		if (status >= 0)
			status = calls_adder_take(s->thread->adder, items + i, k - i);
	}
	return status < 0 ? status : (int)n;
}

/* Takes spans up to the thread's next execve. Returns how many; *count: marks. */
static int take_spans(struct ptah_call_reader *r, struct source *s, size_t *count)
{
	struct call_thread *t = s->thread;
	struct ptah_span *spans = s->batch.spans + s->next;
	size_t n = left_of(s);
	int used;

	if (spans[n - 1].tsc >= t->exec)
		for (n = 0; n < left_of(s) && !span_is_after(r, t, &spans[n]); n++)
			;
	if (!t->adder && r->config.steps) {
		used = calls_take_span_steps(t->calls, spans, n, r->steps, MARKS, count);
	} else if (!t->adder) {
		used = calls_marks_take_spans(t->calls, spans, n, r->marks, MARKS, count);
	} else {
		used = add_spans(r, s, spans, n);
	}
	if (used > 0)
		t->cycles = cycles_after(spans, (size_t)used, t->cycles);
	return used;
}

/* The same for items; also up to the first event that is returned. */
static int take_items(struct ptah_call_reader *r, struct source *s, size_t *count)
{
	struct call_thread *t = s->thread;
	const struct ptah_item *items = s->batch.items + s->next;
	const size_t left = left_of(s);
	bool has_event = false;
	size_t n = 0;
	int used;

	for (; n < left && !item_is_after(r, t, &items[n]) && !has_event; n++)
		has_event = is_returned(r, &items[n]);
	if (t->adder) {
		used = add_items(r, s, items, n);
	} else {
		used = r->config.steps
			   ? calls_take_steps(t->calls, items, n, r->steps, MARKS, count)
			   : calls_marks_take(t->calls, items, n, r->marks, MARKS, count);
		if (has_event && used == (int)n) {
			r->batch.event = &items[n - 1];
			calls_marks_counts(t->calls, &r->batch.counts);
		}
	}
	for (int i = 0; i < used; i++)
		t->info.errors += items[i].type == PTAH_ITEM_ERROR;
	return used;
}

/* The machine forgets what it knows of code that has changed. */
static void note_changes(const struct ptah_call_reader *r, struct call_thread *t)
{
	if (t->code_changes == r->code_changes)
		return;
	t->code_changes = r->code_changes;
	call_thread_code_changed(t);
}

/* Gives the thread's machine what is next. 1: there is a batch. */
static int take(struct ptah_call_reader *r, struct source *s)
{
	struct call_thread *t = s->thread;
	size_t count = 0;
	int used;

	if (!s->has_cycles)
		add_cycles(s, t->more_cycles);
	s->has_cycles = true;
	if (next_is_after(r, s))
		return execute(r, s);
	note_changes(r, t);
	used = s->batch.span_count ? take_spans(r, s, &count) : take_items(r, s, &count);
	if (used < 0)
		return used;
	s->next += (size_t)used;
	return count || r->batch.event ? deliver(r, t, count) : 0;
}

/* Joins the summary that is next. What of it cannot be joined comes as spans. */
static int join_summary(struct ptah_call_reader *r, struct source *s)
{
	struct call_thread *t = s->thread;
	int status;

	note_changes(r, t);
	status = span_reader_join(&s->in, t->adder, t->exec != UINT64_MAX, &t->info.errors);
	s->batch.summary = NULL;
	t->cycles = s->cycles = calls_adder_cycles(t->adder);
	return status;
}

/* One step. 1: there is a batch. */
static int step(struct ptah_call_reader *r)
{
	struct source *s = r->now;
	bool turned;
	int status;

	if (!left_of(s)) {
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
	return s->batch.summary ? join_summary(r, s) : take(r, s);
}

/* Finds a thread that still has to end. */
static bool end_next(struct ptah_call_reader *r)
{
	while (r->next_ending < r->threads.count && !r->ending) {
		struct call_thread *t = r->threads.list[r->next_ending++];

		if (!t->ended)
			end_with_wait(r, t);
	}
	return r->ending;
}

/* Nothing is left. */
static bool is_at_end(struct ptah_call_reader *r)
{
	return r->cpus && !r->now && !r->ending && !first_cpu(r) && !end_next(r);
}

/* Does some work. 1: there is a batch. */
static int go_on(struct ptah_call_reader *r)
{
	if (r->ending)
		return finish_thread(r);
	return r->now ? step(r) : choose_source(r);
}

static int next_batch(struct ptah_call_reader *r)
{
	int status = 0;

	r->batch = (struct ptah_call_batch){0};
	while (!status) {
		status = go_on(r);
		if (!status && is_at_end(r))
			break;
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

int call_reader_next_tree(struct ptah_call_reader *r, struct call_thread **thread)
{
	const uint64_t offset = ptah_call_reader_offset(r);
	int status = 0;

	*thread = NULL;
	r->batch = (struct ptah_call_batch){0};
	while (r->status >= 0 && !r->batch.ended) {
		status = go_on(r);
		if (status < 0)
			r->status = status;
		if (!status && is_at_end(r))
			return 0;
		if (ptah_call_reader_offset(r) - offset > TREE_STEP)
			return r->status < 0 ? r->status : 1;
	}
	if (r->status < 0)
		return r->status;
	*thread = r->threads.list[r->batch.thread->number];
	return 1;
}

/* What the caller has not given. */
static int make_own(struct ptah_call_reader *r)
{
	int status = 0;

	if (!r->config.workers) {
		status = ptah_workers_new(r->session, &r->own_workers);
		r->config.workers = r->own_workers;
	}
	if (status >= 0 && !r->config.functions) {
		status = ptah_functions_new(r->session, &r->own_functions);
		r->config.functions = r->own_functions;
	}
	return status;
}

bool call_is_config(const struct ptah_session *session,
		    const struct ptah_call_reader_config *config)
{
	return !config || (config->size >= sizeof(*config) && config->jobs <= MAX_JOBS &&
			   (!config->workers || config->workers->session == session));
}

int call_reader_open(const struct ptah_session *session,
		     const struct ptah_call_reader_config *config,
		     const struct ptah_call_tree_config *trees, const struct call_unit *unit,
		     struct ptah_call_reader **reader)
{
	struct ptah_call_reader *r = calloc(1, sizeof(*r));
	int status;

	if (!r)
		return PTAH_E_NOMEM;
	r->session = session;
	r->unit = *unit;
	if (config)
		r->config = *config;
	status = make_own(r);
	r->jobs = (struct ptah_jobs){.size = sizeof(r->jobs),
				     .jobs = r->config.jobs,
				     .segment = r->config.segment,
				     .workers = r->config.workers};
	if (trees)
		r->trees = *trees;
	call_threads_init(&r->threads, session, r->config.functions, trees ? &r->trees : NULL);
	r->threads.steps = r->config.steps;
	if (status < 0) {
		ptah_call_reader_free(r);
		return status;
	}
	*reader = r;
	return 0;
}

int ptah_call_reader_new(const struct ptah_session *session,
			 const struct ptah_call_reader_config *config,
			 struct ptah_call_reader **reader)
{
	const struct call_unit all = {CALL_UNIT_ALL, 0};

	if (!session || !reader || !call_is_config(session, config))
		return PTAH_E_INVAL;
	return call_reader_open(session, config, NULL, &all, reader);
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
	ptah_workers_free(r->own_workers);
	ptah_functions_free(r->own_functions);
	free(r);
}

uint64_t ptah_call_reader_offset(const struct ptah_call_reader *r)
{
	uint64_t bytes = r->done;

	if (r->alone.in.reader)
		bytes += ptah_reader_offset(r->alone.in.reader);
	for (size_t i = 0; i < r->cpu_count; i++)
		if (r->cpus[i].in.reader)
			bytes += ptah_reader_offset(r->cpus[i].in.reader);
	return bytes;
}
