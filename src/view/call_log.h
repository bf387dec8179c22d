/* SPDX-License-Identifier: MIT */
/*
 * The log of a thread's calls: the beginning and the end of each, a few bytes for both. It is
 * written once, while the recording is read, and read in parts, so that single calls are known
 * without another decode.
 *
 * A log consists of blocks. A block begins with the calls that are open there, so that it can be
 * read without those before it. What was written never changes: any number of threads read up to
 * where the writer was when they took the list of blocks.
 */
#ifndef PTAH_VIEW_CALL_LOG_H
#define PTAH_VIEW_CALL_LOG_H

#include "view/log_store.h"

#include <stdbool.h>

/* What a thread has done up to a place. Times in nanoseconds. */
struct log_counts {
	uint64_t instructions, cycles;
	uint64_t time;	 /* since the recording's first time; losses count */
	uint64_t active; /* without what was lost */
	uint64_t off;	 /* part of `active` in which tracing was off */
};

static inline struct log_counts log_minus(const struct log_counts *a, const struct log_counts *b)
{
	return (struct log_counts){a->instructions - b->instructions, a->cycles - b->cycles,
				   a->time - b->time, a->active - b->active, a->off - b->off};
}

static inline void log_add(struct log_counts *to, const struct log_counts *n)
{
	to->instructions += n->instructions;
	to->cycles += n->cycles;
	to->time += n->time;
	to->active += n->active;
	to->off += n->off;
}

/* The two axes of a timeline. */
enum log_axis {
	LOG_TIME,
	LOG_INSTRUCTIONS,
	LOG_AXES
};

static inline uint64_t log_on(const struct log_counts *at, enum log_axis axis)
{
	return axis == LOG_TIME ? at->time : at->instructions;
}

/* An open call. */
struct log_frame {
	uint32_t entry;	 /* what was called, from where and how: the owner's number */
	uint64_t number; /* of the call: the n-th that began in this thread, from 0 on */
	struct log_counts begin;
	struct log_counts self; /* what it did itself up to here */
};

struct log_block {
	const uint8_t *bytes;
	size_t size;		 /* written so far */
	struct log_counts begin; /* where it begins */
	uint64_t number;	 /* calls that began before */
	uint32_t depth;		 /* calls open at its beginning */
	/* Calls that began in the block, by function: pairs of numbers. NULL: it is not complete.
	 */
	const uint8_t *functions;
	size_t functions_size;
};

/* Writing */

struct call_log {
	struct log_store *store;
	struct log_block *blocks;
	size_t count, capacity;
	size_t room;	      /* of the last block */
	bool full;	      /* there is no more room: what follows is not in the log */
	struct log_counts at; /* at the last mark */
	uint64_t number;      /* calls that have begun */
	struct log_frame *frames;
	size_t depth, frame_capacity;
	/* Calls that began in the last block, by function. */
	uint32_t *calls;
	size_t call_capacity;
	uint32_t *called; /* functions with such calls */
	size_t called_count, called_capacity;
	uint8_t *scratch; /* for the open calls of a block */
	size_t scratch_size;
};

void call_log_init(struct call_log *log, struct log_store *store);
void call_log_fini(struct call_log *log);

/* A call begins, of `function`; or the innermost one ends. `how` below 8. 0 or PTAH_E_NOMEM. */
int call_log_begin(struct call_log *log, const struct log_counts *at, uint32_t entry,
		   uint32_t function);
int call_log_end(struct call_log *log, const struct log_counts *at, unsigned how, unsigned flags);

/* The index of the block in which a place is: the last one that begins at or before it. */
size_t log_block_at(const struct log_block *blocks, size_t count, enum log_axis axis, uint64_t at);

/* Reading */

struct log_mark {
	bool end;
	uint8_t how;	/* of an end */
	uint16_t flags; /* of an end */
	/* Of the call, with all that it did itself, if it ends. Valid up to the next mark. */
	const struct log_frame *frame;
	size_t depth; /* of the call */
};

struct log_cursor {
	const uint8_t *p, *end;
	struct log_counts at;
	uint64_t number;
	struct log_frame *frames;
	size_t depth, capacity;
	int status; /* PTAH_E_NOMEM; PTAH_E_BAD_FILE: the file has been changed by somebody */
};

/* Goes to the beginning of a block. The cursor is all 0 at first. */
int log_cursor_enter(struct log_cursor *cursor, const struct log_block *block);
void log_cursor_fini(struct log_cursor *cursor);

/* The next mark. False: the block ends, or cursor->status is an error. */
bool log_cursor_next(struct log_cursor *cursor, struct log_mark *mark);

/* How many calls of a function began in a block. False: that is not known. */
bool log_block_calls(const struct log_block *block, uint32_t function, uint64_t *calls);

#endif
