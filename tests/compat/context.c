/* SPDX-License-Identifier: MIT */
/*
 * Finds where the packets of a trace contradict what the SDM says about their order: from the
 * packets alone, not from either library's events. SDM "Packet Definitions" (what each depends on)
 * and "Compound Packet Event Summary".
 */
#include "twin.h"

#include <ptah/packet.h>

/* Decodes as the libraries do: by erratum SKD007 an OVF stands in place of a CYC's second byte. */
static int decode(const struct twin_input *input, uint64_t at, unsigned block,
		  struct ptah_packet *packet)
{
	const uint8_t *p = input->bytes + at;
	int size = ptah_packet_decode(packet, p, (size_t)(input->size - at), block);

	if (size == 2 && packet->type == PTAH_PACKET_CYC && input->config.errata.skd007 &&
	    input->size - at >= 3 && p[1] == 0x02 && p[2] == 0xf3) {
		packet->type = PTAH_PACKET_PAD;
		packet->size = 1;
		return 1;
	}
	return size;
}

struct order {
	enum {
		IN_HEADER,
		IN_OVERFLOW,
		ON,
		OFF
	} phase;
	bool has_ip;	      /* the PSB+ has a FUP */
	bool fup;	      /* a FUP whose TIP has not come yet */
	bool bound;	      /* a packet whose FUP has not come yet */
	bool abort;	      /* that packet ends a transaction: its FUP has a TIP */
	bool pip;	      /* the PIP of this FUP's branch has come */
	bool vmcs;	      /* so has its VMCS */
	bool mode;	      /* a MODE.Exec whose TIP has not come yet */
	bool early;	      /* which came before the FUP */
	bool mwait;	      /* an MWAIT whose EXSTOP has not come yet */
	bool stop;	      /* that EXSTOP has come, its FUP has not */
	bool shared;	      /* packets that are unrelated wait for one FUP */
	bool cfe;	      /* a CFE whose FUP is that of a branch */
	bool data;	      /* an EVD whose CFE has not come yet */
	bool entry;	      /* a PWRE whose PWRX has not come yet */
	uint64_t time;	      /* of the last TSC */
	bool tsc;	      /* there was a TSC */
	bool lost;	      /* no FUP has come after an OVF */
	bool doubt;	      /* a FUP has, and nothing else yet */
	bool was_on, was_off; /* the last PSB+ had a FUP, or it had none */
	bool tx;	      /* in a transaction */
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

/* Each of these functions returns false if the packet must not come there. */
static bool take_in_header(struct order *o, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_FUP: /* at most one */
		o->has_ip = has_ip(packet);
		o->fup = !o->fup;
		return o->fup;
	case PTAH_PACKET_PSBEND: {
		const bool right = !(o->has_ip ? o->was_off : o->was_on);

		*o = (struct order){
		    .phase = o->has_ip ? ON : OFF, .tsc = o->tsc, .time = o->time, .tx = o->tx};
		return right;
	}
	case PTAH_PACKET_MODE_TSX: {
		/* A PSB+ repeats the state; a change of it has a packet of its own. */
		const bool same = (!o->was_on && !o->was_off) || o->tx == packet->u.tsx.in_tx;

		o->tx = packet->u.tsx.in_tx;
		return same;
	}
	case PTAH_PACKET_MODE_EXEC:
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
	o->early = o->mode = o->mode && o->abort;
	o->bound = o->abort = o->mwait = o->stop = o->shared = o->cfe = false;
	return true;
}

static bool take_branch(struct order *o, const struct ptah_packet *packet)
{
	const bool pge = packet->type == PTAH_PACKET_TIP_PGE;
	const bool wrong = o->bound || o->mwait || o->cfe || o->data ||
			   (pge ? o->phase == ON || o->fup : o->phase != ON);

	if (wrong || (packet->type != PTAH_PACKET_TIP_PGD && !has_ip(packet)))
		return false;
	o->phase = packet->type == PTAH_PACKET_TIP_PGD ? OFF : ON;
	o->fup = o->mode = o->pip = o->vmcs = false;
	return true;
}

/* Whether the event of this CFE has a FUP and a TIP. */
static bool has_branch(const struct ptah_packet *packet)
{
	switch (packet->u.cfe.type) {
	case PTAH_CFE_INTR:
	case PTAH_CFE_SMI:
	case PTAH_CFE_RSM:
	case PTAH_CFE_SIPI:
	case PTAH_CFE_INIT:
	case PTAH_CFE_VMEXIT:
	case PTAH_CFE_VMEXIT_INTR:
	case PTAH_CFE_UINTR:
	case PTAH_CFE_SWINTR:
		return true;
	default:
		return false;
	}
}

/* Packets that a FUP or EXSTOP follows, and those that may come at any time. */
static bool take_event(struct order *o, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_MODE_EXEC: {
		/* "Always immediately precedes" its branch: that is not true of two of them. */
		const bool alone = !o->mode;

		o->mode = true;
		return alone;
	}
	case PTAH_PACKET_MODE_TSX:
		o->tx = packet->u.tsx.in_tx;
		o->abort = o->phase == ON && packet->u.tsx.aborted;
		o->shared = o->shared || (o->bound && o->phase == ON);
		o->bound = o->bound || o->phase == ON;
		return true;
	case PTAH_PACKET_PIP: { /* one for each branch */
		const bool first = !o->fup || !o->pip;

		o->pip = o->fup;
		return first;
	}
	case PTAH_PACKET_VMCS: {
		const bool first = !o->fup || !o->vmcs;

		o->vmcs = o->fup;
		return first;
	}
	case PTAH_PACKET_PTW:
		o->shared = o->shared || (o->bound && packet->u.ptw.ip);
		o->bound = o->bound || packet->u.ptw.ip;
		return true;
	case PTAH_PACKET_EXSTOP:
		o->shared = o->shared || (o->bound && packet->u.exstop.ip);
		o->bound = o->bound || packet->u.exstop.ip;
		o->mwait = o->stop = o->mwait && packet->u.exstop.ip;
		return true;
	case PTAH_PACKET_CFE:
		o->bound = o->bound || packet->u.cfe.ip;
		o->cfe = !packet->u.cfe.ip && o->phase == ON && has_branch(packet);
		o->data = false;
		return true;
	case PTAH_PACKET_EVD:
		o->data = true;
		return true;
	case PTAH_PACKET_STOP:
		return !o->cfe && !o->data;
	case PTAH_PACKET_PWRE:
	case PTAH_PACKET_PWRX:
		o->entry = packet->type == PTAH_PACKET_PWRE;
		return true;
	case PTAH_PACKET_TRIG:
		o->bound = o->bound || packet->u.trig.ip;
		return true;
	case PTAH_PACKET_MWAIT:
		o->mwait = true;
		return !o->cfe && !o->data;
	default:
		return packet->type != PTAH_PACKET_PSBEND;
	}
}

