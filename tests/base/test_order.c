/* SPDX-License-Identifier: MIT */
/* The order of numbers, and the search in what is sorted. */
#include "../test.h"

#include "base/order.h"

TEST(numbers_of_any_type_have_an_order)
{
	static const char text[2] = "";

	assert_true(COMPARE(1, 2) < 0);
	assert_true(COMPARE(2, 1) > 0);
	assert_int_equal(COMPARE(2, 2), 0);
	assert_true(COMPARE(UINT64_MAX, UINT64_C(1)) > 0);
	assert_true(COMPARE(INT64_MIN, INT64_MAX) < 0);
	assert_true(COMPARE(&text[0], &text[1]) < 0);
	assert_true(COMPARE(0.25, 0.5) < 0);
}

TEST(the_next_key_counts_where_the_first_is_equal)
{
	assert_true(COMPARE_THEN(1, 2, COMPARE(2, 1)) < 0);
	assert_true(COMPARE_THEN(1, 1, COMPARE(2, 1)) > 0);
	assert_int_equal(COMPARE_THEN(1, 1, COMPARE(3, 3)), 0);
}

/* All lists of up to five ascending numbers, against a search one by one. */
TEST(bisection_is_as_a_search_one_by_one)
{
	for (unsigned code = 0; code < 1 << 10; code++) {
		unsigned list[5];
		const size_t count = code % 6;

		for (size_t i = 0; i < count; i++)
			list[i] = (i ? list[i - 1] : 0) + (code >> 2 * i & 3);
		for (unsigned wanted = 0; wanted < 17; wanted++) {
			size_t at, low = 0, high = 0;

			while (low < count && list[low] < wanted)
				low++;
			while (high < count && list[high] <= wanted)
				high++;
			BISECT(at, 0, count, list[at] < wanted);
			assert_int_equal(at, low);
			BISECT(at, 0, count, list[at] <= wanted);
			assert_int_equal(at, high);
		}
	}
}

TEST(bisection_looks_at_its_part_only)
{
	static const int list[] = {9, 1, 2, 3, 0};
	size_t at;

	BISECT(at, 1, 4, list[at] < 2);
	assert_int_equal(at, 2);
	BISECT(at, 1, 4, list[at] < 100);
	assert_int_equal(at, 4);
	BISECT(at, 3, 3, list[at] < 100);
	assert_int_equal(at, 3);
}
