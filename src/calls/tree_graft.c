/* SPDX-License-Identifier: MIT */
/* Parts of call trees: those of summaries are added below the innermost call of a tree. */
#include "calls/summary.h"

#include <string.h>

/* An emptied histogram has memory, and no value. */
static bool is_in_use(const struct histogram *h)
{
	return h->n && h->min <= h->max;
}

/* Empties a histogram, whose memory stays. */
static void empty(struct histogram *h)
{
	memset(h->buckets, 0, h->n * sizeof(*h->buckets));
	h->min = UINT64_MAX;
	h->max = 0;
}

void tree_restart(struct ptah_call_tree *t)
{
	for (uint32_t i = 1; i < t->function_count; i++) {
		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
			if (is_in_use(&t->functions[i].histograms[k]))
				empty(&t->functions[i].histograms[k]);
		t->functions[i].partial = t->functions[i].zeros = 0;
	}
	t->value_count = t->zero_count = 0;
	t->top = t->frames;
	memset(t->frames, 0, sizeof(*t->frames));
	memset(t->nodes, 0, sizeof(*t->nodes));
	t->node_count = 1;
	t->paths = 0;
	t->known = 0;
	t->unknown = TREE_CYCLES | (t->time_mult ? TREE_TIME : 0);
	t->ticks = t->time = t->origin = 0;
	if (t->node_index.capacity)
		memset(t->node_index.entries, 0,
		       t->node_index.capacity * sizeof(*t->node_index.entries));
	t->node_index.count = 0;
}

uint32_t tree_begin_section(struct ptah_call_tree *t)
{
	const uint32_t root = tree_failed(t) ? 0 : tree_append_node(t, 0);

	/* The assumed call is open all the time: ends of calls above it are not those of all. */
	t->top = t->frames + 1;
	memset(t->top, 0, sizeof(*t->top));
	t->top->node = root;
	return root;
}

void tree_forget_open(struct ptah_call_tree *t)
{
	for (; t->top > t->frames + 1; t->top--)
		t->open[t->nodes[t->top->node].function]--;
}

bool tree_has_room(const struct ptah_call_tree *t, const struct ptah_call_tree *from,
		   uint32_t nodes)
{
	return nodes <= t->max_paths && t->paths <= t->max_paths - nodes &&
	       from->function_count <= t->max_functions &&
	       t->function_count <= t->max_functions - from->function_count;
}

bool tree_graft(struct ptah_call_tree *into, const struct ptah_call_tree *from, uint32_t root,
		uint32_t end, uint32_t *numbers)
{
	numbers[root] = into->top->node;
	for (uint32_t i = root + 1; i < end; i++) {
		const struct tree_node *n = &from->nodes[i];
		const struct tree_function *f = &from->functions[n->function];
		const uint32_t function = tree_make_function(into, n->address, n->space);
		struct tree_node *to;
		uint32_t at;

		at = function ? tree_make_child(into, numbers[n->parent], n->address, n->space,
						n->flags & TREE_RECURSIVE || into->open[function])
			      : 0;
		if (!at)
			return false;
		into->functions[function].flags |= f->flags;
		to = &into->nodes[at];
		to->count += n->count;
		to->flags |= n->flags & TREE_BEGINS;
		tree_add_figures(&to->inclusive, &n->inclusive);
		numbers[i] = at;
	}
	return true;
}

bool tree_push(struct ptah_call_tree *into, const struct tree_frame *frame, uint32_t node)
{
	if (into->top >= into->last && !tree_grow_frames(into))
		return false;
	*++into->top = *frame;
	into->top->node = node;
	into->top->last = into->top->next = 0;
	into->open[into->nodes[node].function]++;
	return true;
}

bool tree_take_functions(struct ptah_call_tree *into, struct ptah_call_tree *from)
{
	tree_flush(from);
	for (uint32_t i = 1; i < from->function_count; i++) {
		struct tree_function *f = &from->functions[i], *to;
		uint32_t at = 0;

		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++) {
			struct histogram *h = &f->histograms[k];

			if (!is_in_use(h))
				continue;
			at = at ? at : tree_make_function(into, f->address, f->space);
			if (!at || !histogram_merge(&into->functions[at].histograms[k], h))
				return false;
			empty(h);
		}
		if (!f->partial)
			continue;
		at = at ? at : tree_make_function(into, f->address, f->space);
		if (!at)
			return false;
		to = &into->functions[at];
		to->partial += f->partial;
		f->partial = 0;
	}
	return true;
}
