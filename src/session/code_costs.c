/* SPDX-License-Identifier: MIT */
/* Learns what instructions cost (code_costs.h). */
#include "session/code_costs.h"

#include "session/session.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* Code has so many costs at most; other pieces share one. */
#define CODES_MOST (1u << 20)

/* So many shares are kept: 16 MB. */
#define SHARES_MOST (1u << 21)

/* So many shares are worth reading ahead. */
#define SHARES_ENOUGH (SHARES_MOST / 2)

/* Each code counts as if so many more of its instructions had taken the mean. */
#define PRIOR_INSTRUCTIONS 100.0

/*
 * An interval that took so many times what was expected, and so many ticks more, is no measure of
 * its code: the thread was off the processor. In the first rounds nothing is expected yet.
 */
#define OUTLIER_TIMES 4.0
#define OUTLIER_TICKS 20000.0

/*
 * Costs change after each part of the intervals, which gets near as fast as so many times as many
 * rounds after all of them. Where they are compared with every 32nd interval only, costs follow
 * its chance: they get steady in rounds of fewer parts, and of one.
 */
#define PARTS_MOST	32
#define INTERVALS_LEAST 16 /* in a part */

/* Rounds of PARTS_MOST parts: as many as take some ten milliseconds. */
#define ROUNDS_WORK  (UINT64_C(1) << 22) /* shares, and codes of each part */
#define ROUNDS_LEAST 8
#define ROUNDS_MOST  100
#define ROUNDS_AGAIN 4 /* from costs before */

void code_costs_free(struct code_costs *c)
{
	free(c->codes);
	free(c->slots);
	free(c->filled);
	free(c->intervals);
	free(c->shares);
	*c = (struct code_costs){0};
}

/* The slot of the code, or the free one where it belongs. */
static struct code_slot *find_slot(const struct code_costs *c, uint64_t ip)
{
	size_t at = code_costs_slot(c, ip);

	while (c->slots[at].number && c->slots[at].ip != ip)
		at = (at + 1) & (c->slot_count - 1);
	return &c->slots[at];
}

static bool grow_slots(struct code_costs *c)
{
	const size_t n = c->slot_count ? 2 * c->slot_count : 1024, before = c->slot_count;
	struct code_slot *old = c->slots, *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return false;
	if (!before)
		make_hash_secret(c->secret);
	c->slots = slots;
	c->slot_count = n;
	for (size_t i = 0; i < before; i++)
		if (old[i].number)
			*find_slot(c, old[i].ip) = old[i];
	free(old);
	return true;
}

static double mean_of(const struct code_costs *c)
{
	return c->mean > 0 ? c->mean : 1;
}

double code_costs_of(const struct code_costs *c, uint32_t code)
{
	return code < c->count && c->codes[code].cost > 0 ? c->codes[code].cost : mean_of(c);
}

/* Code that is met for the first time. */
static uint32_t add_code(struct code_costs *c, uint64_t ip, double *cost)
{

	*cost = mean_of(c);
	if ((2 * (c->count + 1) > c->slot_count && !grow_slots(c)) || c->count == CODES_MOST)
		return 0;
	if (!LIST_ROOM(c->codes, c->count, c->capacity))
		return 0;
	c->codes[c->count] = (struct code_cost){.ip = ip};
	*find_slot(c, ip) =
	    (struct code_slot){.ip = ip, .cost = (float)*cost, .number = (uint32_t)c->count + 1};
	return (uint32_t)c->count++;
}

uint32_t code_costs_find(struct code_costs *c, uint64_t ip, double *cost)
{
	const struct code_slot *slot = c->slot_count ? find_slot(c, ip) : NULL;

	if (!slot || !slot->number)
		return add_code(c, ip, cost);
	*cost = slot->cost;
	return slot->number - 1;
}

void code_costs_add(struct code_costs *c, uint32_t code, double instructions)
{
	if (code >= c->count || !(instructions > 0))
		return;
	if (!(c->codes[code].now > 0)) {
		if (!LIST_ROOM(c->filled, c->filled_count, c->filled_capacity))
			return;
		c->filled[c->filled_count++] = code;
	}
	c->codes[code].now += instructions;
}

/* The older half of what is kept is forgotten. */
static void forget_half(struct code_costs *c)
{
	const size_t n = c->interval_count / 2, shares = n ? c->intervals[n - 1].end : 0;

	memmove(c->shares, c->shares + shares, (c->share_count - shares) * sizeof(*c->shares));
	c->share_count -= shares;
	memmove(c->intervals, c->intervals + n, (c->interval_count - n) * sizeof(*c->intervals));
	c->interval_count -= n;
	for (size_t i = 0; i < c->interval_count; i++)
		c->intervals[i].end -= shares;
}

