/* SPDX-License-Identifier: MIT */
/* Call trees: creation, marks, and the beginnings and ends that tree_sink.h leaves to functions. */
#include "calls/tree_sink.h"
#include "calls/tree_internal.h"

#include <stdlib.h>
#include <string.h>

/* Creating and freeing */

#define FIRST_FRAMES 16

int ptah_call_tree_new(const struct ptah_call_tree_config *config, struct ptah_call_tree **tree)
{
	struct ptah_call_tree_config c = {0};
	struct ptah_call_tree *t;

	if (!tree)
		return PTAH_E_INVAL;
	if (config)
		memcpy(&c, config, config->size < sizeof(c) ? config->size : sizeof(c));
	if (c.time_shift > 63)
		return PTAH_E_INVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return PTAH_E_NOMEM;
	t->time_mult = c.time_mult;
	t->time_shift = c.time_shift;
	t->unknown = TREE_CYCLES | (c.time_mult ? TREE_TIME : 0);
	/* Twice as many nodes, with the folded ones, still have 32-bit indices. */
	t->max_paths = c.max_paths ? c.max_paths : TREE_MAX_PATHS;
	if (t->max_paths > UINT32_MAX / 4)
		t->max_paths = UINT32_MAX / 4;
	t->max_functions = t->max_paths / 2 + 2;
	t->max_pairs = 4 * t->max_paths;
	t->node_capacity = 16;
	t->function_capacity = 16;
	t->frames = calloc(FIRST_FRAMES, sizeof(*t->frames));
	t->nodes = calloc(t->node_capacity, sizeof(*t->nodes));
	t->functions = calloc(t->function_capacity, sizeof(*t->functions));
	t->open = calloc(t->function_capacity, sizeof(*t->open));
	t->zeros = calloc(t->function_capacity, sizeof(*t->zeros));
	t->node_count = t->function_count = t->pair_count = 1;
	if (!t->frames || !t->nodes || !t->functions || !t->open || !t->zeros) {
		ptah_call_tree_free(t);
		return PTAH_E_NOMEM;
	}
	t->top = t->frames;
	t->last = t->frames + FIRST_FRAMES - 1;
	*tree = t;
	return 0;
}

void ptah_call_tree_free(struct ptah_call_tree *t)
{
	if (!t)
		return;
	for (uint32_t i = 0; t->functions && i < t->function_count; i++)
		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
			free(t->functions[i].histograms[k].buckets);
	free(t->frames);
	free(t->nodes);
	free(t->functions);
	free(t->open);
	free(t->zeros);
	free(t->pairs);
	free(t->node_index.entries);
	free(t->function_index.entries);
	free(t->pair_index.entries);
	free(t->folded);
	free(t->suspended);
	tree_free_bounds(t);
	free(t);
}

uint32_t tree_fail(struct ptah_call_tree *t)
{
	t->last = NULL;
	t->top = t->frames;
	t->folded_depth = 0;
	return 0;
}

int ptah_call_tree_add(struct ptah_call_tree *t, const struct ptah_call_mark *marks, size_t n)
{
	if (!t || (!marks && n))
		return PTAH_E_INVAL;
	for (size_t i = 0; i < n; i++) {
		const struct ptah_call_mark *m = &marks[i];

		if (m->end && !tree_depth(t) && !tree_failed(t))
			return PTAH_E_INVAL;
		if (m->how >= (m->end ? (unsigned)PTAH_CALL_END_MAX : PTAH_CALL_BEGIN_MAX))
			return PTAH_E_INVAL;
		if (m->end)
			tree_end(t, m->how, m->flags, m->id, &m->thread, m->tsc);
		else
			tree_begin(t, m->function, m->space, m->how, m->flags, &m->thread, m->tsc);
	}
	return tree_failed(t) ? PTAH_E_NOMEM : 0;
}

/* What is seldom */

