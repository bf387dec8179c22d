/* SPDX-License-Identifier: MIT */
/*
 * Test group T4: interrupts at any moment. PMIs that come some bytes or
 * instructions late, that announce several regions at once, that come after a
 * stop or during another thread's trace; interrupts that do not belong to the
 * engine; and an NMI between any two instructions of every call. In each case
 * no byte is lost or counted twice, the call does what was requested, and the
 * LVT entry is unmasked afterwards. SDM volume 3, "ToPA PMI"; "Local Vector
 * Table".
 */
#include "engine/stream.h"

#define ARENA	((size_t)2 << 20)
#define REGION	UINT64_C(4096)
#define BUFFER	UINT64_C(65536)
#define LVT_MSR 0x834u
#define MASKED	(UINT64_C(1) << 16)

struct play {
	struct rig rig;
	struct ptah_hal inner;
	struct ptah_capture *c;
	struct ptah_trace_config trace;
	struct stream stream;
	bool thread, in;
	unsigned writes;
	unsigned answers[3]; /* enum ptah_pmi */
	unsigned event, at, gaps;
	bool armed, fired;
};

static struct play *current; /* for the HAL's callback, which gets no argument of the test */

static int counted_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	current->writes++;
	return current->inner.wrmsr(port, msr, value);
}

static uint64_t peek(struct play *p, unsigned cpu, uint32_t msr)
{
	uint64_t value = 0;

	ptah_model_rdmsr(ptah_machine_model(p->rig.machine, cpu), msr, &value);
	return value;
}

static struct ptah_model *processor(struct play *p)
{
	return ptah_machine_model(p->rig.machine, ptah_machine_cpu(p->rig.machine));
}

enum event {
	FOREIGN,     /* an NMI that does not belong to the engine */
	FILL,	     /* the trace fills a region; the PMI comes at once */
	FILL_LATE,   /* the same, and the PMI comes three instructions later */
	FILL_FLUSH,  /* the bytes that fill it leave the processor with the next instruction */
	PAUSE_THERE, /* an NMI's handler pauses the capture */
	RESUME_THERE,
	BOTH_THERE,
	EVENTS
};

/* The handler of PMIs and NMIs. */
static void interrupt(void *argument, unsigned cpu)
{
	struct play *p = argument;
	unsigned writes = p->writes, answer;

	(void)cpu;
	answer = (unsigned)ptah_engine_pmi(p->rig.engine);
	p->answers[answer]++;
	if (answer == PTAH_PMI_NONE)
		assert_int_equal(p->writes, writes);
	if (!p->armed)
		return;
	if (p->event == PAUSE_THERE || p->event == BOTH_THERE)
		ptah_capture_pause_here(p->c);
	if (p->event == RESUME_THERE || p->event == BOTH_THERE)
		ptah_capture_resume_here(p->c);
}

static void put(struct play *p, uint64_t n)
{
	unsigned cpu = ptah_machine_cpu(p->rig.machine);

	if (rig_enabled(&p->rig, cpu))
		stream_put(&p->stream, &p->rig, cpu, n);
}

/* Outputs up to the end of the region inside one instruction: no interrupt is delivered yet. */
static void put_quietly(struct play *p)
{
	uint8_t byte;

	while (rig_enabled(&p->rig, ptah_machine_cpu(p->rig.machine))) {
		byte = stream_byte(p->stream.put++);
		ptah_model_put(processor(p), &byte, 1);
		stream_append(&p->stream, &byte, 1);
		if (p->stream.n % REGION == 0)
			break;
	}
}

static void gap(void *argument, unsigned cpu, const char *callback)
{
	struct play *p = argument;

	(void)cpu;
	(void)callback;
	if (!p->armed || p->gaps++ != p->at)
		return;
	p->fired = true;
	switch (p->event) {
	case FILL:
	case FILL_LATE:
		put(p, REGION + 1);
		break;
	case FILL_FLUSH:
		put_quietly(p);
		break;
	default:
		ptah_model_nmi(processor(p));
		break;
	}
}

/* How a capture is switched, and the kind of its tables. */
struct carrier {
	const char *processor;
	uint8_t policy;
	bool thread, no_xsaves;
};

