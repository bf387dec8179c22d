/* SPDX-License-Identifier: MIT */
/* Going through the segments of one stream, for those who read it with threads. */
#ifndef PTAH_SESSION_PARALLEL_READER_H
#define PTAH_SESSION_PARALLEL_READER_H

#include "session/pool.h"

/* What one segment may lead to: 12 MB. With more it is the caller's. */
#define MAX_CHUNKS 256

struct ptah_reader {
	const struct ptah_session *session;
	size_t index;
	/* Alone, or what reads again a segment that does not fit; its image knows all code. */
	struct ptah_stream *s;
	struct ptah_workers *workers; /* whose `reader` that is, or NULL */
	bool alone;

	struct pool pool;
	struct task *task; /* whose results are being read */
	struct task last;  /* the one before it, without its results */
	bool again;	   /* `s` reads it, or stands where it ended */
	size_t next;	   /* item of the task's first chunk */
	uint64_t offset;
	int status; /* < 0: the end */
};

/* `segment`: its size, if the jobs do not say. `run` is the pool's: nothing need be counted. */
int reader_open(const struct ptah_session *session, size_t index, const struct ptah_jobs *jobs,
		uint64_t segment,
		int (*run)(struct pool *pool, struct ptah_stream *s, struct task *task),
		struct ptah_reader **reader);

/*
 * On to the next segment. False: there is none, or an error is in `status`. Its
 * results are the task's or, if `again`, `s` is to read on to where it stops.
 */
bool reader_next_task(struct ptah_reader *r);

/* It has been read. */
void reader_end_task(struct ptah_reader *r);

/* One more chunk for a task's results; NULL: no memory, or too many. */
struct chunk *reader_new_chunk(struct pool *pool, struct task *task);

#endif
