/* SPDX-License-Identifier: MIT */
/* Shares the time between stamps among what ran (span_times.h). */
#include "session/span_times.h"

#include "flow/flow_machine.h"
#include "packet/opcode.h"
#include "session/absences.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

#define RETURNED 256 /* spans or items at once */

/*
 * So many entries wait at most for a stamp; where it is further away, the first ones get times by
 * their bytes of trace.
 */
#define WAITING_MOST (1u << 18)

/* Of a window, what is so much further than the item before does not follow it. */
#define FAR (UINT64_C(1) << 20)

/* So many stamps are taken at once. */
#define CROSSED_MOST 256

/* How often intervals are gone through to learn costs: from nothing, and from costs before. */
#define ROUNDS_AHEAD 100
#define ROUNDS_AGAIN 8

/* After so many intervals at least costs are learned again. */
#define LEARN_AGAIN 16

/* Entries */

static uint64_t offset_of(const struct waiting_entry *e)
{
	return e->is_item ? e->item.offset : e->span.offset;
}

static double instructions_of(const struct waiting_entry *e)
{
	if (e->is_item)
		return e->item.type == PTAH_ITEM_BLOCK ? e->item.ninsn : 0;
	return e->span.insn_class == FLOW_SPAN_EVENT ? 0 : (double)e->span.ninsn;
}

static void set_time(struct waiting_entry *e, uint64_t tsc)
{
	if (e->is_item)
		e->item.tsc = tsc;
	else
		e->span.tsc = tsc;
}

/* Intervals */

/* What is known of the interval when it is complete. */
struct interval {
	bool known;
	const struct absences *absences; /* from the thread's processor, in it; or NULL */
	uint64_t from, ticks;		 /* by the clock that stands still meanwhile */
};

static bool has_interval(const struct span_times *t)
{
	return t->has_before && t->has_after && t->before.kind != STAMP_NONE &&
	       t->after.kind != STAMP_NONE && t->after.tsc >= t->before.tsc && !t->after.blind;
}

/* Sets how long the thread was on its processor in the interval, if it is known. */
static void measure_interval(const struct span_times *t, struct interval *interval)
{
	const uint64_t before = t->before.tsc, after = t->after.tsc;

	*interval = (struct interval){.known = has_interval(t)};
	if (!interval->known)
		return;
	interval->absences = t->session ? absences_of(t->session, t->tid) : NULL;
	interval->from = absences_on(interval->absences, before);
	interval->ticks = absences_on(interval->absences, after) - interval->from;
	if (interval->ticks == after - before)
		interval->absences = NULL;
	if (!interval->absences)
		interval->from = before;
}

/* The time at which a part of what ran in the interval has run. */
static uint64_t time_in(const struct span_times *t, const struct interval *interval, double part)
{
	uint64_t tsc = interval->from + (uint64_t)((double)interval->ticks * part + 0.5);

	tsc = absences_when(interval->absences, tsc);
	tsc = tsc < t->before.tsc ? t->before.tsc : tsc;
	return tsc > t->after.tsc ? t->after.tsc : tsc;
}

/*
 * The interval says what its code costs. Costs are learned again after some more intervals: the
 * more there were, the less is new.
 */
static void learn_interval(struct span_times *t, const struct interval *interval)
{
	struct code_costs *c = &t->costs;
	const bool stopped = t->before.kind == STAMP_OWN && t->before.stops; /* the kernel ran */

	code_costs_end(c, interval->known && !stopped ? (double)interval->ticks : -1);
	if (!t->looks_ahead && c->unlearned > LEARN_AGAIN && c->unlearned > c->interval_count / 4)
		code_costs_learn(c, ROUNDS_AGAIN);
}

/* So much of the code ran in the interval, which teaches nothing if the look ahead has seen it. */
static void note_share(struct span_times *t, uint32_t code, double instructions)
{
	if (t->looks_ahead || t->number >= t->looked)
		code_costs_add(&t->costs, code, instructions);
}

/* The interval is complete: all that waits ran in it. */
static void close_interval(struct span_times *t)
{
	double sum = t->across, done = 0;
	struct interval interval;

	measure_interval(t, &interval);
	for (size_t i = t->ready; i < t->count; i++)
		sum += t->list[i].weight;
	for (size_t i = t->ready; i < t->count && t->has_before; i++) {
		struct waiting_entry *e = &t->list[i];

		if (t->before.kind == STAMP_NONE)
			continue;
		done += e->weight;
		if (!interval.known)
			set_time(e, t->before.tsc);
		else if (sum > 0)
			set_time(e, time_in(t, &interval, done / sum));
		else
			set_time(e, stamps_between(&t->before, &t->after, offset_of(e)));
	}
	learn_interval(t, &interval);
	t->ready = t->count;
	t->across = 0;
}

