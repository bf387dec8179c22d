/* SPDX-License-Identifier: MIT */
/*
 * OVF: the processor has lost packets. SDM "Buffer Overflow": when the overflow ends while
 * packets are enabled, a FUP with the current address follows the OVF, with only timing
 * packets before it. When it ends while packets are disabled, packets that do not depend
 * on PacketEn may come, and at some time a TIP.PGE. The errata SKD010, APL11 and APL12
 * break this rule.
 */
#include "event/event.h"

void event_take_overflow(struct ptah_event_decoder *d, uint64_t offset)
{
	if (d->phase == EVENT_HEADER && (d->header.doubt || d->held_count)) {
		/* A second OVF decides nothing about the first. */
		event_resume(d, d->header.doubt, d->fup_ip);
		d->phase = EVENT_HEADER;
	}
	/* Events that waited for an address did happen. */
	event_give_up(d);
	if (d->phase ==
	    EVENT_HEADER) { /* SDM "PSB": an OVF may cut it; what it said so far is true */
		d->vmcs.flags |= PTAH_ITEM_STATUS;
		d->paging.flags |= PTAH_ITEM_STATUS;
		d->pending_mode.flags |= PTAH_ITEM_STATUS;
		event_set_tsx(d);
		if (d->config.unchanged)
			event_cut_header(d);
	} else {
		d->has_mode = false; /* the branch that it belongs to is lost */
	}
	event_release_changes(d, false, 0);
	event_forget_pending(d);
	event_time_overflow(&d->time);
	event_set_time(d);
	d->mode_known = false;
	d->overflow_offset = offset;
	d->overflow_tsc = d->tsc;
	/* The last IP stays: SDM "Overflow (OVF) Packet": packets after it are compressed against
	 * an IP before it. */
	d->phase = EVENT_OVERFLOW;
}

static bool hold(struct ptah_event_decoder *d, const struct ptah_packet *packet, uint64_t offset)
{
	if (d->held_count == EVENT_HELD)
		return false;
	d->held[d->held_count++] = (struct event_held){*packet, offset};
	return true;
}

/* Packets that come whether tracing is on or off decide nothing: they are held back, to be reported
 * after the overflow. */
bool event_hold_in_doubt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_CBR: /* the clock needs the new ratio at once */
		event_time_cbr(&d->time, packet->u.cbr.ratio);
		break;
	case PTAH_PACKET_MNT:
	case PTAH_PACKET_PWRE:
	case PTAH_PACKET_PWRX:
	case PTAH_PACKET_PIP:
	case PTAH_PACKET_VMCS:
		break;
	default:
		return false;
	}
	return hold(d, packet, offset);
}

/* SKD010: takes the packets that were held back where the FUP should have come. Changes of state
 * get the address `ip`, at which execution continues. */
static void take_held_at(struct ptah_event_decoder *d, uint64_t ip)
{
	const unsigned count = d->held_count;

	d->held_count = 0;
	for (unsigned i = 0; i < count; i++) {
		const struct event_held *held = &d->held[i];

		if (held->packet.type == PTAH_PACKET_PIP)
			event_take_paging(d, &held->packet, held->offset, true);
		else if (held->packet.type == PTAH_PACKET_VMCS)
			event_take_vmcs(d, &held->packet, held->offset, true);
		else
			event_take(d, &held->packet, held->offset);
	}
	event_release_changes(d, true, ip);
}

/* The same before a PSB+ that has already been read: its own changes of state are put aside
 * meanwhile. */
static void take_held_before(struct ptah_event_decoder *d, bool at, uint64_t ip)
{
	const struct ptah_item mode = d->pending_mode, paging = d->paging, vmcs = d->vmcs;
	const bool has_mode = d->has_mode, has_paging = d->has_paging, has_vmcs = d->has_vmcs;

	if (!d->held_count)
		return;
	d->has_mode = d->has_paging = d->has_vmcs = false;
	if (at) {
		take_held_at(d, ip);
		event_deliver(d, &d->bound, true, ip);
	} else {
		event_take_held(d);
	}
	d->pending_mode = mode;
	d->paging = paging;
	d->vmcs = vmcs;
	d->has_mode = has_mode;
	d->has_paging = has_paging;
	d->has_vmcs = has_vmcs;
}

