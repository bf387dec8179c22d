/* SPDX-License-Identifier: MIT */
/* Compares call trees with lists of the calls (call_list.h), and with each other. */
#ifndef PTAH_TESTS_CALLS_TREE_CHECK_H
#define PTAH_TESTS_CALLS_TREE_CHECK_H

#include "test.h"

#include "call_list.h"
#include "same_trees.h"

static inline struct ptah_call_tree *tree_new(uint32_t max_paths)
{
	const struct ptah_call_tree_config config = {
	    .size = sizeof(config), .time_mult = 1, .max_paths = max_paths};
	struct ptah_call_tree *tree;

	assert_int_equal(ptah_call_tree_new(&config, &tree), 0);
	return tree;
}

/* A tree of the list's marks, which are added in batches. */
static inline struct ptah_call_tree *tree_of(const struct call_list *list, uint32_t max_paths,
					     size_t batch)
{
	struct ptah_call_tree *tree = tree_new(max_paths);

	for (size_t i = 0; i < list->mark_count; i += batch) {
		const size_t left = list->mark_count - i;

		assert_int_equal(
		    ptah_call_tree_add(tree, list->marks + i, left < batch ? left : batch), 0);
	}
	return tree;
}

static inline void assert_figures(const struct ptah_call_figures *have,
				  const struct ptah_call_figures *want)
{
	assert_int_equal(have->instructions, want->instructions);
	assert_int_equal(have->cycles, want->cycles);
	assert_int_equal(have->time, want->time);
}

static inline int tree_by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* A function's histogram against its sorted values. */
static inline void check_histogram(const struct ptah_call_tree *tree,
				   const struct ptah_call_function *f, enum ptah_call_value value,
				   const struct call_list *list)
{
	static const unsigned percents[] = {50, 90, 99, 100};
	uint64_t *values = calloc(list->count + 1, sizeof(*values));
	const size_t n = list_values(list, f->function, value, values);

	qsort(values, n, sizeof(*values), tree_by_value);
	assert_int_equal(f->histogram[value].calls, n);
	assert_int_equal(f->histogram[value].min, n ? values[0] : 0);
	assert_int_equal(f->histogram[value].max, n ? values[n - 1] : 0);
	for (size_t i = 0; n && i < sizeof(percents) / sizeof(*percents); i++) {
		const uint64_t want = values[(n * percents[i] + 99) / 100 - 1];
		const uint64_t have = ptah_call_tree_quantile(tree, f, value, percents[i] / 100.0);

		assert_true((have > want ? have - want : want - have) <= want / 100);
	}
	free(values);
}

/* Functions and pairs are exact, whether paths were folded or not. */
static inline void check_functions(const struct ptah_call_tree *tree, const struct call_list *list)
{
	struct ptah_call_function *functions;
	uint64_t calls = 0;
	size_t n;

	assert_int_equal(ptah_call_tree_functions(tree, &functions, &n), 0);
	for (size_t i = 0; i < n; i++) {
		const struct ptah_call_function *f = &functions[i];
		struct list_sum sum = {0};

		list_sum_function(list, f->function, &sum);
		assert_int_equal(f->count, sum.count);
		assert_int_equal(f->partial, sum.partial);
		assert_figures(&f->inclusive, &sum.inclusive);
		assert_figures(&f->self, &sum.self);
		for (unsigned k = 0; k < PTAH_CALL_VALUE_MAX; k++)
			check_histogram(tree, f, k, list);
		if (i)
			assert_true(functions[i - 1].function < f->function);
		calls += f->histogram[0].calls + f->partial;
	}
	assert_int_equal(calls, list->count);
	free(functions);
}

static inline void check_pairs(const struct ptah_call_tree *tree, const struct call_list *list)
{
	struct ptah_call_figures self = {0};
	struct ptah_call_pair *pairs;
	size_t n;

	assert_int_equal(ptah_call_tree_pairs(tree, &pairs, &n), 0);
	for (size_t i = 0; i < n; i++) {
		const struct ptah_call_pair *p = &pairs[i];
		struct list_sum sum = {0};

		assert_int_equal(p->no_caller, !p->caller);
		list_sum_pair(list, p->caller, p->callee, &sum);
		assert_int_equal(p->count, sum.count);
		assert_figures(&p->inclusive, &sum.inclusive);
		assert_figures(&p->self, &sum.self);
		list_add(&self, &p->self);
	}
	assert_figures(&self, &list->total);
	free(pairs);
}

/* What holds of nodes also where paths were folded: figures add up, from the bottom to the top. */
static inline void check_sums(const struct ptah_call_tree *tree, const struct call_list *list)
{
	struct ptah_call_node *nodes;
	struct ptah_call_figures *sums;
	uint64_t count = 0;
	size_t n;

	assert_int_equal(ptah_call_tree_nodes(tree, &nodes, &n), 0);
	sums = calloc(n, sizeof(*sums));
	for (size_t i = n; i-- > 0;) {
		list_add(&sums[i], &nodes[i].self);
		assert_figures(&nodes[i].inclusive, &sums[i]);
		count += nodes[i].count;
		if (i) {
			list_add(&sums[nodes[i].parent], &sums[i]);
			assert_true(nodes[i].parent < i);
			assert_int_equal(nodes[i].depth, nodes[nodes[i].parent].depth + 1);
		}
	}
	assert_figures(&nodes[0].inclusive, &list->total);
	for (size_t i = 0; i < list->count; i++)
		count -= list->calls[i].began;
	assert_int_equal(count, 0);
	free(sums);
	free(nodes);
}

/* The functions from the outermost to that of node i. Returns how many. */
static inline unsigned path_of(const struct ptah_call_node *nodes, size_t i, uint64_t *path)
{
	const unsigned depth = nodes[i].depth;

	assert_true(depth <= LIST_DEEPEST);
	for (; i; i = nodes[i].parent)
		path[nodes[i].depth - 1] = nodes[i].function;
	return depth;
}

/* Nodes of a tree without folded paths. */
static inline void check_paths(const struct ptah_call_tree *tree, const struct call_list *list)
{
	struct ptah_call_node *nodes;
	uint64_t path[LIST_DEEPEST];
	size_t n;

	assert_int_equal(ptah_call_tree_nodes(tree, &nodes, &n), 0);
	for (size_t i = 1; i < n; i++) {
		struct list_sum sum = {0};

		list_sum_path(list, path, path_of(nodes, i, path), &sum);
		assert_int_equal(nodes[i].count, sum.count);
		assert_figures(&nodes[i].inclusive, &sum.inclusive);
		assert_figures(&nodes[i].self, &sum.self);
		assert_int_equal(nodes[i].flags & PTAH_CALL_NODE_FOLDED, 0);
	}
	free(nodes);
}

static inline void check_all(const struct ptah_call_tree *tree, const struct call_list *list)
{
	struct ptah_call_totals totals;

	check_functions(tree, list);
	check_pairs(tree, list);
	check_sums(tree, list);
	assert_int_equal(ptah_call_tree_totals(tree, &totals), 0);
	assert_figures(&totals.inclusive, &list->total);
	if (!totals.folded_paths)
		check_paths(tree, list);
}

#endif
