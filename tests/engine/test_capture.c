/* SPDX-License-Identifier: MIT */
/*
 * Captures on the simulated machine: their position and content, for every
 * shape of buffer and every policy, on processors of every kind.
 */
#include "engine/rig.h"

#include <ptah/event.h>

#include <stdio.h>

/* The most bytes that a processor writes by itself when it starts and stops. */
#define SLICE 128u

struct kind {
	const char *processor;
	uint8_t shape;
	bool no_pmi;
	size_t buffer, region;
};

static const struct kind kinds[] = {
    {"skylake", PTAH_SHAPE_RING, false, 65536, 4096},
    {"skylake", PTAH_SHAPE_RING, true, 65536, 4096},
    {"skylake", PTAH_SHAPE_RING, false, 65536, 0},
    {"maximal", PTAH_SHAPE_RING, false, 3 * 8192, 8192},
    {"skylake", PTAH_SHAPE_RING, false, 4096, 4096},
    {"skylake", PTAH_SHAPE_RING, false, 600 * 4096, 4096},
    {"skylake", PTAH_SHAPE_OVERFLOW, false, 32768, 0},
    {"skylake", PTAH_SHAPE_OVERFLOW, true, 32768, 0},
    {"skylake", PTAH_SHAPE_SINGLE, false, 32768, 0},
    {"minimal", PTAH_SHAPE_AUTO, false, 32768, 0},
    {"minimal", PTAH_SHAPE_AUTO, true, 32768, 4096},
    {"broadwell", PTAH_SHAPE_AUTO, false, 32768, 8192},
    {"minimal-range", PTAH_SHAPE_AUTO, false, 32768, 0},
};

static struct ptah_capture *open_kind(struct rig *rig, const struct kind *kind, uint8_t policy,
				      struct ptah_capture_config *config,
				      struct ptah_trace_config *trace)
{
	rig_open(rig, ptah_model_find(kind->processor), 2);
	*config = rig_config(rig, trace);
	config->shape = kind->shape;
	config->policy = policy;
	config->no_pmi = kind->no_pmi;
	config->buffer = kind->buffer;
	config->region = kind->region;
	return rig_capture(rig, config);
}

/*
 * The buffer contains [oldest, position), and the position is the number of
 * bytes that the processor output.
 */
static void snapshot_of_every_length(const struct kind *kind)
{
	static const int extra[] = {0, 1, 2, -1, -2, 100};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	unsigned laps, i, marks = (unsigned)(kind->buffer / MARK);

	c = open_kind(&rig, kind, PTAH_POLICY_WRAP, &config, &trace);
	for (laps = 0; laps < 6; laps++) {
		for (i = 0; i < 6; i++) {
			/* Less than a lap in each slice, where only one lap more can be noticed. */
			int n = (int)(laps * marks /
				      (rig_status(c).shape == PTAH_SHAPE_SINGLE ? 5 : 1)) +
				extra[i];
			if (n < 0)
				n = 0;
			assert_int_equal(ptah_capture_start(c), PTAH_OK);
			assert_true(rig_enabled(&rig, 0));
			rig_mark(&rig, 0, (unsigned)n);
			assert_int_equal(ptah_capture_stop(c), PTAH_OK);
			assert_false(rig_enabled(&rig, 0));
			s = rig_status(c);
			assert_int_equal(s.state, PTAH_CAPTURE_IDLE);
			assert_int_equal(s.position, rig_output(&rig, 0));
			if (kind->no_pmi && s.shape != PTAH_SHAPE_SINGLE)
				continue; /* it may have ended early */
			assert_int_equal(rig_check(c, s.oldest, s.position,
						   s.oldest ? UINT64_MAX : 0,
						   SLICE * (s.looks + s.starts + 1)),
					 rig.next);
		}
	}
	assert_int_equal(rig.foreign, 0);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	rig_close(&rig);
}

TEST(snapshots)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		printf("%s shape %u%s\n", kinds[i].processor, kinds[i].shape,
		       kinds[i].no_pmi ? " no pmi" : "");
		snapshot_of_every_length(&kinds[i]);
	}
}

