/* SPDX-License-Identifier: MIT */
/*
 * The input of the event decoder. The window [pos, end) is one of two: the caller's chunk
 * itself, or the carry, which holds `carry_old` bytes from chunks before and then a copy of
 * the beginning of the chunk. Once the decoder has used the old bytes, the window moves
 * from the carry to the chunk.
 */
#include "event/input.h"

static void use_chunk(struct ptah_event_decoder *d, size_t from)
{
	uint64_t offset = event_offset(d, d->pos);

	d->in_carry = false;
	/* Without a chunk both are NULL, to which C does not even allow adding 0. */
	d->pos = d->chunk ? d->chunk + from : NULL;
	d->end = d->chunk ? d->chunk + d->chunk_size : NULL;
	d->end_offset = offset + (d->chunk_size - from);
}

/* Moves the unread bytes to the beginning of the carry: the caller's chunk is used up. */
static void keep_unread_bytes(struct ptah_event_decoder *d)
{
	size_t left = (size_t)(d->end - d->pos);

	memmove(d->carry, d->pos, left);
	d->pos = d->carry;
	d->end = d->carry + left;
	d->carry_old = left;
	d->in_carry = false;
	d->chunk = NULL;
	d->chunk_size = 0;
}

bool event_input_more(struct ptah_event_decoder *d)
{
	if (d->in_carry) {
		size_t used = (size_t)(d->pos - d->carry);

		if (used >= d->carry_old) {
			use_chunk(d, used - d->carry_old);
			return true;
		}
		/* Old bytes are left, and the packet needs more than was copied after them. */
		if ((size_t)(d->end - d->carry) - d->carry_old < d->chunk_size) {
			size_t joined = (size_t)(d->end - d->carry) - d->carry_old;
			size_t left = (size_t)(d->end - d->pos);
			size_t more = d->chunk_size - joined;

			memmove(d->carry, d->pos, left);
			d->carry_old -= used;
			if (more > EVENT_CARRY - left)
				more = EVENT_CARRY - left;
			memcpy(d->carry + left, d->chunk + joined, more);
			d->pos = d->carry;
			d->end = d->carry + left + more;
			d->end_offset += more;
			return more > 0;
		}
		if (d->last) { /* the carry holds the trace's end */
			d->in_carry = false;
			return false;
		}
		keep_unread_bytes(d);
		return false;
	}
	if (!d->last)
		keep_unread_bytes(d);
	return false;
}

int ptah_event_feed(struct ptah_event_decoder *d, const void *bytes, size_t n, bool last)
{
	size_t left, more;

	if (!d || (!bytes && n) || d->last)
		return PTAH_E_INVAL;
	if (d->in_carry || d->chunk || d->queue_count)
		return PTAH_E_BUSY;
	d->last = last;
	d->chunk = bytes;
	d->chunk_size = n;
	left = (size_t)(d->end - d->pos);
	if (!left) {
		d->pos = d->end = d->carry;
		use_chunk(d, 0);
		return 0;
	}
	more = n < EVENT_CARRY - left ? n : EVENT_CARRY - left;
	if (more)
		memcpy(d->carry + left, bytes, more);
	d->end += more;
	d->end_offset += more;
	d->in_carry = true;
	return 0;
}
