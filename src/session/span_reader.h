/* SPDX-License-Identifier: MIT */
/* Reads a stream as spans (<ptah/flow.h>), by the caller's thread or by several. */
#ifndef PTAH_SESSION_SPAN_READER_H
#define PTAH_SESSION_SPAN_READER_H

#include "session/parallel_reader.h"

#include <ptah/functions.h>

/* Spans, or items that are no blocks; of a session with a window, items of all kinds. */
struct span_batch {
	struct ptah_span *spans;
	size_t span_count;
	struct ptah_item *items;
	size_t item_count;
};

#define SPAN_ITEMS 256
#define SPAN_BATCH 256

struct span_reader {
	struct ptah_reader *reader;
	bool windowed;
	struct ptah_span spans[SPAN_BATCH];
	struct ptah_item items[SPAN_ITEMS];
};

/* Spans end where these functions' bounds are. jobs: as of ptah_reader_new(). */
int span_reader_open(struct span_reader *r, const struct ptah_session *session, size_t index,
		     const struct ptah_jobs *jobs, struct ptah_functions *functions);
void span_reader_close(struct span_reader *r);

/* 1: the next batch, which is valid until the next call; 0: the end; or an error. */
int span_reader_next(struct span_reader *r, struct span_batch *batch);

#endif
