/* SPDX-License-Identifier: MIT */
/*
 * Sets of captures on several simulated processors: each failure on each of them leaves nothing
 * allocated, started or mapped on any; the reported skew is that of the processors' clocks when
 * TraceEn changed; processors that come and go. What is expected comes from the processors: their
 * registers, their clocks and the number of bytes that they have output.
 */
#include "engine/sets.h"

#include <stdio.h>

/* The whole life */

static void one_life(enum way way)
{
	static const int order[] = {0, 2, 3, PTAH_E_OFFLINE};
	uint64_t mask = 0xd, before[CPUS];
	struct ptah_captures_status s;
	struct ptah_captures *set;
	unsigned i;
	int cpu = -1;

	world_open("skylake", way);
	w.config.mask = &mask;
	w.config.words = 1;
	set = new_set();
	for (i = 0; i < 4; i++) {
		cpu = ptah_captures_next(set, cpu);
		assert_int_equal(cpu, order[i]);
		if (cpu >= 0)
			assert_int_equal(rig_status(ptah_captures_get(set, (unsigned)cpu)).state,
					 PTAH_CAPTURE_IDLE);
	}
	assert_null(ptah_captures_get(set, 1));
	assert_null(ptah_captures_get(set, CPUS));
	assert_int_equal(enabled(), 0);
	start(set);
	assert_int_equal(enabled(), 0xd);
	assert_int_equal(ptah_captures_start(set, NULL), PTAH_OK);
	mark_all(100);
	for (i = 0; i < CPUS; i++)
		before[i] = rig_output(&w.rig, i);
	assert_int_equal(ptah_captures_flush(set), PTAH_OK);
	for (i = 0; i < CPUS; i++) {
		struct ptah_capture *c = ptah_captures_get(set, i);

		if (c)
			assert_in_range(ptah_capture_position(c), before[i], rig_output(&w.rig, i));
	}
	assert_int_equal(enabled(), 0xd);
	mark_all(10);
	assert_int_equal(ptah_captures_pause(set), PTAH_OK);
	assert_int_equal(enabled(), 0);
	check_all(set, 2 * SLICE);
	s = status_of(set);
	assert_true(s.started && s.paused);
	assert_int_equal(s.in_state[PTAH_CAPTURE_PAUSED], 3);
	/* They keep their processors. */
	w.capture.cpu = 2;
	{
		struct ptah_capture *other = rig_capture(&w.rig, &w.capture);

		assert_int_equal(ptah_capture_start(other), PTAH_E_BUSY);
		assert_int_equal(ptah_capture_free(other), PTAH_OK);
	}
	assert_int_equal(ptah_captures_resume(set, NULL), PTAH_OK);
	assert_int_equal(enabled(), 0xd);
	mark_all(1);
	w.trace.no_retcomp = true;
	assert_int_equal(ptah_captures_reconfigure(set, &w.trace, &w.problem), PTAH_OK);
	mark_all(5);
	assert_int_equal(enabled(), 0xd);
	for (i = 0; i < CPUS; i++) {
		uint64_t ctl = 0;

		ptah_model_rdmsr(model(i), PTAH_IA32_RTIT_CTL, &ctl);
		assert_int_equal(!!(ctl & PTAH_RTIT_CTL_DIS_RETC), i != 1);
	}
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	assert_int_equal(enabled(), 0);
	check_all(set, 6 * SLICE);
	/* Again, from where they were. */
	start(set);
	mark_all(7);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	check_free();
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	world_close();
}

TEST(whole_life)
{
	unsigned way;

	for (way = 0; way < WAYS; way++)
		one_life(way);
}

