/* SPDX-License-Identifier: MIT */
/*
 * Packets about other things than branches: PTWRITE, power, Event Trace, PEBS and triggers.
 * Each is an event without an address, or says that the next FUP carries its address.
 */
#include "event/event.h"

/* Reports an event: at once without an address, or (`ip`) when the next FUP has given it one. */
static void report_event(struct ptah_event_decoder *d, const struct ptah_item *item, bool ip)
{
	if (ip)
		event_wait(d, &d->bound, item);
	else
		event_push_pending(d, item, false, 0);
}

static void take_ptw(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_PTWRITE,
				       .size = packet->u.ptw.size,
				       .payload = packet->u.ptw.payload,
				       .offset = offset};

	report_event(d, &item, packet->u.ptw.ip);
}

/* An MWAIT waits for the EXSTOP that it leads to, whose FUP gives both their address. */
static void take_mwait(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		       uint64_t offset)
{
	d->mwait = (struct ptah_item){.type = PTAH_ITEM_MWAIT,
				      .mwait = {packet->u.mwait.hints, packet->u.mwait.ext},
				      .offset = offset};
	d->has_mwait = true;
}

static void take_exstop(struct ptah_event_decoder *d, const struct ptah_packet *packet,
			uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_EXSTOP, .offset = offset};

	if (d->has_mwait)
		report_event(d, &d->mwait, packet->u.exstop.ip);
	d->has_mwait = false;
	report_event(d, &item, packet->u.exstop.ip);
}

static void take_pwre(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_PWRE,
				       .detail = packet->u.pwre.hw ? PTAH_DETAIL_HW : 0,
				       .sub_state = packet->u.pwre.sub_state,
				       .state = packet->u.pwre.state,
				       .offset = offset};

	report_event(d, &item, false);
}

static void take_pwrx(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset)
{
	const struct ptah_item item = {
	    .type = PTAH_ITEM_PWRX,
	    .detail = (uint8_t)((packet->u.pwrx.interrupt ? PTAH_DETAIL_INTERRUPT : 0) |
				(packet->u.pwrx.store ? PTAH_DETAIL_STORE : 0) |
				(packet->u.pwrx.autonomous ? PTAH_DETAIL_AUTONOMOUS : 0)),
	    .deepest = packet->u.pwrx.deepest,
	    .last = packet->u.pwrx.last,
	    .offset = offset};

	report_event(d, &item, false);
}

/* Event Trace (SDM "Event Trace"): a CFE, with the EVDs before it. */

static void drop_data(struct ptah_event_decoder *d)
{
	event_push_error(d, PTAH_E_BAD_CONTEXT, d->data.offset);
	d->data.type = 0;
}

static void take_evd(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	uint8_t type = PTAH_ITEM_VMEXIT, detail = PTAH_DETAIL_QUALIFICATION;

	switch (packet->u.evd.type) {
	case PTAH_EVD_CR2:
		type = PTAH_ITEM_INTERRUPT;
		detail = PTAH_DETAIL_CR2;
		break;
	case PTAH_EVD_VMXQ:
		break;
	case PTAH_EVD_VMXR:
		detail = PTAH_DETAIL_REASON;
		break;
	default: /* of a future processor */
		return;
	}
	if (d->data.type && (d->data.type != type || d->data.detail & detail))
		drop_data(d);
	if (!d->data.type)
		d->data = (struct ptah_item){.type = type, .offset = offset};
	d->data.detail |= detail;
	if (detail == PTAH_DETAIL_REASON)
		d->data.reason = packet->u.evd.payload;
	else
		d->data.value = packet->u.evd.payload;
}

/* The item of each CFE type. `follows`: while tracing is on, a CFE without a FUP of its own gets
 * the address from the FUP of the branch that it comes with. */
