/* SPDX-License-Identifier: MIT */
/*
 * A simulated machine with one thread for each processor; ThreadSanitizer runs
 * the tests that use it. An inter-processor interrupt is a mailbox that a
 * processor reads between two instructions.
 *
 * There is one machine at a time, in static memory. The thread that opens it
 * runs the processor LIVE_CONTROL.
 */
#ifndef PTAH_TESTS_ENGINE_LIVE_H
#define PTAH_TESTS_ENGINE_LIVE_H

#include "engine/rig.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define LIVE_CPUS    3u
#define LIVE_CONTROL 2u

/* ThreadSanitizer does not see these accesses: what hardware does is no data race. */
#define LIVE_HARDWARE __attribute__((noinline, no_sanitize("thread")))

static _Thread_local unsigned live_cpu;

struct live_mail {
	void (*_Atomic work)(void *argument);
	void *argument;
	atomic_bool taken; /* by a sender */
	atomic_bool done;
};

struct live_world {
	struct rig rig;
	struct ptah_hal inner;
	struct live_mail mail[LIVE_CPUS];
	atomic_uint calls; /* that came from another processor */
	pthread_t thread[LIVE_CPUS];
	bool plays[LIVE_CPUS];
	atomic_uint working; /* processors that have turns left */
	atomic_bool go, over;
	void (*turns)(unsigned cpu);
};

static struct live_world live;

static inline unsigned live_which(void *argument)
{
	(void)argument;
	return live_cpu;
}

static inline uint64_t live_irqs_off(void)
{
	return live.rig.hal.irq_save(live.rig.machine);
}

static inline void live_irqs_back(uint64_t state)
{
	live.rig.hal.irq_restore(live.rig.machine, state);
}

/* Between two instructions: takes a pending interrupt and runs it with interrupts disabled. */
static inline void live_poll(void)
{
	struct live_mail *mail = &live.mail[live_cpu];
	void (*work)(void *) = atomic_load(&mail->work);
	uint64_t irqs;

	if (!work)
		return;
	irqs = live_irqs_off();
	work(mail->argument);
	live_irqs_back(irqs);
	atomic_store(&mail->work, NULL);
	atomic_store(&mail->done, true);
}

static inline int live_run_on(void *port, unsigned cpu, void (*work)(void *argument),
			      void *argument)
{
	struct live_mail *mail = &live.mail[cpu];

	if (cpu == live_cpu)
		return live.inner.run_on(port, cpu, work, argument);
	while (atomic_exchange(&mail->taken, true)) {
		live_poll();
		sched_yield();
	}
	mail->argument = argument;
	atomic_store(&mail->done, false);
	atomic_store(&mail->work, work);
	while (!atomic_load(&mail->done)) {
		live_poll();
		sched_yield();
	}
	atomic_store(&mail->taken, false);
	atomic_fetch_add(&live.calls, 1);
	return PTAH_OK;
}

static inline void *live_thread(void *argument)
{
	live_cpu = (unsigned)(uintptr_t)argument;
	while (!atomic_load(&live.go)) {
		live_poll();
		sched_yield();
	}
	live.turns(live_cpu);
	atomic_fetch_sub(&live.working, 1);
	while (!atomic_load(&live.over)) {
		live_poll();
		sched_yield();
	}
	return NULL;
}

/* Writes marks, from *number upwards, as long as this processor is traced. */
static inline void live_marks(uint64_t *number, unsigned n)
{
	uint8_t mark[MARK];

	for (; n && rig_enabled(&live.rig, live_cpu); n--) {
		rig_write_mark(mark, (*number)++);
		ptah_machine_put(live.rig.machine, live_cpu, mark, MARK);
	}
}

/* Starts the threads of processors 0 to `cpus` - 1, which run `turns` once live.go is set. */
static inline void live_open(const char *processor, unsigned cpus, void (*turns)(unsigned cpu))
{
	struct ptah_machine_config config = {
	    .size = sizeof(config),
	    .cpus = LIVE_CPUS,
	    .processor = ptah_model_find(processor),
	    .arena_size = RIG_ARENA,
	    .physical = 0x10000000,
	    .which = live_which,
	};
	unsigned cpu;

	memset(&live, 0, sizeof(live));
	live_cpu = LIVE_CONTROL;
	live.turns = turns;
	live.rig.machine = calloc(1, ptah_machine_size(LIVE_CPUS));
	live.rig.arena_size = RIG_ARENA;
	live.rig.arena = pages_new(RIG_ARENA);
	assert_non_null(live.rig.machine);
	config.arena = live.rig.arena;
	assert_int_equal(ptah_machine_init(live.rig.machine, &config), PTAH_OK);
	ptah_machine_hal(live.rig.machine, &live.rig.hal);
	live.inner = live.rig.hal;
	live.rig.hal.run_on = live_run_on;
	atomic_store(&live.working, cpus);
	for (cpu = 0; cpu < LIVE_CPUS; cpu++) {
		/* A processor without turns runs too: the engine calls each processor. */
		live.plays[cpu] = cpu != LIVE_CONTROL;
		if (live.plays[cpu])
			assert_int_equal(pthread_create(&live.thread[cpu], NULL, live_thread,
							(void *)(uintptr_t)cpu),
					 0);
	}
	assert_int_equal(ptah_engine_new(&live.rig.hal, live.rig.machine, &live.rig.engine),
			 PTAH_OK);
	ptah_machine_on_pmi(live.rig.machine, rig_pmi, &live.rig);
}

/* After the last call that needs another processor. */
static inline void live_close(void)
{
	unsigned cpu;

	atomic_store(&live.over, true);
	for (cpu = 0; cpu < LIVE_CPUS; cpu++) {
		if (live.plays[cpu])
			pthread_join(live.thread[cpu], NULL);
	}
	rig_close(&live.rig);
}

/* What a consumer knows of the marks in a stream that it reads in pieces. */
struct live_reader {
	uint64_t next; /* mark */
	uint64_t tail, lost;
	unsigned losses; /* times that some were lost */
	uint32_t flags;
	uint64_t skipped; /* times that another mark followed than the expected one */
	uint64_t cuts;	  /* times that the engine reported such a cut */
	uint8_t rest[MARK];
	size_t n;
};

/* Checks that marks come in order and none twice; other bytes between them are allowed. */
static inline void live_read(struct live_reader *r, const uint8_t *bytes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (r->n == MARK) {
			memmove(r->rest, r->rest + 1, MARK - 1);
			r->n--;
		}
		r->rest[r->n++] = bytes[i];
		if (r->n < MARK || !rig_is_mark(r->rest))
			continue;
		assert_true(rig_number(r->rest) >= r->next);
		r->skipped += rig_number(r->rest) != r->next;
		r->next = rig_number(r->rest) + 1;
		r->n = 0;
	}
}

/* Bytes were overwritten between those that were read and the next ones. */
static inline void live_lose(struct live_reader *r, uint64_t lost)
{
	r->lost += lost;
	r->losses++;
	r->n = 0;
}

#endif
