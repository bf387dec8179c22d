/* SPDX-License-Identifier: MIT */
/*
 * Threads that decode segments. Workers take segments in order, and each decodes its segment
 * independently. The caller's thread joins the results in the same order, if each segment begins
 * where and as the one before it ended. If one does not (its PSB+ did not carry all of the state,
 * or was none), the caller's thread decodes it again, from where the one before it ended.
 */
#ifndef PTAH_SESSION_POOL_H
#define PTAH_SESSION_POOL_H

#include "session/workers.h"

#include <pthread.h>
#include <stdatomic.h>

struct pool;

#define CHUNK_ITEMS 1024
#define CHUNK_WORDS (CHUNK_ITEMS * sizeof(struct ptah_item) / sizeof(uint64_t))

/* Items on their way from a worker to the reader; or runs (verify.c), or spans (span_reader.c). */
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
	bool entered; /* the decoder reached the segment's beginning as it should */
	struct flow_state end;
	size_t changes; /* number of changes of the image that are applied at the segment's end */
	/* Reading */
	struct chunk *chunks, **last_chunk;
	unsigned chunk_count;
	struct calls_summary *summary; /* of call_segments.c; the pool's context has it */
	/* The results are incomplete, or would mean something else in the whole stream. */
	bool unfit;
	/* Reading segments (segment_reader.c) */
	bool begun;   /* `entered` is known */
	bool dropped; /* no more results are wanted */
	struct segment_result *results, **last_result;
	/* Verifying */
	struct ptah_verify sum;	       /* sum of the segment */
	uint64_t open_start, open_end; /* the run in which the segment ends; equal: none */
};

struct pool {
	const struct ptah_session *session;
	unsigned jobs;
	uint64_t segment; /* least number of bytes of a segment */
	bool (*wants)(void *context, size_t stream);
	void *context;
	/*
	 * open makes a stream of the right kind, as stream_renew(); run decodes a segment with it.
	 */
	int (*open)(const struct ptah_session *session, size_t index,
		    struct stream_decoder **stream);
	int (*run)(struct pool *pool, struct stream_decoder *s, struct task *task);
	void (*forget)(struct pool *pool, struct task *task); /* frees what run left, or NULL */
	struct job_streams *streams; /* decoders that are used and kept, or NULL */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t threads[MAX_JOBS];
	unsigned thread_count;
	unsigned working; /* number of threads that have begun to work */
	atomic_bool stop;
	bool exhausted; /* there are no more tasks to come */
	int status;	/* status of the search for segments */
	struct segment_finder finder;
	size_t next_stream; /* index of the stream to be cut into segments next */
	/* A ring of tasks, in order from `first` on. */
	struct task *tasks;
	size_t ring, first, count;
	struct chunk *spare; /* chunks to be reused: memory that was touched before is faster */
};

/* Starts the threads. The caller has filled in the members up to `run`. */
int pool_begin(struct pool *pool);
/*
 * Stops the threads, whatever they do, and frees everything. Does nothing if pool_begin() has
 * failed.
 */
void pool_end(struct pool *pool);

/* Waits for the first task to be done. NULL: there are no more tasks. */
struct task *pool_first(struct pool *pool);
void pool_drop_first(struct pool *pool);

/* Takes an empty chunk; returns a list of chunks for reuse. */
struct chunk *pool_take_chunk(struct pool *pool);
void pool_give_chunks(struct pool *pool, struct chunk *first, struct chunk **last);

/*
 * task_enter() brings a stream to where the task begins and sets task->entered. task_leave() stores
 * the state at its end.
 */
int task_enter(struct task *task, struct stream_decoder *s);
void task_leave(struct task *task, const struct stream_decoder *s);

/*
 * Whether the segment begins in the state in which the one before it ended. The time is compared
 * too if `timed`.
 */
bool task_fits(const struct task *task, const struct task *before, bool timed);

#endif
