/* SPDX-License-Identifier: MIT */
/* Parts of call trees: those of summaries are added below the innermost call of a tree. */
#include "calls/summary.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* What calls took */

void tree_list_values(struct ptah_call_tree *t)
{
	struct tree_list *l = t->list;

	if (!t->value_count)
		return;
	if (!LIST_ROOM_FOR(l->values, l->value_count, t->value_count, l->value_capacity)) {
		tree_fail(t);
		return;
	}
	memcpy(l->values + l->value_count, t->values, t->value_count * sizeof(*l->values));
	l->value_count += t->value_count;
	t->value_count = 0;
}

void tree_list_call(struct ptah_call_tree *t, uint32_t function,
		    const struct ptah_call_figures *figures)
{
	struct tree_list *l = t->list;

	if (!LIST_ROOM(l->calls, l->call_count, l->call_capacity)) {
		tree_fail(t);
		return;
	}
	l->calls[l->call_count++] = (struct tree_call){function, *figures};
}

void tree_take_values(struct ptah_call_tree *into, const struct tree_list *l,
		      const struct tree_end *from, const struct tree_end *to,
		      const uint32_t *functions)
{
	for (size_t i = from->values; i < to->values; i++) {
		into->values[into->value_count++] = (struct tree_value){
		    functions[l->values[i].function], l->values[i].instructions};
		if (into->value_count == TREE_VALUES)
			tree_spill(into);
	}
	for (size_t i = from->calls; i < to->calls; i++)
		tree_add_values(into, functions[l->calls[i].function], 0, &l->calls[i].figures);
}

/* Parts of trees */

void tree_restart(struct ptah_call_tree *t)
{
	t->value_count = 0;
	t->list->value_count = t->list->call_count = 0;
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
		uint32_t end, uint32_t *numbers, uint32_t *functions)
{
	numbers[root] = into->top->node;
	for (uint32_t i = root + 1; i < end; i++) {
		const struct tree_node *n = &from->nodes[i];
		uint32_t function = functions[n->function], at;
		struct tree_node *to;

		if (!function)
			function = functions[n->function] =
			    tree_make_function(into, n->address, n->space);
		at = function ? tree_make_child(into, numbers[n->parent], n->address, n->space,
						n->flags & TREE_RECURSIVE || into->open[function])
			      : 0;
		if (!at)
			return false;
		into->functions[function].flags |= from->functions[n->function].flags;
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
