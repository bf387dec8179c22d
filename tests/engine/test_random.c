/* SPDX-License-Identifier: MIT */
/*
 * Everything at once: random captures on random processors with random faults,
 * driven by random calls, with PMIs and traced instructions between any two
 * instructions of the engine. After every call that leaves tracing disabled,
 * the position is the number of bytes that the processor has output, and the
 * buffer contains the marks (rig.h) in order.
 *
 * ENGINE_ROUNDS: the number of captures, 600 by default; ENGINE_SEED: the first
 * seed.
 */
#include "random.h"
#include "engine/rig.h"

#include <stdio.h>

static uint64_t seed;

static uint64_t below(uint64_t n)
{
	return random_below(&seed, n);
}

struct play {
	struct rig rig;
	struct ptah_capture *c;
	struct ptah_capture_config config;
	struct ptah_trace_config trace;
	struct ptah_model_faults faults;
	bool truncates; /* bytes may be lost when it stops */
	uint64_t bytes; /* output by its processors while it was loaded */
	bool in;	/* thread: switched in */
	unsigned cpu;
	uint64_t before; /* the processor's count when it was switched in */
	uint32_t flags;
};

/* The log has a line only for what the records report too. */
static unsigned logged_full, logged_loss;

static void take_line(void *port, const char *text)
{
	(void)port;
	if (strstr(text, "the buffer is full"))
		logged_full++;
	else if (strstr(text, "were overwritten before they were consumed"))
		logged_loss++;
	else
		fail_msg("logged: %s", text);
}

static void gap(void *argument, unsigned cpu, const char *callback)
{
	struct play *p = argument;

	(void)callback;
	if (below(4) == 0 && rig_enabled(&p->rig, cpu))
		rig_mark(&p->rig, cpu, 1);
}

static void choose(struct play *p)
{
	static const char *const names[] = {"skylake",	      "broadwell",     "maximal",
					    "minimal",	      "minimal-range", "goldmont",
					    "sapphire-rapids"};
	static const size_t regions[] = {0, 4096, 8192, 32768};

	memset(p, 0, sizeof(*p));
	rig_open(&p->rig, ptah_model_find(names[below(7)]), 2);
	p->rig.hal.log = take_line;
	logged_full = logged_loss = 0;
	p->config = rig_config(&p->rig, &p->trace);
	p->config.shape = (uint8_t)below(PTAH_SHAPE_MAX);
	p->config.policy = (uint8_t)below(PTAH_POLICY_MAX);
	p->config.no_pmi = below(4) == 0;
	p->config.no_xsaves = below(2);
	p->config.cpu = below(3) ? (int)below(2) : PTAH_CAPTURE_THREAD;
	p->config.buffer = below(2) ? UINT64_C(32768) << below(4) : 32768 * (1 + below(20));
	p->config.region = regions[below(4)];
	p->config.pmis = below(3) ? 0 : (unsigned)below(9);
	p->trace.force_psb = below(2);
	p->faults = (struct ptah_model_faults){
	    .stale_bytes = below(2) ? (uint32_t)below(5000) : 0,
	    .pmi_skid_bytes = below(2) ? (uint32_t)below(9000) : 0,
	    .pmi_skid_boundaries = below(2) ? (uint32_t)below(60) : 0,
	    .cache_next = below(2),
	    .withhold = below(2) ? (uint32_t)below(65) : 0,
	    .ack_needs_topa = below(2),
	};
	ptah_model_set_faults(ptah_machine_model(p->rig.machine, 0), &p->faults);
	ptah_model_set_faults(ptah_machine_model(p->rig.machine, 1), &p->faults);
}

static bool is_off(const struct play *p)
{
	return !rig_enabled((struct rig *)&p->rig, 0) && !rig_enabled((struct rig *)&p->rig, 1);
}

/* Tracing is disabled: position and content must be exact. */
static void check(struct play *p)
{
	struct ptah_capture_status s = rig_status(p->c);
	uint64_t from = s.oldest > s.tail ? s.oldest : s.tail, end;

	assert_int_equal(s.position, rig_output(&p->rig, 0) + rig_output(&p->rig, 1));
	assert_true(s.oldest <= s.position && s.tail <= s.position);
	if (p->config.policy != PTAH_POLICY_WRAP)
		assert_true(s.tail >= s.oldest);
	p->flags |= rig_flags(p->c);
	if (p->flags & PTAH_CAPTURED_TRUNCATED)
		return;
	end = rig_check(p->c, from, s.position, UINT64_MAX, SIZE_MAX);
	/* The last mark is in the buffer, if any is. */
	if (end != UINT64_MAX)
		assert_int_equal(end, p->rig.next);
}

static void pinned(struct play *p, bool in)
{
	uint64_t irqs;

	ptah_machine_set_cpu(p->rig.machine, p->cpu);
	irqs = p->rig.hal.irq_save(p->rig.machine);
	if (in)
		assert_int_equal(ptah_capture_switch_in(p->c), PTAH_OK);
	else
		ptah_capture_switch_out(p->c);
	p->rig.hal.irq_restore(p->rig.machine, irqs);
	p->in = in;
}

