/* SPDX-License-Identifier: MIT */
/*
 * Counting with threads. Workers take segments in their order and count each by
 * itself; the caller's thread puts the counts together in the same order, if
 * each segment begins where and as the one before it has ended. Where one does
 * not (its PSB+ does not say all that matters, or was none), the caller counts
 * it anew from where the one before it ended.
 */
#include "session/stream.h"

#include "base/compiler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Big enough that taking the counts out of the tables costs little. */
#define SEGMENT_MIN (UINT64_C(1) << 20)
#define SEGMENT_MAX (UINT64_C(16) << 20)
#define PER_JOB	    8 /* of them at least, where there is enough */

/* Counted ahead of the caller at most, for each job. */
#define AHEAD 2

#define MAX_JOBS 256

struct task {
	struct segment segment;
	bool done;
	int status;
	bool entered; /* began where it should */
	struct profile_part part;
	struct flow_state end;
	size_t changes; /* applied at its end */
};

struct pool {
	const struct ptah_session *session;
	const struct ptah_jobs *jobs;
	bool (*wants)(void *context, size_t stream);
	void *context;

	pthread_mutex_t lock;
	pthread_cond_t changed;
	atomic_bool stop;
	bool exhausted; /* there will be no more tasks */
	int status;	/* of finding segments */
	struct segment_finder finder;
	size_t next_stream; /* to be cut */
	/* A ring: tasks from `first` on are in order. */
	struct task *tasks;
	size_t ring, first, count;
};

/* Segments */

static uint64_t segment_size(const struct pool *pool, size_t stream)
{
	const uint64_t size =
	    pool->session->streams[stream].info.bytes / (PER_JOB * pool->jobs->jobs);

	return size < SEGMENT_MIN ? SEGMENT_MIN : size > SEGMENT_MAX ? SEGMENT_MAX : size;
}

/* The next segment of all. False: there is none. Under the lock. */
static bool find_segment(struct pool *pool, struct segment *segment)
{
	while (pool->status >= 0) {
		const size_t stream = pool->next_stream;

		if (segment_next(&pool->finder, segment))
			return true;
		segment_end(&pool->finder);
		if (stream >= pool->session->stream_count)
			return false;
		pool->next_stream++;
		if (!pool->wants || pool->wants(pool->context, stream))
			pool->status =
			    segment_begin(&pool->finder, stream, segment_size(pool, stream));
	}
	return false;
}

/* A new task, or NULL when there will be none. Waits for room. Under the lock. */
static struct task *take_task(struct pool *pool)
{
	struct task *task;

	while (!pool->stop && pool->count == pool->ring)
		pthread_cond_wait(&pool->changed, &pool->lock);
	task = &pool->tasks[(pool->first + pool->count) % pool->ring];
	if (pool->stop || !find_segment(pool, &task->segment)) {
		pool->exhausted = true;
		pthread_cond_broadcast(&pool->changed);
		return NULL;
	}
	task->done = false;
	pool->count++;
	return task;
}

/* Counting */

/* Counts on to where the stream is to stop, and takes the counts out. */
static int count_on(struct ptah_stream *s, struct task *task, const struct pool *pool)
{
	int status = ptah_profile_resume(s->profile);

	s->paused = status == PTAH_PROFILE_PAUSED;
	if (status >= 0)
		while (!pool->stop && (status = ptah_stream_count(s)) > 0)
			;
	flow_save_state(s->profile->flow, &task->end);
	task->changes = s->next_later;
	return status < 0 ? status : profile_take_part(s->profile, &task->part);
}

static int open_stream(const struct ptah_session *session, size_t index,
		       struct ptah_stream **stream)
{
	int status = ptah_stream_new(session, index, stream);

	if (status >= 0)
		status = stream_begin_to_count(*stream);
	return status;
}