static const struct carrier carriers[] = {
    {"skylake", PTAH_POLICY_WRAP, false, false}, {"skylake", PTAH_POLICY_DRAIN, false, false},
    {"skylake", PTAH_POLICY_WRAP, true, false},	 {"skylake", PTAH_POLICY_DRAIN, true, false},
    {"skylake", PTAH_POLICY_STOP, true, true},	 {"minimal", PTAH_POLICY_WRAP, false, false},
    {"minimal", PTAH_POLICY_DRAIN, true, true},	 {"broadwell", PTAH_POLICY_STOP, true, false},
};

#define CARRIERS (sizeof(carriers) / sizeof(carriers[0]))

static void open_play(struct play *p, const struct carrier *carrier, unsigned cpus,
		      const struct ptah_model_faults *faults)
{
	struct ptah_model_faults all = *faults;
	struct ptah_capture_config config;
	unsigned n;

	memset(p, 0, sizeof(*p));
	current = p;
	rig_open_at(&p->rig, ptah_model_find(carrier->processor), cpus, ARENA, 0x10000000);
	all.ack_needs_topa = true;
	for (n = 0; n < cpus; n++)
		rig_silence(&p->rig, n, &all);
	p->inner = p->rig.hal;
	p->rig.hal.wrmsr = counted_wrmsr;
	ptah_machine_on_pmi(p->rig.machine, interrupt, p);
	config = rig_config(&p->rig, &p->trace);
	config.policy = carrier->policy;
	config.buffer = BUFFER;
	config.region = REGION;
	config.pmis = strcmp(carrier->processor, "skylake") ? 0 : BUFFER / REGION;
	config.no_xsaves = carrier->no_xsaves;
	config.cpu = carrier->thread ? PTAH_CAPTURE_THREAD : 0;
	p->thread = carrier->thread;
	p->c = rig_capture(&p->rig, &config);
}

static void go(struct play *p, bool in)
{
	if (!p->thread || p->in == in)
		return;
	rig_switch(&p->rig, p->c, ptah_machine_cpu(p->rig.machine), in);
	p->in = in;
}

static void run(struct play *p)
{
	int status = ptah_capture_start(p->c);

	if (status != PTAH_OK)
		fail_msg("start: %d", status);
	if (rig_status(p->c).state == PTAH_CAPTURE_PAUSED)
		assert_int_equal(ptah_capture_resume(p->c), PTAH_OK);
	go(p, true);
}

/* Tracing is disabled: every byte is accounted for. */
static void settle(struct play *p)
{
	struct ptah_capture_status s;
	uint32_t flags;

	go(p, false);
	assert_int_equal(ptah_capture_stop(p->c), PTAH_OK);
	assert_false(rig_enabled(&p->rig, 0));
	s = rig_status(p->c);
	assert_int_equal(s.state, PTAH_CAPTURE_IDLE);
	assert_int_equal(s.position, p->stream.n);
	stream_check(&p->stream, p->c, s.oldest, s.position);
	flags = rig_flags(p->c);
	assert_false(flags & (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_UNSURE));
}

/* PMIs still come. */
static void still_alive(struct play *p)
{
	uint64_t before;

	run(p);
	before = rig_status(p->c).pmis;
	put(p, 2 * REGION + 1);
	assert_true(rig_status(p->c).pmis > before);
	assert_int_equal(peek(p, ptah_machine_cpu(p->rig.machine), LVT_MSR) & MASKED, 0);
	settle(p);
}

static void close_play(struct play *p)
{
	ptah_machine_on_gap(p->rig.machine, NULL, NULL);
	assert_int_equal(ptah_capture_free(p->c), PTAH_OK);
	rig_close(&p->rig);
	stream_free(&p->stream);
}

/* An NMI between any two instructions of every call. */

enum call {
	START,
	STOP,
	PAUSE,
	RESUME,
	FLUSH,
	RECONFIGURE,
	CONSUME,
	SWITCH_IN,
	SWITCH_OUT,
	OFFLINE,
	ONLINE,
	CALLS
};

static void pinned(struct play *p, void (*work)(struct ptah_engine *))
{
	uint64_t irqs = p->rig.hal.irq_save(p->rig.machine);

	work(p->rig.engine);
	p->rig.hal.irq_restore(p->rig.machine, irqs);
}

/* Before the call. */
static void prepare(struct play *p, enum call call)
{
	if (call == START)
		return;
	run(p);
	put(p, 100);
	if (call == RESUME)
		assert_int_equal(ptah_capture_pause(p->c), PTAH_OK);
	if (call == SWITCH_IN)
		go(p, false);
	if (call == ONLINE)
		pinned(p, ptah_engine_cpu_offline);
}

