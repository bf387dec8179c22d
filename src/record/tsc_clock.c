/* SPDX-License-Identifier: MIT */
/* See tsc_clock.h. */
#include "record/tsc_clock.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MEASURED_NS    UINT64_C(1000000)
#define MEASURED_SHIFT 24 /* a GHz needs 30 bits of `mult`; ten seconds of ticks another 34 */
#define PAGE	       4096

bool tsc_clock_of_page(const struct perf_event_mmap_page *page, struct perfdata_clock *clock)
{
	uint32_t before;
	bool told;

	/*
	 * The kernel increments `lock` before and after it changes the values, so that it is odd
	 * meanwhile (perf_event_mmap_page). The processor keeps loads in order; the empty asm
	 * statement makes the compiler keep them, too.
	 */
	do {
		before = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
		told = page->cap_user_time_zero;
		clock->shift = page->time_shift;
		clock->mult = page->time_mult;
		clock->zero = page->time_zero;
		__asm__ volatile("" ::: "memory");
	} while (before & 1 || before != __atomic_load_n(&page->lock, __ATOMIC_RELAXED));
	return told;
}

static bool ask_kernel(struct perfdata_clock *clock)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	const int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	void *page = MAP_FAILED;
	bool told = false;

	if (fd >= 0)
		page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED) {
		told = tsc_clock_of_page(page, clock);
		munmap(page, PAGE);
	}
	if (fd >= 0)
		close(fd);
	return told && clock->mult && clock->shift < 64;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

void tsc_clock_measure(struct perfdata_clock *clock)
{
	const uint64_t start = now(), start_tsc = __builtin_ia32_rdtsc();
	uint64_t ticks, ns, end_tsc;

	do {
		ns = now() - start;
		end_tsc = __builtin_ia32_rdtsc();
	} while (ns < MEASURED_NS);
	ticks = end_tsc - start_tsc;
	*clock = (struct perfdata_clock){.shift = MEASURED_SHIFT,
					 .mult = (uint32_t)((ns << MEASURED_SHIFT) / ticks)};
	clock->zero = start - ((start_tsc >> clock->shift) * clock->mult +
			       ((start_tsc & ((UINT64_C(1) << clock->shift) - 1)) * clock->mult >>
				clock->shift));
}

void tsc_clock_read(struct perfdata_clock *clock)
{
	if (!ask_kernel(clock))
		tsc_clock_measure(clock);
}