/* Flags the open calls: when they began, something was not known that is known from now on. */
NOINLINE void tree_learn(struct ptah_call_tree *t, const struct ptah_call_counts *counts,
			 uint64_t tsc)
{
	uint32_t flags = 0;

	tree_flush(t);
	if (t->unknown & TREE_CYCLES && counts->cycles) {
		flags |= TREE_FRAME_UNCYCLED;
		t->known |= TREE_CYCLES;
	}
	if (t->unknown & TREE_TIME && tsc) {
		flags |= TREE_FRAME_UNTIMED;
		t->known |= TREE_TIME;
		t->origin = tsc - counts->ticks;
		t->time = tree_nanoseconds(t, tsc);
	}
	t->unknown &= ~t->known;
	for (size_t i = 1; i <= tree_depth(t); i++) {
		t->frames[i].flags |= flags;
		if (flags & TREE_FRAME_UNTIMED)
			t->frames[i].time = tree_nanoseconds(t, t->origin);
	}
}

NOINLINE bool tree_grow_frames(struct ptah_call_tree *t)
{
	const size_t depth = tree_depth(t), capacity = depth + 1;
	struct tree_frame *frames;

	if (tree_failed(t))
		return false;
	frames = tree_larger(t->frames, sizeof(*frames), capacity, 2 * capacity);
	if (!frames)
		return tree_fail(t);
	t->frames = frames;
	t->top = frames + depth;
	t->last = frames + 2 * capacity - 1;
	return true;
}

/* Histograms */

NOINLINE void tree_add_values(struct ptah_call_tree *t, uint32_t function, uint32_t flags,
			      const struct ptah_call_figures *inclusive)
{
	struct histogram *h = t->functions[function].histograms;

	if (t->list)
		tree_list_call(t, function, inclusive);
	else if (!histogram_add(&h[PTAH_CALL_VALUE_INSTRUCTIONS], inclusive->instructions, 1) ||
		 ((t->known & TREE_CYCLES) && !(flags & TREE_FRAME_UNCYCLED) &&
		  !histogram_add(&h[PTAH_CALL_VALUE_CYCLES], inclusive->cycles, 1)) ||
		 ((t->known & TREE_TIME) && !(flags & TREE_FRAME_UNTIMED) &&
		  !histogram_add(&h[PTAH_CALL_VALUE_TIME], inclusive->time, 1)))
		tree_fail(t);
}

static struct histogram *histogram_of(const struct ptah_call_tree *t, const struct tree_value *v)
{
	return &t->functions[v->function].histograms[PTAH_CALL_VALUE_INSTRUCTIONS];
}

static void add_value(struct ptah_call_tree *t, const struct tree_value *v)
{
	struct tree_function *f = &t->functions[v->function];

	if (!f->zeros++)
		t->zeros[t->zero_count++] = v->function;
	if (UNLIKELY(!histogram_add(histogram_of(t, v), v->instructions, 1)))
		tree_fail(t);
}

/* The values of calls that have just ended. */
static void flush_values(struct ptah_call_tree *t)
{
	/* How many values ahead a function, and then a bucket, is loaded. */
	enum {
		FUNCTIONS = 32,
		BUCKETS = 16
	};
	const uint32_t n = t->value_count;

	for (uint32_t i = 0; i < n + FUNCTIONS; i++) {
		if (i < n)
			__builtin_prefetch(histogram_of(t, &t->values[i]), 1);
		if (i >= BUCKETS && i - BUCKETS < n) {
			const struct tree_value *v = &t->values[i - BUCKETS];

			histogram_prefetch(histogram_of(t, v), v->instructions);
		}
		if (i >= FUNCTIONS)
			add_value(t, &t->values[i - FUNCTIONS]);
	}
	t->value_count = 0;
}

void tree_flush(struct ptah_call_tree *t)
{
	if (t->list) {
		tree_list_values(t);
		return;
	}
	flush_values(t);
	for (uint32_t i = 0; i < t->zero_count; i++) {
		struct tree_function *f = &t->functions[t->zeros[i]];

		if ((t->known & TREE_CYCLES &&
		     !histogram_add(&f->histograms[PTAH_CALL_VALUE_CYCLES], 0, f->zeros)) ||
		    (t->known & TREE_TIME &&
		     !histogram_add(&f->histograms[PTAH_CALL_VALUE_TIME], 0, f->zeros)))
			tree_fail(t);
		f->zeros = 0;
	}
	t->zero_count = 0;
}

