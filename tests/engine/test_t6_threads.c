/* SPDX-License-Identifier: MIT */
/*
 * Test group T6: threads. Two threads take turns on one processor and move
 * between two processors. The slices of each capture, joined, are the stream of
 * its own thread alone; its position never goes back; a slice begins with a PSB
 * where that is requested. First step by step, then with a thread of the test
 * for each processor.
 */
#include "engine/live.h"

#include <ptah/event.h>

#define THREADS 2u
#define TURNS	4000u
#define CALLS	20u /* at least this many, from another processor */

/* The most bytes that a processor writes by itself when it starts and stops. */
#define SLICE 128u

/* One processor at a time, with marks */

static void pinned_in(struct rig *rig, struct ptah_capture *c, unsigned cpu)
{
	uint64_t irqs;

	ptah_machine_set_cpu(rig->machine, cpu);
	irqs = rig->hal.irq_save(rig->machine);
	assert_int_equal(ptah_capture_switch_in(c), PTAH_OK);
	rig->hal.irq_restore(rig->machine, irqs);
}

static void pinned_out(struct rig *rig, struct ptah_capture *c)
{
	uint64_t irqs = rig->hal.irq_save(rig->machine);

	ptah_capture_switch_out(c);
	rig->hal.irq_restore(rig->machine, irqs);
}

struct kind {
	const char *processor;
	bool no_xsaves, migrate;
	bool xsaves; /* is what the engine chooses */
};

static const struct kind kinds[] = {
    {"skylake", false, false, true},	 {"skylake", false, true, true},
    {"skylake", true, false, false},	 {"skylake", true, true, false},
    {"maximal", false, true, true},	 {"broadwell", false, true, false},
    {"minimal", true, true, false},	 {"minimal-range", true, true, false},
    {"goldmont-plus", false, true, true}};

/* Each capture has its own bytes, exactly as many as its processor counted. */
static void takes_turns(const struct kind *kind)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c[THREADS];
	struct rig rig;
	uint64_t n[THREADS] = {0};
	unsigned turn;

	rig_open(&rig, ptah_model_find(kind->processor), 2);
	config = rig_config(&rig, &trace);
	config.cpu = PTAH_CAPTURE_THREAD;
	config.no_xsaves = kind->no_xsaves;
	c[0] = rig_capture(&rig, &config);
	c[1] = rig_capture(&rig, &config);
	assert_int_equal(rig_status(c[0]).xsaves, kind->xsaves);
	assert_int_equal(ptah_capture_start(c[0]), PTAH_OK);
	assert_int_equal(ptah_capture_start(c[1]), PTAH_OK);
	assert_int_equal(rig_status(c[0]).state, PTAH_CAPTURE_OUT);
	for (turn = 0; turn < 60; turn++) {
		unsigned who = turn & 1, cpu = kind->migrate && turn % 3 == 0;
		uint64_t before = rig_output(&rig, cpu), slice;

		pinned_in(&rig, c[who], cpu);
		assert_int_equal(rig_status(c[who]).state, PTAH_CAPTURE_RUNNING);
		assert_int_equal(rig_status(c[who]).cpu, cpu);
		assert_int_equal(rig_status(c[who ^ 1]).state, PTAH_CAPTURE_OUT);
		assert_int_equal(rig_status(c[who ^ 1]).position, n[who ^ 1]);
		rig_mark(&rig, cpu, 20 + turn);
		pinned_out(&rig, c[who]);
		assert_false(rig_enabled(&rig, cpu));
		slice = rig_output(&rig, cpu) - before;
		n[who] += slice;
		assert_int_equal(rig_status(c[who]).position, n[who]);
		assert_int_equal(
		    rig_check(c[who], n[who] - slice, n[who], rig.next - 20 - turn, SLICE),
		    rig.next);
	}
	for (turn = 0; turn < THREADS; turn++) {
		assert_int_equal(ptah_capture_stop(c[turn]), PTAH_OK);
		assert_int_equal(ptah_capture_position(c[turn]), n[turn]);
		assert_false(rig_flags(c[turn]) &
			     ~(uint32_t)(PTAH_CAPTURED_DATA | PTAH_CAPTURED_STARTED |
					 PTAH_CAPTURED_STOPPED | PTAH_CAPTURED_WRAPPED |
					 PTAH_CAPTURED_DROPPED));
		assert_int_equal(ptah_capture_free(c[turn]), PTAH_OK);
	}
	rig_close(&rig);
}

