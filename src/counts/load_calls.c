/* SPDX-License-Identifier: MIT */
/*
 * Reads the calls of a process from saved counts, which may come from anyone. What is computed from
 * a call tree later relies on sums that add up, so all of them are checked here.
 */
#include "calls/tree_internal.h"
#include "counts/load.h"

#include <stdlib.h>
#include <string.h>

struct loading {
	struct load *l;
	struct ptah_call_tree *t;
	uint32_t functions, nodes, pairs; /* as many as the file says */
	uint32_t *running;    /* how often a function is open on the path of the last node */
	uint32_t *last_child; /* of each node, the function of its last child */
	struct ptah_call_figures *left;		/* of each node, what its children may still have */
	struct ptah_call_figures total, folded; /* of the tree, of its folded nodes */
	uint64_t folded_calls;
};

static struct ptah_call_figures figures_at(const uint8_t *at)
{
	return (struct ptah_call_figures){load_le64(at), load_le64(at + 8), load_le64(at + 16)};
}

static bool add_up(struct ptah_call_figures *to, const struct ptah_call_figures *f)
{
	return !__builtin_add_overflow(to->instructions, f->instructions, &to->instructions) &&
	       !__builtin_add_overflow(to->cycles, f->cycles, &to->cycles) &&
	       !__builtin_add_overflow(to->time, f->time, &to->time);
}

/* Takes f away. False: it is more. */
static bool subtract_loaded_calls(struct ptah_call_figures *from, const struct ptah_call_figures *f)
{
	if (f->instructions > from->instructions || f->cycles > from->cycles ||
	    f->time > from->time)
		return false;
	*from = tree_difference(from, f);
	return true;
}

static bool same_figures(const struct ptah_call_figures *a, const struct ptah_call_figures *b)
{
	return a->instructions == b->instructions && a->cycles == b->cycles && a->time == b->time;
}

/* Functions */

/* Reads a bucket, which must have as few bytes as it can. */
static bool load_bucket(struct load *l, uint64_t *bucket)
{
	const uint8_t *at = l->r.p;
	uint8_t number[COUNTS_LEB];
	size_t n;

	*bucket = reader_uleb(&l->r);
	n = counts_put_leb(number, *bucket);
	return !l->r.failed && (size_t)(l->r.p - at) == n && !memcmp(at, number, n);
}

/* Skips the zeros up to a multiple of 8. */
static bool skip_padding(struct load *l)
{
	const size_t n = (8 - (size_t)(l->r.p - l->begin) % 8) % 8;
	const uint8_t *at = reader_bytes(&l->r, n);

	return at && !memcmp(at, "\0\0\0\0\0\0\0", n);
}

static int load_histogram(struct loading *x, struct histogram *h)
{
	const uint8_t *place = x->l->r.p, *at = reader_bytes(&x->l->r, 16);
	bool good = true;
	uint64_t min, max;
	uint32_t first, last;

	if (!at)
		return load_refuse(x->l, place, "the file ends inside a histogram");
	min = load_le64(at);
	max = load_le64(at + 8);
	first = histogram_index(min);
	last = histogram_index(max);
	if (min > max)
		return load_refuse(x->l, at, "malformed histogram");
	if ((size_t)(x->l->r.end - x->l->r.p) <= last - first)
		return load_refuse(x->l, at, "the file ends inside a histogram");
	if (!histogram_grow(h, first) || !histogram_grow(h, last))
		return PTAH_E_NOMEM;
	for (uint32_t i = first; i <= last && good; i++)
		good = load_bucket(x->l, &h->buckets[i - h->first]);
	if (!good || !skip_padding(x->l))
		return load_refuse(x->l, at, "malformed histogram");
	h->min = min;
	h->max = max;
	if (!h->buckets[first - h->first] || !h->buckets[last - h->first])
		return load_refuse(x->l, at, "a histogram without its least or its greatest value");
	if (min != max && first == last && h->buckets[first - h->first] < 2)
		return load_refuse(x->l, at, "malformed histogram");
	return 0;
}

static int load_function(struct loading *x, uint32_t number)
{
	const uint8_t *place = x->l->r.p, *at = reader_bytes(&x->l->r, COUNTS_FUNCTION);
	struct tree_function *f = x->t->functions;
	uint64_t address;
	uint16_t space;
	unsigned mask;
	int status = 0;

	if (!at)
		return load_refuse(x->l, place, "the file ends inside a function");
	address = load_le64(at);
	space = load_le16(at + 8);
	mask = load_le16(at + 12);
	if (mask >> PTAH_CALL_VALUE_MAX || load_le16(at + 14) || (!number && (address || space)))
		return load_refuse(x->l, at, "malformed function");
	if (number) {
		const struct tree_function *before = &x->t->functions[number - 1];

		if (number > 1 && (before->space > space ||
				   (before->space == space && before->address >= address)))
			return load_refuse(x->l, at, "functions are not in order");
		if (!tree_make_function(x->t, address, space))
			return PTAH_E_NOMEM;
		f = &x->t->functions[number];
	}
	f->flags = load_le16(at + 10);
	f->partial = load_le64(at + 16);
	for (unsigned i = 0; i < PTAH_CALL_VALUE_MAX && status >= 0; i++)
		if (mask >> i & 1)
			status = load_histogram(x, &f->histograms[i]);
	return status;
}

