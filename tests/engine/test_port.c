/* SPDX-License-Identifier: MIT */
/*
 * docs/porting.md: each mistake in a port is noticed at the step, and in the
 * way, that the guide says; and its recipe for a port with a simulated
 * processor works.
 */
#include "rig.h"

#include <ptah/engine/captures.h>

static void reopen(struct rig *rig)
{
	assert_int_equal(ptah_engine_free(rig->engine), PTAH_OK);
	rig->engine = NULL;
	assert_int_equal(ptah_engine_new(&rig->hal, rig->machine, &rig->engine), PTAH_OK);
}

/* Step 1: RDMSR that always fails. */
static int broken_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	(void)port, (void)msr;
	*value = 0;
	return PTAH_E_UNSUPPORTED;
}

TEST(rdmsr_that_fails)
{
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	rig.hal.rdmsr = broken_rdmsr;
	reopen(&rig);
	assert_int_equal(ptah_engine_caps(rig.engine, 0)->obstacle, PTAH_CAPS_NO_MSR);
	rig_close(&rig);
}

/* Step 2: cpu() returns another processor's number. */
static unsigned broken_cpu(void *port)
{
	(void)port;
	return 0;
}

TEST(cpu_that_says_another_number)
{
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	rig.hal.cpu = broken_cpu;
	reopen(&rig);
	assert_non_null(ptah_engine_caps(rig.engine, 0));
	assert_null(ptah_engine_caps(rig.engine, 1));
	rig_close(&rig);
}

/* Step 3: memory at an address where no region may be. */
static struct ptah_hal whole;

static int broken_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	int status = whole.alloc(port, size, align, memory);

	if (status == PTAH_OK && align > 4096)
		memory->physical += 4096;
	return status;
}

static void restoring_release(void *port, const struct ptah_hal_memory *memory)
{
	struct ptah_hal_memory true_one = *memory;

	if (true_one.physical % 65536 == 4096 && true_one.size >= 65536)
		true_one.physical -= 4096;
	whole.release(port, &true_one);
}

TEST(alloc_without_alignment)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c = NULL;
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	whole = rig.hal;
	rig.hal.alloc = broken_alloc;
	rig.hal.release = restoring_release;
	reopen(&rig);
	config = rig_config(&rig, &trace);
	config.shape = PTAH_SHAPE_OVERFLOW;
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, NULL), PTAH_E_PORT);
	assert_null(c);
	rig_close(&rig);
}

/* Step 4: a PSB+ of some tens of bytes; output to memory that does not exist; no fence. */
static void broken_fence(void *port)
{
	(void)port;
}

static bool is_psb(const struct ptah_capture *c)
{
	struct ptah_piece piece;

	assert_int_equal(ptah_capture_pieces(c, 0, ptah_capture_position(c), &piece, 1), 1);
	return !memcmp(piece.address, "\x02\x82\x02\x82\x02\x82\x02\x82", 8);
}

