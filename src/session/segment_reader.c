/* SPDX-License-Identifier: MIT */
/* Lets jobs work on the segments of a stream, and passes their results on in order (session.h). */
#include "session/parallel_reader.h"

#include <ptah/session.h>

#include <stdlib.h>
#include <string.h>

/*
 * So small that the results of a segment, which are much larger than its trace, seldom fill the
 * room for results: a job that is ahead waits then.
 */
#define SEGMENT (UINT64_C(4) << 10)

struct segment_result {
	struct segment_result *next;
	void *value;
	uint64_t covered; /* how many items of the segment are in this result and those before it */
	uint64_t offset;
};

/* What the threads share. */
struct segments {
	const struct ptah_segment_functions *functions;
	void *context;
	struct ptah_reader *reader; /* of the caller's thread */
	size_t waiting, room;	    /* results; protected by the pool's lock */
};

struct ptah_segment {
	struct segments *all;
	struct task *task; /* of a job; NULL: the caller's thread works */
	uint64_t read;	   /* items that were returned */
	uint64_t skip;	   /* items to be left out first: they are in results that were taken */
	struct ptah_reader own; /* of a job */
	struct ptah_reader *reader;
};

static struct pool *pool_of(const struct ptah_segment *g)
{
	return &g->all->reader->pool;
}

/* Leaves out the items that are in results already. Returns how many are left. */
static int skip_items(struct ptah_segment *g, struct ptah_item *items, int n)
{
	const size_t count = (size_t)n, skip = g->skip < count ? (size_t)g->skip : count;

	g->skip -= skip;
	memmove(items, items + skip, (count - skip) * sizeof(*items));
	return (int)(count - skip);
}

int segment_read(struct ptah_segment *g, struct ptah_item *items, size_t capacity)
{
	struct ptah_reader *r = g->reader;
	int n = 0;

	if (!items || !capacity)
		return PTAH_E_INVAL;
	if (g->task && (g->task->unfit || pool_of(g)->stop))
		return 0;
	while (!n) {
		n = stream_read(r->s, items, capacity);
		if (n <= 0)
			return n;
		if (g->task && reader_has_space(items, n)) {
			g->task->unfit = true;
			return 0;
		}
		n = skip_items(g, items, n);
	}
	g->read += (uint64_t)n;
	r->offset = items[n - 1].offset;
	return n;
}

/*
 * Whether a result may wait. Those of the first segment always make progress. Called with the lock.
 */
static bool has_room(const struct ptah_segment *g)
{
	const struct pool *pool = pool_of(g);

	return g->all->waiting < g->all->room ||
	       (g->task == &pool->tasks[pool->first] && !g->task->results);
}

