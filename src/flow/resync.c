/* SPDX-License-Identifier: MIT */
/*
 * Continuing after code that could not be followed, without waiting for the next PSB: packets are
 * understood all the time, and some of them carry the address that the program had reached.
 */
#include "flow/move.h"

/* Does the event carry an address that the program had reached? */
static bool tells_ip(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_ASYNC_DISABLED: /* its suppressed address is the one execution went to */
		return true;
	case PTAH_ITEM_PSB: /* these three set the place themselves, */
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_DISABLED: /* these have no address, */
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_TICK:
	case PTAH_ITEM_TRIGGER: /* and this one's address is that of an earlier instruction */
		return false;
	default:
		return !(event->flags & (PTAH_ITEM_IP_SUPPRESSED | PTAH_ITEM_STATUS));
	}
}

bool flow_find_place(struct ptah_flow *f)
{
	const bool tip = f->event.type == PTAH_ITEM_TIP;

	if (!tip && !tells_ip(&f->event))
		return false;
	flow_stand_at(f, tip ? f->event.to : f->event.ip);
	return true;
}

bool flow_can_resync(const struct ptah_item *item)
{
	if (item->type != PTAH_ITEM_ERROR)
		return false;
	switch (item->status) {
	case PTAH_E_NO_CODE:
	case PTAH_E_BAD_INSN:
	case PTAH_E_MISMATCH:
	case PTAH_E_BAD_RETCOMP:
	case PTAH_E_NO_PROGRESS:
		return true;
	default:
		return false;
	}
}

int ptah_flow_resync(struct ptah_flow *f)
{
	if (!f || !f->at_error)
		return PTAH_E_INVAL;
	f->at_error = false;
	f->seeks_place = !f->tip_lost;
	if (f->tip_lost) /* the error came before the branch that the TIP belongs to */
		flow_stand_at(f, f->event.to);
	return 0;
}
