/* SPDX-License-Identifier: MIT */
#include "event/event.h"
#include "event/input.h"

#include <stdlib.h>

static struct ptah_item *push(struct ptah_event_decoder *d, unsigned type, uint64_t offset)
{
	struct ptah_item *item = &d->queue[(d->queue_first + d->queue_count++) % EVENT_QUEUE];

	memset(item, 0, sizeof(*item));
	item->type = (uint8_t)type;
	item->mode = d->mode;
	item->flags = d->in_tx ? PTAH_ITEM_SPECULATIVE : 0;
	item->tsc = d->tsc;
	item->offset = offset;
	return item;
}

/* Puts a prepared item behind the others, with the time and state of now. */
static void push_pending(struct ptah_event_decoder *d, const struct ptah_item *pending, bool has_ip,
			 uint64_t ip)
{
	struct ptah_item *item = push(d, pending->type, pending->offset);

	item->flags |= pending->flags | (has_ip ? 0 : PTAH_ITEM_IP_SUPPRESSED);
	item->count = pending->count;
	item->value = pending->value;
	item->ip = has_ip ? ip : 0;
}

static void forget_pending(struct ptah_event_decoder *d)
{
	d->has_fup = d->has_bound = d->has_mode = d->has_paging = d->has_vmcs = false;
	d->block = PTAH_BLOCK_NONE;
}

/* Says what is wrong and looks for the next PSB. */
static void fail(struct ptah_event_decoder *d, int status, uint64_t offset)
{
	push(d, PTAH_ITEM_ERROR, offset)->status = status;
	forget_pending(d);
	d->phase = EVENT_UNSYNCED;
	d->enabled_known = false;
}

/* The address of an IP packet; false when suppressed. */
static bool take_ip(struct ptah_event_decoder *d, const struct ptah_packet *packet, uint64_t *ip)
{
	*ip = 0;
	return ptah_packet_ip(&d->last_ip, packet->u.ip.ipc, packet->u.ip.ip, ip);
}

static void set_mode(struct ptah_event_decoder *d, const struct ptah_item *pending, bool has_ip,
		     uint64_t ip)
{
	if (pending->mode == d->mode)
		return;
	d->mode = pending->mode;
	push_pending(d, pending, has_ip, ip);
}

/* Changes that were waiting for the branch which has just been pushed. */
static void release_changes(struct ptah_event_decoder *d, bool has_ip, uint64_t ip)
{
	if (d->has_vmcs)
		push_pending(d, &d->vmcs, has_ip, ip);
	if (d->has_paging)
		push_pending(d, &d->paging, has_ip, ip);
	if (d->has_mode)
		set_mode(d, &d->pending_mode, has_ip, ip);
	d->has_vmcs = d->has_paging = d->has_mode = false;
}

/* PSB+ */

static void begin_header(struct ptah_event_decoder *d, uint64_t offset)
{
	bool overflow = d->phase == EVENT_OVERFLOW;

	/* SDM "PSB": no compound packet event spans it. */
	if (d->has_fup || d->has_bound)
		push(d, PTAH_ITEM_ERROR, offset)->status = PTAH_E_BAD_CONTEXT;
	forget_pending(d);
	d->header = (struct event_header){.offset = offset, .overflow = overflow};
	d->last_ip = 0;
	d->phase = EVENT_HEADER;
}

static void push_status(struct ptah_event_decoder *d, const struct ptah_item *pending)
{
	push_pending(d, pending, d->header.has_ip, d->header.ip);
	d->queue[(d->queue_first + d->queue_count - 1) % EVENT_QUEUE].flags |= PTAH_ITEM_STATUS;
}

/* The PSB+ is complete and believed; `on`: its FUP is true. */
static void deliver_header(struct ptah_event_decoder *d, bool on)
{
	struct ptah_item *item;

	if (d->has_mode) {
		d->mode = d->pending_mode.mode;
		d->has_mode = false;
	}
	if (on && d->enabled_known && !d->enabled)
		push(d, PTAH_ITEM_ERROR, d->header.offset)->status = PTAH_E_BAD_CONTEXT;
	item = push(d, PTAH_ITEM_PSB, d->header.offset);
	item->flags |= PTAH_ITEM_STATUS | (on ? 0 : PTAH_ITEM_IP_SUPPRESSED);
	item->ip = on ? d->header.ip : 0;
	if (d->has_vmcs)
		push_status(d, &d->vmcs);
	if (d->has_paging)
		push_status(d, &d->paging);
	d->has_vmcs = d->has_paging = false;
	d->enabled = on;
	d->enabled_known = true;
	d->phase = EVENT_RUN;
}