TEST(first_bytes)
{
	struct ptah_model_faults withhold = {.withhold = 64};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	int broken;

	for (broken = 0; broken < 2; broken++) {
		rig_open(&rig, ptah_model_find("skylake"), 1);
		ptah_model_set_faults(ptah_machine_model(rig.machine, 0), &withhold);
		if (broken)
			rig.hal.fence = broken_fence;
		reopen(&rig);
		config = rig_config(&rig, &trace);
		config.no_pmi = true;
		c = rig_capture(&rig, &config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_false(rig_enabled(&rig, 0));
		assert_in_range(ptah_capture_position(c), 20, 99);
		assert_int_equal(is_psb(c), !broken);
		ptah_capture_free(c);
		c = rig_capture(&rig, &config);
		ptah_machine_hide(rig.machine, 0x10000000, RIG_ARENA);
		assert_int_equal(ptah_capture_start(c), PTAH_E_DEVICE);
		ptah_machine_hide(rig.machine, 0, 0);
		ptah_capture_free(c);
		rig_close(&rig);
	}
}

/* Steps 6 and 7: PMIs that never arrive, or only once. */
static int broken_enable(void *port, bool on)
{
	(void)port, (void)on;
	return PTAH_OK;
}

static void broken_unmask(void *port)
{
	(void)port;
}

TEST(no_interrupts)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t before, less;
	unsigned pmis;

	for (pmis = 0; pmis < 2; pmis++) {
		rig_open(&rig, ptah_model_find("skylake"), 1);
		if (pmis)
			rig.hal.pmi_unmask = broken_unmask;
		else
			rig.hal.pmi_enable = broken_enable;
		reopen(&rig);
		if (!pmis) /* rig_open() had enabled them */
			ptah_machine_on_pmi(rig.machine, NULL, NULL);
		config = rig_config(&rig, &trace);
		config.policy = PTAH_POLICY_DRAIN;
		c = rig_capture(&rig, &config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 3 * 65536 / MARK);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.pmis, pmis);
		assert_int_equal(s.position, 65536);
		ptah_capture_free(c);

		config.policy = PTAH_POLICY_WRAP;
		c = rig_capture(&rig, &config);
		s = rig_status(c);
		before = rig_output(&rig, 0);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, (unsigned)(2 * s.cycle / MARK));
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		less = rig_output(&rig, 0) - before - ptah_capture_position(c);
		assert_true(less > 0);
		assert_int_equal(less % s.cycle, 0);
		ptah_capture_free(c);
		rig_close(&rig);
	}
}

/* With PMIs: sixteen in each lap, and nothing is lost. */
TEST(interrupts)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	uint64_t next = UINT64_MAX;
	struct ptah_capture *c;
	struct rig rig;
	int i;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	config.policy = PTAH_POLICY_DRAIN;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (i = 0; i < 10 * 16; i++) {
		rig_mark(&rig, 0, 4096 / MARK);
		s = rig_status(c);
		next = rig_check(c, s.tail, s.position, next, 99);
		assert_int_equal(ptah_capture_consume(c, s.position, NULL), PTAH_OK);
	}
	s = rig_status(c);
	assert_int_equal(s.pmis, rig_output(&rig, 0) / 4096);
	assert_int_equal(s.lost, 0);
	assert_false(rig_flags(c) & (PTAH_CAPTURED_UNSURE | PTAH_CAPTURED_LOST));
	ptah_capture_free(c);
	rig_close(&rig);
}

/* Step 8: IA32_XSS[8] is 0; and the previous thread was not switched out. */
TEST(threads)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c[2];
	struct rig rig;
	uint64_t irqs;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	config.cpu = PTAH_CAPTURE_THREAD;
	c[0] = rig_capture(&rig, &config);
	c[1] = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(c[0]), PTAH_OK);
	assert_int_equal(ptah_capture_start(c[1]), PTAH_OK);
	irqs = rig.hal.irq_save(rig.machine);
	ptah_model_wrmsr(ptah_machine_model(rig.machine, 0), PTAH_IA32_XSS, 0);
	assert_int_equal(ptah_capture_switch_in(c[0]), PTAH_E_UNSUPPORTED);
	ptah_capture_switch_out(c[0]);
	ptah_model_wrmsr(ptah_machine_model(rig.machine, 0), PTAH_IA32_XSS, PTAH_XSTATE_PT);
	rig.hal.irq_restore(rig.machine, irqs);
	assert_int_equal(ptah_capture_stop(c[0]), PTAH_OK);
	assert_int_equal(ptah_capture_start(c[0]), PTAH_OK);
	irqs = rig.hal.irq_save(rig.machine);
	assert_int_equal(ptah_capture_switch_in(c[0]), PTAH_OK);
	assert_int_equal(ptah_capture_switch_in(c[1]), PTAH_E_BUSY);
	ptah_capture_switch_out(c[0]);
	assert_int_equal(ptah_capture_switch_in(c[1]), PTAH_OK);
	rig.hal.irq_restore(rig.machine, irqs);
	assert_true(rig_flags(c[1]) & PTAH_CAPTURED_PARTIAL);
	ptah_capture_free(c[0]);
	ptah_capture_free(c[1]);
	rig_close(&rig);
}

