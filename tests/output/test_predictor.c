/* SPDX-License-Identifier: MIT */
/*
 * The simulated branch predictor: equal to a plain one that is written from the description in
 * predictor.h with lists and strings of outcomes, and as good as such predictors are on branches
 * whose predictability is known.
 */
#include "test.h"

#include "output/predictor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The reference: nothing is folded step by step, nothing is packed. */

#define MOST 600000

struct reference {
	bool outcome[MOST]; /* all outcomes, the newest last */
	unsigned long count;
	int base[8192];
	struct {
		int tag, counter, useful;
	} entry[4][2048];
	int choice;
};

static const unsigned long history_of[4] = {5, 15, 44, 130};

/* Bits of the last outcomes, folded to a width. Before the first branch nothing was taken. */
static unsigned folded(const struct reference *r, unsigned table, unsigned width)
{
	unsigned bits = 0;

	for (unsigned long k = 0; k < history_of[table]; k++)
		if (k < r->count && r->outcome[r->count - 1 - k])
			bits ^= 1u << k % width;
	return bits;
}

static unsigned index_of(const struct reference *r, unsigned table, unsigned address)
{
	return (address ^ address >> (table + 1) ^ folded(r, table, 11)) % 2048;
}

static int tag_of(const struct reference *r, unsigned table, unsigned high)
{
	return (int)((high ^ folded(r, table, 11) ^ folded(r, table, 10) * 2) % 2048);
}

static int clamp(int value, int low, int high)
{
	return value < low ? low : value > high ? high : value;
}

static bool reference_step(struct reference *r, uint64_t ip, bool taken)
{
	const uint64_t hash = ip * UINT64_C(0x9e3779b97f4a7c15);
	const unsigned address = (unsigned)(hash >> 32), high = (unsigned)(hash >> 48);
	const int step = taken ? 1 : -1;
	unsigned index[4];
	int tag[4], hits[4], n = 0;
	int *base = &r->base[address % 8192];
	bool prediction, longest = false, second;
	int longest_table = -1;
	bool fresh = false;

	for (unsigned t = 0; t < 4; t++) {
		index[t] = index_of(r, t, address);
		tag[t] = tag_of(r, t, high);
		if (r->entry[t][index[t]].tag == tag[t])
			hits[n++] = (int)t;
	}
	second = n >= 2 ? r->entry[hits[n - 2]][index[hits[n - 2]]].counter >= 0 : *base >= 2;
	if (n) {
		longest_table = hits[n - 1];
		longest = r->entry[longest_table][index[longest_table]].counter >= 0;
		fresh = r->entry[longest_table][index[longest_table]].useful == 0 &&
			abs(2 * r->entry[longest_table][index[longest_table]].counter + 1) == 1;
		prediction = fresh && r->choice >= 8 ? second : longest;
		if (fresh && longest != second)
			r->choice = clamp(r->choice + (second == taken ? 1 : -1), 0, 15);
	} else {
		prediction = *base >= 2;
	}
	/* A new entry with a longer history, unless a fresh one was right and was not believed */
	if (prediction != taken && !(n && fresh && longest == taken)) {
		int t = longest_table + 1;

		while (t < 4 && r->entry[t][index[t]].useful)
			t++;
		if (t < 4) {
			r->entry[t][index[t]].tag = tag[t];
			r->entry[t][index[t]].counter = taken ? 0 : -1;
			r->entry[t][index[t]].useful = 0;
		} else {
			for (t = longest_table + 1; t < 4; t++)
				r->entry[t][index[t]].useful--;
		}
	}
	if (!n) {
		*base = clamp(*base + step, 0, 3);
	} else {
		int *counter = &r->entry[longest_table][index[longest_table]].counter;
		int *useful = &r->entry[longest_table][index[longest_table]].useful;

		if (!*useful && n >= 2) {
			int *other = &r->entry[hits[n - 2]][index[hits[n - 2]]].counter;

			*other = clamp(*other + step, -4, 3);
		} else if (!*useful) {
			*base = clamp(*base + step, 0, 3);
		}
		*counter = clamp(*counter + step, -4, 3);
		if (longest != second)
			*useful = clamp(*useful + (longest == taken ? 1 : -1), 0, 3);
	}
	r->outcome[r->count++] = taken;
	if (r->count % 262144 == 0)
		for (int t = 0; t < 4; t++)
			for (int i = 0; i < 2048; i++)
				r->entry[t][i].useful /= 2;
	return prediction != taken;
}

static uint64_t seed = 1;

static uint32_t draw(void)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(seed >> 33);
}

/* Branches of all kinds, mixed: random, biased, loops, and copies of earlier outcomes. */
static bool outcome_of(uint32_t branch, uint32_t n, const bool *past)
{
	switch (branch % 5) {
	case 0:
		return draw() & 1;
	case 1:
		return draw() % 50 != 0;
	case 2:
		return n % (3 + branch % 40) != 0;
	case 3:
		return past[n % 7] ^ past[n % 3];
	default:
		return n >> branch % 8 & 1;
	}
}

TEST(test_reference)
{
	struct predictor *p = malloc(sizeof(*p));
	struct reference *r = calloc(1, sizeof(*r));
	uint32_t counts[3000] = {0}, misses = 0;
	bool past[8] = {false};

	assert_non_null(p);
	assert_non_null(r);
	predictor_init(p);
	for (int i = 0; i < 8192; i++)
		r->base[i] = 1;
	r->choice = 8;
	for (uint32_t n = 0; n < 300000; n++) {
		/* Few branches at first, then more than the tables can hold. */
		const uint32_t branch = draw() % (n < 150000 ? 60 : 3000);
		const bool taken = outcome_of(branch, counts[branch]++, past);
		const uint64_t ip = UINT64_C(0x7f0000401000) + 7 * branch;
		const bool missed = predictor_step(p, ip, taken);

		past[n % 8] = taken;
		if (missed != reference_step(r, ip, taken))
			fail_msg("branch %u: %d", n, missed);
		misses += missed;
	}
	assert_in_range(misses, 30000, 150000);
	free(p);
	free(r);
}

/* The misses of one branch in a loop of its own, whose outcomes `of` gives. */
static unsigned run(bool (*of)(uint32_t n), uint32_t times)
{
	struct predictor *p = malloc(sizeof(*p));
	unsigned misses = 0;

	assert_non_null(p);
	predictor_init(p);
	for (uint32_t n = 0; n < times; n++) {
		misses += predictor_step(p, 0x401234, of(n));
		predictor_step(p, 0x401240, true); /* the loop itself */
	}
	free(p);
	return misses;
}

static bool always(uint32_t n)
{
	(void)n;
	return true;
}

static bool alternately(uint32_t n)
{
	return n & 1;
}

static bool seldom(uint32_t n)
{
	return n % 256 == 255;
}

static bool every_tenth(uint32_t n)
{
	return n % 10 == 9;
}

static bool by_chance(uint32_t n)
{
	(void)n;
	return draw() & 1;
}

TEST(test_known)
{
	assert_in_range(run(always, 10000), 0, 3);
	assert_in_range(run(alternately, 10000), 0, 100);
	/* The history is long enough for the tenth, and too short for the 256th. */
	assert_in_range(run(every_tenth, 100000), 0, 500);
	assert_in_range(run(seldom, 512000), 1500, 2500);
	assert_in_range(run(by_chance, 100000), 48000, 52000);
}
