/* SPDX-License-Identifier: MIT */
/*
 * Test group T1, the half about registers. A judge between the engine and the
 * processor checks every instruction by the rules of SDM volume 3, "Intel
 * Processor Trace": "General Rules of the Intel PT Configuration MSRs" (only
 * IA32_RTIT_CTL is written while TraceEn is 1), "Disabling Packet Generation"
 * (registers and memory are exact after TraceEn was cleared and a fence has
 * followed), "ToPA PMI" (bit 55 is cleared only with ToPA = 1). Processors,
 * requests and calls are random. The other half, about which requests are
 * accepted, is in test_model_config.c.
 */
#include "engine/random_request.h"
#include "engine/stream.h"

#define ARENA ((size_t)1 << 20)

static struct ptah_hal inner;

/* What has happened on the only processor. */
static struct {
	bool unfenced; /* TraceEn was cleared, and no fence followed yet */
	bool unread;   /* and the position was not read yet */
	bool discovered;
	unsigned writes, stops, acks, restores;
	uint64_t tables; /* a checksum of them from when TraceEn was set */
} seen;

static uint64_t read_model(void *machine, uint32_t msr)
{
	uint64_t value = 0;

	ptah_model_rdmsr(ptah_machine_model(machine, 0), msr, &value);
	return value;
}