TEST(take_turns)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		takes_turns(&kinds[i]);
}

/* One processor at a time, with programs */

/* A thread that runs one indirect jump after another, each to another address. */
struct program {
	uint64_t base, ip, jumps;
};

static uint64_t jump_target(const struct program *p, uint64_t i)
{
	return p->base + (i * 0x2f40 & 0xfffffff0) + 16;
}

static void run(struct rig *rig, unsigned cpu, struct program *p, unsigned jumps)
{
	struct ptah_model *m = ptah_machine_model(rig->machine, cpu);

	for (; jumps; jumps--) {
		uint64_t to = jump_target(p, p->jumps++);
		struct ptah_model_branch branch = {p->ip, p->ip + 2, to, PTAH_INSN_JUMP_IND, true};

		ptah_model_branch(m, &branch);
		ptah_model_boundary(m);
		p->ip = to;
	}
}

static void dispatch(struct rig *rig, unsigned cpu, const struct program *p)
{
	struct ptah_model_context context = {
	    .cr3 = p->base, .cpl = 3, .mode = PTAH_EXEC_64, .interrupts = true};

	ptah_model_begin(ptah_machine_model(rig->machine, cpu), p->ip, &context);
}

/* The stream of a thread contains its jumps in order, and none of another thread's. */
static void expect_program(struct ptah_capture *c, const struct program *p)
{
	uint64_t position = ptah_capture_position(c), last_ip = 0, jumps = 0, at, ip;
	uint8_t *bytes = rig_bytes(c, 0, position);
	struct ptah_packet packet;
	int n;

	for (at = 0; at < position; at += (uint64_t)n) {
		n = ptah_packet_decode(&packet, bytes + at, (size_t)(position - at), 0);
		assert_true(n > 0);
		if (packet.type == PTAH_PACKET_PSB)
			last_ip = 0;
		if (packet.type != PTAH_PACKET_TIP && packet.type != PTAH_PACKET_TIP_PGE &&
		    packet.type != PTAH_PACKET_TIP_PGD && packet.type != PTAH_PACKET_FUP)
			continue;
		if (!ptah_packet_ip(&last_ip, packet.u.ip.ipc, packet.u.ip.ip, &ip))
			continue;
		assert_true(ip >= p->base && ip < p->base + UINT64_C(0x200000000));
		if (packet.type == PTAH_PACKET_TIP)
			assert_int_equal(ip, jump_target(p, jumps++));
		else /* a slice continues where the previous one ended */
			assert_int_equal(ip, jumps ? jump_target(p, jumps - 1) : p->base);
	}
	assert_int_equal(jumps, p->jumps);
	free(bytes);
}

/* Counts the slices that do not begin with a PSB. */
static unsigned slices_without_psb(struct ptah_capture *c, unsigned *slices)
{
	uint64_t position = ptah_capture_position(c);
	uint8_t *bytes = rig_bytes(c, 0, position);
	struct ptah_capture_record records[512];
	unsigned without = 0;
	int n = ptah_capture_records(c, records, 512), i;

	*slices = 0;
	for (i = 0; i < n; i++) {
		const uint8_t *at = bytes + records[i].position;

		if (!(records[i].flags & PTAH_CAPTURED_STARTED))
			continue;
		++*slices;
		assert_true(records[i].position < position);
		without += ptah_packet_find_psb(at, bytes + position) != at;
	}
	free(bytes);
	return without;
}