/* Nodes */

/* The path of the last node ends where this one's parent is. False: that is not on the path. */
static bool go_up(struct loading *x, uint32_t last, uint32_t parent)
{
	while (last > parent) {
		const struct tree_node *n = &x->t->nodes[last];

		if (!(n->flags & TREE_FOLDED))
			x->running[n->function]--;
		last = n->parent;
	}
	return last == parent;
}

static int load_folded_node(struct loading *x, const uint8_t *at, uint32_t parent,
			    const struct ptah_call_figures *f, uint64_t count)
{
	uint32_t i;

	if (load_le32(at + 4) || x->last_child[parent] == UINT32_MAX)
		return load_refuse(x->l, at, "malformed path");
	i = tree_folded_child(x->t, parent);
	if (!i)
		return PTAH_E_NOMEM;
	x->last_child[parent] = UINT32_MAX;
	x->t->nodes[i].flags |= load_le16(at + 8) & TREE_BEGINS;
	if (!add_up(&x->folded, f) ||
	    __builtin_add_overflow(x->folded_calls, count, &x->folded_calls))
		return load_refuse(x->l, at, "the counts do not fit in 64 bits");
	return 0;
}

static int load_called_node(struct loading *x, const uint8_t *at, uint32_t parent)
{
	const uint32_t number = load_le32(at + 4);
	const struct tree_function *f = &x->t->functions[number];
	uint32_t i;

	if (!number || number >= x->functions || number <= x->last_child[parent])
		return load_refuse(x->l, at, "paths are not in order");
	i = tree_make_child(x->t, parent, f->address, f->space, x->running[number] > 0);
	if (!i)
		return PTAH_E_NOMEM;
	x->last_child[parent] = number;
	x->t->nodes[i].flags |= load_le16(at + 8) & TREE_BEGINS;
	x->running[number]++;
	return 0;
}

static int load_node(struct loading *x, uint32_t i)
{
	const uint8_t *place = x->l->r.p, *at = reader_bytes(&x->l->r, COUNTS_NODE);
	const struct tree_node *nodes = x->t->nodes;
	struct ptah_call_figures f;
	uint32_t parent;
	uint64_t flags;
	int status;

	if (!at)
		return load_refuse(x->l, place, "the file ends inside a path");
	parent = load_le32(at);
	flags = load_le64(at + 8);
	f = figures_at(at + 24);
	if (parent >= i || flags & ~(uint64_t)(TREE_BEGINS | TREE_FOLDED))
		return load_refuse(x->l, at, "malformed path");
	if (nodes[parent].flags & TREE_FOLDED || !go_up(x, i - 1, parent))
		return load_refuse(x->l, at, "paths are not in order");
	if (parent ? !subtract_loaded_calls(&x->left[parent], &f) : !add_up(&x->total, &f))
		return load_refuse(x->l, at, "a path has more than its caller's");
	if (flags & TREE_FOLDED)
		status = load_folded_node(x, at, parent, &f, load_le64(at + 16));
	else
		status = load_called_node(x, at, parent);
	if (status < 0)
		return status;
	x->t->nodes[i].count = load_le64(at + 16);
	x->t->nodes[i].inclusive = f;
	x->left[i] = f;
	return 0;
}

/* Pairs */

static int load_pair(struct loading *x, uint32_t i)
{
	const uint8_t *at = reader_bytes(&x->l->r, COUNTS_PAIR);
	const struct tree_pair *before = i ? &x->t->pairs[i] : NULL;
	struct ptah_call_figures inclusive, self;
	uint32_t caller, callee;
	uint64_t count;

	caller = load_le32(at);
	callee = load_le32(at + 4);
	count = load_le64(at + 8);
	inclusive = figures_at(at + 16);
	self = figures_at(at + 40);
	if (caller >= x->functions || callee >= x->functions)
		return load_refuse(x->l, at, "a pair of functions that are not there");
	if (before &&
	    (before->caller > caller || (before->caller == caller && before->callee >= callee)))
		return load_refuse(x->l, at, "pairs are not in order");
	/* What they add up to is compared with the folded paths at the end. */
	if (!subtract_loaded_calls(&x->folded, &self) || count > x->folded_calls)
		return load_refuse(x->l, at, "pairs have more than what was folded");
	x->folded_calls -= count;
	if (!add_up(&x->t->functions[callee].inclusive, &inclusive))
		return load_refuse(x->l, at, "the counts do not fit in 64 bits");
	x->t->functions[callee].inclusive =
	    tree_difference(&x->t->functions[callee].inclusive, &inclusive);
	return tree_count_folded(x->t, caller, callee, count, true, &inclusive, &self)
		   ? 0
		   : PTAH_E_NOMEM;
}