static void resume_overflow(struct ptah_event_decoder *d, bool on, uint64_t ip)
{
	struct ptah_item *item = push(d, PTAH_ITEM_OVERFLOW, d->overflow_offset);

	item->flags |= on ? 0 : PTAH_ITEM_IP_SUPPRESSED;
	item->ip = on ? ip : 0;
	d->enabled = on;
	d->enabled_known = true;
	d->phase = EVENT_RUN;
	release_changes(d, on, ip);
}

static void end_header(struct ptah_event_decoder *d)
{
	if (d->header.overflow) {
		/* SDM "Overflow": a FUP in the PSB+ is where execution goes on; without one
		 * tracing is off and the next TIP.PGE ends the wait. */
		if (d->header.has_ip) {
			if (d->has_mode)
				d->mode = d->pending_mode.mode;
			d->has_mode = false;
			resume_overflow(d, true, d->header.ip);
		} else {
			d->phase = EVENT_OVERFLOW;
		}
		return;
	}
	if (d->header.has_ip && !d->no_bdm70 && !(d->enabled_known && d->enabled))
		d->phase = EVENT_SETTLE;
	else
		deliver_header(d, d->header.has_ip);
}

/* Single packets */

static void set_overflow(struct ptah_event_decoder *d, uint64_t offset)
{
	event_time_overflow(&d->time);
	forget_pending(d);
	d->overflow_offset = offset;
	d->last_ip = 0;
	d->phase = EVENT_OVERFLOW;
}

static void take_tnt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item *item;

	if (!d->enabled || d->has_fup || d->has_bound) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	item = push(d, PTAH_ITEM_TNT, offset);
	item->count = packet->u.tnt.count;
	item->value = packet->u.tnt.bits;
}

