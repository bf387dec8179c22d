/* SPDX-License-Identifier: MIT */
/*
 * Subtracts counts: what two processes have both counted is taken away from both. A shard
 * (shard_internal.h) has counts that are to be added and counts that are to be subtracted.
 */
#include "counts/counts_internal.h"

#include <stdlib.h>

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void subtract_cancelled(struct ptah_profile_block *b, uint64_t taken, uint64_t unknown,
			       uint64_t other)
{
	b->taken -= taken;
	b->unknown -= unknown;
	b->count -= taken + unknown + other;
}

/*
 * The outcomes of a block's branch are cancelled separately: what remains has still no more
 * outcomes than executions.
 */
static void cancel_block(struct ptah_profile_block *a, struct ptah_profile_block *b)
{
	const uint64_t taken = least(a->taken, b->taken), unknown = least(a->unknown, b->unknown),
		       other = least(a->count - a->taken - a->unknown,
				     b->count - b->taken - b->unknown);

	subtract_cancelled(a, taken, unknown, other);
	subtract_cancelled(b, taken, unknown, other);
}

static void cancel_edge(struct ptah_profile_edge *a, struct ptah_profile_edge *b)
{
	const uint64_t count = least(a->count, b->count);

	a->count -= count;
	b->count -= count;
}

static void cancel_blocks(struct counts_process *a, struct counts_process *b)
{
	for (size_t i = 0, k = 0; i < a->block_count && k < b->block_count;) {
		const int order = counts_compare_blocks(&a->blocks[i], &b->blocks[k]);

		if (!order)
			cancel_block(&a->blocks[i], &b->blocks[k]);
		i += order <= 0;
		k += order >= 0;
	}
}

static void cancel_edges(struct counts_process *a, struct counts_process *b)
{
	for (size_t i = 0, k = 0; i < a->edge_count && k < b->edge_count;) {
		const int order = counts_compare_edges(&a->edges[i], &b->edges[k]);

		if (!order)
			cancel_edge(&a->edges[i], &b->edges[k]);
		i += order <= 0;
		k += order >= 0;
	}
}

static void cancel_number(uint64_t *a, uint64_t *b)
{
	const uint64_t both = least(*a, *b);

	*a -= both;
	*b -= both;
}

static void cancel_events(struct ptah_profile_totals *a, struct ptah_profile_totals *b)
{
	cancel_number(&a->errors, &b->errors);
	cancel_number(&a->overflows, &b->overflows);
	cancel_number(&a->gaps, &b->gaps);
}

/* Removes blocks and edges with a count of 0. */
static void drop_zeros(struct counts_process *p)
{
	size_t blocks = 0, edges = 0;

	for (size_t i = 0; i < p->block_count; i++)
		if (p->blocks[i].count)
			p->blocks[blocks++] = p->blocks[i];
	for (size_t i = 0; i < p->edge_count; i++)
		if (p->edges[i].count)
			p->edges[edges++] = p->edges[i];
	p->block_count = blocks;
	p->edge_count = edges;
}

/* Gives the lists their spaces, and drops what has no counts. */
static int complete(struct counts_process *left, const struct ptah_space *spaces, size_t count)
{
	struct ptah_space *own = malloc((count + 1) * sizeof(*own));

	if (!own)
		return PTAH_E_NOMEM;
	memcpy(own, spaces, count * sizeof(*own));
	left->spaces = own;
	left->space_count = count;
	drop_zeros(left);
	return counts_drop_spaces(left);
}

static void swap_lists(struct counts_process *p, struct counts_process *left)
{
	const struct counts_process old = *p;

	p->spaces = left->spaces;
	p->blocks = left->blocks;
	p->edges = left->edges;
	p->space_count = left->space_count;
	p->block_count = left->block_count;
	p->edge_count = left->edge_count;
	*left =
	    (struct counts_process){.spaces = old.spaces, .blocks = old.blocks, .edges = old.edges};
}

int counts_cancel(struct counts_process *a, struct counts_process *b)
{
	struct counts_process left_a = {0}, left_b = {0};
	size_t count = 0;
	struct ptah_space *spaces = counts_common_spaces(a, b, &count);
	int status = spaces ? 0 : PTAH_E_NOMEM;

	if (status >= 0)
		status = counts_copy_renumbered(&left_a, a, spaces, count);
	if (status >= 0)
		status = counts_copy_renumbered(&left_b, b, spaces, count);
	if (status >= 0) {
		cancel_blocks(&left_a, &left_b);
		cancel_edges(&left_a, &left_b);
		status = complete(&left_a, spaces, count);
	}
	if (status >= 0)
		status = complete(&left_b, spaces, count);
	if (status >= 0) {
		swap_lists(a, &left_a);
		swap_lists(b, &left_b);
		cancel_events(&a->events, &b->events);
	}
	free(spaces);
	counts_free_process(&left_a);
	counts_free_process(&left_b);
	return status;
}

bool counts_is_empty(const struct counts_process *p)
{
	return !p->block_count && !p->edge_count && !p->events.errors && !p->events.overflows &&
	       !p->events.gaps && !p->calls;
}
