/* SPDX-License-Identifier: MIT */
/* What each packet means: turns packets into items, by the decoder's phase. SDM "Packet
 * Definitions".
 */
#include "event/event.h"

static void take_tnt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item *item;

	if (!d->enabled || d->has_fup) {
		event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	item = event_push(d, PTAH_ITEM_TNT, offset);
	item->count = packet->u.tnt.count;
	item->bits = packet->u.tnt.bits;
}

static void take_tip(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item *item;
	uint64_t ip;
	bool has_ip = event_take_ip(d, packet, &ip);

	if (!d->enabled) {
		event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	if (!has_ip) {
		event_fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	if (d->has_fup) {
		item = event_push(d, PTAH_ITEM_ASYNC_BRANCH, d->fup_offset);
		item->ip = d->fup_ip;
		item->packet_tsc = d->config.unchanged ? d->fup_tsc : 0;
		d->has_fup = false;
	} else {
		item = event_push(d, PTAH_ITEM_TIP, offset);
	}
	item->to = ip;
	event_release_changes(d, true, ip);
}

static void take_pge(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	uint64_t ip;

	if (!event_take_ip(d, packet, &ip)) {
		event_fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	if ((d->enabled && d->enabled_known) || d->has_fup) {
		/* The address of a TIP.PGE is certain all the same: continue there. */
		event_push_error(d, PTAH_E_BAD_CONTEXT, offset);
		d->has_fup = false;
	}
	d->enabled = d->enabled_known = true;
	event_push(d, PTAH_ITEM_ENABLED, offset)->ip = ip;
	event_release_changes(d, true, ip);
}

static void take_pgd(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item *item;
	uint64_t ip;
	bool has_ip = event_take_ip(d, packet, &ip);

	if (!d->enabled) {
		event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	if (d->has_fup) {
		item = event_push(d, PTAH_ITEM_ASYNC_DISABLED, d->fup_offset);
		item->ip = d->fup_ip;
		item->packet_tsc = d->config.unchanged ? d->fup_tsc : 0;
		d->has_fup = false;
	} else {
		item = event_push(d, PTAH_ITEM_DISABLED, offset);
	}
	item->flags |= has_ip ? 0 : PTAH_ITEM_IP_SUPPRESSED;
	item->to = ip;
	d->enabled = false;
	event_release_changes(d, false, 0);
}

/* Whether a transaction's abort is on the list. An abort is a FUP and a TIP. */
static bool has_abort(const struct event_waiting *list)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->items[i].type == PTAH_ITEM_TSX &&
		    list->items[i].flags & PTAH_ITEM_ABORTED)
			return true;
	return false;
}

static void take_fup(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	/* SDM "MODE.Exec Packet": a MODE.Exec for a change of RFLAGS.IF has a FUP and no branch;
	 * one for a branch comes after the FUP of that branch. SDM "MODE.TSX Packet": the FUP after
	 * an abort belongs to the abort, and a MODE.Exec to the TIP that follows. */
	bool abort = has_abort(&d->bound), mode = d->has_mode && !d->has_fup && !abort;
	bool bound = d->bound.count || mode, branch = !bound || abort;
	uint64_t ip;

	if (!event_take_ip(d, packet, &ip)) {
		event_fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	/* Events have FUPs even while no branches are traced. */
	if ((!bound && !d->enabled) || d->has_fup) {
		event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	event_deliver(d, &d->bound, true, ip);
	if (mode)
		event_release_changes(d, true, ip);
	if (!branch)
		return;
	event_deliver(d, &d->follow, true, ip);
	d->has_fup = true;
	d->fup_ip = ip;
	d->fup_offset = offset;
	d->fup_tsc = d->tsc;
}

static void take_tsx(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	const struct ptah_item item = {
	    .type = PTAH_ITEM_TSX,
	    .flags = (uint8_t)((packet->u.tsx.in_tx ? PTAH_ITEM_SPECULATIVE : 0) |
			       (packet->u.tsx.aborted ? PTAH_ITEM_ABORTED : 0)),
	    .offset = offset};

	if (d->enabled)
		event_wait(d, &d->bound, &item);
	else
		event_push_pending(d, &item, false, 0);
	d->in_tx = packet->u.tsx.in_tx;
}

/* State that a branch changes comes before it; a MOV CR3 or VMPTRLD has no branch. */
void event_take_paging(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset, bool wait)
{
	d->paging =
	    (struct ptah_item){.type = d->has_fup ? PTAH_ITEM_ASYNC_PAGING : PTAH_ITEM_PAGING,
			       .flags = packet->u.pip.non_root ? PTAH_ITEM_NON_ROOT : 0,
			       .cr3 = packet->u.pip.cr3,
			       .offset = offset};
	d->has_paging = wait;
	if (!wait)
		event_push_pending(d, &d->paging, false, 0);
}

void event_take_vmcs(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset, bool wait)
{
	d->vmcs = (struct ptah_item){.type = d->has_fup ? PTAH_ITEM_ASYNC_VMCS : PTAH_ITEM_VMCS,
				     .vmcs = packet->u.vmcs.base,
				     .offset = offset};
	d->has_vmcs = wait;
	if (!wait)
		event_push_pending(d, &d->vmcs, false, 0);
}

void event_take_mode(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	d->pending_mode = (struct ptah_item){.type = PTAH_ITEM_EXEC_MODE,
					     .mode = packet->u.exec.mode,
					     .interrupts = packet->u.exec.interrupts,
					     .offset = offset};
	d->has_mode = true;
	if (d->config.unchanged && d->phase == EVENT_HEADER)
		event_keep_state(d, &d->pending_mode);
}

void event_set_time(struct ptah_event_decoder *d)
{
	uint64_t error = event_time_bound(&d->time);
	unsigned bits = 0;

	d->tsc = d->time.now;
	if (error == EVENT_TIME_UNKNOWN)
		bits = PTAH_TSC_UNBOUNDED;
	else if (error) /* 2^bits is the first power above it */
		bits = 64 - (unsigned)__builtin_clzll(error);
	d->tsc_error = (uint8_t)bits;
}

/* Reports a packet that may also be part of a PSB+. */
static void push_anywhere(struct ptah_event_decoder *d, unsigned type, uint64_t value,
			  uint64_t offset)
{
	const struct ptah_item item = {.type = (uint8_t)type, .value = value, .offset = offset};

	if (d->config.unchanged && d->phase == EVENT_HEADER)
		event_keep_state(d, &item);
	else
		event_push(d, type, offset)->value = value;
}

/* The time does not move, but cycles are longer or shorter from now on. */
static void take_cbr(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	const bool changed = packet->u.cbr.ratio != d->ratio;

	event_time_cbr(&d->time, packet->u.cbr.ratio);
	event_set_time(d);
	d->ratio = packet->u.cbr.ratio;
	if (changed || d->config.unchanged)
		push_anywhere(d, PTAH_ITEM_CBR, d->ratio, offset);
}

static void take_time(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset)
{
	struct ptah_item *item;

	switch (packet->type) {
	case PTAH_PACKET_TSC:
		event_time_tsc(&d->time, packet->u.tsc.tsc);
		break;
	case PTAH_PACKET_TMA:
		event_time_tma(&d->time, packet->u.tma.ctc, packet->u.tma.fc);
		break;
	case PTAH_PACKET_MTC:
		event_time_mtc(&d->time, packet->u.mtc.ctc);
		break;
	default:
		event_time_cyc(&d->time, packet->u.cyc.cycles);
		break;
	}
	event_set_time(d);
	if (!d->config.ticks || d->phase != EVENT_RUN)
		return;
	item = event_push(d, PTAH_ITEM_TICK, offset);
	item->flags |= PTAH_ITEM_IP_SUPPRESSED;
	item->cycles = d->time.total_cycles;
}

/* Takes a packet that means the same in every phase. True when it is one. */
static bool take_anywhere(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			  uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_PAD:
		return true;
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
		take_time(d, packet, offset);
		return true;
	case PTAH_PACKET_CBR:
		take_cbr(d, packet, offset);
		return true;
	case PTAH_PACKET_MNT:
		push_anywhere(d, PTAH_ITEM_MNT, packet->u.mnt.payload, offset);
		return true;
	case PTAH_PACKET_PSB:
		event_begin_header(d, offset);
		return true;
	case PTAH_PACKET_MODE_EXEC:
		event_take_mode(d, packet, offset);
		return true;
	default:
		return false;
	}
}

/*
 * Called before each packet while something is pending. Some packets show that what is
 * pending stays incomplete: an MWAIT gets no EXSTOP, and an event that came with a branch
 * gets no address because the branch has no FUP. Where a FUP is missing that has to come,
 * the packet is an error, and the answer false.
 */
static bool complete(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_STOP:
	case PTAH_PACKET_MWAIT:
	case PTAH_PACKET_PSBEND:
		break;
	default: /* may come between an event and its FUP, or begins another */
		return true;
	}
	if (d->bound.count || d->data.type) {
		event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		return false;
	}
	if (!d->has_fup) {
		if (d->has_mwait)
			event_push_pending(d, &d->mwait, false, 0);
		d->has_mwait = false;
		event_deliver(d, &d->follow, false, 0);
	}
	return true;
}

void event_take_in_run(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset)
{
	if (event_is_pending(d) && !complete(d, packet, offset))
		return;
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		take_tnt(d, packet, offset);
		break;
	case PTAH_PACKET_TIP:
		take_tip(d, packet, offset);
		break;
	case PTAH_PACKET_TIP_PGE:
		take_pge(d, packet, offset);
		break;
	case PTAH_PACKET_TIP_PGD:
		take_pgd(d, packet, offset);
		break;
	case PTAH_PACKET_FUP:
		take_fup(d, packet, offset);
		break;
	case PTAH_PACKET_OVF:
		event_take_overflow(d, offset);
		break;
	case PTAH_PACKET_MODE_TSX:
		take_tsx(d, packet, offset);
		break;
	case PTAH_PACKET_PIP:
		event_take_paging(d, packet, offset, d->has_fup);
		break;
	case PTAH_PACKET_VMCS:
		event_take_vmcs(d, packet, offset, d->has_fup);
		break;
	case PTAH_PACKET_STOP:
		event_push(d, PTAH_ITEM_STOP, offset);
		break;
	default:
		if (!event_take_extra(d, packet, offset)) /* PSBEND without PSB */
			event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	}
}

/*
 * After event_restart(). Tracing is off until a TIP.PGE with a MODE.Exec before it. Nothing is
 * known of the IPs in the trace that was lost, against which addresses may be compressed: a TIP.PGE
 * with such an address is left out, and so is a packet that can only follow a TIP.PGE, and what
 * follows them up to the next PSB.
 */
static void take_in_restart(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			    uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_TIP_PGE:
		if (!d->has_mode ||
		    (packet->u.ip.ipc != PTAH_IPC_SEXT_48 && packet->u.ip.ipc != PTAH_IPC_FULL))
			break;
		d->phase = EVENT_RUN;
		event_take_in_run(d, packet, offset);
		return;
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
	case PTAH_PACKET_MODE_TSX:
	case PTAH_PACKET_STOP:
		event_take_in_run(d, packet, offset);
		return;
	default:
		break;
	}
	event_forget_pending(d);
	d->phase = EVENT_UNSYNCED;
}

void event_take(struct ptah_event_decoder *d, const struct ptah_packet *packet, uint64_t offset)
{
	if (d->phase == EVENT_SETTLE && !event_settle_header(d, packet, offset))
		return;
	if (d->phase == EVENT_DOUBT && event_hold_in_doubt(d, packet, offset))
		return;
	d->block = (uint8_t)ptah_packet_block_state(packet, d->block);
	if (take_anywhere(d, packet, offset))
		return;
	switch (d->phase) {
	case EVENT_HEADER:
		event_take_in_header(d, packet, offset);
		break;
	case EVENT_OVERFLOW:
		event_take_in_overflow(d, packet, offset);
		break;
	case EVENT_DOUBT:
		event_take_in_doubt(d, packet, offset);
		break;
	case EVENT_RESTART:
		take_in_restart(d, packet, offset);
		break;
	default:
		event_take_in_run(d, packet, offset);
		break;
	}
}
