/* SPDX-License-Identifier: MIT */
/*
 * Follows calls of threads that move between processors. What one thread runs lies in the streams
 * of several processors, and is given to its call machine in the order of time.
 *
 * The switches say in which order a thread was where: each turn knows the thread's turn before
 * it (session.h). A turn is followed when the one before it is over: its processor's stream has
 * been followed up to a later turn, or up to a time at which the turn had ended (delivered). So
 * threads wait for their own trace only, not for that of a processor that has been idle for an
 * hour.
 */
#include "live/live.h"

#include "session/span_reader.h"
#include "image/image_access.h"
#include "session/stream.h"
#include "calls/calls.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

#define MARKS 512

/* What was read of a processor's stream and is not followed yet. */
struct live_source {
	struct ptah_span spans[SPAN_BATCH];
	struct ptah_item item;
	size_t span_count, next;
	bool is_item, has_cycles;
	uint64_t cycles_before, cycles; /* the stream's, before the batch and at its end */
	bool begun;
	size_t turn;		    /* whose batch it is; SESSION_NONE: unknown */
	size_t reached;		    /* turns before this one are followed */
	uint64_t since;		    /* when the turn began */
	struct live_runner *runner; /* NULL: not looked up yet */
};

int live_source_new(struct live_source **source)
{
	*source = calloc(1, sizeof(**source));
	if (*source)
		(*source)->turn = SESSION_NONE;
	return *source ? 0 : PTAH_E_NOMEM;
}

static bool has_batch(const struct live_source *s)
{
	return s->is_item || s->next < s->span_count;
}

uint64_t live_source_offset(const struct live_source *s)
{
	if (!s || !has_batch(s))
		return UINT64_MAX;
	return s->is_item ? s->item.offset : s->spans[s->next].offset;
}

/* The time of what comes next. */
static uint64_t next_time(const struct live_source *s)
{
	return s->is_item ? s->item.tsc : s->spans[s->next].tsc;
}

/* Reading */

static int lose_threads(struct live_stream *ls)
{
	struct stream_decoder *stream = ls->calls;
	const size_t from = stream->unsure_from, to = stream->unsure_to;

	stream->unsure_from = stream->unsure_to = SESSION_NONE;
	if (from == SESSION_NONE)
		return 0;
	ls->source->reached = to > ls->source->reached ? to : ls->source->reached;
	return call_threads_lose_turns(&ls->live->threads, ls->index, from, to);
}

/* Events among the spans have no cycles. */
static uint64_t cycles_after(const struct ptah_span *spans, size_t n, uint64_t before)
{
	while (n && spans[n - 1].insn_class == FLOW_SPAN_EVENT)
		n--;
	return n ? spans[n - 1].cycles : before;
}

/* All that the session knows of address spaces is which process they are of. */
static void clear_spaces(struct live_source *s)
{
	for (size_t i = 0; i < s->span_count; i++)
		s->spans[i].space = 0;
	if (s->is_item && s->item.type == PTAH_ITEM_ERROR)
		s->item.code.space = 0;
}

static void enter_turn(struct live_stream *ls)
{
	struct live_source *s = ls->source;

	s->turn = ls->calls->turn;
	s->begun = true;
	s->runner = NULL;
	if (s->turn == SESSION_NONE)
		return;
	s->since = stream_turn(ls->calls, s->turn)->tsc;
	/* When the first turn on a processor began may not be known. */
	if (!s->since)
		s->since = next_time(s);
	s->reached = s->turn > s->reached ? s->turn : s->reached;
}

/* Reads what comes next of a stream, if there is more before its stop. */
static int fill_source(struct live_stream *ls)
{
	struct live_source *s = ls->source;
	int n = stream_read_spans(ls->calls, s->spans, SPAN_BATCH, &s->item, &s->is_item);

	s->next = s->span_count = 0;
	s->is_item = s->is_item && n > 0;
	if (n <= 0)
		return n;
	s->span_count = s->is_item ? 0 : (size_t)n;
	s->cycles_before = s->cycles;
	s->cycles = cycles_after(s->spans, s->span_count, s->cycles);
	s->has_cycles = false;
	if (!s->begun || s->turn != ls->calls->turn)
		enter_turn(ls);
	if (ls->generation != image_generation(ls->calls->image)) {
		ls->generation = image_generation(ls->calls->image);
		ls->live->code_changes++;
	}
	clear_spaces(s);
	return lose_threads(ls);
}

/* Order */

static struct turn *turn_of(struct ptah_live *live, size_t cpu, size_t number)
{
	const struct cpu *c = &live->session->cpus[cpu];

	return number < c->gone || number - c->gone >= c->count ? NULL
								: &c->turns[number - c->gone];
}

/* When a turn ended; UINT64_MAX: that is not known. */
static uint64_t end_of(struct ptah_live *live, size_t cpu, size_t number)
{
	const struct turn *next = turn_of(live, cpu, number + 1);
	const struct cpu *c = &live->session->cpus[cpu];

	return next ? next->from : c->has_left ? c->left : UINT64_MAX;
}

