/* SPDX-License-Identifier: MIT */
/* The lists and sums that callers read from a call tree: nodes, functions, pairs, totals. */
#include "base/order.h"
#include "calls/tree_internal.h"

#include <stdlib.h>
#include <string.h>

/* The order of nodes */

struct sibling {
	uint64_t address;
	uint32_t parent, node;
	uint16_t space, folded;
};

static int by_parent(const void *a, const void *b)
{
	const struct sibling *x = a, *y = b;
	int order = COMPARE(x->parent, y->parent);

	order = order ? order : COMPARE(x->folded, y->folded);
	order = order ? order : COMPARE(x->space, y->space);
	return order ? order : COMPARE(x->address, y->address);
}

/* All nodes but the root: the children of a node side by side, in their order. */
static struct sibling *sort_siblings(const struct ptah_call_tree *t)
{
	struct sibling *list = calloc(t->node_count, sizeof(*list));

	if (!list)
		return NULL;
	for (uint32_t i = 1; i < t->node_count; i++) {
		const struct tree_node *n = &t->nodes[i];

		list[i - 1] = (struct sibling){n->address, n->parent, i, n->space,
					       (n->flags & TREE_FOLDED) != 0};
	}
	qsort(list, t->node_count - 1, sizeof(*list), by_parent);
	return list;
}

/*
 * Goes through the tree with a stack of positions in the list of siblings: `next` is the position
 * of each node's first child that has not been visited.
 */
static void visit(const struct ptah_call_tree *t, const struct sibling *siblings, uint32_t *next,
		  uint32_t *stack, struct tree_place *places)
{
	const uint32_t n = t->node_count;
	uint32_t depth = 0, count = 0;

	for (uint32_t i = n - 1; i-- > 0;)
		next[siblings[i].parent] = i + 1; /* 0: no child */
	stack[0] = 0;
	places[count++] = (struct tree_place){0, 0};
	while (count < n) {
		const uint32_t node = stack[depth], at = next[node];

		if (!at) {
			depth--;
			continue;
		}
		next[node] = at < n - 1 && siblings[at].parent == node ? at + 1 : 0;
		stack[++depth] = siblings[at - 1].node;
		places[count++] = (struct tree_place){stack[depth], depth};
	}
}

struct tree_place *tree_depth_first(const struct ptah_call_tree *t)
{
	struct tree_place *places = calloc(t->node_count, sizeof(*places));
	struct sibling *siblings = sort_siblings(t);
	uint32_t *next = calloc(t->node_count, sizeof(*next));
	uint32_t *stack = calloc(t->node_count, sizeof(*stack));

	if (places && siblings && next && stack) {
		visit(t, siblings, next, stack, places);
	} else {
		free(places);
		places = NULL;
	}
	free(siblings);
	free(next);
	free(stack);
	return places;
}

/* Whether the tree is complete. */
static int check(const struct ptah_call_tree *t)
{
	return tree_failed(t) ? PTAH_E_NOMEM : tree_depth(t) ? PTAH_E_INVAL : 0;
}

struct ptah_call_figures tree_root_figures(const struct ptah_call_tree *t)
{
	struct ptah_call_figures sum = t->outside;

	for (uint32_t i = 1; i < t->node_count; i++)
		if (!t->nodes[i].parent)
			tree_add_figures(&sum, &t->nodes[i].inclusive);
	return sum;
}

static struct ptah_call_node show_node(const struct ptah_call_tree *t, const struct tree_node *n,
				       uint32_t depth)
{
	return (struct ptah_call_node){
	    .function = n->address,
	    .space = n->space,
	    .flags = (uint16_t)((n->flags & TREE_RECURSIVE ? PTAH_CALL_NODE_RECURSIVE : 0) |
				(n->flags & TREE_FOLDED ? PTAH_CALL_NODE_FOLDED : 0)),
	    .begins = n->flags & TREE_BEGINS,
	    .function_flags = t->functions[n->function].flags,
	    .depth = depth,
	    .count = n->count,
	    .inclusive = n->inclusive,
	};
}

