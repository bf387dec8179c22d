/* SPDX-License-Identifier: MIT */
/* The time that passes: CLOCK_MONOTONIC as a number. */
#ifndef PTAH_SUPPORT_MONOTONIC_H
#define PTAH_SUPPORT_MONOTONIC_H

#include <stdint.h>
#include <time.h>

static inline int64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t monotonic_ms(void)
{
	return monotonic_ns() / 1000000;
}

#endif
