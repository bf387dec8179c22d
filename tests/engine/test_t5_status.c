/* SPDX-License-Identifier: MIT */
/*
 * Test group T5: the sticky bits of IA32_RTIT_STATUS. With Stopped or Error
 * still at 1, TraceEn = 1 traces nothing (SDM "IA32_RTIT_STATUS MSR",
 * "TriggerEn"). After a STOP the registers point at the end of a full region,
 * where continuing would be an error. And an error may be reported long after
 * its cause.
 */
#include "engine/stream.h"

#include <ptah/event.h>

#define STICKY	 (PTAH_RTIT_STATUS_ERROR | PTAH_RTIT_STATUS_STOPPED)
#define ARENA	 ((size_t)1 << 20)
#define BRANCHED 0x401000u /* where programs here run */
#define STOP_AT	 0x500000u /* a stop range */

/* A processor's capture, or a thread's that is switched by XSAVES or by MSRs. */
enum carrier {
	BOUND,
	BY_XSAVES,
	BY_MSR,
	CARRIERS
};

struct play {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_capture *c;
	enum carrier carrier;
};

static struct ptah_model *model(struct play *p)
{
	return ptah_machine_model(p->rig.machine, 0);
}

static uint64_t peek(struct play *p, uint32_t msr)
{
	uint64_t value = 0;

	ptah_model_rdmsr(model(p), msr, &value);
	return value;
}

static void open_play(struct play *p, const char *processor, enum carrier carrier, uint8_t policy,
		      bool no_pmi)
{
	memset(p, 0, sizeof(*p));
	p->carrier = carrier;
	rig_open_at(&p->rig, ptah_model_find(processor), 1, ARENA, 0x10000000);
	p->config = rig_config(&p->rig, &p->trace);
	p->config.policy = policy;
	p->config.no_pmi = no_pmi;
	p->config.region = 4096;
	p->config.cpu = carrier == BOUND ? 0 : PTAH_CAPTURE_THREAD;
	p->config.no_xsaves = carrier == BY_MSR;
}

static void begin(struct play *p)
{
	assert_int_equal(ptah_capture_start(p->c), PTAH_OK);
	if (p->carrier != BOUND)
		rig_switch(&p->rig, p->c, 0, true);
}

static void end(struct play *p)
{
	if (p->carrier != BOUND)
		rig_switch(&p->rig, p->c, 0, false);
	assert_int_equal(ptah_capture_stop(p->c), PTAH_OK);
	assert_false(rig_enabled(&p->rig, 0));
}

static void close_play(struct play *p)
{
	assert_int_equal(ptah_capture_free(p->c), PTAH_OK);
	rig_close(&p->rig);
	stream_free(&p->stream);
}

/* Checks that it traces: SDM, TriggerEn = TraceEn and neither Stopped nor Error. */
static void assert_triggered(struct play *p)
{
	assert_true(rig_enabled(&p->rig, 0));
	assert_int_equal(peek(p, PTAH_IA32_RTIT_STATUS) & STICKY, 0);
	assert_true(peek(p, PTAH_IA32_RTIT_STATUS) & PTAH_RTIT_STATUS_TRIGGER_EN);
}

/* An earlier tracer left the bits set. */
TEST(left_over)
{
	static const uint64_t bits[] = {PTAH_RTIT_STATUS_STOPPED, PTAH_RTIT_STATUS_ERROR, STICKY};
	static const char *const processors[] = {"skylake", "minimal", "minimal-range"};
	struct ptah_model_faults faults = {.silent = true};
	unsigned which, carrier, i, k;
	struct play p;

	for (k = 0; k < 3 * CARRIERS * 3; k++) {
		which = k % 3;
		carrier = k / 3 % CARRIERS;
		open_play(&p, processors[k / 9], carrier, PTAH_POLICY_WRAP, false);
		rig_silence(&p.rig, 0, &faults);
		if (k / 9 == 2)
			p.config.region = 0;
		p.c = rig_capture(&p.rig, &p.config);
		for (i = 0; i < 3; i++) {
			assert_int_equal(
			    ptah_model_wrmsr(model(&p), PTAH_IA32_RTIT_STATUS, bits[which]),
			    PTAH_OK);
			begin(&p);
			assert_triggered(&p);
			stream_put(&p.stream, &p.rig, 0, 1000);
			if (carrier == BOUND) {
				assert_int_equal(ptah_capture_pause(p.c), PTAH_OK);
				ptah_model_wrmsr(model(&p), PTAH_IA32_RTIT_STATUS, bits[which]);
				assert_int_equal(ptah_capture_resume(p.c), PTAH_OK);
				assert_triggered(&p);
			}
			stream_put(&p.stream, &p.rig, 0, 1000);
			end(&p);
			assert_int_equal(p.stream.n, 2000 * (i + 1));
			assert_int_equal(ptah_capture_position(p.c), p.stream.n);
		}
		assert_int_equal(rig_status(p.c).errors, 0);
		close_play(&p);
	}
}