/* False: the result is not wanted. */
static bool append(struct ptah_segment *g, struct segment_result *result)
{
	struct pool *pool = pool_of(g);
	bool wanted;

	pthread_mutex_lock(&pool->lock);
	while (!pool->stop && !g->task->dropped && !has_room(g))
		pthread_cond_wait(&pool->changed, &pool->lock);
	wanted = !pool->stop && !g->task->dropped;
	if (wanted) {
		*g->task->last_result = result;
		g->task->last_result = &result->next;
		g->all->waiting++;
		/* Nobody waits for the results of another segment than the first. */
		if (g->task == &pool->tasks[pool->first])
			pthread_cond_broadcast(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	return wanted;
}

int ptah_segment_put(struct ptah_segment *g, void *value)
{
	const struct segments *all;
	struct segment_result *result;
	uint64_t offset;

	if (!g)
		return PTAH_E_INVAL;
	all = g->all;
	offset = ptah_reader_offset(g->reader);
	if (!g->task) {
		const int status = all->functions->take(all->context, value, offset);

		return status < 0 ? status : 0;
	}
	result = malloc(sizeof(*result));
	if (!result) {
		all->functions->drop(all->context, value);
		return PTAH_E_NOMEM;
	}
	*result = (struct segment_result){.value = value, .covered = g->read, .offset = offset};
	if (append(g, result))
		return 0;
	free(result);
	all->functions->drop(all->context, value);
	return 1;
}

/* The jobs */

/* Works on a segment independently of the others. */
static int run_segment(struct pool *pool, struct stream_decoder *s, struct task *task)
{
	struct ptah_reader *r = pool->context;
	struct ptah_segment g = {
	    .all = r->segments,
	    .task = task,
	    .own = {
		.session = r->session, .index = r->index, .s = s, .alone = true, .segment = &g}};
	int status = task_enter(task, s);

	g.reader = &g.own;
	pthread_mutex_lock(&pool->lock);
	task->last_result = &task->results;
	task->begun = true;
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
	if (status >= 0)
		status = g.all->functions->run(g.all->context, &g, g.reader, true);
	task_leave(task, s);
	return status < 0 ? status : 0;
}

/* Forgets the results that a task still has. No job works on it any more. */
static void forget_results(struct pool *pool, struct task *task)
{
	const struct ptah_reader *r = pool->context;
	struct segments *all = r->segments;

	while (task->results) {
		struct segment_result *result = task->results;

		task->results = result->next;
		all->functions->drop(all->context, result->value);
		free(result);
		all->waiting--;
	}
}

/* The caller's thread */

/* Waits until a job has entered the first segment. NULL: there are no more. */
static struct task *first_begun(struct pool *pool)
{
	struct task *task = NULL;

	pthread_mutex_lock(&pool->lock);
	while (pool->count ? !pool->tasks[pool->first].begun && !pool->tasks[pool->first].done
			   : !pool->exhausted)
		pthread_cond_wait(&pool->changed, &pool->lock);
	if (pool->count)
		task = &pool->tasks[pool->first];
	pthread_mutex_unlock(&pool->lock);
	return task;
}

/* Waits for the next result of a task. NULL: there are no more. */
static struct segment_result *next_result(struct segments *all, struct task *task)
{
	struct pool *pool = &all->reader->pool;
	struct segment_result *result;

	pthread_mutex_lock(&pool->lock);
	while (!task->results && !task->done)
		pthread_cond_wait(&pool->changed, &pool->lock);
	result = task->results;
	if (result) {
		task->results = result->next;
		if (!task->results)
			task->last_result = &task->results;
		/* Jobs wait until there is room. */
		if (all->waiting-- >= all->room || !task->results)
			pthread_cond_broadcast(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	return result;
}

/* Takes the results of a task. *covered: how many items they are of. 1: the next one is of no use.
 */
static int take_results(struct segments *all, struct task *task, uint64_t *covered)
{
	struct segment_result *result;
	int status = 0;

	while (!status && (result = next_result(all, task))) {
		status = all->functions->take(all->context, result->value, result->offset);
		if (!status)
			*covered = result->covered;
		free(result);
	}
	return status;
}

/* Waits until no job works on the task, and forgets what is left of its results. */
static void drop_results(struct pool *pool, struct task *task)
{
	pthread_mutex_lock(&pool->lock);
	task->dropped = true;
	pthread_cond_broadcast(&pool->changed);
	while (!task->done)
		pthread_cond_wait(&pool->changed, &pool->lock);
	forget_results(pool, task);
	pthread_cond_broadcast(&pool->changed);
	pthread_mutex_unlock(&pool->lock);
}

/* Runs the segment in the caller's thread, without the first items. */
static int run_again(struct segments *all, uint64_t covered)
{
	struct ptah_reader *r = all->reader;
	struct ptah_segment g = {.all = all, .reader = r, .skip = covered, .read = covered};
	int status = reader_go_after_last(r);

	if (status < 0)
		return status;
	r->segment = &g;
	status = all->functions->run(all->context, &g, g.reader, false);
	r->segment = NULL;
	return status;
}

static int read_task(struct segments *all, struct task *task)
{
	struct ptah_reader *r = all->reader;
	const bool fits = task_fits(task, &r->last, true);
	uint64_t covered = 0;
	int status = fits ? take_results(all, task, &covered) : 1;

	if (status < 0)
		return status;
	if (!status && !task->unfit) {
		r->again = false;
		return task->status;
	}
	drop_results(&r->pool, task);
	return task->status < 0 ? task->status : run_again(all, covered);
}

static int read_tasks(struct segments *all)
{
	struct ptah_reader *r = all->reader;
	int status = 0;

	while (status >= 0 && (r->task = first_begun(&r->pool))) {
		status = read_task(all, r->task);
		if (status >= 0)
			reader_end_task(r);
	}
	return status < 0 ? status : r->pool.status;
}

/* Reads everything in the caller's thread. */
static int read_alone(struct segments *all)
{
	struct ptah_segment g = {.all = all, .reader = all->reader};

	return all->functions->run(all->context, &g, g.reader, false);
}

int ptah_session_read_segments(const struct ptah_session *session, size_t index,
			       const struct ptah_jobs *jobs,
			       const struct ptah_segment_functions *functions, void *context)
{
	struct segments all = {.functions = functions, .context = context};
	int status;

	if (!functions || functions->size < sizeof(*functions) || !functions->run ||
	    !functions->take || !functions->drop)
		return PTAH_E_INVAL;
	all.room = (functions->results ? functions->results : 1) * (jobs ? jobs->jobs : 1);
	status = reader_make(session, index, jobs, SEGMENT, run_segment, &all.reader);
	if (status < 0)
		return status;
	all.reader->segments = &all;
	all.reader->pool.forget = forget_results;
	if (all.reader->workers)
		all.reader->pool.streams = &all.reader->workers->segments;
	reader_begin(all.reader);
	status = all.reader->alone ? read_alone(&all) : read_tasks(&all);
	/* A reader that has failed is not kept for the next stream. */
	if (status < 0)
		all.reader->status = status;
	ptah_reader_free(all.reader);
	return status < 0 ? status : 0;
}
