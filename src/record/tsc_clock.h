/* SPDX-License-Identifier: MIT */
/* How ticks of this machine's TSC become nanoseconds of perf's clock. */
#ifndef PTAH_RECORD_TSC_CLOCK_H
#define PTAH_RECORD_TSC_CLOCK_H

#include "perfdata/writer.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <time.h>

/* The same moment by a clock of the kernel and by the TSC, to some tens of nanoseconds. */
struct tsc_moment {
	uint64_t ns, tsc;
};

struct tsc_moment tsc_clock_now(clockid_t clock);

/* As the kernel has it in the page of an event. False: it does not say. */
bool tsc_clock_of_page(const struct perf_event_mmap_page *page, struct perfdata_clock *clock);

/*
 * As the kernel has it for an event that is opened for this alone; where it may not be opened, or
 * the kernel does not say, the TSC is compared with CLOCK_MONOTONIC, from a moment of before on until
 * two milliseconds have passed, which is exact to about one in a million.
 */
void tsc_clock_read(const struct tsc_moment *since, struct perfdata_clock *clock);

/* The second way alone. */
void tsc_clock_measure(const struct tsc_moment *since, struct perfdata_clock *clock);

#endif