/* The recipe: a new port, with a simulated processor for its instructions. */
struct own_port {
	struct ptah_model *m;
	struct ptah_engine *engine;
	uint8_t *ram;
	size_t used;
	unsigned held, locked;
};

#define OWN_RAM	     ((size_t)1 << 20)
#define OWN_PHYSICAL UINT64_C(0x40000000)

static uint8_t *own_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	struct own_port *own = port;

	*bytes = 4096 - physical % 4096;
	if (physical < OWN_PHYSICAL || physical - OWN_PHYSICAL >= OWN_RAM)
		return NULL;
	return own->ram + (physical - OWN_PHYSICAL);
}

static int own_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	struct ptah_model *m = ((struct own_port *)port)->m;
	int status = ptah_model_rdmsr(m, msr, value);

	ptah_model_boundary(m);
	return status;
}

static int own_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	struct ptah_model *m = ((struct own_port *)port)->m;
	int status = ptah_model_wrmsr(m, msr, value);

	ptah_model_boundary(m);
	return status;
}

static void own_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	ptah_model_cpuid(((struct own_port *)port)->m, leaf, subleaf, registers);
}

static void own_fence(void *port)
{
	ptah_model_fence(((struct own_port *)port)->m);
}

static unsigned own_cpu(void *port)
{
	(void)port;
	return 0;
}

static unsigned own_cpus(void *port)
{
	(void)port;
	return 1;
}

static uint64_t own_irq_save(void *port)
{
	struct own_port *own = port;
	bool on = ptah_model_irqs(own->m);

	ptah_model_set_irqs(own->m, false);
	return on;
}

static void own_irq_restore(void *port, uint64_t state)
{
	ptah_model_set_irqs(((struct own_port *)port)->m, state != 0);
}

static void own_lock(void *port)
{
	assert_int_equal(((struct own_port *)port)->locked++, 0);
}

static void own_unlock(void *port)
{
	assert_int_equal(((struct own_port *)port)->locked--, 1);
}

static int own_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	struct own_port *own = port;
	size_t at = (own->used + align - 1) & ~(align - 1);

	if (at > OWN_RAM || size > OWN_RAM - at)
		return PTAH_E_NOMEM;
	own->used = at + size;
	own->held++;
	*memory = (struct ptah_hal_memory){
	    .address = own->ram + at, .physical = OWN_PHYSICAL + at, .size = size};
	return PTAH_OK;
}

static void own_release(void *port, const struct ptah_hal_memory *memory)
{
	(void)memory;
	((struct own_port *)port)->held--;
}

static int own_run_on(void *port, unsigned cpu, void (*work)(void *argument), void *argument)
{
	uint64_t state = own_irq_save(port);

	assert_int_equal(cpu, 0);
	work(argument);
	own_irq_restore(port, state);
	return PTAH_OK;
}

static int own_pmi_enable(void *port, bool on)
{
	/* LVT entry for performance monitoring, x2APIC: NMI, or masked. */
	return ptah_model_wrmsr(((struct own_port *)port)->m, 0x834, on ? 0x400 : 0x10400);
}

static void own_pmi_unmask(void *port)
{
	own_pmi_enable(port, true);
}

static void own_pmi(void *port, unsigned cpu)
{
	struct own_port *own = port;

	(void)cpu;
	assert_int_not_equal(ptah_engine_pmi(own->engine), PTAH_PMI_NONE);
}

