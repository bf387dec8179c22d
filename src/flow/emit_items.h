/* SPDX-License-Identifier: MIT */
/*
 * Puts what the flow has found into the caller's array: blocks and parts of them, events, gaps
 * and errors.
 */
#ifndef PTAH_FLOW_EMIT_ITEMS_H
#define PTAH_FLOW_EMIT_ITEMS_H

#include "flow/flow_machine.h"

static inline bool flow_is_full(const struct flow_output *out)
{
	return out->count == out->capacity;
}

/* Ends the batch here, so that the caller can act before the next item. */
static inline void flow_end_batch(struct flow_output *out)
{
	out->capacity = out->count;
}

/* Sets the flags and the time error that blocks carry from here on. */
void flow_set_head(struct ptah_flow *f, uint8_t tsc_error);

/* The flow takes the packet at `offset`: blocks carry its time and offset from now on. */
static ALWAYS_INLINE void flow_set_now(struct ptah_flow *f, uint64_t tsc, uint8_t tsc_error,
				       uint64_t offset)
{
	f->tsc = tsc;
	f->offset = offset;
	if (UNLIKELY(tsc_error != f->tsc_error))
		flow_set_head(f, tsc_error);
}

static ALWAYS_INLINE struct ptah_item *flow_emit_block(struct ptah_flow *f, struct flow_output *out,
						       const struct code_node *node)
{
	struct ptah_item *item = &out->items[out->count++];

	flow_put_block(item, node, f->head, (word_pair){f->tsc, f->offset});
	return item;
}

/* Emits a node's first `ninsn` instructions, which end at `end`. */
void flow_emit_part(struct ptah_flow *f, struct flow_output *out, const struct code_node *node,
		    uint64_t end, unsigned ninsn, unsigned last_size);

/* Whether the caller wants items of this type. */
static inline bool flow_reports(const struct ptah_flow *f, unsigned type)
{
	return !f->no_events || type == PTAH_ITEM_BLOCK || type == PTAH_ITEM_GAP ||
	       type == PTAH_ITEM_OVERFLOW || type == PTAH_ITEM_ERROR;
}

static inline void flow_emit_event(struct ptah_flow *f, struct flow_output *out,
				   const struct ptah_item *event)
{
	if (!flow_reports(f, event->type)) {
		f->hid_event = true;
		return;
	}
	out->items[out->count++] = *event;
	if (UNLIKELY(f->stop_at_events))
		flow_end_batch(out);
}

static inline void flow_lose_position(struct ptah_flow *f)
{
	f->positioned = false;
	f->node = NULL;
	f->tnt_count = 0;
	f->no_tnt_at = 0;
	f->stack_depth = f->old_calls = 0;
	f->gap_begun = f->has_proven = f->return_reported = f->far_known = f->keeps_stack = false;
}

/* Tracing is off: the TIP.PGE that follows says where execution is then. */
static inline void flow_stop_tracing(struct ptah_flow *f)
{
	flow_lose_position(f);
	f->seeks_place = false;
}

/* Adds the flow's place to an error item. */
void flow_put_place(const struct ptah_flow *f, struct ptah_item *error);

/* Emits an error at the current place. Decoding continues at the next safe place. */
void flow_emit_error(struct ptah_flow *f, struct flow_output *out, int status);

/* Emits a gap: no packet says what ran between `ip` and `to`. */
void flow_emit_gap(struct ptah_flow *f, struct flow_output *out, uint64_t ip, uint64_t to);

#endif
