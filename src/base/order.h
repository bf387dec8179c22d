/* SPDX-License-Identifier: MIT */
/* The order of numbers, and the search in what is sorted. Freestanding. */
#ifndef PTAH_BASE_ORDER_H
#define PTAH_BASE_ORDER_H

#include <stddef.h>

/* Less than, equal to or greater than 0, as qsort() wants it; for all numbers and pointers. */
#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* By a and b, and where these are equal by `rest`, another comparison. */
#define COMPARE_THEN(a, b, rest) ((a) != (b) ? COMPARE(a, b) : (rest))

/*
 * Finds the first index in [first, end) for which `before`, an expression of the variable `at`,
 * is false, and leaves it in `at`; it leaves `end` if there is none. The elements for which it is
 * true must come first:
 *
 *	BISECT(at, 0, count, times[at] < wanted);	the first time that is not before `wanted`
 *	BISECT(at, 0, count, times[at] <= wanted);	the first one after it
 */
#define BISECT(at, first, end, before)                                                             \
	do {                                                                                       \
		size_t bisect_low = (first), bisect_high = (end);                                  \
                                                                                                   \
		while (bisect_low < bisect_high) {                                                 \
			(at) = bisect_low + (bisect_high - bisect_low) / 2;                        \
			if (before)                                                                \
				bisect_low = (at) + 1;                                             \
			else                                                                       \
				bisect_high = (at);                                                \
		}                                                                                  \
		(at) = bisect_low;                                                                 \
	} while (0)

#endif
