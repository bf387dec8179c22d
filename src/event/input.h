/* SPDX-License-Identifier: MIT */
/* Chunks in, windows out. A packet cut by a chunk's end is joined in a small carry. */
#ifndef PTAH_EVENT_INPUT_H
#define PTAH_EVENT_INPUT_H

#include "event/event.h"

/*
 * More bytes behind the unread ones of the window. True when the window has
 * grown or moved; false when the caller must feed (or, after the last chunk,
 * when there is nothing more: then pos..end are the trace's last bytes).
 */
bool event_input_more(struct ptah_event_decoder *d);

/* True when the window's end is the trace's end. */
static inline bool event_input_at_last(const struct ptah_event_decoder *d)
{
	return d->last && !d->in_carry;
}

/* Makes n bytes (at most EVENT_CARRY) readable at `pos`, or all there are. False: feed. */
static inline bool event_input_have(struct ptah_event_decoder *d, size_t n)
{
	while ((size_t)(d->end - d->pos) < n && !event_input_at_last(d))
		if (!event_input_more(d) && !event_input_at_last(d))
			return false;
	return true;
}

#endif
