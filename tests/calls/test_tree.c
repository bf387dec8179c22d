/* SPDX-License-Identifier: MIT */
/* Call trees: calls whose sums are known by construction, and random ones against a plain list. */
#include "tree_check.h"

static void add(struct ptah_call_tree *tree, const struct ptah_call_mark *mark)
{
	assert_int_equal(ptah_call_tree_add(tree, mark, 1), 0);
}

static void begin(struct ptah_call_tree *tree, uint64_t function, unsigned how,
		  uint64_t instructions)
{
	add(tree, &(struct ptah_call_mark){.how = (uint8_t)how,
					   .function = function,
					   .thread.instructions = instructions});
}

static void end(struct ptah_call_tree *tree, uint64_t instructions)
{
	add(tree, &(struct ptah_call_mark){.end = 1, .thread.instructions = instructions});
}

static struct ptah_call_function function_of(const struct ptah_call_tree *tree, uint64_t address)
{
	struct ptah_call_function *list, found = {0};
	size_t n;

	assert_int_equal(ptah_call_tree_functions(tree, &list, &n), 0);
	for (size_t i = 0; i < n; i++)
		if (list[i].function == address)
			found = list[i];
	assert_int_equal(found.function, address);
	free(list);
	return found;
}

enum {
	MAIN = 0x1000,
	F = 0x2000,
	G = 0x3000
};

/* main calls f twice, and f calls g once: f runs 10 + 5 instructions, then 20 + 6. */
TEST(sums_of_three_functions)
{
	struct ptah_call_tree *tree = tree_new(0);
	struct ptah_call_node *nodes;
	struct ptah_call_totals totals;
	size_t n;

	begin(tree, MAIN, PTAH_CALL_CALLED, 0);
	begin(tree, F, PTAH_CALL_CALLED, 100);
	begin(tree, G, PTAH_CALL_TAIL, 110);
	end(tree, 115);
	end(tree, 115);
	begin(tree, F, PTAH_CALL_CALLED, 200);
	begin(tree, G, PTAH_CALL_CALLED, 205);
	end(tree, 211);
	end(tree, 226);
	end(tree, 300);
	assert_int_equal(ptah_call_tree_nodes(tree, &nodes, &n), 0);
	assert_int_equal(n, 4);
	assert_int_equal(nodes[1].function, MAIN);
	assert_int_equal(nodes[1].inclusive.instructions, 300);
	assert_int_equal(nodes[1].self.instructions, 300 - 15 - 26);
	assert_int_equal(nodes[2].function, F);
	assert_int_equal(nodes[2].parent, 1);
	assert_int_equal(nodes[2].count, 2);
	assert_int_equal(nodes[2].inclusive.instructions, 41);
	assert_int_equal(nodes[2].self.instructions, 30);
	assert_int_equal(nodes[3].function, G);
	assert_int_equal(nodes[3].self.instructions, 11);
	assert_int_equal(nodes[3].begins, 1 << PTAH_CALL_CALLED | 1 << PTAH_CALL_TAIL);
	free(nodes);
	assert_int_equal(function_of(tree, F).histogram[0].min, 15);
	assert_int_equal(function_of(tree, F).histogram[0].max, 26);
	assert_int_equal(ptah_call_tree_totals(tree, &totals), 0);
	assert_int_equal(totals.calls, 5);
	assert_int_equal(totals.paths, 3);
	assert_int_equal(totals.partial, 0);
	ptah_call_tree_free(tree);
}

/* f calls itself: 5 deep, one instruction at each depth before and after. */
TEST(recursion_counts_once_in_the_sums_of_a_function)
{
	struct ptah_call_tree *tree = tree_new(0);
	struct ptah_call_function f;
	struct ptah_call_pair *pairs;
	size_t n;

	for (unsigned i = 0; i < 5; i++)
		begin(tree, F, PTAH_CALL_CALLED, i);
	for (unsigned i = 0; i < 5; i++)
		end(tree, 5 + i);
	f = function_of(tree, F);
	assert_int_equal(f.count, 5);
	assert_int_equal(f.inclusive.instructions, 9);
	assert_int_equal(f.self.instructions, 9);
	assert_int_equal(f.histogram[0].calls, 5);
	assert_int_equal(f.histogram[0].min, 1);
	assert_int_equal(f.histogram[0].max, 9);
	assert_int_equal(ptah_call_tree_pairs(tree, &pairs, &n), 0);
	assert_int_equal(n, 2);
	assert_true(pairs[0].no_caller);
	assert_int_equal(pairs[0].inclusive.instructions, 9);
	assert_int_equal(pairs[1].caller, F);
	assert_int_equal(pairs[1].count, 4);
	assert_int_equal(pairs[1].inclusive.instructions, 0);
	free(pairs);
	ptah_call_tree_free(tree);
}

/*
 * A coroutine runs in three parts: 10, 20 and 30 instructions, called from main and from f. It is
 * one call of 60.
 */
TEST(suspended_calls_count_once)
{
	struct ptah_call_tree *tree = tree_new(0);
	struct ptah_call_function g;
	struct ptah_call_mark mark = {
	    .end = 1, .how = PTAH_CALL_END_SUSPENDED, .id = 7, .thread.instructions = 110};

	begin(tree, MAIN, PTAH_CALL_CALLED, 0);
	begin(tree, G, PTAH_CALL_CALLED, 100);
	add(tree, &mark);
	begin(tree, F, PTAH_CALL_CALLED, 200);
	begin(tree, G, PTAH_CALL_RESUMED, 300);
	mark.thread.instructions = 320;
	add(tree, &mark);
	end(tree, 400);
	assert_int_equal(ptah_call_tree_totals(tree, &(struct ptah_call_totals){0}), PTAH_E_INVAL);
	begin(tree, G, PTAH_CALL_RESUMED, 500);
	mark = (struct ptah_call_mark){.end = 1, .id = 7, .thread.instructions = 530};
	add(tree, &mark);
	end(tree, 600);
	g = function_of(tree, G);
	assert_int_equal(g.count, 1);
	assert_int_equal(g.partial, 0);
	assert_int_equal(g.inclusive.instructions, 60);
	assert_int_equal(g.histogram[0].calls, 1);
	assert_int_equal(g.histogram[0].max, 60);
	ptah_call_tree_free(tree);
}

