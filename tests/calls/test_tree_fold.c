/* SPDX-License-Identifier: MIT */
/* Call trees with more paths than they may have. */
#include "tree_check.h"

static void add_begin(struct ptah_call_tree *tree, uint64_t function, uint64_t instructions)
{
	const struct ptah_call_mark mark = {.function = function,
					    .thread.instructions = instructions};

	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), 0);
}

static void add_end(struct ptah_call_tree *tree, uint64_t instructions)
{
	const struct ptah_call_mark mark = {.end = 1, .thread.instructions = instructions};

	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), 0);
}

static void check_limit(const struct ptah_call_tree *tree, uint32_t max_paths)
{
	struct ptah_call_totals totals;
	struct ptah_call_figures folded = {0};
	struct ptah_call_node *nodes;
	uint64_t calls = 0;
	size_t n;

	assert_int_equal(ptah_call_tree_totals(tree, &totals), 0);
	assert_true(totals.paths <= max_paths);
	assert_int_equal(ptah_call_tree_nodes(tree, &nodes, &n), 0);
	assert_true(n <= 2 * (size_t)max_paths + 1);
	for (size_t i = 0; i < n; i++)
		if (nodes[i].flags & PTAH_CALL_NODE_FOLDED) {
			list_add(&folded, &nodes[i].inclusive);
			calls += nodes[i].count;
		}
	assert_figures(&totals.folded, &folded);
	assert_int_equal(totals.folded_calls, calls);
	free(nodes);
}

/* Totals, functions and pairs stay exact; a path that is left has no more than the list has. */
TEST(folded_trees_add_up)
{
	static const uint32_t limits[] = {64, 100, 333};

	for (unsigned seed = 1; seed <= 4; seed++) {
		const struct list_shape shape = {seed, 12, 6, 1500, true, true};
		struct call_list *list = list_new(&shape);

		for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
			struct ptah_call_tree *tree = tree_of(list, limits[i], 64);

			check_all(tree, list);
			check_limit(tree, limits[i]);
			ptah_call_tree_free(tree);
		}
		list_free(list);
	}
}

/* Nothing can be folded while everything is open. */
TEST(recursion_beyond_the_limit)
{
	enum {
		LIMIT = 1000,
		DEPTH = 100000
	};
	struct ptah_call_tree *tree = tree_new(LIMIT);
	struct ptah_call_function *f;
	struct ptah_call_totals totals;
	size_t n;

	for (uint64_t i = 0; i < DEPTH; i++)
		add_begin(tree, 0x1000 + i % 3, i);
	for (uint64_t i = 0; i < DEPTH; i++)
		add_end(tree, DEPTH + i);
	check_limit(tree, LIMIT);
	assert_int_equal(ptah_call_tree_totals(tree, &totals), 0);
	assert_int_equal(totals.calls, DEPTH);
	assert_int_equal(totals.inclusive.instructions, 2 * DEPTH - 1);
	assert_int_equal(ptah_call_tree_functions(tree, &f, &n), 0);
	assert_int_equal(n, 3);
	/* Two instructions for each call, but one for the innermost. */
	assert_int_equal(f[0].inclusive.instructions, 2 * DEPTH - 1);
	assert_int_equal(f[1].inclusive.instructions, 2 * DEPTH - 3);
	assert_int_equal(f[2].inclusive.instructions, 2 * DEPTH - 5);
	assert_int_equal(f[0].self.instructions + f[1].self.instructions + f[2].self.instructions,
			 2 * DEPTH - 1);
	assert_int_equal(f[0].histogram[0].calls, (DEPTH + 2) / 3);
	free(f);
	ptah_call_tree_free(tree);
}

/* The paths in which most ran are those that stay. */
TEST(the_rarest_paths_are_folded)
{
	struct ptah_call_tree *tree = tree_new(100);
	struct ptah_call_node *nodes;
	uint64_t now = 0;
	size_t n, hot = 0;

	for (unsigned i = 0; i < 5000; i++) {
		const bool often = i % 50 == 0;
		const unsigned inner = often ? i % 500 : 0x9000 + i / 20 % 20;

		add_begin(tree, 0x1000 + (often ? 0 : 1 + i % 20), now);
		add_begin(tree, 0x2000 + inner, now);
		now += often ? 1000 : 1;
		add_end(tree, now);
		add_end(tree, now);
	}
	assert_int_equal(ptah_call_tree_nodes(tree, &nodes, &n), 0);
	for (size_t i = 1; i < n; i++)
		if (nodes[i].function >= 0x2000 && nodes[i].function < 0x3000) {
			assert_int_equal(nodes[i].count, 10);
			assert_int_equal(nodes[i].inclusive.instructions, 10000);
			hot++;
		}
	assert_int_equal(hot, 10);
	free(nodes);
	ptah_call_tree_free(tree);
}

/* With more functions than can be listed the sums are still those of all calls. */
TEST(functions_beyond_the_limit_are_counted)
{
	struct ptah_call_tree *tree = tree_new(100);
	struct ptah_call_function *f;
	struct ptah_call_totals totals;
	uint64_t self = 0, now = 0;
	size_t n;

	for (unsigned i = 0; i < 300; i++) {
		add_begin(tree, i, now);
		now += 10;
		add_end(tree, now);
	}
	check_limit(tree, 100);
	assert_int_equal(ptah_call_tree_functions(tree, &f, &n), 0);
	for (size_t i = 0; i < n; i++)
		self += f[i].self.instructions;
	assert_int_equal(ptah_call_tree_totals(tree, &totals), 0);
	assert_int_equal(totals.calls, 300);
	assert_int_equal(totals.unlisted_calls, 300 - n);
	assert_int_equal(self + totals.unlisted.instructions, 3000);
	assert_int_equal(totals.inclusive.instructions, 3000);
	free(f);
	ptah_call_tree_free(tree);
}
