/* SPDX-License-Identifier: MIT */
/* Errors of the flow as libipt's error codes. */
#include "walk_parts.h"

#include "pt_error.h"
#include "position.h"

bool walk_is_believed(struct walk *w)
{
	const struct ptah_item *behind = w->items.next + 1;

	return w->items.next->status == PTAH_E_BAD_CONTEXT && walk_is_item(w, &behind) &&
	       (behind->type == PTAH_ITEM_ENABLED || behind->type == PTAH_ITEM_PSB) &&
	       behind->offset == w->items.next->offset;
}

/* Whether the error is about the code at a place, and not about a packet. */
static bool is_of_code(int status)
{
	return status <= PTAH_E_NO_CODE || status == PTAH_E_INVAL; /* the mode is unknown */
}

/* Whether the query that failed used the packet of this error. */
static bool is_used(int status)
{
	return status == PTAH_E_BAD_RETCOMP || status == PTAH_E_NO_IP;
}

int walk_code_error(struct walk *w, int partly)
{
	struct ptah_space space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	uint8_t bytes[pt_max_insn_size];

	ptah_flow_space(w->flow, w->stop.place.space, &space);
	if (ptah_image_read(image_ptah(w->image), w->stop.place.ip, bytes, sizeof(bytes), &space))
		return partly;
	return image_missing(w->image, w->stop.place.ip, &space);
}

bool walk_find_missed(struct walk *w, const struct ptah_item **item)
{
	const uint64_t offset = (*item)->offset;

	if (!is_of_code((*item)->status))
		return false;
	++*item;
	if (!walk_is_item(w, item) || (*item)->type == PTAH_ITEM_BLOCK || (*item)->offset != offset)
		return false;
	if ((*item)->type != PTAH_ITEM_PSB)
		return true;
	++*item; /* continue to the first event of its PSB+ */
	return walk_is_item(w, item) && (*item)->flags & PTAH_ITEM_STATUS &&
	       (*item)->type != PTAH_ITEM_PSB && (*item)->type != PTAH_ITEM_BLOCK;
}

void walk_meet_error(struct walk *w)
{
	const struct ptah_item *item = w->items.next;
	const int status = item->status;

	w->stop.place = (struct ptah_place){
	    .ip = item->ip, .mode = item->mode, .space = (uint16_t)item->code.space};
	w->stop.used_up = walk_used_up(w);
	w->stop.is_item = true;
	w->stop.offset = is_of_code(status) || is_used(status) ? UINT64_MAX : item->offset;
	switch (status) {
	case PTAH_E_NO_CODE:
		w->stop.error = walk_code_error(w, -pte_bad_insn);
		break;
	case PTAH_E_MISMATCH:
		w->stop.error = walk_code_error(w, -pte_bad_query);
		break;
	case PTAH_E_INVAL:
		w->stop.error = -pte_bad_insn;
		break;
	case PTAH_E_BAD_RETCOMP:
		w->stop.error =
		    item->flags & PTAH_ITEM_TAKEN ? -pte_retstack_empty : -pte_bad_retcomp;
		break;
	default:
		w->stop.error = config_error(&w->config, status);
		break;
	}
	w->stop.eos_told = w->stop.error == -pte_eos &&
			   position_kind(&w->config, item->offset) == POSITION_READ_OVER;
	w->stop.item = *item;
	if (walk_find_missed(w, &item)) {
		w->position.was_at_last = walk_is_tied(w, &item);
		w->position.was = *item;
		w->position.now = NULL;
	}
}

int walk_refuse(struct walk *w, unsigned insn_class)
{
	/* An address where an outcome is needed is the wrong kind of packet for libipt. */
	if (insn_class == PTAH_INSN_COND && w->stop.is_item &&
	    w->stop.item.status > PTAH_E_NO_CODE &&
	    position_kind(&w->config, w->stop.item.offset) == POSITION_ADDRESS)
		return -pte_bad_query;
	return walk_fail(w);
}

int walk_fail(struct walk *w)
{
	/* While tracing is off no branch is queried. */
	if (!w->state.enabled && w->stop.is_item && w->stop.offset != UINT64_MAX) {
		const enum position_kind kind = position_kind(&w->config, w->stop.offset);

		if (kind == POSITION_OUTCOMES || kind == POSITION_ADDRESS)
			return -pte_no_enable;
	}
	if (w->stop.is_item && is_used(w->stop.item.status)) {
		w->position.was = w->stop.item;
		w->position.was_at_last = false;
		w->position.now = NULL;
	}
	return w->stop.error;
}
