/* SPDX-License-Identifier: MIT */
/*
 * Time through the whole decoder: the model writes the packets of a machine
 * whose true TSC is known at each of them; every item's estimate must be within
 * the bound that it carries, and time must not run backwards.
 */
#include "test.h"

#include "model/clock.h"

#include <ptah/event.h>

#include <stdio.h>
#include <stdlib.h>

#define STEPS 20000
#define BASE  UINT64_C(0x401000)
#define ROOM  (64u << 20)

struct truth {
	uint64_t offset, tsc;
};

struct run {
	uint64_t seed;
	struct ptah_clock clock;
	struct ptah_generator g;
	uint8_t *trace;
	struct truth *truths;
	size_t count;
	bool lossy, idle;
};

static unsigned pick(struct run *r, unsigned n)
{
	r->seed ^= r->seed << 13;
	r->seed ^= r->seed >> 7;
	r->seed ^= r->seed << 17;
	return (unsigned)(r->seed >> 11) % n;
}

/* What is generated now will be an item with this offset. */
static void note(struct run *r)
{
	clock_packet(&r->clock, &r->g);
	r->truths[r->count++] = (struct truth){(uint64_t)(r->g.out - r->trace), r->clock.tsc};
}

/* Packets are lost for a while; MTCs and CYCs among them. */
static void overflow(struct run *r)
{
	uint8_t *out = r->g.out;
	static uint8_t nowhere[1 << 20];

	r->g.out = nowhere;
	clock_pass(&r->clock, &r->g, pick(r, 2000));
	r->g.out = out;
	generator_overflow(&r->g);
	generator_ip_packet(&r->g, 0x1d, BASE);
}

static void pass(struct run *r)
{
	uint64_t cycles = pick(r, 300);

	if (r->idle && !pick(r, 200))
		cycles += pick(r, 100000);
	clock_pass(&r->clock, &r->g, cycles);
}

static void step(struct run *r)
{
	pass(r);
	switch (pick(r, 200)) {
	case 0:
		clock_psb(&r->clock, &r->g, true, BASE);
		break;
	case 1:
		clock_set_ratio(&r->clock, &r->g, (uint8_t)(8 + pick(r, 40)));
		break;
	case 2:
		if (r->lossy)
			overflow(r);
		break;
	case 3:
	case 4:
	case 5:
		note(r);
		generator_disable(&r->g);
		pass(r);
		note(r);
		generator_enable(&r->g, BASE);
		break;
	default:
		if (pick(r, 4)) {
			for (unsigned n = 1 + pick(r, 5); n > 0; n--)
				generator_tnt(&r->g, pick(r, 2));
			note(r);
			generator_flush_tnt(&r->g);
		} else {
			note(r);
			generator_tip(&r->g, BASE + pick(r, 65536));
		}
		break;
	}
}

static struct ptah_event_config config_of(const struct run *r)
{
	return (struct ptah_event_config){
	    .size = sizeof(struct ptah_event_config),
	    .mtc_freq = r->clock.mtc_freq,
	    .nominal_ratio = r->clock.nominal,
	    .tsc_ctc_n = r->clock.n,
	    .tsc_ctc_d = r->clock.d,
	    .cyc_thresh = r->clock.cyc_thresh,
	};
}

struct result {
	uint64_t items, bounded, cycles;
	double error; /* mean, over bounded items */
};

static void check(const struct run *r, const struct ptah_item *item, size_t *at,
		  struct result *result)
{
	uint64_t off;

	while (*at < r->count && r->truths[*at].offset < item->offset)
		(*at)++;
	if (*at == r->count || r->truths[*at].offset != item->offset)
		return; /* PSB, CBR, overflow */
	result->items++;
	if (item->tsc_error == PTAH_TSC_UNBOUNDED)
		return;
	off = item->tsc > r->truths[*at].tsc ? item->tsc - r->truths[*at].tsc
					     : r->truths[*at].tsc - item->tsc;
	result->bounded++;
	result->error += (double)off;
	if (item->tsc_error < 64 && off >> item->tsc_error)
		fail_msg("item at offset %llu: %llu from the truth, said to be below 2^%u",
			 (unsigned long long)item->offset, (unsigned long long)off,
			 item->tsc_error);
}

static struct result decode(const struct run *r, size_t chunk)
{
	const struct ptah_event_config config = config_of(r);
	size_t size = (size_t)(r->g.out - r->trace), fed = 0, at = 0;
	struct ptah_event_decoder *d;
	struct result result = {0};
	struct ptah_item items[64];
	struct ptah_time time;
	uint64_t before = 0;
	int n;

