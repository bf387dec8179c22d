/* SPDX-License-Identifier: MIT */
/*
 * Which times the packets about time allow: computed from the packets alone, not with either
 * library's clock. SDM "Tracking Time": TSC gives the time, MTC counts the crystal's ticks from the
 * state that TMA gives, CYC counts the core's cycles.
 */
#include "twin.h"

#include <ptah/packet.h>

#include <string.h>

/* The most packets that may have been read ahead of a report. */
#define LAG 16

#define WRAP (UINT64_C(1) << 56)

static uint64_t in_tsc(const struct twin_input *input, uint64_t ticks)
{
	return ticks * input->config.cpuid_0x15_ebx / input->config.cpuid_0x15_eax;
}

static bool has_crystal(const struct twin_input *input)
{
	return input->config.cpuid_0x15_eax && input->config.cpuid_0x15_ebx;
}

/* The latest time that is possible. */
static uint64_t latest(const struct twin_input *input, const struct twin_clock *c)
{
	uint64_t most = c->anchor, cycles;

	if (c->aligned && input->config.mtc_freq > 8)
		return UINT64_MAX;
	if (c->mtc)
		most += in_tsc(input, (UINT64_C(1) << input->config.mtc_freq) + 3);
	/* At the slowest ratio of the core so far, because a CBR comes late. */
	if (c->cycles && (!c->slowest || !input->config.nom_freq))
		return UINT64_MAX;
	if (c->cycles) {
		cycles = c->cycles * input->config.nom_freq / c->slowest;
		cycles += cycles / 4 + 2;
		if (c->anchor + cycles > most)
			most = c->anchor + cycles;
	}
	return most > c->high ? most : c->high;
}

static void set_anchor(const struct twin_input *input, struct twin_clock *c, uint64_t tsc)
{
	/* The estimate never decreases. */
	if (c->known && latest(input, c) != UINT64_MAX)
		c->high = latest(input, c);
	c->before = c->known ? c->anchor : tsc;
	c->anchor = tsc;
	if (tsc > c->high)
		c->high = tsc;
	c->cycles = 0;
	c->slowest = c->ratio;
	c->known = true;
}

static void take_mtc(const struct twin_input *input, struct twin_clock *c, uint8_t payload)
{
	const unsigned freq = input->config.mtc_freq;
	uint64_t ctc = c->base_ctc + c->ticks;
	unsigned passed = (uint8_t)(payload - (ctc >> freq));

	if (!c->aligned || freq > 8) /* TMA's CTC has only 16 bits */
		return;
	passed = passed ? passed : 256;
	c->ticks = (((ctc >> freq) + passed) << freq) - c->base_ctc;
	c->mtc = true;
	set_anchor(input, c, c->base + in_tsc(input, c->ticks));
}

static void take(const struct twin_input *input, struct twin_clock *c,
		 const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_TSC:
		c->tsc = (c->tsc & ~(WRAP - 1)) | packet->u.tsc.tsc;
		if (c->tsc + WRAP / 2 < c->anchor)
			c->tsc += WRAP;
		c->awaits_tma = true;
		c->most = c->tsc > c->most ? c->tsc : c->most;
		/* Without a new TMA the crystal's count continues from the last one. */
		set_anchor(input, c, c->tsc);
		break;
	case PTAH_PACKET_TMA:
		if (!c->awaits_tma || !has_crystal(input) || packet->u.tma.fc > c->tsc)
			break;
		c->awaits_tma = false;
		c->aligned = true;
		c->base = c->tsc - packet->u.tma.fc;
		c->base_ctc = packet->u.tma.ctc;
		c->ticks = 0;
		break;
	case PTAH_PACKET_MTC:
		take_mtc(input, c, packet->u.mtc.ctc);
		break;
	case PTAH_PACKET_CYC:
		c->cycles += packet->u.cyc.cycles;
		break;
	case PTAH_PACKET_CBR:
		c->ratio = packet->u.cbr.ratio;
		if (!c->slowest || (c->ratio && c->ratio < c->slowest))
			c->slowest = c->ratio;
		break;
	case PTAH_PACKET_PAD:
		break;
	default:
		c->lows[c->others++ % LAG] = c->before;
		break;
	}
}

static void begin(struct twin_clock *c, uint64_t psb)
{
	memset(c, 0, sizeof(*c));
	c->psb = c->at = psb;
}

/* Skips what cannot be read: it is unknown how many ticks of the crystal passed. */
static bool pass_over(const struct twin_input *input, struct twin_clock *c)
{
	const size_t psb = twin_find_psb(input, c->at + 1);

	if (psb == SIZE_MAX)
		return false;
	c->at = psb;
	c->awaits_tma = false;
	return true;
}

bool twin_time_limits(const struct twin_input *input, uint64_t psb, uint64_t end,
		      struct twin_times *times)
{
	struct twin_clock *c = input->clock;
	struct ptah_packet packet;
	int size;

	if (psb < c->psb || end < c->at)
		begin(c, psb);
	while (c->at < end && c->at < input->size) {
		size = ptah_packet_decode(&packet, input->bytes + c->at,
					  (size_t)(input->size - c->at), c->block);
		if (size <= 0) {
			c->block = 0;
			if (!pass_over(input, c))
				break;
			continue;
		}
		take(input, c, &packet);
		c->block = ptah_packet_block_state(&packet, c->block);
		c->at += (unsigned)size;
	}
	/* A sync_set() may have started at an earlier place, where the TSC is less. */
	times->low = c->before;
	for (unsigned i = 0; i < LAG; i++)
		if (c->lows[i] < times->low)
			times->low = c->lows[i];
	times->high = latest(input, c);
	times->last = c->tsc;
	times->most = c->most;
	return c->known;
}
