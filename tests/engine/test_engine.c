/* SPDX-License-Identifier: MIT */
/*
 * The engine is created while a processor cannot be traced, because another tracer is at work there
 * or because it is in VMX operation. Both pass, so nothing may depend on the moment at which the
 * engine was created.
 */
#include "engine/rig.h"

#include <pthread.h>

/* IA32_RTIT_CTL of another tracer. */
#define FOREIGN (PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_USER | PTAH_RTIT_CTL_BRANCH_EN)

struct scene {
	struct rig rig;
	struct ptah_model_processor processor;
	struct ptah_model *m; /* processor 0 */
	struct ptah_hal_memory page;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
};

static void open_scene(struct scene *s, unsigned cpus)
{
	memset(s, 0, sizeof(*s));
	s->processor = *ptah_model_find("skylake");
	s->processor.vmx = true;
	s->processor.vmx_pt = false;
	rig_open(&s->rig, &s->processor, cpus);
	s->m = ptah_machine_model(s->rig.machine, 0);
	assert_int_equal(s->rig.hal.alloc(s->rig.machine, 4096, 4096, &s->page), PTAH_OK);
}

static void close_scene(struct scene *s)
{
	s->rig.hal.release(s->rig.machine, &s->page);
	assert_int_equal(s->rig.foreign, 0);
	rig_close(&s->rig);
}

/* Another tracer, with its output in s->page. */
static void foreign(struct scene *s, bool on)
{
	if (on) {
		ptah_model_wrmsr(s->m, PTAH_IA32_RTIT_OUTPUT_BASE, s->page.physical);
		ptah_model_wrmsr(s->m, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0xfff);
	}
	assert_int_equal(ptah_model_wrmsr(s->m, PTAH_IA32_RTIT_CTL, on ? FOREIGN : 0), PTAH_OK);
}

static void vmx(struct scene *s, bool on)
{
	assert_int_equal(on ? ptah_model_vmxon(s->m) : ptah_model_vmxoff(s->m), PTAH_OK);
}

struct hindrance {
	void (*set)(struct scene *s, bool on);
	unsigned obstacle;
	int status; /* of a start */
};

static const struct hindrance hindrances[] = {
    {foreign, PTAH_CAPS_IN_USE, PTAH_E_BUSY},
    {vmx, PTAH_CAPS_VMX, PTAH_E_UNSUPPORTED},
};

#define HINDRANCES (sizeof(hindrances) / sizeof(hindrances[0]))

/* The engine is created again, while the hindrance exists. */
static void hindered_engine(struct scene *s, const struct hindrance *h)
{
	assert_int_equal(ptah_engine_free(s->rig.engine), PTAH_OK);
	h->set(s, true);
	assert_int_equal(ptah_engine_new(&s->rig.hal, s->rig.machine, &s->rig.engine), PTAH_OK);
	assert_int_equal(ptah_engine_caps(s->rig.engine, 0)->obstacle, h->obstacle);
	s->config = rig_config(&s->rig, &s->trace);
}

static unsigned obstacle(struct scene *s)
{
	return ptah_engine_caps(s->rig.engine, 0)->obstacle;
}

static int switch_in(struct scene *s, struct ptah_capture *c)
{
	uint64_t irqs = s->rig.hal.irq_save(s->rig.machine);
	int status = ptah_capture_switch_in(c);

	s->rig.hal.irq_restore(s->rig.machine, irqs);
	return status;
}

static void expect_trace(struct scene *s, struct ptah_capture *c)
{
	assert_true(rig_enabled(&s->rig, 0));
	rig_mark(&s->rig, 0, 100);
	assert_int_equal(ptah_capture_pause(c), PTAH_OK);
	assert_int_equal(rig_check(c, 0, ptah_capture_position(c), s->rig.next - 100, 4096),
			 s->rig.next);
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	assert_false(rig_enabled(&s->rig, 0));
}

