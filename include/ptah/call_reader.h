/* SPDX-License-Identifier: MIT */
/*
 * Call readers: the calls of every thread of a recording.
 *
 * A call reader decodes the streams of a session (session.h) and gives each thread a
 * call machine of its own (calls.h). It returns batches of marks:
 *
 *	struct ptah_call_reader_config config = {.size = sizeof(config)};
 *	const struct ptah_call_batch *batch;
 *	int status;
 *
 *	ptah_call_reader_new(session, &config, &reader);
 *	while ((status = ptah_call_reader_next(reader, &batch)) > 0)
 *		use(batch->thread, batch->marks, batch->count);
 *	ptah_call_reader_free(reader);
 *
 * Order. The batches of one thread come in the order in which it ran. Streams per
 * thread are read one after the other. Streams per CPU are read side by side, from
 * context switch to context switch in the order of time, so that a thread is followed
 * from CPU to CPU. Where it is not known which thread ran (ptah_stream_thread()), what
 * ran belongs to a thread whose tid is -1, and the calls of each thread that may have
 * been the one have a loss there.
 *
 * Memory: a decoder and a few hundred kilobytes for each stream per CPU, or for one
 * stream per thread at a time, and the open calls of each thread.
 */
#ifndef PTAH_CALL_READER_H
#define PTAH_CALL_READER_H

#include <ptah/call_tree.h>
#include <ptah/calls.h>
#include <ptah/functions.h>
#include <ptah/session.h>

PTAH_BEGIN_DECLS

/*
 * A thread. One that executes another program counts as another thread from there on, and so does
 * each CPU's idle thread.
 */
struct ptah_call_thread {
	size_t number;	  /* in the order of appearance, from 0 on without gaps */
	int32_t pid, tid; /* 0: the CPU is idle; -1: not known */
	char comm[16];	  /* its last name, "" if unknown */
	/* For ptah_session_find_map(): its memory, where marks have the space 0. */
	int32_t space;
	/* The stream that the present batch comes from: of a thread that migrates, one of several.
	 */
	size_t stream;
	uint64_t errors; /* error items (PTAH_ITEM_ERROR) in what was read of it so far */
};

struct ptah_call_batch {
	const struct ptah_call_thread *thread; /* lives as long as the reader */
	const struct ptah_call_mark *marks;    /* may be none */
	size_t count;
	/*
	 * What follows these marks in the thread, or NULL: an error or a loss of trace
	 * (PTAH_ITEM_ERROR, PTAH_ITEM_OVERFLOW, PTAH_ITEM_GAP); with config.events any item that is
	 * no block.
	 */
	const struct ptah_item *event;
	bool ended;			/* nothing of this thread follows */
	struct ptah_call_counts counts; /* of the thread, up to the event; 0 without one */
	/* With config.steps: these in place of marks, as many as `count`. */
	const struct ptah_call_step *steps;
};

struct ptah_call_reader_config {
	size_t size; /* sizeof(struct ptah_call_reader_config) */
	/* The bounds of functions, of this session; they must live as long as the reader. NULL: the
	 * reader makes its own. */
	struct ptah_functions *functions;
	/* Streams for which it returns false are left out. NULL: all are read. */
	bool (*wants)(void *context, size_t stream);
	void *context;
	bool events; /* return all events, each at the end of a batch */
	bool steps;  /* steps in place of marks, which takes half the time */
	/*
	 * Times between stamps are not wanted (ptah_session_time_estimated()): items have that of
	 * the last stamp, which is several times as fast.
	 */
	bool no_estimates;
	unsigned jobs;	  /* threads that decode ahead; 0 and 1: the caller's alone */
	uint64_t segment; /* as in struct ptah_jobs */
	/* Of the session, or NULL: see ptah_workers_new(). */
	struct ptah_workers *workers;
	/* Of trees, see below. */
	uint32_t max_paths; /* of each tree; 0: as struct ptah_call_tree_config */
	/*
	 * Or NULL. Called now and then on the caller's thread, with `context` and the number of
	 * trace bytes done. False ends the work early.
	 */
	bool (*progress)(void *context, uint64_t bytes);
};

struct ptah_call_reader;

/* `config` may be NULL. */
PTAH_API int ptah_call_reader_new(const struct ptah_session *session,
				  const struct ptah_call_reader_config *config,
				  struct ptah_call_reader **reader);
PTAH_API void ptah_call_reader_free(struct ptah_call_reader *reader);

/*
 * The next batch, which is valid until the next call. 1; 0 at the end; negative when decoding
 * fails, for which errors in the trace are no reason.
 */
PTAH_API int ptah_call_reader_next(struct ptah_call_reader *reader,
				   const struct ptah_call_batch **batch);

/* The number for ptah_session_find_map() of what ran in a mark's `space` in this thread. */
PTAH_API int32_t ptah_call_thread_space(const struct ptah_call_thread *thread, unsigned space);

/* Trace bytes used so far, of all streams (for progress). */
PTAH_API uint64_t ptah_call_reader_offset(const struct ptah_call_reader *reader);

/*
 * Makes a call tree of each thread (call_tree.h), which is much faster than reading its marks, and
 * passes them to `take` one after the other, on the caller's thread. The tree is freed after `take`
 * has returned; a negative result ends the work. With jobs, several streams of threads, or several
 * segments of one, are added up at the same time; the trees are the same. Losses are in the trees:
 * see PTAH_CALL_HAS_LOSS. Returns 0, an error, or the negative result of `take`.
 */
PTAH_API int ptah_session_call_trees(
    const struct ptah_session *session, const struct ptah_call_reader_config *config,
    int (*take)(void *context, const struct ptah_call_thread *thread, struct ptah_call_tree *tree),
    void *context);

PTAH_END_DECLS

#endif
