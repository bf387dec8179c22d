/* SPDX-License-Identifier: MIT */
/* Log-linear histograms: memory, sums and quantiles. */
#include "calls/histogram.h"

#include <stdlib.h>
#include <string.h>

/* Memory comes in pieces of so many buckets. */
#define PIECE UINT32_C(16)

/* Makes room for the buckets from `low` to `high`, both included. */
static bool cover(struct histogram *h, uint32_t low, uint32_t high)
{
	const uint32_t first = low / PIECE * PIECE, end = (high / PIECE + 1) * PIECE;
	uint64_t *buckets = calloc(end - first, sizeof(*buckets));

	if (!buckets)
		return false;
	if (h->n)
		memcpy(buckets + (h->first - first), h->buckets, h->n * sizeof(*buckets));
	else
		h->min = UINT64_MAX;
	free(h->buckets);
	h->buckets = buckets;
	h->first = first;
	h->n = end - first;
	return true;
}

bool histogram_grow(struct histogram *h, uint32_t index)
{
	uint32_t low = index, high = index;

	if (h->n) {
		low = index < h->first ? index : h->first;
		high = index > h->first + h->n - 1 ? index : h->first + h->n - 1;
	}
	return cover(h, low, high);
}

uint64_t histogram_count(const struct histogram *h)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < h->n; i++)
		count += h->buckets[i];
	return count;
}

bool histogram_merge(struct histogram *h, const struct histogram *from)
{
	if (!from->n)
		return true;
	if ((from->first - h->first >= h->n && !histogram_grow(h, from->first)) ||
	    (from->first + from->n - 1 - h->first >= h->n &&
	     !histogram_grow(h, from->first + from->n - 1)))
		return false;
	for (uint32_t i = 0; i < from->n; i++)
		h->buckets[from->first + i - h->first] += from->buckets[i];
	if (from->min < h->min)
		h->min = from->min;
	if (from->max > h->max)
		h->max = from->max;
	return true;
}

/* How many values the quantile has at or below it: at least 1, at most all. */
static uint64_t rank(uint64_t count, double q)
{
	/* Less by what rounding may have added: 0.07 * 100 is more than 7. */
	const double wanted = q * (double)count * (1 - 1e-12);
	uint64_t n;

	if (!(wanted > 1))
		return 1;
	if (wanted >= (double)count)
		return count;
	n = (uint64_t)wanted;
	return (double)n < wanted ? n + 1 : n;
}

uint64_t histogram_quantile(const struct histogram *h, double q)
{
	const uint64_t count = histogram_count(h);
	uint64_t left, middle;
	uint32_t i = 0;

	if (!count)
		return 0;
	left = rank(count, q);
	if (left == 1 || left == count)
		return left == 1 ? h->min : h->max;
	while (left > h->buckets[i])
		left -= h->buckets[i++];
	i += h->first;
	middle = histogram_low(i) + (histogram_high(i) - histogram_low(i)) / 2;
	return middle < h->min ? h->min : middle > h->max ? h->max : middle;
}
