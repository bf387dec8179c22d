/* SPDX-License-Identifier: MIT */
/* Rows that are found by their first bytes: many keys that differ in few bits. */
#include "support/keyed.h"

#include "test.h"

struct row {
	uint64_t a, b;
	int value;
};

TEST(test_rows)
{
	struct keyed k = {.row_size = sizeof(struct row), .key_size = offsetof(struct row, value)};
	bool is_new;

	for (uint64_t pass = 0; pass < 2; pass++)
		for (uint64_t i = 0; i < 10000; i++) {
			/* The value is no part of the key: the first one stays. */
			const struct row row = {i % 100 << 32, i / 100 << 12, (int)(i + pass)};

			assert_int_equal(keyed_number(&k, &row, &is_new), i + 1);
			assert_int_equal(is_new, !pass);
			assert_int_equal(((struct row *)keyed_row(&k, (uint32_t)i + 1))->value, i);
		}
	assert_int_equal(k.count, 10000);
	keyed_free(&k);
	assert_int_equal(keyed_number(&k, &(struct row){.a = 1}, &is_new), 1);
	assert_true(is_new);
	keyed_free(&k);
}
