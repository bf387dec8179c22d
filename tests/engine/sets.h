/* SPDX-License-Identifier: MIT */
/*
 * A world for tests of sets of captures: several simulated processors whose clocks are one, a
 * port that can fail in every call, and checks of what the processors have done: their registers,
 * and the number of bytes that they have output.
 *
 * There is one world at a time, in static memory.
 */
#ifndef PTAH_TESTS_ENGINE_SETS_H
#define PTAH_TESTS_ENGINE_SETS_H

#include "engine/rig.h"

#include <ptah/engine/captures.h>

#include "base/compiler.h"

#define CPUS  4u
#define SLICE 128u /* the most bytes that a processor writes by itself for a start and a stop */
#define OWNER 7u

/* How the port runs work on several processors. */
enum way {
	ONE_BY_ONE,  /* run_on() alone */
	ALL,	     /* run_on_all(), as it should be */
	BACKWARDS,   /* all of it, in the other order */
	TWICE,	     /* twice on each, and on processors that are not in the mask */
	NOWHERE,     /* run_on_all() fails */
	NOT_ON_LAST, /* it forgets the last one, and says nothing */
	WAYS
};

struct world {
	struct rig rig;
	struct ptah_hal inner;
	enum way way;
	struct ptah_trace_config trace;
	struct ptah_capture_config capture;
	struct ptah_captures_config config;
	struct ptah_captures_problem problem;
	uint64_t next[CPUS];   /* number of the next mark */
	uint64_t others[CPUS]; /* bytes that were output for another capture */
	size_t allocated;      /* without any set */

	/* A register whose access raises #GP, on one processor. */
	int bad_cpu;
	uint32_t bad_write, bad_read;
	/* The n-th call fails (1: the next); 0: none does. */
	unsigned fail_map, fail_run_on;

	/* The clocks of all processors are one; each instruction of the engine takes `cost`. */
	uint64_t cost, delay[CPUS]; /* delay: before the work begins there */
	struct {
		unsigned n;
		uint64_t first, last;
	} set, cleared; /* when TraceEn changed */
	uint64_t woken[CPUS];
	struct ptah_captures *updated; /* processor 2 has no capture yet that is shown */
};

static struct world w;

static inline void note(uint64_t tsc, bool on)
{
	unsigned *n = on ? &w.set.n : &w.cleared.n;
	uint64_t *first = on ? &w.set.first : &w.cleared.first;
	uint64_t *last = on ? &w.set.last : &w.cleared.last;

	if (!*n || tsc < *first)
		*first = tsc;
	if (!*n || tsc > *last)
		*last = tsc;
	++*n;
}

static inline struct ptah_model *model(unsigned cpu)
{
	return ptah_machine_model(w.rig.machine, cpu);
}

static inline void pass(uint64_t ticks)
{
	unsigned n;

	for (n = 0; ticks && n < CPUS; n++)
		ptah_model_set_tsc(model(n), ptah_model_tsc(model(n)) + ticks);
}

static inline void gap(void *argument, unsigned cpu, const char *callback)
{
	(void)argument, (void)cpu, (void)callback;
	pass(w.cost);
}

/* The port */

static inline int world_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	unsigned cpu = ptah_machine_cpu(port);
	bool before = rig_enabled(&w.rig, cpu);
	int status;

	if (w.updated)
		assert_null(ptah_captures_get(w.updated, 2));
	if (w.bad_cpu == (int)cpu && w.bad_write == msr)
		return PTAH_E_UNSUPPORTED;
	status = w.inner.wrmsr(port, msr, value);
	if (rig_enabled(&w.rig, cpu) != before)
		note(ptah_model_tsc(model(cpu)), !before);
	return status;
}

static inline int world_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	if (w.bad_cpu == (int)ptah_machine_cpu(port) && w.bad_read == msr)
		return PTAH_E_UNSUPPORTED;
	return w.inner.rdmsr(port, msr, value);
}

static inline int world_run_on(void *port, unsigned cpu, void (*work)(void *argument),
			       void *argument)
{
	if (w.fail_run_on && !--w.fail_run_on)
		return PTAH_E_SYSTEM;
	return w.inner.run_on(port, cpu, work, argument);
}

static int world_run_on_all(void *port, const uint64_t *mask, void (*work)(void *argument),
			    void *argument)
{
	unsigned i, n, last = CPUS;

	for (n = 0; n < CPUS; n++)
		last = mask[0] >> n & 1 ? n : last;
	assert_int_equal(mask[0] >> CPUS, 0);
	for (i = 0; i < CPUS && w.way != NOWHERE; i++) {
		n = w.way == BACKWARDS ? CPUS - 1 - i : i;
		if (!(mask[0] >> n & 1) && w.way != TWICE)
			continue;
		if (w.way == NOT_ON_LAST && n == last)
			continue;
		pass(w.delay[n]);
		w.inner.run_on(port, n, work, argument);
		if (w.way == TWICE)
			w.inner.run_on(port, n, work, argument);
	}
	return w.way == NOWHERE ? PTAH_E_SYSTEM : PTAH_OK;
}

static int world_user_map(void *port, uint64_t owner, const struct ptah_hal_memory *pieces,
			  size_t n, bool writable, uint64_t *address)
{
	if (w.fail_map && !--w.fail_map)
		return PTAH_E_NOMEM;
	return w.inner.user_map(port, owner, pieces, n, writable, address);
}

