/* SPDX-License-Identifier: MIT */
/*
 * What an instruction of each piece of code costs, in ticks of the clock, learned from intervals of
 * which it is known how long they took and what ran in them (docs/time.md).
 *
 * The costs are those with which the intervals would have taken what they took: first an
 * instruction of all code takes the mean; then each interval's time is shared among its code by the
 * present costs, the shares of a piece of code from all intervals are its next cost, and so on.
 */
#ifndef PTAH_SESSION_CODE_COSTS_H
#define PTAH_SESSION_CODE_COSTS_H

#include "support/index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code_cost {
	uint64_t ip;
	double cost;		    /* of an instruction; 0: not learned yet */
	double now;		    /* instructions in the interval that is being filled */
	double ticks, instructions; /* of all intervals, while costs are learned */
};

/* What a hash table looks up of most spans, in one place. */
struct code_slot {
	uint64_t ip;
	float cost;
	uint32_t number; /* index of the code + 1; 0: free */
};

struct code_share {
	uint32_t code;
	float instructions;
};

struct code_interval {
	size_t end; /* of its shares */
	double ticks;
};

/* All 0 at first. */
struct code_costs {
	struct code_cost *codes;
	struct code_slot *slots; /* a power of two of them */
	size_t count, capacity, slot_count;
	uint64_t secret[2]; /* of the slots' hash: addresses come from strangers */
	uint32_t *filled;   /* codes with a share in the interval that is being filled */
	size_t filled_count, filled_capacity;
	/* Intervals from which costs are learned, the newest ones, and what ran in them. */
	struct code_interval *intervals;
	size_t interval_count, interval_capacity;
	struct code_share *shares;
	size_t share_count, share_capacity;
	double mean;	  /* cost of an instruction, of all intervals */
	size_t unlearned; /* intervals since the costs were learned */
};

void code_costs_free(struct code_costs *c);

/* Where to look for the code at an address first, if there are slots. */
static inline size_t code_costs_slot(const struct code_costs *c, uint64_t ip)
{
	return (size_t)hash_with(c->secret, ip) & (c->slot_count - 1);
}

/* It is looked for soon. */
static inline void code_costs_prefetch(const struct code_costs *c, uint64_t ip)
{
	if (c->slot_count)
		__builtin_prefetch(&c->slots[code_costs_slot(c, ip)]);
}

/*
 * The number of the code at an address, and the cost of an instruction of it. Code for which there
 * is no room has number 0.
 */
uint32_t code_costs_find(struct code_costs *c, uint64_t ip, double *cost);

/* The cost of an instruction of a code with a number. */
double code_costs_of(const struct code_costs *c, uint32_t code);

/* So many instructions of it ran in the interval that is being filled. */
void code_costs_add(struct code_costs *c, uint32_t code, double instructions);

/* The interval is complete. `ticks` < 0: how long it took is not known, or says nothing. */
void code_costs_end(struct code_costs *c, double ticks);

/* Whether more intervals would hardly make the costs better. */
bool code_costs_enough(const struct code_costs *c);

/* Learns from all intervals that are kept: from nothing, or from costs before. */
void code_costs_learn(struct code_costs *c);

#endif
