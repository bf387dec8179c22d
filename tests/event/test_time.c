/* SPDX-License-Identifier: MIT */
/*
 * The clock on the packets of a simulated processor whose true time is known: the estimate
 * stays within its bound and never runs backwards.
 */
#include "random.h"
#include "test.h"

#include "event/time.h"

#include <string.h>

/* A core at a changing frequency, a crystal, and the packets that they send. */
struct clockwork {
	uint64_t seed;
	double tsc;    /* truth */
	double cycles; /* truth */
	uint64_t cycles_told;
	double ratio; /* core frequency over bus */
	uint8_t nominal_ratio, mtc_freq;
	uint32_t n, d;
	uint64_t next_mtc; /* in crystal ticks */
	bool cyc, mtc, cbr;
};

static unsigned pick(struct clockwork *c, unsigned n)
{
	return (unsigned)(random_next(&c->seed) >> 11) % n;
}

static double crystal(const struct clockwork *c)
{
	return c->tsc * c->d / c->n;
}

static void tell_cycles(struct clockwork *c, struct event_time *t)
{
	uint64_t now = (uint64_t)c->cycles;

	if (c->cyc)
		event_time_cyc(t, now - c->cycles_told);
	c->cycles_told = now;
}

static void check(const struct clockwork *c, const struct event_time *t, uint64_t *before)
{
	double off = (double)t->now - c->tsc;

	assert_true(t->now >= *before);
	*before = t->now;
	if (t->error != EVENT_TIME_UNKNOWN)
		assert_true(off <= (double)t->error && -off <= (double)t->error);
}

/* Lets time pass; MTCs are sent when they are due. */
static void pass(struct clockwork *c, struct event_time *t, double ticks, uint64_t *before)
{
	double end = c->tsc + ticks;

	while (c->mtc && (double)(c->next_mtc << c->mtc_freq) * c->n / c->d <= end) {
		double at = (double)(c->next_mtc << c->mtc_freq) * c->n / c->d;

		c->cycles += (at - c->tsc) * c->ratio / c->nominal_ratio;
		c->tsc = at;
		tell_cycles(c, t);
		event_time_mtc(t, (uint8_t)c->next_mtc++);
		check(c, t, before);
	}
	c->cycles += (end - c->tsc) * c->ratio / c->nominal_ratio;
	c->tsc = end;
}

/* The timing packets of a PSB+: TSC, TMA, CBR. */
static void synchronise(struct clockwork *c, struct event_time *t)
{
	double ticks = crystal(c);
	uint64_t ctc = (uint64_t)ticks;

	tell_cycles(c, t);
	event_time_tsc(t, (uint64_t)c->tsc & ((UINT64_C(1) << 56) - 1));
	event_time_tma(t, (uint16_t)ctc, (uint16_t)(c->tsc - (double)ctc * c->n / c->d));
	if (c->cbr)
		event_time_cbr(t, (uint8_t)c->ratio);
}

static void run(struct clockwork *c)
{
	struct event_time t = {.mtc_freq = c->mtc_freq,
			       .nominal_ratio = c->nominal_ratio,
			       .ctc_numerator = c->n,
			       .ctc_denominator = c->d};
	uint64_t before = 0, known = 0;

	c->next_mtc = ((uint64_t)crystal(c) >> c->mtc_freq) + 1;
	synchronise(c, &t);
	check(c, &t, &before);
	for (int i = 0; i < 20000; i++) {
		pass(c, &t, pick(c, 3000), &before);
		if (!pick(c, 200))
			synchronise(c, &t);
		if (!pick(c, 400) && c->cbr) {
			c->ratio = 8 + pick(c, 40);
			tell_cycles(c, &t);
			event_time_cbr(&t, (uint8_t)c->ratio);
		}
		if (!pick(c, 1000))
			event_time_overflow(&t);
		/* An event: while CYCs are sent, one precedes its packet. */
		tell_cycles(c, &t);
		if (c->cyc) {
			check(c, &t, &before);
			known += t.error != EVENT_TIME_UNKNOWN;
		}
	}
	if (c->cyc && c->mtc)
		assert_true(known > 10000); /* all but those between an overflow and a TSC */
}

TEST(cycles_and_crystal)
{
	static const uint32_t ratios[][2] = {{84, 2}, {88, 1}, {200, 3}, {2, 1}, {1, 1}};

	for (unsigned seed = 1; seed <= 40; seed++) {
		struct clockwork c = {.seed = seed * UINT64_C(0x9e3779b97f4a7c15),
				      .tsc = 1e9 + seed * 12345.5,
				      .ratio = 8 + seed % 40,
				      .nominal_ratio = 21,
				      .mtc_freq = (uint8_t)(seed % 11),
				      .n = ratios[seed % 5][0],
				      .d = ratios[seed % 5][1],
				      .cyc = true,
				      .mtc = true,
				      .cbr = true};

		run(&c);
	}
}

TEST(cycles_alone)
{
	for (unsigned seed = 1; seed <= 10; seed++) {
		struct clockwork c = {.seed = seed,
				      .tsc = 5e8,
				      .ratio = 30,
				      .nominal_ratio = 20,
				      .n = 84,
				      .d = 2,
				      .cyc = true,
				      .cbr = true};

		run(&c);
	}
}

TEST(crystal_alone)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct clockwork c = {.seed = seed,
				      .tsc = 7e9,
				      .ratio = 30,
				      .nominal_ratio = 20,
				      .n = 84,
				      .d = 2,
				      .mtc_freq = (uint8_t)(seed % 15),
				      .mtc = true,
				      .cbr = true};

		run(&c);
	}
}

/* SDM "TSC Packet": 56 bits. The clock remembers the upper byte. */
TEST(wrap)
{
	struct event_time t = {0};

	t.tsc = UINT64_C(0x12fffffffffffff0);
	event_time_tsc(&t, 0x10);
	assert_true(t.now == UINT64_C(0x1300000000000010));
	event_time_tsc(
	    &t, UINT64_C(0xfffffffffffff8)); /* a little earlier: the estimate does not move */
	assert_true(t.tsc == UINT64_C(0x12fffffffffffff8));
	assert_true(t.now == UINT64_C(0x1300000000000010));
	assert_true(t.error >= 0x18);
}
