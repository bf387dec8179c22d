/* SPDX-License-Identifier: MIT */
/* The calls of processes in counts: added and joined. */
#include "calls/tree_internal.h"
#include "counts/counts_internal.h"

#include <string.h>

static int new_tree(struct ptah_call_tree **tree)
{
	return ptah_call_tree_new(NULL, tree);
}

int counts_join_calls(const struct ptah_call_tree *a, const struct ptah_call_tree *b,
		      struct ptah_call_tree **sum)
{
	int status;

	*sum = NULL;
	if (!a && !b)
		return 0;
	status = new_tree(sum);
	if (status >= 0 && a)
		status = ptah_call_tree_merge(*sum, a, NULL, NULL);
	if (status >= 0 && b)
		status = ptah_call_tree_merge(*sum, b, NULL, NULL);
	return status;
}

bool counts_sum_calls(struct counts_sums *sums, const struct ptah_call_tree *t)
{
	const struct ptah_call_figures root = tree_root_figures(t);
	uint64_t calls = sums->calls;
	bool fits = true;

	for (uint32_t i = 0; i < t->node_count; i++)
		fits &= !__builtin_add_overflow(calls, t->nodes[i].count, &calls);
	for (uint32_t i = 0; i < t->function_count; i++) {
		const struct tree_function *f = &t->functions[i];

		fits &= !__builtin_add_overflow(calls, f->partial, &calls);
		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
			for (uint32_t b = 0; b < f->histograms[k].n; b++)
				fits &= !__builtin_add_overflow(calls, f->histograms[k].buckets[b],
								&calls);
	}
	sums->calls = calls;
	return fits &&
	       !__builtin_add_overflow(sums->figures.instructions, root.instructions,
				       &sums->figures.instructions) &&
	       !__builtin_add_overflow(sums->figures.cycles, root.cycles, &sums->figures.cycles) &&
	       !__builtin_add_overflow(sums->figures.time, root.time, &sums->figures.time);
}

/* Address spaces */

static uint16_t last_space(const struct ptah_call_tree *t)
{
	uint16_t last = 0;

	for (uint32_t i = 1; t && i < t->function_count; i++)
		if (t->functions[i].space > last)
			last = t->functions[i].space;
	return last;
}

static bool move_space(void *context, uint16_t *space, uint64_t *function)
{
	(void)function;
	if (*space)
		*space = (uint16_t)(*space + *(const uint16_t *)context);
	return true;
}

int counts_move_spaces(struct ptah_call_tree **tree, const struct ptah_call_tree *other)
{
	uint16_t first = last_space(other);
	const uint16_t last = last_space(*tree);
	struct ptah_call_tree *moved;
	int status;

	if (!first || !last)
		return 0;
	if (first > UINT16_MAX - last)
		return PTAH_E_LIMIT;
	status = new_tree(&moved);
	if (status >= 0)
		status = ptah_call_tree_merge(moved, *tree, move_space, &first);
	if (status < 0) {
		ptah_call_tree_free(moved);
		return status;
	}
	ptah_call_tree_free(*tree);
	*tree = moved;
	return 0;
}

/* Adding */

/* Versions have no spaces in counts: see ptah_counts_version_address(). */
static bool move_version(void *context, uint16_t *space, uint64_t *function)
{
	(void)context;
	if (*space > PTAH_CALLS_VERSION) {
		*function = ptah_counts_version_address(*space - PTAH_CALLS_VERSION, *function);
		*space = 0;
	}
	return true;
}

static int add_process_calls(struct ptah_counts *c, struct counts_process *p,
			     const struct ptah_call_tree *tree)
{
	int status = new_tree(&p->calls);

	if (status >= 0)
		status = ptah_call_tree_merge(p->calls, tree, move_version, NULL);
	if (status < 0) {
		counts_free_process(p);
		return status;
	}
	return counts_add_process(c, p);
}

int counts_add_calls(struct ptah_counts *c, int32_t pid, const struct ptah_call_tree *tree)
{
	struct counts_process p = {.pid = pid, .space = pid};

	return c && tree ? add_process_calls(c, &p, tree) : PTAH_E_INVAL;
}

static unsigned times_of(const struct ptah_session *session)
{
	const enum ptah_time_kind kind = ptah_session_times(session).kind;
	const unsigned estimated =
	    ptah_session_times(session).estimated ? PTAH_COUNTS_ESTIMATED : 0;

	return kind == PTAH_TIME_NONE ? 0 : 1u << (kind - PTAH_TIME_MEASURED) | estimated;
}

int ptah_counts_add_session_calls(struct ptah_counts *c, const struct ptah_session *session,
				  int32_t space, const struct ptah_call_tree *tree)
{
	struct counts_process p;

	if (!c || !session || !tree)
		return PTAH_E_INVAL;
	p = counts_process_of_space(session, space);
	c->times |= times_of(session);
	return add_process_calls(c, &p, tree);
}
