/* SPDX-License-Identifier: MIT */
/* ptah_session_count(): counts all streams, by one thread or by several. */
#include "session/pool.h"
#include "session/window.h"

#include "base/compiler.h"

#include <stdlib.h>

/* Large enough that collecting the counts at a segment's end costs little. */
#define SEGMENT_MIN (UINT64_C(1) << 20)
#define SEGMENT_MAX (UINT64_C(32) << 20)
#define PER_JOB	    3 /* at least this many segments for each job, if the recording is large enough */

/* Counts up to where the stream is to stop, and moves the counts into the task. */
static int count_on(struct pool *pool, struct ptah_stream *s, struct task *task)
{
	int status = ptah_profile_resume(s->profile);

	s->paused = status == PTAH_PROFILE_PAUSED;
	if (status >= 0)
		while (!pool->stop && (status = ptah_stream_count(s)) > 0)
			;
	task_leave(task, s);
	return status < 0 ? status : profile_take_part(s->profile, &task->part);
}

/* Counts a segment independently of the others. */
static int count_segment(struct pool *pool, struct ptah_stream *s, struct task *task)
{
	int status = task_enter(task, s);

	if (status >= 0)
		status = ptah_profile_reset(
		    s->profile); /* drops what was counted on the way to the segment's beginning */
	return status < 0 ? status : count_on(pool, s, task);
}

/* The stream whose segments are being joined. */
struct joint {
	struct pool *pool;
	struct ptah_workers *workers;
	const struct ptah_jobs *jobs;
	struct ptah_stream *s; /* its profile has the sum of the segments; NULL: no stream yet */
	/* The decoder that counts segments again; NULL: not needed yet. */
	struct ptah_stream *again;
	bool stands;	  /* `again` is at the end of `last` */
	bool exact;	  /* the time at the end of `last` is that of a decode by one thread, too */
	struct task last; /* the last joined segment, without its counts */
	int (*take)(void *context, size_t stream, struct ptah_profile *profile);
	bool ended;	 /* the progress callback ended the count early */
	uint64_t before; /* bytes of the streams that are complete */
};

/* Brings `again` to the end of the last segment, by decoding all of it. */
static int stand_behind(struct joint *j)
{
	struct task passed = {.segment = j->last.segment};
	int status = 0;

	/*
	 * The last segment began without the exact time, and now times matter: decode from the
	 * beginning of the stream, as one thread would.
	 */
	if (!j->exact)
		passed.segment = (struct segment){.stream = passed.segment.stream,
						  .whole_start = true,
						  .stop = passed.segment.stop};
	if (!j->again)
		status = stream_renew_counted(j->pool->session, passed.segment.stream, &j->again);
	if (status >= 0 && !j->stands) {
		/*
		 * Changes of the image cannot be undone: if it is too far ahead, begin with a new
		 * stream.
		 */
		if (stream_applied(j->again) > passed.segment.changes) {
			ptah_stream_free(j->again);
			j->again = NULL;
			return stand_behind(j);
		}
		status = count_segment(j->pool, j->again, &passed);
		profile_free_part(&passed.part);
	}
	j->stands = status >= 0;
	return status;
}

static int count_again(struct joint *j, struct task *task)
{
	int status = stand_behind(j);

	profile_free_part(&task->part);
	if (status < 0)
		return status;
	j->again->stop = task->segment.stop;
	return count_on(j->pool, j->again, task);
}

static int finish_stream(struct joint *j)
{
	int status = 0;

	if (j->s) {
		status = j->take(j->pool->context, j->last.segment.stream, j->s->profile);
		j->before += j->s->stream->info.bytes;
	}
	ptah_stream_free(j->again);
	j->s = j->again = NULL;
	j->stands = false;
	return status;
}

/*
 * Whether the segment begins where and as the last one ended. Counts depend on the time only in two
 * ways: when the first error was, and which changes of the image came before.
 */
static bool fits(const struct joint *j, const struct task *task)
{
	const bool timed = task->part.totals.errors || stream_later(j->s) > task->segment.changes;

	return task_fits(task, &j->last, timed) &&
	       (!timed || j->exact || task->segment.whole_start);
}