/*
 * Full at a STOP, then partly consumed: the trace continues after it, at the
 * beginning of a region.
 */
TEST(stop_then_resume)
{
	struct ptah_model_faults faults = {.silent = true};
	static const uint8_t policies[] = {PTAH_POLICY_STOP, PTAH_POLICY_DRAIN};
	unsigned carrier, k, round;
	struct play p;

	for (k = 0; k < 4; k++) {
		for (carrier = 0; carrier < CARRIERS; carrier++) {
			open_play(&p, "skylake", carrier, policies[k & 1], k >> 1);
			rig_silence(&p.rig, 0, &faults);
			p.c = rig_capture(&p.rig, &p.config);
			for (round = 0; round < 20; round++) {
				struct ptah_capture_status s;
				uint64_t full = (p.stream.n / 65536 + 1) * 65536;
				uint32_t flags;

				begin(&p);
				assert_triggered(&p);
				stream_put(&p.stream, &p.rig, 0, 65536 + 100);
				/* The buffer is full to the byte. */
				assert_int_equal(p.stream.n, full);
				end(&p);
				s = rig_status(p.c);
				assert_int_equal(s.position, full);
				stream_check(&p.stream, p.c, s.oldest, s.position);
				flags = rig_flags(p.c);
				assert_true(flags & PTAH_CAPTURED_TRUNCATED);
				if (policies[k & 1] == PTAH_POLICY_STOP || !(k >> 1))
					assert_true(flags & PTAH_CAPTURED_FULL);
				assert_int_equal(ptah_capture_consume(p.c, s.position, NULL),
						 PTAH_OK);
			}
			assert_int_equal(rig_status(p.c).errors, 0);
			close_play(&p);
		}
	}
}

/* DRAIN waits, and continues by itself as soon as there is room. */
TEST(full_then_a_little_room)
{
	struct ptah_model_faults faults = {.silent = true};
	unsigned no_pmi, round;
	struct play p;

	for (no_pmi = 0; no_pmi < 2; no_pmi++) {
		open_play(&p, "skylake", BOUND, PTAH_POLICY_DRAIN, no_pmi);
		rig_silence(&p.rig, 0, &faults);
		p.c = rig_capture(&p.rig, &p.config);
		begin(&p);
		stream_put(&p.stream, &p.rig, 0, 70000);
		for (round = 1; round < 40; round++) {
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
			assert_int_equal(rig_status(p.c).state, PTAH_CAPTURE_FULL);
			assert_int_equal(p.stream.n, 65536 + (round - 1) * 4096);
			stream_check(&p.stream, p.c, rig_status(p.c).tail, p.stream.n);
			assert_int_equal(ptah_capture_consume(p.c, 4096 * round, NULL), PTAH_OK);
			assert_triggered(&p);
			stream_put(&p.stream, &p.rig, 0, 5000);
		}
		end(&p);
		assert_int_equal(rig_status(p.c).errors, 0);
		close_play(&p);
	}
}

static void branch_to(struct play *p, uint64_t from, uint64_t to)
{
	const struct ptah_model_branch branch = {
	    .ip = from, .end = from + 2, .to = to, .kind = PTAH_INSN_JUMP_IND, .taken = true};

	ptah_model_branch(model(p), &branch);
	ptah_model_boundary(model(p));
}

