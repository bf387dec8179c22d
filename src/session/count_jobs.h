/* SPDX-License-Identifier: MIT */
/*
 * Threads that count the streams of a session. Each has one decoder, with which it counts one share
 * after the other (shares.h); it expands the counts when there is no share for it any more or it
 * changes to another stream, and not for every share, because that takes time in proportion to the
 * code that ran. Then the jobs merge neighbouring sums in pairs.
 */
#ifndef PTAH_SESSION_COUNT_JOBS_H
#define PTAH_SESSION_COUNT_JOBS_H

#include "session/shares.h"
#include "session/workers.h"

#include <pthread.h>
#include <stdatomic.h>

struct counting;

struct count_job {
	struct counting *counting;
	struct stream_decoder **s; /* its decoder */
	struct shared_stream *stream;
	struct partial *partial; /* what the decoder has counted; NULL: nothing */
	uint64_t position;	 /* the offset up to which the decoder has been */
};

struct counting {
	const struct ptah_session *session;
	struct job_streams *decoders; /* one for each job, kept afterwards */
	struct shared_stream *streams;
	size_t count;
	uint64_t slot;
	unsigned jobs; /* that were asked for, and at the end those that run */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t first;	     /* the first stream that the caller has not got yet */
	atomic_bool stop;    /* the jobs are to end; they hand over what they have */
	int status;	     /* negative: counting has failed */
	atomic_ullong bytes; /* of trace, done */
	pthread_t threads[MAX_JOBS];
	struct count_job job[MAX_JOBS];
};

/* Starts the jobs. The caller has filled in the members up to `jobs`. */
int counting_begin(struct counting *c);

/* Waits for the first stream to be counted, or for some bytes. Returns whether it is. */
bool counting_wait(struct counting *c, uint64_t seen);

/* 0, or the error with which counting has failed. */
int counting_status(struct counting *c);

/* The first stream is not needed any more. */
void counting_next(struct counting *c);

/* Stops the jobs and waits for them. What they have counted is in the streams. */
void counting_stop(struct counting *c);
void counting_free(struct counting *c);

#endif