static void take_tip(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item *item;
	uint64_t ip;
	bool has_ip = take_ip(d, packet, &ip);

	if (!d->enabled || d->has_bound) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	if (!has_ip) {
		fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	if (d->has_fup) {
		item = push(d, PTAH_ITEM_ASYNC_BRANCH, d->fup_offset);
		item->ip = d->fup_ip;
		d->has_fup = false;
	} else {
		item = push(d, PTAH_ITEM_TIP, offset);
	}
	item->to = ip;
	release_changes(d, true, ip);
}

static void take_pge(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	uint64_t ip;

	if (!take_ip(d, packet, &ip)) {
		fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	if ((d->enabled && d->enabled_known) || d->has_fup || d->has_bound) {
		/* The address is certain all the same: say it and go on from there. */
		push(d, PTAH_ITEM_ERROR, offset)->status = PTAH_E_BAD_CONTEXT;
		d->has_fup = d->has_bound = false;
	}
	d->enabled = d->enabled_known = true;
	push(d, PTAH_ITEM_ENABLED, offset)->ip = ip;
	release_changes(d, true, ip);
}

static void take_pgd(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item *item;
	uint64_t ip;
	bool has_ip = take_ip(d, packet, &ip);

	if (!d->enabled || d->has_bound) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	if (d->has_fup) {
		item = push(d, PTAH_ITEM_ASYNC_DISABLED, d->fup_offset);
		item->ip = d->fup_ip;
		d->has_fup = false;
	} else {
		item = push(d, PTAH_ITEM_DISABLED, offset);
	}
	item->flags |= has_ip ? 0 : PTAH_ITEM_IP_SUPPRESSED;
	item->to = ip;
	d->enabled = false;
	release_changes(d, false, 0);
}

static void take_fup(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	uint64_t ip;

	if (!take_ip(d, packet, &ip)) {
		fail(d, PTAH_E_NO_IP, offset);
		return;
	}
	if (!d->enabled || d->has_fup) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		return;
	}
	d->has_fup = true;
	d->fup_ip = ip;
	d->fup_offset = offset;
	if (!d->has_bound)
		return;
	d->has_bound = false;
	if (d->bound.type != PTAH_ITEM_TYPE_MAX)
		push_pending(d, &d->bound, true, ip);
	/* A transaction's abort is a FUP and its TIP; everything else has the FUP for itself. */
	d->has_fup = d->bound.type == PTAH_ITEM_TSX && (d->bound.flags & PTAH_ITEM_ABORTED);
}

/* An event that may be followed by a FUP of its own. */
static void take_bound(struct ptah_event_decoder *d, unsigned type, bool ip, uint64_t value,
		       uint32_t count, uint8_t flags, uint64_t offset)
{
	struct ptah_item item = {.type = (uint8_t)type,
				 .flags = flags,
				 .count = count,
				 .value = value,
				 .offset = offset};

	if (ip && d->has_bound) {
		fail(d, PTAH_E_BAD_CONTEXT, offset);
	} else if (ip) {
		d->bound = item;
		d->has_bound = true;
	} else if (type != PTAH_ITEM_TYPE_MAX) {
		push_pending(d, &item, false, 0);
	}
}

static void take_tsx(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	uint8_t flags = (uint8_t)((packet->u.tsx.in_tx ? PTAH_ITEM_SPECULATIVE : 0) |
				  (packet->u.tsx.aborted ? PTAH_ITEM_ABORTED : 0));

	d->in_tx = false; /* push() must not add the old state to this item */
	take_bound(d, PTAH_ITEM_TSX, d->enabled, 0, 0, flags, offset);
	d->in_tx = packet->u.tsx.in_tx;
}

static struct ptah_item paging_item(const struct ptah_packet *packet, uint64_t offset)
{
	return (struct ptah_item){.type = PTAH_ITEM_PAGING,
				  .flags = packet->u.pip.non_root ? PTAH_ITEM_NON_ROOT : 0,
				  .value = packet->u.pip.cr3,
				  .offset = offset};
}

/* State that a branch changes comes before it; a MOV CR3 or VMPTRLD has no branch. */
static void take_paging(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			uint64_t offset, bool wait)
{
	d->paging = paging_item(packet, offset);
	d->has_paging = true;
	if (!wait) {
		push_pending(d, &d->paging, false, 0);
		d->has_paging = false;
	}
}

static void take_vmcs(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset, bool wait)
{
	d->vmcs = (struct ptah_item){
	    .type = PTAH_ITEM_VMCS, .value = packet->u.vmcs.base, .offset = offset};
	d->has_vmcs = true;
	if (!wait) {
		push_pending(d, &d->vmcs, false, 0);
		d->has_vmcs = false;
	}
}

static void take_mode(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset)
{
	d->pending_mode = (struct ptah_item){
	    .type = PTAH_ITEM_EXEC_MODE, .mode = packet->u.exec.mode, .offset = offset};
	d->has_mode = true;
}

static void take_cbr(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	event_time_cbr(&d->time, packet->u.cbr.ratio);
	if (packet->u.cbr.ratio == d->ratio)
		return;
	d->ratio = packet->u.cbr.ratio;
	push(d, PTAH_ITEM_CBR, offset)->value = d->ratio;
}

static void take_time(struct ptah_event_decoder *d, const struct ptah_packet *packet)
{
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
	d->tsc = d->time.now;
}

/* Packets that mean the same everywhere. True when the packet was one. */
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
		take_time(d, packet);
		return true;
	case PTAH_PACKET_CBR:
		take_cbr(d, packet, offset);
		return true;
	case PTAH_PACKET_MNT:
		push(d, PTAH_ITEM_MNT, offset)->value = packet->u.mnt.payload;
		return true;
	case PTAH_PACKET_PSB:
		begin_header(d, offset);
		return true;
	case PTAH_PACKET_MODE_EXEC:
		take_mode(d, packet, offset);
		return true;
	default:
		return false;
	}
}

/* SDM "PSB+": only these, up to PSBEND or OVF. */
static void take_in_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			   uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_PSBEND:
		end_header(d);
		break;
	case PTAH_PACKET_OVF:
		set_overflow(d, offset);
		break;
	case PTAH_PACKET_FUP:
		d->header.has_ip = take_ip(d, packet, &d->header.ip);
		break;
	case PTAH_PACKET_MODE_TSX:
		d->in_tx = packet->u.tsx.in_tx;
		break;
	case PTAH_PACKET_PIP:
		take_paging(d, packet, offset, true);
		break;
	case PTAH_PACKET_VMCS:
		take_vmcs(d, packet, offset, true);
		break;
	default:
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	}
}

