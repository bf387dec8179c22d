/* SPDX-License-Identifier: MIT */
/*
 * Reads a flow in every form and compares with the plainest one (no_paths): the same items, blocks,
 * spans and steps, in a first pass and in a second one over code that is known by then; and the
 * same again after returning to a mark, and event by event.
 */
#ifndef PTAH_TESTS_FLOW_FORMS_H
#define PTAH_TESTS_FLOW_FORMS_H

#include <ptah/flow.h>

#include "flow/flow_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct forms {
	const struct ptah_image *image;
	struct ptah_flow_config config;
	const uint8_t *trace;
	size_t size, chunk, capacity;
	struct ptah_item *items;
	size_t count, room;
	size_t next;   /* the first of the expected items to be read again */
	unsigned step; /* the first of its instructions to be read again */
	struct ptah_insn insns[512];
	struct ptah_flow *plain; /* another flow over the image, to ask for instructions */
	bool same;
};

typedef void forms_drain(struct forms *f, struct ptah_flow *flow);

static void forms_fail(struct forms *f, const char *what)
{
	if (f->same)
		fprintf(stderr, "%s: not the same at item %zu of %zu\n", what, f->next, f->count);
	f->same = false;
}

static void forms_collect(struct forms *f, struct ptah_flow *flow)
{
	int n;

	do {
		if (f->count + 64 > f->room) {
			f->room = 2 * f->room + 1024;
			f->items = realloc(f->items, f->room * sizeof(*f->items));
			if (!f->items)
				abort();
		}
		n = ptah_flow_read(flow, f->items + f->count, 64);
		f->count += n > 0 ? (size_t)n : 0;
	} while (n > 0);
}

static bool forms_is_next(struct forms *f, const struct ptah_item *item)
{
	return f->next < f->count && !memcmp(item, &f->items[f->next], sizeof(*item));
}

/* Reads one batch and checks it. Returns the number of items. */
static int forms_read(struct forms *f, struct ptah_flow *flow, size_t capacity)
{
	struct ptah_item items[300];
	const int n = ptah_flow_read(flow, items, capacity);

	for (int i = 0; i < n; i++, f->next++)
		if (!forms_is_next(f, &items[i]) ||
		    (f->config.stop_at_events && i < n - 1 && items[i].type != PTAH_ITEM_BLOCK))
			forms_fail(f, "items");
	return n;
}

static void forms_items(struct forms *f, struct ptah_flow *flow)
{
	while (forms_read(f, flow, f->capacity) > 0)
		;
}

/* Reads one item, if it is not a block. False: there was none. */
static bool forms_event(struct forms *f, struct ptah_flow *flow, const char *what)
{
	struct ptah_item item;

	if (ptah_flow_read(flow, &item, 1) <= 0)
		return false;
	if (item.type == PTAH_ITEM_BLOCK || f->step || !forms_is_next(f, &item))
		forms_fail(f, what);
	f->next++;
	return true;
}

static bool forms_is_next_block(struct forms *f, const struct ptah_block *b)
{
	const struct ptah_item *x = &f->items[f->next];

	return f->next < f->count && x->type == PTAH_ITEM_BLOCK && b->ip == x->ip &&
	       b->ip + b->size == x->end && b->space == x->code.space && b->ninsn == x->ninsn &&
	       b->insn_class == x->insn_class && b->last_size == x->last_size &&
	       b->mode == x->mode && b->flags == x->flags;
}

/* Reads one batch of blocks and checks it. Returns their number. */
static int forms_read_blocks(struct forms *f, struct ptah_flow *flow, size_t capacity)
{
	struct ptah_block blocks[300];
	const int n = ptah_flow_read_blocks(flow, blocks, capacity);
	struct ptah_item last;

	for (int i = 0; i < n && f->same; i++, f->next++)
		if (!forms_is_next_block(f, &blocks[i]))
			forms_fail(f, "blocks");
	if (f->same && ptah_flow_last_block(flow, &last) &&
	    (n <= 0 || memcmp(&last, &f->items[f->next - 1], sizeof(last)) != 0))
		forms_fail(f, "the last block");
	return n;
}

static void forms_blocks(struct forms *f, struct ptah_flow *flow)
{
	do {
		while (f->same && forms_read_blocks(f, flow, f->capacity) > 0)
			;
	} while (f->same && forms_event(f, flow, "blocks"));
}

/* Functions of 64 bytes, between which nothing is known of as many. */
static bool forms_bounds(void *context, unsigned space, uint64_t ip, uint64_t *low, uint64_t *high)
{
	(void)context;
	(void)space;
	*low = ip & ~UINT64_C(63);
	*high = *low + 64;
	return ip & 64;
}

static uint64_t forms_last_ip(const struct ptah_item *block)
{
	return block->end - block->last_size;
}

