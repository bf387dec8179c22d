/* SPDX-License-Identifier: MIT */
/* The PSB search against a plain comparison at every offset. */
#include "random.h"
#include "test.h"

#include <ptah/packet.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const uint8_t psb[16] = {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82,
				2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82};

static uint64_t seed = 88172645463325252;

static uint64_t random64(void)
{
	return random_next(&seed);
}

/*
 * A run of PSB bytes that is longer than one PSB and shorter than two has one PSB, its last 16
 * bytes: what comes before only looks like a part of one.
 */
static void check(const uint8_t *bytes, size_t n)
{
	const uint8_t *first = NULL, *last = NULL, *end = bytes + n;
	size_t run = sizeof(psb);

	for (size_t i = 0; i + sizeof(psb) <= n; i++) {
		if (memcmp(bytes + i, psb, sizeof(psb)) != 0)
			continue;
		last = bytes + i;
		first = first ? first : last;
	}
	while (first && (size_t)(end - first) >= run + 2 && !memcmp(first + run, psb, 2))
		run += 2;
	if (first && run < 2 * sizeof(psb))
		first += run - sizeof(psb);
	assert_ptr_equal(ptah_packet_find_psb(bytes, end), first);
	assert_ptr_equal(ptah_packet_find_last_psb(bytes, end), last);
}

/* Pieces of PSBs, shorter and longer, in either phase, with other bytes between them. */
TEST(near_misses)
{
	for (unsigned round = 0; round < 200000; round++) {
		size_t n = random64() % 400, at = 0;
		uint8_t *bytes = malloc(n ? n : 1);
		unsigned more = 1 + random64() % 24;

		assert_non_null(bytes);
		while (at < n) {
			size_t run = random64() % (random64() % 8 ? more : 70);
			uint8_t byte = random64() & 1 ? 0x02 : 0x82;

			for (; at < n && run; run--, byte ^= 0x80)
				bytes[at++] = byte;
			if (at < n && (random64() & 3))
				bytes[at++] = (uint8_t)(random64() & 1 ? random64() : byte ^ 0x80);
		}
		check(bytes, n);
		free(bytes);
	}
}

TEST(alone_at_every_place)
{
	uint8_t bytes[300];

	for (size_t n = 0; n <= sizeof(bytes); n += 1 + n / 20) {
		for (size_t at = 0; at + sizeof(psb) <= n; at++) {
			memset(bytes, 0x82, n);
			memcpy(bytes + at, psb, sizeof(psb));
			check(bytes, n);
		}
	}
}

/* Bytes that are nearly a PSB everywhere take constant time per byte. */
TEST(no_quadratic_time)
{
	static const uint8_t patterns[][17] = {
	    {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 2, 2},
	    {0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0},
	    {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
	};
	size_t n = 16 << 20;
	uint8_t *bytes = malloc(n);

	assert_non_null(bytes);
	for (unsigned i = 0; i < 3; i++) {
		clock_t begin = clock();

		for (size_t k = 0; k < n; k++)
			bytes[k] = patterns[i][k % 17];
		assert_null(ptah_packet_find_psb(bytes, bytes + n));
		assert_null(ptah_packet_find_last_psb(bytes, bytes + n));
		/* Generous, for a sanitizer on a busy machine; quadratic time would be days. */
		assert_true(clock() - begin < 30 * CLOCKS_PER_SEC);
	}
	free(bytes);
}