/* Adds the counts of the next segment in order. */
static int join(struct joint *j, struct task *task)
{
	int status = task->status;

	if (status >= 0 && task->segment.whole_start) {
		status = finish_stream(j);
		if (status >= 0)
			status = stream_renew_counted(j->pool->session, task->segment.stream,
						      &j->workers->caller);
		j->s = j->workers->caller;
	}
	if (status < 0)
		return status;
	if (fits(j, task)) {
		j->exact =
		    task_fits(task, &j->last, true) && (j->exact || task->segment.whole_start);
		j->stands = false;
	} else {
		status = count_again(j, task);
		j->exact = true;
	}
	if (status >= 0)
		status = profile_add_part(j->s->profile, &task->part);
	profile_free_part(&task->part);
	j->last = *task;
	if (status >= 0 && j->jobs->progress) {
		const uint64_t bytes = j->s->stream->info.bytes, at = task->end.offset;

		j->ended =
		    !j->jobs->progress(j->jobs->context, j->before + (at < bytes ? at : bytes));
	}
	return status;
}

static int join_all(struct joint *j)
{
	struct task *task;
	int status = 0;

	while (status >= 0 && !j->ended && (task = pool_first(j->pool))) {
		status = join(j, task);
		pool_drop_first(j->pool);
	}
	if (status >= 0)
		status = j->pool->status;
	return status < 0 ? status : finish_stream(j);
}

static int count_with_jobs(struct pool *pool, struct joint *j)
{
	int status = pool_begin(pool);

	if (status < 0)
		return status;
	status = join_all(j);
	ptah_stream_free(j->again);
	pool_end(pool);
	return status;
}

/* Counts everything in the caller's thread. */
static int count_alone(struct pool *pool, struct joint *j)
{
	const struct ptah_session *session = pool->session;
	const struct ptah_jobs *jobs = j->jobs;
	int status = 0;

	for (size_t i = 0; i < session->stream_count && status >= 0 && !j->ended; i++) {
		struct ptah_stream *s;

		if (pool->wants && !pool->wants(pool->context, i))
			continue;
		status = stream_renew_counted(session, i, &j->workers->caller);
		if (status < 0)
			break;
		s = j->workers->caller;
		while (!j->ended && (status = ptah_stream_count(s)) > 0)
			j->ended = jobs && jobs->progress &&
				   !jobs->progress(jobs->context, j->before + s->offset);
		if (status >= 0)
			status = j->take(pool->context, i, s->profile);
		j->before += session->streams[i].info.bytes;
	}
	return status;
}

static uint64_t all_bytes(const struct pool *pool)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < pool->session->stream_count; i++)
		if (!pool->wants || pool->wants(pool->context, i))
			bytes += pool->session->streams[i].info.bytes;
	return bytes;
}

/*
 * Whether a stream that several processes share is among them. Which of them ran when is found out
 * from the beginning to the end of such a stream, not in segments.
 */
static bool is_followed(const struct pool *pool)
{
	for (size_t i = 0; i < pool->session->stream_count; i++)
		if (stream_is_shared(&pool->session->streams[i]) &&
		    (!pool->wants || pool->wants(pool->context, i)))
			return true;
	return false;
}

static uint64_t segment_size(const struct pool *pool, uint64_t wanted, uint64_t bytes)
{
	const uint64_t size = bytes / (PER_JOB * (pool->jobs ? pool->jobs : 1));

	if (wanted)
		return wanted;
	return size < SEGMENT_MIN ? SEGMENT_MIN : size > SEGMENT_MAX ? SEGMENT_MAX : size;
}

int ptah_session_count(const struct ptah_session *session, const struct ptah_jobs *jobs,
		       bool (*wants)(void *context, size_t stream),
		       int (*take)(void *context, size_t stream, struct ptah_profile *profile),
		       void *context)
{
	struct pool pool = {.session = session,
			    .jobs = jobs ? jobs->jobs : 1,
			    .wants = wants,
			    .context = context,
			    .open = stream_renew_counted,
			    .run = count_segment};
	struct ptah_workers own = {.session = session};
	struct joint joint = {.pool = &pool, .jobs = jobs, .take = take};
	uint64_t bytes;
	int status;

	if (!session || !take || (jobs && (jobs->size < sizeof(*jobs) || jobs->jobs > MAX_JOBS)))
		return PTAH_E_INVAL;
	joint.workers = jobs && jobs->workers ? jobs->workers : &own;
	if (joint.workers->session != session)
		return PTAH_E_INVAL;
	pool.streams = &joint.workers->count;
	bytes = all_bytes(&pool);
	pool.segment = segment_size(&pool, jobs ? jobs->segment : 0, bytes);
	status = pool.jobs > 1 && bytes > 2 * pool.segment && !is_followed(&pool) &&
			 !session_has_window(session)
		     ? count_with_jobs(&pool, &joint)
		     : count_alone(&pool, &joint);
	workers_fini(&own);
	return status;
}
