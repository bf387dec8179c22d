/* SPDX-License-Identifier: MIT */
/*
 * Adds timing packets to a trace, as a processor with other settings would have
 * sent them: TSC and TMA in each PSB+, MTC as the crystal ticks, CYC before
 * branches. The branches stay the same. Freestanding.
 *
 * The caller passes the packets one by one to retime_packet(), and provides the
 * room that retime_room() asks for.
 */
#ifndef PTAH_MODEL_RETIME_H
#define PTAH_MODEL_RETIME_H

#include "model/clock.h"

struct ptah_retimer {
	struct ptah_clock clock; /* after clock_init() */
	struct ptah_generator g; /* for its `out` */
	uint64_t seed;		 /* not 0 */
	uint64_t cycles;	 /* core cycles before the next packet */
	bool in_header;		 /* between PSB and PSBEND */
	bool bound;		 /* the previous and the next packet belong to one event */
};

static inline uint64_t retime_random(struct ptah_retimer *t)
{
	t->seed ^= t->seed << 13;
	t->seed ^= t->seed >> 7;
	t->seed ^= t->seed << 17;
	return t->seed;
}

/*
 * Random core cycles since the previous packet: one to three for a conditional
 * branch and the code around it, more for an indirect one; sometimes the cycles
 * of a misprediction, rarely those of a cache miss.
 */
static inline uint64_t retime_cycles(struct ptah_retimer *t, const struct ptah_packet *packet)
{
	const uint64_t r = retime_random(t);
	uint64_t cycles;

	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		cycles = packet->u.tnt.count + r % (2 * packet->u.tnt.count + 1);
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		cycles = 2 + r % 8;
		break;
	case PTAH_PACKET_TIP_PGE: /* the system has run */
		return 500 + r % 4096;
	default:
		return 0;
	}
	cycles += r >> 16 & 15 ? 0 : 18;
	cycles += r >> 24 & 255 ? 0 : 40 + (r >> 32 & 255);
	return cycles;
}

/* SDM "Cycle Count (CYC) Packet": packets that a CYC may precede. */
static inline bool retime_is_cyc_eligible(unsigned type)
{
	switch (type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_MODE_TSX:
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
	case PTAH_PACKET_OVF:
	case PTAH_PACKET_PTW:
	case PTAH_PACKET_EXSTOP:
		return true;
	default:
		return false;
	}
}

static inline bool retime_is_about_time(unsigned type)
{
	return type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA || type == PTAH_PACKET_MTC ||
	       type == PTAH_PACKET_CYC || type == PTAH_PACKET_CBR;
}

/* Chooses the time before a packet; retime_packet() lets it pass. Returns how many bytes of room
 * are needed. */
static inline size_t retime_room(struct ptah_retimer *t, const struct ptah_packet *packet)
{
	t->cycles = t->in_header || t->bound ? 0 : retime_cycles(t, packet);
	return (size_t)(clock_mtcs_due(&t->clock, t->cycles) + 4) * CLOCK_BURST +
	       PTAH_PACKET_MAX_SIZE;
}

/* The state after a packet. SDM "Packet Definitions": the packets below belong to one that follows
 * them.
 */
static inline void retime_follow(struct ptah_retimer *t, unsigned type)
{
	t->in_header = type == PTAH_PACKET_PSB || (t->in_header && type != PTAH_PACKET_PSBEND);
	t->bound = !t->in_header && (type == PTAH_PACKET_FUP || type == PTAH_PACKET_MODE_EXEC ||
				     type == PTAH_PACKET_MODE_TSX || type == PTAH_PACKET_PIP ||
				     type == PTAH_PACKET_VMCS);
}

/* Writes the packet, and before it the timing packets that are due. Call retime_room() for the same
 * packet first. */
static inline void retime_packet(struct ptah_retimer *t, const struct ptah_packet *packet,
				 const uint8_t *bytes)
{
	if (retime_is_about_time(packet->type))
		return;
	if (t->cycles)
		clock_pass(&t->clock, &t->g, t->cycles);
	if (!t->in_header && retime_is_cyc_eligible(packet->type))
		clock_packet(&t->clock, &t->g);
	memcpy(t->g.out, bytes, packet->size);
	t->g.out += packet->size;
	if (packet->type == PTAH_PACKET_PSB) {
		clock_tell(&t->clock, &t->g);
		generator_cbr(&t->g, t->clock.ratio);
	}
	retime_follow(t, packet->type);
}

#endif