/* Where branches go on behind a stamp. */
static uint64_t behind(const struct tsc_stamp *s)
{
	return s->kind == STAMP_LOOK ? s->from + SIZE_TSC : s->from;
}

/* The stamp ends the interval and begins the next one. */
static void pass_stamp(struct span_times *t, const struct tsc_stamp *stamp)
{
	const uint64_t place = behind(stamp);

	t->after = *stamp;
	t->has_after = true;
	close_interval(t);
	t->number++;
	t->place = place > t->place ? place : t->place;
	t->before = *stamp;
	t->has_before = true;
}

/* The next stamps up to an offset, as many as fit. Behind them is `after`. Returns how many. */
static size_t take_stamps(struct span_times *t, const struct stream *stream, uint64_t end)
{
	size_t n = 0;

	while (t->has_after && end >= t->after.from && n < CROSSED_MOST) {
		t->crossed[n++] = t->after;
		t->has_after = stamps_take(t->queue, &t->walk, stream, &t->after);
	}
	return n;
}

/* Those bytes of [from, to) that are no stamps. */
static uint64_t branch_bytes(const struct tsc_stamp *stamps, size_t n, uint64_t from, uint64_t to)
{
	uint64_t bytes = to > from ? to - from : 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t size = behind(&stamps[i]) - stamps[i].to;

		if (stamps[i].to >= from && stamps[i].to < to)
			bytes = bytes > size ? bytes - size : 0;
	}
	return bytes;
}

/* Too much waits: it gets times by its bytes, and the interval goes on from there. */
static void split_interval(struct span_times *t)
{
	struct tsc_stamp here = t->before;

	here.from = here.to = t->place;
	here.tsc = stamps_between(&t->before, &t->after, t->place);
	for (size_t i = t->ready; i < t->count; i++)
		set_time(&t->list[i],
			 stamps_between(&t->before, &t->after, offset_of(&t->list[i])));
	t->ready = t->count;
	t->before = here;
}

/*
 * So many instructions of a piece of code ran from `place` on through these stamps, and up to an
 * offset, in proportion to their bytes of trace. Returns how many are behind the stamps.
 */
static double cross_stamps(struct span_times *t, size_t n, uint32_t code, double left, uint64_t end)
{
	const struct tsc_stamp after = t->after;
	const bool has_after = t->has_after;
	uint64_t bytes = branch_bytes(t->crossed, n, t->place, end);

	for (size_t i = 0; i < n; i++) {
		const uint64_t to = t->crossed[i].to < end ? t->crossed[i].to : end;

		if (left > 0 && bytes && to > t->place) {
			const uint64_t here = to - t->place < bytes ? to - t->place : bytes;
			const double part = left * (double)here / (double)bytes;

			t->across = part * code_costs_of(&t->costs, code);
			note_share(t, code, part);
			left -= part;
			bytes -= here;
		}
		pass_stamp(t, &t->crossed[i]);
	}
	t->after = after;
	t->has_after = has_after;
	return left;
}

/*
 * Takes an entry that ran from `place` on, through any number of stamps, in proportion to its bytes
 * of trace.
 */
static void add_entry(struct span_times *t, const struct stream *stream, struct waiting_entry *e)
{
	const uint64_t end = offset_of(e);
	double left = instructions_of(e);
	const uint32_t code =
	    left > 0 ? code_costs_find(&t->costs, e->is_item ? e->item.ip : e->span.ip) : 0;
	size_t n;

	if (!t->queue && (!t->begun || (e->is_item && end > t->place + FAR))) {
		close_interval(t);
		t->begun = true;
		stamps_seek(&t->walk, stream, end);
		t->has_before = t->has_after = false;
		t->place = end;
	}
	if (!t->has_after)
		t->has_after = stamps_take(t->queue, &t->walk, stream, &t->after);
	while ((n = take_stamps(t, stream, end)) > 0)
		left = cross_stamps(t, n, code, left, end);
	note_share(t, code, left);
	if (!t->looks_ahead) {
		e->weight = left * code_costs_of(&t->costs, code);
		t->list[t->count++] = *e;
	}
	t->place = end > t->place ? end : t->place;
	if (!has_interval(t))
		close_interval(t);
	else if (t->count - t->ready > WAITING_MOST)
		split_interval(t);
}

/* Reading */

static bool make_room(struct span_times *t, size_t n)
{
	if (t->next) {
		memmove(t->list, t->list + t->next, (t->count - t->next) * sizeof(*t->list));
		t->count -= t->next;
		t->ready -= t->next;
		t->next = 0;
	}
	return LIST_ROOM_FOR(t->list, t->count, n, t->capacity);
}

/*
 * Is it a span that goes on with the next one? Where a batch ended depends on how the stream was
 * read, which must not matter.
 */
static bool is_cut(const struct waiting_entry *e)
{
	return !e->is_item && e->span.insn_class == PTAH_INSN_OTHER &&
	       !(e->span.flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN));
}

