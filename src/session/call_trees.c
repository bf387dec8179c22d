/* SPDX-License-Identifier: MIT */
/*
 * ptah_session_call_trees(): the call trees of all threads, by one thread or by several. Either
 * workers take units, which are independent of each other, in order, and the caller's thread hands
 * the trees out in the same order; or all of them take segments of one unit after the other
 * (span_reader.c).
 */
#include "session/call_reader.h"
#include "session/workers.h"
#include "support/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Units for each worker that may be done and not handed out yet. */
#define AHEAD 4

/* A unit, and a reader with the trees of its threads when it is done. */
struct grove {
	struct call_unit unit;
	struct ptah_call_reader *reader;
	struct call_thread **threads;
	size_t count, capacity;
	int status;
	bool done;
};

struct forest {
	const struct ptah_session *session;
	struct ptah_call_reader_config config;
	struct ptah_call_tree_config trees;
	int (*take)(void *context, const struct ptah_call_thread *thread,
		    struct ptah_call_tree *tree);
	void *context;
	size_t taken; /* trees that were handed out: the next thread's number */
	bool stop_early;

	struct grove *units;
	size_t count;
	/* With workers: */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t next, handed_out; /* units */
	unsigned workers;
	atomic_bool stop;
	atomic_ullong bytes; /* of trace, done */
};

static bool is_wanted(const struct forest *f, size_t stream)
{
	return !f->config.wants || f->config.wants(f->config.context, stream);
}

/* Lists the units: a stream each, and then all streams per CPU. Returns the largest one's bytes. */
static uint64_t list_units(struct forest *f, uint64_t *all)
{
	uint64_t cpus = 0, most = 0;

	*all = 0;
	for (size_t i = 0; i < f->session->stream_count; i++) {
		const uint64_t bytes = f->session->streams[i].info.bytes;

		if (!is_wanted(f, i))
			continue;
		*all += bytes;
		if (call_is_per_cpu(f->session, i)) {
			cpus += bytes + 1;
			continue;
		}
		f->units[f->count++].unit = (struct call_unit){CALL_UNIT_STREAM, i};
		most = bytes > most ? bytes : most;
	}
	if (cpus)
		f->units[f->count++].unit = (struct call_unit){CALL_UNIT_CPUS, 0};
	return cpus > most ? cpus : most;
}

static int hand_out(struct forest *f, struct call_thread *t)
{
	t->info.number = f->taken++;
	return f->take(f->context, &t->info, t->tree);
}

/* Reports the progress. False: the work is to end. */
static bool go_on(struct forest *f, uint64_t bytes)
{
	if (f->config.progress && !f->config.progress(f->config.context, bytes))
		f->stop_early = true;
	return !f->stop_early;
}

/* Everything in the caller's thread, which decodes with the jobs. */
static int run_alone(struct forest *f)
{
	const struct call_unit all = {CALL_UNIT_ALL, 0};
	struct ptah_call_reader *reader;
	struct call_thread *t;
	int status = call_reader_open(f->session, &f->config, &f->trees, &all, &reader);

	if (status < 0)
		return status;
	while ((status = call_reader_next_tree(reader, &t)) > 0) {
		if (!t) {
			if (!go_on(f, ptah_call_reader_offset(reader)))
				break;
			continue;
		}
		status = hand_out(f, t);
		if (status < 0)
			break;
		ptah_call_tree_free(t->tree);
		t->tree = NULL;
	}
	ptah_call_reader_free(reader);
	return status < 0 ? status : 0;
}

static int keep(struct grove *g, struct call_thread *t)
{
	if (!LIST_ROOM(g->threads, g->count, g->capacity))
		return PTAH_E_NOMEM;
	g->threads[g->count++] = t;
	return 0;
}

/* Makes the trees of a unit. */
static int run_unit(struct forest *f, struct grove *g, struct ptah_workers *workers)
{
	struct ptah_call_reader_config config = f->config;
	uint64_t before = 0, now;
	struct call_thread *t;
	int status;

	config.jobs = 1;
	config.workers = workers;
	/* They belong to the caller's thread, which has asked them already. */
	config.wants = g->unit.kind == CALL_UNIT_CPUS ? f->config.wants : NULL;
	config.progress = NULL;
	status = call_reader_open(f->session, &config, &f->trees, &g->unit, &g->reader);
	while (status >= 0 && !f->stop && (status = call_reader_next_tree(g->reader, &t)) > 0) {
		if (t)
			status = keep(g, t);
		now = ptah_call_reader_offset(g->reader);
		if (now > before) {
			f->bytes += now - before;
			before = now;
			pthread_cond_signal(&f->changed);
		}
	}
	return status;
}

static struct grove *next_unit(struct forest *f, const struct grove *done)
{
	struct grove *g = NULL;

	pthread_mutex_lock(&f->lock);
	if (done) {
		f->units[done - f->units].done = true;
		pthread_cond_broadcast(&f->changed);
	}
	while (!f->stop && f->next < f->count && f->next >= f->handed_out + AHEAD * f->workers)
		pthread_cond_wait(&f->changed, &f->lock);
	if (!f->stop && f->next < f->count)
		g = &f->units[f->next++];
	pthread_mutex_unlock(&f->lock);
	return g;
}

