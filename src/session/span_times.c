/* SPDX-License-Identifier: MIT */
/* Shares the time between stamps among what ran (span_times.h). */
#include "session/span_times.h"

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

/* What is in a window and so much further than the item before does not follow it. */
#define FAR (UINT64_C(1) << 20)

/* What a span costs is brought to the cache before so many others are taken. */
#define AHEAD_SPANS 8

/* So many stamps are taken at once. */
#define CROSSED_MOST 256

/*
 * Every other PART of a stream with more bytes than AHEAD_ALL is looked at, every third of one with
 * twice as many, and so on, up to each AHEAD_ONE_OF-th. From an eighth of 10 MB, some 250
 * intervals, three functions that took turns got totals that were wrong by up to 42 %; from all of
 * them by 10 %.
 */
#define PART	     (UINT64_C(1) << 20)
#define AHEAD_ALL    (16 * PART)
#define AHEAD_ONE_OF 8

/* After so many intervals at least costs are learned again. */
#define LEARN_AGAIN 16

/* Entries */

/* The functions below take spans that may be items in disguise (CLASS_ITEM). */
static const struct ptah_item *item_of(const struct ptah_span *e)
{
	return e->insn_class == CLASS_ITEM ? &((const union span_entry *)(const void *)e)->item
					   : NULL;
}

static uint64_t offset_of(const struct ptah_span *e)
{
	const struct ptah_item *item = item_of(e);

	return item ? item->offset : e->offset;
}

static double instructions_of(const struct ptah_span *e)
{
	const struct ptah_item *item = item_of(e);

	if (item)
		return item->type == PTAH_ITEM_BLOCK ? item->ninsn : 0;
	return e->insn_class == FLOW_SPAN_EVENT ? 0 : (double)e->ninsn;
}

static void set_time(union span_entry *e, uint64_t tsc)
{
	if (e->span.insn_class == CLASS_ITEM)
		e->item.tsc = tsc;
	else
		e->span.tsc = tsc;
}

/* Intervals */

/* What is known of the interval when it is complete. */
struct interval {
	bool known;
	const struct absences *absences; /* from the thread's processor, in it; or NULL */
	uint64_t from, ticks;		 /* by the clock that stands still meanwhile, */
	uint64_t shift, until;		 /* which is behind by so much up to there */
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
	if (interval->absences)
		return;
	interval->from = before;
	interval->until = UINT64_MAX;
}

/* The time at which the thread had been on its processor for so many ticks of the interval. */
static uint64_t time_in(const struct span_times *t, struct interval *interval, double ticks)
{
	const uint64_t on = interval->from + (uint64_t)(ticks + 0.5);
	uint64_t tsc = on + interval->shift;

	if (on > interval->until) {
		tsc = absences_when(interval->absences, on, &interval->until);
		interval->shift = tsc - on;
	}
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
		code_costs_learn(c);
}

/* Gives what waits its share of the interval. */
static void set_times(struct span_times *t, struct interval *interval)
{
	const double rate = t->weight > 0 ? (double)interval->ticks / t->weight : 0;
	double done = 0;

	for (size_t i = t->ready; i < t->count; i++) {
		union span_entry *e = &t->list[i];

		done += t->waits[i].weight;
		if (!interval->known)
			set_time(e, t->before.tsc);
		else if (t->weight > 0)
			set_time(e, time_in(t, interval, done * rate));
		else
			set_time(e, stamps_between(&t->before, &t->after, offset_of(&e->span)));
	}
}

/* The interval is complete: all that waits ran in it. */
static void close_interval(struct span_times *t)
{
	struct interval interval;

	measure_interval(t, &interval);
	if (t->has_before && t->before.kind != STAMP_NONE)
		set_times(t, &interval);
	if (!t->learned)
		learn_interval(t, &interval);
	t->ready = t->count;
	t->weight = 0;
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
			 stamps_between(&t->before, &t->after, offset_of(&t->list[i].span)));
	t->ready = t->count;
	t->weight = 0;
	t->before = here;
}

struct entry_code {
	uint32_t number;
	double cost; /* of an instruction */
};

/* So much of the code ran in the interval. */
static void note_share(struct span_times *t, const struct entry_code *code, double instructions)
{
	if (!t->learned)
		code_costs_add(&t->costs, code->number, instructions);
}

