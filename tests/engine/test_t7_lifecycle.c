/* SPDX-License-Identifier: MIT */
/*
 * Test group T7: the life of a capture. For every call in every state,
 * repeated, too early or after the owner's death: the result is the one that
 * engine.h documents, the position is exact and never goes back, TraceEn is 1
 * only in the state RUNNING, and nothing is left allocated.
 */
#include "engine/rig.h"

#include <ptah/event.h>

#include <limits.h>

/* The most bytes that a processor writes by itself when it starts and stops. */
#define SLICE 128u

#define FIRST_IP UINT64_C(0x400000)
#define RANGE	 UINT64_C(0x500000)

/* A program of indirect jumps, on processor 0 */

static void stand(struct rig *rig, uint64_t ip)
{
	const struct ptah_model_context context = {
	    .cpl = 3, .mode = PTAH_EXEC_64, .interrupts = true};

	ptah_model_begin(ptah_machine_model(rig->machine, 0), ip, &context);
}

static void jump(struct rig *rig, uint64_t from, uint64_t to)
{
	const struct ptah_model_branch branch = {from, from + 2, to, PTAH_INSN_JUMP_IND, true};

	ptah_model_branch(ptah_machine_model(rig->machine, 0), &branch);
}

static uint64_t msr(struct rig *rig, uint32_t number)
{
	uint64_t value;

	assert_int_equal(ptah_model_rdmsr(ptah_machine_model(rig->machine, 0), number, &value),
			 PTAH_OK);
	return value;
}

static void pinned(struct rig *rig, void (*what)(struct ptah_engine *engine))
{
	uint64_t irqs = rig->hal.irq_save(rig->machine);

	what(rig->engine);
	rig->hal.irq_restore(rig->machine, irqs);
}

static int switch_in(struct rig *rig, struct ptah_capture *c)
{
	uint64_t irqs = rig->hal.irq_save(rig->machine);
	int status = ptah_capture_switch_in(c);

	rig->hal.irq_restore(rig->machine, irqs);
	return status;
}

static void switch_out(struct rig *rig, struct ptah_capture *c)
{
	uint64_t irqs = rig->hal.irq_save(rig->machine);

	ptah_capture_switch_out(c);
	rig->hal.irq_restore(rig->machine, irqs);
}

/* Stop, start */

/* A second stop changes neither the position nor the status. */
TEST(stop_twice)
{
	struct ptah_capture_status first, second;
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_position(c), 0);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_mark(&rig, 0, 10000);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	first = rig_status(c);
	assert_int_equal(first.position, rig_output(&rig, 0));
	assert_true(first.position > 10000 * MARK);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	second = rig_status(c);
	assert_memory_equal(&first, &second, sizeof(first));
	/* Another tracer may use the registers now. */
	assert_false(rig_enabled(&rig, 0));
	assert_int_equal(rig_check(c, first.oldest, first.position, UINT64_MAX, 2 * SLICE), 10000);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

/*
 * Each start is like the first: same options, same memory, and the bytes follow
 * those of the start before.
 */
