/* SPDX-License-Identifier: MIT */
/*
 * Reads items ahead from an event decoder, so that query and event decoders can look at what
 * follows.
 */
#include "item_stream.h"
#include "pt_error.h"

int stream_init(struct stream *stream, const struct pt_config *config)
{
	struct ptah_event_config events;
	int status = config_copy(&stream->config, config);

	if (status < 0)
		return status;
	config_to_events(&events, &stream->config);
	events.unchanged = true;
	events.trace.event_trace = stream->config.user.flags.variant.query.enable_iflags_events;
	events.no_iflags = !events.trace.event_trace;
	return error_from_ptah(ptah_event_decoder_new(&events, &stream->events));
}

void stream_fini(struct stream *stream)
{
	ptah_event_decoder_free(stream->events);
}

void stream_begin(struct stream *stream, uint64_t offset)
{
	ptah_event_seek(stream->events, offset);
	/* This cannot fail: after a seek the decoder has nothing left of what was fed before. */
	(void)ptah_event_feed(stream->events, stream->config.user.begin + offset,
			      config_size(&stream->config) - (size_t)offset, true);
	stream->sync = offset;
	stream->synced = true;
	stream->ended = false;
	stream->first = stream->count = 0;
	stream->config.callback_error = 0;
}

int stream_find(const struct stream *stream, uint64_t from, uint64_t *psb)
{
	const uint8_t *begin = stream->config.user.begin, *end = stream->config.user.end;
	const uint8_t *found;

	if (from > config_size(&stream->config))
		return -pte_eos;
	found = ptah_packet_find_psb(begin + from, end);
	if (!found)
		return -pte_eos;
	*psb = (uint64_t)(found - begin);
	return 0;
}

int stream_find_last(const struct stream *stream, uint64_t before, uint64_t *psb)
{
	const uint8_t *begin = stream->config.user.begin;
	const uint8_t *found = ptah_packet_find_last_psb(begin, begin + before);

	if (!found)
		return -pte_eos;
	*psb = (uint64_t)(found - begin);
	return 0;
}

/* Moves the remaining items to the front and reads more after them. */
static void refill(struct stream *stream)
{
	/*
	 * With a callback, read one item at a time: it must not be called earlier than in libipt.
	 */
	const unsigned room = STREAM_ITEMS - stream->count;
	const unsigned capacity = stream->config.user.decode.callback ? 1 : room;
	int n;

	memmove(stream->items, stream->items + stream->first,
		stream->count * sizeof(*stream->items));
	stream->first = 0;
	n = ptah_event_read(stream->events, stream->items + stream->count, capacity);
	if (n > 0)
		stream->count += (unsigned)n;
	else
		stream->ended = true;
}

const struct ptah_item *stream_peek(struct stream *stream, unsigned n)
{
	while (stream->count <= n) {
		if (stream->ended)
			return NULL;
		refill(stream);
	}
	return &stream->items[stream->first + n];
}

const struct ptah_item *stream_next(struct stream *stream)
{
	const struct ptah_item *item = stream_peek(stream, 0), *behind = item;
	struct ptah_item overflow;
	unsigned n = 0;

	while (behind && (behind->type == PTAH_ITEM_CBR || behind->type == PTAH_ITEM_MNT) &&
	       n + 1 < STREAM_ITEMS)
		behind = stream_peek(stream, ++n);
	if (!n || !behind || behind->type != PTAH_ITEM_OVERFLOW ||
	    !(behind->flags & PTAH_ITEM_IP_SUPPRESSED))
		return stream_peek(stream, 0);
	/* Up to the first item that follows the OVF. */
	overflow = *behind;
	for (; n; n--) {
		struct ptah_item *to = &stream->items[stream->first + n];

		if (to[-1].offset < overflow.offset)
			break;
		to[0] = to[-1];
		to[-1] = overflow;
	}
	return stream_peek(stream, 0);
}

bool stream_believes(struct stream *stream)
{
	const struct ptah_item *next = stream_peek(stream, 1);
	const struct ptah_item *error = stream_peek(stream, 0);

	if (error->status != PTAH_E_BAD_CONTEXT || !next || next->offset != error->offset)
		return false;
	return next->type == PTAH_ITEM_ENABLED ||
	       (next->type == PTAH_ITEM_PSB && /* and is not cut by another OVF */
		position_of_error(&stream->config, error->offset) == error->offset);
}

bool stream_is_bad_overflow(struct stream *stream, struct ptah_item *error)
{
	const struct ptah_item *item = stream_peek(stream, 0), *behind = item;
	const uint64_t offset = item->offset;
	unsigned n = 0;

	if (item->type != PTAH_ITEM_OVERFLOW || !(item->flags & PTAH_ITEM_IP_SUPPRESSED))
		return false;
	do
		behind = stream_peek(stream, ++n);
	while (behind && (behind->type == PTAH_ITEM_CBR || behind->type == PTAH_ITEM_MNT) &&
	       n + 1 < STREAM_ITEMS);
	if (!behind || behind->type != PTAH_ITEM_ERROR ||
	    (behind->status != PTAH_E_BAD_CONTEXT && behind->status != PTAH_E_BAD_OPCODE &&
	     (behind->status !=
		  PTAH_E_BAD_PACKET || /* except for a PSB that is cut by the end of the trace */
	      config_check_psb(&stream->config, behind->offset) == -pte_eos)) ||
	    !position_is_overflow(&stream->config, offset, behind->offset))
		return false;
	*error = *behind;
	return true;
}

int stream_error(struct stream *stream, const struct ptah_item *item)
{
	return config_error(&stream->config, item->status);
}