static bool continues(const struct span_times *t, const struct waiting_entry *e)
{
	const struct ptah_span *cut = &t->cut.span;

	return t->has_cut && !e->is_item && e->span.insn_class != FLOW_SPAN_EVENT &&
	       e->span.ip == cut->to && e->span.space == cut->space && e->span.mode == cut->mode;
}

static void end_cut(struct span_times *t, const struct stream *stream)
{
	if (t->has_cut)
		add_entry(t, stream, &t->cut);
	t->has_cut = false;
}

static void take_entry(struct span_times *t, const struct stream *stream, struct waiting_entry *e)
{
	if (continues(t, e)) {
		e->span.ip = t->cut.span.ip;
		e->span.ninsn += t->cut.span.ninsn;
		t->has_cut = false;
	}
	end_cut(t, stream);
	if (!is_cut(e)) {
		add_entry(t, stream, e);
		return;
	}
	t->cut = *e;
	t->has_cut = true;
}

static int add_batch(struct span_times *t, const struct stream *stream,
		     const struct timed_batch *batch)
{
	struct waiting_entry e = {.generation = batch->generation};

	if (!t->crossed)
		t->crossed = calloc(CROSSED_MOST, sizeof(*t->crossed));
	if (!t->crossed)
		return PTAH_E_NOMEM;
	if (!make_room(t, batch->span_count + batch->item_count + 1))
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < batch->span_count; i++) {
		e.is_item = false;
		e.span = batch->spans[i];
		take_entry(t, stream, &e);
	}
	for (size_t i = 0; i < batch->item_count; i++) {
		e.is_item = true;
		e.item = batch->items[i];
		take_entry(t, stream, &e);
	}
	return 0;
}

/* Returns what is ready, of one kind and from one image. */
static void return_batch(struct span_times *t, struct timed_batch *batch)
{
	const struct waiting_entry *first = &t->list[t->next];
	size_t n = 0;

	*batch = (struct timed_batch){
	    .spans = t->spans, .items = t->items, .generation = first->generation};
	while (t->next < t->ready && n < RETURNED) {
		const struct waiting_entry *e = &t->list[t->next];

		if (e->is_item != first->is_item || e->generation != first->generation)
			break;
		if (e->is_item)
			t->items[n++] = e->item;
		else
			t->spans[n++] = e->span;
		t->next++;
	}
	*(first->is_item ? &batch->item_count : &batch->span_count) = n;
}

void span_times_begin(struct span_times *t, const struct ptah_session *session,
		      const struct stream *stream)
{
	*t = (struct span_times){
	    .used = stamps_are_used(session, stream), .session = session, .tid = stream->info.tid};
}

void span_times_free(struct span_times *t)
{
	free(t->list);
	free(t->crossed);
	code_costs_free(&t->costs);
	free(t->spans);
	free(t->items);
	*t = (struct span_times){0};
}

int span_times_look_ahead(struct span_times *t, const struct stream *stream, read_untimed *read,
			  void *context)
{
	struct span_times ahead = {
	    .used = true, .looks_ahead = true, .session = t->session, .tid = t->tid};
	struct timed_batch untimed;
	int status;

	do {
		untimed = (struct timed_batch){0};
		status = read(context, &untimed);
		if (status > 0 && add_batch(&ahead, stream, &untimed) < 0)
			status = PTAH_E_NOMEM;
	} while (status > 0 && !code_costs_enough(&ahead.costs));
	code_costs_learn(&ahead.costs, ROUNDS_AHEAD);
	t->looked = ahead.number;
	t->costs = ahead.costs;
	ahead.costs = (struct code_costs){0};
	span_times_free(&ahead);
	return status;
}

static bool make_arrays(struct span_times *t)
{
	if (!t->spans)
		t->spans = calloc(RETURNED, sizeof(*t->spans));
	if (!t->items)
		t->items = calloc(RETURNED, sizeof(*t->items));
	return t->spans && t->items;
}

int span_times_next(struct span_times *t, const struct stream *stream, read_untimed *read,
		    void *context, bool more, struct timed_batch *batch)
{
	int status = 1;

	if (!t->used)
		return read(context, batch);
	if (!make_arrays(t))
		return PTAH_E_NOMEM;
	while (t->next == t->ready) {
		struct timed_batch untimed = {0};

		status = read(context, &untimed);
		if (status < 0)
			return status;
		if (!status && more)
			return 0;
		if (!status) {
			if (!make_room(t, 1))
				return PTAH_E_NOMEM;
			end_cut(t, stream);
			if (t->ready == t->count)
				return 0;
			close_interval(t);
		} else {
			status = add_batch(t, stream, &untimed);
		}
		if (status < 0)
			return status;
	}
	return_batch(t, batch);
	return 1;
}