/* The first bytes are kept, as many as fit. */
TEST(stop_when_full)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].shape == PTAH_SHAPE_SINGLE ||
		    !strcmp(kinds[i].processor, "minimal-range"))
			continue;
		c = open_kind(&rig, &kinds[i], PTAH_POLICY_STOP, &config, &trace);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, (unsigned)(rig_status(c).buffer / MARK) + 50);
		if (rig_status(c).state == PTAH_CAPTURE_RUNNING)
			ptah_capture_flush(c, NULL);
		rig_mark(&rig, 0, (unsigned)(rig_status(c).buffer / MARK) + 50);
		while (rig_status(c).state == PTAH_CAPTURE_RUNNING) {
			ptah_capture_flush(c, NULL);
			rig_mark(&rig, 0, 1000);
		}
		assert_int_equal(rig_status(c).state, PTAH_CAPTURE_FULL);
		s = rig_status(c);
		if (!s.pmi || strcmp(kinds[i].processor, "minimal"))
			assert_true(s.position <= s.buffer);
		assert_int_equal(s.oldest, 0);
		assert_int_equal(s.position, rig_output(&rig, 0));
		assert_true(rig_flags(c) & PTAH_CAPTURED_FULL);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_int_equal(ptah_capture_start(c), PTAH_E_NOSPACE);
		assert_int_equal(ptah_capture_consume(c, s.position, NULL), PTAH_OK);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_true(rig_enabled(&rig, 0));
		ptah_capture_free(c);
		assert_false(rig_enabled(&rig, 0));
		rig_close(&rig);
	}
}

/* A table that was overwritten: reported when the output reaches it, and not used again. */
TEST(damaged_table)
{
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	uint64_t *table, bytes, good;
	unsigned delay;

	for (delay = 0; delay < 100000; delay = delay * 10 + 1) {
		struct ptah_model_faults faults = {.error_delay = delay};

		c = open_kind(&rig, &kinds[0], PTAH_POLICY_WRAP, &config, &trace);
		ptah_model_set_faults(ptah_machine_model(rig.machine, 0), &faults);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 100);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		table = (uint64_t *)(void *)ptah_machine_memory(rig.machine,
								rig_status(c).output_base, &bytes);
		good = table[3];
		table[3] |= 1u << 5;
		rig_mark(&rig, 0, 4 * 4096 / MARK + delay / MARK);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.state, PTAH_CAPTURE_ERROR);
		assert_int_equal(s.error, PTAH_E_DEVICE);
		assert_false(rig_enabled(&rig, 0));
		assert_true(rig_flags(c) & PTAH_CAPTURED_ERROR);
		rig_check(c, 0, 3 * 4096 - 3 * MARK, 0, SLICE * 4);
		assert_int_equal(ptah_capture_resume(c), PTAH_E_INVAL);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_int_equal(ptah_capture_start(c), PTAH_E_INVAL);
		assert_false(rig_enabled(&rig, 0));
		table[3] = good;
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		rig_mark(&rig, 0, 100);
		assert_int_equal(ptah_capture_stop(c), PTAH_OK);
		assert_true(rig_status(c).position >= s.position + 100 * MARK);
		ptah_capture_free(c);
		rig_close(&rig);
	}
}

