/* SPDX-License-Identifier: MIT */
/* Ticks of the TSC as nanoseconds, against the monotonic clock. */
#include "test.h"

#include "record/tsc_clock.h"

#include <time.h>

#define APART_NS UINT64_C(20000000)

static uint64_t monotonic(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* Two readings of the TSC between two of the clock: the clock's are a bound on both sides. */
static void compare(const struct perfdata_clock *clock)
{
	const uint64_t outer = monotonic(), start = __builtin_ia32_rdtsc(), inner = monotonic();
	uint64_t end, before, after;
	double ns;

	do {
		before = monotonic();
		end = __builtin_ia32_rdtsc();
		after = monotonic();
	} while (before - inner < APART_NS);
	ns = (double)(end - start) * clock->mult / (double)(UINT64_C(1) << clock->shift);
	assert_true(ns < (double)(after - outer) * 1.01);
	assert_true(ns > (double)(before - inner) * 0.99);
}

/* What was measured gives the time of the monotonic clock, too, after it as well. */
static void compare_times(const struct perfdata_clock *clock)
{
	const uint64_t ticks_mask = (UINT64_C(1) << clock->shift) - 1;
	const uint64_t before = monotonic(), tsc = __builtin_ia32_rdtsc(), after = monotonic();
	const uint64_t ns = clock->zero + (tsc >> clock->shift) * clock->mult +
			    ((tsc & ticks_mask) * clock->mult >> clock->shift);

	assert_true(clock->monotonic);
	assert_true(ns + 1000000 > before);
	assert_true(ns < after + 1000000);
}

TEST(test_clocks)
{
	const struct tsc_moment since = tsc_clock_now(CLOCK_MONOTONIC);
	struct perfdata_clock clock = {0};

	tsc_clock_read(&since, &clock);
	compare(&clock);
	tsc_clock_measure(&since, &clock);
	compare(&clock);
	compare_times(&clock);
}
