/* SPDX-License-Identifier: MIT */
/*
 * Lines for the system's log: each condition that costs trace writes one that names it, and no more
 * than one after each start, from an NMI as well. Normal operation writes none.
 */
#include "engine/rig.h"

#include <ptah/engine/captures.h>

struct log {
	char lines[32][128];
	unsigned n;
	unsigned in_nmi; /* how many of them came in an NMI */
};

static struct log seen;

static void take_line(void *port, const char *text)
{
	struct ptah_machine *machine = port;

	assert_true(seen.n < 32);
	assert_true(strlen(text) <= 120);
	strcpy(seen.lines[seen.n++], text);
	seen.in_nmi += ptah_model_in_nmi(ptah_machine_model(machine, ptah_machine_cpu(machine)));
}

/* Exactly one line since the last call, and it contains these words. */
static void expect_line(const char *words)
{
	unsigned n = seen.n;

	seen.n = 0;
	if (n != 1)
		fail_msg("%u lines, one with \"%s\" was expected: %s", n, words,
			 n ? seen.lines[0] : "");
	if (!strstr(seen.lines[0], words) || strncmp(seen.lines[0], "ptah: cpu 0: ", 13) != 0)
		fail_msg("\"%s\" is not in: %s", words, seen.lines[0]);
}

static void expect_silence(void)
{
	if (seen.n)
		fail_msg("%u lines: %s", seen.n, seen.lines[0]);
}

struct scene {
	struct rig rig;
	struct ptah_model_processor processor;
	struct ptah_model *m;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_capture *c;
};

static void open_scene(struct scene *s)
{
	memset(s, 0, sizeof(*s));
	memset(&seen, 0, sizeof(seen));
	s->processor = *ptah_model_find("skylake");
	s->processor.vmx = true;
	s->processor.vmx_pt = false;
	rig_open(&s->rig, &s->processor, 1);
	s->rig.hal.log = take_line;
	s->m = ptah_machine_model(s->rig.machine, 0);
	s->config = rig_config(&s->rig, &s->trace);
}

static void close_scene(struct scene *s)
{
	expect_silence();
	assert_int_equal(ptah_capture_free(s->c), PTAH_OK);
	expect_silence();
	rig_close(&s->rig);
}

static void start(struct scene *s)
{
	s->c = rig_capture(&s->rig, &s->config);
	assert_int_equal(ptah_capture_start(s->c), PTAH_OK);
	expect_silence();
}

TEST(another_tracer)
{
	struct ptah_captures_config sets = {.size = sizeof(sets)};
	struct ptah_captures *set;
	struct scene s;

	open_scene(&s);
	s.c = rig_capture(&s.rig, &s.config);
	ptah_model_wrmsr(s.m, PTAH_IA32_RTIT_CTL,
			 PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_BRANCH_EN);
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_BUSY);
	expect_line("another tracer");
	/* Each start that fails has its line. */
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_BUSY);
	expect_line("another tracer");
	/* So has a set, which finds out before it traces anywhere. */
	sets.capture = &s.config;
	assert_int_equal(ptah_captures_new(s.rig.engine, &sets, &set, NULL), PTAH_OK);
	assert_int_equal(ptah_captures_start(set, NULL), PTAH_E_BUSY);
	expect_line("another tracer");
	assert_int_equal(ptah_captures_free(set), PTAH_OK);
	ptah_model_wrmsr(s.m, PTAH_IA32_RTIT_CTL, 0);
	close_scene(&s);
}

TEST(vmx)
{
	struct scene s;

	open_scene(&s);
	s.c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_UNSUPPORTED);
	expect_line("VMX operation");
	/* The port does not know of VMX operation: the processor refuses the register. */
	s.rig.hal.in_vmx = NULL;
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_UNSUPPORTED);
	expect_line("MSR 0x570 raised #GP");
	close_scene(&s);
}

/* VMXON clears TraceEn without notice; from then on each look finds it, and one is logged. */
TEST(cleared)
{
	struct scene s;
	unsigned i;

	open_scene(&s);
	start(&s);
	for (i = 0; i < 3; i++) {
		assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
		assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
		assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	}
	assert_int_equal(rig_status(s.c).partial, 3);
	expect_line("TraceEn was cleared");
	assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
	assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
	expect_silence();
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	expect_line("TraceEn was cleared");
	close_scene(&s);
}