/* Counts a segment by itself. */
static int count_segment(struct ptah_stream *s, struct task *task, const struct pool *pool)
{
	struct flow_state state;
	int status = segment_enter(s, &task->segment);

	if (status >= 0)
		status = ptah_profile_reset(s->profile); /* what was on the way there */
	if (status < 0)
		return status;
	flow_save_state(s->profile->flow, &state);
	task->entered =
	    task->segment.whole_start || (flow_same_state(&state, &task->segment.state, true) &&
					  s->next_later == task->segment.changes);
	return count_on(s, task, pool);
}

static void *work(void *argument)
{
	struct pool *pool = argument;
	struct ptah_stream *s = NULL;
	size_t stream = SIZE_MAX;
	struct task *task;

	pthread_mutex_lock(&pool->lock);
	while ((task = take_task(pool))) {
		pthread_mutex_unlock(&pool->lock);
		task->status = 0;
		if (task->segment.stream != stream) {
			ptah_stream_free(s);
			s = NULL;
			stream = task->segment.stream;
			task->status = open_stream(pool->session, stream, &s);
		}
		if (task->status >= 0)
			task->status = count_segment(s, task, pool);
		pthread_mutex_lock(&pool->lock);
		task->done = true;
		pthread_cond_broadcast(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	ptah_stream_free(s);
	return NULL;
}

/* Putting together */

/* The stream whose segments come in. */
struct joint {
	struct pool *pool;
	struct ptah_stream *s;	   /* its profile is the sum */
	struct ptah_stream *again; /* counts what must be counted again; NULL: nothing yet */
	bool stands;		   /* and stands where `last` ends */
	struct task last;	   /* without its part */
	int (*take)(void *context, size_t stream, struct ptah_profile *profile);
	bool ended;	 /* early, by who is told of the progress */
	uint64_t before; /* bytes of streams that are done */
};

/* Does the segment begin as the one before it has ended? */
static bool fits(const struct joint *j, const struct task *task)
{
	/* Without changes to come, no one sees the time in the counts. */
	const bool timed = j->s->later_count > task->segment.changes;

	return task->segment.whole_start ||
	       (task->entered && flow_same_state(&j->last.end, &task->segment.state, timed) &&
		j->last.changes == task->segment.changes);
}

/* Brings `again` to where the last segment ended: through all of it. */
static int stand_behind(struct joint *j)
{
	struct task passed = {.segment = j->last.segment};
	int status = 0;

	if (!j->again)
		status = open_stream(j->pool->session, passed.segment.stream, &j->again);
	if (status >= 0 && !j->stands) {
		/* The changes of the image only go forward. */
		if (j->again->next_later > passed.segment.changes) {
			ptah_stream_free(j->again);
			j->again = NULL;
			return stand_behind(j);
		}
		status = count_segment(j->again, &passed, j->pool);
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
	return count_on(j->again, task, j->pool);
}

static int finish_stream(struct joint *j)
{
	int status = 0;

	if (j->s) {
		status = j->take(j->pool->context, j->last.segment.stream, j->s->profile);
		j->before += j->s->stream->info.bytes;
	}
	ptah_stream_free(j->s);
	ptah_stream_free(j->again);
	j->s = j->again = NULL;
	j->stands = false;
	return status;
}

/* The next segment in order. */
static int join(struct joint *j, struct task *task)
{
	int status = task->status;

	if (status >= 0 && task->segment.whole_start) {
		status = finish_stream(j);
		if (status >= 0)
			status = open_stream(j->pool->session, task->segment.stream, &j->s);
	}
	if (status < 0)
		return status;
	if (fits(j, task))
		j->stands = false;
	else
		status = count_again(j, task);
	if (status >= 0)
		status = profile_add_part(j->s->profile, &task->part);
	profile_free_part(&task->part);
	j->last = *task;
	if (status >= 0 && j->pool->jobs->progress) {
		const uint64_t bytes = j->s->stream->info.bytes, at = task->end.offset;

		j->ended = !j->pool->jobs->progress(j->pool->jobs->context,
						    j->before + (at < bytes ? at : bytes));
	}
	return status;
}

/* Waits for the task that is first. NULL: there is none, and will be none. */
static struct task *first_task(struct pool *pool)
{
	struct task *task;

	pthread_mutex_lock(&pool->lock);
	while (pool->count ? !pool->tasks[pool->first].done : !pool->exhausted)
		pthread_cond_wait(&pool->changed, &pool->lock);
	task = pool->count ? &pool->tasks[pool->first] : NULL;
	pthread_mutex_unlock(&pool->lock);
	return task;
}

static void drop_task(struct pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->first = (pool->first + 1) % pool->ring;
	pool->count--;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

static int join_all(struct joint *j)
{
	struct task *task;
	int status = 0;

	while (status >= 0 && !j->ended && (task = first_task(j->pool))) {
		status = join(j, task);
		drop_task(j->pool);
	}
	if (status >= 0)
		status = j->pool->status;
	return status < 0 ? status : finish_stream(j);
}

static int run_pool(struct pool *pool, struct joint *j)
{
	pthread_t threads[MAX_JOBS];
	unsigned n = 0;
	int status;

	while (n < pool->jobs->jobs && !pthread_create(&threads[n], NULL, work, pool))
		n++;
	status = n ? join_all(j) : PTAH_E_NOMEM;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	while (n)
		pthread_join(threads[--n], NULL);
	return status;
}

static int count_with_jobs(struct pool *pool, struct joint *j)
{
	int status;

	pool->ring = (AHEAD + 1) * pool->jobs->jobs;
	pool->tasks = calloc(pool->ring, sizeof(*pool->tasks));
	if (!pool->tasks || pthread_mutex_init(&pool->lock, NULL)) {
		free(pool->tasks);
		return PTAH_E_NOMEM;
	}
	if (pthread_cond_init(&pool->changed, NULL)) {
		status = PTAH_E_NOMEM;
	} else {
		status = run_pool(pool, j);
		pthread_cond_destroy(&pool->changed);
	}
	pthread_mutex_destroy(&pool->lock);
	for (size_t i = 0; i < pool->ring; i++)
		profile_free_part(&pool->tasks[i].part);
	ptah_stream_free(j->s);
	ptah_stream_free(j->again);
	segment_end(&pool->finder);
	free(pool->tasks);
	return status;
}

/* The caller's thread alone. */
static int count_alone(struct pool *pool, struct joint *j)
{
	const struct ptah_session *session = pool->session;
	const struct ptah_jobs *jobs = pool->jobs;
	int status = 0;

	for (size_t i = 0; i < session->stream_count && status >= 0 && !j->ended; i++) {
		struct ptah_stream *s;

		if (pool->wants && !pool->wants(pool->context, i))
			continue;
		status = open_stream(session, i, &s);
		if (status < 0)
			break;
		while (!j->ended && (status = ptah_stream_count(s)) > 0)
			j->ended = jobs && jobs->progress &&
				   !jobs->progress(jobs->context, j->before + s->offset);
		if (status >= 0)
			status = j->take(pool->context, i, s->profile);
		j->before += session->streams[i].info.bytes;
		ptah_stream_free(s);
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

int ptah_session_count(const struct ptah_session *session, const struct ptah_jobs *jobs,
		       bool (*wants)(void *context, size_t stream),
		       int (*take)(void *context, size_t stream, struct ptah_profile *profile),
		       void *context)
{
	struct pool pool = {.session = session,
			    .jobs = jobs,
			    .wants = wants,
			    .context = context,
			    .finder = {.session = session}};
	struct joint joint = {.pool = &pool, .take = take};

	if (!session || !take || (jobs && (jobs->size < sizeof(*jobs) || jobs->jobs > MAX_JOBS)))
		return PTAH_E_INVAL;
	return jobs && jobs->jobs > 1 && all_bytes(&pool) > 2 * SEGMENT_MIN
		   ? count_with_jobs(&pool, &joint)
		   : count_alone(&pool, &joint);
}