NOINLINE void tree_spill(struct ptah_call_tree *t)
{
	if (t->top == t->frames || t->list)
		tree_flush(t);
	else
		flush_values(t);
}

/* Folded calls */

NOINLINE void tree_begin_folded(struct ptah_call_tree *t, uint64_t address, uint16_t space,
				unsigned how, unsigned flags, const struct ptah_call_counts *counts)
{
	const struct tree_frame *top = t->top;
	const uint32_t node = tree_failed(t) ? 0 : tree_folded_child(t, top->node);
	const uint32_t function = tree_make_function(t, address, space);
	struct tree_folded_frame *f;

	if (!node || tree_failed(t))
		return;
	if (t->folded_depth == t->folded_capacity) {
		const size_t capacity = t->folded_capacity ? 2 * t->folded_capacity : 64;

		f = tree_larger(t->folded, sizeof(*f), t->folded_capacity, capacity);
		if (!f) {
			tree_fail(t);
			return;
		}
		t->folded = f;
		t->folded_capacity = capacity;
	}
	f = &t->folded[t->folded_depth++];
	f->caller = top->flags & TREE_FRAME_FOLDED ? f[-1].function : t->nodes[top->node].function;
	f->function = function;
	f->outermost = !t->open[function]++;
	f->counted = how < PTAH_CALL_RESUMED;
	f->callees = (struct ptah_call_figures){0};
	t->functions[function].flags |= (uint16_t)(flags & TREE_FUNCTION_FLAGS);
	t->nodes[node].count += f->counted;
	t->nodes[node].flags |= (uint16_t)(1U << how);
	t->folded_calls += f->counted;
	*++t->top = (struct tree_frame){
	    .instructions = counts->instructions,
	    .cycles = counts->cycles,
	    .time = t->time,
	    .node = node,
	    .flags = TREE_FRAME_FOLDED | (how == PTAH_CALL_RESUMED ? TREE_FRAME_RESUMED : 0)};
}

/* The innermost call, which is folded, ends. Returns its function. */
static uint32_t end_folded(struct ptah_call_tree *t, uint32_t node,
			   const struct ptah_call_figures *inclusive)
{
	const struct tree_folded_frame *f = &t->folded[--t->folded_depth];
	const struct ptah_call_figures self = tree_difference(inclusive, &f->callees);

	if (t->folded_depth) {
		tree_add_figures(&t->folded[t->folded_depth - 1].callees, inclusive);
	} else {
		tree_add_figures(&t->nodes[node].inclusive, inclusive);
		tree_add_figures(&t->folded_figures, inclusive);
	}
	tree_count_folded(t, f->caller, f->function, f->counted, f->outermost, inclusive, &self);
	return f->function;
}

/* Ends that are not common */

NOINLINE void tree_end_special(struct ptah_call_tree *t, unsigned how, unsigned flags, uint64_t id,
			       struct ptah_call_figures inclusive)
{
	const struct tree_frame frame = *t->top--;
	struct ptah_call_figures whole = inclusive;
	uint32_t function = t->nodes[frame.node].function, joined = frame.flags;
	unsigned partial = TREE_PARTIAL;

	if (frame.flags & TREE_FRAME_FOLDED)
		function = end_folded(t, frame.node, &inclusive);
	else
		tree_add_figures(&t->nodes[frame.node].inclusive, &inclusive);
	t->open[function]--;
	if (t->top == t->frames)
		tree_flush(t);
	t->functions[function].flags |= flags & PTAH_CALL_FOLDED;
	if (how == PTAH_CALL_END_SUSPENDED)
		partial &= ~(unsigned)PTAH_CALL_NO_END;
	if (flags & partial)
		joined |= TREE_SUSPENDED_PARTIAL;
	if (how == PTAH_CALL_END_SUSPENDED) {
		if (tree_suspend(t, id, function, joined, &inclusive) || tree_failed(t))
			return;
		joined |= TREE_SUSPENDED_PARTIAL;
	} else if (frame.flags & TREE_FRAME_RESUMED) {
		tree_resume(t, id, &whole, &joined);
	}
	if (joined & TREE_SUSPENDED_PARTIAL)
		t->functions[function].partial++;
	else
		tree_add_values(t, function, joined, &whole);
}