static void programs_with(const struct kind *kind, bool force_psb)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c[THREADS];
	struct program p[THREADS] = {{.base = 0x100000000000, .ip = 0x100000000000},
				     {.base = 0x200000000000, .ip = 0x200000000000}};
	struct rig rig;
	unsigned turn, who, slices;
	uint64_t position;

	rig_open(&rig, ptah_model_find(kind->processor), 2);
	config = rig_config(&rig, &trace);
	trace.force_psb = force_psb;
	config.cpu = PTAH_CAPTURE_THREAD;
	config.buffer = 1 << 20;
	config.records = 512;
	config.no_xsaves = kind->no_xsaves;
	for (who = 0; who < THREADS; who++) {
		c[who] = rig_capture(&rig, &config);
		assert_int_equal(ptah_capture_start(c[who]), PTAH_OK);
	}
	for (turn = 0; turn < 120; turn++) {
		unsigned cpu = kind->migrate && turn % 3 == 0;

		who = turn & 1;
		position = ptah_capture_position(c[who]);
		dispatch(&rig, cpu, &p[who]);
		pinned_in(&rig, c[who], cpu);
		run(&rig, cpu, &p[who], 1 + turn * 7 % 60);
		if (turn % 5 == 0) /* a flush ends no slice */
			assert_int_equal(ptah_capture_flush(c[who], NULL), PTAH_OK);
		run(&rig, cpu, &p[who], turn % 3);
		pinned_out(&rig, c[who]);
		assert_true(ptah_capture_position(c[who]) > position);
	}
	for (who = 0; who < THREADS; who++) {
		unsigned without;

		assert_int_equal(ptah_capture_stop(c[who]), PTAH_OK);
		assert_int_equal(rig_status(c[who]).oldest, 0);
		expect_program(c[who], &p[who]);
		without = slices_without_psb(c[who], &slices);
		assert_int_equal(slices, 60);
		/*
		 * With a PSB in every slice if that was requested; else only where a period has
		 * ended: SDM "PacketByteCnt".
		 */
		if (force_psb || !ptah_engine_caps(rig.engine, 0)->psb_cyc)
			assert_int_equal(without, 0);
		else
			assert_true(without > 40);
		ptah_capture_free(c[who]);
	}
	rig_close(&rig);
}

TEST(own_streams)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		programs_with(&kinds[i], false);
		programs_with(&kinds[i], true);
	}
}

/*
 * A thread on two processors at once, or on one that has another thread:
 * refused, nothing is changed.
 */