static void do_call(struct play *p, enum call call)
{
	int status = PTAH_OK;

	switch (call) {
	case START:
		status = ptah_capture_start(p->c);
		break;
	case STOP:
		status = ptah_capture_stop(p->c);
		break;
	case PAUSE:
		status = ptah_capture_pause(p->c);
		break;
	case RESUME:
		status = ptah_capture_resume(p->c);
		break;
	case FLUSH:
		status = ptah_capture_flush(p->c, NULL);
		break;
	case RECONFIGURE:
		p->trace.no_retcomp = true;
		status = ptah_capture_reconfigure(p->c, &p->trace, NULL);
		break;
	case CONSUME:
		status = ptah_capture_consume(p->c, ptah_capture_position(p->c), NULL);
		break;
	case SWITCH_IN:
	case SWITCH_OUT:
		go(p, call == SWITCH_IN);
		break;
	default:
		pinned(p, call == OFFLINE ? ptah_engine_cpu_offline : ptah_engine_cpu_online);
		break;
	}
	if (status != PTAH_OK)
		fail_msg("call %d: status %d", call, status);
}

/* The state that the call leads to, unless the NMI's handler changed it. */
static void expect(struct play *p, enum call call)
{
	bool stops = call == STOP || call == PAUSE || call == SWITCH_OUT || call == OFFLINE;
	bool on = rig_enabled(&p->rig, 0);
	uint64_t position;

	/*
	 * Each interrupt was handled: the status bit is clear, and the next one will be
	 * delivered.
	 */
	assert_int_equal(peek(p, 0, LVT_MSR) & MASKED, 0);
	assert_int_equal(peek(p, 0, PTAH_IA32_PERF_GLOBAL_STATUS), 0);
	if (call == STOP || call == SWITCH_OUT || call == OFFLINE)
		assert_false(on);
	if (p->event <= FILL_FLUSH && !(p->thread && (call == START || call == ONLINE)))
		assert_int_equal(on, !stops);
	assert_int_equal(on, rig_status(p->c).state == PTAH_CAPTURE_RUNNING);
	if (on)
		assert_int_equal(ptah_capture_flush(p->c, &position), PTAH_OK);
	assert_int_equal(ptah_capture_position(p->c), p->stream.n);
}

/* False: the call has fewer instructions. */
static bool in_gap(const struct carrier *carrier, enum call call, enum event event, unsigned at)
{
	struct ptah_model_faults faults = {.pmi_skid_boundaries = event == FILL_LATE ? 3 : 0};
	struct play p;
	bool fired;

	open_play(&p, carrier, 1, &faults);
	prepare(&p, call);
	p.event = event;
	p.at = at;
	ptah_machine_on_gap(p.rig.machine, gap, &p);
	p.armed = true;
	do_call(&p, call);
	p.armed = false;
	fired = p.fired;
	for (unsigned n = 0; n < 4; n++)
		ptah_model_boundary(processor(&p));
	expect(&p, call);
	if (fired && event == FOREIGN) {
		assert_int_equal(p.answers[PTAH_PMI_NONE], 1);
		assert_int_equal(p.answers[PTAH_PMI_OURS] + p.answers[PTAH_PMI_LATE], 0);
	} else if (event <= FILL_FLUSH) {
		assert_int_equal(p.answers[PTAH_PMI_NONE], 0);
	}
	if (call == OFFLINE)
		pinned(&p, ptah_engine_cpu_online);
	if (call == ONLINE || call == OFFLINE || call == STOP)
		p.in = false; /* it was switched out */
	still_alive(&p);
	close_play(&p);
	return fired;
}

TEST(nmi_in_every_gap)
{
	unsigned i, call, event, at, gaps = 0;

	for (i = 0; i < CARRIERS; i++) {
		for (call = 0; call < CALLS; call++) {
			if (!carriers[i].thread && (call == SWITCH_IN || call == SWITCH_OUT))
				continue;
			for (event = 0; event < EVENTS; event++) {
				for (at = 0; in_gap(&carriers[i], call, event, at); at++)
					gaps++;
				/* Each of these calls executes at least one instruction. */
				if (call != CONSUME &&
				    !(carriers[i].thread && (call == START || call == ONLINE)))
					assert_true(at > 2);
			}
		}
	}
	assert_true(gaps > 4000);
}