TEST(tables_overwritten)
{
	struct scene s;
	uint64_t bytes;

	open_scene(&s);
	start(&s);
	assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
	memset(ptah_machine_memory(s.rig.machine, rig_status(s.c).output_base, &bytes), 0x5a, 64);
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_INVAL);
	expect_line("page 0 of the tables was overwritten");
	close_scene(&s);
}

/* An entry becomes invalid while the trace runs. */
TEST(error)
{
	struct ptah_capture_status status;
	struct scene s;
	uint64_t bytes, *table;

	open_scene(&s);
	start(&s);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	status = rig_status(s.c);
	table = (uint64_t *)(void *)ptah_machine_memory(s.rig.machine, status.output_base, &bytes);
	table[1] |= 2; /* a reserved bit */
	rig_mark(&s.rig, 0, (unsigned)status.region / MARK + 10);
	ptah_capture_flush(s.c, NULL);
	assert_int_equal(rig_status(s.c).errors, 1);
	expect_line("STATUS.Error");
	ptah_capture_flush(s.c, NULL);
	close_scene(&s);
}

/* Another driver has taken the registers over, and traces into its own memory. */
TEST(registers)
{
	struct ptah_hal_memory page;
	struct scene s;
	uint64_t ctl;
	uint64_t *table;

	open_scene(&s);
	assert_int_equal(s.rig.hal.alloc(s.rig.machine, 8192, 4096, &page), PTAH_OK);
	table = page.address;
	table[0] = page.physical + 4096;
	table[1] = page.physical | PTAH_TOPA_END;
	start(&s);
	ptah_model_rdmsr(s.m, PTAH_IA32_RTIT_CTL, &ctl);
	ptah_model_wrmsr(s.m, PTAH_IA32_RTIT_CTL, 0);
	ptah_model_wrmsr(s.m, PTAH_IA32_RTIT_OUTPUT_BASE, page.physical);
	ptah_model_wrmsr(s.m, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0x7f);
	assert_int_equal(ptah_model_wrmsr(s.m, PTAH_IA32_RTIT_CTL, ctl), PTAH_OK);
	ptah_capture_flush(s.c, NULL);
	assert_int_equal(rig_status(s.c).error, PTAH_E_DEVICE);
	expect_line("others wrote the output registers");
	s.rig.hal.release(s.rig.machine, &page);
	close_scene(&s);
}

/* A buffer that is full is found by the PMI, in an NMI. */
TEST(full)
{
	static const uint8_t policies[] = {PTAH_POLICY_STOP, PTAH_POLICY_DRAIN};
	struct scene s;
	size_t i;

	for (i = 0; i < 2; i++) {
		open_scene(&s);
		s.config.policy = policies[i];
		start(&s);
		rig_mark(&s.rig, 0, 10000);
		assert_true(rig_flags(s.c) & PTAH_CAPTURED_FULL);
		assert_int_equal(seen.in_nmi, 1);
		expect_line("the buffer is full at position 0x10000");
		/* Full again, without a start: no line. */
		assert_int_equal(ptah_capture_consume(s.c, ptah_capture_position(s.c), NULL),
				 PTAH_OK);
		assert_int_equal(ptah_capture_resume(s.c), PTAH_OK);
		rig_mark(&s.rig, 0, 10000);
		assert_true(rig_flags(s.c) & PTAH_CAPTURED_FULL);
		close_scene(&s);
	}
}

TEST(lost)
{
	struct scene s;
	uint64_t bytes;

	open_scene(&s);
	start(&s);
	/* Without a consumer a buffer that wraps loses nothing that anybody wanted. */
	rig_mark(&s.rig, 0, 10000);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	expect_silence();
	assert_int_equal(ptah_capture_consume(s.c, ptah_capture_position(s.c), &bytes), PTAH_OK);
	rig_mark(&s.rig, 0, 10000);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	assert_true(rig_flags(s.c) & PTAH_CAPTURED_LOST);
	expect_line("were overwritten before they were consumed");
	close_scene(&s);
}

static void pinned(struct scene *s, void (*what)(struct ptah_engine *engine))
{
	uint64_t irqs = s->rig.hal.irq_save(s->rig.machine);

	what(s->rig.engine);
	s->rig.hal.irq_restore(s->rig.machine, irqs);
}

TEST(announced)
{
	struct scene s;

	open_scene(&s);
	pinned(&s, ptah_engine_cpu_offline);
	pinned(&s, ptah_engine_cpu_online);
	expect_silence(); /* nothing was traced there */
	start(&s);
	pinned(&s, ptah_engine_cpu_offline);
	expect_line("goes offline");
	pinned(&s, ptah_engine_cpu_online);
	pinned(&s, ptah_engine_vmxon);
	expect_line("VMX operation");
	pinned(&s, ptah_engine_vmxoff);
	assert_true(rig_enabled(&s.rig, 0));
	close_scene(&s);
}