/*
 * So many instructions of a piece of code ran from `place` on through these stamps, and up to an
 * offset, in proportion to their bytes of trace. Returns how many are behind the stamps.
 */
static double cross_stamps(struct span_times *t, size_t n, struct entry_code *code, double left,
			   uint64_t end)
{
	const struct tsc_stamp after = t->after;
	const bool has_after = t->has_after;
	uint64_t bytes = branch_bytes(t->crossed, n, t->place, end);

	for (size_t i = 0; i < n; i++) {
		const uint64_t to = t->crossed[i].to < end ? t->crossed[i].to : end;

		if (left > 0 && bytes && to > t->place) {
			const uint64_t here = to - t->place < bytes ? to - t->place : bytes;
			const double part = left * (double)here / (double)bytes;

			t->weight += part * code->cost;
			note_share(t, code, part);
			left -= part;
			bytes -= here;
		}
		pass_stamp(t, &t->crossed[i]);
		if (!t->learned) /* costs may have been learned */
			code->cost = code_costs_of(&t->costs, code->number);
	}
	t->after = after;
	t->has_after = has_after;
	return left;
}

/* The walk begins anew, where an entry ended. */
static void begin_at(struct span_times *t, const struct stream *stream, uint64_t offset)
{
	close_interval(t);
	t->begun = true;
	stamps_seek(&t->walk, stream, offset);
	t->has_before = t->has_after = false;
	t->place = offset;
}

static void append(struct span_times *t, const struct ptah_span *e, uint64_t generation,
		   double weight)
{
	t->list[t->count].span = *e;
	t->waits[t->count++] = (struct entry_wait){generation, weight};
	t->weight += weight;
}

/*
 * Takes an entry that ran from `place` on, through any number of stamps, in proportion to its bytes
 * of trace.
 */
static void add_entry(struct span_times *t, const struct stream *stream, const struct ptah_span *e,
		      uint64_t generation)
{
	const struct ptah_item *item = item_of(e);
	const uint64_t end = offset_of(e);
	double left = instructions_of(e);
	struct entry_code code = {0};
	size_t n;

	if (left > 0)
		code.number = code_costs_find(&t->costs, item ? item->ip : e->ip, &code.cost);
	if (!t->queue && (!t->begun || (item && end > t->place + FAR)))
		begin_at(t, stream, end);
	if (!t->has_after)
		t->has_after = stamps_take(t->queue, &t->walk, stream, &t->after);
	while ((n = take_stamps(t, stream, end)) > 0)
		left = cross_stamps(t, n, &code, left, end);
	note_share(t, &code, left);
	if (!t->looks_ahead)
		append(t, e, generation, left * code.cost);
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
		memmove(t->waits, t->waits + t->next, (t->count - t->next) * sizeof(*t->waits));
		t->count -= t->next;
		t->ready -= t->next;
		t->next = 0;
	}
	return LIST_ROOM_FOR(t->list, t->count, n, t->capacity) &&
	       LIST_ROOM_FOR(t->waits, t->count, n, t->wait_capacity);
}

/*
 * Whether it is a span that goes on with the next one. Where a batch ended depends on how the
 * stream was read, which must not matter.
 */
static bool is_cut(const struct ptah_span *e)
{
	return e->insn_class == PTAH_INSN_OTHER &&
	       !(e->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN));
}

static bool continues(const struct span_times *t, const struct ptah_span *e)
{
	return e->insn_class != CLASS_ITEM && e->insn_class != FLOW_SPAN_EVENT &&
	       e->ip == t->cut.to && e->space == t->cut.space && e->mode == t->cut.mode;
}

static void end_cut(struct span_times *t, const struct stream *stream)
{
	if (t->has_cut)
		add_entry(t, stream, &t->cut, t->cut_generation);
	t->has_cut = false;
}

/* A cut span, or what follows one. */
static void take_at_cut(struct span_times *t, const struct stream *stream,
			const struct ptah_span *span, uint64_t generation)
{
	union span_entry e = {.span = *span};

	if (t->has_cut && continues(t, span)) {
		e.span.ip = t->cut.ip;
		e.span.ninsn += t->cut.ninsn;
		t->has_cut = false;
	}
	end_cut(t, stream);
	if (!is_cut(&e.span)) {
		add_entry(t, stream, &e.span, generation);
		return;
	}
	t->cut = e.span;
	t->cut_generation = generation;
	t->has_cut = true;
}