static void *work(void *context)
{
	struct forest *f = context;
	struct ptah_workers *workers = NULL;
	struct grove *g = NULL;
	int status = ptah_workers_new(f->session, &workers);

	while ((g = next_unit(f, g)))
		g->status = status < 0 ? status : run_unit(f, g, workers);
	ptah_workers_free(workers);
	return NULL;
}

static void free_unit(struct grove *g)
{
	ptah_call_reader_free(g->reader);
	free(g->threads);
	g->reader = NULL;
	g->threads = NULL;
	g->count = 0;
}

/* Waits for a unit. False: the work is to end. */
static bool wait_for(struct forest *f, const struct grove *g)
{
	bool more = true;

	pthread_mutex_lock(&f->lock);
	while (!g->done && more) {
		uint64_t bytes;

		pthread_cond_wait(&f->changed, &f->lock);
		bytes = f->bytes;
		pthread_mutex_unlock(&f->lock);
		more = go_on(f, bytes);
		pthread_mutex_lock(&f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return more;
}

/* Hands out the trees of all units, in order. */
static int hand_out_all(struct forest *f)
{
	int status = 0;

	for (size_t i = 0; i < f->count && status >= 0; i++) {
		struct grove *g = &f->units[i];

		if (!wait_for(f, g))
			break;
		status = g->status;
		for (size_t k = 0; k < g->count && status >= 0; k++)
			status = hand_out(f, g->threads[k]);
		free_unit(g);
		pthread_mutex_lock(&f->lock);
		f->handed_out++;
		pthread_cond_broadcast(&f->changed);
		pthread_mutex_unlock(&f->lock);
	}
	return status < 0 ? status : 0;
}

static int run_workers(struct forest *f, unsigned n)
{
	pthread_t threads[MAX_JOBS];
	int status = PTAH_E_NOMEM;

	if (pthread_mutex_init(&f->lock, NULL))
		return PTAH_E_NOMEM;
	if (pthread_cond_init(&f->changed, NULL)) {
		pthread_mutex_destroy(&f->lock);
		return PTAH_E_NOMEM;
	}
	f->workers = n;
	for (n = 0; n < f->workers && !pthread_create(&threads[n], NULL, work, f); n++)
		;
	if (n)
		status = hand_out_all(f);
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	while (n)
		pthread_join(threads[--n], NULL);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	return status;
}

/* Whether jobs can take segments of the stream. Not where code changes, see parallel_reader.c. */
static bool is_divisible(const struct forest *f, const struct call_unit *unit)
{
	const struct change **changes;
	const struct stream *stream = &f->session->streams[unit->stream];
	bool *waits, divisible = true;
	size_t count;

	if (unit->kind != CALL_UNIT_STREAM || kernel_later(&f->session->kernel))
		return false;
	if (stream->process == SESSION_NONE)
		return true;
	if (session_stream_memory(f->session, stream, &changes, &waits, &count) < 0)
		return false;
	for (size_t i = 0; i < count && divisible; i++)
		divisible = !waits[i];
	free(changes);
	free(waits);
	return divisible;
}

/* Whether the jobs take one unit after the other together, and not each a unit of its own. */
static bool is_together(const struct forest *f, uint64_t most, uint64_t bytes)
{
	const unsigned jobs = f->config.jobs;

	if (jobs < 2 || f->count < 2)
		return true;
	/* There are enough for all jobs, of which none has to wait long for the last one. */
	if (most <= bytes / jobs && f->count >= 2 * (size_t)jobs)
		return false;
	for (size_t i = 0; i < f->count; i++)
		if (!is_divisible(f, &f->units[i].unit))
			return most > bytes / 2;
	return true;
}

/* Makes the trees of the listed units. */
static int run(struct forest *f)
{
	const unsigned jobs = f->config.jobs;
	uint64_t bytes;
	const uint64_t most = list_units(f, &bytes);
	int status;

	if (is_together(f, most, bytes))
		return run_alone(f);
	status = run_workers(f, jobs < f->count ? jobs : (unsigned)f->count);
	for (size_t i = 0; i < f->count; i++)
		free_unit(&f->units[i]);
	return status;
}

int ptah_session_call_trees(const struct ptah_session *session,
			    const struct ptah_call_reader_config *config,
			    int (*take)(void *context, const struct ptah_call_thread *thread,
					struct ptah_call_tree *tree),
			    void *context)
{
	struct forest f = {.session = session, .take = take, .context = context};
	struct ptah_functions *own = NULL;
	int status = 0;

	if (!session || !take || !call_is_config(session, config))
		return PTAH_E_INVAL;
	if (config)
		f.config = *config;
	f.trees = (struct ptah_call_tree_config){.size = sizeof(f.trees),
						 .max_paths = f.config.max_paths};
	ptah_session_time_scale(session, &f.trees.time_mult, &f.trees.time_shift);
	f.units = calloc(session->stream_count + 1, sizeof(*f.units));
	if (!f.units)
		return PTAH_E_NOMEM;
	if (!f.config.functions) {
		status = ptah_functions_new(session, &own);
		f.config.functions = own;
	}
	if (status >= 0)
		status = run(&f);
	ptah_functions_free(own);
	free(f.units);
	return status;
}