void event_resume(struct ptah_event_decoder *d, bool on, uint64_t ip)
{
	struct ptah_item *item = event_push(d, PTAH_ITEM_OVERFLOW, d->overflow_offset);
	bool in_header = d->phase == EVENT_HEADER; /* the PSB+ reports its state itself */
	bool doubt = in_header ? d->header.doubt : d->phase == EVENT_DOUBT;

	item->flags |= on ? 0 : PTAH_ITEM_IP_SUPPRESSED;
	item->ip = on ? ip : 0;
	/* The time of the OVF; of a PSB+ that ends the overflow with an address, its own. */
	item->packet_tsc = !d->config.unchanged ? 0 : on && in_header ? d->tsc : d->overflow_tsc;
	d->enabled = on;
	d->enabled_known = true;
	d->phase = EVENT_RUN;
	if (in_header) {
		take_held_before(d, on && !doubt, ip);
		return;
	}
	if (on)
		event_release_changes(d, true, ip);
	if (on && !doubt)
		take_held_at(d, ip);
	else
		event_take_held(d);
}

/* The packet shows that tracing is off: ends the overflow and takes the packet. */
static void resume_off(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset)
{
	event_resume(d, false, 0);
	event_take_in_run(d, packet, offset);
}

static bool holds_tsx(const struct ptah_event_decoder *d)
{
	for (unsigned i = 0; i < d->held_count; i++)
		if (d->held[i].packet.type == PTAH_PACKET_MODE_TSX)
			return true;
	return false;
}

/* SKD010: the FUP or TIP.PGE after the OVF is missing. APL11: a TIP.PGD comes although tracing is
 * off. True when the packet has been used. */
static bool take_erratum(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset)
{
	bool skd010 = event_has_erratum(d, PTAH_ERRATUM_SKD010);
	uint64_t ip;

	switch (packet->type) {
	case PTAH_PACKET_TIP_PGD:
		if (!skd010 && !event_has_erratum(d, PTAH_ERRATUM_APL11))
			return false;
		event_take_ip(d, packet, &ip);
		event_resume(d, false, 0);
		return true;
	case PTAH_PACKET_TIP:
		if (!skd010 || !event_take_ip(d, packet, &ip))
			return false;
		event_resume(d, true, ip);
		event_deliver(d, &d->bound, true, ip);
		return true;
	case PTAH_PACKET_MODE_TSX: /* execution continues at its FUP; a second has no FUP */
		return skd010 && !holds_tsx(d) && hold(d, packet, offset);
	case PTAH_PACKET_PIP: /* these come whether tracing is on or off */
	case PTAH_PACKET_VMCS:
		return skd010 && hold(d, packet, offset);
	default:
		return false;
	}
}

void event_take_in_overflow(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			    uint64_t offset)
{
	uint64_t ip;

	switch (packet->type) {
	case PTAH_PACKET_FUP:
		if (!event_take_ip(d, packet, &ip)) {
			event_fail(d, PTAH_E_NO_IP, offset);
		} else if (holds_tsx(d)) { /* the FUP belongs to the MODE.TSX */
			event_resume(d, true, ip);
			event_take_in_run(d, packet, offset);
		} else if (event_has_erratum(d, PTAH_ERRATUM_APL12)) {
			d->fup_ip = ip;
			d->fup_offset = offset;
			d->phase = EVENT_DOUBT;
		} else {
			event_resume(d, true, ip);
		}
		break;
	case PTAH_PACKET_OVF:
		if (d->config.unchanged || d->held_count)
			event_resume(d, false, 0);
		event_take_overflow(d, offset);
		break;
	default:
		if (!take_erratum(d, packet, offset))
			resume_off(d, packet, offset);
		break;
	}
}

void event_resume_at_fup(struct ptah_event_decoder *d)
{
	const bool later = d->has_mode && d->pending_mode.offset > d->fup_offset;

	d->has_mode = d->has_mode && !later;
	event_resume(d, true, d->fup_ip);
	d->has_mode = d->has_mode || later;
}

/*
 * APL12: the FUP after an OVF may be there although tracing is off. A TIP.PGE or a TraceStop
 * proves it false, a packet that is only sent while tracing is on proves it true. Before any
 * other packet it is taken as the SDM defines it; if that was wrong, the TIP.PGE that follows
 * is reported as an error.
 */
void event_take_in_doubt(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			 uint64_t offset)
{
	switch (packet->type) {
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_STOP:
		resume_off(d, packet, offset);
		break;
	default:
		event_resume_at_fup(d);
		event_take_in_run(d, packet, offset);
		break;
	}
}
