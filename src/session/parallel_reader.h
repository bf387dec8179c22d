/* SPDX-License-Identifier: MIT */
/*
 * Reads one stream segment by segment, in order, while jobs decode the segments ahead. The public
 * reader (parallel_reader.c) and verify.c use it, each with a function of its own for the jobs.
 */
#ifndef PTAH_SESSION_PARALLEL_READER_H
#define PTAH_SESSION_PARALLEL_READER_H

#include "session/pool.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

/* The most chunks that a segment may fill: 12 MB. The caller's thread reads segments with more. */
#define MAX_CHUNKS 256

struct call_segments;
struct segments;

struct ptah_reader {
	const struct ptah_session *session;
	size_t index;
	/*
	 * Reads the stream if there are no jobs, and otherwise again the segments that do not fit.
	 * Its image has all code.
	 */
	struct stream_decoder *s;
	struct ptah_workers *workers; /* whose `reader` `s` is, or NULL */
	bool alone;
	struct ptah_functions *functions; /* with these it reads spans (span_reader.c), or NULL */
	struct call_segments *calls;	  /* with these the jobs summarize calls, or NULL */
	struct segments *segments;	  /* with these the jobs work on segments, or NULL */
	struct ptah_segment *segment;	  /* it reads the items of this one only, or NULL */

	struct pool pool;
	struct task *task; /* the segment whose results are being read */
	struct task last;  /* the segment before it, without its results */
	bool again;	   /* `s` reads the segment again, or is at its end */
	size_t next;	   /* index of the next item in the task's first chunk */
	uint64_t offset;
	int status; /* negative: the reader has failed */
};

/*
 * segment: the size of segments, if the jobs do not set it. run is the pool's: nothing need be
 * counted.
 */
int reader_open(const struct ptah_session *session, size_t index, const struct ptah_jobs *jobs,
		uint64_t segment,
		int (*run)(struct pool *pool, struct stream_decoder *s, struct task *task),
		struct ptah_functions *functions, struct call_segments *calls,
		struct ptah_reader **reader);

/*
 * The same in two steps, for a caller that fills in more of the reader before the jobs begin, which
 * is when reader_begin() has not set `alone`.
 */
int reader_make(const struct ptah_session *session, size_t index, const struct ptah_jobs *jobs,
		uint64_t segment,
		int (*run)(struct pool *pool, struct stream_decoder *s, struct task *task),
		struct ptah_reader **reader);
void reader_begin(struct ptah_reader *r);

/*
 * Whether an item has a number of an address space. A flow numbers spaces as it meets them, so the
 * numbers of a flow that began elsewhere differ.
 */
bool reader_has_space(const struct ptah_item *items, int n);

/* Brings `s` to the end of the last segment, unless it is there, to read the present one. */
int reader_go_after_last(struct ptah_reader *r);

/* segment_reader.c: reads the items of a segment. */
int segment_read(struct ptah_segment *segment, struct ptah_item *items, size_t capacity);

/*
 * Goes to the next segment. False: there is none, or `status` is an error. The segment's results
 * are in the task or, if `again`, `s` is to read up to its stop.
 */
bool reader_next_task(struct ptah_reader *r);

/* The segment has been read. */
void reader_end_task(struct ptah_reader *r);

/*
 * What a worker has made of the segment is of no use, or only in part: `s` goes to the segment's
 * beginning, to read it again.
 */
int reader_read_again(struct ptah_reader *r);

/* How many more core cycles the stream has than the worker has counted. */
uint64_t reader_more_cycles(const struct ptah_reader *r);

/* Another chunk for a task's results. NULL: out of memory, or too many. */
struct chunk *reader_new_chunk(struct pool *pool, struct task *task);

#endif
