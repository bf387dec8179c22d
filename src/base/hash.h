/* SPDX-License-Identifier: MIT */
/*
 * The hash of numbers, for tables and caches. It has no secret: a table that a stranger's recording
 * fills, and that gets slow when all its keys meet in one place, is support/index.h. Freestanding.
 */
#ifndef PTAH_BASE_HASH_H
#define PTAH_BASE_HASH_H

#include <stdint.h>

/*
 * Spreads a number: the high half of the result depends on all bits of it. The factor is 2^64
 * divided by the golden ratio, made odd (Fibonacci hashing).
 */
static inline uint64_t hash_number(uint64_t number)
{
	return number * UINT64_C(0x9e3779b97f4a7c15);
}

#endif
