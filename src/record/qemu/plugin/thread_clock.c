/* SPDX-License-Identifier: MIT */
/*
 * The clocks of the threads: how the threads agree on the time of a change of code, and how time
 * passes for their processors.
 */
#include "record/qemu/plugin/block_trace.h"
#include "support/monotonic.h"

#include <time.h>
#include <unistd.h>

/* TSC ticks after which the processor is taken to have slept, without MTC packets. */
#define SLEEP (UINT64_C(1) << 16)

/* The thread's TSC: nanoseconds, or its instructions, including those that were not traced. */
uint64_t plugin_clock(const struct shared_thread *t)
{
	if (!(plugin.shared->flags & SHARED_CLOCK_HOST))
		return t->live.instructions + t->live.lift;
	return (uint64_t)monotonic_ns();
}

void plugin_publish_clock(uint64_t time)
{
	uint64_t old = atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed);

	while (old < time && !atomic_compare_exchange_weak(&plugin.shared->clock, &old, time))
		;
}

/*
 * Moves the thread's clock forward to `time`. A thread does this when it may have seen effects of
 * other threads, so that it is not earlier than they are.
 */
void plugin_lift_clock(struct shared_thread *t, uint64_t time)
{
	uint64_t own = t->live.instructions + t->live.lift;

	if (own < time)
		t->live.lift += time - own;
}

/*
 * Lets time pass for the processor, which may emit packets about it: up to the time at which the
 * last block began, for the reason given at attend().
 */
void plugin_pass_measured_time(struct shared_thread *t)
{
	struct ptah_model *m = &t->live.m;

	if (t->before > m->clock.tsc + SLEEP) {
		const struct ptah_model_wake wake = {.ticks = t->before - m->clock.tsc};

		ptah_model_wake(m, &wake);
	} else if (t->before > m->clock.tsc) {
		ptah_model_pass(m, t->before - m->clock.tsc);
	}
	t->before = plugin_clock(t);
}

uint64_t plugin_change_time(void)
{
	uint64_t time = atomic_load(&plugin.shared->clock);

	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		struct shared_thread *t = plugin_slot(i);

		if (atomic_load_explicit(&t->state, memory_order_relaxed) == THREAD_ACTIVE &&
		    plugin_clock(t) > time)
			time = plugin_clock(t);
	}
	plugin_publish_clock(time + 1);
	return time + 1;
}

/*
 * The latest time that perf can have estimated for the thread. Between two TSC packets it counts
 * two ticks for each instruction, and so gets ahead of the thread.
 */
uint64_t plugin_perf_guess(const struct shared_thread *t, uint64_t now)
{
	uint64_t guess = now > t->told ? now + (now - t->told) : now;

	/*
	 * With the host's clock time cannot be moved forward. Nor is it needed: an instruction
	 * takes more than two nanoseconds.
	 */
	if (plugin.shared->flags & SHARED_CLOCK_HOST)
		return now;
	return guess > t->guessed ? guess : t->guessed;
}

/*
 * plugin_change_time() for a program that execve has started, or a thread's new name. At this time
 * perf must have decoded everything that ran before.
 */
uint64_t plugin_exec_time(void)
{
	uint64_t time = plugin_change_time();

	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		const struct shared_thread *t = plugin_slot(i);

		if (t->pid == getpid() && plugin_perf_guess(t, plugin_clock(t)) >= time)
			time = plugin_perf_guess(t, plugin_clock(t)) + 1;
	}
	plugin_publish_clock(time);
	return time;
}