int ptah_call_tree_nodes(const struct ptah_call_tree *t, struct ptah_call_node **nodes, size_t *n)
{
	struct ptah_call_figures *self;
	struct tree_place *places;
	uint32_t *numbers;
	int status = t && nodes && n ? check(t) : PTAH_E_INVAL;

	if (status < 0)
		return status;
	places = tree_depth_first(t);
	self = tree_self_figures(t);
	numbers = calloc(t->node_count, sizeof(*numbers));
	*nodes = calloc(t->node_count, sizeof(**nodes));
	*n = t->node_count;
	for (uint32_t i = 0; places && self && numbers && *nodes && i < t->node_count; i++) {
		const uint32_t at = places[i].node;

		numbers[at] = i;
		(*nodes)[i] = show_node(t, &t->nodes[at], places[i].depth);
		(*nodes)[i].parent = numbers[t->nodes[at].parent];
		(*nodes)[i].self = self[at];
		if (t->nodes[at].flags & TREE_FOLDED)
			(*nodes)[i].self = t->nodes[at].inclusive;
	}
	if (places && self && numbers && *nodes) {
		(*nodes)[0].inclusive = tree_root_figures(t);
	} else {
		free(*nodes);
		*nodes = NULL;
		status = PTAH_E_NOMEM;
	}
	free(places);
	free(self);
	free(numbers);
	return status;
}

/* Functions */

static int by_function(const void *a, const void *b)
{
	const struct ptah_call_function *x = a, *y = b;
	int order = COMPARE(x->space, y->space);

	return order ? order : COMPARE(x->function, y->function);
}

static void add_nodes(const struct ptah_call_tree *t, const struct ptah_call_figures *self,
		      struct ptah_call_function *list)
{
	for (uint32_t i = 1; i < t->node_count; i++) {
		const struct tree_node *n = &t->nodes[i];
		struct ptah_call_function *f = &list[n->function];

		if (n->flags & TREE_FOLDED)
			continue;
		f->count += n->count;
		tree_add_figures(&f->self, &self[i]);
		if (!(n->flags & TREE_RECURSIVE))
			tree_add_figures(&f->inclusive, &n->inclusive);
	}
}

static struct ptah_call_function show_function(const struct tree_function *f)
{
	struct ptah_call_function shown = {
	    .function = f->address,
	    .space = f->space,
	    .flags = f->flags,
	    .count = f->count,
	    .partial = f->partial,
	    .inclusive = f->inclusive,
	    .self = f->self,
	    .time_least = f->least,
	    .time_most = f->most == TREE_NO_BOUND ? 0 : f->most,
	};

	for (unsigned i = 0; i < PTAH_CALL_VALUE_MAX; i++) {
		shown.histogram[i].calls = histogram_count(&f->histograms[i]);
		if (shown.histogram[i].calls) {
			shown.histogram[i].min = f->histograms[i].min;
			shown.histogram[i].max = f->histograms[i].max;
		}
	}
	return shown;
}

/* The functions in the tree's order, the first of which is none. NULL: out of memory. */
static struct ptah_call_function *list_functions(const struct ptah_call_tree *t)
{
	struct ptah_call_function *list = calloc(t->function_count, sizeof(*list));
	struct ptah_call_figures *self = tree_self_figures(t);

	if (!list || !self) {
		free(list);
		free(self);
		return NULL;
	}
	for (uint32_t i = 0; i < t->function_count; i++)
		list[i] = show_function(&t->functions[i]);
	for (uint32_t i = 0; i < t->suspended_capacity; i++)
		if (t->suspended[i].id)
			list[t->suspended[i].function].partial++;
	add_nodes(t, self, list);
	free(self);
	return list;
}

int ptah_call_tree_functions(const struct ptah_call_tree *t, struct ptah_call_function **functions,
			     size_t *n)
{
	struct ptah_call_function *list;
	int status = t && functions && n ? check(t) : PTAH_E_INVAL;

	if (status < 0)
		return status;
	list = list_functions(t);
	if (!list)
		return PTAH_E_NOMEM;
	*n = t->function_count - 1;
	memmove(list, list + 1, *n * sizeof(*list));
	qsort(list, *n, sizeof(*list), by_function);
	*functions = list;
	return 0;
}

uint64_t ptah_call_tree_quantile(const struct ptah_call_tree *t,
				 const struct ptah_call_function *function,
				 enum ptah_call_value value, double q)
{
	uint32_t at;

	if (!t || !function || (unsigned)value >= PTAH_CALL_VALUE_MAX)
		return 0;
	at = tree_find_function(t, function->function, function->space);
	return at ? histogram_quantile(&t->functions[at].histograms[value], q) : 0;
}

/* Pairs */