/* Execution enters a stop range: reported, not traced from there, and resume clears the bit. */
TEST(trace_stop_then_resume)
{
	const struct ptah_model_context context = {.cpl = 3, .mode = PTAH_EXEC_64};
	unsigned carrier, round;
	struct play p;

	for (carrier = 0; carrier < CARRIERS; carrier++) {
		uint64_t output = 0;

		open_play(&p, "skylake", carrier, PTAH_POLICY_WRAP, false);
		p.trace.ranges[0] = (struct ptah_range){STOP_AT, STOP_AT + 0xfff, PTAH_RANGE_STOP};
		p.c = rig_capture(&p.rig, &p.config);
		ptah_model_begin(model(&p), BRANCHED, &context);
		begin(&p);
		for (round = 0; round < 6; round++) {
			assert_triggered(&p);
			branch_to(&p, BRANCHED, BRANCHED + 0x40);
			assert_triggered(&p);
			branch_to(&p, BRANCHED + 0x40, STOP_AT + 0x10);
			assert_true(peek(&p, PTAH_IA32_RTIT_STATUS) & PTAH_RTIT_STATUS_STOPPED);
			output = rig_output(&p.rig, 0);
			branch_to(&p, STOP_AT + 0x10, BRANCHED);
			branch_to(&p, BRANCHED, BRANCHED);
			assert_int_equal(rig_output(&p.rig, 0), output);
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
			assert_int_equal(rig_status(p.c).state, PTAH_CAPTURE_RANGE);
			assert_int_equal(ptah_capture_position(p.c), output);
			assert_true(rig_flags(p.c) & PTAH_CAPTURED_RANGE);
			/* Only the owner's call starts it again. */
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
			assert_false(rig_enabled(&p.rig, 0));
			assert_int_equal(round & 1 ? ptah_capture_start(p.c)
						   : ptah_capture_resume(p.c),
					 PTAH_OK);
			if (!rig_enabled(&p.rig, 0)) /* a thread's: from its next slice on */
				rig_switch(&p.rig, p.c, 0, true);
		}
		end(&p);
		assert_int_equal(ptah_capture_position(p.c), rig_output(&p.rig, 0));
		assert_int_equal(rig_status(p.c).errors, 0);
		close_play(&p);
	}
}

/*
 * The processor cannot read its tables (SDM "ToPA Errors": SMRR): reported by
 * start, or by the first call after it.
 */
TEST(error_at_the_start)
{
	unsigned carrier, delay;
	struct play p;
	uint64_t irqs;

	for (carrier = 0; carrier < CARRIERS; carrier++) {
		for (delay = 0; delay < 2; delay++) {
			struct ptah_model_faults faults = {.silent = true,
							   .error_delay = delay * 50};

			open_play(&p, "skylake", carrier, PTAH_POLICY_WRAP, false);
			rig_silence(&p.rig, 0, &faults);
			p.c = rig_capture(&p.rig, &p.config);
			begin(&p);
			end(&p);
			ptah_machine_hide(p.rig.machine, rig_status(p.c).output_base, 4096);
			if (carrier == BOUND) {
				assert_int_equal(ptah_capture_start(p.c),
						 delay ? PTAH_OK : PTAH_E_DEVICE);
			} else {
				assert_int_equal(ptah_capture_start(p.c), PTAH_OK);
				irqs = p.rig.hal.irq_save(p.rig.machine);
				assert_int_equal(ptah_capture_switch_in(p.c),
						 delay ? PTAH_OK : PTAH_E_DEVICE);
				p.rig.hal.irq_restore(p.rig.machine, irqs);
			}
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
			assert_false(rig_enabled(&p.rig, 0));
			assert_int_equal(rig_status(p.c).errors, 1);
			assert_int_equal(ptah_capture_position(p.c), 0);
			end(&p);
			/* Nothing else was wrong. */
			ptah_machine_hide(p.rig.machine, 0, 0);
			begin(&p);
			assert_triggered(&p);
			stream_put(&p.stream, &p.rig, 0, 300);
			end(&p);
			assert_int_equal(ptah_capture_position(p.c), 300);
			stream_check(&p.stream, p.c, 0, 300);
			close_play(&p);
		}
	}
}

