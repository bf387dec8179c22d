/* SPDX-License-Identifier: MIT */
/* Sums of call trees: the merge of parts is the whole, also under other keys. */
#include "tree_check.h"

#define PARTS 3

static struct call_list *join_all(struct call_list *const *lists)
{
	struct call_list *two = list_join(lists[0], lists[1]), *all = list_join(two, lists[2]);

	list_free(two);
	return all;
}

static void merge(struct ptah_call_tree *into, const struct ptah_call_tree *from)
{
	assert_int_equal(ptah_call_tree_merge(into, from, NULL, NULL), 0);
}

TEST(merged_parts_are_the_whole)
{
	for (unsigned seed = 1; seed <= 6; seed++) {
		struct call_list *lists[PARTS], *all;
		struct ptah_call_tree *trees[PARTS], *forward = tree_new(0),
						     *backward = tree_new(0);

		for (unsigned i = 0; i < PARTS; i++) {
			const struct list_shape shape = {10 * seed + i, 2 + 3 * seed, 7,
							 500,		i != 1,	      i != 2};

			lists[i] = list_new(&shape);
			trees[i] = tree_of(lists[i], 0, 100);
		}
		all = join_all(lists);
		for (unsigned i = 0; i < PARTS; i++) {
			merge(forward, trees[i]);
			merge(backward, trees[PARTS - 1 - i]);
		}
		check_all(forward, all);
		assert_same_trees(forward, backward);
		merge(trees[1], trees[2]);
		merge(trees[0], trees[1]);
		assert_same_trees(forward, trees[0]);
		for (unsigned i = 0; i < PARTS; i++) {
			ptah_call_tree_free(trees[i]);
			list_free(lists[i]);
		}
		list_free(all);
		ptah_call_tree_free(forward);
		ptah_call_tree_free(backward);
	}
}

/* The limit of the sum is less than that of the parts, and parts have folded paths already. */
TEST(merged_folded_parts_add_up)
{
	static const uint32_t limits[] = {0, 200, 70};

	for (unsigned seed = 1; seed <= 4; seed++) {
		struct call_list *lists[PARTS], *all;
		struct ptah_call_tree *sum = tree_new(100);
		struct ptah_call_totals totals;

		for (unsigned i = 0; i < PARTS; i++) {
			const struct list_shape shape = {20 * seed + i, 9, 8, 500, true, true};
			struct ptah_call_tree *tree;

			lists[i] = list_new(&shape);
			tree = tree_of(lists[i], limits[i], 100);
			merge(sum, tree);
			ptah_call_tree_free(tree);
		}
		all = join_all(lists);
		check_all(sum, all);
		assert_int_equal(ptah_call_tree_totals(sum, &totals), 0);
		assert_true(totals.paths <= 100);
		assert_true(totals.folded_paths > 0);
		for (unsigned i = 0; i < PARTS; i++)
			list_free(lists[i]);
		list_free(all);
		ptah_call_tree_free(sum);
	}
}

/* Leaves out every seventh function; each two of the others become one. */
static bool rename_function(void *context, uint16_t *space, uint64_t *function)
{
	(void)context;
	(void)space;
	if (*function % 7 == 0)
		return false;
	*function |= 1;
	return true;
}

/* What the list is when each call is renamed: a call that is left out is its caller's work. */
static void rename_list(struct call_list *list)
{
	size_t kept = 0, *numbers = calloc(list->count, sizeof(*numbers));

	for (size_t i = 0; i < list->count; i++) {
		struct listed_call c = list->calls[i];
		uint64_t path[LIST_DEEPEST] = {0};
		const bool left_out = list_function(&c) % 7 == 0;
		unsigned depth = 0;
		const size_t caller = c.caller == SIZE_MAX ? SIZE_MAX : numbers[c.caller];

		for (unsigned k = 0; k < c.depth; k++)
			if (rename_function(NULL, NULL, &c.path[k]))
				path[depth++] = c.path[k];
		if (left_out) {
			numbers[i] = caller;
			if (caller != SIZE_MAX)
				list_add(&list->calls[caller].self, &c.self);
			continue;
		}
		memcpy(c.path, path, sizeof(path));
		c.depth = depth;
		c.caller = caller;
		numbers[i] = kept;
		list->calls[kept++] = c;
	}
	list->count = kept;
	free(numbers);
}

TEST(functions_are_renamed_and_left_out)
{
	for (unsigned seed = 1; seed <= 6; seed++) {
		const struct list_shape shape = {seed, 4 + 5 * seed, 7, 800, true, true};
		struct call_list *list = list_new(&shape);
		struct ptah_call_tree *tree = tree_of(list, 0, 100), *renamed = tree_new(0);
		struct ptah_call_totals totals;

		assert_int_equal(ptah_call_tree_merge(renamed, tree, rename_function, NULL), 0);
		rename_list(list);
		check_functions(renamed, list);
		check_paths(renamed, list);
		assert_int_equal(ptah_call_tree_totals(renamed, &totals), 0);
		assert_figures(&totals.inclusive, &list->total);
		ptah_call_tree_free(tree);
		ptah_call_tree_free(renamed);
		list_free(list);
	}
}

TEST(what_cannot_be_merged_is_refused)
{
	struct ptah_call_tree *a = tree_new(0), *b = tree_new(0);
	const struct ptah_call_mark mark = {.function = 1};

	assert_int_equal(ptah_call_tree_merge(a, a, NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_call_tree_add(b, &mark, 1), 0);
	assert_int_equal(ptah_call_tree_merge(a, b, NULL, NULL), PTAH_E_INVAL);
	ptah_call_tree_free(a);
	ptah_call_tree_free(b);
}
