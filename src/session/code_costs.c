/* SPDX-License-Identifier: MIT */
/* Learns what instructions cost (code_costs.h). */
#include "session/code_costs.h"

#include "base/hash.h"
#include "session/session.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* Code has so many costs at most; other pieces share one. */
#define CODES_MOST (1u << 20)

/* So many shares are kept: 16 MB. */
#define SHARES_MOST (1u << 21)

/* So many intervals say enough of the costs: some six seconds of a thread that computes. */
#define INTERVALS_ENOUGH (1u << 16)

/* Each code counts as if so many more of its instructions had taken the mean. */
#define PRIOR_INSTRUCTIONS 100.0

/*
 * An interval that took so many times what was expected, and so many ticks more, is no measure of
 * its code: the thread was off the processor. In the first rounds nothing is expected yet.
 */
#define OUTLIER_TIMES 4.0
#define OUTLIER_TICKS 20000.0
#define FIRST_ROUNDS  10

void code_costs_free(struct code_costs *c)
{
	free(c->codes);
	free(c->slots);
	free(c->filled);
	free(c->intervals);
	free(c->shares);
	*c = (struct code_costs){0};
}

static size_t slot_of(const struct code_costs *c, uint64_t ip)
{
	return (size_t)(hash_number(ip) >> 20) % c->slot_count;
}

static bool grow_slots(struct code_costs *c)
{
	const size_t n = c->slot_count ? 2 * c->slot_count : 1024;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return false;
	free(c->slots);
	c->slots = slots;
	c->slot_count = n;
	for (size_t i = 0; i < c->count; i++) {
		size_t at = slot_of(c, c->codes[i].ip);

		while (slots[at])
			at = (at + 1) % n;
		slots[at] = (uint32_t)i + 1;
	}
	return true;
}

uint32_t code_costs_find(struct code_costs *c, uint64_t ip)
{
	size_t at;

	if (2 * (c->count + 1) > c->slot_count && !grow_slots(c))
		return 0;
	for (at = slot_of(c, ip); c->slots[at]; at = (at + 1) % c->slot_count)
		if (c->codes[c->slots[at] - 1].ip == ip)
			return c->slots[at] - 1;
	if (c->count == CODES_MOST)
		return 0;
	if (!LIST_ROOM(c->codes, c->count, c->capacity))
		return 0;
	c->codes[c->count] = (struct code_cost){.ip = ip};
	c->slots[at] = (uint32_t)++c->count;
	return c->slots[at] - 1;
}

double code_costs_of(const struct code_costs *c, uint32_t code)
{
	const double mean = c->mean > 0 ? c->mean : 1;

	return code < c->count && c->codes[code].cost > 0 ? c->codes[code].cost : mean;
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
	return c->share_count > SHARES_MOST / 2 || c->interval_count > INTERVALS_ENOUGH;
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
	double expected = 0;

	for (size_t i = 0; i < n; i++)
		expected += shares[i].instructions * code_costs_of(c, shares[i].code);
	if (!(expected > 0) || (!first && ticks > OUTLIER_TIMES * expected + OUTLIER_TICKS))
		return;
	for (size_t i = 0; i < n; i++) {
		struct code_cost *code = &c->codes[shares[i].code];

		code->ticks +=
		    ticks / expected * shares[i].instructions * code_costs_of(c, shares[i].code);
		code->instructions += shares[i].instructions;
	}
}

static void learn_once(struct code_costs *c, bool first)
{
	size_t begin = 0;

	for (size_t i = 0; i < c->count; i++)
		c->codes[i].ticks = c->codes[i].instructions = 0;
	for (size_t i = 0; i < c->interval_count; i++) {
		const struct code_interval *interval = &c->intervals[i];

		share_interval(c, c->shares + begin, interval->end - begin, interval->ticks, first);
		begin = interval->end;
	}
	for (size_t i = 0; i < c->count; i++) {
		struct code_cost *code = &c->codes[i];

		if (code->instructions > 0)
			code->cost = (code->ticks + PRIOR_INSTRUCTIONS * c->mean) /
				     (code->instructions + PRIOR_INSTRUCTIONS);
	}
}

void code_costs_learn(struct code_costs *c, unsigned rounds)
{
	learn_mean(c);
	for (unsigned i = 0; i < rounds; i++)
		learn_once(c, i < FIRST_ROUNDS);
	c->unlearned = 0;
}
