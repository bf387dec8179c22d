/* SPDX-License-Identifier: MIT */
/*
 * Going on behind code that could not be followed, before the next PSB: packets
 * are understood all the while, and some of them tell where the program was.
 */
#include "flow/move.h"

/* Has the event an address that the program came to? */
static bool tells_ip(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_ASYNC_DISABLED: /* suppressed is where it went */
		return true;
	case PTAH_ITEM_PSB: /* these three stand where they say by themselves, */
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_DISABLED: /* these have none, */
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_TICK:
	case PTAH_ITEM_TRIGGER: /* and this is counted from elsewhere */
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
	if (f->tip_lost) /* on the way to the branch that it is of */
		flow_stand_at(f, f->event.to);
	return 0;
}