static void start_again(const char *processor, uint8_t shape)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t ctl = 0, n = 0;
	size_t allocated;
	unsigned i;

	rig_open(&rig, ptah_model_find(processor), 1);
	config = rig_config(&rig, &trace);
	config.shape = shape;
	trace.no_retcomp = true;
	c = rig_capture(&rig, &config);
	allocated = ptah_machine_allocated(rig.machine);
	for (i = 0; i < 20; i++) {
		uint64_t before;

		stand(&rig, FIRST_IP);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_true(msr(&rig, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_TRACE_EN);
		if (i)
			assert_int_equal(msr(&rig, PTAH_IA32_RTIT_CTL), ctl);
		ctl = msr(&rig, PTAH_IA32_RTIT_CTL);
		/* It traces: a jump causes a packet. */
		before = rig_output(&rig, 0);
		jump(&rig, FIRST_IP, FIRST_IP + 0x1000);
		assert_true(rig_output(&rig, 0) > before);
		rig_mark(&rig, 0, 100);
		n += 100;
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_int_equal(ptah_capture_position(c), rig_output(&rig, 0));
		assert_int_equal(rig_check(c, 0, rig_output(&rig, 0), 0, (i + 1) * SLICE), n);
	}
	assert_int_equal(ptah_machine_allocated(rig.machine), allocated);
	assert_int_equal(rig_status(c).starts, 20);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

TEST(starts_again)
{
	start_again("skylake", PTAH_SHAPE_RING);
	start_again("skylake", PTAH_SHAPE_OVERFLOW);
	start_again("skylake", PTAH_SHAPE_SINGLE);
	start_again("minimal-range", PTAH_SHAPE_AUTO);
	start_again("maximal", PTAH_SHAPE_AUTO);
}

/* While it is paused */

TEST(filter_while_paused)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_trace_problem problem;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t position, output;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	trace.ranges[1] = (struct ptah_range){0, UINT32_MAX, PTAH_RANGE_FILTER};
	c = rig_capture(&rig, &config);
	stand(&rig, FIRST_IP);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	jump(&rig, FIRST_IP, FIRST_IP + 0x100);
	rig_mark(&rig, 0, 100);
	assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	position = ptah_capture_position(c);
	assert_int_equal(position, rig_output(&rig, 0));
	trace.ranges[0] = (struct ptah_range){RANGE, RANGE + 0xfff, PTAH_RANGE_FILTER};
	trace.ranges[1].mode = PTAH_RANGE_OFF;
	assert_int_equal(ptah_capture_reconfigure(c, &trace, &problem), PTAH_OK);
	/* It stays paused, nothing was lost, and nothing starts again from the beginning. */
	assert_int_equal(rig_status(c).state, PTAH_CAPTURE_PAUSED);
	assert_false(rig_enabled(&rig, 0));
	assert_int_equal(ptah_capture_position(c), position);
	assert_int_equal(rig_check(c, 0, position, 0, SLICE), 100);
	/* Options that are refused change nothing either. */
	trace.ranges[0].last = UINT64_C(1) << 60;
	assert_int_equal(ptah_capture_reconfigure(c, &trace, &problem), PTAH_E_INVAL);
	assert_string_equal(problem.field, "ranges[0].last");
	stand(&rig, FIRST_IP);
	assert_int_equal(ptah_capture_resume(c), PTAH_OK);
	assert_int_equal(msr(&rig, PTAH_IA32_RTIT_ADDR(0)), RANGE);
	assert_int_equal(msr(&rig, PTAH_IA32_RTIT_ADDR(0) + 1), RANGE + 0xfff);
	/* The previous range was removed, from its registers as well. */
	assert_int_equal(msr(&rig, PTAH_IA32_RTIT_ADDR(1) + 1), 0);
	output = rig_output(&rig, 0);
	jump(&rig, FIRST_IP, FIRST_IP + 0x100);
	assert_int_equal(rig_output(&rig, 0), output);
	jump(&rig, FIRST_IP + 0x100, RANGE + 0x10);
	jump(&rig, RANGE + 0x10, RANGE + 0x20);
	assert_true(rig_output(&rig, 0) > output);
	rig_mark(&rig, 0, 100);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_position(c), rig_output(&rig, 0));
	assert_int_equal(rig_check(c, 0, rig_output(&rig, 0), 0, 2 * SLICE), 200);
	assert_true(rig_flags(c) & PTAH_CAPTURED_RECONFIGURED);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

TEST(flush_while_paused)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t position;
	unsigned i;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	config.paused = true;
	c = rig_capture(&rig, &config);
	/* Only armed. */
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_int_equal(rig_status(c).state, PTAH_CAPTURE_PAUSED);
	assert_false(rig_enabled(&rig, 0));
	for (i = 0; i < 3; i++) {
		assert_int_equal(ptah_capture_flush(c, &position), PTAH_OK);
		assert_int_equal(position, rig_output(&rig, 0));
		assert_false(rig_enabled(&rig, 0));
		assert_int_equal(rig_status(c).state, PTAH_CAPTURE_PAUSED);
		assert_int_equal(ptah_capture_resume(c), PTAH_OK);
		assert_true(rig_enabled(&rig, 0));
		rig_mark(&rig, 0, 100);
		assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	}
	assert_int_equal(rig_check(c, 0, rig_output(&rig, 0), 0, 3 * SLICE), 300);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

/* Pause, resume, other options, start again: one position, and every byte up to it. */
TEST(one_position)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_trace_problem problem;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	unsigned i;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	config = rig_config(&rig, &trace);
	config.region = 4096;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_pause(c), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (i = 0; i < 20; i++) {
		rig_mark(&rig, 0, 50);
		assert_int_equal(ptah_capture_pause(c), PTAH_OK);
		assert_false(rig_enabled(&rig, 0));
		assert_int_equal(rig_status(c).position, rig_output(&rig, 0));
		trace.no_retcomp = i & 1;
		assert_int_equal(ptah_capture_reconfigure(c, &trace, &problem), PTAH_OK);
		assert_false(rig_enabled(&rig, 0));
		assert_int_equal(ptah_capture_resume(c), PTAH_OK);
		assert_true(rig_enabled(&rig, 0));
		rig_mark(&rig, 0, 50);
		trace.ranges[0] =
		    (struct ptah_range){0x1000 * i, 0x1000 * i + 99, PTAH_RANGE_FILTER};
		assert_int_equal(ptah_capture_reconfigure(c, &trace, &problem), PTAH_OK);
		assert_true(rig_enabled(&rig, 0));
		trace.ranges[0].mode = 9;
		assert_int_equal(ptah_capture_reconfigure(c, &trace, &problem), PTAH_E_INVAL);
		trace.ranges[0].mode = PTAH_RANGE_OFF;
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	s = rig_status(c);
	assert_int_equal(s.position, rig_output(&rig, 0));
	assert_int_equal(rig_check(c, 0, s.position, 0, SLICE * 130), 20 * 100);
	assert_true(rig_flags(c) & PTAH_CAPTURED_RECONFIGURED);
	ptah_capture_free(c);
	rig_close(&rig);
}