/*
 * A table is damaged during the trace. The processor may report it at once, a
 * million bytes later, or when it is stopped (SDM "Operational Errors"). What
 * went to memory before is in the buffer, and nothing is invented.
 */
TEST(error_after_so_many_bytes)
{
	static const uint32_t delays[] = {0,	 1,	 7,	 63,	 64,	 65,	1000,
					  4095,	 4096,	 4097,	 10000,	 65535,	 65536, 65537,
					  99999, 262144, 500000, 999999, 1000000};
	unsigned carrier, d, put, way;
	struct play p;

	for (way = 0; way < CARRIERS * 2; way++) {
		carrier = way % CARRIERS;
		for (d = 0; d < sizeof(delays) / sizeof(delays[0]); d++) {
			struct ptah_model_faults faults = {.silent = true,
							   .error_delay = delays[d]};
			struct ptah_capture_status s;
			uint64_t *table, bytes = 0;

			open_play(&p, "skylake", carrier, PTAH_POLICY_WRAP, way >= CARRIERS);
			rig_silence(&p.rig, 0, &faults);
			p.c = rig_capture(&p.rig, &p.config);
			begin(&p);
			table = (uint64_t *)(void *)ptah_machine_memory(
			    p.rig.machine, peek(&p, PTAH_IA32_RTIT_OUTPUT_BASE), &bytes);
			table[5] |= 1u << 10; /* reserved */
			for (put = 0; put < 5 * 4096 + delays[d] + 10; put += 4000)
				stream_put(&p.stream, &p.rig, 0, 4000);
			assert_int_equal(p.stream.n, 5 * 4096);
			assert_int_equal(ptah_capture_flush(p.c, NULL), PTAH_OK);
			s = rig_status(p.c);
			assert_int_equal(s.state, PTAH_CAPTURE_ERROR);
			assert_int_equal(s.error, PTAH_E_DEVICE);
			assert_int_equal(s.errors, 1);
			assert_false(rig_enabled(&p.rig, 0));
			assert_int_equal(s.position, p.stream.n);
			stream_check(&p.stream, p.c, 0, s.position);
			assert_true(rig_flags(p.c) & PTAH_CAPTURED_ERROR);
			/* The damage is found before TraceEn is set again. */
			assert_int_equal(ptah_capture_resume(p.c), PTAH_E_INVAL);
			assert_false(rig_enabled(&p.rig, 0));
			end(&p);
			table[5] &= ~UINT64_C(0x400);
			begin(&p);
			assert_triggered(&p);
			stream_put(&p.stream, &p.rig, 0, 9000);
			end(&p);
			assert_int_equal(ptah_capture_position(p.c), p.stream.n);
			assert_int_equal(p.stream.n, 5 * 4096 + 9000);
			stream_check(&p.stream, p.c, 0, p.stream.n);
			close_play(&p);
		}
	}
}

/*
 * SDM "IA32_RTIT_STATUS MSR", PacketByteCnt: a slice begins with a PSB if it is
 * 0. With force_psb every slice does; without, the period continues over a
 * stop.
 */
TEST(a_psb_at_the_beginning)
{
	const struct ptah_model_context context = {.cpl = 3, .mode = PTAH_EXEC_64};
	unsigned carrier, force, round;
	struct play p;

	for (force = 0; force < 2; force++) {
		for (carrier = 0; carrier < CARRIERS; carrier++) {
			open_play(&p, "skylake", carrier, PTAH_POLICY_WRAP, false);
			p.trace.force_psb = force;
			p.c = rig_capture(&p.rig, &p.config);
			ptah_model_begin(model(&p), BRANCHED, &context);
			for (round = 0; round < 8; round++) {
				uint64_t from = ptah_capture_position(p.c);
				uint8_t *bytes;
				bool psb;

				begin(&p);
				branch_to(&p, BRANCHED, BRANCHED + 0x40);
				branch_to(&p, BRANCHED + 0x40, BRANCHED);
				end(&p);
				bytes = rig_bytes(p.c, from, ptah_capture_position(p.c));
				psb = bytes[0] == 0x02 && bytes[1] == 0x82;
				free(bytes);
				assert_int_equal(psb, force || !round);
			}
			close_play(&p);
		}
	}
}