static const struct ptah_hal own_hal = {
    .size = sizeof(own_hal),
    .rdmsr = own_rdmsr,
    .wrmsr = own_wrmsr,
    .cpuid = own_cpuid,
    .fence = own_fence,
    .cpu = own_cpu,
    .cpus = own_cpus,
    .irq_save = own_irq_save,
    .irq_restore = own_irq_restore,
    .lock = own_lock,
    .unlock = own_unlock,
    .alloc = own_alloc,
    .release = own_release,
    .run_on = own_run_on,
    .pmi_enable = own_pmi_enable,
    .pmi_unmask = own_pmi_unmask,
};

TEST(simulated_processor_in_a_port)
{
	struct own_port own = {.m = malloc(ptah_model_size()), .ram = calloc(1, OWN_RAM)};
	struct ptah_model_config model = {.size = sizeof(model),
					  .processor = ptah_model_find("sapphire-rapids"),
					  .memory = own_memory,
					  .pmi = own_pmi,
					  .port = &own};
	struct rig rig = {0};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	uint64_t dropped;
	uint8_t mark[MARK];
	unsigned i;

	assert_non_null(own.m);
	assert_non_null(own.ram);
	assert_int_equal(ptah_model_init(own.m, &model), PTAH_OK);
	assert_int_equal(ptah_engine_new(&own_hal, &own, &own.engine), PTAH_OK);
	rig.engine = own.engine;
	config = rig_config(&rig, &trace);
	config.pmis = 2;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (i = 0; i < 5 * 65536 / MARK; i++) {
		rig_write_mark(mark, i);
		ptah_model_put(own.m, mark, MARK);
		ptah_model_output_bytes(own.m, &dropped);
		ptah_model_boundary(own.m);
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(ptah_capture_position(c), ptah_model_output_bytes(own.m, &dropped));
	assert_int_equal(dropped, 0);
	assert_int_equal(rig_status(c).pmis, 10);
	assert_int_equal(rig_check(c, ptah_capture_position(c) - 65536, ptah_capture_position(c),
				   UINT64_MAX, 4096),
			 i);
	ptah_capture_free(c);
	assert_int_equal(ptah_engine_free(own.engine), PTAH_OK);
	assert_int_equal(own.held, 0);
	free(own.m);
	free(own.ram);
}

/* The owner controls a capture from its own processor, where it must not sleep: in a DPC. */
TEST(owner_on_the_captures_processor)
{
	struct ptah_capture_live live = {.size = sizeof(live)};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t irqs, position;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	config = rig_config(&rig, &trace);
	config.cpu = 1;
	c = rig_capture(&rig, &config);
	ptah_machine_set_cpu(rig.machine, 1);
	irqs = rig.hal.irq_save(rig.machine);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_true(rig_enabled(&rig, 1));
	rig_mark(&rig, 1, 100);
	assert_int_equal(ptah_capture_live(c, &live), PTAH_OK);
	assert_true(live.position <= rig_output(&rig, 1));
	trace.user = false;
	assert_int_equal(ptah_capture_reconfigure(c, &trace, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	assert_false(rig_enabled(&rig, 1));
	assert_int_equal(ptah_capture_resume(c), PTAH_OK);
	assert_true(rig_enabled(&rig, 1));
	assert_int_equal(ptah_capture_flush(c, &position), PTAH_OK);
	assert_true(position >= 100 * MARK);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_false(rig_enabled(&rig, 1));
	assert_int_equal(ptah_capture_position(c), rig_output(&rig, 1));
	rig.hal.irq_restore(rig.machine, irqs);
	ptah_machine_set_cpu(rig.machine, 0);
	ptah_capture_free(c);
	rig_close(&rig);
}

/* Every callback that is missing is named; of a pair, the half that is not there. */
TEST(missing_callbacks)
{
#define CALLBACK(name, alone)                                                                      \
	{                                                                                          \
#name, offsetof(struct ptah_hal, name), alone                                      \
	}
	static const struct {
		const char *name;
		size_t at;
		bool alone; /* optional, but not without its other half */
	} callbacks[] = {
	    CALLBACK(rdmsr, false),	CALLBACK(wrmsr, false),	      CALLBACK(cpuid, false),
	    CALLBACK(fence, false),	CALLBACK(cpu, false),	      CALLBACK(cpus, false),
	    CALLBACK(irq_save, false),	CALLBACK(irq_restore, false), CALLBACK(lock, false),
	    CALLBACK(unlock, false),	CALLBACK(alloc, false),	      CALLBACK(release, false),
	    CALLBACK(run_on, false),	CALLBACK(pmi_enable, true),   CALLBACK(pmi_unmask, true),
	    CALLBACK(xsaves, true),	CALLBACK(xrstors, true),      CALLBACK(user_map, true),
	    CALLBACK(user_unmap, true),
	};
	struct ptah_engine *engine = NULL;
	struct ptah_hal hal;
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	assert_null(ptah_hal_missing(&rig.hal));
	for (size_t i = 0; i < sizeof(callbacks) / sizeof(callbacks[0]); i++) {
		hal = rig.hal;
		memset((char *)&hal + callbacks[i].at, 0, sizeof(hal.rdmsr));
		assert_string_equal(ptah_hal_missing(&hal), callbacks[i].name);
		assert_int_equal(ptah_engine_new(&hal, rig.machine, &engine), PTAH_E_INVAL);
	}
	hal = rig.hal;
	hal.log = NULL;
	hal.run_on_all = NULL;
	hal.pmi_enable = NULL, hal.pmi_unmask = NULL;
	assert_null(ptah_hal_missing(&hal));
	hal.size--;
	assert_string_equal(ptah_hal_missing(&hal), "size");
	assert_string_equal(ptah_hal_missing(NULL), "hal");
	rig_close(&rig);
}

static void expect_problem(const struct ptah_trace_problem *problem, const char *field)
{
	assert_non_null(problem->field);
	assert_string_equal(problem->field, field);
	assert_non_null(problem->reason);
}

/* The usage at the top of engine.h prints field and reason after any failure. */
TEST(every_failure_has_a_field_and_a_reason)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	const struct ptah_captures_config all = {.size = sizeof(all), .capture = &config};
	struct ptah_trace_problem problem;
	struct ptah_captures_problem of_all;
	struct ptah_capture *c = NULL;
	struct ptah_captures *set = NULL;
	struct ptah_pool *pool = NULL;
	struct rig rig;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	config = rig_config(&rig, &trace);
	assert_int_equal(ptah_capture_new(rig.engine, NULL, &c, &problem), PTAH_E_INVAL);
	expect_problem(&problem, "size");
	assert_int_equal(ptah_pool_new(rig.engine, &config, 0, &pool, &problem), PTAH_E_LIMIT);
	expect_problem(&problem, "n");
	config.cpu = 7;
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, &problem), PTAH_E_OFFLINE);
	expect_problem(&problem, "cpu");
	assert_int_equal(ptah_pool_new(rig.engine, &config, 2, &pool, &problem), PTAH_E_OFFLINE);
	expect_problem(&problem, "cpu");
	config.cpu = 0;
	config.buffer = 4097;
	assert_true(ptah_capture_new(rig.engine, &config, &c, &problem) < 0);
	expect_problem(&problem, "buffer");
	whole = rig.hal;
	rig.hal.alloc = broken_alloc;
	rig.hal.release = restoring_release;
	reopen(&rig);
	config.buffer = 0;
	config.shape = PTAH_SHAPE_OVERFLOW;
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, &problem), PTAH_E_PORT);
	expect_problem(&problem, "alloc");
	assert_int_equal(ptah_captures_new(rig.engine, &all, &set, &of_all), PTAH_E_PORT);
	assert_non_null(strstr(of_all.reason, "hal.h"));
	rig_close(&rig);
}
