/* SPDX-License-Identifier: MIT */
/* The stubs of a call tree: functions with the flag, and no others, whatever space they are in. */
#include "../test.h"

#include "base/compiler.h"
#include "output/call_stubs.h"

static void call(struct ptah_call_tree *tree, uint16_t space, uint64_t function, unsigned flags)
{
	const struct ptah_call_mark marks[] = {
	    {.space = space, .function = function, .flags = (uint16_t)flags}, {.end = 1}};

	assert_int_equal(ptah_call_tree_add(tree, marks, ARRAY_SIZE(marks)), 0);
}

TEST(stubs_are_found_by_space_and_address)
{
	const struct ptah_call_tree_config config = {.size = sizeof(config)};
	struct ptah_call_tree *tree;
	struct call_stubs stubs;

	assert_int_equal(ptah_call_tree_new(&config, &tree), 0);
	assert_int_equal(call_stubs_list(&stubs, tree), 0);
	assert_false(call_stubs_has(&stubs, 1, 0x1000));
	call_stubs_free(&stubs);

	call(tree, 2, 0x3000, PTAH_CALL_STUB);
	call(tree, 1, 0x1000, PTAH_CALL_STUB | PTAH_CALL_NO_BOUNDS);
	call(tree, 1, 0x2000, PTAH_CALL_NO_BOUNDS);
	call(tree, 1, 0x3000, 0);
	assert_int_equal(call_stubs_list(&stubs, tree), 0);
	assert_int_equal(stubs.count, 2);
	assert_true(call_stubs_has(&stubs, 1, 0x1000));
	assert_true(call_stubs_has(&stubs, 2, 0x3000));
	assert_false(call_stubs_has(&stubs, 1, 0x3000));
	assert_false(call_stubs_has(&stubs, 1, 0x2000));
	assert_false(call_stubs_has(&stubs, 2, 0x1000));
	call_stubs_free(&stubs);
	ptah_call_tree_free(tree);
}