static bool take(struct order *o, const struct ptah_packet *packet)
{
	const bool has_tsc = o->tsc || packet->type == PTAH_PACKET_TSC;
	const bool tsc = o->tsc = has_tsc && packet->type != PTAH_PACKET_TMA;

	if (packet->type == PTAH_PACKET_TSC)
		o->time = packet->u.tsc.tsc;
	/* "Always sent immediately following a TSC packet": at most one. */
	if (packet->type == PTAH_PACKET_TMA && !has_tsc)
		return false;
	if (packet->type == PTAH_PACKET_PSB) {
		const bool whole = o->phase != IN_HEADER && !o->fup && !o->bound && !o->cfe &&
				   !o->data && !o->mode;

		*o = (struct order){.phase = IN_HEADER,
				    .tsc = tsc,
				    .time = o->time,
				    .was_on = o->phase == ON,
				    .was_off = o->phase == OFF,
				    .tx = o->tx};
		return whole;
	}
	if (packet->type == PTAH_PACKET_OVF) {
		*o = (struct order){
		    .phase = IN_OVERFLOW, .tsc = tsc, .time = o->time, .lost = true, .tx = o->tx};
		return true;
	}
	if (o->phase == IN_HEADER)
		return take_in_header(o, packet);
	if (o->phase == IN_OVERFLOW && packet->type == PTAH_PACKET_FUP) {
		*o = (struct order){
		    .phase = ON, .tsc = tsc, .time = o->time, .doubt = true, .tx = o->tx};
		return has_ip(packet);
	}
	o->doubt = o->doubt && is_time(packet->type);
	/* Tracing is off, if the packet belongs to no branch. */
	if (o->phase == IN_OVERFLOW && !is_time(packet->type) &&
	    packet->type != PTAH_PACKET_MODE_EXEC)
		o->phase = OFF;
	switch (packet->type) {
	case PTAH_PACKET_FUP:
		return take_fup(o, packet);
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
		return take_branch(o, packet);
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		return o->phase == ON && !o->fup && !o->bound && !o->mwait && !o->mode && !o->cfe &&
		       !o->data;
	default:
		return take_event(o, packet);
	}
}

