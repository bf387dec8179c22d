/* SPDX-License-Identifier: MIT */
/*
 * Time through the whole decoder: the model writes the packets of a machine
 * whose true TSC is known at each of them; every item's estimate must be within
 * the bound that it carries, and time must not run backwards.
 */
#include "random_clock.h"
#include "event/event.h"

#include <stdio.h>

struct result {
	uint64_t items, bounded, cycles;
	double error; /* the mean, over items with a bound */
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
	event_get_time(d, &time);
	result.cycles = time.cycles;
	ptah_event_decoder_free(d);
	assert_true(result.items > STEPS / 2);
	return result;
}

/* Runs a machine and decodes its packets, whole and in chunks. */
static struct result run(struct run *r, size_t chunk)
{
	struct result result;

	run_machine(r);
	result = decode(r, chunk);
	if (getenv("CLOCK_VERBOSE"))
		printf(
		    "cyc %d/%u mtc %d/%u loss %d %d: %llu items, %llu bounded, mean error %.1f\n",
		    r->clock.cyc_en, r->clock.cyc_thresh, r->clock.mtc_en, r->clock.mtc_freq,
		    r->lossy, r->loses_mtc, (unsigned long long)result.items,
		    (unsigned long long)result.bounded,
		    result.error / (double)(result.bounded + !result.bounded));
	if (r->clock.cyc_en)
		assert_true(result.cycles == r->clock.told);
	run_free(r);
	return result;
}

static const size_t chunks[] = {SIZE_MAX, 1, 7, 4096};

TEST(cycles_and_crystal)
{
	for (unsigned seed = 1; seed <= 60; seed++) {
		struct run r = machine(seed);
		struct result result;

		r.clock.mtc_en = r.clock.cyc_en = true;
		r.clock.mtc_freq = (uint8_t)(seed % 11);
		r.clock.cyc_thresh = (uint8_t)(seed % 3 * 3);
		r.lossy = seed % 4 == 3;
		r.loses_mtc = seed % 5 == 2;
		result = run(&r, chunks[seed % 4]);
		assert_true(result.bounded > result.items / (r.lossy ? 3 : 1) * 9 / 10);
	}
}

/* Between two MTCs any time may have passed; before the first MTC the period is unknown. */
TEST(crystal_alone)
{
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

TEST(cycles_alone)
{
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

/* TSC packets now and then: an item between two may be at any time between them, without a bound.
 */
TEST(tsc_alone)
{
	for (unsigned seed = 1; seed <= 8; seed++) {
		struct run r = machine(seed);

		assert_int_equal(run(&r, chunks[seed % 4]).bounded, 0);
	}
}