/* PMIs that are some bytes late: up to three regions, and near the ends of regions. */
TEST(skid)
{
	static const uint32_t bytes[] = {0,    1,    64,   4095,  4096,	 4097,
					 8191, 8192, 8193, 12287, 12288, 12289};
	unsigned i, k, n;

	for (i = 0; i < CARRIERS; i++) {
		for (k = 0; k < sizeof(bytes) / sizeof(bytes[0]); k++) {
			struct ptah_model_faults faults = {
			    .pmi_skid_bytes = bytes[k], .cache_next = true, .stale_bytes = 100};
			struct play p;

			open_play(&p, &carriers[i], 1, &faults);
			for (n = 0; n < 40; n++) {
				run(&p);
				put(&p, n * 1237 % (3 * REGION));
				if (n % 3 == 0)
					assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
				settle(&p);
				assert_int_equal(
				    ptah_capture_consume(p.c, ptah_capture_position(p.c), NULL),
				    PTAH_OK);
			}
			assert_int_equal(p.answers[PTAH_PMI_NONE], 0);
			faults = (struct ptah_model_faults){0};
			rig_silence(&p.rig, 0, &faults);
			still_alive(&p);
			close_play(&p);
		}
	}
}

/*
 * One PMI for several regions: the number of bytes follows from the position,
 * not from the number of PMIs.
 */
TEST(merged)
{
	struct ptah_model_faults faults = {.pmi_skid_bytes = 5 * REGION / 2};
	unsigned pmis;
	struct play p;

	open_play(&p, &carriers[0], 1, &faults);
	run(&p);
	put(&p, 100 * REGION + 17);
	pmis = p.answers[PTAH_PMI_OURS];
	/* 100 regions with INT were filled, with one PMI for three or four of them. */
	assert_true(pmis >= 20 && pmis <= 40);
	settle(&p);
	assert_int_equal(ptah_capture_position(p.c), 100 * REGION + 17);
	close_play(&p);
}

/*
 * A PMI after the capture has stopped: claimed, nothing is changed, and the
 * next one is delivered as usual.
 */
TEST(after_stop)
{
	struct ptah_model_faults faults = {.pmi_skid_boundaries = 1000};
	unsigned i, n, writes;
	struct play p;

	for (i = 0; i < CARRIERS; i++) {
		uint64_t before[4], after[4];

		open_play(&p, &carriers[i], 1, &faults);
		run(&p);
		put(&p, REGION + 5);
		settle(&p);
		assert_int_equal(p.answers[PTAH_PMI_OURS], 0);
		for (n = 0; n < 4; n++)
			before[n] = peek(&p, 0,
					 n < 2 ? PTAH_IA32_RTIT_OUTPUT_BASE + n
					       : PTAH_IA32_RTIT_CTL + n - 2);
		writes = p.writes;
		for (n = 0; n < 1001; n++)
			ptah_model_boundary(processor(&p));
		assert_int_equal(p.answers[PTAH_PMI_LATE], 1);
		assert_int_equal(p.answers[PTAH_PMI_NONE] + p.answers[PTAH_PMI_OURS], 0);
		assert_int_equal(p.writes, writes);
		for (n = 0; n < 4; n++) {
			after[n] = peek(&p, 0,
					n < 2 ? PTAH_IA32_RTIT_OUTPUT_BASE + n
					      : PTAH_IA32_RTIT_CTL + n - 2);
			assert_int_equal(after[n], before[n]);
		}
		assert_int_equal(peek(&p, 0, LVT_MSR) & MASKED, 0);
		/* The late PMI was claimed once: any further NMI is not claimed. */
		ptah_model_nmi(processor(&p));
		assert_int_equal(p.answers[PTAH_PMI_NONE], 1);
		faults.pmi_skid_boundaries = 0;
		rig_silence(&p.rig, 0, &faults);
		still_alive(&p);
		assert_int_equal(p.answers[PTAH_PMI_NONE], 1);
		faults.pmi_skid_boundaries = 1000;
		close_play(&p);
	}
}

