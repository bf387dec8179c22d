/* SPDX-License-Identifier: MIT */
/*
 * Threads that take segments in order and decode them ahead of the caller's thread, which uses the
 * results in the same order.
 */
#include "session/pool.h"

#include "base/compiler.h"

#include <stdlib.h>

/* Tasks for each job, besides the one that the caller waits for. */
#define AHEAD 2

/* Finds the next segment of all streams. False: there is none. Called with the lock. */
static bool find_segment(struct pool *pool, struct segment *segment)
{
	while (pool->status >= 0) {
		const size_t stream = pool->next_stream;

		if (segment_next(&pool->finder, segment))
			return true;
		if (stream >= pool->session->stream_count)
			return false;
		pool->next_stream++;
		if (!pool->wants || pool->wants(pool->context, stream))
			pool->status = segment_begin(&pool->finder, stream, pool->segment);
	}
	return false;
}

/*
 * Returns a new task, or NULL when there will be none. Waits for room in the ring. Called with the
 * lock.
 */
static struct task *take_task(struct pool *pool)
{
	struct segment segment;
	struct task *task;

	while (!pool->stop && pool->count == pool->ring)
		pthread_cond_wait(&pool->changed, &pool->lock);
	if (pool->stop || !find_segment(pool, &segment)) {
		pool->exhausted = true;
		pthread_cond_broadcast(&pool->changed);
		return NULL;
	}
	task = &pool->tasks[(pool->first + pool->count++) % pool->ring];
	memset(task, 0, sizeof(*task));
	task->segment = segment;
	task->last_chunk = &task->chunks;
	pthread_cond_broadcast(&pool->changed);
	return task;
}

static void *work(void *argument)
{
	struct pool *pool = argument;
	struct stream_decoder *own = NULL, **s = &own;
	size_t stream = SIZE_MAX;
	struct task *task;

	pthread_mutex_lock(&pool->lock);
	if (pool->streams)
		s = &pool->streams->jobs[pool->working++];
	while ((task = take_task(pool))) {
		pthread_mutex_unlock(&pool->lock);
		if (task->segment.stream != stream) {
			stream = task->segment.stream;
			task->status = pool->open(pool->session, stream, s);
		}
		if (task->status >= 0)
			task->status = pool->run(pool, *s, task);
		if (task->status < 0) {
			stream_free(*s);
			*s = NULL;
			stream = SIZE_MAX;
		}
		pthread_mutex_lock(&pool->lock);
		task->done = true;
		pthread_cond_broadcast(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	stream_free(own);
	return NULL;
}

static int start(struct pool *pool)
{
	while (pool->thread_count < pool->jobs &&
	       !pthread_create(&pool->threads[pool->thread_count], NULL, work, pool))
		pool->thread_count++;
	return pool->thread_count ? 0 : PTAH_E_NOMEM;
}

int pool_begin(struct pool *pool)
{
	int status;

	pool->finder.session = pool->session;
	pool->ring = (AHEAD + 1) * pool->jobs;
	pool->tasks = calloc(pool->ring, sizeof(*pool->tasks));
	if (!pool->tasks)
		return PTAH_E_NOMEM;
	if (pthread_mutex_init(&pool->lock, NULL)) {
		free(pool->tasks);
		pool->tasks = NULL;
		return PTAH_E_NOMEM;
	}
	if (pthread_cond_init(&pool->changed, NULL)) {
		pthread_mutex_destroy(&pool->lock);
		free(pool->tasks);
		pool->tasks = NULL;
		return PTAH_E_NOMEM;
	}
	if (pool->streams) {
		pool->finder.probe = pool->streams->probe;
		pool->streams->probe = NULL;
	}
	status = start(pool);
	if (status < 0)
		pool_end(pool);
	return status;
}

struct chunk *pool_take_chunk(struct pool *pool)
{
	struct chunk *chunk;

	pthread_mutex_lock(&pool->lock);
	chunk = pool->spare;
	if (chunk)
		pool->spare = chunk->next;
	pthread_mutex_unlock(&pool->lock);
	return chunk ? chunk : malloc(sizeof(*chunk));
}

void pool_give_chunks(struct pool *pool, struct chunk *first, struct chunk **last)
{
	pthread_mutex_lock(&pool->lock);
	*last = pool->spare;
	pool->spare = first;
	pthread_mutex_unlock(&pool->lock);
}

static void free_task(struct pool *pool, struct task *task)
{
	if (task->chunks)
		pool_give_chunks(pool, task->chunks, task->last_chunk);
	task->chunks = NULL;
	if (pool->forget)
		pool->forget(pool, task);
}

void pool_end(struct pool *pool)
{
	if (!pool->tasks)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	while (pool->thread_count)
		pthread_join(pool->threads[--pool->thread_count], NULL);
	for (size_t i = 0; i < pool->count; i++)
		free_task(pool, &pool->tasks[(pool->first + i) % pool->ring]);
	while (pool->spare) {
		struct chunk *next = pool->spare->next;

		free(pool->spare);
		pool->spare = next;
	}
	pthread_cond_destroy(&pool->changed);
	pthread_mutex_destroy(&pool->lock);
	if (pool->streams) {
		pool->streams->probe = pool->finder.probe;
		pool->finder.probe = NULL;
	}
	segment_end(&pool->finder);
	free(pool->tasks);
	pool->tasks = NULL;
}

struct task *pool_first(struct pool *pool)
{
	struct task *task;

	pthread_mutex_lock(&pool->lock);
	while (pool->count ? !pool->tasks[pool->first].done : !pool->exhausted)
		pthread_cond_wait(&pool->changed, &pool->lock);
	task = pool->count ? &pool->tasks[pool->first] : NULL;
	pthread_mutex_unlock(&pool->lock);
	return task;
}

void pool_drop_first(struct pool *pool)
{
	free_task(pool, &pool->tasks[pool->first]);
	pthread_mutex_lock(&pool->lock);
	pool->first = (pool->first + 1) % pool->ring;
	pool->count--;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

int task_enter(struct task *task, struct stream_decoder *s)
{
	struct flow_state state;
	int status = segment_enter(s, &task->segment);

	flow_save_state(stream_flow(s), &state);
	task->entered =
	    task->segment.whole_start || (flow_same_state(&state, &task->segment.state, true) &&
					  stream_applied(s) == task->segment.changes);
	return status;
}

void task_leave(struct task *task, const struct stream_decoder *s)
{
	flow_save_state(stream_flow(s), &task->end);
	task->changes = stream_applied(s);
}

bool task_fits(const struct task *task, const struct task *before, bool timed)
{
	return task->segment.whole_start ||
	       (task->entered &&
		segment_follows(&task->segment, &before->end, before->changes, timed));
}
