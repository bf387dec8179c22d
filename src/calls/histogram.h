/* SPDX-License-Identifier: MIT */
/*
 * Log-linear histograms of 64-bit values. Values below 128 have a bucket each; above, every power
 * of two is divided into 64 buckets. The middle of a bucket is then less than 1/128 from any value
 * in it. Only the buckets from the lowest to the highest that is in use have memory.
 */
#ifndef PTAH_CALLS_HISTOGRAM_H
#define PTAH_CALLS_HISTOGRAM_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#define HISTOGRAM_BUCKETS (57 * 64 + 128)

struct histogram {
	uint64_t *buckets;
	uint32_t first, n; /* buckets[0] is that of index `first` */
	uint64_t min, max; /* exact; meaningless without values */
};

static inline uint32_t histogram_index(uint64_t value)
{
	const unsigned shift = 63U - (unsigned)__builtin_clzll(value | 64) - 6;

	return (shift << 6) + (uint32_t)(value >> shift);
}

/* The smallest and the largest value of a bucket. */
static inline uint64_t histogram_low(uint32_t index)
{
	const unsigned shift = index < 128 ? 0 : (index >> 6) - 1;

	return (uint64_t)(index - (shift << 6)) << shift;
}

static inline uint64_t histogram_high(uint32_t index)
{
	const unsigned shift = index < 128 ? 0 : (index >> 6) - 1;

	return histogram_low(index) + ((UINT64_C(1) << shift) - 1);
}

/* Makes room for the bucket `index`. False: out of memory. */
bool histogram_grow(struct histogram *h, uint32_t index);

/* Loads what histogram_add() will need. */
static inline void histogram_prefetch(const struct histogram *h, uint64_t value)
{
	/* The bucket may not be there yet, so that this is a number and not a pointer's element. */
	const uintptr_t offset = (histogram_index(value) - h->first) * sizeof(*h->buckets);

	__builtin_prefetch((const void *)((uintptr_t)h->buckets + offset), 1);
}

/* Adds a value, n times. False: out of memory. */
static inline bool histogram_add(struct histogram *h, uint64_t value, uint64_t n)
{
	const uint32_t index = histogram_index(value);

	if (UNLIKELY(index - h->first >= h->n) && !histogram_grow(h, index))
		return false;
	h->buckets[index - h->first] += n;
	if (value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	return true;
}

/* How many values there are. */
uint64_t histogram_count(const struct histogram *h);

/* Adds all values of `from`. False: out of memory, and nothing was added. */
bool histogram_merge(struct histogram *h, const struct histogram *from);

/* As ptah_call_tree_quantile() promises. */
uint64_t histogram_quantile(const struct histogram *h, double q);

#endif