/* A PMI at every instruction between disable, read, acknowledge and enable. */
TEST(between_disable_and_acknowledge)
{
	unsigned i, late, n;
	struct play p;

	for (i = 0; i < CARRIERS; i++) {
		for (late = 0; late < 70; late++) {
			struct ptah_model_faults faults = {.pmi_skid_boundaries = late};

			open_play(&p, &carriers[i], 1, &faults);
			run(&p);
			for (n = 0; n < 5; n++) {
				put(&p, REGION + n);
				assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
				assert_int_equal(ptah_capture_position(p.c), p.stream.n);
			}
			settle(&p);
			for (n = 0; n < 80; n++)
				ptah_model_boundary(processor(&p));
			assert_int_equal(p.answers[PTAH_PMI_NONE], 0);
			assert_int_equal(peek(&p, 0, LVT_MSR) & MASKED, 0);
			close_play(&p);
		}
	}
}

/*
 * The PMI belongs to the thread that was just switched out. The new thread's
 * trace is unaffected.
 */
TEST(between_xsaves_and_xrstors)
{
	unsigned late, msr, n, turn;

	for (msr = 0; msr < 2; msr++) {
		for (late = 0; late < 120; late++) {
			struct carrier carrier = {"skylake", PTAH_POLICY_WRAP, true, msr};
			struct ptah_model_faults faults = {.pmi_skid_boundaries = late};
			struct ptah_capture *c[2];
			struct stream streams[2] = {{0}};
			struct ptah_capture_config config;
			struct play p;

			open_play(&p, &carrier, 2, &faults);
			config = rig_config(&p.rig, &p.trace);
			config.region = REGION;
			config.pmis = BUFFER / REGION;
			config.cpu = PTAH_CAPTURE_THREAD;
			config.no_xsaves = msr;
			c[0] = p.c;
			c[1] = rig_capture(&p.rig, &config);
			assert_int_equal(ptah_capture_start(c[0]), PTAH_OK);
			assert_int_equal(ptah_capture_start(c[1]), PTAH_OK);
			for (turn = 0; turn < 12; turn++) {
				unsigned who = turn & 1, cpu = turn / 5 & 1;

				rig_switch(&p.rig, c[who], cpu, true);
				stream_put(&streams[who], &p.rig, cpu, REGION + 100 * turn + late);
				rig_switch(&p.rig, c[who], cpu, false);
				assert_false(rig_enabled(&p.rig, cpu));
				assert_int_equal(ptah_capture_position(c[who]), streams[who].n);
			}
			for (n = 0; n < 240; n++)
				ptah_model_boundary(ptah_machine_model(p.rig.machine, n & 1));
			assert_int_equal(p.answers[PTAH_PMI_NONE], 0);
			for (n = 0; n < 2; n++) {
				struct ptah_capture_status s = rig_status(c[n]);

				assert_int_equal(s.position, streams[n].n);
				stream_check(&streams[n], c[n], s.oldest, s.position);
				assert_false(rig_flags(c[n]) &
					     (PTAH_CAPTURED_UNSURE | PTAH_CAPTURED_ERROR |
					      PTAH_CAPTURED_PARTIAL));
				assert_int_equal(peek(&p, n, LVT_MSR) & MASKED, 0);
				stream_free(&streams[n]);
			}
			assert_int_equal(ptah_capture_free(c[1]), PTAH_OK);
			close_play(&p);
		}
	}
}

/*
 * Counters overflow, or another tracer runs: the engine does not claim the PMI
 * and changes nothing.
 */
