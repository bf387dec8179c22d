/* SPDX-License-Identifier: MIT */
/* The arrays of a call tree and their indices by hash: nodes, functions, pairs of folded calls. */
#include "calls/tree_internal.h"

#include <stdlib.h>
#include <string.h>

void *tree_larger(void *array, size_t size, size_t from, size_t to)
{
	uint8_t *more = reallocarray(array, to, size);

	if (more)
		memset(more + from * size, 0, (to - from) * size);
	return more;
}

/* Indices by hash */

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	x = (x ^ (x >> 32)) * UINT64_C(0xd6e8feb86659fd93);
	return x ^ (x >> 32);
}

static uint64_t hash_child(uint32_t parent, uint64_t address, uint16_t space)
{
	return mix(address ^ mix((uint64_t)parent << 16 | space));
}

static uint64_t hash_function(uint64_t address, uint16_t space)
{
	return mix(address ^ (uint64_t)space << 48);
}

static uint64_t hash_pair(uint32_t caller, uint32_t callee)
{
	return mix((uint64_t)caller << 32 | callee);
}

static void index_put(struct tree_index *x, uint64_t hash, uint32_t value)
{
	uint32_t i = (uint32_t)hash & (x->capacity - 1);

	while (x->entries[i])
		i = (i + 1) & (x->capacity - 1);
	x->entries[i] = value;
	x->count++;
}

/* An empty index for `count` entries, at most half full. False: out of memory. */
static bool index_reset(struct tree_index *x, uint32_t count)
{
	uint32_t capacity = x->capacity ? x->capacity : 32;
	uint32_t *entries;

	while (capacity / 2 <= count)
		capacity *= 2;
	entries = calloc(capacity, sizeof(*entries));
	if (!entries)
		return false;
	free(x->entries);
	*x = (struct tree_index){.entries = entries, .capacity = capacity};
	return true;
}

static bool index_full(const struct tree_index *x)
{
	return x->count + 1 > x->capacity / 2;
}

bool tree_index_nodes(struct ptah_call_tree *t)
{
	if (!index_reset(&t->node_index, t->node_count))
		return false;
	for (uint32_t i = 1; i < t->node_count; i++) {
		const struct tree_node *n = &t->nodes[i];

		if (!(n->flags & TREE_FOLDED))
			index_put(&t->node_index, hash_child(n->parent, n->address, n->space), i);
	}
	return true;
}

static bool index_functions(struct ptah_call_tree *t)
{
	if (!index_reset(&t->function_index, t->function_count))
		return false;
	for (uint32_t i = 1; i < t->function_count; i++)
		index_put(&t->function_index,
			  hash_function(t->functions[i].address, t->functions[i].space), i);
	return true;
}

static bool index_pairs(struct ptah_call_tree *t)
{
	if (!index_reset(&t->pair_index, t->pair_count))
		return false;
	for (uint32_t i = 1; i < t->pair_count; i++)
		index_put(&t->pair_index, hash_pair(t->pairs[i].caller, t->pairs[i].callee), i);
	return true;
}

/* Functions and pairs */

uint32_t tree_find_function(const struct ptah_call_tree *t, uint64_t address, uint16_t space)
{
	const struct tree_index *x = &t->function_index;
	uint32_t i = (uint32_t)hash_function(address, space), at;

	if (!x->capacity)
		return 0;
	while ((at = x->entries[i & (x->capacity - 1)])) {
		if (t->functions[at].address == address && t->functions[at].space == space)
			return at;
		i++;
	}
	return 0;
}

static bool grow_functions(struct ptah_call_tree *t)
{
	const uint32_t n = t->function_capacity;
	struct tree_function *functions =
	    tree_larger(t->functions, sizeof(*functions), n, 2 * (size_t)n);
	uint32_t *open, *zeros;

	if (!functions)
		return false;
	t->functions = functions;
	zeros = tree_larger(t->zeros, sizeof(*zeros), n, 2 * (size_t)n);
	if (!zeros)
		return false;
	t->zeros = zeros;
	open = tree_larger(t->open, sizeof(*open), n, 2 * (size_t)n);
	if (!open)
		return false;
	t->open = open;
	t->function_capacity = 2 * n;
	return true;
}