/* Paused and resumed from an NMI; a capture of another processor is not changed. */
TEST(from_an_nmi)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	config = rig_config(&rig, &trace);
	config.region = 4096;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_pause_here(c), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_mark(&rig, 0, 10);
	assert_int_equal(ptah_capture_pause_here(c), PTAH_OK);
	assert_false(rig_enabled(&rig, 0));
	assert_int_equal(rig_status(c).state, PTAH_CAPTURE_PAUSED);
	assert_int_equal(ptah_capture_position(c), rig_output(&rig, 0));
	assert_int_equal(ptah_capture_resume_here(c), PTAH_OK);
	assert_true(rig_enabled(&rig, 0));
	ptah_machine_set_cpu(rig.machine, 1);
	assert_int_equal(ptah_capture_pause_here(c), PTAH_E_INVAL);
	assert_true(rig_enabled(&rig, 0));
	ptah_machine_set_cpu(rig.machine, 0);
	ptah_capture_free(c);
	assert_false(rig_enabled(&rig, 0));
	rig_close(&rig);
}

/* Owners */

TEST(free_while_mapped)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t address[8], more;
	unsigned i;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (i = 0; i < 8; i++)
		assert_int_equal(ptah_capture_map(c, i / 2, i & 1, &address[i]), PTAH_OK);
	assert_int_equal(ptah_capture_map(c, 9, false, &more), PTAH_E_LIMIT);
	for (i = 0; i < 8; i++) {
		/* Refused, and the trace continues. */
		assert_int_equal(ptah_capture_free(c), PTAH_E_BUSY);
		assert_true(rig_enabled(&rig, 0));
		assert_int_equal(ptah_capture_unmap(c, 77, address[i]), PTAH_E_INVAL);
		assert_int_equal(ptah_capture_unmap(c, i / 2, address[i] + 4096), PTAH_E_INVAL);
		assert_int_equal(ptah_capture_unmap(c, i / 2, address[i]), PTAH_OK);
		assert_int_equal(ptah_capture_unmap(c, i / 2, address[i]), PTAH_E_INVAL);
	}
	assert_int_equal(ptah_engine_free(rig.engine), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_false(rig_enabled(&rig, 0));
	assert_int_equal(ptah_capture_free(NULL), PTAH_OK);
	assert_int_equal(ptah_engine_free(NULL), PTAH_OK);
	rig_close(&rig);
}

/*
 * An owner dies with captures on two processors, one of a thread that is
 * switched in, and mappings.
 */
TEST(owner_dies)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *bound, *thread, *idle, *other;
	struct rig rig;
	uint64_t address, second;
	size_t before;

	rig_open(&rig, ptah_model_find("skylake"), 3);
	config = rig_config(&rig, &trace);
	config.owner = 8;
	config.cpu = 2;
	other = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(other), PTAH_OK);
	before = ptah_machine_allocated(rig.machine);
	config.owner = 7;
	config.cpu = 0;
	bound = rig_capture(&rig, &config);
	idle = rig_capture(&rig, &config);
	config.cpu = PTAH_CAPTURE_THREAD;
	thread = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(bound), PTAH_OK);
	assert_int_equal(ptah_capture_start(thread), PTAH_OK);
	ptah_machine_set_cpu(rig.machine, 1);
	assert_int_equal(switch_in(&rig, thread), PTAH_OK);
	assert_true(rig_enabled(&rig, 0) && rig_enabled(&rig, 1) && rig_enabled(&rig, 2));
	/*
	 * Its mapping of another owner's capture is removed, and so is another owner's mapping
	 * of its capture.
	 */
	assert_int_equal(ptah_capture_map(idle, 7, true, &address), PTAH_OK);
	assert_int_equal(ptah_capture_map(bound, 8, false, &address), PTAH_OK);
	assert_int_equal(ptah_capture_map(other, 7, false, &second), PTAH_OK);
	ptah_machine_set_cpu(rig.machine, 2);
	assert_int_equal(ptah_engine_release_owner(rig.engine, 7), 3);
	assert_false(rig_enabled(&rig, 0) || rig_enabled(&rig, 1));
	assert_true(rig_enabled(&rig, 2));
	assert_int_equal(ptah_machine_mapped(rig.machine), 0);
	assert_true(ptah_machine_allocated(rig.machine) == before);
	assert_int_equal(ptah_engine_release_owner(rig.engine, 7), 0);
	/* The processors can be traced by others again. */
	config.cpu = 0;
	bound = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(bound), PTAH_OK);
	assert_int_equal(ptah_capture_free(bound), PTAH_OK);
	assert_int_equal(ptah_engine_release_owner(rig.engine, 8), 1);
	rig_close(&rig);
}

/* The registers of another tracer, or of another capture, stay as they are. */
static struct {
	struct rig *rig;
	void (*unmap)(void *port, uint64_t owner, uint64_t address, size_t size);
	size_t before;
} deaths;

