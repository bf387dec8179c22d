/* SPDX-License-Identifier: MIT */
/* Shares the time between stamps among what ran (span_times.h). */
#include "session/span_times.h"

#include "flow/flow_machine.h"

#include <stdlib.h>
#include <string.h>

#define RETURNED 256 /* spans or items at once */

/*
 * So many entries wait at most for a stamp; where it is further away, the first ones get times by
 * their bytes of trace.
 */
#define WAITING_MOST (1u << 18)

/* New code counts as if so many of its instructions had taken the mean. */
#define PRIOR_INSTRUCTIONS 100.0

/* After so many intervals what was learned of a piece of code counts half. */
#define UPDATES 128

/* Code has so many costs at most; other pieces share one. */
#define COSTS_MOST (1u << 20)

/*
 * An interval that took so many times what was expected, and so many ticks more, is no measure of
 * its code: the thread was off the processor.
 */
#define OUTLIER_TIMES 4.0
#define OUTLIER_TICKS 50000.0

/* Of a window, what is so much further than the item before does not follow it. */
#define FAR (UINT64_C(1) << 20)

/* Costs */

static bool grow_slots(struct span_times *t)
{
	const size_t n = t->slot_count ? 2 * t->slot_count : 1024;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < t->cost_count; i++) {
		size_t at = (size_t)(t->costs[i].ip * UINT64_C(0x9e3779b97f4a7c15) >> 20) % n;

		while (slots[at])
			at = (at + 1) % n;
		slots[at] = (uint32_t)i + 1;
	}
	free(t->slots);
	t->slots = slots;
	t->slot_count = n;
	return true;
}

/* The cost of code at an address. The first one is that of all code that has none of its own. */
static uint32_t find_cost(struct span_times *t, uint64_t ip)
{
	struct code_cost *costs;
	size_t at;

	if (2 * (t->cost_count + 1) > t->slot_count && !grow_slots(t))
		return 0;
	at = (size_t)(ip * UINT64_C(0x9e3779b97f4a7c15) >> 20) % t->slot_count;
	for (; t->slots[at]; at = (at + 1) % t->slot_count)
		if (t->costs[t->slots[at] - 1].ip == ip)
			return t->slots[at] - 1;
	if (t->cost_count == COSTS_MOST)
		return 0;
	costs = session_grow(t->costs, t->cost_count, &t->cost_capacity, sizeof(*costs));
	if (!costs)
		return 0;
	t->costs = costs;
	costs[t->cost_count] = (struct code_cost){.ip = ip};
	t->slots[at] = (uint32_t)++t->cost_count;
	return t->slots[at] - 1;
}

static double mean_cost(const struct span_times *t)
{
	return t->instructions > 0 ? t->ticks / t->instructions : 1;
}

static double cost_of(const struct span_times *t, uint32_t cost)
{
	const struct code_cost *c;

	if (!t->cost_count)
		return 1;
	c = &t->costs[cost];
	return (c->ticks + PRIOR_INSTRUCTIONS * mean_cost(t)) /
	       (c->instructions + PRIOR_INSTRUCTIONS);
}

static void learn(struct span_times *t, uint32_t cost, double ticks, double instructions)
{
	struct code_cost *c;

	if (!t->cost_count)
		return;
	c = &t->costs[cost];
	c->ticks += ticks;
	c->instructions += instructions;
	if (c->interval == t->interval)
		return;
	c->interval = t->interval;
	if (++c->updates == UPDATES) {
		c->ticks /= 2;
		c->instructions /= 2;
		c->updates = UPDATES / 2;
	}
}

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

static bool has_interval(const struct span_times *t)
{
	return t->has_before && t->has_after && t->before.kind != STAMP_NONE &&
	       t->after.kind != STAMP_NONE && t->after.tsc >= t->before.tsc && !t->after.blind;
}

