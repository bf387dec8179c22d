/* SPDX-License-Identifier: MIT */
/* Numbers of rows: many keys that differ in few bits, and keys of bytes, empty ones included. */
#include "export/row_ids.h"

#include "test.h"

#include <string.h>

TEST(test_pairs)
{
	struct pair_ids ids = {0};

	for (uint64_t a = 0; a < 100; a++)
		for (uint64_t b = 0; b < 100; b++) {
			int64_t *slot = pair_ids_at(&ids, a << 32, b << 12);

			assert_non_null(slot);
			assert_int_equal(*slot, 0);
			*slot = (int64_t)(1 + 100 * a + b);
		}
	for (uint64_t a = 0; a < 100; a++)
		for (uint64_t b = 0; b < 100; b++)
			assert_int_equal(*pair_ids_at(&ids, a << 32, b << 12), 1 + 100 * a + b);
	assert_int_equal(ids.rows.count, 10000);
	pair_ids_clear(&ids);
	assert_int_equal(*pair_ids_at(&ids, 0, 0), 0);
	pair_ids_free(&ids);
}

TEST(test_texts)
{
	struct text_ids ids = {0};
	char key[32] = "";
	int64_t id;
	bool added;

	assert_int_equal(text_ids_of(&ids, key, 0, &added), 1);
	assert_true(added);
	for (int i = 0; i < 5000; i++) {
		memcpy(key, &i, sizeof(i));
		id = text_ids_of(&ids, key, 1 + (size_t)i % 31, &added);
		assert_true(id > 0);
		/* A key that is cut off is another key, and may have come before. */
		id = text_ids_of(&ids, key, 32, &added);
		assert_int_equal(id, ids.count);
		assert_true(added);
	}
	for (int i = 0; i < 5000; i++) {
		const size_t before = ids.count;

		memcpy(key, &i, sizeof(i));
		text_ids_of(&ids, key, 32, &added);
		assert_false(added);
		assert_int_equal(ids.count, before);
	}
	assert_int_equal(text_ids_of(&ids, "", 0, &added), 1);
	assert_false(added);
	text_ids_free(&ids);
}
