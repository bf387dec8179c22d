/* SPDX-License-Identifier: MIT */
/* Tables from numbers to indices, and strings that are stored once. */
#include "../test.h"

#include "support/table.h"

#include <stdio.h>

TEST(values_are_set_and_replaced)
{
	struct table t = {0};

	assert_int_equal(table_get(&t, 5), SIZE_MAX);
	for (size_t pass = 0; pass < 2; pass++)
		for (uint64_t i = 0; i < 10000; i++)
			assert_int_equal(table_set(&t, i << 32 | 3, i + pass), 0);
	assert_int_equal(t.count, 10000);
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(table_get(&t, i << 32 | 3), i + 1);
	assert_int_equal(table_get(&t, 3 | UINT64_C(10000) << 32), SIZE_MAX);
	table_free(&t);
	assert_int_equal(table_get(&t, 3), SIZE_MAX);
}

TEST(numbers_are_in_the_order_of_appearance)
{
	struct table t = {0};
	bool is_new;

	assert_int_equal(table_number(&t, 70, 2, &is_new), 1);
	assert_true(is_new);
	assert_int_equal(table_number(&t, 0, 2, &is_new), 2);
	assert_true(is_new);
	assert_int_equal(table_number(&t, 70, 2, &is_new), 1);
	assert_false(is_new);
	assert_int_equal(table_number(&t, 71, 2, &is_new), 0);
	assert_false(is_new);
	table_free(&t);
}

TEST(strings_are_kept_once)
{
	struct strings s = {0};
	const char *first = strings_keep(&s, "text", 4);
	char text[16];

	assert_string_equal(first, "text");
	assert_ptr_equal(strings_keep(&s, "text that is longer", 4), first);
	assert_ptr_equal(strings_keep(&s, "text\0rest", 9), first);
	assert_ptr_not_equal(strings_keep(&s, "tex", 3), first);
	for (unsigned pass = 0; pass < 2; pass++)
		for (unsigned i = 0; i < 1000; i++) {
			snprintf(text, sizeof(text), "%u", i);
			assert_string_equal(strings_keep(&s, text, sizeof(text)), text);
		}
	assert_int_equal(s.count, 1002);
	assert_ptr_equal(strings_keep(&s, "text", 4), first);
	strings_free(&s);
	assert_int_equal(s.count, 0);
}
