/* SPDX-License-Identifier: MIT */
/*
 * Where the packets of a trace contradict what the SDM says of their order:
 * found from the packets alone, by no library's events. SDM "Packet
 * Definitions" (what each depends on) and "Compound Packet Event Summary".
 */
#include "twin.h"

#include <ptah/packet.h>

struct order {
	enum {
		IN_HEADER,
		IN_OVERFLOW,
		ON,
		OFF
	} phase;
	bool has_ip; /* of the header */
	bool fup;    /* whose TIP is to come */
	bool bound;  /* a packet whose FUP is to come */
	bool abort;  /* it is a transaction's end: its FUP has a TIP */
	bool mode;   /* MODE.Exec: its TIP is to come */
	bool mwait;  /* its EXSTOP is to come */
};

static bool has_ip(const struct ptah_packet *packet)
{
	return packet->u.ip.ipc != 0;
}

static bool is_time(unsigned type)
{
	return type == PTAH_PACKET_PAD || type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA ||
	       type == PTAH_PACKET_MTC || type == PTAH_PACKET_CYC || type == PTAH_PACKET_CBR ||
	       type == PTAH_PACKET_MNT;
}

/* Each of these false: the packet may not stand there. */
static bool take_in_header(struct order *o, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_FUP:
		o->has_ip = has_ip(packet);
		return true;
	case PTAH_PACKET_PSBEND:
		*o = (struct order){.phase = o->has_ip ? ON : OFF};
		return true;
	case PTAH_PACKET_OVF:
		*o = (struct order){.phase = IN_OVERFLOW};
		return true;
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_MODE_TSX:
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
		return true;
	default:
		return is_time(packet->type);
	}
}

static bool take_fup(struct order *o, const struct ptah_packet *packet)
{
	const bool alone = !o->bound && !o->mode;

	if (!has_ip(packet) || o->fup || (alone && o->phase == OFF))
		return false;
	o->fup = o->abort || alone;
	o->mode = o->mode && o->abort;
	o->bound = o->abort = o->mwait = false;
	return true;
}

static bool take_branch(struct order *o, const struct ptah_packet *packet)
{
	const bool pge = packet->type == PTAH_PACKET_TIP_PGE;
	const bool wrong =
	    o->bound || o->mwait || (pge ? o->phase == ON || o->fup : o->phase != ON);

	if (wrong || (packet->type != PTAH_PACKET_TIP_PGD && !has_ip(packet)))
		return false;
	o->phase = packet->type == PTAH_PACKET_TIP_PGD ? OFF : ON;
	o->fup = o->mode = false;
	return true;
}

/* Packets that a FUP or EXSTOP follows; and those that may come at any time. */
static bool take_event(struct order *o, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_MODE_EXEC:
		o->mode = true;
		return true;
	case PTAH_PACKET_MODE_TSX:
		o->bound = o->bound || o->phase == ON;
		o->abort = o->phase == ON && packet->u.tsx.aborted;
		return true;
	case PTAH_PACKET_PTW:
		o->bound = o->bound || packet->u.ptw.ip;
		return true;
	case PTAH_PACKET_EXSTOP:
		o->bound = o->bound || packet->u.exstop.ip;
		o->mwait = o->mwait && packet->u.exstop.ip;
		return true;
	case PTAH_PACKET_CFE:
		o->bound = o->bound || packet->u.cfe.ip;
		return true;
	case PTAH_PACKET_MWAIT:
		o->mwait = true;
		return true;
	default:
		return packet->type != PTAH_PACKET_PSBEND;
	}
}

static bool take(struct order *o, const struct ptah_packet *packet)
{
	if (packet->type == PTAH_PACKET_PSB) {
		const bool whole = o->phase != IN_HEADER && !o->fup && !o->bound;

		*o = (struct order){.phase = IN_HEADER};
		return whole;
	}
	if (o->phase == IN_HEADER)
		return take_in_header(o, packet);
	if (o->phase == IN_OVERFLOW && packet->type == PTAH_PACKET_FUP) {
		*o = (struct order){.phase = ON};
		return has_ip(packet);
	}
	if (packet->type == PTAH_PACKET_OVF) {
		*o = (struct order){.phase = IN_OVERFLOW};
		return true;
	}
	switch (packet->type) {
	case PTAH_PACKET_FUP:
		return take_fup(o, packet);
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
		return take_branch(o, packet);
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		return o->phase == ON && !o->fup && !o->bound && !o->mwait;
	default:
		return take_event(o, packet);
	}
}

uint64_t twin_contradiction(const struct twin_input *input, uint64_t psb)
{
	struct order o = {.phase = IN_HEADER};
	struct ptah_packet packet;
	uint64_t at = psb;
	unsigned block = 0;

	while (at < input->size) {
		int size = ptah_packet_decode(&packet, input->bytes + at,
					      (size_t)(input->size - at), block);

		if (size <= 0 || (at != psb && !take(&o, &packet)))
			return at;
		block = ptah_packet_block_state(&packet, block);
		at += (unsigned)size;
	}
	/* What is begun does not end. */
	return o.phase == IN_HEADER || o.fup || o.bound || o.mwait || o.mode ? at : UINT64_MAX;
}

uint64_t twin_header_end(const struct twin_input *input, uint64_t psb)
{
	struct order o = {.phase = IN_HEADER};
	struct ptah_packet packet;
	uint64_t at = psb;

	while (at < input->size && o.phase == IN_HEADER) {
		int size =
		    ptah_packet_decode(&packet, input->bytes + at, (size_t)(input->size - at), 0);

		if (size <= 0 || (at != psb && !take(&o, &packet)))
			return at;
		at += (unsigned)size;
	}
	return at;
}
