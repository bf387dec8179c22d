/* SPDX-License-Identifier: MIT */
/* Random numbers, the same in each run: xorshift64. A seed is not 0. */
#ifndef PTAH_TESTS_RANDOM_H
#define PTAH_TESTS_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A number below `n`. */
static inline uint64_t random_below(uint64_t *seed, uint64_t n)
{
	return (random_next(seed) >> 11) % n;
}

#endif
