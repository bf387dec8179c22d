/* SPDX-License-Identifier: MIT */
/* Segments of a stream as summaries of its calls (calls/summary.h), which jobs make. */
#ifndef PTAH_SESSION_CALL_SEGMENTS_H
#define PTAH_SESSION_CALL_SEGMENTS_H

#include "calls/adder.h"

#include <ptah/symbol.h>

/* What the jobs that summarize one stream share: may be used by all of them at the same time. */
struct call_segments;

/* A job's machine, with the summary that it is making. */
struct call_worker {
	struct calls_adder *adder;
	struct calls_summary *summary;
	struct call_worker *next;
};

/* `space`: of the stream's process. `trees`: of its thread's tree. */
int call_segments_new(const struct ptah_session *session, struct ptah_functions *functions,
		      int32_t space, const struct ptah_call_tree_config *trees,
		      struct call_segments **segments);
void call_segments_free(struct call_segments *c);

/*
 * Lends a worker that has begun a summary, which is to be given back, with the knowledge of
 * `like` or, if it is NULL, the newest. NULL: out of memory.
 */
struct call_worker *call_segments_lend(struct call_segments *c, const struct calls_summary *like);
/* Takes a worker back; its summary may stay with the caller. */
void call_segments_take_back(struct call_segments *c, struct call_worker *w);
void call_segments_take_summary(struct call_segments *c, struct calls_summary *summary);

/* From now on summaries begin with what this adder, which joins them, knows. */
void call_segments_learn(struct call_segments *c, const struct calls_adder *adder);

#endif
