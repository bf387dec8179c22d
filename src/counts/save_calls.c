/* SPDX-License-Identifier: MIT */
/* Writes the calls of a process in the file format of docs/profile-file.md. */
#include "base/bits.h"
#include "base/order.h"
#include "calls/tree_internal.h"
#include "counts/counts_internal.h"
#include "perfdata/byte_buffer.h"

#include <stdlib.h>

/* A function's number in the file; 0 is that of no function. */
struct numbered {
	const struct tree_function *function;
	uint32_t number; /* in the tree */
};

static int by_key(const void *a, const void *b)
{
	const struct tree_function *x = ((const struct numbered *)a)->function;
	const struct tree_function *y = ((const struct numbered *)b)->function;

	return COMPARE_THEN(x->space, y->space, COMPARE(x->address, y->address));
}

static void put_saved_figures(struct perfdata_buffer *out, const struct ptah_call_figures *f)
{
	perfdata_put64(out, f->instructions);
	perfdata_put64(out, f->cycles);
	perfdata_put64(out, f->time);
}

static void put_saved_histogram(struct perfdata_buffer *out, const struct histogram *h)
{
	const uint32_t first = histogram_index(h->min), last = histogram_index(h->max);

	perfdata_put64(out, h->min);
	perfdata_put64(out, h->max);
	for (uint32_t i = first; i <= last; i++) {
		uint8_t number[COUNTS_LEB];

		perfdata_put(out, number, counts_put_leb(number, h->buckets[i - h->first]));
	}
	perfdata_put(out, NULL, (8 - out->size % 8) % 8);
}

static void put_function(struct perfdata_buffer *out, const struct tree_function *f)
{
	uint8_t bytes[COUNTS_FUNCTION] = {0};
	unsigned mask = 0;

	for (unsigned i = 0; i < PTAH_CALL_VALUE_MAX; i++)
		mask |= f->histograms[i].n ? 1U << i : 0;
	store_le64(bytes, f->address);
	store_le16(bytes + 8, f->space);
	store_le16(bytes + 10, f->flags);
	store_le16(bytes + 12, (uint16_t)mask);
	store_le64(bytes + 16, f->partial);
	perfdata_put(out, bytes, sizeof(bytes));
	for (unsigned i = 0; i < PTAH_CALL_VALUE_MAX; i++)
		if (mask >> i & 1)
			put_saved_histogram(out, &f->histograms[i]);
}

/* Writes the functions and sets their numbers. False: out of memory. */
static bool put_saved_functions(struct perfdata_buffer *out, const struct ptah_call_tree *t,
				uint32_t *numbers)
{
	struct numbered *list = calloc(t->function_count, sizeof(*list));

	if (!list)
		return false;
	for (uint32_t i = 0; i < t->function_count; i++)
		list[i] = (struct numbered){&t->functions[i], i};
	qsort(list + 1, t->function_count - 1, sizeof(*list), by_key);
	for (uint32_t i = 0; i < t->function_count; i++) {
		numbers[list[i].number] = i;
		put_function(out, list[i].function);
	}
	free(list);
	return true;
}

static void put_node(struct perfdata_buffer *out, const struct tree_node *n, uint32_t parent,
		     uint32_t function)
{
	perfdata_put32(out, parent);
	perfdata_put32(out, function);
	perfdata_put64(out, n->flags & (TREE_BEGINS | TREE_FOLDED));
	perfdata_put64(out, n->count);
	put_saved_figures(out, &n->inclusive);
}

static bool put_saved_nodes(struct perfdata_buffer *out, const struct ptah_call_tree *t,
			    const uint32_t *functions)
{
	struct tree_place *places = tree_depth_first(t);
	uint32_t *numbers = calloc(t->node_count, sizeof(*numbers));
	const bool done = places && numbers;

	for (uint32_t i = 1; done && i < t->node_count; i++) {
		const struct tree_node *n = &t->nodes[places[i].node];

		numbers[places[i].node] = i;
		put_node(out, n, numbers[n->parent], functions[n->function]);
	}
	free(places);
	free(numbers);
	return done;
}

struct numbered_pair {
	uint32_t caller, callee;
	const struct tree_pair *pair;
};

static int by_numbers(const void *a, const void *b)
{
	const struct numbered_pair *x = a, *y = b;

	return COMPARE_THEN(x->caller, y->caller, COMPARE(x->callee, y->callee));
}

static bool put_pairs(struct perfdata_buffer *out, const struct ptah_call_tree *t,
		      const uint32_t *functions)
{
	struct numbered_pair *list = calloc(t->pair_count, sizeof(*list));
	const uint32_t n = t->pair_count - 1;

	if (!list)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		const struct tree_pair *p = &t->pairs[i + 1];

		list[i] = (struct numbered_pair){functions[p->caller], functions[p->callee], p};
	}
	qsort(list, n, sizeof(*list), by_numbers);
	for (uint32_t i = 0; i < n; i++) {
		perfdata_put32(out, list[i].caller);
		perfdata_put32(out, list[i].callee);
		perfdata_put64(out, list[i].pair->count);
		put_saved_figures(out, &list[i].pair->inclusive);
		put_saved_figures(out, &list[i].pair->self);
	}
	free(list);
	return true;
}

bool counts_put_calls(struct perfdata_buffer *out, const struct ptah_call_tree *t)
{
	uint32_t *numbers = calloc(t->function_count, sizeof(*numbers));
	bool done;

	perfdata_put64(out, t->function_count);
	perfdata_put64(out, t->node_count - 1);
	perfdata_put64(out, t->pair_count - 1);
	perfdata_put64(out, t->folded_paths);
	put_saved_figures(out, &t->outside);
	done = numbers && put_saved_functions(out, t, numbers) &&
	       put_saved_nodes(out, t, numbers) && put_pairs(out, t, numbers);
	free(numbers);
	return done;
}