uint32_t tree_make_function(struct ptah_call_tree *t, uint64_t address, uint16_t space)
{
	uint32_t at = tree_find_function(t, address, space);

	if (at || tree_failed(t) || t->function_count >= t->max_functions)
		return at;
	if ((t->function_count == t->function_capacity && !grow_functions(t)) ||
	    (index_full(&t->function_index) && !index_functions(t)))
		return tree_fail(t);
	at = t->function_count++;
	t->functions[at].address = address;
	t->functions[at].space = space;
	index_put(&t->function_index, hash_function(address, space), at);
	return at;
}

static uint32_t find_pair(const struct ptah_call_tree *t, uint32_t caller, uint32_t callee)
{
	const struct tree_index *x = &t->pair_index;
	uint32_t i = (uint32_t)hash_pair(caller, callee), at;

	if (!x->capacity)
		return 0;
	while ((at = x->entries[i & (x->capacity - 1)])) {
		if (t->pairs[at].caller == caller && t->pairs[at].callee == callee)
			return at;
		i++;
	}
	return 0;
}

struct tree_pair *tree_make_pair(struct ptah_call_tree *t, uint32_t caller, uint32_t callee)
{
	uint32_t at = find_pair(t, caller, callee);
	struct tree_pair *pairs;

	/* Beyond the limit callers are not distinguished. */
	if (!at && t->pair_count >= t->max_pairs) {
		caller = 0;
		at = find_pair(t, 0, callee);
	}
	if (at)
		return &t->pairs[at];
	if (tree_failed(t))
		return NULL;
	if (t->pair_count >= t->pair_capacity) {
		const size_t capacity = t->pair_capacity ? 2 * (size_t)t->pair_capacity : 16;

		pairs = tree_larger(t->pairs, sizeof(*pairs), t->pair_capacity, capacity);
		if (!pairs) {
			tree_fail(t);
			return NULL;
		}
		t->pairs = pairs;
		t->pair_capacity = (uint32_t)capacity;
	}
	if (index_full(&t->pair_index) && !index_pairs(t)) {
		tree_fail(t);
		return NULL;
	}
	at = t->pair_count++;
	t->pairs[at].caller = caller;
	t->pairs[at].callee = callee;
	index_put(&t->pair_index, hash_pair(caller, callee), at);
	return &t->pairs[at];
}

bool tree_count_folded(struct ptah_call_tree *t, uint32_t caller, uint32_t callee, uint64_t count,
		       bool outermost, const struct ptah_call_figures *inclusive,
		       const struct ptah_call_figures *self)
{
	struct tree_function *f = &t->functions[callee];
	struct tree_pair *pair = tree_make_pair(t, caller, callee);

	if (!pair)
		return false;
	f->count += count;
	pair->count += count;
	tree_add_figures(&f->self, self);
	tree_add_figures(&pair->self, self);
	if (outermost) {
		tree_add_figures(&f->inclusive, inclusive);
		tree_add_figures(&pair->inclusive, inclusive);
	}
	return true;
}

/* Nodes */

uint32_t tree_append_node(struct ptah_call_tree *t, uint32_t parent)
{
	if (t->node_count == t->node_capacity) {
		struct tree_node *nodes = tree_larger(t->nodes, sizeof(*nodes), t->node_capacity,
						      2 * (size_t)t->node_capacity);

		if (!nodes)
			return tree_fail(t);
		t->nodes = nodes;
		t->node_capacity *= 2;
	}
	memset(&t->nodes[t->node_count], 0, sizeof(*t->nodes));
	t->nodes[t->node_count].parent = parent;
	return t->node_count++;
}