/* Whether what ran in a function is no more than what ran at all. */
static bool check_functions(const struct loading *x)
{
	struct ptah_call_figures *left = calloc(x->functions, sizeof(*left));
	bool good = left;

	for (uint32_t i = 0; good && i < x->functions; i++) {
		left[i] = x->total;
		good = subtract_loaded_calls(&left[i], &x->t->functions[i].inclusive);
	}
	for (uint32_t i = 1; good && i < x->t->node_count; i++) {
		const struct tree_node *n = &x->t->nodes[i];

		if (!(n->flags & (TREE_FOLDED | TREE_RECURSIVE)))
			good = subtract_loaded_calls(&left[n->function], &n->inclusive);
	}
	free(left);
	return good;
}

/* How many there are, of items that take at least `size` bytes each. UINT32_MAX: too many. */
static uint32_t number_of(const struct load *l, uint64_t count, size_t size)
{
	const size_t most = (size_t)(l->r.end - l->r.p) / size;

	return count > most || count > UINT32_MAX / 8 ? UINT32_MAX : (uint32_t)count;
}

static int load_lists(struct loading *x)
{
	int status = 0;

	for (uint32_t i = 0; i < x->functions && status >= 0; i++)
		status = load_function(x, i);
	for (uint32_t i = 1; i <= x->nodes && status >= 0; i++)
		status = load_node(x, i);
	if (status >= 0 && (uint64_t)(x->l->r.end - x->l->r.p) / COUNTS_PAIR < x->pairs)
		status = load_refuse(x->l, x->l->r.end, "the file ends inside a pair");
	x->t->folded_calls = x->folded_calls;
	x->t->folded_figures = x->folded;
	for (uint32_t i = 0; i < x->pairs && status >= 0; i++)
		status = load_pair(x, i);
	return status;
}

static int load_tree(struct loading *x)
{
	static const struct ptah_call_figures none = {0};
	const uint8_t *end;
	int status;

	x->running = calloc(x->functions, sizeof(*x->running));
	x->last_child = calloc((size_t)x->nodes + 1, sizeof(*x->last_child));
	x->left = calloc((size_t)x->nodes + 1, sizeof(*x->left));
	if (!x->running || !x->last_child || !x->left)
		return PTAH_E_NOMEM;
	status = load_lists(x);
	end = x->l->r.p;
	if (status >= 0 && (x->folded_calls || !same_figures(&x->folded, &none)))
		status = load_refuse(x->l, end, "pairs have less than what was folded");
	if (status >= 0 && !check_functions(x))
		status = load_refuse(x->l, end, "a function has more than all");
	return status;
}

int load_calls(struct load *l, struct ptah_call_tree **tree)
{
	struct loading x = {.l = l};
	const uint8_t *place = l->r.p, *at = reader_bytes(&l->r, COUNTS_CALLS);
	struct ptah_call_tree_config config = {.size = sizeof(config)};
	int status;

	if (!at)
		return load_refuse(l, place, "the file ends inside its calls");
	x.functions = number_of(l, load_le64(at), COUNTS_FUNCTION);
	x.nodes = number_of(l, load_le64(at + 8), COUNTS_NODE);
	x.pairs = number_of(l, load_le64(at + 16), COUNTS_PAIR);
	if (x.functions == UINT32_MAX || x.nodes == UINT32_MAX || x.pairs == UINT32_MAX)
		return load_refuse(l, at, "the file is shorter than its lists");
	if (!x.functions)
		return load_refuse(l, at, "calls without functions");
	x.total = figures_at(at + 32);
	/* The limits are those of the file, if it has more than other trees may have. */
	config.max_paths = TREE_MAX_PATHS;
	if (config.max_paths < x.nodes)
		config.max_paths = x.nodes;
	if (config.max_paths / 2 < x.functions)
		config.max_paths = 2 * x.functions;
	if (config.max_paths < x.pairs)
		config.max_paths = x.pairs;
	status = ptah_call_tree_new(&config, tree);
	if (status < 0)
		return status;
	x.t = *tree;
	x.t->outside = x.total;
	x.t->folded_paths = load_le64(at + 24);
	status = load_tree(&x);
	free(x.running);
	free(x.last_child);
	free(x.left);
	return status;
}
