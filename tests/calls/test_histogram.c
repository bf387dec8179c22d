/* SPDX-License-Identifier: MIT */
/* Histograms: buckets, and quantiles compared with those of the sorted values. */
#include "test.h"

#include "calls/histogram.h"

#include <stdlib.h>

static uint64_t chance = 88172645463325252;

static uint64_t random64(void)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return chance;
}

/* Every value lies in its bucket, and buckets follow each other without a hole. */
TEST(buckets_cover_all_values)
{
	assert_int_equal(histogram_low(0), 0);
	assert_int_equal(histogram_high(HISTOGRAM_BUCKETS - 1), UINT64_MAX);
	for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
		const uint64_t low = histogram_low(i), high = histogram_high(i);

		assert_int_equal(histogram_index(low), i);
		assert_int_equal(histogram_index(high), i);
		if (i)
			assert_int_equal(low, histogram_high(i - 1) + 1);
		assert_true(high - low <= low / 64);
	}
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

#define VALUES 5000

/* The smallest of the sorted values that at least k of n parts of all do not exceed. */
static uint64_t exact(const uint64_t *values, size_t count, unsigned k, unsigned n)
{
	const size_t rank = (count * k + n - 1) / n;

	return values[rank ? rank - 1 : 0];
}

static void check_quantiles(const struct histogram *h, uint64_t *values, size_t count)
{
	static const unsigned thousandths[] = {0, 1, 10, 70, 500, 900, 990, 999, 1000};

	qsort(values, count, sizeof(*values), by_value);
	assert_int_equal(histogram_count(h), count);
	assert_int_equal(h->min, values[0]);
	assert_int_equal(h->max, values[count - 1]);
	for (size_t i = 0; i < sizeof(thousandths) / sizeof(*thousandths); i++) {
		const uint64_t want = exact(values, count, thousandths[i], 1000);
		const uint64_t have = histogram_quantile(h, thousandths[i] / 1000.0);
		const uint64_t error = have > want ? have - want : want - have;

		assert_true(error <= want / 100);
	}
}

TEST(quantiles_are_right_to_one_percent)
{
	static uint64_t values[VALUES];

	for (unsigned bits = 1; bits <= 64; bits += 7) {
		for (size_t count = 1; count <= VALUES; count = 7 * count + 3) {
			struct histogram h = {0};

			for (size_t i = 0; i < count; i++) {
				values[i] = random64() >> (64 - bits) >> random64() % bits;
				assert_true(histogram_add(&h, values[i], 1));
			}
			check_quantiles(&h, values, count);
			free(h.buckets);
		}
	}
}

TEST(a_merged_histogram_is_that_of_all_values)
{
	static uint64_t values[VALUES];
	struct histogram part[3] = {0}, all = {0};

	for (size_t i = 0; i < VALUES; i++) {
		values[i] = random64() >> random64() % 64;
		assert_true(histogram_add(&part[values[i] % 3], values[i], 1));
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_true(histogram_merge(&all, &part[i]));
		free(part[i].buckets);
	}
	check_quantiles(&all, values, VALUES);
	free(all.buckets);
}

TEST(an_empty_histogram_has_no_quantiles)
{
	struct histogram h = {0}, other = {0};

	assert_int_equal(histogram_count(&h), 0);
	assert_int_equal(histogram_quantile(&h, 0.5), 0);
	assert_true(histogram_merge(&h, &other));
	assert_null(h.buckets);
}