static void write_some(struct play *p)
{
	static const unsigned sizes[] = {1, 10, 300, 2000, 9000};
	unsigned n = (unsigned)below(sizes[below(5)]) + 1;

	/* Less than a lap between two calls, where several laps count as one. */
	if (rig_status(p->c).shape == PTAH_SHAPE_SINGLE && n > rig_status(p->c).buffer / MARK / 2)
		n = (unsigned)rig_status(p->c).buffer / MARK / 2;
	/* Marks that were not traced are not expected. */
	if (rig_enabled(&p->rig, p->cpu))
		rig_mark(&p->rig, p->cpu, n);
	if (rig_status(p->c).shape == PTAH_SHAPE_SINGLE)
		assert_int_equal(ptah_capture_flush(p->c, NULL), PTAH_OK);
}

static size_t resized(struct play *p)
{
	size_t size = below(2) ? (size_t)32768 << below(4) : 32768 * (size_t)(1 + below(20));

	/* The writes above have to stay below a lap. */
	return rig_status(p->c).shape == PTAH_SHAPE_SINGLE && size < p->config.buffer
		   ? p->config.buffer
		   : size;
}

static void act(struct play *p)
{
	uint64_t position = ptah_capture_position(p->c), after;
	struct ptah_trace_problem problem;
	struct ptah_capture_status s = rig_status(p->c);
	int status = 0;

	switch (below(9)) {
	case 0:
		status = ptah_capture_start(p->c);
		break;
	case 1:
		if (below(3) == 0)
			status = ptah_capture_stop(p->c);
		break;
	case 2:
		if (s.state != PTAH_CAPTURE_IDLE)
			status = ptah_capture_pause(p->c);
		break;
	case 3:
		if (s.state != PTAH_CAPTURE_IDLE)
			status = ptah_capture_resume(p->c);
		break;
	case 4:
		status = ptah_capture_flush(p->c, &after);
		break;
	case 5:
		p->trace.no_retcomp = below(2);
		status = ptah_capture_reconfigure(p->c, &p->trace, &problem);
		break;
	case 6:
		if (p->config.policy != PTAH_POLICY_WRAP)
			status = ptah_capture_consume(p->c, s.tail + below(s.position - s.tail + 1),
						      NULL);
		break;
	case 7:
		if (below(2)) {
			status = ptah_capture_resize(p->c, resized(p),
						     below(2) ? p->config.region : 0, NULL);
			if (status == PTAH_E_INVAL || status == PTAH_E_NOSPACE)
				status = PTAH_OK;
		} else if (p->config.cpu < 0) {
			if (p->in)
				pinned(p, false);
			p->cpu = (unsigned)below(2);
			pinned(p, true);
		}
		break;
	default:
		write_some(p);
		break;
	}
	if (status != PTAH_OK && status != PTAH_E_NOSPACE)
		fail_msg("status %d", status);
	assert_true(ptah_capture_position(p->c) >= position);
}

static bool play(void)
{
	struct play p;
	unsigned i;
	int status;

	choose(&p);
	status = ptah_capture_new(p.rig.engine, &p.config, &p.c, NULL);
	if (status != PTAH_OK) {
		assert_int_equal(status, PTAH_E_INVAL);
		rig_close(&p.rig);
		return false;
	}
	p.cpu = p.config.cpu < 0 ? 0 : (unsigned)p.config.cpu;
	ptah_machine_on_gap(p.rig.machine, gap, &p);
	for (i = 0; i < 150; i++) {
		act(&p);
		if (is_off(&p))
			check(&p);
		assert_null(ptah_machine_violation(p.rig.machine));
	}
	if (p.in)
		pinned(&p, false);
	assert_int_equal(ptah_capture_stop(p.c), PTAH_OK);
	assert_true(is_off(&p));
	check(&p);
	ptah_machine_on_gap(p.rig.machine, NULL, NULL);
	assert_false(p.flags &
		     (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_PARTIAL | PTAH_CAPTURED_UNSURE));
	assert_int_equal(logged_full != 0, (p.flags & PTAH_CAPTURED_FULL) != 0);
	assert_int_equal(logged_loss != 0, (p.flags & PTAH_CAPTURED_LOST) != 0);
	assert_int_equal(p.rig.foreign, 0);
	assert_int_equal(ptah_capture_free(p.c), PTAH_OK);
	rig_close(&p.rig);
	return true;
}

TEST(random_plays)
{
	const char *rounds = getenv("ENGINE_ROUNDS"), *first = getenv("ENGINE_SEED");
	unsigned n = rounds ? (unsigned)atoi(rounds) : 600, i, played = 0;
	uint64_t start = first ? strtoull(first, NULL, 0) : 1;

	for (i = 0; i < n; i++) {
		seed = (start + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
		print_message("\rseed %llu ", (unsigned long long)(start + i));
		played += play();
	}
	assert_true(n < 100 || played > n / 4);
	print_message("%u captures\n", played);
}