static void take_entry(struct span_times *t, const struct stream *stream, const struct ptah_span *e,
		       uint64_t generation)
{
	if (t->has_cut || is_cut(e))
		take_at_cut(t, stream, e, generation);
	else
		add_entry(t, stream, e, generation);
}

static int add_batch(struct span_times *t, const struct stream *stream,
		     const struct timed_batch *batch)
{
	union span_entry e = {0};

	if (!t->crossed)
		t->crossed = calloc(CROSSED_MOST, sizeof(*t->crossed));
	if (!t->crossed)
		return PTAH_E_NOMEM;
	if (!make_room(t, batch->span_count + batch->item_count + 1))
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < batch->span_count; i++) {
		if (i + AHEAD_SPANS < batch->span_count)
			code_costs_prefetch(&t->costs, batch->spans[i + AHEAD_SPANS].ip);
		take_entry(t, stream, &batch->spans[i], batch->generation);
	}
	for (size_t i = 0; i < batch->item_count; i++) {
		e.item = batch->items[i];
		e.span.insn_class = CLASS_ITEM;
		take_entry(t, stream, &e.span, batch->generation);
	}
	return 0;
}

/* Returns what is ready, of one kind and from one image. */
static void return_batch(struct span_times *t, struct timed_batch *batch)
{
	union span_entry *first = &t->list[t->next];
	const uint64_t generation = t->waits[t->next].generation;
	const bool items = first->span.insn_class == CLASS_ITEM;
	size_t n = 0;

	*batch = (struct timed_batch){
	    .spans = &first->span, .items = t->items, .generation = generation};
	while (t->next < t->ready && n < RETURNED) {
		const union span_entry *e = &t->list[t->next];

		if ((e->span.insn_class == CLASS_ITEM) != items ||
		    t->waits[t->next].generation != generation)
			break;
		if (items)
			t->items[n] = e->item;
		n++;
		t->next++;
	}
	*(items ? &batch->item_count : &batch->span_count) = n;
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
	free(t->waits);
	free(t->crossed);
	code_costs_free(&t->costs);
	free(t->items);
	*t = (struct span_times){0};
}

/* Where to look next: at parts of a long stream. */
static uint64_t next_part(const struct stream *stream, uint64_t place)
{
	const uint64_t parts = stream->info.bytes / AHEAD_ALL + 1;
	const uint64_t period = (parts < AHEAD_ONE_OF ? parts : AHEAD_ONE_OF) * PART;

	return place % period < PART ? place : (place / period + 1) * period;
}

int span_times_look_ahead(struct span_times *t, const struct stream *stream, read_untimed *read,
			  seek_untimed *seek, void *context)
{
	struct span_times ahead = {
	    .used = true, .looks_ahead = true, .session = t->session, .tid = t->tid};
	struct timed_batch untimed;
	uint64_t part;
	int status;

	do {
		untimed = (struct timed_batch){0};
		status = read(context, &untimed);
		if (status > 0 && add_batch(&ahead, stream, &untimed) < 0)
			status = PTAH_E_NOMEM;
		part = seek ? next_part(stream, ahead.place) : ahead.place;
		if (status <= 0 || part == ahead.place)
			continue;
		ahead.begun = ahead.has_cut = ahead.has_after = false;
		ahead.place = part; /* what is read first may not say where it is */
		seek(context, part);
	} while (status > 0 && !code_costs_enough(&ahead.costs));
	code_costs_learn(&ahead.costs);
	t->learned = true;
	t->costs = ahead.costs;
	ahead.costs = (struct code_costs){0};
	span_times_free(&ahead);
	return status;
}

int span_times_next(struct span_times *t, const struct stream *stream, read_untimed *read,
		    void *context, bool more, struct timed_batch *batch)
{
	int status = 1;

	if (!t->used)
		return read(context, batch);
	if (!t->items)
		t->items = calloc(RETURNED, sizeof(*t->items));
	if (!t->items)
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