/* The hindrance has passed before the capture is created. */
TEST(passed_before)
{
	struct scene s;
	size_t i;

	for (i = 0; i < HINDRANCES; i++) {
		const struct ptah_caps *old;
		struct ptah_capture *c;

		open_scene(&s, 2);
		hindered_engine(&s, &hindrances[i]);
		old = ptah_engine_caps(s.rig.engine, 0);
		hindrances[i].set(&s, false);
		c = rig_capture(&s.rig, &s.config);
		assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
		/* A reader that still has the old pointer sees what it saw before. */
		assert_int_equal(old->obstacle, hindrances[i].obstacle);
		assert_true(old->topa && old->size == sizeof(*old));
		assert_int_equal(ptah_trace_config_check(ptah_engine_caps(s.rig.engine, 0),
							 &s.trace, false, NULL),
				 PTAH_OK);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		expect_trace(&s, c);
		/* The same for a capture that follows a thread. */
		s.config.cpu = PTAH_CAPTURE_THREAD;
		c = rig_capture(&s.rig, &s.config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(switch_in(&s, c), PTAH_OK);
		expect_trace(&s, c);
		close_scene(&s);
	}
}

/* It has not: a capture can be created, and its start reports why it does not trace now. */
TEST(passes_later)
{
	struct scene s;
	size_t i;

	for (i = 0; i < HINDRANCES; i++) {
		const struct hindrance *h = &hindrances[i];
		struct ptah_capture *c;
		uint64_t base = 0;

		open_scene(&s, 2);
		hindered_engine(&s, h);
		c = rig_capture(&s.rig, &s.config);
		assert_int_equal(obstacle(&s), h->obstacle);
		assert_int_equal(ptah_capture_start(c), h->status);
		assert_int_equal(rig_status(c).state, PTAH_CAPTURE_IDLE);
		assert_int_equal(rig_status(c).msr, 0);
		assert_int_equal(obstacle(&s), h->obstacle);
		if (h->set == foreign) {
			ptah_model_rdmsr(s.m, PTAH_IA32_RTIT_OUTPUT_BASE, &base);
			assert_int_equal(base, s.page.physical);
			assert_true(rig_enabled(&s.rig, 0));
		}
		h->set(&s, false);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
		expect_trace(&s, c);
		close_scene(&s);
	}
}

/* A hindrance that comes after the engine was created is shown after the start that met it. */
TEST(comes_later)
{
	struct scene s;
	size_t i;

	for (i = 0; i < HINDRANCES; i++) {
		const struct hindrance *h = &hindrances[i];
		struct ptah_capture *c;

		open_scene(&s, 1);
		s.config = rig_config(&s.rig, &s.trace);
		c = rig_capture(&s.rig, &s.config);
		h->set(&s, true);
		assert_int_equal(ptah_capture_start(c), h->status);
		assert_int_equal(obstacle(&s), h->obstacle);
		h->set(&s, false);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
		/* The engine's own trace is no hindrance to another capture. */
		assert_int_equal(ptah_capture_free(rig_capture(&s.rig, &s.config)), PTAH_OK);
		assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
		expect_trace(&s, c);
		close_scene(&s);
	}
}

/* One hindrance follows another. The engine's own trace is not mistaken for another tracer's. */
TEST(one_after_another)
{
	struct ptah_capture *c, *other;
	struct scene s;

	open_scene(&s, 1);
	hindered_engine(&s, &hindrances[0]);
	foreign(&s, false);
	vmx(&s, true);
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(obstacle(&s), PTAH_CAPS_VMX);
	assert_int_equal(ptah_capture_start(c), PTAH_E_UNSUPPORTED);
	vmx(&s, false);
	foreign(&s, true);
	assert_int_equal(ptah_capture_start(c), PTAH_E_BUSY);
	assert_int_equal(obstacle(&s), PTAH_CAPS_IN_USE);
	foreign(&s, false);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	other = rig_capture(&s.rig, &s.config);
	assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
	assert_int_equal(ptah_capture_start(other), PTAH_E_BUSY);
	assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
	assert_int_equal(ptah_capture_free(other), PTAH_OK);
	expect_trace(&s, c);
	close_scene(&s);
}

static void pinned(struct scene *s, void (*what)(struct ptah_engine *engine))
{
	uint64_t irqs = s->rig.hal.irq_save(s->rig.machine);

	what(s->rig.engine);
	s->rig.hal.irq_restore(s->rig.machine, irqs);
}

/* Reports of VMXOFF and of a processor that is online again make the engine look, too. */
TEST(reported)
{
	struct scene s;

	open_scene(&s, 1);
	hindered_engine(&s, &hindrances[1]);
	vmx(&s, false);
	pinned(&s, ptah_engine_vmxoff);
	assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
	close_scene(&s);

	open_scene(&s, 1);
	hindered_engine(&s, &hindrances[0]);
	pinned(&s, ptah_engine_cpu_offline);
	foreign(&s, false);
	pinned(&s, ptah_engine_cpu_online);
	assert_int_equal(obstacle(&s), PTAH_CAPS_NONE);
	close_scene(&s);
}

/* What does not pass is refused as before. */
TEST(permanent)
{
	struct ptah_model_processor without = *ptah_model_find("skylake");
	struct ptah_trace_problem problem;
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_capture *c = NULL;
	struct rig rig;

	without.pt = false;
	rig_open(&rig, &without, 1);
	config = rig_config(&rig, &trace);
	assert_int_equal(ptah_capture_new(rig.engine, &config, &c, &problem), PTAH_E_UNSUPPORTED);
	assert_int_equal(ptah_engine_caps(rig.engine, 0)->obstacle, PTAH_CAPS_NO_PT);
	assert_null(c);
	rig_close(&rig);
}

struct reader {
	struct ptah_engine *engine;
	atomic_bool over;
	atomic_uint reads;
};

static void *read_caps(void *argument)
{
	struct reader *r = argument;

	while (!atomic_load(&r->over)) {
		const struct ptah_caps *caps = ptah_engine_caps(r->engine, 0);
		struct ptah_caps copy = *caps;

		/* Whatever it shows, it is whole, and it stays as it is. */
		if (copy.size != sizeof(copy) || !copy.topa || !copy.psb_periods ||
		    (copy.obstacle && copy.obstacle != PTAH_CAPS_IN_USE &&
		     copy.obstacle != PTAH_CAPS_VMX) ||
		    memcmp(&copy, caps, sizeof(copy)) != 0)
			abort();
		atomic_fetch_add(&r->reads, 1);
	}
	return NULL;
}

/* ThreadSanitizer judges this one: capabilities are read while the engine looks again. */
TEST(readers)
{
	struct reader reader = {0};
	pthread_t thread;
	struct scene s;
	unsigned i;

	open_scene(&s, 1);
	hindered_engine(&s, &hindrances[0]);
	reader.engine = s.rig.engine;
	assert_int_equal(pthread_create(&thread, NULL, read_caps, &reader), 0);
	for (i = 0; i < 300 || atomic_load(&reader.reads) < 100; i++) {
		const struct hindrance *h = &hindrances[i & 1];
		struct ptah_capture *c;

		foreign(&s, false);
		h->set(&s, true);
		c = rig_capture(&s.rig, &s.config);
		assert_int_equal(ptah_capture_start(c), h->status);
		h->set(&s, false);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
	}
	atomic_store(&reader.over, true);
	pthread_join(thread, NULL);
	close_scene(&s);
}