TEST(taken)
{
	struct ptah_capture *second;
	struct scene s;
	uint64_t irqs;
	unsigned i;

	open_scene(&s);
	start(&s);
	second = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(second), PTAH_E_BUSY);
	expect_line("another capture has this processor");
	assert_int_equal(ptah_capture_free(second), PTAH_OK);
	s.config.cpu = PTAH_CAPTURE_THREAD;
	second = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(second), PTAH_OK);
	for (i = 0; i < 3; i++) {
		irqs = s.rig.hal.irq_save(s.rig.machine);
		assert_int_equal(ptah_capture_switch_in(second), PTAH_E_BUSY);
		s.rig.hal.irq_restore(s.rig.machine, irqs);
	}
	expect_line("another capture has this processor");
	assert_int_equal(ptah_capture_free(second), PTAH_OK);
	close_scene(&s);
}

static int no_pmis(void *port, bool on)
{
	(void)port;
	(void)on;
	return PTAH_E_UNSUPPORTED;
}

static int (*inner_alloc)(void *port, size_t size, size_t align, struct ptah_hal_memory *memory);

static int bad_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	int status = inner_alloc(port, size, align, memory);

	memory->physical += 4;
	return status;
}

static void release_bad(void *port, const struct ptah_hal_memory *memory)
{
	(void)port;
	(void)memory;
}

/* What ptah_engine_new() and ptah_capture_new() find out about processors and port. */
TEST(at_creation)
{
	struct ptah_capture *c = NULL;
	struct scene s;
	struct ptah_model_processor without;

	open_scene(&s);
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_OK);
	s.rig.hal.pmi_enable = no_pmis;
	assert_int_equal(ptah_engine_new(&s.rig.hal, s.rig.machine, &s.rig.engine), PTAH_OK);
	expect_line("cannot deliver PMIs");
	inner_alloc = s.rig.hal.alloc;
	s.rig.hal.alloc = bad_alloc;
	{
		void (*release)(void *, const struct ptah_hal_memory *) = s.rig.hal.release;

		s.rig.hal.release = release_bad;
		assert_int_equal(ptah_capture_new(s.rig.engine, &s.config, &c, NULL), PTAH_E_PORT);
		s.rig.hal.release = release;
	}
	expect_line("alloc() returned memory");
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_OK);
	free(s.rig.machine);
	pages_free(s.rig.arena, s.rig.arena_size);

	/* One line for each kind of obstacle, not one for each processor. */
	without = *ptah_model_find("skylake");
	without.pt = false;
	rig_open(&s.rig, &without, 4);
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_OK);
	s.rig.hal.log = take_line;
	assert_int_equal(ptah_engine_new(&s.rig.hal, s.rig.machine, &s.rig.engine), PTAH_OK);
	expect_line("cannot be traced: NO_PT");
	rig_close(&s.rig);
}

/* Starts, stops, pauses, threads, full laps, a consumer that keeps up: nothing is logged. */
TEST(silence)
{
	static const char *const processors[] = {"skylake", "minimal", "minimal-range", "maximal"};
	struct scene s;
	size_t i;
	unsigned k, policy;

	for (i = 0; i < 4; i++) {
		for (policy = 0; policy < PTAH_POLICY_MAX; policy++) {
			open_scene(&s);
			rig_close(&s.rig);
			rig_open(&s.rig, ptah_model_find(processors[i]), 1);
			s.rig.hal.log = take_line;
			s.config = rig_config(&s.rig, &s.trace);
			s.config.policy = (uint8_t)policy;
			if (ptah_capture_new(s.rig.engine, &s.config, &s.c, NULL) != PTAH_OK) {
				rig_close(&s.rig);
				continue;
			}
			for (k = 0; k < 40; k++) {
				assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
				rig_mark(&s.rig, 0, 200);
				if (k & 1)
					assert_int_equal(ptah_capture_pause(s.c), PTAH_OK);
				else
					assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
				assert_int_equal(
				    ptah_capture_consume(s.c, ptah_capture_position(s.c), NULL),
				    PTAH_OK);
				if (k & 1)
					assert_int_equal(ptah_capture_resume(s.c), PTAH_OK);
			}
			close_scene(&s);
		}
	}
}
