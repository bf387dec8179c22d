/* SPDX-License-Identifier: MIT */
/* Adds one call tree to another, perhaps under other keys. */
#include "calls/tree_internal.h"

#include <stdlib.h>
#include <string.h>

/* A function of `from` that the map leaves out. */
#define LEFT_OUT UINT32_MAX

/* Where the caller's path is in `into`. `node` is in merging.path, so that folding can change it.
 */
struct level {
	uint32_t function, caller; /* of `into` */
	bool left_out;		   /* the node of `from` has none: this is its caller's */
};

struct merging {
	struct ptah_call_tree *into;
	const struct ptah_call_tree *from;
	ptah_call_tree_map *map;
	void *context;
	uint32_t *functions; /* of `from` in `into`; 0: none, LEFT_OUT */
	uint32_t *running;   /* how often the path has each function of `into` */
	uint32_t *path;	     /* the nodes of `into` from the root to where the merge is */
	struct level *levels;
	struct ptah_call_figures *self; /* of the nodes of `from` */
};

/* Functions */

static bool map_function(struct merging *m, uint32_t i)
{
	const struct tree_function *f = &m->from->functions[i];
	uint64_t address = f->address;
	uint16_t space = f->space;

	if (m->map && !m->map(m->context, &space, &address)) {
		m->functions[i] = LEFT_OUT;
		return true;
	}
	m->functions[i] = tree_make_function(m->into, address, space);
	return !tree_failed(m->into);
}

static bool add_function(struct merging *m, uint32_t i)
{
	const struct tree_function *f = &m->from->functions[i];
	struct tree_function *to;

	if (m->functions[i] == LEFT_OUT)
		return true;
	to = &m->into->functions[m->functions[i]];
	for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
		if (!histogram_merge(&to->histograms[k], &f->histograms[k]))
			return false;
	to->flags |= f->flags;
	to->partial += f->partial;
	to->count += f->count;
	tree_add_figures(&to->inclusive, &f->inclusive);
	tree_add_figures(&to->self, &f->self);
	return true;
}

/*
 * Of functions that become one, some may have run in calls of others: no less than the most that one
 * of them took, and no more than all together. Where a tree without bounds is added none are known.
 */
static bool add_bounds(struct merging *m)
{
	struct ptah_call_tree *into = m->into;
	uint64_t *least = calloc(into->function_count, sizeof(*least));

	if (!least)
		return false;
	for (uint32_t i = 1; i < m->from->function_count; i++) {
		const struct tree_function *f = &m->from->functions[i];
		const uint32_t at = m->functions[i];
		struct tree_function *to = &into->functions[at == LEFT_OUT ? 0 : at];

		if (f->least > least[to - into->functions])
			least[to - into->functions] = f->least;
		to->most = f->most && f->most < TREE_NO_BOUND - to->most ? to->most + f->most
									 : TREE_NO_BOUND;
	}
	for (uint32_t i = 1; i < into->function_count; i++)
		into->functions[i].least += least[i];
	free(least);
	return true;
}

static bool add_functions(struct merging *m)
{
	const struct ptah_call_tree *from = m->from;

	for (uint32_t i = 1; i < from->function_count; i++)
		if (!map_function(m, i))
			return false;
	for (uint32_t i = 0; i < from->function_count; i++)
		if (!add_function(m, i))
			return false;
	for (uint32_t i = 0; i < from->suspended_capacity; i++) {
		const struct tree_suspended *s = &from->suspended[i];

		if (s->id && m->functions[s->function] != LEFT_OUT)
			m->into->functions[m->functions[s->function]].partial++;
	}
	m->running = calloc(m->into->function_count, sizeof(*m->running));
	return m->running && add_bounds(m);
}

/* Pairs of folded calls. Where the callee is left out, what it ran counts for its caller. */
static bool add_pairs(struct merging *m)
{
	static const struct ptah_call_figures none = {0};

	for (uint32_t i = 1; i < m->from->pair_count; i++) {
		const struct tree_pair *p = &m->from->pairs[i];
		const uint32_t callee = m->functions[p->callee];
		uint32_t caller = m->functions[p->caller];
		struct tree_pair *pair;

		if (caller == LEFT_OUT)
			caller = 0;
		if (callee == LEFT_OUT) {
			if (!tree_count_folded(m->into, 0, caller, 0, false, &none, &p->self))
				return false;
			continue;
		}
		pair = tree_make_pair(m->into, caller, callee);
		if (!pair)
			return false;
		pair->count += p->count;
		tree_add_figures(&pair->inclusive, &p->inclusive);
		tree_add_figures(&pair->self, &p->self);
	}
	return true;
}

/* Paths */

/* What a function that is left out ran itself. Nodes get it as self figures without more ado. */
static bool leave_out(struct merging *m, uint32_t depth, uint32_t i)
{
	static const struct ptah_call_figures none = {0};
	struct ptah_call_tree *into = m->into;
	const struct level *above = &m->levels[depth - 1];

	m->path[depth] = m->path[depth - 1];
	m->levels[depth] = (struct level){above->function, above->caller, true};
	if (into->nodes[m->path[depth]].flags & TREE_FOLDED)
		return tree_count_folded(into, above->caller, above->function, 0, false, &none,
					 &m->self[i]);
	if (!m->path[depth])
		tree_add_figures(&into->outside, &m->self[i]);
	return true;
}

