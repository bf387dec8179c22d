/* SPDX-License-Identifier: MIT */
/*
 * PSB+, the packets from a PSB to its PSBEND, in which the processor repeats its state
 * (SDM "Packet Stream Boundary (PSB) Packet"); and erratum BDM70.
 */
#include "event/event.h"

void event_begin_header(struct ptah_event_decoder *d, uint64_t offset)
{
	bool overflow = d->phase == EVENT_OVERFLOW, doubt = d->phase == EVENT_DOUBT;

	if (d->phase == EVENT_HEADER) { /* the PSB+ before has no PSBEND */
		event_push_error(d, PTAH_E_BAD_CONTEXT, offset);
		overflow = d->header.overflow;
		doubt = d->header.doubt;
	}
	/* SDM "PSB": no compound packet event spans it. */
	if (d->phase == EVENT_RUN && (d->has_fup || d->bound.count || d->data.type))
		event_push_error(d, PTAH_E_BAD_CONTEXT, offset);
	event_give_up(d);
	event_forget_pending(d);
	d->header = (struct event_header){.offset = offset, .overflow = overflow, .doubt = doubt};
	d->synced = true;
	d->state_count = 0;
	d->last_ip = 0;
	d->phase = EVENT_HEADER;
	event_time_psb(&d->time);
}

static void push_status(struct ptah_event_decoder *d, const struct ptah_item *pending)
{
	struct ptah_item status = *pending;

	status.flags |= PTAH_ITEM_STATUS;
	event_push_pending(d, &status, d->header.has_ip, d->header.ip);
}

/* MODE.Exec in a PSB+: its mode is that of the PSB item; a change of IF becomes an item of its own.
 */
static void take_mode_status(struct ptah_event_decoder *d, struct ptah_item *iflag)
{
	uint8_t before = d->iflag;

	*iflag = (struct ptah_item){0};
	if (!d->has_mode)
		return;
	d->mode = d->pending_mode.mode;
	d->mode_known = true;
	d->iflag = d->pending_mode.interrupts ? EVENT_IF_SET : EVENT_IF_CLEAR;
	if (event_reports_iflag(d, before, d->iflag)) {
		*iflag = d->pending_mode;
		iflag->type = PTAH_ITEM_IFLAGS;
	}
	d->has_mode = false;
}

void event_keep_state(struct ptah_event_decoder *d, const struct ptah_item *state)
{
	if (d->state_count == EVENT_STATES) /* no processor sends so many */
		event_fail(d, PTAH_E_BAD_CONTEXT, state->offset);
	else
		d->states[d->state_count++] = *state;
}

/* Reports the state packets of the PSB+, one by one. */
static void push_states(struct ptah_event_decoder *d)
{
	for (unsigned i = 0; i < d->state_count; i++) {
		const struct ptah_item *state = &d->states[i];
		struct ptah_item iflag = *state;

		if (state->type == PTAH_ITEM_EXEC_MODE) {
			d->mode = state->mode;
			iflag.interrupts = 0;
			push_status(d, &iflag);
			iflag = *state;
			iflag.type = PTAH_ITEM_IFLAGS;
			if (event_reports_iflag(d, EVENT_IF_UNKNOWN,
						state->interrupts ? EVENT_IF_SET : EVENT_IF_CLEAR))
				push_status(d, &iflag);
		} else {
			push_status(d, state);
		}
	}
	d->state_count = 0;
	d->has_vmcs = d->has_paging = false;
}

void event_set_tsx(struct ptah_event_decoder *d)
{
	if (d->header.has_tsx)
		d->in_tx = d->header.in_tx;
	d->header.has_tsx = false;
}

void event_cut_header(struct ptah_event_decoder *d)
{
	struct ptah_item iflag;

	take_mode_status(d, &iflag);
	push_states(d);
}

/*
 * Reports that the PSB+ contradicts what came before it. While tracing is on, the mode only changes
 * at a branch, after a MODE.Exec of its own (SDM "MODE.Exec Packet"); while it is off, or where
 * packets were lost, the mode may have changed unseen. The PSB+ is believed. With `unchanged` the
 * caller gets each of its packets, and can compare.
 */
static void check_header(struct ptah_event_decoder *d, bool on)
{
	if (on && d->enabled_known && !d->enabled)
		event_push_error(d, PTAH_E_BAD_CONTEXT, d->header.offset);
	else if (on && d->enabled_known && d->mode_known && d->has_mode &&
		 d->pending_mode.mode != d->mode && !d->config.unchanged)
		event_push_error(d, PTAH_E_BAD_CONTEXT, d->pending_mode.offset);
}