/* Whether all that ran in a turn was followed. */
static bool is_over(struct ptah_live *live, size_t cpu, size_t number)
{
	const struct cpu *c = &live->session->cpus[cpu];
	const struct live_stream *ls;

	if (number < c->gone)
		return true;
	if (c->stream == SESSION_NONE || c->stream >= live->count)
		return live->session->growth->complete;
	ls = live->streams[c->stream];
	if (!ls->source)
		return live->session->growth->complete;
	if (number < ls->source->reached)
		return true;
	if (has_batch(ls->source))
		return false;
	return ls->delivered >= end_of(live, cpu, number) ||
	       !live->session->streams[ls->index].grows;
}

/* Whether the thread's turns before this one are over. */
static bool is_next(struct ptah_live *live, size_t cpu, size_t number)
{
	struct turn *first = turn_of(live, cpu, number), *turn = first;

	while (turn && !turn->is_next && turn->cpu_before != SESSION_NONE) {
		if (!is_over(live, turn->cpu_before, turn->before))
			return false;
		turn = turn_of(live, turn->cpu_before, turn->before);
	}
	if (first)
		first->is_next = true;
	return true;
}

bool live_is_past(struct ptah_live *live, size_t cpu, size_t number)
{
	return is_next(live, cpu, number) && is_over(live, cpu, number);
}

/* Following */

/* The runner of a thread; it is made if there is none. NULL: out of memory. */
static struct live_runner *runner_of(struct ptah_live *live, struct call_thread *t)
{
	const size_t number = t->info.number;

	while (live->runner_count <= number) {
		if (!LIST_ROOM(live->runners, live->runner_count, live->runner_capacity))
			return NULL;
		live->runners[live->runner_count++] = NULL;
	}
	if (!live->runners[number]) {
		live->runners[number] = calloc(1, sizeof(struct live_runner));
		if (live->runners[number])
			live->runners[number]->thread = t;
	}
	return live->runners[number];
}

/* Finds out whose batch it is. */
static int find_runner(struct live_stream *ls)
{
	struct live_source *s = ls->source;
	struct ptah_live *live = ls->live;
	struct call_thread *t =
	    call_threads_find(&live->threads, ls->index, stream_turn(ls->calls, s->turn));
	bool lost;

	s->runner = t ? runner_of(live, t) : NULL;
	if (!s->runner)
		return PTAH_E_NOMEM;
	t->info.stream = ls->index;
	t->more_cycles = t->cycles - s->cycles_before;
	lost = call_thread_is_lost(t, s->since) || s->turn == SESSION_NONE ||
	       s->since < s->runner->since;
	call_thread_find_exec(t);
	call_thread_begin(t, next_time(s));
	s->runner->since = s->since;
	return lost ? call_thread_lost(t) : 0;
}

static void add_cycles(struct live_source *s, uint64_t more)
{
	if (more)
		for (size_t i = s->next; i < s->span_count; i++)
			s->spans[i].cycles += more;
}

/* The thread executes another program. */
static int execute(struct live_stream *ls)
{
	struct live_source *s = ls->source;
	struct live_runner *r = s->runner;
	const size_t before = r->thread->info.number;
	int status;

	add_cycles(s, -r->thread->cycles);
	status = live_execute(ls, r, next_time(s));
	/* The runner goes on with the thread's new number. */
	ls->live->runners[before] = NULL;
	if (status < 0 || !runner_of(ls->live, r->thread)) {
		ls->live->runners[before] = r;
		return status < 0 ? status : PTAH_E_NOMEM;
	}
	free(ls->live->runners[r->thread->info.number]);
	ls->live->runners[r->thread->info.number] = r;
	return 0;
}

static int take_item(struct live_stream *ls, struct call_thread *t)
{
	struct ptah_call_mark marks[MARKS];
	size_t count = 0;
	const int used = calls_marks_take(t->calls, &ls->source->item, 1, marks, MARKS, &count);

	if (used > 0) {
		live_note_items(ls, &ls->source->item, 1);
		ls->source->is_item = false;
	}
	return used < 0 ? used : live_give_marks(ls, ls->source->runner, marks, count);
}

/*
 * Whether a span is of the thread's next program. An event may have come after the thread left, and
 * the thread executes the program elsewhere.
 */
static bool is_after(const struct call_thread *t, const struct ptah_span *span)
{
	return span->tsc >= t->exec && span->insn_class != FLOW_SPAN_EVENT;
}

static bool next_is_after(const struct live_source *s, const struct call_thread *t)
{
	if (s->is_item)
		return s->item.tsc >= t->exec && s->item.type == PTAH_ITEM_BLOCK;
	return is_after(t, &s->spans[s->next]);
}