/* Whether the packet's address depends on the one before. */
static bool is_compressed(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_FUP:
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
		return packet->u.ip.ipc == PTAH_IPC_UPDATE_16 ||
		       packet->u.ip.ipc == PTAH_IPC_UPDATE_32 ||
		       packet->u.ip.ipc == PTAH_IPC_UPDATE_48;
	default:
		return false;
	}
}

static bool waits_together(const struct order *o, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_FUP:
		return o->mwait && !o->bound;
	case PTAH_PACKET_MODE_TSX:
	case PTAH_PACKET_CFE:
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_MWAIT:
	case PTAH_PACKET_PTW:
		return o->bound || o->cfe || o->mwait;
	case PTAH_PACKET_VMCS:
	case PTAH_PACKET_STOP:
		return o->bound || o->fup;
	case PTAH_PACKET_EXSTOP:
	case PTAH_PACKET_TRIG:
		return o->bound || o->cfe;
	default:
		return false;
	}
}

/* Called before the packet is taken. */
static unsigned facts_of(const struct order *o, const struct ptah_packet *packet)
{
	const bool waits = o->bound || o->mwait || o->cfe;

	if (o->doubt && (!is_time(packet->type) || packet->type == PTAH_PACKET_CBR ||
			 packet->type == PTAH_PACKET_MNT))
		return TWIN_DOUBT;
	if (o->lost && is_compressed(packet))
		return TWIN_OVERFLOW_IP;
	if (o->shared)
		return TWIN_SHARED_FUP;
	switch (packet->type) {
	case PTAH_PACKET_FUP:
		return (o->mode ? o->abort ? TWIN_ABORT_MODE : TWIN_MODE_FUP : 0) |
		       (o->mwait && !o->stop ? TWIN_LOST_ADDRESS : 0);
	case PTAH_PACKET_MODE_EXEC:
		return (o->phase == IN_OVERFLOW ? TWIN_OVERFLOW_MODE : 0) |
		       (o->mode ? TWIN_MODE_TWICE : 0);
	case PTAH_PACKET_TSC:
		return packet->u.tsc.tsc < o->time ? TWIN_TIME_BACK : 0;
	case PTAH_PACKET_MNT:
		return o->phase == IN_OVERFLOW || waits ? TWIN_OVERFLOW_MNT : 0;
	case PTAH_PACKET_OVF:
		return (waits ? TWIN_LOST_ADDRESS : 0) | (o->mode ? TWIN_LOST_MODE : 0) |
		       (o->entry ? TWIN_ENTRY_ALONE : 0);
	case PTAH_PACKET_PSB:
		return (o->phase == IN_OVERFLOW ? TWIN_OVERFLOW_PSB : 0) |
		       (o->entry ? TWIN_ENTRY_ALONE : 0);
	case PTAH_PACKET_TIP_PGD:
		return o->mode && (!o->fup || o->early) ? TWIN_MODE_PGD : 0;
	case PTAH_PACKET_EXSTOP:
		return o->mwait && !packet->u.exstop.ip ? TWIN_LOST_ADDRESS : 0;
	case PTAH_PACKET_PWRE:
		return o->entry ? TWIN_ENTRY_ALONE : 0;
	case PTAH_PACKET_EVD:
		return packet->u.evd.type & 0x20 ? TWIN_EVD_WIDE : 0;
	default:
		return 0;
	}
}