static inline void world_wake(void *port, void *cookie)
{
	(void)port;
	if (cookie)
		++*(uint64_t *)cookie;
}

static inline void use_port(enum way way)
{
	w.way = way;
	w.inner = w.rig.hal;
	w.rig.hal.wrmsr = world_wrmsr;
	w.rig.hal.rdmsr = world_rdmsr;
	w.rig.hal.run_on = world_run_on;
	w.rig.hal.run_on_all = way == ONE_BY_ONE ? NULL : world_run_on_all;
	w.rig.hal.user_map = world_user_map;
	w.rig.hal.wake = world_wake;
}

/* CPUS processors; requests for all of them. */
static inline void world_open(const char *processor, enum way way)
{
	memset(&w, 0, sizeof(w));
	w.bad_cpu = -1;
	rig_open(&w.rig, ptah_model_find(processor), CPUS);
	use_port(way);
	w.capture = rig_config(&w.rig, &w.trace);
	w.capture.owner = OWNER;
	w.config = (struct ptah_captures_config){.size = sizeof(w.config), .capture = &w.capture};
	w.allocated = ptah_machine_allocated(w.rig.machine);
}

static inline void world_close(void)
{
	rig_close(&w.rig);
}

static inline struct ptah_captures *new_set(void)
{
	struct ptah_captures *set = NULL;
	int status = ptah_captures_new(w.rig.engine, &w.config, &set, &w.problem);

	if (status != PTAH_OK)
		fail_msg("%d: processor %d: %s", status, w.problem.cpu, w.problem.reason);
	return set;
}

static inline void start(struct ptah_captures *set)
{
	int status = ptah_captures_start(set, &w.problem);

	if (status != PTAH_OK)
		fail_msg("%d: processor %d: %s", status, w.problem.cpu, w.problem.reason);
	assert_null(w.problem.reason);
}

static inline struct ptah_captures_status status_of(const struct ptah_captures *set)
{
	struct ptah_captures_status s = {.size = sizeof(s)};

	assert_int_equal(ptah_captures_status(set, &s), PTAH_OK);
	return s;
}

/* A bit for each processor whose TraceEn is set. */
static inline unsigned enabled(void)
{
	unsigned n, on = 0;

	for (n = 0; n < CPUS; n++)
		on |= (unsigned)rig_enabled(&w.rig, n) << n;
	return on;
}

static inline void mark(unsigned cpu, unsigned n)
{
	if (!rig_enabled(&w.rig, cpu))
		return;
	w.rig.next = w.next[cpu];
	rig_mark(&w.rig, cpu, n);
	w.next[cpu] = w.rig.next;
}

static inline void mark_all(unsigned n)
{
	unsigned cpu;

	for (cpu = 0; cpu < CPUS; cpu++)
		mark(cpu, n + cpu);
}

/* All that each processor has output is in its capture. */
static inline void check_all(const struct ptah_captures *set, size_t others)
{
	int cpu;

	for (cpu = ptah_captures_next(set, -1); cpu >= 0; cpu = ptah_captures_next(set, cpu)) {
		struct ptah_capture *c = ptah_captures_get(set, (unsigned)cpu);
		uint64_t position = ptah_capture_position(c);

		assert_int_equal(position, rig_output(&w.rig, (unsigned)cpu) - w.others[cpu]);
		if (w.next[cpu])
			assert_int_equal(rig_check(c, 0, position, 0, others), w.next[cpu]);
	}
}

static inline void check_problem(int cpu)
{
	assert_int_equal(w.problem.cpu, cpu);
	assert_non_null(w.problem.reason);
	assert_true(strlen(w.problem.reason) > 10);
}

static inline void pinned_on(unsigned cpu, void (*what)(struct ptah_engine *engine))
{
	uint64_t irqs;

	ptah_machine_set_cpu(w.rig.machine, cpu);
	irqs = w.rig.hal.irq_save(w.rig.machine);
	what(w.rig.engine);
	w.rig.hal.irq_restore(w.rig.machine, irqs);
}

static inline void offline(unsigned cpu)
{
	pinned_on(cpu, ptah_engine_cpu_offline);
	ptah_machine_set_online(w.rig.machine, cpu, false);
	ptah_machine_set_cpu(w.rig.machine, (cpu + 1) % CPUS);
}

static inline void online(unsigned cpu)
{
	ptah_machine_set_online(w.rig.machine, cpu, true);
	pinned_on(cpu, ptah_engine_cpu_online);
}

/* Another engine, for which the processors in `mask` have never been online. */
static inline void forget(unsigned mask)
{
	unsigned n;

	assert_int_equal(ptah_engine_free(w.rig.engine), PTAH_OK);
	for (n = 0; n < CPUS; n++)
		ptah_machine_set_online(w.rig.machine, n, !(mask >> n & 1));
	assert_int_equal(ptah_engine_new(&w.rig.hal, w.rig.machine, &w.rig.engine), PTAH_OK);
}

/*
 * No processor is claimed by the set or by anything else: a capture can be
 * started on each that is online, and traces it.
 */
static inline void check_free(void)
{
	struct ptah_capture_config config = w.capture;
	struct ptah_capture *c;
	unsigned n;

	assert_int_equal(enabled(), 0);
	config.paused = false;
	for (n = 0; n < CPUS; n++) {
		config.cpu = (int)n;
		c = rig_capture(&w.rig, &config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(enabled(), 1u << n);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
	}
}

#endif