/* What ran in an interval says what its code costs. `sum`: the weight of all of it. */
static void learn_interval(struct span_times *t, double sum)
{
	const double ticks = (double)(t->after.tsc - t->before.tsc);
	double instructions = t->across_instructions;

	if ((t->before.kind == STAMP_OWN && t->before.stops) || !(sum > 0) ||
	    (t->instructions > 1e6 && ticks > OUTLIER_TIMES * sum + OUTLIER_TICKS))
		return;
	t->interval++;
	for (size_t i = t->ready; i < t->count; i++) {
		const struct waiting_entry *e = &t->list[i];

		if (e->weight > 0)
			learn(t, e->cost, ticks * e->weight / sum, e->instructions);
		instructions += e->instructions;
	}
	if (t->across > 0)
		learn(t, t->across_cost, ticks * t->across / sum, t->across_instructions);
	t->ticks += ticks;
	t->instructions += instructions;
}

/* The interval is complete: all that waits ran in it. */
static void close_interval(struct span_times *t)
{
	const bool known = has_interval(t);
	double sum = t->across, done = 0;

	for (size_t i = t->ready; i < t->count; i++)
		sum += t->list[i].weight;
	for (size_t i = t->ready; i < t->count && t->has_before; i++) {
		struct waiting_entry *e = &t->list[i];
		const double ticks = (double)(t->after.tsc - t->before.tsc);

		if (t->before.kind == STAMP_NONE)
			continue;
		done += e->weight;
		if (!known)
			set_time(e, t->before.tsc);
		else if (sum > 0)
			set_time(e, t->before.tsc + (uint64_t)(ticks * (done / sum) + 0.5));
		else
			set_time(e, stamps_between(&t->before, &t->after, offset_of(e)));
	}
	if (known)
		learn_interval(t, sum);
	t->ready = t->count;
	t->across = t->across_instructions = 0;
}

static void advance(struct span_times *t, const struct stream *stream)
{
	close_interval(t);
	t->place = t->after.to > t->place ? t->after.to : t->place;
	t->before = t->after;
	t->has_before = true;
	t->has_after = stamps_take(t->queue, &t->walk, stream, &t->after);
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
 * Takes an entry that ran from `place` on, through any number of stamps, in proportion to its bytes
 * of trace.
 */
static void add_entry(struct span_times *t, const struct stream *stream, struct waiting_entry *e)
{
	const uint64_t end = offset_of(e);
	double left = instructions_of(e);

	e->cost = left > 0 ? find_cost(t, e->is_item ? e->item.ip : e->span.ip) : 0;
	if (!t->queue && (!t->begun || (e->is_item && end > t->place + FAR))) {
		close_interval(t);
		t->begun = true;
		stamps_seek(&t->walk, stream, end);
		t->has_before = t->has_after = false;
		t->place = end;
	}
	if (!t->has_after)
		t->has_after = stamps_take(t->queue, &t->walk, stream, &t->after);
	while (t->has_after && end >= t->after.from) {
		const uint64_t to = t->after.to;

		if (left > 0 && end > t->place && to > t->place) {
			const double part =
			    to >= end ? left
				      : left * (double)(to - t->place) / (double)(end - t->place);

			t->across = part * cost_of(t, e->cost);
			t->across_cost = e->cost;
			t->across_instructions = part;
			left -= part;
		}
		advance(t, stream);
	}
	e->instructions = left;
	e->weight = left * cost_of(t, e->cost);
	t->list[t->count++] = *e;
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
	while (t->capacity < t->count + n) {
		struct waiting_entry *list =
		    session_grow(t->list, t->capacity, &t->capacity, sizeof(*list));

		if (!list)
			return false;
		t->list = list;
	}
	return true;
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
	*t = (struct span_times){.used = stamps_are_used(session, stream)};
}

void span_times_free(struct span_times *t)
{
	free(t->list);
	free(t->costs);
	free(t->slots);
	free(t->spans);
	free(t->items);
	*t = (struct span_times){0};
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