/* What a function is does not depend on which of its calls the tree has seen first. */
TEST(flags_are_those_of_the_function)
{
	const struct ptah_call_mark known = {.function = F, .flags = PTAH_CALL_STUB};
	const struct ptah_call_mark unknown = {
	    .function = F, .how = PTAH_CALL_RUNNING, .flags = PTAH_CALL_STUB | PTAH_CALL_NO_BEGIN};

	for (unsigned first = 0; first < 2; first++) {
		struct ptah_call_tree *tree = tree_new(0);

		add(tree, first ? &known : &unknown);
		end(tree, 1);
		add(tree, first ? &unknown : &known);
		end(tree, 2);
		assert_int_equal(function_of(tree, F).flags, PTAH_CALL_STUB);
		ptah_call_tree_free(tree);
	}
}

/* 100 calls are suspended inside each other's parts; half of them are never resumed. */
TEST(calls_that_are_never_resumed_are_partial)
{
	struct ptah_call_tree *tree = tree_new(0);
	struct ptah_call_function g;
	uint64_t instructions = 0;

	for (uint64_t id = 1; id <= 100; id++) {
		begin(tree, G, PTAH_CALL_CALLED, instructions);
		instructions += id;
		add(tree, &(struct ptah_call_mark){.end = 1,
						   .how = PTAH_CALL_END_SUSPENDED,
						   .id = id,
						   .thread.instructions = instructions});
	}
	for (uint64_t id = 2; id <= 100; id += 2) {
		begin(tree, G, PTAH_CALL_RESUMED, instructions);
		instructions += 1000;
		add(tree, &(struct ptah_call_mark){
			      .end = 1, .id = id, .thread.instructions = instructions});
	}
	g = function_of(tree, G);
	assert_int_equal(g.count, 100);
	assert_int_equal(g.partial, 50);
	assert_int_equal(g.histogram[0].calls, 50);
	assert_int_equal(g.histogram[0].min, 1002);
	assert_int_equal(g.histogram[0].max, 1100);
	assert_int_equal(g.inclusive.instructions, 5050 + 50000);
	ptah_call_tree_free(tree);
}

/* TSC values are multiplied and shifted as perf does: 3 ticks are 2 ns here. */
TEST(times_are_nanoseconds)
{
	const struct ptah_call_tree_config config = {
	    .size = sizeof(config), .time_mult = 683, .time_shift = 10};
	struct ptah_call_tree *tree;
	struct ptah_call_function f;

	assert_int_equal(ptah_call_tree_new(&config, &tree), 0);
	add(tree, &(struct ptah_call_mark){.function = MAIN});
	add(tree, &(struct ptah_call_mark){.function = F, .tsc = 6144});
	add(tree, &(struct ptah_call_mark){.function = G, .tsc = 6144});
	add(tree, &(struct ptah_call_mark){.end = 1, .tsc = 6444, .thread.ticks = 300});
	add(tree, &(struct ptah_call_mark){.end = 1, .tsc = 9144, .thread.ticks = 3000});
	add(tree, &(struct ptah_call_mark){.end = 1, .tsc = 12144, .thread.ticks = 6000});
	f = function_of(tree, F);
	assert_int_equal(f.inclusive.time, 2000);
	assert_int_equal(f.self.time, 1800);
	assert_int_equal(f.histogram[PTAH_CALL_VALUE_TIME].max, 2000);
	/* No time was known when main began. */
	assert_int_equal(function_of(tree, MAIN).inclusive.time, 4001);
	assert_int_equal(function_of(tree, MAIN).histogram[PTAH_CALL_VALUE_TIME].calls, 0);
	ptah_call_tree_free(tree);
}

TEST(marks_that_cannot_be_are_refused)
{
	struct ptah_call_tree *tree = tree_new(0);
	struct ptah_call_mark mark = {.end = 1};

	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), PTAH_E_INVAL);
	mark = (struct ptah_call_mark){.how = PTAH_CALL_BEGIN_MAX};
	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), PTAH_E_INVAL);
	mark = (struct ptah_call_mark){.function = F};
	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), 0);
	mark = (struct ptah_call_mark){.end = 1, .how = PTAH_CALL_END_MAX};
	assert_int_equal(ptah_call_tree_add(tree, &mark, 1), PTAH_E_INVAL);
	ptah_call_tree_free(tree);
}

TEST(random_calls_add_up)
{
	static const struct list_shape shapes[] = {
	    {1, 1, 6, 300, true, true},	    {2, 3, 5, 1500, true, false},
	    {3, 8, 4, 1500, false, true},   {4, 40, 3, 1500, true, true},
	    {5, 2, 20, 1000, false, false}, {6, 300, 6, 1500, true, true},
	};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct call_list *list = list_new(&shapes[i]);
		struct ptah_call_tree *tree = tree_of(list, 0, SIZE_MAX / 2);
		struct ptah_call_tree *pieces = tree_of(list, 0, 7);

		check_all(tree, list);
		assert_same_trees(tree, pieces);
		ptah_call_tree_free(tree);
		ptah_call_tree_free(pieces);
		list_free(list);
	}
}
