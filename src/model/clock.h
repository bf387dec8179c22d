/* SPDX-License-Identifier: MIT */
/*
 * The clocks of the simulated processor and the packets that report them: a core
 * that runs at `ratio` bus clocks, a TSC that runs at `nominal_ratio`, and a
 * crystal; for each of its ticks the TSC makes n / d ticks. SDM "TSC Packet",
 * "TMA Packet", "MTC Packet", "CYC Packet" and "CBR Packet". Freestanding.
 *
 * The caller lets core cycles pass (clock_pass), which sends the MTCs that become
 * due, and calls clock_packet() before it generates a packet that is not about
 * time. The caller provides room: CLOCK_BURST bytes for each packet and for each
 * MTC.
 */
#ifndef PTAH_MODEL_CLOCK_H
#define PTAH_MODEL_CLOCK_H

#include "model/generator.h"

#define CLOCK_BURST 32

struct ptah_clock {
	/* IA32_RTIT_CTL */
	bool tsc_en, mtc_en, cyc_en;
	uint8_t mtc_freq, cyc_thresh;
	/* The machine. CPUID.15H: n is EBX, d is EAX. */
	uint8_t nominal_ratio, ratio;
	uint32_t n, d;

	uint64_t tsc;
	uint64_t part;	   /* how much of the next TSC tick has passed, in units of 1/ratio */
	uint64_t cycles;   /* since the beginning */
	uint64_t told;	   /* cycles that CYC packets have reported */
	uint64_t next_mtc; /* crystal ticks >> mtc_freq */
	uint32_t lose_mtc; /* a fault: so many MTCs that become due are not sent */
};

/* Crystal ticks so far. */
static inline uint64_t clock_crystal(const struct ptah_clock *c)
{
	return c->tsc / c->n * c->d + c->tsc % c->n * c->d / c->n;
}

/* The first TSC value at which the crystal has made so many ticks. */
static inline uint64_t clock_tsc_of(const struct ptah_clock *c, uint64_t crystal)
{
	return crystal / c->d * c->n + (crystal % c->d * c->n + c->d - 1) / c->d;
}

/* To be called after the fields up to `tsc` have been set. */
static inline void clock_init(struct ptah_clock *c)
{
	c->part = c->cycles = c->told = 0;
	c->next_mtc = (clock_crystal(c) >> c->mtc_freq) + 1;
}

static inline void clock_tick(struct ptah_clock *c, uint64_t cycles)
{
	uint64_t part = c->part + cycles * c->nominal_ratio;

	c->cycles += cycles;
	c->tsc += part / c->ratio;
	c->part = part % c->ratio;
}

/* A CYC with all cycles that have not been reported, if there are at least so many. */
static inline void clock_cycles(struct ptah_clock *c, struct ptah_generator *g, unsigned threshold)
{
	uint64_t cycles = c->cycles - c->told;

	if (!c->cyc_en || cycles < threshold)
		return;
	c->told = c->cycles;
	*g->out++ = (uint8_t)((cycles & 0x1f) << 3 | (cycles > 0x1f ? CYC_MORE : 0) | OPCODE_CYC);
	for (cycles >>= 5; cycles; cycles >>= 7)
		*g->out++ = (uint8_t)((cycles & 0x7f) << 1 | (cycles > 0x7f));
}

/* A CYC where one is due: before CYC-eligible packets, once the threshold is reached. */
static inline void clock_packet(struct ptah_clock *c, struct ptah_generator *g)
{
	clock_cycles(c, g, c->cyc_thresh ? 1u << (c->cyc_thresh - 1) : 1);
}

static inline void clock_mtc(struct ptah_clock *c, struct ptah_generator *g)
{
	uint64_t count = c->next_mtc++;

	if (c->lose_mtc) {
		c->lose_mtc--;
		return;
	}
	clock_packet(c, g);
	*g->out++ = OPCODE_MTC;
	*g->out++ = (uint8_t)count;
}

/* How many MTCs become due within the next `cycles`. */
static inline uint64_t clock_mtcs_due(const struct ptah_clock *c, uint64_t cycles)
{
	struct ptah_clock then = *c;

	if (!c->mtc_en)
		return 0;
	clock_tick(&then, cycles);
	return (clock_crystal(&then) >> c->mtc_freq) + 1 - c->next_mtc;
}

/* Lets up to *cycles pass. True: an MTC is due now, and *cycles are left. False: all have passed.
 */
static inline bool clock_reach(struct ptah_clock *c, uint64_t *cycles)
{
	uint64_t until = UINT64_MAX;

	if (c->mtc_en) {
		uint64_t at = clock_tsc_of(c, c->next_mtc << c->mtc_freq);

		until = at > c->tsc ? ((at - c->tsc) * c->ratio - c->part + c->nominal_ratio - 1) /
					  c->nominal_ratio
				    : 0;
	}
	if (until > *cycles) {
		clock_tick(c, *cycles);
		return false;
	}
	clock_tick(c, until);
	*cycles -= until;
	return true;
}

static inline void clock_pass(struct ptah_clock *c, struct ptah_generator *g, uint64_t cycles)
{
	while (clock_reach(c, &cycles))
		clock_mtc(c, g);
}

/* TSC, and if MTCs are in use TMA: the crystal's count when the TSC was read. */
static inline void clock_tell(struct ptah_clock *c, struct ptah_generator *g)
{
	uint64_t crystal = clock_crystal(c);

	if (!c->tsc_en)
		return;
	clock_packet(c, g);
	generator_tsc(g, c->tsc);
	if (!c->mtc_en)
		return;
	store_le16(g->out, EXT_WORD(TMA));
	store_le16(g->out + 2, (uint16_t)crystal);
	g->out[4] = 0;
	store_le16(g->out + 5, (uint16_t)((c->tsc - clock_tsc_of(c, crystal)) & 0x1ff));
	g->out += SIZE_TMA;
}

static inline void clock_psb(struct ptah_clock *c, struct ptah_generator *g, bool enabled,
			     uint64_t ip)
{
	generator_flush_tnt(g);
	clock_packet(c, g);
	generator_psb_begin(g);
	clock_tell(c, g);
	generator_cbr(g, c->ratio);
	generator_psb_end(g, enabled, ip);
}

/*
 * The core runs at another frequency from now on. If a CYC is to precede the CBR,
 * the caller calls clock_packet() first.
 */
static inline void clock_set_ratio(struct ptah_clock *c, struct ptah_generator *g, uint8_t ratio)
{
	c->part = c->part * ratio / c->ratio;
	c->ratio = ratio;
	generator_cbr(g, ratio);
}

/*
 * A sleep of so many TSC ticks: cycles and MTCs stop. SDM "TSC Packet": one is
 * sent after any event that stops them; "Cycle Counter": it stops.
 */
static inline void clock_sleep(struct ptah_clock *c, struct ptah_generator *g, uint64_t ticks)
{
	c->tsc += ticks;
	c->next_mtc = (clock_crystal(c) >> c->mtc_freq) + 1;
	generator_flush_tnt(g);
	clock_tell(c, g);
	generator_cbr(g, c->ratio);
}

/*
 * Packets are lost for so many cycles. SDM "Internal Buffer Overflow": there is
 * no CYC while it lasts, and the one before OVF has all its cycles.
 */
static inline void clock_overflow(struct ptah_clock *c, struct ptah_generator *g, uint64_t cycles)
{
	c->lose_mtc = UINT32_MAX;
	clock_pass(c, g, cycles);
	c->lose_mtc = 0;
	clock_packet(c, g);
	generator_overflow(g);
}

#endif