TEST(no_place)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c[3];
	struct rig rig;
	uint64_t irqs;

	rig_open(&rig, ptah_model_find("skylake"), 2);
	config = rig_config(&rig, &trace);
	c[2] = rig_capture(&rig, &config);
	config.cpu = PTAH_CAPTURE_THREAD;
	c[0] = rig_capture(&rig, &config);
	c[1] = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_switch_in(c[2]), PTAH_E_INVAL);
	/* Not started: switching has no effect. */
	pinned_in(&rig, c[0], 1);
	assert_false(rig_enabled(&rig, 1));
	pinned_out(&rig, c[0]);
	assert_int_equal(ptah_capture_start(c[0]), PTAH_OK);
	assert_int_equal(ptah_capture_start(c[1]), PTAH_OK);
	pinned_in(&rig, c[0], 1);
	pinned_in(&rig, c[0], 1);
	rig_mark(&rig, 1, 10);
	irqs = rig.hal.irq_save(rig.machine);
	assert_int_equal(ptah_capture_switch_in(c[1]), PTAH_E_BUSY);
	ptah_machine_set_cpu(rig.machine, 0);
	assert_int_equal(ptah_capture_switch_in(c[0]), PTAH_E_BUSY);
	ptah_capture_switch_out(c[0]); /* it is not on this processor */
	ptah_machine_set_cpu(rig.machine, 1);
	rig.hal.irq_restore(rig.machine, irqs);
	assert_true(rig_enabled(&rig, 1));
	rig_mark(&rig, 1, 10);
	pinned_out(&rig, c[0]);
	assert_int_equal(ptah_capture_position(c[0]), rig_output(&rig, 1));
	assert_int_equal(rig_check(c[0], 0, rig_output(&rig, 1), 0, SLICE), 20);
	/* Execution that was not traced is reported when the thread is traced again. */
	assert_int_equal(ptah_capture_position(c[1]), 0);
	assert_false(rig_flags(c[1]) & PTAH_CAPTURED_PARTIAL);
	pinned_in(&rig, c[1], 1);
	pinned_out(&rig, c[1]);
	assert_true(rig_flags(c[1]) & PTAH_CAPTURED_PARTIAL);
	/* A capture of the processor itself keeps threads out. */
	ptah_machine_set_cpu(rig.machine, 0);
	assert_int_equal(ptah_capture_start(c[2]), PTAH_OK);
	irqs = rig.hal.irq_save(rig.machine);
	assert_int_equal(ptah_capture_switch_in(c[1]), PTAH_E_BUSY);
	ptah_capture_switch_out(c[1]);
	rig.hal.irq_restore(rig.machine, irqs);
	assert_true(rig_enabled(&rig, 0));
	assert_int_equal(ptah_capture_stop(c[2]), PTAH_OK);
	assert_int_equal(ptah_capture_free(c[0]), PTAH_OK);
	assert_int_equal(ptah_capture_free(c[1]), PTAH_OK);
	assert_int_equal(ptah_capture_free(c[2]), PTAH_OK);
	rig_close(&rig);
}

/* A thread of the test for each processor */

static struct {
	struct ptah_capture *capture[THREADS];
	atomic_bool running[THREADS]; /* the thread is on a processor */
	uint64_t written[THREADS];    /* marks, by the processor that runs it */
	atomic_uint moves;
	int last[THREADS]; /* the last processor that ran it */
	struct live_reader reader[THREADS];
} play;

/* What a processor does: it runs one of the two threads for a while, then the other. */
static void schedule(unsigned cpu)
{
	unsigned turn;
	uint64_t irqs;

	/* However busy the host is: until enough calls came from other processors. */
	for (turn = 0; turn < TURNS || atomic_load(&live.calls) < CALLS; turn++) {
		unsigned who = (turn + cpu) & 1;

		live_poll();
		sched_yield();
		if (atomic_exchange(&play.running[who], true))
			continue;
		if (play.last[who] != (int)cpu)
			atomic_fetch_add(&play.moves, 1);
		play.last[who] = (int)cpu;
		irqs = live_irqs_off();
		if (ptah_capture_switch_in(play.capture[who]) != PTAH_OK)
			abort();
		live_irqs_back(irqs);
		live_marks(&play.written[who], turn % 97);
		live_poll();
		if (turn % 16 == 0)
			sched_yield();
		live_marks(&play.written[who], turn % 13);
		irqs = live_irqs_off();
		ptah_capture_switch_out(play.capture[who]);
		live_irqs_back(irqs);
		atomic_store(&play.running[who], false);
	}
}

static void consume(unsigned who)
{
	struct live_reader *r = &play.reader[who];
	struct ptah_capture *c = play.capture[who];
	uint64_t position = ptah_capture_position(c), lost;
	uint8_t *bytes;

	assert_true(position >= r->tail);
	assert_int_equal(rig_status(c).tail, r->tail);
	bytes = rig_bytes(c, r->tail, position);
	r->flags |= rig_flags(c);
	live_read(r, bytes, (size_t)(position - r->tail));
	free(bytes);
	r->tail = position;
	assert_int_equal(ptah_capture_consume(c, position, &lost), PTAH_OK);
	assert_int_equal(lost, 0);
}

