/* SPDX-License-Identifier: MIT */
/* Indices of lists: what was added is found, also among numbers that have its hash. */
#include "../test.h"

#include "support/index.h"

#include <stdlib.h>

#define KEYS 20000

TEST(each_key_has_its_number)
{
	struct index x = {0};
	uint64_t *keys = calloc(KEYS, sizeof(*keys));
	uint32_t n;

	for (uint32_t i = 0; i < KEYS; i++) {
		uint32_t hash;

		keys[i] = (uint64_t)i << 40;
		assert_true(index_reserve(&x));
		hash = index_hash(&x, keys[i], 1);
		INDEX_FIND(n, &x, hash, keys[n - 1] == keys[i]);
		assert_int_equal(n, 0);
		index_add(&x, hash, i + 1);
	}
	for (uint32_t i = 0; i < KEYS; i++) {
		INDEX_FIND(n, &x, index_hash(&x, keys[i], 1), keys[n - 1] == keys[i]);
		assert_int_equal(n, i + 1);
	}
	index_clear(&x);
	INDEX_FIND(n, &x, index_hash(&x, keys[0], 1), true);
	assert_int_equal(n, 0);
	free(keys);
	index_free(&x);
}

TEST(numbers_of_one_hash_are_told_apart)
{
	struct index x = {0};
	uint32_t n;

	INDEX_FIND(n, &x, 7, true);
	assert_int_equal(n, 0);
	for (uint32_t i = 1; i <= 100; i++) {
		assert_true(index_reserve(&x));
		index_add(&x, UINT32_MAX, i);
	}
	for (uint32_t i = 1; i <= 100; i++) {
		INDEX_FIND(n, &x, UINT32_MAX, n == i);
		assert_int_equal(n, i);
	}
	INDEX_FIND(n, &x, UINT32_MAX, false);
	assert_int_equal(n, 0);
	index_free(&x);
}

/* Keys that meet in one place with a multiplication by a known number do not with the secret. */
TEST(keys_that_are_alike_do_not_meet)
{
	struct index x = {0};
	size_t steps = 0;

	for (uint32_t i = 1; i <= KEYS; i++) {
		assert_true(index_reserve(&x));
		index_add(&x, index_hash(&x, (uint64_t)i << 44, 0), i);
	}
	for (uint32_t i = 1; i <= KEYS; i++) {
		size_t probe = 0;

		while (index_next(&x, index_hash(&x, (uint64_t)i << 44, 0), &probe) != i)
			;
		steps += probe;
	}
	assert_true(steps < 4 * KEYS);
	index_free(&x);
}

TEST(all_bytes_and_the_size_belong_to_a_hash)
{
	uint8_t bytes[20] = {0};
	struct index x = {0};
	uint32_t hash;

	assert_true(index_reserve(&x));
	hash = index_hash_bytes(&x, bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = 1;
		assert_int_not_equal(index_hash_bytes(&x, bytes, sizeof(bytes)), hash);
		bytes[i] = 0;
		assert_int_not_equal(index_hash_bytes(&x, bytes, i), hash);
	}
	assert_int_equal(index_hash_bytes(&x, bytes, sizeof(bytes)), hash);
	index_free(&x);
}
