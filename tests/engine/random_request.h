/* SPDX-License-Identifier: MIT */
/* Random processors with Intel PT, and random requests for a trace, sensible and not. */
#ifndef PTAH_TESTS_ENGINE_RANDOM_REQUEST_H
#define PTAH_TESTS_ENGINE_RANDOM_REQUEST_H

#include "random.h"
#include "cpuid_table.h"

#include <ptah/engine/caps.h>
#include <ptah/model/model.h>

static inline bool one_in(uint64_t *seed, unsigned n)
{
	return random_next(seed) % n == 0;
}

static inline uint32_t random_word(uint64_t *seed)
{
	return (uint32_t)random_next(seed);
}

/* A named processor, in most cases with random words in leaf 14H. */
static inline void random_processor(uint64_t *seed, struct ptah_model_processor *p)
{
	unsigned n = 0;

	while (ptah_model_named(n))
		n++;
	do
		*p = *ptah_model_named(random_word(seed) % n);
	while (!p->pt);
	if (one_in(seed, 4))
		return;
	p->leaf_14_0[0] = !one_in(seed, 8);
	p->leaf_14_0[1] = random_word(seed);
	p->leaf_14_0[2] = random_word(seed);
	p->leaf_14_1[0] = random_word(seed) & ~UINT32_C(7);
	if (p->leaf_14_0[1] & 4) /* IP filtering; without it no ranges are announced */
		p->leaf_14_1[0] |= random_word(seed) % 5;
	p->leaf_14_1[1] = random_word(seed);
	if (one_in(seed, 2)) {
		p->leaf_14_1[0] |= 1u << 16;
		p->leaf_14_1[1] |= 0x10001;
	}
	if (one_in(seed, 8))
		p->leaf_14_1[random_word(seed) % 2] &= one_in(seed, 2) ? 0xffff : 0;
	p->physical_bits = (uint8_t)(36 + random_word(seed) % 17);
	p->linear_bits = one_in(seed, 2) ? 57 : 48;
}

static inline uint64_t random_address(uint64_t *seed)
{
	static const unsigned corners[] = {0, 47, 48, 56, 57, 63};
	uint64_t base = UINT64_C(1) << corners[random_next(seed) % 6];

	base = one_in(seed, 2) ? base : 0 - base;
	return one_in(seed, 4) ? random_next(seed) : base + random_next(seed) % 0x100 - 0x80;
}

static inline void random_config(uint64_t *seed, struct ptah_trace_config *c)
{
	bool *flags[] = {&c->os,
			 &c->user,
			 &c->branch,
			 &c->tsc,
			 &c->mtc,
			 &c->cyc,
			 &c->no_retcomp,
			 &c->ptwrite,
			 &c->no_tnt,
			 &c->event_trace,
			 &c->fup_on_ptwrite,
			 &c->power_events,
			 &c->cr3_filter,
			 &c->psb_pmi_on_enable};
	uint8_t *numbers[] = {&c->mtc_period, &c->cyc_threshold, &c->psb_period};

	c->cr3 = random_next(seed) >> (random_word(seed) % 64) & ~UINT64_C(0x1f);
	for (unsigned k = random_word(seed) % 6; k; k--) {
		struct ptah_range *r = &c->ranges[random_word(seed) % 4];

		switch (random_word(seed) % 8) {
		case 0:
			*numbers[random_word(seed) % 3] = random_word(seed) % 16;
			break;
		case 1:
			r->mode = random_word(seed) % 16 < 14 ? 1 + random_word(seed) % 2 : 3;
			r->first = random_address(seed);
			r->last = one_in(seed, 4) ? random_address(seed) : r->first;
			break;
		case 2:
			c->cr3 |= random_word(seed) % 64;
			break;
		default:
			*flags[random_word(seed) % 14] ^= true;
		}
	}
}

#endif
