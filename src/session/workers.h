/* SPDX-License-Identifier: MIT */
/*
 * The decoders that count or read a session's streams: the caller's and those of the jobs. They are
 * kept from one call to the next, because making their tables of the code takes longer than
 * counting a short trace.
 */
#ifndef PTAH_SESSION_WORKERS_H
#define PTAH_SESSION_WORKERS_H

#include "session/stream.h"

#define MAX_JOBS 256

/* Those of the threads of a pool (pool.h). */
struct job_streams {
	struct stream_decoder *probe; /* finds segments */
	struct stream_decoder *jobs[MAX_JOBS];
};

/* All NULL at first: see stream_renew(). */
struct ptah_workers {
	const struct ptah_session *session;
	struct stream_decoder *caller; /* counts alone, or has the sum of all segments */
	struct stream_decoder *reader; /* reads alone; NULL while a reader has it, too */
	/* Of jobs that count, that summarize calls, and that work on segments. */
	struct job_streams count, calls, segments;
};

void workers_fini(struct ptah_workers *workers);

#endif
