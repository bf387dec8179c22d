/* SPDX-License-Identifier: MIT */
/* The items of a trace, with a look at those that follow: what query and event decoders share. */
#ifndef PTAH_LIBIPT_ITEM_STREAM_H
#define PTAH_LIBIPT_ITEM_STREAM_H

#include "pt_event.h"
#include "position.h"

#define STREAM_ITEMS 128

struct stream {
	struct config config;
	struct ptah_event_decoder *events;
	uint64_t sync; /* offset of the PSB at which reading began */
	bool synced;
	bool ended; /* there are no more items to read */
	unsigned first, count;
	struct ptah_item items[STREAM_ITEMS];
};

/* 0, -pte_nomem, or an error of config_copy(). */
int stream_init(struct stream *stream, const struct pt_config *config);
void stream_fini(struct stream *stream);

/* Begins at the PSB at `offset`. */
void stream_begin(struct stream *stream, uint64_t offset);

/*
 * The offset of a PSB or a negative error code: the first PSB at `from` or after it; the last
 * before `before`.
 */
int stream_find(const struct stream *stream, uint64_t from, uint64_t *psb);
int stream_find_last(const struct stream *stream, uint64_t before, uint64_t *psb);

/* The item after the next n, where n is less than STREAM_ITEMS. NULL: there is none. */
const struct ptah_item *stream_peek(struct stream *stream, unsigned n);

/*
 * The next item in libipt's order: an overflow that ended while tracing was off precedes what the
 * packets after it report.
 */
const struct ptah_item *stream_next(struct stream *stream);

/* Removes the next item. */
static inline void stream_drop(struct stream *stream)
{
	stream->first++;
	stream->count--;
}

/*
 * The next item is an overflow. Whether libipt takes it for an error. libipt looks for the packet
 * that resolves the overflow, and fails if it finds another. *error describes that packet.
 */
bool stream_is_bad_overflow(struct stream *stream, struct ptah_item *error);

/*
 * The next item is an error. Whether libipt accepts it. It accepts a TIP.PGE while tracing is on,
 * and a PSB+ that contradicts what was before.
 */
bool stream_believes(struct stream *stream);

/* libipt's code for the error item, which is the next. */
int stream_error(struct stream *stream, const struct ptah_item *item);

#endif