/* Owner 7 dies just when this mapping of its capture is removed, because owner 8 has died. */
static void unmap_slowly(void *port, uint64_t owner, uint64_t address, size_t size)
{
	if (owner == 8 && deaths.rig) {
		struct rig *rig = deaths.rig;

		deaths.rig = NULL;
		deaths.before = ptah_machine_allocated(rig->machine);
		assert_int_equal(ptah_engine_release_owner(rig->engine, 7), 1);
		/* The mapping is still there, so the memory must be, too. */
		assert_int_equal(ptah_machine_allocated(rig->machine), deaths.before);
	}
	deaths.unmap(port, owner, address, size);
}

/* Two owners die at the same time, one of which has the other's buffer mapped, or its page. */
TEST(owners_die_together)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct ptah_pool *pool;
	struct rig rig;
	uint64_t address;
	size_t before, n;

	for (n = 0; n < 4; n++) {
		rig_open(&rig, ptah_model_find("skylake"), 1);
		deaths.unmap = rig.hal.user_unmap;
		rig.hal.user_unmap = unmap_slowly;
		config = rig_config(&rig, &trace);
		config.owner = 7;
		assert_int_equal(ptah_pool_new(rig.engine, &config, 1, &pool, NULL), PTAH_OK);
		before = ptah_machine_allocated(rig.machine);
		if (n & 1)
			assert_int_equal(ptah_pool_take(pool, 7, NULL, NULL, &c, NULL), PTAH_OK);
		else
			c = rig_capture(&rig, &config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(n & 2 ? ptah_capture_map_page(c, 8, true, &address)
				       : ptah_capture_map(c, 8, false, &address),
				 PTAH_OK);
		deaths.rig = &rig;
		assert_int_equal(ptah_engine_release_owner(rig.engine, 8), 0);
		assert_null(deaths.rig);
		assert_int_equal(ptah_machine_mapped(rig.machine), 0);
		assert_int_equal(ptah_machine_allocated(rig.machine), before);
		/* One of a pool can be taken again, and mapped. */
		assert_int_equal(ptah_pool_take(pool, 9, NULL, NULL, &c, NULL), PTAH_OK);
		assert_int_equal(ptah_capture_map(c, 9, false, &address), PTAH_OK);
		assert_int_equal(ptah_capture_unmap(c, 9, address), PTAH_OK);
		assert_int_equal(ptah_pool_left(pool), 0);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		assert_int_equal(ptah_pool_free(pool), PTAH_OK);
		rig_close(&rig);
	}
}

TEST(taken)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c, *second;
	struct ptah_hal_memory page;
	struct ptah_model *m;
	struct rig rig;
	uint64_t ctl;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	m = ptah_machine_model(rig.machine, 0);
	config = rig_config(&rig, &trace);
	c = rig_capture(&rig, &config);
	config.owner = 2;
	second = rig_capture(&rig, &config);
	assert_int_equal(rig.hal.alloc(rig.machine, 4096, 4096, &page), PTAH_OK);
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, page.physical);
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0xfff);
	ctl = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_USER | PTAH_RTIT_CTL_BRANCH_EN;
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, ctl), PTAH_OK);
	assert_int_equal(ptah_capture_start(c), PTAH_E_BUSY);
	assert_int_equal(rig_status(c).state, PTAH_CAPTURE_IDLE);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
	assert_int_equal(msr(&rig, PTAH_IA32_RTIT_CTL), ctl);
	assert_int_equal(msr(&rig, PTAH_IA32_RTIT_OUTPUT_BASE), page.physical);
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, 0);
	rig.hal.release(rig.machine, &page);

	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_int_equal(ptah_capture_start(second), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_pause(second), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_stop(second), PTAH_OK);
	assert_true(rig_enabled(&rig, 0));
	/* A paused capture keeps its processor. */
	assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	assert_int_equal(ptah_capture_start(second), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_resume(c), PTAH_OK);
	rig_mark(&rig, 0, 10);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_int_equal(ptah_capture_start(second), PTAH_OK);
	assert_true(rig_enabled(&rig, 0));
	assert_int_equal(ptah_capture_position(second), 0);
	assert_int_equal(ptah_capture_free(second), PTAH_OK);
	rig_close(&rig);
}

/* Processors that go online and offline */

static void offline(struct rig *rig)
{
	pinned(rig, ptah_engine_cpu_offline);
	ptah_machine_set_online(rig->machine, 0, false);
	ptah_machine_set_cpu(rig->machine, 1);
}

static void online(struct rig *rig)
{
	ptah_machine_set_cpu(rig->machine, 0);
	ptah_machine_set_online(rig->machine, 0, true);
	pinned(rig, ptah_engine_cpu_online);
}

