/* SPDX-License-Identifier: MIT */
/* Random programs on the model's clocks: the packets they write, and the true TSC of each. */
#ifndef PTAH_TEST_RANDOM_CLOCK_H
#define PTAH_TEST_RANDOM_CLOCK_H

#include "pages.h"
#include "random.h"
#include "test.h"

#include "model/clock.h"

#include <ptah/event.h>

#include <stdlib.h>

#define STEPS 20000
#define BASE  UINT64_C(0x401000)
#define ROOM  (64u << 20)

enum kind {
	TNT,
	TIP,
	DISABLED,
	ENABLED
};

struct truth {
	uint64_t offset, tsc;
	enum kind kind;
	unsigned bits; /* outcomes of the TNT */
};

struct run {
	uint64_t seed;
	struct ptah_clock clock;
	struct ptah_generator g;
	uint8_t *trace;
	struct truth *truths;
	size_t count;
	bool lossy;	/* it has overflows */
	bool loses_mtc; /* it only loses MTCs */
	bool idle;
};

static unsigned pick(struct run *r, unsigned n)
{
	return (unsigned)(random_next(&r->seed) >> 11) % n;
}

/* The packet that is generated next becomes an item with this offset. */
static void note(struct run *r, enum kind kind, unsigned bits)
{
	clock_packet(&r->clock, &r->g);
	r->truths[r->count++] =
	    (struct truth){(uint64_t)(r->g.out - r->trace), r->clock.tsc, kind, bits};
}

static void pass(struct run *r)
{
	uint64_t cycles = pick(r, 300);

	if (r->idle && !pick(r, 200))
		cycles += pick(r, 100000);
	clock_pass(&r->clock, &r->g, cycles);
}

static void branches(struct run *r)
{
	unsigned n = 1 + pick(r, 5);

	if (!pick(r, 4)) {
		note(r, TIP, 0);
		generator_tip(&r->g, BASE + pick(r, 65536));
		return;
	}
	for (unsigned i = 0; i < n; i++)
		generator_tnt(&r->g, pick(r, 2));
	note(r, TNT, n);
	generator_flush_tnt(&r->g);
}

static void step(struct run *r)
{
	pass(r);
	switch (pick(r, 200)) {
	case 0:
		clock_psb(&r->clock, &r->g, true, BASE);
		break;
	case 1:
		if (pick(r, 2))
			clock_packet(&r->clock, &r->g);
		clock_set_ratio(&r->clock, &r->g, (uint8_t)(8 + pick(r, 40)));
		break;
	case 2:
		if (r->lossy) {
			clock_overflow(&r->clock, &r->g, pick(r, 2000));
			generator_ip_packet(&r->g, OPCODE_FUP, BASE);
		}
		break;
	case 3:
		if (r->idle)
			clock_sleep(&r->clock, &r->g, pick(r, 1000000));
		break;
	case 4:
		if (r->loses_mtc) /* less than a round of the counter: six bits after a TMA with
				     MTCFreq 10 */
			r->clock.lose_mtc = 1 + pick(r, 50);
		break;
	case 5:
	case 6:
		note(r, DISABLED, 0);
		generator_disable(&r->g);
		pass(r);
		note(r, ENABLED, 0);
		generator_enable(&r->g, BASE);
		break;
	default:
		branches(r);
		break;
	}
}

static struct ptah_event_config config_of(const struct run *r)
{
	return (struct ptah_event_config){
	    .size = sizeof(struct ptah_event_config),
	    .trace.mtc_period = r->clock.mtc_freq,
	    .nominal_ratio = r->clock.nominal_ratio,
	    .tsc_n = r->clock.n,
	    .tsc_d = r->clock.d,
	    .trace.cyc_threshold = r->clock.cyc_thresh,
	};
}

/* Runs the machine; run_free() when done. */
static void run_machine(struct run *r)
{
	r->seed = r->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	r->trace = pages_new(ROOM);
	r->truths = calloc(2 * STEPS, sizeof(*r->truths));
	assert_non_null(r->truths);
	generator_init(&r->g, r->trace, false, false);
	clock_init(&r->clock);
	clock_psb(&r->clock, &r->g, true, BASE);
	for (int i = 0; i < STEPS; i++)
		step(r);
	assert_true((size_t)(r->g.out - r->trace) < ROOM / 2);
}

static void run_free(struct run *r)
{
	pages_free(r->trace, ROOM);
	free(r->truths);
}

static struct run machine(unsigned seed)
{
	static const uint32_t ratios[][2] = {{84, 2}, {88, 1}, {200, 3}, {2, 1}, {1, 1}};

	return (struct run){.seed = seed,
			    .idle = seed & 1,
			    .clock = {.tsc_en = true,
				      .nominal_ratio = (uint8_t)(15 + seed % 20),
				      .ratio = (uint8_t)(8 + seed % 40),
				      .n = ratios[seed % 5][0],
				      .d = ratios[seed % 5][1],
				      .tsc = UINT64_C(1000000000) + seed * 12345}};
}

#endif