unsigned twin_facts(const struct twin_input *input, uint64_t psb, uint64_t end)
{
	struct order o = {.phase = IN_HEADER};
	struct ptah_packet packet;
	unsigned block = 0, facts = 0;
	uint64_t at;

	for (at = psb; at < input->size && at <= end; at += packet.size) {
		if (decode(input, at, block, &packet) <= 0)
			break;
		facts |= facts_of(&o, &packet);
		facts |= waits_together(&o, &packet) ? TWIN_WAIT_TOGETHER : 0;
		if (packet.type == PTAH_PACKET_TMA &&
		    (input->bytes[at + 4] || input->bytes[at + 6] & 0xfe))
			facts |= TWIN_TMA_RESERVED;
		if (packet.type == PTAH_PACKET_CBR && !packet.u.cbr.ratio)
			facts |= TWIN_CBR_ZERO;
		(void)(at == psb || take(&o, &packet));
		block = ptah_packet_block_state(&packet, block);
	}
	if (at == input->size && (o.bound || o.mwait || o.cfe))
		facts |= TWIN_LOST_ADDRESS;
	if (at == input->size && o.entry)
		facts |= TWIN_ENTRY_ALONE;
	return facts;
}

bool twin_is_lost_in_tx(const struct twin_input *input, uint64_t psb, uint64_t end)
{
	struct ptah_packet packet;
	unsigned block = 0;
	bool tx = false;
	unsigned lost = 0;

	for (uint64_t at = psb; at < input->size && at < end; at += packet.size) {
		if (decode(input, at, block, &packet) <= 0)
			break;
		if (packet.type == PTAH_PACKET_OVF)
			lost = tx ? 2 : 0;
		if (packet.type == PTAH_PACKET_MODE_TSX) {
			tx = packet.u.tsx.in_tx;
			lost -= lost != 0; /* the OVF may have been read ahead */
		}
		block = ptah_packet_block_state(&packet, block);
	}
	return lost != 0;
}

static bool is_begun(const struct order *o)
{
	return o->fup || o->bound || o->mwait || o->mode;
}

uint64_t twin_contradiction(const struct twin_input *input, uint64_t psb)
{
	struct order o = {.phase = IN_HEADER};
	struct ptah_packet packet;
	uint64_t at = psb,
		 begun = UINT64_MAX; /* `begun`: the start of something that needs more packets */
	unsigned block = 0;

	while (at < input->size) {
		const bool was_begun = is_begun(&o);
		const int size = decode(input, at, block, &packet);

		if (size <= 0 || (at != psb && !take(&o, &packet)))
			return was_begun ? begun : at;
		if (!was_begun)
			begun = at;
		block = ptah_packet_block_state(&packet, block);
		at += (unsigned)size;
	}
	if (o.phase == IN_HEADER)
		return at;
	return is_begun(&o) ? begun : UINT64_MAX;
}

uint64_t twin_header_end(const struct twin_input *input, uint64_t psb)
{
	struct order o = {.phase = IN_HEADER};
	struct ptah_packet packet;
	uint64_t at = psb;

	while (at < input->size && o.phase == IN_HEADER) {
		const int size = decode(input, at, 0, &packet);

		if (size <= 0 || (at != psb && !take(&o, &packet)))
			return at;
		at += (unsigned)size;
	}
	return at;
}