TEST(foreign)
{
	struct ptah_model_faults faults = {0};
	unsigned writes;
	struct play p;

	open_play(&p, &carriers[0], 1, &faults);
	/* Another tracer's PMI: the registers contain nothing of the engine's. */
	assert_int_equal(ptah_model_wrmsr(processor(&p), PTAH_IA32_PERF_GLOBAL_STATUS_SET,
					  PTAH_PERF_GLOBAL_TRACE_TOPA_PMI),
			 PTAH_OK);
	ptah_model_wrmsr(processor(&p), LVT_MSR, 0x400 | MASKED);
	ptah_model_nmi(processor(&p));
	assert_int_equal(p.answers[PTAH_PMI_NONE], 1);
	assert_int_equal(peek(&p, 0, PTAH_IA32_PERF_GLOBAL_STATUS),
			 PTAH_PERF_GLOBAL_TRACE_TOPA_PMI);
	assert_int_equal(peek(&p, 0, LVT_MSR) & MASKED, MASKED);
	/* That tracer acknowledges it, while ToPA is 1. */
	ptah_model_wrmsr(processor(&p), PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_TOPA);
	assert_int_equal(ptah_model_wrmsr(processor(&p), PTAH_IA32_PERF_GLOBAL_STATUS_RESET,
					  PTAH_PERF_GLOBAL_TRACE_TOPA_PMI),
			 PTAH_OK);
	ptah_model_wrmsr(processor(&p), PTAH_IA32_RTIT_CTL, 0);
	/* A counter's PMI, while the engine traces. */
	run(&p);
	put(&p, 100);
	ptah_model_wrmsr(processor(&p), PTAH_IA32_PERF_GLOBAL_STATUS_SET, 1);
	writes = p.writes;
	ptah_model_nmi(processor(&p));
	assert_int_equal(p.answers[PTAH_PMI_NONE], 2);
	assert_int_equal(p.writes, writes);
	assert_int_equal(peek(&p, 0, PTAH_IA32_PERF_GLOBAL_STATUS), 1);
	assert_int_equal(peek(&p, 0, LVT_MSR) & MASKED, MASKED);
	assert_true(rig_enabled(&p.rig, 0));
	assert_int_equal(rig_status(p.c).looks, 0);
	/* Both at once: the engine handles its own and leaves the counter's to its owner. */
	ptah_model_wrmsr(processor(&p), LVT_MSR, 0x400);
	put(&p, REGION);
	assert_int_equal(p.answers[PTAH_PMI_OURS], 1);
	assert_int_equal(peek(&p, 0, PTAH_IA32_PERF_GLOBAL_STATUS), 1);
	assert_int_equal(peek(&p, 0, LVT_MSR) & MASKED, 0);
	settle(&p);
	close_play(&p);
}

/*
 * Bit 55 is still set from an earlier trace, and may be cleared only while ToPA
 * is 1 (SDM tables of IA32_PERF_GLOBAL_STATUS and its reset). It is not taken
 * for a full region of the new trace.
 */
TEST(left_over_bit)
{
	struct ptah_model_faults faults = {0};
	unsigned i;
	struct play p;

	for (i = 0; i < CARRIERS; i++) {
		open_play(&p, &carriers[i], 1, &faults);
		if (ptah_model_wrmsr(processor(&p), PTAH_IA32_PERF_GLOBAL_STATUS_SET,
				     PTAH_PERF_GLOBAL_TRACE_TOPA_PMI) == PTAH_OK) {
			run(&p);
			assert_int_equal(peek(&p, 0, PTAH_IA32_PERF_GLOBAL_STATUS), 0);
			put(&p, 100);
			settle(&p);
			assert_int_equal(ptah_capture_position(p.c), 100);
		}
		still_alive(&p);
		close_play(&p);
	}
}

/* The port has no PMIs: no table entry has INT, so none is raised. SDM "ToPA PMI". */
TEST(no_int_without_a_handler)
{
	unsigned refused, policy;

	for (refused = 0; refused < 2; refused++) {
		for (policy = 0; policy < PTAH_POLICY_MAX; policy++) {
			struct ptah_model_faults faults = {.silent = true};
			struct ptah_capture_config config;
			struct ptah_trace_config trace;
			struct stream stream = {0};
			struct ptah_capture *c;
			struct rig rig;

			rig_open_at(&rig, ptah_model_find("skylake"), 1, ARENA, 0x10000000);
			rig_silence(&rig, 0, &faults);
			if (refused) { /* by the port: there is another engine on the machine */
				assert_int_equal(ptah_engine_free(rig.engine), PTAH_OK);
				rig.hal.pmi_enable = NULL;
				rig.hal.pmi_unmask = NULL;
				assert_int_equal(
				    ptah_engine_new(&rig.hal, rig.machine, &rig.engine), PTAH_OK);
			}
			config = rig_config(&rig, &trace);
			config.policy = (uint8_t)policy;
			config.no_pmi = !refused;
			c = rig_capture(&rig, &config);
			assert_false(rig_status(c).pmi);
			assert_int_equal(ptah_capture_start(c), PTAH_OK);
			while (stream.n < 40 * BUFFER && rig_enabled(&rig, 0)) {
				uint64_t global = 0, before = stream.n;

				stream_put(&stream, &rig, 0, REGION);
				ptah_model_rdmsr(ptah_machine_model(rig.machine, 0),
						 PTAH_IA32_PERF_GLOBAL_STATUS, &global);
				assert_int_equal(global, 0);
				if (stream.n == before)
					break;
			}
			assert_int_equal(ptah_capture_free(c), PTAH_OK);
			rig_close(&rig);
			stream_free(&stream);
		}
	}
}