/* Execution reaches a stop range: reported, and only resume continues the trace. */
TEST(stop_range)
{
	const struct ptah_model_context context = {
	    .cpl = 3, .mode = PTAH_EXEC_64, .interrupts = true};
	const struct ptah_model_branch branch = {
	    .ip = 0x1000, .end = 0x1002, .to = 0x5100, .kind = PTAH_INSN_JUMP_IND};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_model *m;
	struct ptah_capture *c;
	struct rig rig;
	unsigned i;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	m = ptah_machine_model(rig.machine, 0);
	config = rig_config(&rig, &trace);
	trace.ranges[1] = (struct ptah_range){0x5000, 0x5fff, PTAH_RANGE_STOP};
	c = rig_capture(&rig, &config);
	ptah_model_begin(m, 0x1000, &context);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (i = 0; i < 3; i++) {
		rig_mark(&rig, 0, 100);
		ptah_model_branch(m, &branch);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		s = rig_status(c);
		assert_int_equal(s.state, PTAH_CAPTURE_RANGE);
		assert_false(rig_enabled(&rig, 0));
		assert_int_equal(s.position, rig_output(&rig, 0));
		assert_int_equal(rig_flags(c) & (PTAH_CAPTURED_RANGE | PTAH_CAPTURED_FULL |
						 PTAH_CAPTURED_TRUNCATED | PTAH_CAPTURED_ERROR),
				 PTAH_CAPTURED_RANGE);
		assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
		assert_false(rig_enabled(&rig, 0));
		ptah_model_begin(m, 0x1000, &context);
		assert_int_equal(i & 1 ? ptah_capture_resume_here(c) : ptah_capture_resume(c),
				 PTAH_OK);
		assert_true(rig_enabled(&rig, 0));
		assert_int_equal(rig_status(c).state, PTAH_CAPTURE_RUNNING);
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(rig_check(c, 0, ptah_capture_position(c), 0, SLICE * 8), 300);
	ptah_capture_free(c);
	rig_close(&rig);
}

/*
 * A PMI that is delayed by some number of instructions can come between any two
 * instructions of the engine's next call; and the engine's own instructions are
 * traced.
 */
static void trace_in_gap(void *argument, unsigned cpu, const char *callback)
{
	struct rig *rig = argument;

	(void)callback;
	if (rig_enabled(rig, cpu))
		rig_mark(rig, cpu, 1);
}

static void late_by(unsigned boundaries, bool thread, bool no_xsaves)
{
	struct ptah_model_faults faults = {.pmi_skid_boundaries = boundaries};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture_status s;
	struct ptah_capture *c;
	struct rig rig;
	unsigned round;
	uint64_t irqs;

	rig_open(&rig, ptah_model_find("skylake"), 1);
	ptah_model_set_faults(ptah_machine_model(rig.machine, 0), &faults);
	config = rig_config(&rig, &trace);
	config.region = 4096;
	config.pmis = 16;
	config.cpu = thread ? PTAH_CAPTURE_THREAD : 0;
	config.no_xsaves = no_xsaves;
	c = rig_capture(&rig, &config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	ptah_machine_on_gap(rig.machine, trace_in_gap, &rig);
	for (round = 0; round < 6; round++) {
		if (thread) {
			irqs = rig.hal.irq_save(rig.machine);
			assert_int_equal(ptah_capture_switch_in(c), PTAH_OK);
			rig.hal.irq_restore(rig.machine, irqs);
		}
		assert_true(rig_enabled(&rig, 0));
		rig_mark(&rig, 0, 4096 / MARK * (1 + round % 3) + round);
		irqs = rig.hal.irq_save(rig.machine);
		if (thread) {
			ptah_capture_switch_out(c);
			assert_false(rig_enabled(&rig, 0));
		} else {
			rig.hal.irq_restore(rig.machine, irqs);
			assert_int_equal(ptah_capture_pause(c), PTAH_OK);
			assert_false(rig_enabled(&rig, 0));
			assert_int_equal(rig_status(c).position, rig_output(&rig, 0));
			assert_int_equal(ptah_capture_resume(c), PTAH_OK);
			irqs = rig.hal.irq_save(rig.machine);
		}
		rig.hal.irq_restore(rig.machine, irqs);
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_false(rig_enabled(&rig, 0));
	for (round = 0; round < boundaries; round++)
		ptah_model_boundary(ptah_machine_model(rig.machine, 0));
	ptah_machine_on_gap(rig.machine, NULL, NULL);
	s = rig_status(c);
	assert_int_equal(s.position, rig_output(&rig, 0));
	assert_int_equal(rig_check(c, s.oldest, s.position, s.oldest ? UINT64_MAX : 0,
				   SLICE * (s.looks + s.starts + 1)),
			 rig.next);
	assert_int_equal(rig.foreign, 0);
	assert_false(rig_flags(c) & (PTAH_CAPTURED_UNSURE | PTAH_CAPTURED_ERROR));
	ptah_capture_free(c);
	rig_close(&rig);
}

TEST(pmi_in_every_gap)
{
	unsigned n;

	for (n = 0; n < 120; n++) {
		late_by(n, false, false);
		late_by(n, true, false);
		late_by(n, true, true);
	}
}
