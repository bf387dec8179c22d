/* SPDX-License-Identifier: MIT */
/* The input of the event decoder: chunks that the caller feeds, read through a window. The bytes of
 * a packet that lies across two chunks are joined in a small buffer, the carry. */
#ifndef PTAH_EVENT_INPUT_H
#define PTAH_EVENT_INPUT_H

#include "event/event.h"

/*
 * Gets more bytes after the unread ones of the window. True when the window has grown or
 * moved. False when the caller must feed, or, after the last chunk, when there are no more
 * bytes: then [pos, end) are the last bytes of the trace.
 */
bool event_input_more(struct ptah_event_decoder *d);

/* True when the window's end is the trace's end. */
static inline bool event_input_at_last(const struct ptah_event_decoder *d)
{
	return d->last && !d->in_carry;
}

/* Makes n bytes (at most EVENT_CARRY) readable at `pos`, or all that the trace still has. False
 * when the caller must feed first. */
static inline bool event_input_have(struct ptah_event_decoder *d, size_t n)
{
	while ((size_t)(d->end - d->pos) < n && !event_input_at_last(d))
		if (!event_input_more(d) && !event_input_at_last(d))
			return false;
	return true;
}

#endif
