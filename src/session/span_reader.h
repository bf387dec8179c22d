/* SPDX-License-Identifier: MIT */
/* Reads a stream as spans (<ptah/flow.h>), by the caller's thread or by several. */
#ifndef PTAH_SESSION_SPAN_READER_H
#define PTAH_SESSION_SPAN_READER_H

#include "session/call_segments.h"
#include "session/parallel_reader.h"
#include "session/span_times.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

/*
 * Spans, or items that are no blocks; of a session with a window, items of all kinds. Or a summary
 * of the calls in a segment: the caller passes it to span_reader_join().
 */
struct span_batch {
	struct calls_summary *summary;
	struct ptah_span *spans;
	size_t span_count;
	struct ptah_item *items;
	size_t item_count;
	uint64_t generation; /* of the image from which they were decoded */
};

#define SPAN_ITEMS 256
#define SPAN_BATCH 256

struct span_reader {
	struct ptah_reader *reader;
	struct call_segments *calls; /* the jobs summarize calls; or NULL */
	bool windowed;
	bool begun; /* something of the window was read */
	bool event_spans;
	bool summarized; /* the segment's summary has been returned */
	struct span_times times;
	struct span_batch left; /* of what was read to find a place */
	struct ptah_span spans[SPAN_BATCH];
	struct ptah_item items[SPAN_ITEMS];
};

/*
 * Spans end where these functions' bounds are. jobs: as of ptah_reader_new(). trees: there may be
 * summaries, for such a tree; NULL: there are none. event_spans: events may be among the spans
 * (flow_read_event_spans()). estimates: times between stamps are estimated.
 */
int span_reader_open(struct span_reader *r, const struct ptah_session *session, size_t index,
		     const struct ptah_jobs *jobs, struct ptah_functions *functions,
		     const struct ptah_call_tree_config *trees, bool event_spans, bool estimates);
void span_reader_close(struct span_reader *r);

/*
 * From now on the spans of a stream that is read without a span reader end where these functions'
 * bounds are. event_spans: events may be among them.
 */
int span_reader_bound(struct stream_decoder *s, struct ptah_functions *functions, bool event_spans);

/* 1: the next batch, which is valid until the next call; 0: the end; or an error. */
int span_reader_next(struct span_reader *r, struct span_batch *batch);

/*
 * Joins the summary that was returned, which is no longer valid then. If it does not fit, or only
 * its beginning, what is left comes as spans and items. Error items that were joined are added to
 * *errors. `whole`: not even its beginning may be joined.
 */
int span_reader_join(struct span_reader *r, struct calls_adder *adder, bool whole,
		     uint64_t *errors);

/* A window begins behind this item, and may have to know what led to it. */
void span_reader_skipped(struct stream_decoder *s, const struct ptah_item *item);

#endif
