/* SPDX-License-Identifier: MIT */
/*
 * Reads packets that belong together straight from the bytes, and brings the event decoder into the
 * state that they leave it in, without items. The loops over packets (flow/packet_loop.h) use this
 * for what comes in nearly every trace of a real processor: tracing switched off and on, interrupts
 * and PSB+. What is not read here, or not taken, is left to event_next(), which says the same.
 */
#ifndef PTAH_EVENT_PACKET_GROUP_H
#define PTAH_EVENT_PACKET_GROUP_H

#include "event/event.h"
#include "packet/ip.h"
#include "packet/opcode.h"

enum packet_group_kind {
	PACKET_GROUP_NONE = 0,
	PACKET_GROUP_PGD,     /* TIP.PGD */
	PACKET_GROUP_FUP_PGD, /* FUP, TIP.PGD */
	PACKET_GROUP_FUP_TIP, /* FUP, TIP */
	PACKET_GROUP_PSB,     /* PSB+; see struct packet_psb */
};

struct packet_group {
	unsigned kind; /* enum packet_group_kind */
	bool has_to;
	uint64_t ip;	    /* of the FUP, or 0 */
	uint64_t to;	    /* of the TIP or TIP.PGD, or 0 */
	uint64_t last_ip;   /* what the next address is compressed against */
	const uint8_t *end; /* the position after the packets */
};

/* The first position from `pos` on that is no PAD; it may be beyond `end`. */
static ALWAYS_INLINE const uint8_t *packet_skip_pads(const uint8_t *pos, const uint8_t *end)
{
	while (pos <= end) {
		const uint64_t word = load_le64(pos);

		if (word)
			return pos + __builtin_ctzll(word) / 8;
		pos += 8;
	}
	return pos;
}

/* Whether the TIP or FUP at `pos` has an address, compressed in a way that the SDM defines. */
static inline bool packet_has_ip(const uint8_t *pos)
{
	const unsigned bytes = packet_ip_bytes[*pos >> 5];

	return bytes && bytes <= 8;
}

/*
 * Reads a TIP.PGD, or a FUP with the TIP.PGD or TIP after it, at `pos`. Packets may begin up to
 * `end`, after which LOOP_LOOK bytes can be read. False: the packets at `pos` are others or may be
 * incomplete.
 */
static ALWAYS_INLINE bool packet_group_read(const uint8_t *pos, const uint8_t *end,
					    uint64_t last_ip, struct packet_group *g)
{
	unsigned size;

	g->last_ip = last_ip;
	g->ip = 0;
	g->kind = PACKET_GROUP_PGD;
	if ((*pos & OPCODE_IP_MASK) == OPCODE_FUP) {
		size = packet_take_ip(pos, &g->last_ip);
		if (!size)
			return false;
		g->ip = g->last_ip;
		pos = packet_skip_pads(pos + size, end);
		if (pos > end)
			return false;
		g->kind = PACKET_GROUP_FUP_PGD;
		if ((*pos & OPCODE_IP_MASK) == OPCODE_TIP)
			g->kind = PACKET_GROUP_FUP_TIP;
	}
	if (g->kind != PACKET_GROUP_FUP_TIP && (*pos & OPCODE_IP_MASK) != OPCODE_TIP_PGD)
		return false;
	size = packet_take_ip(pos, &g->last_ip);
	g->has_to = size;
	g->to = size ? g->last_ip : 0;
	if (!size) {
		if (g->kind == PACKET_GROUP_FUP_TIP || *pos >> 5 != PTAH_IPC_SUPPRESSED)
			return false;
		size = 1;
	}
	g->end = pos + size;
	return true;
}

/* What a PSB+ says. A packet that comes twice is here as it came last, as the decoder takes it. */
struct packet_psb {
	const uint8_t *begin, *end; /* from the PSB to after the PSBEND */
	uint64_t ip, cr3, vmcs;
	bool has_ip, has_mode, has_tsx, in_tx, has_cr3, has_vmcs, has_ratio;
	bool moves_clock; /* packets of time, or several CBRs: their order matters */
	uint8_t mode, iflag, ratio;
};

/* Reads the PSB+ at `pos`, with `end` as above. False: it is none, unusual or incomplete. */
bool packet_psb_read(const uint8_t *pos, const uint8_t *end, struct packet_psb *psb);

/*
 * Takes a PSB+ that has been read: time, ratio, mode and interrupt flag, and the offset of the PSB.
 * To be called while nothing is pending; last_ip, and whether tracing is on, are the caller's.
 * False: nothing has changed, and event_next() has to take it, because it would report more of it
 * than the PSB+ itself, or because the time would reach `limit`.
 */
bool event_take_psb(struct ptah_event_decoder *d, const struct packet_psb *psb, uint64_t limit);

/* Takes a CBR. Whether the ratio has changed shows in items only. */
void event_take_ratio(struct ptah_event_decoder *d, uint8_t ratio);

/* The first position from `pos` on that has neither a PAD nor a packet of time. */
const uint8_t *packet_skip_time(const uint8_t *pos, const uint8_t *end);

/* Whether the next packet after PADs and packets of time is a TNT, or a TIP with an address. */
bool packet_is_branch(const uint8_t *pos, const uint8_t *end);

#endif
