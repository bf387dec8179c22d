/* SPDX-License-Identifier: MIT */
/* The calls of processes in counts: added, merged, saved and loaded as the same trees. */
#include "test.h"

#include "../calls/tree_check.h"
#include "load_counts.h"
#include "counts/counts_internal.h"

#include <ptah/counts.h>

/* A copy by way of the file format. */
static struct ptah_counts *copy(const struct ptah_counts *counts)
{
	struct ptah_counts *again;
	void *bytes;
	size_t n;

	assert_int_equal(ptah_counts_save(counts, &bytes, &n), 0);
	again = loaded(bytes, n);
	free(bytes);
	assert_same_bytes(counts, again);
	return again;
}

/* A tree of random calls in a few functions, perhaps with folded paths. */
static struct ptah_call_tree *random_tree(unsigned seed, uint32_t max_paths)
{
	const struct list_shape shape = {seed, 7, 6, 400, seed & 1, seed & 2};
	struct call_list *list = list_new(&shape);
	struct ptah_call_tree *tree = tree_of(list, max_paths, 100);

	list_free(list);
	return tree;
}

static const struct ptah_call_tree *calls_of(const struct ptah_counts *counts, size_t i)
{
	struct ptah_counts_process p;

	assert_true(ptah_counts_process(counts, i, &p));
	assert_non_null(p.calls);
	return p.calls;
}

TEST(a_saved_tree_is_loaded_as_it_was)
{
	static const uint32_t limits[] = {0, 100, 40};

	for (unsigned seed = 0; seed < 8; seed++) {
		struct ptah_call_tree *tree = random_tree(seed, limits[seed % 3]);
		struct ptah_counts *counts = counts_new(), *again;
		struct ptah_call_totals a, b;

		assert_int_equal(counts_add_calls(counts, 7, tree), 0);
		again = copy(counts);
		assert_same_trees(tree, calls_of(counts, 0));
		assert_same_trees(tree, calls_of(again, 0));
		assert_int_equal(ptah_call_tree_totals(tree, &a), 0);
		assert_int_equal(ptah_call_tree_totals(calls_of(again, 0), &b), 0);
		assert_memory_equal(&a, &b, sizeof(a));
		ptah_call_tree_free(tree);
		ptah_counts_free(counts);
		ptah_counts_free(again);
	}
}

/* Added one after the other, or merged from saved files, in any order. */
TEST(merged_files_are_the_merged_trees)
{
	struct ptah_call_tree *trees[3], *sum = tree_new(0);
	struct ptah_counts *counts[3], *all = counts_new(), *backward;

	for (unsigned i = 0; i < 3; i++) {
		struct ptah_counts *one = counts_new();

		trees[i] = random_tree(50 + i, i == 1 ? 50 : 0);
		assert_int_equal(ptah_call_tree_merge(sum, trees[i], NULL, NULL), 0);
		assert_int_equal(counts_add_calls(all, 7, trees[i]), 0);
		assert_int_equal(counts_add_calls(one, 7, trees[i]), 0);
		counts[i] = copy(one);
		ptah_counts_free(one);
	}
	assert_same_trees(sum, calls_of(all, 0));
	backward = copy(counts[2]);
	assert_int_equal(ptah_counts_merge(backward, counts[1]), 0);
	assert_int_equal(ptah_counts_merge(backward, counts[0]), 0);
	assert_int_equal(ptah_counts_merge(counts[0], counts[1]), 0);
	assert_int_equal(ptah_counts_merge(counts[0], counts[2]), 0);
	assert_same_bytes(counts[0], all);
	assert_same_bytes(backward, all);
	for (unsigned i = 0; i < 3; i++) {
		ptah_call_tree_free(trees[i]);
		ptah_counts_free(counts[i]);
	}
	ptah_call_tree_free(sum);
	ptah_counts_free(all);
	ptah_counts_free(backward);
}

static struct ptah_call_tree *two_spaces(uint16_t other)
{
	const struct ptah_call_mark marks[] = {
	    {.function = 0x1000},
	    {.function = 0x2000, .space = other, .thread.instructions = 5},
	    {.end = 1, .thread.instructions = 7},
	    {.end = 1, .thread.instructions = 10},
	};
	struct ptah_call_tree *tree = tree_new(0);

	assert_int_equal(ptah_call_tree_add(tree, marks, 4), 0);
	return tree;
}

/* Other spaces of one recording have nothing to do with those of another. */
TEST(spaces_of_two_recordings_stay_apart)
{
	struct ptah_call_tree *tree = two_spaces(3);
	struct ptah_counts *one = counts_new(), *two = counts_new();
	struct ptah_call_function *f;
	size_t n;

	assert_int_equal(counts_add_calls(one, 7, tree), 0);
	assert_int_equal(counts_add_calls(two, 7, tree), 0);
	assert_int_equal(ptah_counts_merge(one, two), 0);
	assert_int_equal(ptah_call_tree_functions(calls_of(one, 0), &f, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(f[0].count, 2);
	assert_int_equal(f[1].space, 3);
	assert_int_equal(f[2].space, 6);
	assert_int_equal(f[2].inclusive.instructions, 2);
	free(f);
	ptah_call_tree_free(tree);
	ptah_counts_free(one);
	ptah_counts_free(two);
}

/* Files are looked up for the functions of the process's own space. */
static bool find(void *context, int32_t space, uint64_t address, uint64_t tsc,
		 struct ptah_counts_file *file)
{
	(void)tsc;
	(void)space;
	++*(unsigned *)context;
	*file = (struct ptah_counts_file){
	    .address = address & ~UINT64_C(0xfff), .size = 0x1000, .path = "/bin/a"};
	return true;
}

TEST(functions_have_files)
{
	struct ptah_call_tree *tree = two_spaces(1);
	struct ptah_counts *counts = counts_new();
	unsigned calls = 0;

	assert_int_equal(counts_add_calls(counts, 7, tree), 0);
	assert_int_equal(ptah_counts_locate(counts, find, &calls), 0);
	assert_int_equal(calls, 1);
	assert_non_null(ptah_counts_find(counts, 0, 0x1000, 0));
	ptah_call_tree_free(tree);
	ptah_counts_free(counts);
}

TEST(sums_that_do_not_fit_are_refused)
{
	const struct ptah_call_mark marks[] = {
	    {.function = 0x1000},
	    {.end = 1, .thread.instructions = UINT64_C(1) << 63},
	};
	struct ptah_call_tree *tree = tree_new(0);
	struct ptah_counts *counts = counts_new();

	assert_int_equal(ptah_call_tree_add(tree, marks, 2), 0);
	assert_int_equal(counts_add_calls(counts, 7, tree), 0);
	assert_int_equal(counts_add_calls(counts, 7, tree), PTAH_E_LIMIT);
	assert_int_equal(counts_add_calls(counts, 8, tree), PTAH_E_LIMIT);
	ptah_counts_free(copy(counts));
	assert_int_equal(ptah_call_tree_add(tree, marks, 1), 0);
	assert_int_equal(counts_add_calls(counts, 7, tree), PTAH_E_INVAL);
	ptah_call_tree_free(tree);
	ptah_counts_free(counts);
}