/* Behind OVF, until an address says where execution goes on (SDM "Buffer Overflow"). */
static void take_in_overflow(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			     uint64_t offset)
{
	uint64_t ip;

	switch (packet->type) {
	case PTAH_PACKET_FUP:
	case PTAH_PACKET_TIP: /* SKD010: the FUP may be missing */
		if (take_ip(d, packet, &ip))
			resume_overflow(d, true, ip);
		else
			fail(d, PTAH_E_NO_IP, offset);
		break;
	case PTAH_PACKET_TIP_PGE:
		resume_overflow(d, false, 0);
		take_pge(d, packet, offset);
		break;
	case PTAH_PACKET_TIP_PGD: /* APL11, SKD010 */
		take_ip(d, packet, &ip);
		resume_overflow(d, false, 0);
		break;
	case PTAH_PACKET_STOP:
		resume_overflow(d, false, 0);
		push(d, PTAH_ITEM_STOP, offset);
		break;
	case PTAH_PACKET_OVF:
		break;
	case PTAH_PACKET_PIP:
		take_paging(d, packet, offset, true);
		break;
	case PTAH_PACKET_VMCS:
		take_vmcs(d, packet, offset, true);
		break;
	case PTAH_PACKET_MODE_TSX:
		d->in_tx = packet->u.tsx.in_tx;
		break;
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64: /* outcomes of branches nobody can place */
		resume_overflow(d, false, 0);
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	default:
		break;
	}
}

static void take_in_run(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			uint64_t offset)
{
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
		set_overflow(d, offset);
		break;
	case PTAH_PACKET_MODE_TSX:
		take_tsx(d, packet, offset);
		break;
	case PTAH_PACKET_PIP:
		take_paging(d, packet, offset, d->has_fup);
		break;
	case PTAH_PACKET_VMCS:
		take_vmcs(d, packet, offset, d->has_fup);
		break;
	case PTAH_PACKET_STOP:
		push(d, PTAH_ITEM_STOP, offset);
		break;
	case PTAH_PACKET_PTW:
		take_bound(d, PTAH_ITEM_PTWRITE, packet->u.ptw.ip, packet->u.ptw.payload,
			   packet->u.ptw.size, 0, offset);
		break;
	case PTAH_PACKET_EXSTOP:
		take_bound(d, PTAH_ITEM_EXSTOP, packet->u.exstop.ip, 0, 0, 0, offset);
		break;
	case PTAH_PACKET_MWAIT:
		push(d, PTAH_ITEM_MWAIT, offset)->value =
		    packet->u.mwait.hints | (uint64_t)packet->u.mwait.ext << 32;
		break;
	case PTAH_PACKET_PWRE:
		push(d, PTAH_ITEM_PWRE, offset)->value = packet->u.pwre.state;
		break;
	case PTAH_PACKET_PWRX:
		push(d, PTAH_ITEM_PWRX, offset)->value = packet->u.pwrx.last;
		break;
	/* No item of their own yet; what matters is whose the FUP is. */
	case PTAH_PACKET_CFE:
		take_bound(d, PTAH_ITEM_TYPE_MAX, packet->u.cfe.ip, 0, 0, 0, offset);
		break;
	case PTAH_PACKET_BEP:
		take_bound(d, PTAH_ITEM_TYPE_MAX, packet->u.bep.ip, 0, 0, 0, offset);
		break;
	case PTAH_PACKET_TRIG:
		take_bound(d, PTAH_ITEM_TYPE_MAX, packet->u.trig.ip, 0, 0, 0, offset);
		break;
	case PTAH_PACKET_EVD:
	case PTAH_PACKET_BBP:
	case PTAH_PACKET_BIP:
		break;
	default: /* PSBEND without PSB */
		fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	}
}

static bool settles(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
	case PTAH_PACKET_CBR:
	case PTAH_PACKET_MNT:
		return false;
	default:
		return true;
	}
}

static void take(struct ptah_event_decoder *d, const struct ptah_packet *packet, uint64_t offset)
{
	/* BDM70: a PSB+ right before a TIP.PGE may hold a FUP although tracing is off. State
	 * packets that belong to that TIP.PGE may stand between. */
	if (d->phase == EVENT_SETTLE && settles(packet)) {
		if (packet->type == PTAH_PACKET_MODE_EXEC || packet->type == PTAH_PACKET_PIP ||
		    packet->type == PTAH_PACKET_VMCS) {
			/* Held back with the PSB+ state: the last word counts. */
			if (packet->type == PTAH_PACKET_MODE_EXEC)
				take_mode(d, packet, offset);
			else if (packet->type == PTAH_PACKET_PIP)
				take_paging(d, packet, offset, true);
			else
				take_vmcs(d, packet, offset, true);
			return;
		}
		deliver_header(d, packet->type != PTAH_PACKET_TIP_PGE);
	}
	d->block = (uint8_t)ptah_packet_block_state(packet, d->block);
	if (take_anywhere(d, packet, offset))
		return;
	if (d->phase == EVENT_HEADER)
		take_in_header(d, packet, offset);
	else if (d->phase == EVENT_OVERFLOW)
		take_in_overflow(d, packet, offset);
	else
		take_in_run(d, packet, offset);
}

/* Input */