void event_deliver_header(struct ptah_event_decoder *d, bool on)
{
	struct ptah_item *item, iflag;

	check_header(d, on);
	take_mode_status(d, &iflag);
	d->header.has_ip = on;
	event_set_tsx(d);
	item = event_push(d, PTAH_ITEM_PSB, d->header.offset);
	item->flags |= PTAH_ITEM_STATUS | (on ? 0 : PTAH_ITEM_IP_SUPPRESSED);
	item->ip = on ? d->header.ip : 0;
	if (d->config.unchanged)
		push_states(d);
	if (d->has_vmcs)
		push_status(d, &d->vmcs);
	if (d->has_paging)
		push_status(d, &d->paging);
	if (iflag.type && !d->config.unchanged)
		push_status(d, &iflag);
	d->has_vmcs = d->has_paging = false;
	d->enabled = on;
	d->enabled_known = true;
	d->phase = EVENT_RUN;
}

static void end_header(struct ptah_event_decoder *d)
{
	if (d->header.overflow || d->header.doubt) {
		/* SDM "Buffer Overflow": execution continues at the FUP in the PSB+; without one
		 * tracing is off until a TIP.PGE. This also decides about the FUP that APL12
		 * leaves in doubt. */
		event_resume(d, d->header.has_ip, d->header.doubt ? d->fup_ip : d->header.ip);
		event_deliver_header(d, d->header.has_ip);
		return;
	}
	if (d->header.has_ip && !d->config.no_bdm70 && !(d->enabled_known && d->enabled))
		d->phase = EVENT_SETTLE;
	else
		event_deliver_header(d, d->header.has_ip);
}

/* Keeps the state from a packet of the PSB+, for `unchanged`. */
static void keep_state(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset)
{
	struct ptah_item state = {.offset = offset};

	switch (packet->type) {
	case PTAH_PACKET_MODE_TSX:
		state.type = PTAH_ITEM_TSX;
		state.flags = (uint8_t)((packet->u.tsx.in_tx ? PTAH_ITEM_SPECULATIVE : 0) |
					(packet->u.tsx.aborted ? PTAH_ITEM_ABORTED : 0));
		break;
	case PTAH_PACKET_PIP:
		state = d->paging;
		break;
	case PTAH_PACKET_VMCS:
		state = d->vmcs;
		break;
	default:
		return;
	}
	event_keep_state(d, &state);
}

/* SDM "PSB+": only these packets come before its PSBEND, or before an OVF that cuts it. */
void event_take_in_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			  uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_PSBEND:
		end_header(d);
		break;
	case PTAH_PACKET_OVF:
		event_take_overflow(d, offset);
		break;
	case PTAH_PACKET_FUP:
		d->header.has_ip = event_take_ip(d, packet, &d->header.ip);
		break;
	case PTAH_PACKET_MODE_TSX: /* not in force yet: items from before the PSB are still to come
				    */
		d->header.has_tsx = true;
		d->header.in_tx = packet->u.tsx.in_tx;
		break;
	case PTAH_PACKET_PIP:
		event_take_paging(d, packet, offset, true);
		break;
	case PTAH_PACKET_VMCS:
		event_take_vmcs(d, packet, offset, true);
		break;
	default:
		event_fail(d, PTAH_E_BAD_CONTEXT, offset);
		break;
	}
	if (d->config.unchanged && d->phase == EVENT_HEADER)
		keep_state(d, packet, offset);
}

/* What to do with a packet after a PSB+ whose FUP is in question. */
enum settling {
	SETTLING_NOTHING, /* take it: it only moves the time */
	SETTLING_HELD,	  /* hold it back until the question is decided */
	SETTLING_SETTLES, /* it decides the question */
};

static enum settling settling(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
		return SETTLING_NOTHING;
	case PTAH_PACKET_CBR:
	case PTAH_PACKET_MNT:
	case PTAH_PACKET_MODE_EXEC:
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
		return SETTLING_HELD;
	default:
		return SETTLING_SETTLES;
	}
}

void event_take_held(struct ptah_event_decoder *d)
{
	unsigned count = d->held_count;

	d->held_count = 0;
	for (unsigned i = 0; i < count; i++)
		event_take(d, &d->held[i].packet, d->held[i].offset);
}

void event_settle(struct ptah_event_decoder *d, bool on)
{
	event_deliver_header(d, on);
	event_take_held(d);
}

/*
 * BDM70: a PSB+ right before a TIP.PGE may contain a FUP although tracing is off. State
 * packets may come between the two: those of the TIP.PGE, or those of instructions that
 * ran untraced (MOV CR3, VMPTRLD). They are held back, and taken once the PSB+ has
 * been reported.
 */
bool event_settle_header(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset)
{
	enum settling what = settling(packet);

	if (what == SETTLING_NOTHING)
		return true;
	if (packet->type == PTAH_PACKET_CBR) /* the clock needs the new ratio at once */
		event_time_cbr(&d->time, packet->u.cbr.ratio);
	if (what == SETTLING_HELD && d->held_count < EVENT_HELD) {
		d->held[d->held_count++] = (struct event_held){*packet, offset};
		return false;
	}
	event_settle(d, packet->type != PTAH_PACKET_TIP_PGE);
	return true;
}
