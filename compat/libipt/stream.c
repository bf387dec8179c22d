/* SPDX-License-Identifier: MIT */
#include "stream.h"
#include "error.h"

int stream_init(struct stream *stream, const struct pt_config *config)
{
	struct ptah_event_config events;
	int status = config_copy(&stream->config, config);

	if (status < 0)
		return status;
	config_to_events(&events, &stream->config);
	events.unchanged = true;
	events.iflags = stream->config.user.flags.variant.query.enable_iflags_events;
	return error_from_ptah(ptah_event_decoder_new(&events, &stream->events));
}

void stream_fini(struct stream *stream)
{
	ptah_event_decoder_free(stream->events);
}

void stream_begin(struct stream *stream, uint64_t offset)
{
	ptah_event_seek(stream->events, offset);
	/* Always as much as there is: nothing is left over for a second time. */
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

int stream_check(const struct stream *stream, uint64_t offset)
{
	const uint8_t *begin = stream->config.user.begin;
	const size_t size = config_size(&stream->config);
	struct ptah_packet packet;
	int status;

	if (offset > size || size - offset < 2)
		return -pte_eos;
	if (begin[offset] != 0x02 || begin[offset + 1] != 0x82)
		return -pte_nosync;
	status = ptah_packet_decode(&packet, begin + offset, size - (size_t)offset, 0);
	return error_from_ptah(status);
}

/* Puts what is left at the front, and more behind it. */
static void refill(struct stream *stream)
{
	/* A callback is not asked before its time. */
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

bool stream_believes(struct stream *stream)
{
	const struct ptah_item *next = stream_peek(stream, 1);
	const struct ptah_item *error = stream_peek(stream, 0);

	return error->status == PTAH_E_BAD_CONTEXT && next && next->offset == error->offset &&
	       (next->type == PTAH_ITEM_ENABLED || next->type == PTAH_ITEM_PSB);
}

int stream_error(struct stream *stream, const struct ptah_item *item)
{
	if (item->status == PTAH_E_BAD_OPCODE && stream->config.callback_error)
		return stream->config.callback_error;
	return error_from_ptah(item->status);
}