/* Moves to the next PSB. False when more bytes are needed or there is none. */
static bool search(struct ptah_event_decoder *d)
{
	for (;;) {
		const uint8_t *psb = ptah_packet_find_psb(d->pos, d->end);
		bool at_last = event_input_at_last(d);

		/* What settles the PSB's place (see packet/find.c) must be in sight, so that the
		 * answer does not depend on how the trace is cut into chunks. */
		if (psb && (at_last || (size_t)(d->end - psb) >= 2 * 16)) {
			d->pos = psb;
			return true;
		}
		if (at_last) {
			d->pos = d->end;
			return false;
		}
		if (psb)
			d->pos = (size_t)(psb - d->pos) > 16 ? psb - 16 : d->pos;
		else if ((size_t)(d->end - d->pos) > 15)
			d->pos = d->end - 15;
		if (!event_input_more(d) && !event_input_at_last(d))
			return false;
	}
}

/* The trace has ended: what was pending becomes certain or is lost. */
static void finish(struct ptah_event_decoder *d)
{
	uint64_t offset = event_offset(d, d->pos);

	if (d->pos != d->end)
		push(d, PTAH_ITEM_ERROR, offset)->status = PTAH_E_TRUNCATED;
	else if (d->phase == EVENT_SETTLE)
		deliver_header(d, true);
	else if (d->phase == EVENT_OVERFLOW)
		resume_overflow(d, false, 0);
	else if (d->phase == EVENT_UNSYNCED && !d->synced && offset)
		push(d, PTAH_ITEM_ERROR, 0)->status = PTAH_E_NO_SYNC;
	d->pos = d->end;
	d->phase = EVENT_DONE;
}

static bool is_plain(const struct ptah_event_decoder *d)
{
	return d->phase == EVENT_RUN && d->enabled && !d->queue_count && !d->block && !d->has_fup &&
	       !d->has_bound && !d->has_mode && !d->has_paging && !d->has_vmcs;
}

/* One packet. False when more bytes are needed. */
static bool step(struct ptah_event_decoder *d)
{
	struct ptah_packet packet;
	uint64_t offset;
	int size;

	if (d->phase == EVENT_UNSYNCED) {
		if (!search(d)) {
			if (!event_input_at_last(d))
				return false;
			finish(d);
			return true;
		}
		d->synced = true;
	}
	size = ptah_packet_decode(&packet, d->pos, (size_t)(d->end - d->pos), d->block);
	if (size == PTAH_E_MORE) {
		if (event_input_more(d))
			return true;
		if (!event_input_at_last(d))
			return false;
		finish(d);
		return true;
	}
	offset = event_offset(d, d->pos);
	if (size < 0) {
		fail(d, size, offset);
		d->pos++;
	} else {
		d->pos += size;
		take(d, &packet, offset);
	}
	d->plain = is_plain(d);
	return true;
}

int event_next(struct ptah_event_decoder *d, struct ptah_item *item)
{
	while (!d->queue_count) {
		d->queue_first = 0;
		if (d->phase == EVENT_DONE || !step(d))
			return 0;
	}
	*item = d->queue[d->queue_first];
	d->queue_first = (d->queue_first + 1) % EVENT_QUEUE;
	d->queue_count--;
	d->plain = is_plain(d);
	return 1;
}

static void set_config(struct ptah_event_decoder *d, const struct ptah_event_config *config)
{
	d->no_bdm70 = config->no_bdm70;
	d->time.mtc_freq = config->mtc_freq;
	d->time.nominal_ratio = config->nominal_ratio;
	d->time.ctc_numerator = config->tsc_ctc_n;
	d->time.ctc_denominator = config->tsc_ctc_d;
}

int ptah_event_decoder_new(const struct ptah_event_config *config,
			   struct ptah_event_decoder **decoder)
{
	struct ptah_event_decoder *d;

	if (!decoder || (config && config->size < sizeof(*config)))
		return PTAH_E_INVAL;
	d = calloc(1, sizeof(*d));
	if (!d)
		return PTAH_E_NOMEM;
	if (config)
		set_config(d, config);
	d->pos = d->end = d->carry;
	*decoder = d;
	return 0;
}

void ptah_event_decoder_free(struct ptah_event_decoder *d)
{
	free(d);
}

int ptah_event_read(struct ptah_event_decoder *d, struct ptah_item *items, size_t capacity)
{
	size_t n = 0;

	if (!d || (!items && capacity))
		return PTAH_E_INVAL;
	if (capacity > INT32_MAX)
		capacity = INT32_MAX;
	while (n < capacity && event_next(d, &items[n]))
		n++;
	return (int)n;
}
