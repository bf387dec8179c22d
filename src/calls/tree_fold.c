/* SPDX-License-Identifier: MIT */
/*
 * Folds paths of a call tree when there are too many. Those in which the fewest instructions ran
 * are taken away. What they contained goes to the folded node below the nearest caller that stays,
 * and to the functions and pairs.
 */
#include "base/order.h"
#include "calls/tree_internal.h"

#include <stdlib.h>
#include <string.h>

/* What is decided of a node. */
enum fate {
	FATE_STAYS,
	FATE_OPEN, /* stays in any case: it has an open call, or a merge is at it */
	FATE_GOES,
};

struct folding {
	struct ptah_call_tree *t;
	uint32_t n; /* nodes before the folding; those after them are folded nodes that it made */
	uint8_t *fates;
	uint32_t *tops;	   /* of nodes that go: the nearest caller that stays */
	uint32_t *numbers; /* new ones of nodes that stay */
	uint64_t *keys;
	struct ptah_call_figures *self;
};

static bool is_folded(const struct folding *f, uint32_t i)
{
	return f->t->nodes[i].flags & TREE_FOLDED;
}

static void mark_open(struct folding *f)
{
	const struct ptah_call_tree *t = f->t;

	for (size_t i = 0; i <= tree_depth(t); i++)
		f->fates[t->frames[i].node] = FATE_OPEN;
	for (size_t i = 0; i < t->keep_count; i++)
		f->fates[t->keep[i]] = FATE_OPEN;
	f->fates[t->keep_one] = FATE_OPEN;
	for (uint32_t i = f->n; i-- > 1;)
		if (f->fates[i] == FATE_OPEN)
			f->fates[t->nodes[i].parent] = FATE_OPEN;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return COMPARE(x, y);
}

/* Nodes with so many instructions or fewer go. False: none can. */
static bool choose_limit(struct folding *f, uint64_t *limit)
{
	const uint32_t wanted = f->t->max_paths / 2;
	uint32_t n = 0, more;

	for (uint32_t i = 1; i < f->n; i++)
		if (f->fates[i] != FATE_OPEN && !is_folded(f, i))
			f->keys[n++] = f->t->nodes[i].inclusive.instructions;
	if (!n)
		return false;
	qsort(f->keys, n, sizeof(*f->keys), by_value);
	more = f->t->paths > wanted ? f->t->paths - wanted : 1;
	*limit = f->keys[(more < n ? more : n) - 1];
	return true;
}

static void choose(struct folding *f, uint64_t limit)
{
	for (uint32_t i = 1; i < f->n; i++) {
		const struct tree_node *n = &f->t->nodes[i];
		const bool above = f->fates[n->parent] == FATE_GOES;

		if (f->fates[i] == FATE_OPEN)
			continue;
		if (above || (!is_folded(f, i) && n->inclusive.instructions <= limit)) {
			f->fates[i] = FATE_GOES;
			f->tops[i] = above ? f->tops[n->parent] : n->parent;
		}
	}
}

/* Adds what a node has to where it goes. */
static bool give_away(struct folding *f, uint32_t i)
{
	struct ptah_call_tree *t = f->t;
	const uint32_t into = tree_folded_child(t, f->tops[i]), parent = t->nodes[i].parent;
	const struct tree_node *n = &t->nodes[i];

	if (!into)
		return false;
	t->nodes[into].count += n->count;
	t->nodes[into].flags |= n->flags & TREE_BEGINS;
	if (parent == f->tops[i]) {
		tree_add_figures(&t->nodes[into].inclusive, &n->inclusive);
		tree_add_figures(&t->folded_figures, &n->inclusive);
	}
	if (is_folded(f, i)) {
		t->folded_figures = tree_difference(&t->folded_figures, &n->inclusive);
		return true;
	}
	t->paths--;
	t->folded_paths++;
	t->folded_calls += n->count;
	return tree_count_folded(t, t->nodes[parent].function, n->function, n->count,
				 !(n->flags & TREE_RECURSIVE), &n->inclusive, &f->self[i]);
}

static void renumber(struct folding *f)
{
	struct ptah_call_tree *t = f->t;

	for (size_t i = 0; i <= tree_depth(t); i++) {
		t->frames[i].node = f->numbers[t->frames[i].node];
		t->frames[i].last = t->frames[i].next = 0;
	}
	for (size_t i = 0; i < t->keep_count; i++)
		t->keep[i] = f->numbers[t->keep[i]];
	t->keep_one = f->numbers[t->keep_one];
	for (uint32_t i = 0; i < t->node_count; i++) {
		struct tree_node *n = &t->nodes[i];

		n->parent = f->numbers[n->parent];
		n->first = f->numbers[n->first];
		n->after = f->numbers[n->after];
		n->folded = f->numbers[n->folded];
	}
}

/* Moves the nodes together. Parents stay before their children. */
static bool compact(struct folding *f)
{
	struct ptah_call_tree *t = f->t;
	uint32_t n = 0;

	f->numbers = calloc(t->node_count, sizeof(*f->numbers));
	if (!f->numbers)
		return false;
	for (uint32_t i = 0; i < t->node_count; i++) {
		if (i < f->n && f->fates[i] == FATE_GOES)
			continue;
		f->numbers[i] = n;
		t->nodes[n++] = t->nodes[i];
	}
	t->node_count = n;
	renumber(f);
	return tree_index_nodes(t);
}

static bool fold(struct folding *f)
{
	uint64_t limit;

	mark_open(f);
	if (!choose_limit(f, &limit))
		return true;
	choose(f, limit);
	for (uint32_t i = 1; i < f->n; i++)
		if (f->fates[i] == FATE_GOES && !give_away(f, i))
			return false;
	return compact(f);
}

bool tree_fold(struct ptah_call_tree *t)
{
	struct folding f = {
	    .t = t,
	    .n = t->node_count,
	    .fates = calloc(t->node_count, sizeof(*f.fates)),
	    .tops = calloc(t->node_count, sizeof(*f.tops)),
	    .keys = calloc(t->node_count, sizeof(*f.keys)),
	    .self = tree_self_figures(t),
	};
	const bool done = f.fates && f.tops && f.keys && f.self && fold(&f);

	free(f.fates);
	free(f.tops);
	free(f.keys);
	free(f.numbers);
	free(f.self);
	return done;
}