static int take_spans(struct live_stream *ls, struct call_thread *t)
{
	struct ptah_call_mark marks[MARKS];
	struct live_source *s = ls->source;
	const struct ptah_span *spans = s->spans + s->next;
	size_t n = s->span_count - s->next, count = 0;
	int used;

	if (spans[n - 1].tsc >= t->exec)
		for (n = 0; s->next + n < s->span_count && !is_after(t, &spans[n]); n++)
			;
	used = calls_marks_take_spans(t->calls, spans, n, marks, MARKS, &count);
	if (used < 0)
		return used;
	t->cycles = cycles_after(spans, (size_t)used, t->cycles);
	s->next += (size_t)used;
	return live_give_marks(ls, s->runner, marks, count);
}

static int follow_batch(struct live_stream *ls)
{
	struct live_source *s = ls->source;
	uint64_t before;
	int status = 0;

	if (!s->runner || s->runner->thread->ended)
		status = find_runner(ls);
	if (status < 0)
		return status;
	before = s->runner->tally.total;
	while (status >= 0 && has_batch(s)) {
		struct call_thread *t = s->runner->thread;

		if (!s->has_cycles)
			add_cycles(s, t->more_cycles);
		s->has_cycles = true;
		call_thread_find_exec(t);
		if (next_is_after(s, t)) {
			status = execute(ls);
			continue;
		}
		if (t->code_changes != ls->live->code_changes) {
			t->code_changes = ls->live->code_changes;
			call_thread_code_changed(t);
		}
		status = s->is_item ? take_item(ls, t) : take_spans(ls, t);
	}
	if (status >= 0)
		status = live_reach(ls, s->runner);
	ls->instructions += s->runner->tally.total - before;
	return status;
}

/* Follows a source up to the end of its turn, or of what can be read now. */
static int follow_turn(struct live_stream *ls)
{
	const size_t turn = ls->source->turn;
	int status = 0;

	while (status >= 0 && has_batch(ls->source) && ls->source->turn == turn) {
		status = follow_batch(ls);
		if (status >= 0)
			status = fill_source(ls);
	}
	return status;
}

/*
 * The source whose turn began first, of those that can be followed, or of all. NULL: there is none.
 */
static struct live_stream *choose_next_source(struct ptah_live *live, bool force)
{
	struct live_stream *first = NULL;

	for (size_t i = 0; i < live->count; i++) {
		struct live_stream *ls = live->streams[i];
		const struct live_source *s = ls->source;

		if (!s || !has_batch(s) || (first && first->source->since <= s->since))
			continue;
		if (!force && s->turn != SESSION_NONE &&
		    !is_next(live, live->session->streams[i].cpu, s->turn))
			continue;
		first = ls;
	}
	return first;
}

int live_run_processors(struct ptah_live *live, bool force)
{
	struct live_stream *ls;
	bool any = false;
	int status = 0;

	for (size_t i = 0; i < live->count && status >= 0; i++) {
		ls = live->streams[i];
		if (ls->source && ls->calls && !has_batch(ls->source))
			status = fill_source(ls);
	}
	while (status >= 0 && (ls = choose_next_source(live, force))) {
		status = follow_turn(ls);
		force = false;
		any = true;
	}
	return status < 0 ? status : any;
}

/* Ends */

void live_note_exited(struct ptah_live *live, int32_t tid)
{
	for (size_t i = 0; i < live->runner_count; i++)
		if (live->runners[i] && live->runners[i]->thread->info.tid == tid)
			live->runners[i]->exited = true;
}

/* Whether the thread's last turn is over. */
static bool has_ended(struct ptah_live *live, const struct live_runner *r)
{
	const struct ptah_session *s = live->session;
	const size_t i = table_get(&s->last_by_tid, (uint32_t)r->thread->info.tid);

	return r->exited && i != SESSION_NONE &&
	       live_is_past(live, s->last_turns[i].cpu, s->last_turns[i].number);
}

/* All trace has been decoded. */
static int follow_rest(struct ptah_live *live)
{
	int status;

	do
		status = live_run_processors(live, false);
	while (status > 0 || (!status && (status = live_run_processors(live, true)) > 0));
	return status;
}

int live_end_runners(struct ptah_live *live, bool all)
{
	int status = all ? follow_rest(live) : 0;

	for (size_t i = 0; i < live->runner_count && status >= 0; i++) {
		struct live_runner *r = live->runners[i];

		if (!r || r->thread->ended || (!all && !has_ended(live, r)))
			continue;
		status = live_end_thread(live->streams[r->thread->info.stream], r);
	}
	return status;
}

void live_free_runners(struct ptah_live *live)
{
	for (size_t i = 0; i < live->runner_count; i++) {
		if (live->runners[i]) {
			live_tally_free(&live->runners[i]->tally);
			live_watch_free(live, live->runners[i]);
		}
		free(live->runners[i]);
	}
	free(live->runners);
}
