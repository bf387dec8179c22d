/* SPDX-License-Identifier: MIT */
/* Reads and takes PSB+ without items (packet_group.h). */
#include "event/packet_group.h"

/* How many bytes can be read from `end` on: what every packet but a PSB fits into. */
#define LOOK 16

static bool is_time(unsigned type)
{
	return type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA || type == PTAH_PACKET_MTC ||
	       type == PTAH_PACKET_CYC;
}

/* Adds a packet to what is known of the PSB+. False: event_next() has to take the PSB+. */
static bool add_psb_packet(struct packet_psb *psb, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_FUP:
		psb->has_ip = packet->u.ip.ipc != PTAH_IPC_SUPPRESSED;
		if (psb->has_ip)
			psb->ip = packet_expand_ip(psb->ip, packet->u.ip.ipc, packet->u.ip.ip);
		return psb->has_ip;
	case PTAH_PACKET_MODE_EXEC:
		psb->has_mode = true;
		psb->mode = packet->u.exec.mode;
		psb->iflag = packet->u.exec.interrupts ? EVENT_IF_SET : EVENT_IF_CLEAR;
		return true;
	case PTAH_PACKET_MODE_TSX:
		psb->has_tsx = true;
		psb->in_tx = packet->u.tsx.in_tx;
		return true;
	case PTAH_PACKET_PIP:
		psb->has_cr3 = true;
		psb->cr3 = packet->u.pip.cr3;
		return true;
	case PTAH_PACKET_VMCS:
		psb->has_vmcs = true;
		psb->vmcs = packet->u.vmcs.base;
		return true;
	case PTAH_PACKET_CBR:
		psb->moves_clock |= psb->has_ratio;
		psb->has_ratio = true;
		psb->ratio = packet->u.cbr.ratio;
		return true;
	default:
		psb->moves_clock = true;
		return is_time(packet->type);
	}
}

bool packet_psb_read(const uint8_t *pos, const uint8_t *end, struct packet_psb *psb)
{
	if (pos > end || load_le64(pos) != PSB_WORD || load_le64(pos + 8) != PSB_WORD)
		return false;
	*psb = (struct packet_psb){.begin = pos};
	pos += SIZE_PSB;
	for (;;) {
		struct ptah_packet packet;
		int size;

		pos = packet_skip_pads(pos, end);
		if (pos > end)
			return false;
		size = ptah_packet_decode(&packet, pos, LOOK, PTAH_BLOCK_NONE);
		if (size <= 0)
			return false;
		pos += size;
		if (packet.type == PTAH_PACKET_PSBEND)
			break;
		if (!add_psb_packet(psb, &packet))
			return false;
	}
	psb->end = pos;
	return true;
}

void event_take_ratio(struct ptah_event_decoder *d, uint8_t ratio)
{
	event_time_cbr(&d->time, ratio);
	event_set_time(d);
	d->ratio = ratio;
}

/* Takes the packets of time and the CBRs of a PSB+ in their order. */
static void move_clock(struct ptah_event_decoder *d, const struct packet_psb *psb)
{
	const uint8_t *pos = psb->begin + SIZE_PSB;

	while (pos < psb->end) {
		struct ptah_packet packet;

		pos += ptah_packet_decode(&packet, pos, LOOK, PTAH_BLOCK_NONE);
		switch (packet.type) {
		case PTAH_PACKET_TSC:
			event_time_tsc(&d->time, packet.u.tsc.tsc);
			break;
		case PTAH_PACKET_TMA:
			event_time_tma(&d->time, packet.u.tma.ctc, packet.u.tma.fc);
			break;
		case PTAH_PACKET_MTC:
			event_time_mtc(&d->time, packet.u.mtc.ctc);
			break;
		case PTAH_PACKET_CYC:
			event_time_cyc(&d->time, packet.u.cyc.cycles);
			break;
		case PTAH_PACKET_CBR:
			event_time_cbr(&d->time, packet.u.cbr.ratio);
			break;
		default:
			continue;
		}
		event_set_time(d);
	}
}

bool event_take_psb(struct ptah_event_decoder *d, const struct packet_psb *psb, uint64_t limit)
{
	if (d->config.unchanged || (psb->has_tsx && psb->in_tx != d->in_tx))
		return false;
	if (psb->moves_clock) {
		const struct event_time before = d->time;
		const uint64_t tsc = d->tsc;
		const uint8_t tsc_error = d->tsc_error;

		/* With errata or `ticks` each of these packets is more than a step of the clock. */
		if (d->config.errata || d->config.ticks)
			return false;
		event_time_psb(&d->time);
		move_clock(d, psb);
		if (d->tsc >= limit) {
			d->time = before;
			d->tsc = tsc;
			d->tsc_error = tsc_error;
			return false;
		}
	} else {
		event_time_psb(&d->time);
		if (psb->has_ratio)
			event_take_ratio(d, psb->ratio);
	}
	if (psb->has_ratio)
		d->ratio = psb->ratio;
	if (psb->has_mode) {
		d->mode = psb->mode;
		d->mode_known = true;
		d->iflag = psb->iflag;
	}
	d->enabled_known = true;
	return true;
}

const uint8_t *packet_skip_time(const uint8_t *pos, const uint8_t *end)
{
	for (;;) {
		struct ptah_packet packet;
		int size;

		pos = packet_skip_pads(pos, end);
		if (pos > end)
			return pos;
		size = ptah_packet_decode(&packet, pos, LOOK, PTAH_BLOCK_NONE);
		if (size <= 0 || !is_time(packet.type))
			return pos;
		pos += size;
	}
}

bool packet_is_branch(const uint8_t *pos, const uint8_t *end)
{
	pos = packet_skip_time(pos, end);
	if (pos > end)
		return false;
	if (*pos == OPCODE_EXT)
		return pos[1] == EXT_TNT_64 && load_le64(pos) >> 17;
	return !(*pos & 1) || ((*pos & OPCODE_IP_MASK) == OPCODE_TIP && packet_has_ip(pos));
}