/* Whether a span has to end with this block, if `next` is where it leads. */
static bool forms_ends_span(const struct ptah_item *block, uint64_t next)
{
	const bool jumps = block->insn_class == PTAH_INSN_JUMP || block->flags & PTAH_ITEM_TAKEN;
	uint64_t low, high;

	if (block->insn_class > PTAH_INSN_JUMP && block->insn_class != PTAH_INSN_PTWRITE)
		return true;
	if (!forms_bounds(NULL, 0, forms_last_ip(block), &low, &high))
		return true;
	return next < low || next >= high || (jumps && next == low) || block->ip < low;
}

/* The next item, if it is a block; else NULL. */
static const struct ptah_item *forms_block(const struct forms *f, size_t i)
{
	return i < f->count && f->items[i].type == PTAH_ITEM_BLOCK ? &f->items[i] : NULL;
}

/* Compares a span with the blocks that it consists of. */
static void forms_span(struct forms *f, const struct ptah_span *span)
{
	const struct ptah_item *block = forms_block(f, f->next), *next;
	uint64_t ninsn = 0;

	if (!block || block->ip != span->ip || block->code.space != span->space ||
	    block->mode != span->mode) {
		forms_fail(f, "spans");
		return;
	}
	for (;; block = next) {
		ninsn += block->ninsn;
		next = forms_block(f, ++f->next);
		if (ninsn >= span->ninsn)
			break;
		if (!next || forms_ends_span(block, next->ip)) {
			forms_fail(f, "a span's end");
			return;
		}
	}
	/* An event that is not returned may have come before the next block. */
	if (f->config.no_events)
		next = NULL;
	if (ninsn != span->ninsn || (span->to && next && span->to != next->ip) ||
	    (!span->to && next && !(block->flags & PTAH_ITEM_UNKNOWN)) ||
	    (block->flags ^ span->flags) & PTAH_ITEM_SPECULATIVE)
		forms_fail(f, "a span's length");
	if (span->tsc != block->tsc || span->tsc_error != block->tsc_error ||
	    span->offset != block->offset)
		forms_fail(f, "a span's time");
	if (span->insn_class == PTAH_INSN_OTHER && !span->last_size) {
		/* It was cut off: by an event, or where a batch ends. */
		const bool falls_through =
		    block->insn_class == PTAH_INSN_OTHER ||
		    (block->insn_class == PTAH_INSN_COND && !(block->flags & PTAH_ITEM_TAKEN));

		if (!span->to || span->end != span->to || (falls_through && span->to != block->end))
			forms_fail(f, "where a span that was cut off led");
		return;
	}
	if (span->insn_class != block->insn_class || span->end != block->end ||
	    span->last_size != block->last_size || span->flags != block->flags ||
	    (next && !forms_ends_span(block, next->ip)))
		forms_fail(f, "a span's last block");
}

static void forms_spans(struct forms *f, struct ptah_flow *flow)
{
	struct ptah_span spans[PTAH_FLOW_MIN_SPANS + 300];
	const size_t capacity = PTAH_FLOW_MIN_SPANS + f->capacity;
	int n;

	flow_set_bounds(flow, forms_bounds, NULL);
	do {
		while ((n = ptah_flow_read_spans(flow, spans, capacity)) > 0)
			for (int i = 0; i < n && f->same; i++)
				forms_span(f, &spans[i]);
	} while (f->same && forms_event(f, flow, "spans"));
}

/* The same with events among the spans. */
static void forms_event_spans(struct forms *f, struct ptah_flow *flow)
{
	struct ptah_span spans[PTAH_FLOW_MIN_SPANS + 300];
	const size_t capacity = PTAH_FLOW_MIN_SPANS + f->capacity;
	int n;

	flow_set_bounds(flow, forms_bounds, NULL);
	do {
		while ((n = flow_read_event_spans(flow, spans, capacity)) > 0)
			for (int i = 0; i < n && f->same; i++) {
				const struct ptah_item event = flow_span_event(&spans[i]);

				if (spans[i].insn_class != FLOW_SPAN_EVENT)
					forms_span(f, &spans[i]);
				else if (!forms_is_next(f, &event))
					forms_fail(f, "an event among spans");
				else
					f->next++;
			}
	} while (f->same && forms_event(f, flow, "spans"));
}

/* Reads up to two batches in one form or another and rewinds, before each batch that counts. */
static void forms_again(struct forms *f, struct ptah_flow *flow)
{
	struct ptah_span spans[PTAH_FLOW_MIN_SPANS];
	unsigned chance = (unsigned)f->next;
	int n;

	do {
		const size_t from = f->next;

		if (ptah_flow_mark(flow) < 0)
			abort();
		for (unsigned i = chance % 3; i; i--) {
			chance = chance * 1103515245 + 12345;
			if ((chance >> 17 & 7) == 1) {
				ptah_flow_read_spans(flow, spans, PTAH_FLOW_MIN_SPANS);
			} else {
				if (chance >> 16 & 1)
					forms_read_blocks(f, flow, 1 + chance % 300);
				forms_read(f, flow, 1 + chance % f->capacity);
			}
			if (ptah_flow_rewind(flow) < 0)
				forms_fail(f, "rewind");
			f->next = from;
		}
		chance = chance * 1103515245 + 12345;
		n = forms_read(f, flow, 1 + (chance >> 16) % f->capacity);
	} while (f->same && n > 0);
}