static bool make_room(struct code_costs *c)
{
	if (c->filled_count > SHARES_MOST / 4)
		return false;
	while (c->share_count + c->filled_count > SHARES_MOST)
		forget_half(c);
	return LIST_ROOM_FOR(c->shares, c->share_count, c->filled_count, c->share_capacity) &&
	       LIST_ROOM(c->intervals, c->interval_count, c->interval_capacity);
}

void code_costs_end(struct code_costs *c, double ticks)
{
	const bool keep = ticks >= 0 && c->filled_count && make_room(c);

	for (size_t i = 0; i < c->filled_count; i++) {
		struct code_cost *code = &c->codes[c->filled[i]];

		if (keep)
			c->shares[c->share_count++] =
			    (struct code_share){c->filled[i], (float)code->now};
		code->now = 0;
	}
	c->filled_count = 0;
	if (!keep)
		return;
	c->intervals[c->interval_count++] = (struct code_interval){c->share_count, ticks};
	c->unlearned++;
}

bool code_costs_enough(const struct code_costs *c)
{
	return c->share_count > SHARES_ENOUGH;
}

static void learn_mean(struct code_costs *c)
{
	double ticks = 0, instructions = 0;

	for (size_t i = 0; i < c->interval_count; i++)
		ticks += c->intervals[i].ticks;
	for (size_t i = 0; i < c->share_count; i++)
		instructions += c->shares[i].instructions;
	if (instructions > 0 && ticks > 0)
		c->mean = ticks / instructions;
}

/* Shares the interval's time by the present costs. */
static void share_interval(struct code_costs *c, const struct code_share *shares, size_t n,
			   double ticks, bool first)
{
	double expected = 0, rate;

	for (size_t i = 0; i < n; i++)
		expected += (double)shares[i].instructions * c->codes[shares[i].code].cost;
	if (!(expected > 0) || (!first && ticks > OUTLIER_TIMES * expected + OUTLIER_TICKS))
		return;
	rate = ticks / expected;
	for (size_t i = 0; i < n; i++) {
		struct code_cost *code = &c->codes[shares[i].code];

		code->ticks += rate * (double)shares[i].instructions * code->cost;
		code->instructions += (double)shares[i].instructions;
	}
}

/* From every `parts`-th interval. */
static void learn_part(struct code_costs *c, size_t from, size_t parts, bool first)
{
	const double prior = PRIOR_INSTRUCTIONS / (double)parts;

	for (size_t i = 0; i < c->count; i++)
		c->codes[i].ticks = c->codes[i].instructions = 0;
	for (size_t i = from; i < c->interval_count; i += parts) {
		const size_t begin = i ? c->intervals[i - 1].end : 0;

		share_interval(c, c->shares + begin, c->intervals[i].end - begin,
			       c->intervals[i].ticks, first);
	}
	for (size_t i = 0; i < c->count; i++) {
		struct code_cost *code = &c->codes[i];

		if (code->instructions > 0)
			code->cost = (code->ticks + prior * c->mean) / (code->instructions + prior);
	}
}

static void learn_rounds(struct code_costs *c, size_t rounds, size_t parts, bool first)
{
	if (parts > c->interval_count / INTERVALS_LEAST)
		parts = c->interval_count / INTERVALS_LEAST + 1;
	for (size_t i = 0; i < rounds; i++)
		for (size_t k = 0; k < parts; k++)
			learn_part(c, k, parts, first);
}

static size_t rounds_for(const struct code_costs *c)
{
	const uint64_t n = ROUNDS_WORK / (c->share_count + PARTS_MOST * c->count + 1);

	return n < ROUNDS_LEAST ? ROUNDS_LEAST : n > ROUNDS_MOST ? ROUNDS_MOST : (size_t)n;
}

/* What code has no interval of its own costs the mean. */
static void set_slots(struct code_costs *c)
{
	for (size_t i = 0; i < c->slot_count; i++)
		if (c->slots[i].number)
			c->slots[i].cost = (float)c->codes[c->slots[i].number - 1].cost;
}

void code_costs_learn(struct code_costs *c)
{
	const bool again = c->mean > 0;

	learn_mean(c);
	if (!(c->mean > 0))
		return;
	for (size_t i = 0; i < c->count; i++)
		c->codes[i].cost = code_costs_of(c, (uint32_t)i);
	if (!again)
		learn_rounds(c, 2, PARTS_MOST, true);
	learn_rounds(c, again ? ROUNDS_AGAIN : rounds_for(c), PARTS_MOST, false);
	learn_rounds(c, ROUNDS_AGAIN, PARTS_MOST / 4, false);
	learn_rounds(c, ROUNDS_AGAIN, 1, false);
	set_slots(c);
	c->unlearned = 0;
}
