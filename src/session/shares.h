/* SPDX-License-Identifier: MIT */
/*
 * How jobs divide the streams of a session between them. A share is a part of a stream that one
 * decoder counts from its beginning to its end. It begins at a PSB, ends where the next share
 * begins, and is claimed slot by slot, so that a job without work can take the second half of what
 * nobody has claimed yet. A job that reaches a share which nobody has begun makes it a part of its
 * own: where there is no seam, nothing needs to be proved.
 *
 * A seam is proved by the job that reaches it: the next share must begin in exactly the state in
 * which this one ends. If it does not (its PSB+ did not carry all of the state, or was none), the
 * job goes on into it, and what was counted from the wrong beginning is dropped. That is all of a
 * partial sum, whose other shares are counted again. A stream in which that happens often (a
 * damaged trace, or one without PSBs) is not divided further: two jobs could drop each other's sums
 * for ever.
 *
 * All functions are called with the lock of the struct counting (count_jobs.c).
 */
#ifndef PTAH_SESSION_SHARES_H
#define PTAH_SESSION_SHARES_H

#include "session/stream.h"

/* What one decoder has counted of a stream: one share, or several. */
struct partial {
	struct partial *next; /* in the stream's list of those that were handed over */
	bool spoiled;	      /* a share of it began in the wrong state: nothing of it is used */
	bool merging;	      /* a job merges it with its neighbour */
	uint64_t from;	      /* where its first share begins, by which the list is sorted */
	struct profile_part part; /* once it was handed over; its totals are in the shares */
};

struct share {
	struct share *next;	 /* in the order of the stream */
	struct share *all;	 /* the next one in the list of all that were ever made */
	struct partial *partial; /* that its counts belong to */
	uint64_t from;		 /* it is searched for from here on, up to where the next one is */
	uint64_t claimed;	 /* nobody else takes what precedes this offset */
	bool taken;		 /* a job counts it, or has counted it */
	bool found;		 /* `segment` is known */
	bool done;
	bool removed;  /* the share before it has taken over its part of the stream */
	bool verified; /* it begins in the state in which the share before it ended ... */
	bool timed;    /* ... and at the same time */
	struct segment segment;
	struct ptah_profile_totals totals; /* errors, overflows and gaps, once it is done */
	struct ptah_space error_space;	   /* the address space of the first error */
};

/* A stream that is to be counted. */
struct shared_stream {
	size_t index; /* in the session */
	uint64_t bytes;
	bool whole;	/* it can only be counted from the beginning to the end */
	bool undivided; /* shares_restart() was called: it is not cut again */
	bool opened;
	unsigned failures; /* shares that had no beginning, or a wrong one */
	struct share *first, *all;
	size_t unfinished;	  /* shares that are not done */
	size_t busy;		  /* jobs that have a share of it, be it one that was removed */
	size_t open_partials;	  /* partial sums that were begun and not handed over */
	struct partial *partials; /* handed over */
};

/* Cuts a stream into so many shares at most, of a slot at least. 0 or PTAH_E_NOMEM. */
int shares_open(struct shared_stream *stream, unsigned most, uint64_t slot);
void shares_free(struct shared_stream *stream);

/* A share that nobody has taken, or NULL. It is taken now. */
struct share *shares_take(struct shared_stream *stream);

/*
 * The share of which most is unclaimed, and how much that is. NULL: none has any, or so many shares
 * of the stream have failed that no more are made.
 */
#define SHARES_MOST_FAILURES 32

struct share *shares_largest(const struct shared_stream *stream, uint64_t *bytes);

/*
 * Whether it is known of all shares where they begin. Then what is left of them only becomes less.
 */
bool shares_are_found(const struct shared_stream *stream);

/* Takes the second half of what is left of a share. NULL: out of memory. */
struct share *shares_split(struct shared_stream *stream, struct share *share);

/* Where a share ends: the `from` of the next one; UINT64_MAX: at the end of the stream. */
uint64_t shares_end(const struct share *share);

/* The share has no beginning: its part of the stream belongs to the share before it. */
void shares_remove(struct shared_stream *stream, struct share *share);

/* What a job is to do next with a share of which it has counted everything up to `reached`. */
enum share_step {
	SHARE_COUNT, /* count up to *stop */
	SHARE_WAIT,  /* for the job that looks for the beginning of the next share */
	SHARE_PROVE, /* shares_prove() */
	SHARE_DONE,  /* shares_finish(); there is nothing after it */
};

enum share_step shares_step(struct shared_stream *stream, struct share *share, uint64_t reached,
			    uint64_t slot, uint64_t *stop);

/*
 * A share has been counted up to the beginning of the next one, and ended in this state, after so
 * many changes of the image. True: the next one follows. False: it is removed, and this one goes
 * on. `later`: how many changes of the image there are in all.
 */
bool shares_prove(struct shared_stream *stream, struct share *share, const struct flow_state *end,
		  size_t changes, size_t later);

void shares_finish(struct shared_stream *stream, struct share *share);

/*
 * The partial sum is of no use: its finished shares are to be counted again. The job that is adding
 * to it finds out by `spoiled`, and calls shares_abandon() for the share that it is counting.
 */
void shares_spoil(struct shared_stream *stream, struct partial *partial);
void shares_abandon(struct share *share);

/*
 * A job did not reach the state at the beginning of a share that it should count again. Everything
 * is dropped, and one job counts the stream from its beginning to its end. 0 or PTAH_E_NOMEM.
 */
int shares_restart(struct shared_stream *stream);

/* Adds what a job hands over, in the order of the stream. */
void shares_add_partial(struct shared_stream *stream, struct partial *partial);

/* Everything was counted and handed over. */
bool shares_are_complete(const struct shared_stream *stream);

/*
 * Two neighbours that can be merged, the first of a pair; NULL: none. *more: others are being
 * merged.
 */
struct partial *shares_pair(const struct shared_stream *stream, bool *more);

/* The pair has been merged: the second one is freed. */
void shares_merged(struct partial *first);

#endif
