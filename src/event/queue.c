/* SPDX-License-Identifier: MIT */
/* The queue of items that the caller has not read yet, and the events that wait to become items. */
#include "event/event.h"

struct ptah_item *event_push(struct ptah_event_decoder *d, unsigned type, uint64_t offset)
{
	struct ptah_item *item = &d->queue[(d->queue_first + d->queue_count++) % EVENT_QUEUE];

	memset(item, 0, sizeof(*item));
	item->type = (uint8_t)type;
	item->mode = d->mode;
	item->flags = d->in_tx ? PTAH_ITEM_SPECULATIVE : 0;
	item->tsc = d->tsc;
	item->tsc_error = d->tsc_error;
	item->offset = offset;
	return item;
}

void event_push_pending(struct ptah_event_decoder *d, const struct ptah_item *pending, bool has_ip,
			uint64_t ip)
{
	struct ptah_item *item;

	if (pending->type ==
	    PTAH_ITEM_TYPE_MAX) /* a CFE of unknown type: it only uses up its FUP */
		return;
	item = event_push(d, pending->type, pending->offset);
	item->flags |= pending->flags | (has_ip ? 0 : PTAH_ITEM_IP_SUPPRESSED);
	item->detail = pending->detail;
	item->count = pending->count;
	item->value = pending->value;
	item->to = pending->to;
	item->ip = has_ip ? ip : 0;
	if (item->type == PTAH_ITEM_TSX) /* its flags are those after the change */
		item->flags = (uint8_t)((item->flags & ~PTAH_ITEM_SPECULATIVE) |
					(pending->flags & PTAH_ITEM_SPECULATIVE));
}

void event_push_error(struct ptah_event_decoder *d, int status, uint64_t offset)
{
	event_push(d, PTAH_ITEM_ERROR, offset)->status = (int16_t)status;
}

void event_forget_pending(struct ptah_event_decoder *d)
{
	d->has_fup = d->has_mwait = d->has_mode = d->has_paging = d->has_vmcs = false;
	d->bound.count = d->follow.count = 0;
	d->data.type = 0;
	d->block = PTAH_BLOCK_NONE;
}

void event_conclude(struct ptah_event_decoder *d)
{
	switch (d->phase) {
	case EVENT_HEADER:
		/* An incomplete PSB+ is dropped; the overflow before it is reported. */
		if (d->header.overflow || d->header.doubt)
			event_resume(d, d->header.doubt, d->fup_ip);
		break;
	case EVENT_SETTLE:
		event_settle(d, true);
		event_give_up(d);
		break;
	case EVENT_OVERFLOW:
		event_resume(d, false, 0);
		break;
	case EVENT_DOUBT:
		event_resume_at_fup(d);
		break;
	case EVENT_RUN:
		event_give_up(d);
		break;
	default:
		break;
	}
}

void event_fail(struct ptah_event_decoder *d, int status, uint64_t offset)
{
	event_conclude(d);
	event_push_error(d, status, offset);
	event_forget_pending(d);
	/* CYC and MTC packets may be among the bytes up to the next PSB. */
	event_time_overflow(&d->time);
	event_set_time(d);
	d->phase = EVENT_UNSYNCED;
	d->enabled_known = d->mode_known = false;
}

bool event_reports_iflag(const struct ptah_event_decoder *d, uint8_t before, uint8_t now)
{
	if (d->config.no_iflags || (before == now && !d->config.unchanged))
		return false;
	return d->config.trace.event_trace || before == EVENT_IF_SET || now == EVENT_IF_SET;
}

static void set_mode(struct ptah_event_decoder *d, bool has_ip, uint64_t ip)
{
	const struct ptah_item *pending = &d->pending_mode;
	uint8_t iflag = pending->interrupts ? EVENT_IF_SET : EVENT_IF_CLEAR;

	d->mode_known = true;
	if (pending->mode != d->mode || d->config.unchanged) {
		struct ptah_item mode = *pending;

		mode.interrupts = 0;
		d->mode = pending->mode;
		event_push_pending(d, &mode, has_ip, ip);
	}
	if (event_reports_iflag(d, d->iflag, iflag)) {
		struct ptah_item flag = *pending;

		flag.type = PTAH_ITEM_IFLAGS;
		event_push_pending(d, &flag, has_ip, ip);
	}
	d->iflag = iflag;
}

void event_release_changes(struct ptah_event_decoder *d, bool has_ip, uint64_t ip)
{
	if (d->has_vmcs)
		event_push_pending(d, &d->vmcs, has_ip, ip);
	if (d->has_paging)
		event_push_pending(d, &d->paging, has_ip, ip);
	if (d->has_mode)
		set_mode(d, has_ip, ip);
	d->has_vmcs = d->has_paging = d->has_mode = false;
}

void event_wait(struct ptah_event_decoder *d, struct event_waiting *list,
		const struct ptah_item *item)
{
	if (list->count == EVENT_BOUND) /* damage: no processor sends so many */
		event_fail(d, PTAH_E_BAD_CONTEXT, item->offset);
	else
		list->items[list->count++] = *item;
}

void event_deliver(struct ptah_event_decoder *d, struct event_waiting *list, bool has_ip,
		   uint64_t ip)
{
	for (unsigned i = 0; i < list->count; i++) {
		/* RSM and SIPI: the source of the branch is code that is never traced. */
		bool none =
		    list->items[i].type == PTAH_ITEM_RSM || list->items[i].type == PTAH_ITEM_SIPI;

		event_push_pending(d, &list->items[i], has_ip && !none, ip);
	}
	list->count = 0;
}

void event_give_up(struct ptah_event_decoder *d)
{
	if (d->has_mwait)
		event_push_pending(d, &d->mwait, false, 0);
	d->has_mwait = false;
	event_deliver(d, &d->bound, false, 0);
	event_deliver(d, &d->follow, false, 0);
}
