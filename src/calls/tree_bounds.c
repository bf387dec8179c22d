/* SPDX-License-Identifier: MIT */
/*
 * Bounds of what the calls of each function took, where times are known at stamps only: a call that
 * began between two times and ended between two others took at least what lies between them, and
 * at most all. Calls that may have begun while an earlier one of the function was running count
 * together, so that a function which is called often between two stamps takes at most that time.
 */
#include "calls/tree_internal.h"

#include <stdlib.h>

/* What is not known. */
#define NEVER	INT64_MIN
#define FOREVER INT64_MAX

/* By the thread's ticks (struct ptah_call_counts), which may be more than before it had any. */
struct between {
	int64_t low, high;
};

/* By TSC. */
struct span_bounds {
	uint64_t low, high;
};

struct tree_bounds {
	uint64_t offset;		/* from which `now` holds, */
	struct span_bounds now, before; /* and what held before */
	struct between *calls;		/* when the open ones began, by their depth */
	size_t capacity;
};

void tree_free_bounds(struct ptah_call_tree *t)
{
	if (t->bounds)
		free(t->bounds->calls);
	free(t->bounds);
	t->bounds = NULL;
}

bool tree_bound_times(struct ptah_call_tree *t, uint64_t offset, uint64_t low, uint64_t high)
{
	struct tree_bounds *b = t->bounds;

	if (!b) {
		b = t->bounds = calloc(1, sizeof(*b));
		if (!b)
			return false;
		b->now.high = UINT64_MAX; /* before the first stamp nothing is known */
	}
	b->before = b->now;
	b->now = (struct span_bounds){low, high};
	b->offset = offset;
	return true;
}

/* When it is. An estimate is never outside, be it of a thread that waits. */
static struct between find_between(const struct tree_bounds *b,
				   const struct ptah_call_counts *counts, uint64_t tsc,
				   uint64_t offset)
{
	const struct span_bounds *s = offset < b->offset ? &b->before : &b->now;
	const uint64_t shift = tsc - counts->ticks;
	const uint64_t low = s->low < tsc ? s->low : tsc, high = s->high > tsc ? s->high : tsc;

	return (struct between){.low = low ? (int64_t)(low - shift) : NEVER,
				.high = high < UINT64_MAX ? (int64_t)(high - shift) : FOREVER};
}

static bool make_call(struct ptah_call_tree *t, size_t depth)
{
	struct tree_bounds *b = t->bounds;
	const size_t capacity = depth < 32 ? 64 : 2 * depth;
	struct between *calls;

	if (depth < b->capacity)
		return true;
	calls = tree_larger(b->calls, sizeof(*calls), b->capacity, capacity);
	if (!calls) {
		tree_fail(t);
		return false;
	}
	b->calls = calls;
	b->capacity = capacity;
	return true;
}

void tree_bound_begin(struct ptah_call_tree *t, const struct ptah_call_counts *counts, uint64_t tsc,
		      uint64_t offset)
{
	const size_t depth = tree_depth(t);

	if (!tree_failed(t) && make_call(t, depth))
		t->bounds->calls[depth] = find_between(t->bounds, counts, tsc, offset);
}

static void add_call(struct ptah_call_tree *t, struct tree_function *f, const struct between *begin,
		     const struct between *end)
{
	int64_t from = begin->low;

	if (end->low != NEVER && begin->high != FOREVER && end->low > begin->high)
		f->least += tree_nanoseconds(t, (uint64_t)(end->low - begin->high));
	if (begin->low == NEVER || end->high == FOREVER || f->most == TREE_NO_BOUND) {
		f->most = TREE_NO_BOUND;
		return;
	}
	if (f->most && f->bounded > from)
		from = f->bounded;
	if (end->high <= from)
		return;
	f->most += tree_nanoseconds(t, (uint64_t)(end->high - from)) + 1;
	f->bounded = end->high;
}

void tree_bound_end(struct ptah_call_tree *t, const struct ptah_call_counts *counts, uint64_t tsc,
		    uint64_t offset)
{
	const size_t depth = tree_depth(t);
	struct between end;
	uint32_t function;

	if (tree_failed(t) || !depth || depth >= t->bounds->capacity)
		return;
	function = t->top->flags & TREE_FRAME_FOLDED ? t->folded[t->folded_depth - 1].function
						     : t->nodes[t->top->node].function;
	if (t->open[function] > 1) /* it is part of another call of the function */
		return;
	end = find_between(t->bounds, counts, tsc, offset);
	add_call(t, &t->functions[function], &t->bounds->calls[depth], &end);
}

void tree_bound_leaf(struct ptah_call_tree *t, unsigned calls,
		     const struct ptah_call_counts *counts, uint64_t tsc, uint64_t offset)
{
	const struct between when = find_between(t->bounds, counts, tsc, offset);
	uint32_t node = t->top->last;

	for (; calls; calls--, node = t->nodes[node].first) {
		const uint32_t function = t->nodes[node].function;

		if (!t->open[function])
			add_call(t, &t->functions[function], &when, &when);
	}
}
