/* SPDX-License-Identifier: MIT */
/* See tsc_clock.h. */
#include "record/tsc_clock.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MEASURED_NS    UINT64_C(2000000)
#define MEASURED_SHIFT 24 /* a GHz needs 30 bits of `mult`; ten seconds of ticks another 34 */
#define MEASURED_TRIES 8
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

/*
 * An event of a processor, not of this thread: the first event of a thread makes the kernel wait
 * until all processors have passed through the scheduler (account_event()), 5 ms and more, which
 * is longer than short programs run. Not everybody may open it.
 */
static bool ask_kernel(struct perfdata_clock *clock)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1,
				       .exclude_hv = 1};
	const int cpu = sched_getcpu();
	const int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu < 0 ? 0 : cpu, -1,
				    PERF_FLAG_FD_CLOEXEC);
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

/* The clock is read between two reads of the TSC; those that lie closest together count. */
struct tsc_moment tsc_clock_now(clockid_t clock)
{
	struct tsc_moment best = {0};
	uint64_t width = UINT64_MAX;

	for (unsigned i = 0; i < MEASURED_TRIES; i++) {
		const uint64_t before = __builtin_ia32_rdtsc();
		struct timespec time;
		uint64_t after;

		clock_gettime(clock, &time);
		after = __builtin_ia32_rdtsc();
		if (after - before >= width)
			continue;
		width = after - before;
		best.ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
		best.tsc = before + width / 2;
	}
	return best;
}

void tsc_clock_measure(const struct tsc_moment *since, struct perfdata_clock *clock)
{
	const struct tsc_moment start = *since;
	struct tsc_moment end;

	do
		end = tsc_clock_now(CLOCK_MONOTONIC);
	while (end.ns - start.ns < MEASURED_NS);
	*clock = (struct perfdata_clock){
	    .monotonic = true,
	    .shift = MEASURED_SHIFT,
	    .mult = (uint32_t)(((end.ns - start.ns) << MEASURED_SHIFT) / (end.tsc - start.tsc))};
	clock->zero =
	    start.ns -
	    ((start.tsc >> clock->shift) * clock->mult +
	     ((start.tsc & ((UINT64_C(1) << clock->shift) - 1)) * clock->mult >> clock->shift));
}

void tsc_clock_read(const struct tsc_moment *since, struct perfdata_clock *clock)
{
	if (!ask_kernel(clock))
		tsc_clock_measure(since, clock);
}