uint32_t tree_folded_child(struct ptah_call_tree *t, uint32_t parent)
{
	uint32_t at = t->nodes[parent].flags & TREE_FOLDED ? parent : t->nodes[parent].folded;

	if (at || tree_failed(t))
		return at;
	at = tree_append_node(t, parent);
	if (at) {
		t->nodes[at].flags = TREE_FOLDED;
		t->nodes[parent].folded = at;
	}
	return at;
}

/*
 * Whether there is room for another path. Folding is tried again only after some paths have been
 * refused, because what is open cannot be folded: a recursion as deep as the limit would fold for
 * each call.
 */
static bool make_room(struct ptah_call_tree *t)
{
	const uint32_t before = t->paths;

	if (t->paths < t->max_paths)
		return true;
	if (!t->refused) {
		if (!tree_fold(t))
			return tree_fail(t);
		t->refused = before - t->paths < t->max_paths / 8;
	}
	if (t->paths < t->max_paths)
		return true;
	if (++t->refused > t->max_paths / 4)
		t->refused = 0;
	return false;
}

static uint32_t lookup_child(const struct ptah_call_tree *t, uint32_t parent, uint64_t address,
			     uint16_t space)
{
	const struct tree_index *x = &t->node_index;
	uint32_t i = (uint32_t)hash_child(parent, address, space), at;

	if (!x->capacity)
		return 0;
	while ((at = x->entries[i & (x->capacity - 1)])) {
		const struct tree_node *n = &t->nodes[at];

		if (n->parent == parent && n->address == address && n->space == space)
			return at;
		i++;
	}
	return 0;
}

static uint32_t add_child(struct ptah_call_tree *t, uint32_t parent, uint64_t address,
			  uint16_t space, uint32_t function, bool recursive)
{
	struct tree_node *node;
	uint32_t at;

	t->keep_one = parent;
	if (!make_room(t))
		return 0;
	parent = t->keep_one;
	if (index_full(&t->node_index) && !tree_index_nodes(t))
		return tree_fail(t);
	at = tree_append_node(t, parent);
	if (!at)
		return 0;
	node = &t->nodes[at];
	node->address = address;
	node->space = space;
	node->function = function;
	node->flags = recursive ? TREE_RECURSIVE : 0;
	index_put(&t->node_index, hash_child(parent, address, space), at);
	t->paths++;
	return at;
}

uint32_t tree_make_child(struct ptah_call_tree *t, uint32_t parent, uint64_t address,
			 uint16_t space, bool recursive)
{
	uint32_t at, function;

	if (tree_failed(t) || t->nodes[parent].flags & TREE_FOLDED)
		return 0;
	at = lookup_child(t, parent, address, space);
	if (at)
		return at;
	function = tree_make_function(t, address, space);
	return function ? add_child(t, parent, address, space, function, recursive) : 0;
}

NOINLINE uint32_t tree_find_child(struct ptah_call_tree *t, uint32_t parent, uint64_t address,
				  uint16_t space, unsigned flags)
{
	uint32_t at, function;

	if (tree_failed(t) || t->nodes[parent].flags & TREE_FOLDED)
		return 0;
	at = lookup_child(t, parent, address, space);
	if (at)
		return at;
	function = tree_make_function(t, address, space);
	if (!function)
		return 0;
	t->functions[function].flags |= (uint16_t)(flags & TREE_FUNCTION_FLAGS);
	return add_child(t, parent, address, space, function, t->open[function] > 0);
}

struct ptah_call_figures *tree_self_figures(const struct ptah_call_tree *t)
{
	struct ptah_call_figures *self = calloc(t->node_count, sizeof(*self));

	if (!self)
		return NULL;
	for (uint32_t i = 1; i < t->node_count; i++) {
		struct ptah_call_figures *parent = &self[t->nodes[i].parent];

		tree_add_figures(&self[i], &t->nodes[i].inclusive);
		*parent = tree_difference(parent, &t->nodes[i].inclusive);
	}
	self[0] = t->outside;
	return self;
}
