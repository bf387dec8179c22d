/* SPDX-License-Identifier: MIT */
/*
 * A crash stops the trace on a processor between any two instructions, those of the engine
 * included, and after it nothing is traced there until the engine may go on.
 */
#include "engine/stream.h"

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_model_faults faults;
	unsigned gaps, at; /* the crash comes in this gap; 0: in none */
	bool crashed;
};

static void crash(struct scene *s)
{
	s->crashed = true;
	assert_int_equal(ptah_engine_stop_here(s->rig.engine), PTAH_OK);
	assert_false(rig_enabled(&s->rig, ptah_machine_cpu(s->rig.machine)));
}

static void gap(void *argument, unsigned cpu, const char *callback)
{
	struct scene *s = argument;

	(void)cpu, (void)callback;
	if (!s->crashed && s->at && ++s->gaps == s->at)
		crash(s);
}

static void open_scene(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	rig_open(&s->rig, ptah_model_find("skylake"), 2);
	rig_silence(&s->rig, 0, &s->faults);
	s->config = rig_config(&s->rig, &s->trace);
	ptah_machine_on_gap(s->rig.machine, gap, s);
}

static void close_scene(struct scene *s)
{
	stream_free(&s->stream);
	rig_close(&s->rig);
}

/* Also what other tracers trace. */
TEST(whatever_is_traced_stops)
{
	struct ptah_capture *c;
	struct ptah_model *m;
	struct scene s;

	open_scene(&s);
	c = rig_capture(&s.rig, &s.config);
	crash(&s);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	assert_false(rig_enabled(&s.rig, 0));
	ptah_engine_continue_here(s.rig.engine);
	assert_true(rig_enabled(&s.rig, 0));
	stream_put(&s.stream, &s.rig, 0, 5000);
	crash(&s);
	/* The last bytes are there, and stay. */
	assert_int_equal(rig_status(c).position, 5000);
	assert_int_equal(rig_status(c).state, PTAH_CAPTURE_BLOCKED);
	stream_check(&s.stream, c, 0, 5000);
	ptah_engine_continue_here(s.rig.engine);
	stream_put(&s.stream, &s.rig, 0, 100);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	stream_check(&s.stream, c, 0, 5100);
	assert_true(rig_flags(c) & PTAH_CAPTURED_PARTIAL);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);

	m = ptah_machine_model(s.rig.machine, 0);
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_BASE, 0x10000000), PTAH_OK);
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0x7f), PTAH_OK);
	assert_int_equal(
	    ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_USER),
	    PTAH_OK);
	crash(&s);
	ptah_engine_continue_here(s.rig.engine);
	assert_false(rig_enabled(&s.rig, 0));
	close_scene(&s);
}

/* One after the other, what the engine does; the crash comes in the gap number `at`. */
static void work(struct scene *s, bool thread)
{
	struct ptah_capture *c;

	s->config.cpu = thread ? PTAH_CAPTURE_THREAD : 0;
	c = rig_capture(&s->rig, &s->config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	if (thread)
		rig_switch(&s->rig, c, 0, true);
	stream_put(&s->stream, &s->rig, 0, 40000);
	ptah_capture_flush(c, NULL);
	ptah_capture_pause(c);
	ptah_capture_resume(c);
	if (s->crashed)
		assert_false(rig_enabled(&s->rig, 0));
	stream_put(&s->stream, &s->rig, 0, 9000);
	if (thread)
		rig_switch(&s->rig, c, 0, false);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_false(rig_enabled(&s->rig, 0));
	/* A debugger lets it go on, and there is no other crash. */
	s->at = 0;
	ptah_engine_continue_here(s->rig.engine);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	if (thread)
		rig_switch(&s->rig, c, 0, true);
	assert_true(rig_enabled(&s->rig, 0));
	stream_put(&s->stream, &s->rig, 0, 700);
	if (thread)
		rig_switch(&s->rig, c, 0, false);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(rig_status(c).position, rig_output(&s->rig, 0));
	stream_check(&s->stream, c, rig_status(c).oldest, rig_status(c).position);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
}

TEST(a_crash_at_any_instruction)
{
	struct scene s;
	bool crashed = true;
	unsigned at;
	int thread;

	for (thread = 0; thread < 2; thread++) {
		for (at = 1, crashed = true; crashed; at++) {
			open_scene(&s);
			s.at = at;
			work(&s, thread);
			crashed = s.crashed;
			close_scene(&s);
		}
		assert_true(at > 30);
	}
}

/* The guest's trace, too, when the crash comes before the VM exit. */
TEST(a_guest_stops)
{
	struct ptah_capture *c;
	struct ptah_model *m;
	struct scene s;
	uint64_t ctl, irqs;

	open_scene(&s);
	s.config.cpu = PTAH_CAPTURE_THREAD;
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	irqs = s.rig.hal.irq_save(s.rig.machine);
	assert_int_equal(ptah_capture_vmentry(c, &ctl), PTAH_OK);
	m = ptah_machine_model(s.rig.machine, 0);
	assert_int_equal(ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, ctl), PTAH_OK);
	stream_put(&s.stream, &s.rig, 0, 3000);
	crash(&s);
	assert_int_equal(rig_status(c).position, 3000);
	assert_int_not_equal(rig_status(c).state, PTAH_CAPTURE_RUNNING);
	ptah_capture_vmexit(c);
	ptah_engine_continue_here(s.rig.engine);
	s.rig.hal.irq_restore(s.rig.machine, irqs);
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	stream_check(&s.stream, c, 0, 3000);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);
}