static void forms_step(struct forms *f, const struct ptah_step *s)
{
	const struct ptah_item *x = &f->items[f->next];
	const struct ptah_insn *insn = &f->insns[f->step];
	uint8_t flags;

	if (f->next >= f->count || x->type != PTAH_ITEM_BLOCK) {
		forms_fail(f, "steps");
		return;
	}
	if (!f->step && ptah_flow_insns(f->plain, x, f->insns, 512) != x->ninsn)
		abort();
	flags = x->flags & PTAH_ITEM_SPECULATIVE;
	if (++f->step == x->ninsn) {
		flags |= x->flags & PTAH_ITEM_TAKEN;
		f->step = 0;
		f->next++;
	}
	if (s->ip != insn->ip || s->size != insn->size || s->insn_class != insn->insn_class ||
	    s->mode != insn->mode || s->space != x->code.space || s->flags != flags)
		forms_fail(f, "steps");
}

static void forms_steps(struct forms *f, struct ptah_flow *flow)
{
	struct ptah_step steps[1000];
	const size_t capacity = 700 + f->capacity;
	int n;

	do {
		while ((n = ptah_flow_read_steps(flow, steps, capacity)) > 0)
			for (int i = 0; i < n && f->same; i++)
				forms_step(f, &steps[i]);
	} while (f->same && forms_event(f, flow, "steps"));
}

/* Feeds the trace in chunks, each from memory that is freed after the call. */
static void forms_feed(struct forms *f, struct ptah_flow *flow, forms_drain *drain)
{
	size_t at = 0;

	do {
		size_t part = f->chunk && f->size - at > f->chunk ? f->chunk : f->size - at;
		uint8_t *copy = malloc(part ? part : 1);

		if (!copy)
			abort();
		memcpy(copy, f->trace + at, part);
		at += part;
		if (ptah_flow_feed(flow, copy, part, at == f->size) < 0)
			forms_fail(f, "feed");
		drain(f, flow);
		free(copy);
	} while (at < f->size && f->same);
	if (f->next != f->count && drain != forms_collect)
		forms_fail(f, "end");
}

static struct ptah_flow *forms_new(struct forms *f, bool no_paths)
{
	struct ptah_flow *flow;

	f->config.size = sizeof(f->config);
	f->config.no_paths = no_paths;
	if (ptah_flow_new(f->image, &f->config, &flow) < 0)
		abort();
	return flow;
}

/*
 * Without events: only the items that a flow with no_events returns are expected.
 */
static void forms_drop_events(struct forms *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].type == PTAH_ITEM_BLOCK || f->items[i].type == PTAH_ITEM_GAP ||
		    f->items[i].type == PTAH_ITEM_OVERFLOW || f->items[i].type == PTAH_ITEM_ERROR)
			f->items[kept++] = f->items[i];
	f->count = kept;
}

/* Reads three times in one form: the code is known from the second time on. */
static void forms_try(struct forms *f, forms_drain *drain)
{
	struct ptah_flow *flow = forms_new(f, false);

	for (unsigned pass = 0; pass < 3 && f->same; pass++) {
		f->next = 0;
		f->step = 0;
		forms_feed(f, flow, drain);
		ptah_flow_seek(flow, 0);
	}
	ptah_flow_free(flow);
}

/* `capacity`: of the arrays that are read into, 1 to 300. Chunk 0: everything at once. */
static inline bool forms_equal(const struct ptah_image *image,
			       const struct ptah_flow_config *config, const uint8_t *trace,
			       size_t size, size_t chunk, size_t capacity)
{
	static forms_drain *const drains[] = {forms_items, forms_blocks, forms_steps,
					      forms_again, forms_spans,	 forms_event_spans};
	struct forms f = {.image = image,
			  .trace = trace,
			  .size = size,
			  .chunk = chunk,
			  .capacity = capacity,
			  .same = true};

	if (config)
		f.config = *config;
	f.plain = forms_new(&f, true);
	forms_feed(&f, f.plain, forms_collect);
	for (unsigned i = 0; i < sizeof(drains) / sizeof(*drains); i++) {
		f.config.stop_at_events = i == 3;
		forms_try(&f, drains[i]);
	}
	f.config.stop_at_events = false;
	f.config.no_events = true;
	forms_drop_events(&f);
	forms_try(&f, drains[capacity % 4 == 3 ? 4 : capacity % 4]); /* each form but "again" */
	ptah_flow_free(f.plain);
	free(f.items);
	return f.same;
}

#endif