static int by_pair(const void *a, const void *b)
{
	const struct ptah_call_pair *x = a, *y = b;
	int order = COMPARE(!x->no_caller, !y->no_caller);

	order = order ? order : COMPARE(x->caller_space, y->caller_space);
	order = order ? order : COMPARE(x->caller, y->caller);
	order = order ? order : COMPARE(x->callee_space, y->callee_space);
	return order ? order : COMPARE(x->callee, y->callee);
}

static struct ptah_call_pair show_pair(const struct ptah_call_tree *t, const struct tree_pair *p)
{
	const struct tree_function *caller = &t->functions[p->caller];
	const struct tree_function *callee = &t->functions[p->callee];

	return (struct ptah_call_pair){
	    .caller = caller->address,
	    .callee = callee->address,
	    .caller_space = caller->space,
	    .callee_space = callee->space,
	    .no_caller = !p->caller,
	    .count = p->count,
	    .inclusive = p->inclusive,
	    .self = p->self,
	};
}

/* Sorts the list and adds up what is of the same pair. Returns how many are left. */
static size_t join_pairs(struct ptah_call_pair *list, size_t n)
{
	size_t last = 0;

	if (!n)
		return 0;
	qsort(list, n, sizeof(*list), by_pair);
	for (size_t i = 1; i < n; i++) {
		if (by_pair(&list[last], &list[i])) {
			list[++last] = list[i];
			continue;
		}
		list[last].count += list[i].count;
		tree_add_figures(&list[last].inclusive, &list[i].inclusive);
		tree_add_figures(&list[last].self, &list[i].self);
	}
	return last + 1;
}

int ptah_call_tree_pairs(const struct ptah_call_tree *t, struct ptah_call_pair **pairs, size_t *n)
{
	struct ptah_call_figures *self;
	struct ptah_call_pair *list;
	size_t count = 0;
	int status = t && pairs && n ? check(t) : PTAH_E_INVAL;

	if (status < 0)
		return status;
	self = tree_self_figures(t);
	list = calloc((size_t)t->node_count + t->pair_count, sizeof(*list));
	if (!list || !self) {
		free(list);
		free(self);
		return PTAH_E_NOMEM;
	}
	for (uint32_t i = 1; i < t->node_count; i++) {
		const struct tree_node *node = &t->nodes[i];
		struct tree_pair pair = {.caller = t->nodes[node->parent].function,
					 .callee = node->function,
					 .count = node->count,
					 .self = self[i]};

		if (!(node->flags & TREE_RECURSIVE))
			pair.inclusive = node->inclusive;
		if (!(node->flags & TREE_FOLDED))
			list[count++] = show_pair(t, &pair);
	}
	for (uint32_t i = 1; i < t->pair_count; i++)
		if (t->pairs[i].callee)
			list[count++] = show_pair(t, &t->pairs[i]);
	free(self);
	*n = join_pairs(list, count);
	*pairs = list;
	return 0;
}

/* Totals */

static void count_calls(const struct ptah_call_function *list, size_t n,
			struct ptah_call_totals *totals)
{
	uint64_t calls[PTAH_CALL_VALUE_MAX] = {0};

	for (size_t i = 0; i < n; i++) {
		totals->calls += list[i].count;
		totals->partial += list[i].partial;
		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
			calls[k] += list[i].histogram[k].calls;
	}
	totals->uncycled = calls[PTAH_CALL_VALUE_INSTRUCTIONS] - calls[PTAH_CALL_VALUE_CYCLES];
	totals->untimed = calls[PTAH_CALL_VALUE_INSTRUCTIONS] - calls[PTAH_CALL_VALUE_TIME];
}

int ptah_call_tree_totals(const struct ptah_call_tree *t, struct ptah_call_totals *totals)
{
	struct ptah_call_function *list;
	int status = t && totals ? check(t) : PTAH_E_INVAL;

	if (status < 0)
		return status;
	list = list_functions(t);
	if (!list)
		return PTAH_E_NOMEM;
	memset(totals, 0, sizeof(*totals));
	count_calls(list, t->function_count, totals);
	totals->inclusive = tree_root_figures(t);
	totals->paths = t->paths;
	totals->folded_paths = t->folded_paths;
	totals->folded_calls = t->folded_calls;
	totals->folded = t->folded_figures;
	totals->unlisted_calls = list[0].count;
	totals->unlisted = list[0].self;
	free(list);
	return 0;
}