	assert_int_equal(ptah_event_decoder_new(&config, &d), 0);
	while (fed < size) {
		size_t part = size - fed < chunk ? size - fed : chunk;

		assert_int_equal(ptah_event_feed(d, r->trace + fed, part, fed + part == size), 0);
		fed += part;
		while ((n = ptah_event_read(d, items, 64)) > 0) {
			for (int i = 0; i < n; i++) {
				assert_true(items[i].type != PTAH_ITEM_ERROR);
				assert_true(items[i].tsc >= before);
				before = items[i].tsc;
				check(r, &items[i], &at, &result);
			}
		}
	}
	ptah_event_time(d, &time);
	result.cycles = time.cycles;
	ptah_event_decoder_free(d);
	assert_true(result.items > STEPS / 2);
	return result;
}

/* Runs a machine and decodes what it wrote, whole and in chunks. */
static struct result run(struct run *r, size_t chunk)
{
	struct result result;

	r->seed = r->seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	r->trace = malloc(ROOM);
	r->truths = calloc(2 * STEPS, sizeof(*r->truths));
	assert_non_null(r->trace);
	assert_non_null(r->truths);
	generator_init(&r->g, r->trace, false, false);
	clock_init(&r->clock);
	clock_psb(&r->clock, &r->g, true, BASE);
	for (int i = 0; i < STEPS; i++)
		step(r);
	assert_true((size_t)(r->g.out - r->trace) < ROOM / 2);
	result = decode(r, chunk);
	if (getenv("CLOCK_VERBOSE"))
		printf("cyc %d/%u mtc %d/%u lossy %d: %llu items, %llu bounded, mean error %.1f\n",
		       r->clock.cyc_en, r->clock.cyc_thresh, r->clock.mtc_en, r->clock.mtc_freq,
		       r->lossy, (unsigned long long)result.items,
		       (unsigned long long)result.bounded,
		       result.error / (double)(result.bounded + !result.bounded));
	if (!r->lossy && r->clock.cyc_en)
		assert_true(result.cycles == r->clock.told);
	free(r->trace);
	free(r->truths);
	return result;
}

static struct run machine(unsigned seed)
{
	static const uint32_t ratios[][2] = {{84, 2}, {88, 1}, {200, 3}, {2, 1}, {1, 1}};

	return (struct run){.seed = seed,
			    .idle = seed & 1,
			    .clock = {.tsc_en = true,
				      .nominal = (uint8_t)(15 + seed % 20),
				      .ratio = (uint8_t)(8 + seed % 40),
				      .n = ratios[seed % 5][0],
				      .d = ratios[seed % 5][1],
				      .tsc = UINT64_C(1000000000) + seed * 12345}};
}

static const size_t chunks[] = {SIZE_MAX, 1, 7, 4096};

static void cycles_and_crystal(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 60; seed++) {
		struct run r = machine(seed);
		struct result result;

		r.clock.mtc_en = r.clock.cyc_en = true;
		r.clock.mtc_freq = (uint8_t)(seed % 11);
		r.clock.cyc_thresh = (uint8_t)(seed % 3 * 3);
		r.lossy = seed % 4 == 3;
		result = run(&r, chunks[seed % 4]);
		assert_true(result.bounded > result.items / (r.lossy ? 3 : 1) * 9 / 10);
	}
}

/* Between two MTCs anything may have passed; before the first nothing is known of the period. */
static void crystal_alone(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct run r = machine(seed);
		struct result result;

		r.clock.mtc_en = true;
		r.clock.mtc_freq = (uint8_t)(seed % 8);
		r.lossy = seed % 4 == 3;
		result = run(&r, chunks[seed % 4]);
		assert_true(result.bounded > result.items / 4);
	}
}

static void cycles_alone(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct run r = machine(seed);
		struct result result;

		r.clock.cyc_en = true;
		r.clock.cyc_thresh = (uint8_t)(seed % 3 * 3);
		r.lossy = seed % 4 == 3;
		result = run(&r, chunks[seed % 4]);
		assert_true(result.bounded > result.items / (r.lossy ? 3 : 1) * 9 / 10);
	}
}

/* A TSC now and then: what lies between two may be any time between them, and no bound is given. */
static void tsc_alone(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 8; seed++) {
		struct run r = machine(seed);

		assert_int_equal(run(&r, chunks[seed % 4]).bounded, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(cycles_and_crystal),
	    cmocka_unit_test(crystal_alone),
	    cmocka_unit_test(cycles_alone),
	    cmocka_unit_test(tsc_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
