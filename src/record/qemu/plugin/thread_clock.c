/* SPDX-License-Identifier: MIT */
/* The time of threads: what they tell each other of it, and what their processors do. */
#include "record/qemu/plugin/block_trace.h"

#include <time.h>
#include <unistd.h>

/* TSC ticks after which the processor is taken to have slept, without MTC packets. */
#define SLEEP (UINT64_C(1) << 16)

/* TSC: nanoseconds, or instructions, those that were not traced too. */
uint64_t plugin_clock(const struct shared_thread *t)
{
	struct timespec now;

	if (!(plugin.shared->flags & SHARED_CLOCK_HOST))
		return t->live.instructions + t->live.lift;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void plugin_publish_clock(uint64_t time)
{
	uint64_t old = atomic_load_explicit(&plugin.shared->clock, memory_order_relaxed);

	while (old < time && !atomic_compare_exchange_weak(&plugin.shared->clock, &old, time))
		;
}

/* A thread that learns of others goes on at the latest time it may have heard of. */
void plugin_lift_clock(struct shared_thread *t, uint64_t time)
{
	uint64_t own = t->live.instructions + t->live.lift;

	if (own < time)
		t->live.lift += time - own;
}

/*
 * Time goes by for the processor, which may have packets to tell of it: up to
 * when the last block began, for the reason that attend() has.
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
 * Between two TSC packets perf guesses two ticks for each instruction, and so
 * gets further than the thread was.
 */
uint64_t plugin_perf_guess(const struct shared_thread *t, uint64_t now)
{
	uint64_t guess = now > t->told ? now + (now - t->told) : now;

	/* Nanoseconds cannot be skipped, and an instruction takes more than two. */
	if (plugin.shared->flags & SHARED_CLOCK_HOST)
		return now;
	return guess > t->guessed ? guess : t->guessed;
}

/*
 * As plugin_change_time(), for the program that execve has begun. By then perf
 * must have decoded all of the one before.
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