/* Adds a node for which there is no room to the folded node of its caller. */
static bool fold_node(struct merging *m, uint32_t depth, uint32_t i, uint32_t function)
{
	const struct tree_node *n = &m->from->nodes[i];
	struct ptah_call_tree *into = m->into;
	const uint32_t parent = m->path[depth - 1], at = tree_folded_child(into, parent);

	if (!at)
		return false;
	into->nodes[at].count += n->count;
	into->nodes[at].flags |= n->flags & TREE_BEGINS;
	into->folded_calls += n->count;
	into->folded_paths++;
	if (at != parent) {
		tree_add_figures(&into->nodes[at].inclusive, &n->inclusive);
		tree_add_figures(&into->folded_figures, &n->inclusive);
	}
	m->path[depth] = at;
	m->levels[depth] = (struct level){function, m->levels[depth - 1].function, false};
	return tree_count_folded(into, m->levels[depth].caller, function, n->count,
				 !m->running[function]++, &n->inclusive, &m->self[i]);
}

/* Adds a folded node of `from`. Its functions and pairs have been added already. */
static bool add_folded(struct merging *m, uint32_t depth, uint32_t i)
{
	const struct tree_node *n = &m->from->nodes[i];
	struct ptah_call_tree *into = m->into;
	const uint32_t parent = m->path[depth - 1], at = tree_folded_child(into, parent);

	if (!at)
		return false;
	into->nodes[at].count += n->count;
	into->nodes[at].flags |= n->flags & TREE_BEGINS;
	if (at != parent)
		tree_add_figures(&into->nodes[at].inclusive, &n->inclusive);
	else
		into->folded_figures = tree_difference(&into->folded_figures, &n->inclusive);
	m->path[depth] = at;
	m->levels[depth] = (struct level){.left_out = true};
	return true;
}

static bool add_node(struct merging *m, uint32_t depth, uint32_t i)
{
	const struct tree_node *n = &m->from->nodes[i];
	const uint32_t function = m->functions[n->function];
	struct ptah_call_tree *into = m->into;
	uint32_t at;

	if (n->flags & TREE_FOLDED)
		return add_folded(m, depth, i);
	if (function == LEFT_OUT)
		return leave_out(m, depth, i);
	into->keep_count = depth;
	at = function ? tree_make_child(into, m->path[depth - 1], into->functions[function].address,
					into->functions[function].space, m->running[function] > 0)
		      : 0;
	if (tree_failed(into))
		return false;
	if (!at)
		return fold_node(m, depth, i, function);
	into->nodes[at].count += n->count;
	into->nodes[at].flags |= n->flags & TREE_BEGINS;
	tree_add_figures(&into->nodes[at].inclusive, &n->inclusive);
	m->path[depth] = at;
	m->levels[depth] = (struct level){function, m->levels[depth - 1].function, false};
	m->running[function]++;
	return true;
}

static bool add_nodes(struct merging *m, const struct tree_place *places)
{
	uint32_t depth = 0;

	for (uint32_t i = 1; i < m->from->node_count; i++) {
		for (; depth >= places[i].depth; depth--)
			if (!m->levels[depth].left_out)
				m->running[m->levels[depth].function]--;
		if (!add_node(m, places[i].depth, places[i].node))
			return false;
		depth = places[i].depth;
	}
	return true;
}

static bool merge(struct merging *m)
{
	const uint32_t n = m->from->node_count;
	struct tree_place *places = tree_depth_first(m->from);
	bool done = false;

	m->functions = calloc(m->from->function_count, sizeof(*m->functions));
	m->path = calloc(n, sizeof(*m->path));
	m->levels = calloc(n, sizeof(*m->levels));
	m->self = tree_self_figures(m->from);
	m->into->keep = m->path;
	if (places && m->functions && m->path && m->levels && m->self)
		done = add_functions(m) && add_pairs(m) && add_nodes(m, places);
	m->into->keep = NULL;
	m->into->keep_count = 0;
	free(places);
	free(m->functions);
	free(m->running);
	free(m->path);
	free(m->levels);
	free(m->self);
	return done;
}

int ptah_call_tree_merge(struct ptah_call_tree *into, const struct ptah_call_tree *from,
			 ptah_call_tree_map *map, void *context)
{
	struct merging m = {.into = into, .from = from, .map = map, .context = context};

	if (!into || !from || into == from || tree_depth(from))
		return PTAH_E_INVAL;
	if (tree_failed(into) || tree_failed(from) || !merge(&m)) {
		tree_fail(into);
		return PTAH_E_NOMEM;
	}
	tree_add_figures(&into->outside, &from->outside);
	into->folded_paths += from->folded_paths;
	into->folded_calls += from->folded_calls;
	tree_add_figures(&into->folded_figures, &from->folded_figures);
	return 0;
}