static const struct {
	uint8_t item;
	bool follows;
	bool has_vector;
} cfe_types[] = {
    [PTAH_CFE_INTR] = {PTAH_ITEM_INTERRUPT, true, true},
    [PTAH_CFE_IRET] = {PTAH_ITEM_IRET, false, false},
    [PTAH_CFE_SMI] = {PTAH_ITEM_SMI, true, false},
    [PTAH_CFE_RSM] = {PTAH_ITEM_RSM, true, false},
    [PTAH_CFE_SIPI] = {PTAH_ITEM_SIPI, true, true},
    [PTAH_CFE_INIT] = {PTAH_ITEM_INIT, true, false},
    [PTAH_CFE_VMENTRY] = {PTAH_ITEM_VMENTRY, false, false},
    [PTAH_CFE_VMEXIT] = {PTAH_ITEM_VMEXIT, true, false},
    [PTAH_CFE_VMEXIT_INTR] = {PTAH_ITEM_VMEXIT, true, true},
    [PTAH_CFE_SHUTDOWN] = {PTAH_ITEM_SHUTDOWN, false, false},
    [PTAH_CFE_UINTR] = {PTAH_ITEM_UINTR, true, true},
    [PTAH_CFE_UIRET] = {PTAH_ITEM_UIRET, false, false},
    [PTAH_CFE_SWINTR] = {PTAH_ITEM_SWINTR, true, true},
    [PTAH_CFE_SYSCALL] = {PTAH_ITEM_SYSCALL, false, false},
};

static void take_cfe(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	struct ptah_item item = {.type = PTAH_ITEM_TYPE_MAX, .offset = offset};
	unsigned type = packet->u.cfe.type;
	bool follows = false;

	if (type < ARRAY_SIZE(cfe_types) && cfe_types[type].item) {
		item.type = cfe_types[type].item;
		follows = cfe_types[type].follows;
		item.vector = cfe_types[type].has_vector ? packet->u.cfe.vector : 0;
		item.detail = type == PTAH_CFE_VMEXIT_INTR ? PTAH_DETAIL_VECTOR : 0;
	}
	if (d->data.type && d->data.type != item.type)
		drop_data(d);
	if (d->data.type) {
		item.offset = d->data.offset;
		item.detail |= d->data.detail;
		item.value = d->data.value;
		item.to = d->data.to;
		d->data.type = 0;
	}
	if (!packet->u.cfe.ip && follows && d->enabled)
		event_wait(d, &d->follow, &item);
	else
		report_event(d, &item, packet->u.cfe.ip);
}

static void take_trig(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset)
{
	const struct ptah_item item = {
	    .type = PTAH_ITEM_TRIGGER,
	    .detail = (uint8_t)((packet->u.trig.has_icnt ? PTAH_DETAIL_ICNT : 0) |
				(packet->u.trig.mult ? PTAH_DETAIL_MULT : 0)),
	    .icnt = packet->u.trig.icnt,
	    .trbv = packet->u.trig.trbv,
	    .offset = offset};

	report_event(d, &item, packet->u.trig.ip);
}

/* PEBS through PT (SDM "PEBS-via-PT"): BBP, items, BEP. */

static void take_bbp(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_PEBS_BEGIN,
				       .size = packet->u.bbp.item_size,
				       .pebs_type = packet->u.bbp.type,
				       .offset = offset};

	report_event(d, &item, false);
}

static void take_bip(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_PEBS_ITEM,
				       .size = packet->u.bip.item_size,
				       .pebs_id = packet->u.bip.id,
				       .payload = packet->u.bip.payload,
				       .offset = offset};

	report_event(d, &item, false);
}

static void take_bep(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		     uint64_t offset)
{
	const struct ptah_item item = {.type = PTAH_ITEM_PEBS_END, .offset = offset};

	report_event(d, &item, packet->u.bep.ip);
}

bool event_take_extra(struct ptah_event_decoder *d, const struct ptah_packet *packet,
		      uint64_t offset)
{
	static void (*const takers[PTAH_PACKET_TYPE_MAX])(struct ptah_event_decoder *,
							  const struct ptah_packet *, uint64_t) = {
	    [PTAH_PACKET_PTW] = take_ptw,     [PTAH_PACKET_EXSTOP] = take_exstop,
	    [PTAH_PACKET_MWAIT] = take_mwait, [PTAH_PACKET_PWRE] = take_pwre,
	    [PTAH_PACKET_PWRX] = take_pwrx,   [PTAH_PACKET_CFE] = take_cfe,
	    [PTAH_PACKET_EVD] = take_evd,     [PTAH_PACKET_BBP] = take_bbp,
	    [PTAH_PACKET_BIP] = take_bip,     [PTAH_PACKET_BEP] = take_bep,
	    [PTAH_PACKET_TRIG] = take_trig,
	};

	if (!takers[packet->type])
		return false;
	takers[packet->type](d, packet, offset);
	return true;
}
