/* SPDX-License-Identifier: MIT */
/*
 * Threads that decode segments. Workers take them in their order, each decodes
 * one by itself, and the caller's thread puts the results together in the same
 * order, if each segment begins where and as the one before it has ended. Where
 * one does not (its PSB+ does not say all that matters, or was none), it is the
 * caller's to decode it anew from where the one before it ended.
 */
#ifndef PTAH_SESSION_POOL_H
#define PTAH_SESSION_POOL_H

#include "session/workers.h"

#include <pthread.h>
#include <stdatomic.h>

struct pool;

#define CHUNK_ITEMS 1024
#define CHUNK_WORDS (CHUNK_ITEMS * sizeof(struct ptah_item) / sizeof(uint64_t))

/* Items on their way to the reader, or runs: see verify.c. */
struct chunk {
	struct chunk *next;
	size_t count;
	union {
		struct ptah_item items[CHUNK_ITEMS];
		uint64_t words[CHUNK_WORDS];
	};
};

struct task {
	struct segment segment;
	bool done;
	int status;
	bool entered; /* began where it should */
	struct flow_state end;
	size_t changes; /* applied at its end */
	/* Counting */
	struct profile_part part;
	/* Reading */
	struct chunk *chunks, **last_chunk;
	unsigned chunk_count;
	bool unfit; /* not all is here, or what is here means something else elsewhere */
	/* Verifying */
	struct ptah_verify sum;	       /* of the segment */
	uint64_t open_start, open_end; /* the run that it ends in; equal: there is none */
};

struct pool {
	const struct ptah_session *session;
	unsigned jobs;
	uint64_t segment; /* bytes at least */
	bool (*wants)(void *context, size_t stream);
	void *context;
	/* Makes a stream of the kind that is wanted, as stream_renew(); decodes a segment with it.
	 */
	int (*open)(const struct ptah_session *session, size_t index, struct ptah_stream **stream);
	int (*run)(struct pool *pool, struct ptah_stream *s, struct task *task);
	struct ptah_workers *workers; /* whose decoders are used and kept, or NULL */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t threads[MAX_JOBS];
	unsigned thread_count;
	unsigned working; /* threads that have begun to */
	atomic_bool stop;
	bool exhausted; /* there will be no more tasks */
	int status;	/* of finding segments */
	struct segment_finder finder;
	size_t next_stream; /* to be cut */
	/* A ring: tasks from `first` on are in order. */
	struct task *tasks;
	size_t ring, first, count;
	struct chunk *spare; /* chunks to be used again: memory that is there is the quickest */
};

/* Starts the threads of a pool that is filled in up to `run`. */
int pool_begin(struct pool *pool);
/* Stops them, whatever they do, and frees all. Does nothing if begin has failed. */
void pool_end(struct pool *pool);

/* The first of the tasks, once it is done. NULL: there are no more. */
struct task *pool_first(struct pool *pool);
void pool_drop_first(struct pool *pool);

/* A chunk for items, and what becomes of it. */
struct chunk *pool_take_chunk(struct pool *pool);
void pool_give_chunks(struct pool *pool, struct chunk *first, struct chunk **last);

/*
 * Brings a stream to where the task begins, for its `entered`, and at its end
 * writes down where it stands.
 */
int task_enter(struct task *task, struct ptah_stream *s);
void task_leave(struct task *task, const struct ptah_stream *s);

/* Does the segment begin as the one before it has ended? Times matter if `timed`. */
bool task_fits(const struct task *task, const struct task *before, bool timed);

#endif
