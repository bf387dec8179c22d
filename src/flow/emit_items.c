/* SPDX-License-Identifier: MIT */
/*
 * Puts what the flow has found into the caller's array: blocks and parts of them, events, gaps
 * and errors.
 */
#include "flow/emit_items.h"

#include <string.h>

NOINLINE void flow_set_head(struct ptah_flow *f, uint8_t tsc_error)
{
	const struct ptah_item item = {.flags = f->speculative, .tsc_error = tsc_error};

	f->tsc_error = tsc_error;
	memcpy(&f->head, &item, sizeof(f->head));
}

void flow_set_time(struct ptah_flow *f, uint64_t offset)
{
	flow_set_now(f, f->events->tsc, f->events->tsc_error, offset);
}

void flow_emit_part(struct ptah_flow *f, struct flow_output *out, const struct code_node *node,
		    uint64_t end, unsigned ninsn, unsigned last_size)
{
	struct ptah_item *item = flow_emit_block(f, out, node);

	item->flags |= PTAH_ITEM_TRUNCATED;
	item->insn_class = PTAH_INSN_OTHER;
	item->ninsn = (uint16_t)ninsn;
	item->last_size = (uint8_t)last_size;
	item->end = end;
}

void flow_put_place(const struct ptah_flow *f, struct ptah_item *error)
{
	error->mode = f->mode;
	error->code.space = f->code.space;
	if (f->positioned)
		error->ip = f->node ? f->node->ip : f->ip;
	else
		error->flags |= PTAH_ITEM_IP_SUPPRESSED;
}

void flow_emit_error(struct ptah_flow *f, struct flow_output *out, int status)
{
	struct ptah_item *item = &out->items[out->count++];
	const unsigned depth = f->stack_depth;
	const bool missing = status == PTAH_E_NO_CODE;
	const bool keeps =
	    missing && f->positioned && f->far_known && !f->node && f->ip == f->far_to;

	memset(item, 0, sizeof(*item));
	item->type = PTAH_ITEM_ERROR;
	item->status = (int16_t)status;
	item->tsc = f->tsc;
	item->tsc_error = f->tsc_error;
	item->offset = f->offset;
	flow_put_place(f, item);
	flow_lose_position(f);
	f->tip_lost = false;
	f->seeks_place = f->resync && flow_can_resync(item);
	f->lost_return = !f->seeks_place ? 0 : missing ? PTAH_E_NO_CODE : PTAH_E_BAD_RETCOMP;
	f->keeps_stack = f->seeks_place && keeps;
	f->kept_depth = depth;
	flow_end_batch(out); /* the caller may want to call ptah_flow_resync() */
}

void flow_emit_gap(struct ptah_flow *f, struct flow_output *out, uint64_t ip, uint64_t to)
{
	struct ptah_item *item = &out->items[out->count++];

	memset(item, 0, sizeof(*item));
	item->type = PTAH_ITEM_GAP;
	item->flags = f->speculative;
	item->mode = f->mode;
	item->ip = ip;
	item->to = to;
	item->tsc = f->tsc;
	item->tsc_error = f->tsc_error;
	item->offset = f->offset;
	f->gap_reported = true;
	f->stack_depth = 0;
	if (f->stop_at_events)
		flow_end_batch(out);
}