TEST(hotplug)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c, *second, *thread;
	struct rig rig;
	uint64_t position;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	config = rig_config(&rig, &trace);
	c = rig_capture(&rig, &config);
	second = rig_capture(&rig, &config);
	config.cpu = PTAH_CAPTURE_THREAD;
	thread = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_mark(&rig, 0, 100);
	offline(&rig);
	assert_false(rig_enabled(&rig, 0));
	assert_int_equal(rig_status(c).state, PTAH_CAPTURE_BLOCKED);
	position = ptah_capture_position(c);
	assert_int_equal(position, rig_output(&rig, 0));
	assert_int_equal(ptah_capture_start(second), PTAH_E_BUSY);
	/* All calls work from another processor, and the content can be read. */
	assert_int_equal(rig_check(c, 0, position, 0, SLICE), 100);
	assert_int_equal(ptah_capture_consume(c, position, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	assert_int_equal(ptah_capture_resume(c), PTAH_OK);
	trace.no_retcomp = true;
	assert_int_equal(ptah_capture_reconfigure(c, &trace, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_start(second), PTAH_E_OFFLINE);
	assert_int_equal(ptah_capture_start(c), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_stop(second), PTAH_OK);
	assert_int_equal(ptah_capture_start(c), PTAH_E_OFFLINE);
	online(&rig);
	assert_true(rig_enabled(&rig, 0));
	assert_true(msr(&rig, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_DIS_RETC);
	assert_int_equal(ptah_capture_position(c), position);
	rig_mark(&rig, 0, 100);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_position(c), rig_output(&rig, 0));
	assert_int_equal(rig_check(c, 0, ptah_capture_position(c), 0, 2 * SLICE), 200);
	assert_true(rig_flags(c) & PTAH_CAPTURED_PARTIAL);
	/* A thread whose processor goes offline is traced on another one. */
	assert_int_equal(ptah_capture_start(thread), PTAH_OK);
	assert_int_equal(switch_in(&rig, thread), PTAH_OK);
	offline(&rig);
	assert_int_equal(rig_status(thread).state, PTAH_CAPTURE_OUT);
	assert_int_equal(switch_in(&rig, thread), PTAH_OK);
	assert_true(rig_enabled(&rig, 1));
	switch_out(&rig, thread);
	/* Freed and released while the processor is offline. */
	assert_int_equal(ptah_capture_start(c), PTAH_E_OFFLINE);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_int_equal(ptah_capture_start(second), PTAH_E_OFFLINE);
	assert_int_equal(ptah_engine_release_owner(rig.engine, 0), 2);
	online(&rig);
	assert_false(rig_enabled(&rig, 0) || rig_enabled(&rig, 1));
	rig_close(&rig);
}

/* Every function in every state */

enum call {
	START,
	STOP,
	PAUSE,
	RESUME,
	FLUSH,
	RECONFIGURE,
	CONSUME,
	PAUSE_HERE,
	RESUME_HERE,
	CALLS
};

static const char *const call_names[] = {"start",   "stop",	  "pause",
					 "resume",  "flush",	  "reconfigure",
					 "consume", "pause_here", "resume_here"};

/* How a capture gets into a state, and what each call then returns and which state follows. */
struct scene {
	const char *name;
	uint8_t state, policy;
	bool thread;
	struct {
		int status;
		uint8_t state;
	} after[CALLS];
};

#define IDLE	PTAH_CAPTURE_IDLE
#define RUNNING PTAH_CAPTURE_RUNNING
#define OUT	PTAH_CAPTURE_OUT
#define PAUSED	PTAH_CAPTURE_PAUSED
#define FULL	PTAH_CAPTURE_FULL
#define STOPPED PTAH_CAPTURE_RANGE
#define FAILED	PTAH_CAPTURE_ERROR
#define BLOCKED PTAH_CAPTURE_BLOCKED

static const struct scene scenes[] = {
    {"idle",
     IDLE,
     PTAH_POLICY_WRAP,
     false,
     {{0, RUNNING},
      {0, IDLE},
      {PTAH_E_INVAL, IDLE},
      {PTAH_E_INVAL, IDLE},
      {0, IDLE},
      {0, IDLE},
      {0, IDLE},
      {PTAH_E_INVAL, IDLE},
      {PTAH_E_INVAL, IDLE}}},
    {"running",
     RUNNING,
     PTAH_POLICY_WRAP,
     false,
     {{0, RUNNING},
      {0, IDLE},
      {0, PAUSED},
      {0, RUNNING},
      {0, RUNNING},
      {0, RUNNING},
      {0, RUNNING},
      {0, PAUSED},
      {0, RUNNING}}},
    {"paused",
     PAUSED,
     PTAH_POLICY_WRAP,
     false,
     {{0, PAUSED},
      {0, IDLE},
      {0, PAUSED},
      {0, RUNNING},
      {0, PAUSED},
      {0, PAUSED},
      {0, PAUSED},
      {0, PAUSED},
      {0, RUNNING}}},
    {"full, STOP",
     FULL,
     PTAH_POLICY_STOP,
     false,
     {{PTAH_E_NOSPACE, FULL},
      {0, IDLE},
      {0, PAUSED},
      {PTAH_E_NOSPACE, FULL},
      {0, FULL},
      {0, FULL},
      {0, FULL},
      {0, PAUSED},
      {0, FULL}}},
    {"full, DRAIN",
     FULL,
     PTAH_POLICY_DRAIN,
     false,
     {{0, FULL},
      {0, IDLE},
      {0, PAUSED},
      {0, FULL},
      {0, FULL},
      {0, FULL},
      {0, RUNNING},
      {0, PAUSED},
      {0, FULL}}},
    {"stopped by a range",
     STOPPED,
     PTAH_POLICY_WRAP,
     false,
     {{0, RUNNING},
      {0, IDLE},
      {0, PAUSED},
      {0, RUNNING},
      {0, STOPPED},
      {0, STOPPED},
      {0, STOPPED},
      {0, PAUSED},
      {0, RUNNING}}},
    /* Its table is still damaged: it cannot be started again. */
    {"failed",
     FAILED,
     PTAH_POLICY_WRAP,
     false,
     {{PTAH_E_INVAL, FAILED},
      {0, IDLE},
      {0, PAUSED},
      {PTAH_E_INVAL, FAILED},
      {0, FAILED},
      {0, FAILED},
      {0, FAILED},
      {0, PAUSED},
      /* An NMI has no time to check the tables; the processor reports the error. */
      {0, RUNNING}}},
    {"offline",
     BLOCKED,
     PTAH_POLICY_WRAP,
     false,
     {{0, BLOCKED},
      {0, IDLE},
      {0, PAUSED},
      {0, BLOCKED},
      {0, BLOCKED},
      {0, BLOCKED},
      {0, BLOCKED},
      {PTAH_E_INVAL, BLOCKED},
      {PTAH_E_INVAL, BLOCKED}}},
    {"out",
     OUT,
     PTAH_POLICY_WRAP,
     true,
     {{0, OUT},
      {0, IDLE},
      {0, PAUSED},
      {0, OUT},
      {0, OUT},
      {0, OUT},
      {0, OUT},
      {PTAH_E_INVAL, OUT},
      {PTAH_E_INVAL, OUT}}},
    {"in",
     RUNNING,
     PTAH_POLICY_WRAP,
     true,
     {{0, RUNNING},
      {0, IDLE},
      {0, PAUSED},
      {0, RUNNING},
      {0, RUNNING},
      {0, RUNNING},
      {0, RUNNING},
      {0, PAUSED},
      {0, RUNNING}}},
};

struct stage {
	struct rig rig;
	struct ptah_capture *c;
	struct ptah_trace_config trace;
	uint64_t *entry, good; /* an entry of a table, and its original value */
};

static void damage(struct stage *s)
{
	uint64_t bytes;

	s->entry = (uint64_t *)(void *)ptah_machine_memory(
		       s->rig.machine, msr(&s->rig, PTAH_IA32_RTIT_OUTPUT_BASE), &bytes) +
		   2;
	s->good = *s->entry;
	*s->entry |= 1u << 5;
}

static void set_stage(struct stage *s, const struct scene *scene)
{
	struct ptah_capture_config config;

	memset(s, 0, sizeof(*s));
	rig_open(&s->rig, ptah_model_find("skylake"), 2);
	config = rig_config(&s->rig, &s->trace);
	config.policy = scene->policy;
	config.region = 4096;
	config.owner = 5;
	config.cpu = scene->thread ? PTAH_CAPTURE_THREAD : 0;
	s->trace.ranges[1] = (struct ptah_range){RANGE, RANGE + 0xfff, PTAH_RANGE_STOP};
	s->c = rig_capture(&s->rig, &config);
	stand(&s->rig, FIRST_IP);
	if (scene->state == IDLE)
		return;
	assert_int_equal(ptah_capture_start(s->c), PTAH_OK);
	if (scene->thread)
		assert_int_equal(switch_in(&s->rig, s->c), PTAH_OK);
	rig_mark(&s->rig, 0, 100);
	switch (scene->state) {
	case OUT:
		switch_out(&s->rig, s->c);
		break;
	case PAUSED:
		assert_int_equal(ptah_capture_pause(s->c), PTAH_OK);
		break;
	case FULL:
		while (rig_enabled(&s->rig, 0))
			rig_mark(&s->rig, 0, 100);
		break;
	case STOPPED:
		jump(&s->rig, FIRST_IP, RANGE);
		assert_int_equal(ptah_capture_flush(s->c, NULL), PTAH_OK);
		stand(&s->rig, FIRST_IP);
		break;
	case FAILED:
		damage(s);
		rig_mark(&s->rig, 0, 3 * 4096 / MARK);
		assert_int_equal(ptah_capture_flush(s->c, NULL), PTAH_OK);
		break;
	case BLOCKED:
		offline(&s->rig);
		break;
	}
}

static int make_call(struct stage *s, enum call call)
{
	uint64_t lost = 0;
	int status;

	switch (call) {
	case START:
		return ptah_capture_start(s->c);
	case STOP:
		return ptah_capture_stop(s->c);
	case PAUSE:
		return ptah_capture_pause(s->c);
	case RESUME:
		return ptah_capture_resume(s->c);
	case FLUSH:
		return ptah_capture_flush(s->c, NULL);
	case RECONFIGURE:
		return ptah_capture_reconfigure(s->c, &s->trace, NULL);
	case PAUSE_HERE:
		return ptah_capture_pause_here(s->c);
	case RESUME_HERE:
		return ptah_capture_resume_here(s->c);
	default:
		status = ptah_capture_consume(s->c, ptah_capture_position(s->c), &lost);
		assert_int_equal(lost, 0);
		return status;
	}
}

/* Maps, reads and queries the capture in this state; then starts it again and stops it. */
static void use_and_end(struct stage *s, const struct scene *scene, bool release)
{
	struct ptah_capture_status status;
	uint64_t address, position, output;
	struct ptah_piece pieces[3];

	assert_int_equal(ptah_capture_map(s->c, 6, false, &address), PTAH_OK);
	assert_int_equal(ptah_capture_free(s->c), PTAH_E_BUSY);
	assert_int_equal(ptah_capture_unmap(s->c, 6, address), PTAH_OK);
	status = rig_status(s->c);
	assert_true(ptah_capture_pieces(s->c, status.oldest, status.position, pieces, 3) >= 0);
	rig_flags(s->c);
	if (scene->state == BLOCKED)
		online(&s->rig);
	if (s->entry)
		*s->entry = s->good;
	if (scene->thread)
		switch_out(&s->rig, s->c);
	assert_int_equal(ptah_capture_stop(s->c), PTAH_OK);
	position = ptah_capture_position(s->c);
	assert_int_equal(ptah_capture_consume(s->c, position, NULL), PTAH_OK);
	output = rig_output(&s->rig, 0);
	assert_int_equal(ptah_capture_start(s->c), PTAH_OK);
	if (scene->thread)
		assert_int_equal(switch_in(&s->rig, s->c), PTAH_OK);
	rig_mark(&s->rig, 0, 50);
	assert_int_equal(ptah_capture_pause(s->c), PTAH_OK);
	assert_int_equal(ptah_capture_position(s->c) - position, rig_output(&s->rig, 0) - output);
	assert_int_equal(
	    rig_check(s->c, position, ptah_capture_position(s->c), s->rig.next - 50, 2 * SLICE),
	    s->rig.next);
	if (release)
		assert_int_equal(ptah_engine_release_owner(s->rig.engine, 5), 1);
	else
		assert_int_equal(ptah_capture_free(s->c), PTAH_OK);
	assert_false(rig_enabled(&s->rig, 0));
	rig_close(&s->rig);
}

static void one_call(const struct scene *scene, enum call call)
{
	struct ptah_capture_status before, after;
	struct stage s;
	int status;

	set_stage(&s, scene);
	before = rig_status(s.c);
	assert_int_equal(before.state, scene->state);
	/* And the same again from the state that followed. */
	status = make_call(&s, call);
	after = rig_status(s.c);
	if (status != scene->after[call].status || after.state != scene->after[call].state)
		fail_msg("%s: %s: %d and state %u, not %d and %u", scene->name, call_names[call],
			 status, after.state, scene->after[call].status, scene->after[call].state);
	assert_true(after.position >= before.position && after.oldest >= before.oldest);
	assert_int_equal(rig_enabled(&s.rig, 0), after.state == RUNNING);
	if (after.state != RUNNING)
		assert_int_equal(after.position, rig_output(&s.rig, 0));
	make_call(&s, call);
	assert_true(rig_status(s.c).position >= after.position);
	use_and_end(&s, scene, call & 1);
}

TEST(every_call_in_every_state)
{
	unsigned call;
	size_t i;

	for (i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++) {
		for (call = 0; call < CALLS; call++)
			one_call(&scenes[i], (enum call)call);
	}
}

/* Frees a capture in every state, without another call before. */
TEST(ends_in_every_state)
{
	struct stage s;
	size_t i;

	for (i = 0; i < 2 * (sizeof(scenes) / sizeof(scenes[0])); i++) {
		set_stage(&s, &scenes[i / 2]);
		if (i & 1)
			assert_int_equal(ptah_capture_free(s.c), PTAH_OK);
		else
			assert_int_equal(ptah_engine_release_owner(s.rig.engine, 5), 1);
		assert_false(rig_enabled(&s.rig, 0));
		if (scenes[i / 2].state == BLOCKED)
			online(&s.rig);
		assert_false(rig_enabled(&s.rig, 0));
		rig_close(&s.rig);
	}
}

/* Arguments that are missing, or of another version. */
TEST(refused)
{
	struct ptah_capture_status status = {.size = sizeof(status) - 1};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t address;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	assert_int_equal(ptah_capture_start(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_stop(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_pause(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_resume(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_pause_here(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_resume_here(NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_flush(NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_reconfigure(NULL, NULL, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_switch_in(NULL), PTAH_E_INVAL);
	ptah_capture_switch_out(NULL);
	assert_int_equal(ptah_capture_vmentry(NULL, NULL), PTAH_E_INVAL);
	ptah_capture_vmexit(NULL);
	assert_int_equal(ptah_capture_status(NULL, &status), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_records(NULL, NULL, 0), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_pieces(NULL, 0, 0, NULL, 0), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_consume(NULL, 0, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_map(NULL, 0, false, &address), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_unmap(NULL, 0, 0), PTAH_E_INVAL);
	config = rig_config(&rig, &trace);
	config.cpu = 2;
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, NULL), PTAH_E_OFFLINE);
	config.cpu = 0;
	config.size--;
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, NULL), PTAH_E_INVAL);
	config.size++;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_status(c, &status), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	trace.size--;
	assert_int_equal(ptah_capture_reconfigure(c, &trace, NULL), PTAH_E_INVAL);
	assert_true(rig_enabled(&rig, 0));
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

/* Memory */

static int (*real_alloc)(void *port, size_t size, size_t align, struct ptah_hal_memory *memory);
static unsigned allocations, fail_from, fail_count;
static size_t largest; /* allocations above it fail; 0: none */

static int failing_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	unsigned n = allocations++;

	if ((n >= fail_from && n - fail_from < fail_count) || (largest && size > largest))
		return PTAH_E_NOMEM;
	return real_alloc(port, size, align, memory);
}

static void expect_failures(struct rig *rig, const struct ptah_capture_config *config)
{
	size_t before = ptah_machine_allocated(rig->machine);
	struct ptah_capture *c = NULL;
	unsigned most;

	allocations = fail_from = fail_count = 0;
	assert_int_equal(ptah_capture_new(rig->engine, config, &c, NULL), PTAH_OK);
	most = allocations;
	assert_true(most >= 2);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	for (fail_from = 0; fail_from < most; fail_from++) {
		/* All allocations from there on fail: an error, and nothing stays allocated. */
		allocations = 0;
		fail_count = UINT_MAX;
		assert_int_equal(ptah_capture_new(rig->engine, config, &c, NULL), PTAH_E_NOMEM);
		assert_true(ptah_machine_allocated(rig->machine) == before);
		/* Only that one fails: an error, or the engine does without it. */
		allocations = 0;
		fail_count = 1;
		if (ptah_capture_new(rig->engine, config, &c, NULL) == PTAH_OK) {
			fail_count = 0;
			assert_int_equal(ptah_capture_start(c), PTAH_OK);
			rig_mark(rig, 0, 1000);
			assert_int_equal(ptah_capture_stop(c), PTAH_OK);
			rig_check(c, 0, ptah_capture_position(c), rig->next - 1000, 2 * SLICE);
			assert_int_equal(ptah_capture_free(c), PTAH_OK);
		}
		assert_true(ptah_machine_allocated(rig->machine) == before);
	}
	fail_count = 0;
}

TEST(no_memory)
{
	static const char *const processors[] = {"skylake", "minimal", "minimal-range"};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_engine *engine;
	struct ptah_capture *c;
	struct rig rig;
	unsigned i;

	for (i = 0; i < 3; i++) {
		rig_open(&rig, ptah_model_find(processors[i]), 1);
		real_alloc = rig.hal.alloc;
		rig.hal.alloc = failing_alloc;
		fail_from = allocations = 0;
		fail_count = 1;
		assert_int_equal(ptah_engine_new(&rig.hal, rig.machine, &engine), PTAH_E_NOMEM);
		config = rig_config(&rig, &trace);
		config.buffer = 32768;
		expect_failures(&rig, &config);
		config.region = i == 2 ? 0 : 4096;
		expect_failures(&rig, &config);
		if (!i) {
			config.shape = PTAH_SHAPE_OVERFLOW;
			config.region = 0;
			expect_failures(&rig, &config);
		}
		rig_close(&rig);
	}
	/*
	 * Memory comes in small pieces only: smaller regions, where the engine chooses their
	 * size.
	 */
	rig_open(&rig, ptah_model_find("skylake"), 1);
	rig.hal.alloc = failing_alloc;
	config = rig_config(&rig, &trace);
	config.buffer = 1 << 20;
	largest = 16384;
	c = rig_capture(&rig, &config);
	assert_int_equal(rig_status(c).region, 16384);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	rig_mark(&rig, 0, (1 << 20) / MARK + 1000);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(
	    rig_check(c, rig_status(c).oldest, rig_status(c).position, UINT64_MAX, 2 * SLICE),
	    rig.next);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	config.region = 65536;
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, NULL), PTAH_E_NOMEM);
	largest = 0;
	rig_close(&rig);
}

static int failing_map(void *port, uint64_t owner, const struct ptah_hal_memory *pieces, size_t n,
		       bool writable, uint64_t *address)
{
	(void)port;
	(void)owner;
	(void)pieces;
	(void)n;
	(void)writable;
	(void)address;
	return PTAH_E_NOMEM;
}

/* A mapping that fails leaves nothing mapped or allocated. */
TEST(no_mapping)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t address = 1;
	unsigned i;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	c = rig_capture(&rig, &config);
	rig.hal.user_map = failing_map;
	for (i = 0; i < 20; i++)
		assert_int_equal(ptah_capture_map(c, 1, false, &address), PTAH_E_NOMEM);
	assert_int_equal(address, 1);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}