TEST(status_adds_up)
{
	struct ptah_captures_status s;
	struct ptah_captures *set;
	uint64_t position = 0, readable = 0, lost = 0, looks = 0, starts = 0, pmis = 0;
	unsigned n;

	world_open("skylake", ALL);
	w.capture.pmis = 4;
	set = new_set();
	start(set);
	mark(0, 10);
	mark(1, 20000); /* wraps */
	mark(2, 300);
	assert_int_equal(ptah_captures_pause(set), PTAH_OK);
	assert_int_equal(ptah_capture_consume(ptah_captures_get(set, 1), 50000, NULL), PTAH_OK);
	for (n = 0; n < CPUS; n++) {
		struct ptah_capture_status one = rig_status(ptah_captures_get(set, n));

		position += rig_output(&w.rig, n);
		readable += one.position < 65536 ? one.position : one.position - one.oldest;
		lost += one.lost;
		looks += one.looks;
		starts += one.starts;
		pmis += one.pmis;
	}
	s = status_of(set);
	assert_int_equal(s.cpus, CPUS);
	assert_int_equal(s.waiting, 0);
	assert_int_equal(s.in_state[PTAH_CAPTURE_PAUSED], CPUS);
	assert_int_equal(s.position, position);
	assert_int_equal(s.readable, readable);
	assert_true(s.lost == lost && lost > 0);
	assert_int_equal(s.buffer, CPUS * 65536);
	assert_true(s.looks == looks && s.starts == starts && starts >= CPUS);
	assert_true(s.pmis == pmis && pmis > 0);
	assert_true(s.error == PTAH_OK && s.error_cpu == -1);
	/* The worst error, wherever it is: a stop by range is none, a damaged table is one. */
	{
		uint64_t base = 0, bytes;

		ptah_model_rdmsr(model(2), PTAH_IA32_RTIT_OUTPUT_BASE, &base);
		((uint64_t *)(void *)ptah_machine_memory(w.rig.machine, base, &bytes))[1] |= 1u
											     << 5;
		/* An error that is not as bad as the next one. */
		w.bad_cpu = 3;
		w.bad_write = PTAH_IA32_RTIT_STATUS;
		ptah_machine_set_cpu(w.rig.machine, 3);
		assert_int_equal(ptah_capture_resume_here(ptah_captures_get(set, 3)), PTAH_OK);
		assert_int_equal(status_of(set).error_cpu, 3);
		assert_int_equal(status_of(set).msr, PTAH_IA32_RTIT_STATUS);
		ptah_machine_set_cpu(w.rig.machine, 2);
		assert_int_equal(ptah_capture_resume_here(ptah_captures_get(set, 2)), PTAH_OK);
		mark(2, 5000);
		ptah_machine_set_cpu(w.rig.machine, 0);
		assert_int_equal(ptah_captures_flush(set), PTAH_OK);
	}
	s = status_of(set);
	assert_int_equal(s.error, PTAH_E_DEVICE);
	assert_int_equal(s.error_cpu, 2);
	assert_int_equal(s.msr, 0);
	assert_int_equal(s.in_state[PTAH_CAPTURE_ERROR], 2);
	assert_int_equal(s.in_state[PTAH_CAPTURE_PAUSED], CPUS - 2);
	s.size = 8;
	assert_int_equal(ptah_captures_status(set, &s), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* How much there is, while it grows: between the bounds, and exact when nothing is traced. */
TEST(live_sum)
{
	static const char *const names[] = {"skylake", "minimal-range"};
	unsigned kind, n;

	for (kind = 0; kind < ARRAY_SIZE(names); kind++) {
		struct ptah_capture_live l = {.size = sizeof(l)};
		struct ptah_captures *set;
		uint64_t output = 0;

		world_open(names[kind], ALL);
		set = new_set();
		start(set);
		mark_all(1000);
		for (n = 0; n < CPUS; n++)
			output += rig_output(&w.rig, n);
		assert_int_equal(ptah_captures_live(set, &l), PTAH_OK);
		assert_false(l.exact);
		assert_in_range(output, l.position, l.limit);
		/* Of single-range output no limit is known, whatever the others add. */
		assert_int_equal(l.limit == UINT64_MAX, kind == 1);
		assert_int_equal(enabled(), 0xf);
		ptah_machine_set_cpu(w.rig.machine, 3);
		assert_int_equal(ptah_capture_pause_here(ptah_captures_get(set, 3)), PTAH_OK);
		assert_int_equal(ptah_captures_live(set, &l), PTAH_OK);
		assert_false(l.exact); /* one alone is */
		assert_int_equal(ptah_captures_pause(set), PTAH_OK);
		for (output = n = 0; n < CPUS; n++)
			output += rig_output(&w.rig, n);
		assert_int_equal(ptah_captures_live(set, &l), PTAH_OK);
		assert_true(l.exact && l.position == output && l.limit == output);
		l.size--;
		assert_int_equal(ptah_captures_live(set, &l), PTAH_E_INVAL);
		assert_int_equal(ptah_captures_free(set), PTAH_OK);
		world_close();
	}
}

/* Failures */

TEST(no_memory)
{
	unsigned n, failed = 0;

	world_open("skylake", ALL);
	w.capture.region = 4096; /* else smaller ones are tried */
	for (n = 1;; n++) {
		struct ptah_captures *set;
		int status;

		ptah_machine_fail_alloc(w.rig.machine, n);
		status = ptah_captures_new(w.rig.engine, &w.config, &set, &w.problem);
		if (status == PTAH_OK) {
			bool last = ptah_machine_allocated(w.rig.machine) > 0;

			/* A buffer may be in several blocks instead of one. */
			ptah_machine_fail_alloc(w.rig.machine, 0);
			assert_true(last);
			assert_int_equal(ptah_captures_free(set), PTAH_OK);
			assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
			if (n > 40)
				break;
			continue;
		}
		failed++;
		assert_int_equal(status, PTAH_E_NOMEM);
		check_problem(w.problem.cpu);
		assert_in_range(w.problem.cpu + 1, 0, CPUS);
		assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	}
	/* The set's own, and three for each capture: itself, the lists of its buffer, its tables.
	 */
	assert_int_equal(failed, 1 + 3 * CPUS);
	check_free();
	world_close();
}

/* Starts a set that processor `cpu` prevents from starting. Nothing may have been traced unless
 * `traced`. */
static void refuse_start(struct ptah_captures *set, unsigned cpu, int expected, bool traced)
{
	uint64_t output[CPUS];
	unsigned n;

	for (n = 0; n < CPUS; n++)
		output[n] = rig_output(&w.rig, n);
	assert_int_equal(ptah_captures_start(set, &w.problem), expected);
	check_problem((int)cpu);
	assert_int_equal(!!w.problem.msr, w.bad_cpu >= 0);
	assert_int_equal(enabled() & ~(1u << cpu), 0);
	for (n = 0; n < CPUS && !traced; n++)
		assert_int_equal(rig_output(&w.rig, n), output[n]);
	assert_false(status_of(set).started);
	assert_int_equal(status_of(set).in_state[PTAH_CAPTURE_IDLE], status_of(set).cpus);
	assert_int_equal(ptah_captures_start(set, NULL), expected);
}

/* After a refusal whose reason has gone. */
static void start_after_all(struct ptah_captures *set, size_t others)
{
	check_free();
	for (unsigned n = 0; n < CPUS; n++)
		assert_true(ptah_capture_position(ptah_captures_get(set, n)) <= SLICE * 4);
	start(set);
	assert_int_equal(enabled(), (1u << CPUS) - 1);
	mark_all(50);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	for (unsigned n = 0; n < CPUS; n++) {
		struct ptah_capture *c = ptah_captures_get(set, n);

		assert_int_equal(rig_check(c, 0, ptah_capture_position(c), 0, others), w.next[n]);
	}
}

static void another_tracer(unsigned cpu, enum way way)
{
	struct ptah_captures *set;
	struct ptah_hal_memory page;
	uint64_t ctl = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_USER | PTAH_RTIT_CTL_BRANCH_EN, now;

	world_open("skylake", way);
	set = new_set();
	assert_int_equal(w.rig.hal.alloc(w.rig.machine, 4096, 4096, &page), PTAH_OK);
	ptah_model_wrmsr(model(cpu), PTAH_IA32_RTIT_OUTPUT_BASE, page.physical);
	ptah_model_wrmsr(model(cpu), PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0xfff);
	assert_int_equal(ptah_model_wrmsr(model(cpu), PTAH_IA32_RTIT_CTL, ctl), PTAH_OK);
	refuse_start(set, cpu, PTAH_E_BUSY, false);
	assert_non_null(strstr(w.problem.reason, "TraceEn"));
	ptah_model_rdmsr(model(cpu), PTAH_IA32_RTIT_CTL, &now);
	assert_int_equal(now, ctl);
	ptah_model_wrmsr(model(cpu), PTAH_IA32_RTIT_CTL, 0);
	w.rig.hal.release(w.rig.machine, &page);
	start_after_all(set, 2 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

static void another_capture(unsigned cpu, enum way way)
{
	struct ptah_captures *set;
	struct ptah_capture *other;

	world_open("skylake", way);
	set = new_set();
	w.capture.cpu = (int)cpu;
	other = rig_capture(&w.rig, &w.capture);
	assert_int_equal(ptah_capture_start(other), PTAH_OK);
	refuse_start(set, cpu, PTAH_E_BUSY, false);
	assert_non_null(strstr(w.problem.reason, "capture"));
	assert_int_equal(rig_status(other).state, PTAH_CAPTURE_RUNNING);
	assert_int_equal(ptah_capture_free(other), PTAH_OK);
	start_after_all(set, 2 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

static void register_faults(unsigned cpu, enum way way, uint32_t msr, bool read)
{
	struct ptah_captures *set;

	world_open("skylake", way);
	set = new_set();
	w.bad_cpu = (int)cpu;
	*(read ? &w.bad_read : &w.bad_write) = msr;
	refuse_start(set, cpu, PTAH_E_UNSUPPORTED, !read);
	assert_int_equal(w.problem.msr, msr);
	assert_int_equal(status_of(set).error, PTAH_E_UNSUPPORTED);
	assert_int_equal(status_of(set).error_cpu, (int)cpu);
	assert_int_equal(status_of(set).msr, msr);
	w.bad_cpu = -1;
	/* The next failure is not blamed on that register. */
	{
		struct ptah_capture *other;

		w.capture.cpu = (int)cpu;
		other = rig_capture(&w.rig, &w.capture);
		assert_int_equal(ptah_capture_start(other), PTAH_OK);
		refuse_start(set, cpu, PTAH_E_BUSY, false);
		assert_int_equal(ptah_capture_free(other), PTAH_OK);
	}
	start_after_all(set, 4 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* A stop that does not reach each processor reports it, and can be repeated. */
TEST(stop_fails)
{
	unsigned way, n, failed = 0;

	for (way = 0; way < WAYS; way++) {
		for (n = 1; n <= 2 * CPUS; n++) {
			struct ptah_captures *set;
			int status;

			world_open("skylake", way);
			set = new_set();
			start(set);
			if (n & 1)
				assert_int_equal(ptah_captures_pause(set), PTAH_OK);
			w.fail_run_on = n;
			status = ptah_captures_stop(set);
			w.fail_run_on = 0;
			assert_true(status == PTAH_OK || status == PTAH_E_SYSTEM);
			failed += status < 0;
			if (status == PTAH_OK)
				assert_int_equal(enabled(), 0);
			assert_int_equal(ptah_captures_stop(set), PTAH_OK);
			assert_int_equal(status_of(set).in_state[PTAH_CAPTURE_IDLE], CPUS);
			check_free();
			start(set);
			assert_int_equal(enabled(), 0xf);
			assert_int_equal(ptah_captures_free(set), PTAH_OK);
			world_close();
		}
	}
	assert_true(failed >= 2 * CPUS);
}

static void offline_at(unsigned cpu, enum way way)
{
	struct ptah_captures *set;
	uint64_t mask = (1u << CPUS) - 1;

	world_open("skylake", way);
	w.config.mask = &mask;
	w.config.words = 1;
	/* Before the set is created. */
	offline(cpu);
	assert_int_equal(ptah_captures_new(w.rig.engine, &w.config, &set, &w.problem),
			 PTAH_E_OFFLINE);
	check_problem((int)cpu);
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	online(cpu);
	/* After that. */
	set = new_set();
	offline(cpu);
	refuse_start(set, cpu, PTAH_E_OFFLINE, false);
	online(cpu);
	start_after_all(set, 2 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	/* Never online. */
	forget(1u << cpu);
	assert_int_equal(ptah_captures_new(w.rig.engine, &w.config, &set, &w.problem),
			 PTAH_E_OFFLINE);
	check_problem((int)cpu);
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	world_close();
}

static void in_vmx(unsigned cpu, enum way way)
{
	struct ptah_captures *set;

	world_open("broadwell", way);
	assert_false(ptah_engine_caps(w.rig.engine, 0)->vmx_pt);
	set = new_set();
	pinned_on(cpu, ptah_engine_vmxon);
	ptah_machine_set_cpu(w.rig.machine, 0);
	refuse_start(set, cpu, PTAH_E_UNSUPPORTED, false);
	assert_non_null(strstr(w.problem.reason, "VMX"));
	pinned_on(cpu, ptah_engine_vmxoff);
	start_after_all(set, 2 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	/* It was not announced: HAL and processor know. */
	set = new_set();
	assert_int_equal(ptah_model_vmxon(model(cpu)), PTAH_OK);
	refuse_start(set, cpu, PTAH_E_UNSUPPORTED, false);
	assert_int_equal(ptah_model_vmxoff(model(cpu)), PTAH_OK);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

static uint64_t *table_of(struct ptah_captures *set, unsigned cpu)
{
	uint64_t base = 0, bytes;

	start(set);
	ptah_model_rdmsr(model(cpu), PTAH_IA32_RTIT_OUTPUT_BASE, &base);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	return (uint64_t *)(void *)ptah_machine_memory(w.rig.machine, base, &bytes);
}

static void damaged(unsigned cpu, enum way way)
{
	struct ptah_captures *set;
	uint64_t *table;

	world_open("skylake", way);
	set = new_set();
	table = table_of(set, cpu);
	table[1] |= 1u << 5;
	refuse_start(set, cpu, PTAH_E_INVAL, false);
	table[1] &= ~(UINT64_C(1) << 5);
	start_after_all(set, 4 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* The system cannot run work on the processor, at whatever step. */
static void no_interrupt(enum way way)
{
	unsigned n, failed = 0;
	uint64_t mask = 0xf;

	world_open("skylake", way);
	w.config.mask = &mask;
	w.config.words = 1;
	for (n = 1; n < 40; n++) {
		struct ptah_captures *set = new_set();
		int status;

		w.fail_run_on = n;
		status = ptah_captures_start(set, &w.problem);
		if (w.fail_run_on) { /* not as many */
			w.fail_run_on = 0;
			assert_int_equal(status, PTAH_OK);
			assert_int_equal(enabled(), mask);
			n = 40;
		} else if (status < 0) {
			failed++;
			check_problem(w.problem.cpu);
			assert_int_equal(enabled(), 0);
		}
		assert_int_equal(ptah_captures_free(set), PTAH_OK);
		assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
		check_free();
	}
	assert_true(failed >= 2 * CPUS);
	world_close();
}

TEST(a_failure_on_each_processor)
{
	static const uint32_t written[] = {
	    PTAH_IA32_RTIT_CTL,		PTAH_IA32_RTIT_STATUS,
	    PTAH_IA32_RTIT_OUTPUT_BASE, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS,
	    PTAH_IA32_RTIT_CR3_MATCH,	PTAH_IA32_RTIT_ADDR0_A,
	};
	unsigned cpu, way, i;

	for (way = 0; way < WAYS; way++) {
		for (cpu = 0; cpu < CPUS; cpu++) {
			another_tracer(cpu, way);
			another_capture(cpu, way);
			offline_at(cpu, way);
			in_vmx(cpu, way);
			damaged(cpu, way);
			register_faults(cpu, way, PTAH_IA32_RTIT_CTL, true);
			for (i = 0; i < ARRAY_SIZE(written) && way < BACKWARDS; i++)
				register_faults(cpu, way, written[i], false);
		}
		no_interrupt(way);
	}
}

/* A set that is paused, or of which some have stopped, is not resumed where one cannot be. */
TEST(resume_fails)
{
	struct ptah_captures *set;
	uint64_t *table;
	unsigned way;

	for (way = ONE_BY_ONE; way <= ALL; way++) {
		world_open("skylake", way);
		set = new_set();
		assert_int_equal(ptah_captures_resume(set, NULL), PTAH_E_INVAL);
		assert_int_equal(ptah_captures_pause(set), PTAH_E_INVAL);
		table = table_of(set, 2);
		start(set);
		mark_all(3);
		assert_int_equal(ptah_captures_pause(set), PTAH_OK);
		table[1] |= 1u << 5;
		assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_E_INVAL);
		check_problem(2);
		assert_int_equal(enabled(), 0);
		assert_int_equal(status_of(set).in_state[PTAH_CAPTURE_PAUSED], CPUS);
		assert_true(status_of(set).paused);
		table[1] &= ~(UINT64_C(1) << 5);
		w.bad_cpu = 3;
		w.bad_write = PTAH_IA32_RTIT_STATUS;
		assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_E_UNSUPPORTED);
		check_problem(3);
		assert_int_equal(w.problem.msr, PTAH_IA32_RTIT_STATUS);
		assert_int_equal(enabled(), 0);
		assert_int_equal(status_of(set).in_state[PTAH_CAPTURE_PAUSED], CPUS);
		/* One of them was paused by an event; the others run, and go on running. */
		w.bad_cpu = -1;
		assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_OK);
		ptah_machine_set_cpu(w.rig.machine, 3);
		assert_int_equal(ptah_capture_pause_here(ptah_captures_get(set, 3)), PTAH_OK);
		ptah_machine_set_cpu(w.rig.machine, 0);
		w.bad_cpu = 3;
		assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_E_UNSUPPORTED);
		check_problem(3);
		assert_int_equal(enabled(), 7);
		w.bad_cpu = -1;
		assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_OK);
		assert_int_equal(enabled(), 15);
		mark_all(3);
		assert_int_equal(ptah_captures_free(set), PTAH_OK);
		world_close();
	}
}

TEST(reconfigure_fails)
{
	static const char *const names[CPUS] = {"skylake", "skylake", "broadwell", "skylake"};
	const struct ptah_model_processor *processors[CPUS];
	struct ptah_machine_config config = {.size = sizeof(config), .cpus = CPUS};
	struct ptah_trace_config other;
	struct ptah_captures *set;
	uint64_t ctl[CPUS], now;
	unsigned n, k;

	world_open("skylake", ALL);
	/* The same arena, with processors of two kinds. */
	assert_int_equal(ptah_engine_free(w.rig.engine), PTAH_OK);
	for (n = 0; n < CPUS; n++)
		processors[n] = ptah_model_find(names[n]);
	config.processors = processors;
	config.arena = w.rig.arena;
	config.arena_size = RIG_ARENA;
	config.physical = 0x10000000;
	assert_int_equal(ptah_machine_init(w.rig.machine, &config), PTAH_OK);
	ptah_machine_hal(w.rig.machine, &w.rig.hal);
	use_port(ALL);
	assert_int_equal(ptah_engine_new(&w.rig.hal, w.rig.machine, &w.rig.engine), PTAH_OK);
	ptah_trace_config_default(ptah_engine_caps(w.rig.engine, 2), &w.trace);
	w.allocated = ptah_machine_allocated(w.rig.machine);

	other = w.trace;
	other.cyc = true;
	w.capture.trace = &other;
	assert_int_equal(ptah_captures_new(w.rig.engine, &w.config, &set, &w.problem),
			 PTAH_E_INVAL);
	check_problem(2);
	assert_string_equal(w.problem.request.field, "cyc");
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	w.capture.trace = &w.trace;
	set = new_set();
	start(set);
	for (n = 0; n < CPUS; n++)
		ptah_model_rdmsr(model(n), PTAH_IA32_RTIT_CTL, &ctl[n]);
	assert_int_equal(ptah_captures_reconfigure(set, &other, &w.problem), PTAH_E_INVAL);
	check_problem(2);
	assert_string_equal(w.problem.request.field, "cyc");
	assert_int_equal(rig_flags(ptah_captures_get(set, 0)) & PTAH_CAPTURED_RECONFIGURED, 0);
	/* Valid, but one of them cannot be reached. */
	other = w.trace;
	other.no_retcomp = true;
	for (k = 1; k <= CPUS; k++) {
		w.fail_run_on = k;
		assert_int_equal(ptah_captures_reconfigure(set, &other, &w.problem), PTAH_E_SYSTEM);
		check_problem((int)k - 1);
		for (n = 0; n < CPUS; n++) {
			ptah_model_rdmsr(model(n), PTAH_IA32_RTIT_CTL, &now);
			assert_int_equal(now, ctl[n]);
		}
	}
	w.fail_run_on = 0;
	assert_int_equal(ptah_captures_reconfigure(set, &other, NULL), PTAH_OK);
	for (n = 0; n < CPUS; n++) {
		ptah_model_rdmsr(model(n), PTAH_IA32_RTIT_CTL, &now);
		assert_int_equal(now, ctl[n] | PTAH_RTIT_CTL_DIS_RETC);
	}
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* All buffers get another size, while they trace, or none. */
TEST(another_size)
{
	struct ptah_captures_mapping maps[CPUS];
	struct ptah_captures *set;
	struct ptah_capture *c;
	unsigned n;
	size_t before;

	world_open("skylake", ALL);
	set = new_set();
	start(set);
	mark_all(200);
	before = ptah_machine_allocated(w.rig.machine);
	/* For each processor a list, a block and a table: its list cannot be had. */
	for (n = 0; n < CPUS; n++) {
		ptah_machine_fail_alloc(w.rig.machine, 2 + 3 * n);
		assert_int_equal(ptah_captures_resize(set, 131072, 8192, &w.problem), PTAH_E_NOMEM);
		ptah_machine_fail_alloc(w.rig.machine, 0);
		assert_int_equal(ptah_machine_allocated(w.rig.machine), before);
	}
	assert_int_equal(ptah_captures_resize(set, 5000, 0, &w.problem), PTAH_E_INVAL);
	assert_string_equal(w.problem.request.field, "buffer");
	assert_int_equal(ptah_captures_map(set, OWNER, false, maps, CPUS, NULL), CPUS);
	assert_int_equal(ptah_captures_resize(set, 131072, 0, &w.problem), PTAH_E_BUSY);
	assert_int_equal(ptah_captures_unmap(set, OWNER), PTAH_OK);
	for (n = 0; n < CPUS; n++)
		assert_int_equal(rig_status(ptah_captures_get(set, n)).buffer, 65536);
	assert_int_equal(ptah_captures_resize(set, 131072, 0, &w.problem), PTAH_OK);
	assert_int_equal(enabled(), (1u << CPUS) - 1);
	mark_all(200);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	for (n = 0; n < CPUS; n++) {
		c = ptah_captures_get(set, n);
		assert_int_equal(rig_status(c).buffer, 131072);
		assert_int_equal(rig_check(c, 0, rig_status(c).position, 0, 4 * SLICE), w.next[n]);
	}
	assert_int_equal(ptah_captures_resize(NULL, 131072, 0, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* Mappings */

TEST(mappings)
{
	struct ptah_captures_mapping maps[CPUS + 1];
	struct ptah_captures *set;
	unsigned n, k;
	uint64_t mask = 0xe;
	size_t bytes;

	world_open("skylake", ALL);
	w.config.mask = &mask;
	w.config.words = 1;
	set = new_set();
	start(set);
	mark_all(200);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	for (k = 1; k <= 3; k++) {
		w.fail_map = k;
		assert_int_equal(ptah_captures_map(set, OWNER, false, maps, CPUS, &w.problem),
				 PTAH_E_NOMEM);
		check_problem((int)k);
		assert_int_equal(ptah_machine_mapped(w.rig.machine), 0);
	}
	w.fail_map = 0;
	assert_int_equal(ptah_captures_map(set, OWNER, false, maps, 2, &w.problem), PTAH_E_NOSPACE);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 0);
	assert_int_equal(ptah_captures_unmap(set, OWNER), PTAH_E_INVAL);
	for (k = 0; k < 2; k++) {
		assert_int_equal(ptah_captures_map(set, OWNER, false, maps, CPUS, NULL), 3);
		for (n = 0; n < 3; n++) {
			struct ptah_piece piece;

			assert_int_equal(maps[n].cpu, n + 1);
			assert_ptr_equal(maps[n].capture, ptah_captures_get(set, n + 1));
			assert_int_equal(maps[n].size, 65536);
			assert_int_equal(ptah_capture_pieces(maps[n].capture, 0,
							     ptah_capture_position(maps[n].capture),
							     &piece, 1),
					 1);
			assert_memory_equal(ptah_machine_user(w.rig.machine, OWNER,
							      maps[n].address + piece.offset,
							      &bytes),
					    piece.address, piece.size);
		}
	}
	/* The second call has returned the first mappings, and one that fails keeps them. */
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 3);
	assert_int_equal(ptah_captures_map(set, OWNER, false, maps, 2, NULL), PTAH_E_NOSPACE);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 3);
	assert_int_equal(ptah_captures_map(set, OWNER, true, maps, CPUS, NULL), 3);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 6); /* another way of access */
	assert_int_equal(ptah_captures_free(set), PTAH_E_BUSY);
	start(set); /* nothing has changed */
	assert_int_equal(enabled(), 0xe);
	/* Of another owner, for one buffer alone. */
	assert_int_equal(ptah_capture_map(maps[1].capture, OWNER + 1, false, &maps[3].address),
			 PTAH_OK);
	assert_int_equal(ptah_captures_unmap(set, OWNER), PTAH_OK);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 1);
	assert_int_equal(ptah_captures_free(set), PTAH_E_BUSY);
	assert_int_equal(ptah_captures_unmap(set, OWNER + 1), PTAH_OK);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* The pages of all captures, or of none. */
TEST(pages)
{
	struct ptah_captures_mapping maps[CPUS], others[CPUS];
	struct ptah_capture_reader reader;
	struct ptah_capture_view view;
	struct ptah_captures *set;
	unsigned n;
	uint64_t mask = 0xe;
	size_t bytes;

	world_open("skylake", ALL);
	w.config.mask = &mask;
	w.config.words = 1;
	set = new_set();
	assert_int_equal(ptah_captures_map(set, OWNER, false, maps, CPUS, NULL), 3);
	for (n = 0; n < 3; n++)
		assert_int_equal(maps[n].page, 0);
	for (n = 1; n <= 3; n++) {
		w.fail_map = n;
		assert_int_equal(ptah_captures_map_pages(set, OWNER, true, maps, 3, &w.problem),
				 PTAH_E_NOMEM);
		check_problem((int)n);
		assert_int_equal(ptah_machine_mapped(w.rig.machine), 3);
	}
	w.fail_map = 0;
	assert_int_equal(ptah_captures_map_pages(NULL, OWNER, true, maps, 3, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_map_pages(set, OWNER, true, maps, 3, NULL), PTAH_OK);
	start(set);
	mark_all(200);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	for (n = 0; n < 3; n++) {
		assert_true(ptah_capture_reader_init(
		    &reader, ptah_machine_user(w.rig.machine, OWNER, maps[n].page, &bytes), NULL));
		assert_true(ptah_capture_reader_view(&reader, &view));
		assert_int_equal(reader.page->processor, maps[n].cpu);
		assert_int_equal(view.position, rig_output(&w.rig, n + 1));
		assert_int_equal(view.state, PTAH_CAPTURE_IDLE);
	}
	/* One consumer; the observer's buffers stay when it cannot have that. */
	assert_int_equal(ptah_captures_map(set, OWNER + 1, false, others, CPUS, NULL), 3);
	assert_int_equal(ptah_captures_map_pages(set, OWNER + 1, true, others, 3, &w.problem),
			 PTAH_E_BUSY);
	assert_int_equal(w.problem.cpu, 1);
	assert_int_equal(ptah_captures_map_pages(set, OWNER + 1, false, others, 3, NULL), PTAH_OK);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 12);
	assert_int_equal(ptah_captures_unmap(set, OWNER), PTAH_OK);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 6);
	ptah_engine_release_owner(w.rig.engine, OWNER + 1);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 0);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* Time */

static void clear_times(void)
{
	memset(&w.set, 0, sizeof(w.set));
	memset(&w.cleared, 0, sizeof(w.cleared));
}

/* The skew that is reported is that of the processors' clocks. */
TEST(skew)
{
	static const uint64_t delays[][CPUS] = {
	    {0, 0, 0, 0}, {5000, 0, 0, 0}, {0, 100, 20000, 3}, {0, 0, 0, 777777}};
	struct ptah_captures_status s;
	struct ptah_captures *set;
	unsigned way, i, n;

	for (way = 0; way < WAYS; way++) {
		for (i = 0; i < ARRAY_SIZE(delays); i++) {
			world_open("skylake", way);
			w.cost = 10 + i;
			memcpy(w.delay, delays[i], sizeof(w.delay));
			pass(1000000);
			ptah_machine_on_gap(w.rig.machine, gap, NULL);
			set = new_set();
			s = status_of(set);
			assert_true(!s.began.cpus && !s.ended.cpus);
			clear_times();
			start(set);
			s = status_of(set);
			assert_int_equal(w.set.n, CPUS);
			assert_int_equal(s.began.cpus, CPUS);
			assert_int_equal(s.began.last - s.began.first, w.set.last - w.set.first);
			assert_true(s.began.last > s.began.first);
			/* Read directly after TraceEn was set: one instruction of the engine. */
			assert_int_equal(s.began.first, w.set.first + w.cost);
			assert_int_equal(s.ended.cpus, 0);
			/* One thread acts for all processors: they cannot have met. */
			assert_false(s.began.together);
			clear_times();
			assert_int_equal(ptah_captures_pause(set), PTAH_OK);
			s = status_of(set);
			assert_int_equal(w.cleared.n, CPUS);
			assert_int_equal(s.ended.cpus, CPUS);
			assert_int_equal(s.ended.last - s.ended.first,
					 w.cleared.last - w.cleared.first);
			/* A stop does not change TraceEn then. */
			assert_int_equal(ptah_captures_stop(set), PTAH_OK);
			assert_int_equal(status_of(set).ended.cpus, CPUS);
			assert_int_equal(status_of(set).ended.first, s.ended.first);
			start(set);
			assert_int_equal(ptah_captures_pause(set), PTAH_OK);
			clear_times();
			assert_int_equal(ptah_captures_resume(set, NULL), PTAH_OK);
			s = status_of(set);
			assert_int_equal(s.began.last - s.began.first, w.set.last - w.set.first);
			/* One whose clock cannot be read, and nobody's can. */
			w.bad_read = PTAH_IA32_TIME_STAMP_COUNTER;
			w.bad_cpu = 1;
			clear_times();
			assert_int_equal(ptah_captures_stop(set), PTAH_OK);
			assert_int_equal(status_of(set).ended.cpus, CPUS - 1);
			start(set);
			assert_int_equal(status_of(set).began.cpus, CPUS - 1);
			/* A flush is no moment at which they began. */
			w.bad_cpu = -1;
			s = status_of(set);
			assert_int_equal(ptah_captures_flush(set), PTAH_OK);
			assert_int_equal(status_of(set).began.first, s.began.first);
			assert_int_equal(ptah_captures_free(set), PTAH_OK);
			ptah_machine_on_gap(w.rig.machine, NULL, NULL);
			for (n = 0; n < CPUS; n++)
				assert_false(rig_enabled(&w.rig, n));
			world_close();
		}
	}
	/* A set of one has met. */
	{
		uint64_t mask = 4;

		world_open("skylake", ALL);
		pass(1);
		w.config.mask = &mask;
		w.config.words = 1;
		set = new_set();
		start(set);
		s = status_of(set);
		assert_true(s.began.together && s.began.cpus == 1);
		assert_int_equal(ptah_captures_free(set), PTAH_OK);
		world_close();
	}
}

/* Processors that come and go */

TEST(all_and_later_ones)
{
	struct ptah_capture *first, *late;
	struct ptah_captures_status s;
	struct ptah_captures *set;
	size_t allocated;
	unsigned way, n;

	for (way = ONE_BY_ONE; way <= ALL; way++) {
		world_open("skylake", way);
		forget(0x6);
		w.capture.region = 4096;
		set = new_set();
		s = status_of(set);
		assert_true(s.cpus == 2 && s.waiting == 2);
		assert_int_equal(ptah_captures_update(set, &w.problem), 0);
		start(set);
		assert_int_equal(enabled(), 0x9);
		first = ptah_captures_get(set, 0);
		online(2);
		ptah_machine_set_cpu(w.rig.machine, 0);
		assert_int_equal(enabled(), 0x9);
		/* It fails at every allocation, and where another capture is. */
		allocated = ptah_machine_allocated(w.rig.machine);
		for (n = 1; n <= 3; n += 2) { /* n = 2: the buffer is in several blocks then */
			ptah_machine_fail_alloc(w.rig.machine, n);
			assert_int_equal(ptah_captures_update(set, &w.problem), PTAH_E_NOMEM);
			check_problem(2);
			assert_int_equal(ptah_machine_allocated(w.rig.machine), allocated);
			assert_null(ptah_captures_get(set, 2));
		}
		w.capture.cpu = 2;
		late = rig_capture(&w.rig, &w.capture);
		assert_int_equal(ptah_capture_start(late), PTAH_OK);
		assert_int_equal(ptah_captures_update(set, &w.problem), PTAH_E_BUSY);
		check_problem(2);
		assert_null(ptah_captures_get(set, 2));
		assert_int_equal(enabled(), 0xd);
		assert_int_equal(ptah_capture_free(late), PTAH_OK);
		assert_int_equal(ptah_machine_allocated(w.rig.machine), allocated);
		w.bad_cpu = 2;
		w.bad_write = PTAH_IA32_RTIT_STATUS;
		/* A consumer would use a capture that is freed again. */
		w.updated = set;
		assert_int_equal(ptah_captures_update(set, &w.problem), PTAH_E_UNSUPPORTED);
		w.updated = NULL;
		w.bad_cpu = -1;
		assert_int_equal(ptah_machine_allocated(w.rig.machine), allocated);
		assert_int_equal(enabled(), 0x9);
		w.others[2] = rig_output(&w.rig, 2);
		/* And works at last; the others have gone on. */
		assert_int_equal(ptah_captures_update(set, &w.problem), 1);
		assert_int_equal(enabled(), 0xd);
		assert_ptr_equal(ptah_captures_get(set, 0), first);
		assert_int_equal(ptah_captures_next(set, 0), 2);
		assert_int_equal(status_of(set).began.cpus, 0); /* the clocks are at 0 */
		assert_int_equal(rig_status(first).starts, 1);
		assert_int_equal(ptah_captures_update(set, &w.problem), 0);
		mark_all(20);
		/* While the set is paused, a new one is paused as well. */
		assert_int_equal(ptah_captures_pause(set), PTAH_OK);
		online(1);
		assert_int_equal(ptah_captures_update(set, &w.problem), 1);
		assert_int_equal(enabled(), 0);
		s = status_of(set);
		assert_true(s.cpus == 4 && s.waiting == 0);
		assert_int_equal(s.in_state[PTAH_CAPTURE_PAUSED], 4);
		assert_int_equal(ptah_captures_resume(set, NULL), PTAH_OK);
		assert_int_equal(enabled(), 0xf);
		mark_all(5);
		assert_int_equal(ptah_captures_stop(set), PTAH_OK);
		check_all(set, 3 * SLICE);
		assert_int_equal(ptah_captures_free(set), PTAH_OK);
		check_free();
		world_close();
	}
}

TEST(hotplug)
{
	struct ptah_captures_status s;
	struct ptah_captures *set;
	uint64_t mask = 0xf;
	unsigned way;

	for (way = ONE_BY_ONE; way <= ALL; way++) {
		world_open("skylake", way);
		/* Known and offline: it starts by itself, even where there is a mask. */
		w.config.mask = &mask;
		w.config.words = 1;
		w.config.offline = true;
		offline(2);
		set = new_set();
		start(set);
		assert_int_equal(enabled(), 0xb);
		s = status_of(set);
		assert_true(s.cpus == 4 && s.waiting == 0);
		assert_int_equal(s.in_state[PTAH_CAPTURE_BLOCKED], 1);
		mark_all(4);
		online(2);
		assert_int_equal(enabled(), 0xf);
		mark_all(4);
		/* One goes, and all calls work without it. */
		offline(0);
		assert_int_equal(enabled(), 0xe);
		assert_int_equal(ptah_captures_flush(set), PTAH_OK);
		mark_all(4);
		assert_int_equal(ptah_captures_pause(set), PTAH_OK);
		assert_int_equal(enabled(), 0);
		online(0);
		assert_int_equal(enabled(), 0); /* paused */
		offline(0);
		assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_OK);
		assert_int_equal(enabled(), 0xe);
		w.trace.no_retcomp = true;
		assert_int_equal(ptah_captures_reconfigure(set, &w.trace, NULL), PTAH_OK);
		mark_all(4);
		online(0);
		assert_int_equal(enabled(), 0xf);
		mark_all(4);
		offline(3);
		assert_int_equal(ptah_captures_stop(set), PTAH_OK);
		check_all(set, 8 * SLICE);
		online(3);
		assert_int_equal(enabled(), 0);
		assert_true(rig_flags(ptah_captures_get(set, 0)) & PTAH_CAPTURED_PARTIAL);
		start(set);
		assert_int_equal(enabled(), 0xf);
		offline(1);
		assert_int_equal(ptah_captures_free(set), PTAH_OK);
		online(1);
		check_free();
		world_close();
	}
}

/* The system reaches a processor again, and ptah_engine_cpu_online() has not been called yet. */
static void reach_early(enum way way, bool announced)
{
	struct ptah_captures *set;

	world_open("skylake", way);
	/* A port that does not announce it breaks a rule; nothing may be left behind then. */
	if (announced)
		offline(1);
	else
		ptah_machine_set_online(w.rig.machine, 1, false);
	set = new_set();
	start(set);
	assert_int_equal(ptah_captures_pause(set), PTAH_OK);
	ptah_machine_set_online(w.rig.machine, 1, true);
	assert_int_equal(ptah_captures_resume(set, &w.problem), PTAH_OK);
	assert_int_equal(enabled(), 0xd);
	assert_int_equal(ptah_captures_flush(set), PTAH_OK);
	mark_all(10);
	online(1);
	assert_int_equal(enabled(), 0xf);
	mark_all(10);
	assert_int_equal(ptah_captures_stop(set), PTAH_OK);
	check_all(set, 3 * SLICE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	check_free();
	world_close();
}

TEST(half_online)
{
	unsigned way;

	for (way = 0; way < WAYS; way++) {
		reach_early(way, true);
		reach_early(way, false);
	}
}

/* It goes offline between the two steps of a start: before the first interrupt, the second, ... */
static unsigned vanish_at;
static void vanishing_gap(void *argument, unsigned cpu, const char *callback)
{
	(void)argument, (void)callback;
	if (vanish_at && cpu != 3 && !--vanish_at)
		ptah_machine_set_online(w.rig.machine, 3, false);
}

TEST(offline_meanwhile)
{
	struct ptah_captures *set;
	uint64_t mask = 0xf;
	unsigned way, n, failed = 0, done = 0;

	for (way = ONE_BY_ONE; way <= ALL; way++) {
		for (n = 1; n < 120; n += 3) {
			int status;

			world_open("skylake", way);
			w.config.mask = &mask;
			w.config.words = 1;
			set = new_set();
			vanish_at = n;
			ptah_machine_on_gap(w.rig.machine, vanishing_gap, NULL);
			status = ptah_captures_start(set, &w.problem);
			ptah_machine_on_gap(w.rig.machine, NULL, NULL);
			if (status == PTAH_E_OFFLINE) {
				failed++;
				check_problem(3);
				assert_int_equal(enabled(), 0);
			} else {
				assert_int_equal(status, PTAH_OK);
				done++;
			}
			/* The port has called nothing: as if the interrupt had been lost. */
			ptah_machine_set_online(w.rig.machine, 3, true);
			assert_int_equal(ptah_captures_free(set), PTAH_OK);
			check_free();
			world_close();
		}
	}
	assert_true(failed > 10 && done > 5);
}

/* Owners, and what is refused */

TEST(owner_dies)
{
	struct ptah_captures_mapping maps[CPUS];
	struct ptah_captures *set, *other;
	uint64_t mask[2] = {0x3, 0}, rest[1] = {0xc};

	world_open("skylake", ALL);
	w.config.mask = mask;
	w.config.words = 2;
	set = new_set();
	w.config.mask = rest;
	w.config.words = 1;
	w.capture.owner = OWNER + 1;
	other = new_set();
	start(set);
	start(other);
	mark_all(30);
	assert_int_equal(ptah_captures_map(set, OWNER, true, maps, CPUS, NULL), 2);
	assert_int_equal(ptah_captures_map(set, OWNER + 1, false, maps, CPUS, NULL), 2);
	assert_int_equal(ptah_captures_map(other, OWNER, false, maps, CPUS, NULL), 2);
	assert_int_equal(ptah_engine_free(w.rig.engine), PTAH_E_BUSY);
	assert_int_equal(ptah_engine_release_owner(w.rig.engine, OWNER), 2);
	assert_int_equal(enabled(), 0xc);
	assert_int_equal(ptah_machine_mapped(w.rig.machine), 0);
	mark_all(30);
	assert_int_equal(ptah_captures_stop(other), PTAH_OK);
	check_all(other, 2 * SLICE);
	assert_int_equal(ptah_engine_release_owner(w.rig.engine, OWNER), 0);
	assert_int_equal(ptah_captures_free(other), PTAH_OK);
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	check_free();
	/* Paused, and with a processor that is offline. */
	w.config.mask = NULL;
	set = new_set();
	start(set);
	offline(1);
	assert_int_equal(ptah_captures_pause(set), PTAH_OK);
	assert_int_equal(ptah_engine_release_owner(w.rig.engine, OWNER + 1), 4);
	online(1);
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	check_free();
	world_close();
}

TEST(refused)
{
	struct ptah_captures_config config;
	struct ptah_captures *set = NULL;
	uint64_t mask[2] = {0, 0};

	world_open("skylake", ALL);
	config = w.config;
	assert_int_equal(ptah_captures_new(NULL, &config, &set, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_new(w.rig.engine, NULL, &set, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, NULL, NULL), PTAH_E_INVAL);
	config.size--;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, NULL), PTAH_E_INVAL);
	config = w.config;
	config.capture = NULL;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, NULL), PTAH_E_INVAL);
	config = w.config;
	w.capture.trace = NULL;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, NULL), PTAH_E_INVAL);
	w.capture.trace = &w.trace;
	config.mask = mask;
	config.words = 2;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, &w.problem), PTAH_E_INVAL);
	check_problem(-1);
	mask[0] = 1 << 4;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, &w.problem), PTAH_E_INVAL);
	mask[0] = 3;
	mask[1] = 2;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, &w.problem),
			 PTAH_E_OFFLINE);
	check_problem(65);
	mask[1] = 0;
	w.capture.policy = PTAH_POLICY_MAX;
	assert_int_equal(ptah_captures_new(w.rig.engine, &config, &set, &w.problem), PTAH_E_INVAL);
	check_problem(0);
	assert_string_equal(w.problem.request.field, "policy");
	w.capture.policy = 0;
	assert_int_equal(ptah_machine_allocated(w.rig.machine), w.allocated);
	assert_int_equal(ptah_captures_start(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_stop(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_pause(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_resume(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_flush(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_update(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_reconfigure(NULL, &w.trace, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_status(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_live(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_map(NULL, 0, false, NULL, 0, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_unmap(NULL, 0), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_free(NULL), PTAH_OK);
	assert_int_equal(ptah_captures_next(NULL, -1), PTAH_E_INVAL);
	assert_null(ptah_captures_get(NULL, 0));
	/* A member is the set's. */
	set = new_set();
	assert_int_equal(ptah_capture_free(ptah_captures_get(set, 1)), PTAH_E_BUSY);
	assert_int_equal(ptah_engine_free(w.rig.engine), PTAH_E_BUSY);
	assert_int_equal(ptah_captures_next(set, -2), PTAH_E_INVAL);
	assert_int_equal(ptah_captures_next(set, 3), PTAH_E_OFFLINE);
	assert_int_equal(ptah_captures_next(set, INT32_MAX), PTAH_E_OFFLINE);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	/* An engine with a set that has no capture yet is not freed either. */
	forget(0xe);
	mask[0] = 2;
	w.config.mask = mask;
	w.config.words = 1;
	w.config.offline = true;
	set = new_set();
	assert_int_equal(ptah_captures_next(set, -1), PTAH_E_OFFLINE);
	assert_int_equal(ptah_engine_free(w.rig.engine), PTAH_E_BUSY);
	start(set);
	assert_int_equal(ptah_captures_flush(set), PTAH_OK);
	online(1);
	assert_int_equal(ptah_captures_update(set, NULL), 1);
	assert_int_equal(enabled(), 2);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}

/* Each processor's consumer is woken with its own cookie. `paused`: start arms only. */
TEST(cookies_and_armed)
{
	void *cookies[CPUS];
	struct ptah_captures *set;
	unsigned n;

	world_open("skylake", ALL);
	for (n = 0; n < CPUS; n++)
		cookies[n] = &w.woken[n];
	w.config.cookies = cookies;
	w.capture.pmis = 4;
	w.capture.paused = true;
	set = new_set();
	start(set);
	assert_int_equal(enabled(), 0);
	assert_true(status_of(set).paused);
	assert_int_equal(w.woken[2], 0);
	assert_int_equal(ptah_captures_resume(set, NULL), PTAH_OK);
	assert_int_equal(enabled(), 0xf);
	for (n = 0; n < CPUS; n++)
		assert_int_equal(w.woken[n], 1);
	mark(2, 10000);
	assert_true(w.woken[2] > 1 && w.woken[1] == 1);
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	world_close();
}