static bool traces(void *machine)
{
	return read_model(machine, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_TRACE_EN;
}

static bool is_rtit(uint32_t msr)
{
	return (msr >= PTAH_IA32_RTIT_OUTPUT_BASE && msr <= PTAH_IA32_RTIT_CR3_MATCH) ||
	       (msr >= PTAH_IA32_RTIT_ADDR0_A && msr < PTAH_IA32_RTIT_ADDR(PTAH_RANGES));
}

/* A checksum of the tables that the processor walks, as they are now. */
static uint64_t sum_tables(void *machine)
{
	uint64_t at = read_model(machine, PTAH_IA32_RTIT_OUTPUT_BASE), first = at, sum = 0;
	unsigned pages = 0, n;

	if (!(read_model(machine, PTAH_IA32_RTIT_CTL) & PTAH_RTIT_CTL_TOPA))
		return 0;
	do {
		uint64_t bytes = 0;
		uint8_t *table = ptah_machine_memory(machine, at, &bytes);

		for (n = 0; n < 512; n++) {
			sum = (sum + load_le64(table + 8 * n)) * UINT64_C(0x9e3779b97f4a7c15);
			if (load_le64(table + 8 * n) & PTAH_TOPA_END)
				break;
		}
		assert_true(n < 512);
		at = load_le64(table + 8 * n) & ~UINT64_C(0xfff);
	} while (at != first && ++pages < 16);
	return sum;
}

/*
 * SDM "ToPA Table Entry Fields": the processor may cache entries, so they may
 * change only while TraceEn is 0.
 */
static void judge_tables(void *machine)
{
	if (sum_tables(machine) != seen.tables)
		fail_msg("a table was edited with TraceEn 1");
}

static void judge_write(void *machine, uint32_t msr, uint64_t value)
{
	bool on = traces(machine);

	if (on && is_rtit(msr) && msr != PTAH_IA32_RTIT_CTL)
		fail_msg("MSR %x written with TraceEn 1", msr);
	if (msr == PTAH_IA32_RTIT_CTL && on && value & PTAH_RTIT_CTL_TRACE_EN)
		fail_msg("IA32_RTIT_CTL written with TraceEn 1 twice");
	if (msr == PTAH_IA32_RTIT_CTL && on) {
		seen.unfenced = seen.unread = true;
		seen.stops++;
	}
	if (msr == PTAH_IA32_PERF_GLOBAL_STATUS_RESET) {
		/*
		 * The bytes that the stop flushes may raise it once more, after the engine has
		 * looked.
		 */
		if (on)
			fail_msg("bit 55 acknowledged with TraceEn 1");
		if (seen.unread)
			fail_msg("bit 55 acknowledged before the position was read");
		if (value != PTAH_PERF_GLOBAL_TRACE_TOPA_PMI)
			fail_msg("acknowledged what is another's: %llx", (unsigned long long)value);
		seen.acks++;
	}
	if (seen.unfenced && is_rtit(msr) && msr != PTAH_IA32_RTIT_CTL)
		fail_msg("no fence behind a stop");
	seen.writes++;
}

static int judged_wrmsr(void *machine, uint32_t msr, uint64_t value)
{
	int status;

	judge_write(machine, msr, value);
	if (traces(machine))
		judge_tables(machine);
	status = inner.wrmsr(machine, msr, value);
	if (msr == PTAH_IA32_RTIT_CTL)
		seen.tables = sum_tables(machine);
	if (status != PTAH_OK)
		fail_msg("#GP: MSR %x <- %llx", msr, (unsigned long long)value);
	return status;
}

static int judged_rdmsr(void *machine, uint32_t msr, uint64_t *value)
{
	bool on = traces(machine);
	int status;

	if (on && (msr == PTAH_IA32_RTIT_OUTPUT_BASE || msr == PTAH_IA32_RTIT_OUTPUT_MASK_PTRS))
		fail_msg("the position is read with TraceEn 1");
	if (seen.unfenced && msr == PTAH_IA32_RTIT_OUTPUT_MASK_PTRS)
		fail_msg("the position is read before the fence");
	status = inner.rdmsr(machine, msr, value);
	if (msr == PTAH_IA32_RTIT_OUTPUT_MASK_PTRS)
		seen.unread = false;
	if (status != PTAH_OK && seen.discovered && is_rtit(msr))
		fail_msg("#GP: MSR %x read", msr);
	return status;
}

static void judged_fence(void *machine)
{
	inner.fence(machine);
	seen.unfenced = false;
}

static int judged_xsaves(void *machine, void *area, uint64_t components)
{
	bool on = traces(machine);
	int status;

	assert_int_equal(components, PTAH_XSTATE_PT);
	if (on)
		judge_tables(machine);
	status = inner.xsaves(machine, area, components);
	if (status != PTAH_OK)
		fail_msg("XSAVES faults");
	seen.unfenced = on;
	seen.stops += on;
	seen.unread = false; /* the XSAVE image has the position */
	return status;
}

static int judged_xrstors(void *machine, void *area, uint64_t components)
{
	int status;

	if (seen.unfenced)
		fail_msg("no fence behind a stop");
	if (traces(machine))
		fail_msg("XRSTORS with TraceEn 1");
	assert_int_equal(components, PTAH_XSTATE_PT);
	status = inner.xrstors(machine, area, components);
	if (status != PTAH_OK)
		fail_msg("#GP: XRSTORS");
	seen.tables = sum_tables(machine);
	seen.restores++;
	return status;
}

static void take_the_bench(struct rig *rig)
{
	inner = rig->hal;
	rig->hal.wrmsr = judged_wrmsr;
	rig->hal.rdmsr = judged_rdmsr;
	rig->hal.fence = judged_fence;
	if (rig->hal.xsaves) {
		rig->hal.xsaves = judged_xsaves;
		rig->hal.xrstors = judged_xrstors;
	}
	seen.unfenced = seen.unread = false;
	seen.discovered = true;
}

/* Tracing is enabled: the registers contain what was requested. */
static void compare_registers(struct rig *rig, const struct ptah_trace_config *trace, bool topa)
{
	uint64_t ctl = read_model(rig->machine, PTAH_IA32_RTIT_CTL);
	const struct ptah_caps *caps = ptah_engine_caps(rig->engine, 0);
	unsigned n;

	assert_int_equal(ctl, ptah_trace_config_ctl(trace) | PTAH_RTIT_CTL_TRACE_EN |
				  (topa ? PTAH_RTIT_CTL_TOPA : 0));
	if (trace->cr3_filter)
		assert_int_equal(read_model(rig->machine, PTAH_IA32_RTIT_CR3_MATCH), trace->cr3);
	for (n = 0; n < caps->ranges; n++) {
		const struct ptah_range *r = &trace->ranges[n];
		bool on = r->mode != PTAH_RANGE_OFF;

		if (!on && n >= 2)
			continue; /* not restored by XRSTORS, and not used */
		assert_int_equal(read_model(rig->machine, PTAH_IA32_RTIT_ADDR(n)),
				 on ? r->first : 0);
		assert_int_equal(read_model(rig->machine, PTAH_IA32_RTIT_ADDR(n) + 1),
				 on ? r->last : 0);
	}
}

struct trial {
	struct rig rig;
	uint64_t *seed;
	struct ptah_capture *c;
	struct ptah_capture_config config;
	struct ptah_trace_config trace; /* in force */
	struct stream stream;
	bool in;
};

static void compare(struct trial *t)
{
	struct ptah_capture_status s = rig_status(t->c);

	assert_int_equal(s.msr, 0);
	if (rig_enabled(&t->rig, 0)) {
		compare_registers(&t->rig, &t->trace, s.shape != PTAH_SHAPE_SINGLE);
		return;
	}
	assert_false(seen.unfenced);
	assert_int_equal(s.position, t->stream.n);
	stream_check(&t->stream, t->c, s.oldest, s.position);
}

static void request_another(struct trial *t)
{
	struct ptah_trace_config trace = t->trace;
	struct ptah_trace_problem problem = {0};
	int status;

	random_config(t->seed, &trace);
	trace.force_psb = one_in(t->seed, 2);
	status = ptah_capture_reconfigure(t->c, &trace, &problem);
	if (status == PTAH_OK) {
		t->trace = trace;
		return;
	}
	assert_int_equal(status, PTAH_E_INVAL);
	assert_non_null(problem.field);
	assert_non_null(problem.reason);
}

static void change_thread(struct trial *t)
{
	if (t->config.cpu >= 0)
		return;
	rig_switch(&t->rig, t->c, 0, !t->in);
	t->in = !t->in;
}

static void act(struct trial *t)
{
	struct ptah_capture_status s = rig_status(t->c);
	bool was_on = rig_enabled(&t->rig, 0);
	int status = PTAH_OK;

	switch (random_word(t->seed) % 10) {
	case 0:
	case 1:
		status = ptah_capture_start(t->c);
		break;
	case 2:
		status = ptah_capture_stop(t->c);
		break;
	case 3:
		if (s.state != PTAH_CAPTURE_IDLE)
			status = one_in(t->seed, 2) ? ptah_capture_pause(t->c)
						    : ptah_capture_resume(t->c);
		break;
	case 4:
		status = ptah_capture_flush(t->c, NULL);
		break;
	case 5:
		request_another(t);
		break;
	case 6:
		change_thread(t);
		break;
	case 7:
		status = ptah_capture_consume(t->c, s.position, NULL);
		break;
	default:
		if (rig_enabled(&t->rig, 0))
			stream_put(&t->stream, &t->rig, 0, random_word(t->seed) % 6000);
		break;
	}
	if (status != PTAH_OK)
		assert_int_equal(status, PTAH_E_NOSPACE);
	compare(t);
	/* No sticky bit is set, so the processor does trace. SDM "IA32_RTIT_STATUS MSR". */
	if (!was_on && rig_enabled(&t->rig, 0))
		assert_int_equal(read_model(t->rig.machine, PTAH_IA32_RTIT_STATUS) &
				     (PTAH_RTIT_STATUS_ERROR | PTAH_RTIT_STATUS_STOPPED),
				 0);
}

static bool open_trial(struct trial *t, const struct ptah_model_processor *processor)
{
	struct ptah_model_faults faults = {
	    .silent = true,
	    .ack_needs_topa = one_in(t->seed, 2),
	    .stale_bytes = one_in(t->seed, 2) ? 3000 : 0,
	    .withhold = 40,
	    .cache_next = one_in(t->seed, 2),
	    .pmi_skid_bytes = one_in(t->seed, 2) ? random_word(t->seed) % 5000 : 0,
	};
	struct ptah_trace_problem problem = {0};
	int status;

	rig_open_at(&t->rig, processor, 1, ARENA, 0x10000000);
	ptah_model_set_faults(ptah_machine_model(t->rig.machine, 0), &faults);
	t->config = rig_config(&t->rig, &t->trace);
	random_config(t->seed, &t->trace);
	t->config.buffer = 16384;
	t->config.policy = (uint8_t)(random_word(t->seed) % PTAH_POLICY_MAX);
	t->config.no_pmi = one_in(t->seed, 4);
	t->config.no_xsaves = one_in(t->seed, 3);
	t->config.cpu = one_in(t->seed, 2) ? 0 : PTAH_CAPTURE_THREAD;
	if (one_in(t->seed, 4))
		t->config.shape = (uint8_t)(random_word(t->seed) % PTAH_SHAPE_MAX);
	status = ptah_capture_new(t->rig.engine, &t->config, &t->c, &problem);
	if (status == PTAH_OK)
		return true;
	/* The refusal has a reason, or the processor cannot be traced. */
	assert_true(status == PTAH_E_INVAL || status == PTAH_E_UNSUPPORTED);
	if (status == PTAH_E_INVAL)
		assert_true(problem.field && problem.reason);
	else
		assert_int_not_equal(ptah_engine_caps(t->rig.engine, 0)->obstacle, PTAH_CAPS_NONE);
	return false;
}

/* Whether it was accepted. */
static bool play(uint64_t *seed, const struct ptah_model_processor *processor, unsigned acts)
{
	struct trial t = {.seed = seed};
	bool accepted;

	seen.discovered = false;
	accepted = open_trial(&t, processor);
	take_the_bench(&t.rig);
	if (accepted) {
		while (acts--)
			act(&t);
		if (t.in)
			change_thread(&t);
		assert_int_equal(ptah_capture_stop(t.c), PTAH_OK);
		assert_false(rig_enabled(&t.rig, 0));
		compare(&t);
		assert_int_equal(ptah_capture_free(t.c), PTAH_OK);
	}
	assert_int_equal(t.rig.foreign, 0);
	rig_close(&t.rig);
	stream_free(&t.stream);
	return accepted;
}

TEST(named_processors)
{
	const struct ptah_model_processor *processor;
	unsigned accepted = 0, n, i;
	uint64_t seed = 4021;

	memset(&seen, 0, sizeof(seen));
	for (n = 0; (processor = ptah_model_named(n)) != NULL; n++) {
		for (i = 0; i < 300; i++)
			accepted += play(&seed, processor, 40);
	}
	assert_true(accepted > n * 50);
	assert_true(seen.writes > 1000 && seen.stops > 1000 && seen.acks > 100 &&
		    seen.restores > 100);
}

TEST(random_processors)
{
	unsigned accepted = 0, i;
	uint64_t seed = 88172645463325252u;

	for (i = 0; i < 10000; i++) {
		struct ptah_model_processor processor;

		random_processor(&seed, &processor);
		accepted += play(&seed, &processor, 25);
	}
	assert_true(accepted > 1500 && accepted < 9900);
}

/* A processor without CR3 filtering has no IA32_RTIT_CR3_MATCH, one without ranges no ADDRn. */
TEST(registers_that_are_not_there)
{
	struct ptah_model_processor processor = *ptah_model_find("skylake");
	uint64_t seed = 77;
	unsigned i;

	processor.leaf_14_0[1] &= ~UINT32_C(5);
	processor.leaf_14_1[0] &= ~UINT32_C(7);
	for (i = 0; i < 100; i++)
		play(&seed, &processor, 25);
	/* Neither VMX nor its MSR. */
	processor.vmx = processor.vmx_pt = false;
	for (i = 0; i < 100; i++)
		play(&seed, &processor, 25);
}

/* With XSAVES and with single writes: a range that another tracer set does not stay in force. */
TEST(ranges_of_another)
{
	static const bool by_msr[] = {false, true};
	struct ptah_range range = {0x400000, 0x4fffff, PTAH_RANGE_FILTER};
	struct trial t;
	unsigned i;

	for (i = 0; i < 2; i++) {
		uint64_t seed = 5;

		memset(&t, 0, sizeof(t));
		t.seed = &seed;
		rig_open_at(&t.rig, ptah_model_find("skylake"), 1, ARENA, 0x10000000);
		take_the_bench(&t.rig);
		t.config = rig_config(&t.rig, &t.trace);
		t.config.buffer = 16384;
		t.config.cpu = PTAH_CAPTURE_THREAD;
		t.config.no_xsaves = by_msr[i];
		t.trace.ranges[1] = range;
		t.trace.cr3_filter = true;
		t.trace.cr3 = 0x12345000;
		t.c = rig_capture(&t.rig, &t.config);
		ptah_model_wrmsr(ptah_machine_model(t.rig.machine, 0), PTAH_IA32_RTIT_ADDR(0), 1);
		assert_int_equal(ptah_capture_start(t.c), PTAH_OK);
		rig_switch(&t.rig, t.c, 0, true);
		compare_registers(&t.rig, &t.trace, true);
		t.trace.ranges[1].mode = PTAH_RANGE_OFF;
		t.trace.ranges[0] = range;
		t.trace.cr3 = 0x54321000;
		assert_int_equal(ptah_capture_reconfigure(t.c, &t.trace, NULL), PTAH_OK);
		compare_registers(&t.rig, &t.trace, true);
		rig_switch(&t.rig, t.c, 0, false);
		ptah_capture_free(t.c);
		rig_close(&t.rig);
	}
}
