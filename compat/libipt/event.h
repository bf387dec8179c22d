/* SPDX-License-Identifier: MIT */
/*
 * Ptah's items as libipt's events. One item may become several events, or none:
 * Ptah tells a PSB+ as one item, libipt what its packets say.
 */
#ifndef PTAH_LIBIPT_EVENT_H
#define PTAH_LIBIPT_EVENT_H

#include "config.h"

/* A PSB+ says at most enabled, mode, TSX, CR3, VMCS, ratio. */
#define EVENT_MAX 16

/* Events that wait to be fetched, oldest first. */
struct event_queue {
	unsigned first, count;
	struct pt_event events[EVENT_MAX];
};

/* What a decoder must remember between items; all 0 to begin with. */
struct event_state {
	unsigned mode; /* enum ptah_exec_mode last told */
};

/*
 * Puts what libipt tells of an item behind the queue, which has room for it
 * (the caller empties it first). Blocks, branches and errors become nothing.
 */
void event_from_item(struct event_queue *queue, struct event_state *state,
		     const struct config *config, const struct ptah_item *item);

/* The oldest event to the caller, whose struct has `size` bytes; the queue is not empty. */
int event_take(struct event_queue *queue, struct pt_event *event, size_t size);

#endif
