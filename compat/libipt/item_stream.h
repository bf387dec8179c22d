/* SPDX-License-Identifier: MIT */
/*
 * The items of a trace, looked at before they are used: what query and event
 * decoders have in common.
 */
#ifndef PTAH_LIBIPT_ITEM_STREAM_H
#define PTAH_LIBIPT_ITEM_STREAM_H

#include "pt_event.h"
#include "position.h"

#define STREAM_ITEMS 128

struct stream {
	struct config config;
	struct ptah_event_decoder *events;
	uint64_t sync; /* offset of the PSB where it has begun */
	bool synced;
	bool ended; /* no more items will come */
	unsigned first, count;
	struct ptah_item items[STREAM_ITEMS];
};

/* 0, -pte_nomem, or what config_copy() says. `flags`: enable_iflags_events. */
int stream_init(struct stream *stream, const struct pt_config *config);
void stream_fini(struct stream *stream);

/* Begins at the PSB at `offset`. */
void stream_begin(struct stream *stream, uint64_t offset);

/*
 * The offset of a PSB, or a negative error code: the first at `from` or behind,
 * the last before `before`.
 */
int stream_find(const struct stream *stream, uint64_t from, uint64_t *psb);
int stream_find_last(const struct stream *stream, uint64_t before, uint64_t *psb);

/* The item behind n others, which must be less than STREAM_ITEMS; NULL: there is none. */
const struct ptah_item *stream_peek(struct stream *stream, unsigned n);

/*
 * The next item, as libipt orders them: an overflow that ended while tracing was
 * off comes before what the packets behind it said.
 */
const struct ptah_item *stream_next(struct stream *stream);

/* Done with the next item. */
static inline void stream_drop(struct stream *stream)
{
	stream->first++;
	stream->count--;
}

/*
 * Is the next item, an overflow, an error to libipt? It looks for what settles
 * the overflow, and tells what it finds instead. *error is at that packet.
 */
bool stream_is_bad_overflow(struct stream *stream, struct ptah_item *error);

/*
 * Is the next item, an error, none to libipt? It believes a TIP.PGE while tracing
 * is on, and a PSB+ that does not agree with what was before.
 */
bool stream_believes(struct stream *stream);

/* What the error item `item`, the next, is to libipt. */
int stream_error(struct stream *stream, const struct ptah_item *item);

#endif
