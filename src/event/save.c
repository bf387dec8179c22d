/* SPDX-License-Identifier: MIT */
/* Copies of an event decoder's state, to go back to: without the members that are not in use. */
#include "event/event.h"

#include <string.h>

/* How many bytes of `state`, a state of the decoder d, are in use. (Its window may be d's carry.)
 */
static size_t size_of(const struct ptah_event_decoder *state, const struct ptah_event_decoder *d)
{
	if (state->held_count || state->state_count || state->queue_count ||
	    (uintptr_t)state->end - (uintptr_t)d->carry <= sizeof(d->carry))
		return sizeof(*state);
	return offsetof(struct ptah_event_decoder, held);
}

void event_save(const struct ptah_event_decoder *d, struct ptah_event_decoder *copy)
{
	memcpy(copy, d, size_of(d, d));
}

void event_restore(struct ptah_event_decoder *d, const struct ptah_event_decoder *copy)
{
	memcpy(d, copy, size_of(copy, d));
}