static void open_captures(bool no_xsaves)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	unsigned who;

	config = rig_config(&live.rig, &trace);
	config.cpu = PTAH_CAPTURE_THREAD;
	config.policy = PTAH_POLICY_DRAIN;
	config.no_xsaves = no_xsaves;
	config.records = 1024;
	for (who = 0; who < THREADS; who++) {
		play.last[who] = -1;
		play.capture[who] = rig_capture(&live.rig, &config);
		assert_int_equal(ptah_capture_start(play.capture[who]), PTAH_OK);
	}
}

/*
 * What the third processor does meanwhile: it consumes, pauses, reads the
 * status, stops and changes options.
 */
static void control(void)
{
	struct ptah_trace_config trace;
	unsigned round;

	ptah_trace_config_default(ptah_engine_caps(live.rig.engine, 0), &trace);
	for (round = 0; atomic_load(&live.working); round++) {
		struct ptah_capture *c = play.capture[round & 1];

		live_poll();
		if (round % 7 == 0)
			assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		if (round % 31 == 0) {
			assert_int_equal(ptah_capture_pause(c), PTAH_OK);
			assert_int_equal(ptah_capture_resume(c), PTAH_OK);
		}
		if (round % 53 == 0) {
			trace.no_retcomp = !trace.no_retcomp;
			assert_int_equal(ptah_capture_reconfigure(c, &trace, NULL), PTAH_OK);
		}
		if (round % 101 == 0) {
			assert_int_equal(ptah_capture_stop(c), PTAH_OK);
			assert_int_equal(ptah_capture_start(c), PTAH_OK);
		}
		consume(round & 1);
		sched_yield();
	}
}

static void finish(unsigned who)
{
	struct live_reader *r = &play.reader[who];

	assert_int_equal(ptah_capture_stop(play.capture[who]), PTAH_OK);
	consume(who);
	assert_true(r->next > 1000);
	/* Some marks may be missing where a region with STOP ended the trace; otherwise none. */
	if (!(r->flags & PTAH_CAPTURED_TRUNCATED)) {
		assert_int_equal(r->skipped, 0);
		assert_int_equal(r->next, play.written[who]);
	}
	assert_false(r->flags &
		     (PTAH_CAPTURED_PARTIAL | PTAH_CAPTURED_ERROR | PTAH_CAPTURED_UNSURE));
}

static void play_with(const char *processor, bool no_xsaves)
{
	uint64_t sum = 0, pmis = 0;
	unsigned who;

	memset(&play, 0, sizeof(play));
	live_open(processor, 2, schedule);
	open_captures(no_xsaves);
	atomic_store(&live.go, true);
	control();
	for (who = 0; who < THREADS; who++) {
		finish(who);
		sum += ptah_capture_position(play.capture[who]);
		pmis += rig_status(play.capture[who]).pmis;
	}
	assert_int_equal(atomic_load(&live.rig.foreign), 0);
	assert_int_equal(sum, rig_output(&live.rig, 0) + rig_output(&live.rig, 1));
	/* The test was worth something: threads moved, other processors interrupted, PMIs came. */
	print_message("%u moves, %u calls, %llu PMIs\n", atomic_load(&play.moves),
		      atomic_load(&live.calls), (unsigned long long)pmis);
	assert_true(atomic_load(&play.moves) > 0 && atomic_load(&live.calls) >= CALLS && pmis > 4);
	for (who = 0; who < THREADS; who++)
		assert_int_equal(ptah_capture_free(play.capture[who]), PTAH_OK);
	live_close();
}

TEST(played_by_xsaves)
{
	play_with("skylake", false);
}

TEST(played_by_msrs)
{
	play_with("skylake", true);
}

TEST(played_one_region_at_a_time)
{
	play_with("minimal", false);
}
