/* SPDX-License-Identifier: MIT */
/* The calls of <ptah/live.h>: begins and ends a live session, and answers questions. */
#include "live/live.h"

#include "base/order.h"

#include <stdlib.h>
#include <string.h>

#define QUEUE  (UINT64_C(8) << 20)
#define MEMORY (UINT64_C(1) << 30)
#define JOBS   256

static void init(struct ptah_live *live)
{
	pthread_mutex_init(&live->lock, NULL);
	pthread_cond_init(&live->changed, NULL);
	pthread_mutex_init(&live->callback, NULL);
	pthread_mutex_init(&live->threads_lock, NULL);
	live_list_init(&live->queue);
	live_list_init(&live->kept);
	for (size_t i = 0; i < 3; i++)
		live_list_init(&live->trace[i]);
	live->sink = (struct ptah_record_sink){
	    .take = live_sink_take, .ended = live_sink_ended, .context = live};
}

int ptah_live_new(const struct ptah_live_config *config, struct ptah_live **out)
{
	struct ptah_live *live;
	int status;

	if (!config || !out || config->size < sizeof(*config) || config->policy > PTAH_LIVE_DROP ||
	    config->watch_count > PTAH_LIVE_WATCHES || config->jobs > JOBS ||
	    config->what & ~(unsigned)(PTAH_LIVE_COUNTS | PTAH_LIVE_CALLS | PTAH_LIVE_ITEMS))
		return PTAH_E_INVAL;
	live = calloc(1, sizeof(*live));
	if (!live)
		return PTAH_E_NOMEM;
	live->config = *config;
	live->config.what = config->what ? config->what : PTAH_LIVE_COUNTS;
	live->config.queue = config->queue ? config->queue : QUEUE;
	live->config.memory = config->memory ? config->memory : MEMORY;
	init(live);
	live->watch_count = config->on_hit ? config->watch_count : 0;
	for (size_t i = 0; i < live->watch_count; i++)
		live->watches[i] = config->watches[i];
	status = grow_new(config->session.size ? &config->session : NULL, "the recording",
			  &live->session);
	if (status >= 0)
		status = ptah_functions_new(live->session, &live->functions);
	if (status >= 0)
		call_threads_init(&live->threads, live->session, live->functions, NULL);
	if (status >= 0 && config->jobs)
		status = live_crew_new(live, &live->crew);
	if (status < 0) {
		ptah_live_free(live);
		return status;
	}
	*out = live;
	return 0;
}

void ptah_live_free(struct ptah_live *live)
{
	if (!live)
		return;
	live_crew_free(live->crew);
	live_forget(live);
	live_feed_free(live->feed);
	pthread_mutex_destroy(&live->lock);
	pthread_cond_destroy(&live->changed);
	pthread_mutex_destroy(&live->callback);
	pthread_mutex_destroy(&live->threads_lock);
	free(live);
}

const struct ptah_record_sink *ptah_live_sink(struct ptah_live *live)
{
	if (!live)
		return NULL;
	live->session->growth->is_local = true;
	return &live->sink;
}

const char *ptah_live_why(const struct ptah_live *live)
{
	return live ? live->why.text : "";
}

/* Steps and questions */

void live_enter(struct ptah_live *live)
{
	pthread_mutex_lock(&live->lock);
	while (live->holders || live->stepping)
		pthread_cond_wait(&live->changed, &live->lock);
	live->stepping = true;
	pthread_mutex_unlock(&live->lock);
}

void live_leave(struct ptah_live *live)
{
	pthread_mutex_lock(&live->lock);
	live->stepping = false;
	pthread_cond_broadcast(&live->changed);
	pthread_mutex_unlock(&live->lock);
}

void ptah_live_hold(struct ptah_live *live)
{
	pthread_mutex_lock(&live->lock);
	live->holders++;
	while (live->stepping)
		pthread_cond_wait(&live->changed, &live->lock);
	pthread_mutex_unlock(&live->lock);
	live_count_up(live);
}

void ptah_live_release(struct ptah_live *live)
{
	pthread_mutex_lock(&live->lock);
	live->holders--;
	pthread_cond_broadcast(&live->changed);
	pthread_mutex_unlock(&live->lock);
}

static int status_of(struct ptah_live *live)
{
	int status;

	pthread_mutex_lock(&live->lock);
	status = live->status;
	pthread_mutex_unlock(&live->lock);
	return status;
}

int ptah_live_poll(struct ptah_live *live)
{
	int status;

	if (!live)
		return PTAH_E_INVAL;
	if (live->crew)
		return status_of(live);
	do {
		live_enter(live);
		status = live_step(live);
		live_leave(live);
	} while (status > 0);
	return status;
}

/* Trace that was being left out when the recording ended. */
static void end_drops(struct ptah_live *live)
{
	for (size_t i = 0; i < live->drop_count; i++)
		if (live->drops[i].loss) {
			live_list_add(&live->queue, live->drops[i].loss);
			live->drops[i].loss = NULL;
			live->drops[i].dropping = false;
		}
}

static int finish_live(struct ptah_live *live)
{
	int status;

	pthread_mutex_lock(&live->lock);
	end_drops(live);
	live->finishing = true;
	pthread_cond_broadcast(&live->changed);
	while (live->crew && !live->finished)
		pthread_cond_wait(&live->changed, &live->lock);
	pthread_mutex_unlock(&live->lock);
	if (live->crew)
		return status_of(live);
	status = ptah_live_poll(live);
	if (status >= 0) {
		live_enter(live);
		status = live_end(live);
		live_leave(live);
	}
	live->finished = true;
	return status;
}

int ptah_live_finish(struct ptah_live *live)
{
	int status;

	if (!live)
		return PTAH_E_INVAL;
	if (live->finished)
		return status_of(live);
	if (live->feed)
		live_feed_end(live);
	status = finish_live(live);
	if (status >= 0 && !live->figures.bytes)
		return live_fail(live, PTAH_E_EMPTY, "no trace has come");
	return status;
}

int ptah_live_status(struct ptah_live *live, struct ptah_live_status *status)
{
	const uint64_t now = live_now();
	uint64_t oldest;

	if (!live || !status || status->size < sizeof(*status))
		return PTAH_E_INVAL;
	pthread_mutex_lock(&live->lock);
	*status = live->figures;
	status->size = sizeof(*status);
	status->queued = live->ready_bytes;
	status->finished = live->finished;
	oldest = live->oldest;
	for (const struct live_entry *e = live->queue.first; e && !oldest; e = e->next)
		if (e->kind == LIVE_TRACE)
			oldest = e->when;
	pthread_mutex_unlock(&live->lock);
	status->lag = oldest && now > oldest ? now - oldest : 0;
	if (status->lag > status->worst_lag)
		status->worst_lag = status->lag;
	return 0;
}

const struct ptah_session *ptah_live_session(struct ptah_live *live)
{
	return live ? live->session : NULL;
}

struct ptah_functions *ptah_live_finder(struct ptah_live *live)
{
	return live ? live->functions : NULL;
}

/* What profiles have counted, which takes a while to add up. */
static void ask_counts(struct live_stream *ls, struct ptah_live_thread *t)
{
	struct ptah_profile_totals totals;

	if (!ls->counts || ls->retired || ls->live->config.what & PTAH_LIVE_CALLS ||
	    ptah_profile_totals(ls->counts->profile, &totals) < 0)
		return;
	t->instructions += totals.instructions - ls->inherited.instructions;
	t->errors += totals.errors - ls->inherited.errors;
	t->overflows += totals.overflows - ls->inherited.overflows;
}

int ptah_live_thread(struct ptah_live *live, size_t i, struct ptah_live_thread *thread)
{
	if (!live || !thread || thread->size < sizeof(*thread))
		return PTAH_E_INVAL;
	if (i >= live->count)
		return PTAH_E_MISSING;
	live_describe(live->streams[i], thread);
	ask_counts(live->streams[i], thread);
	return 0;
}

int ptah_live_counts(struct ptah_live *live,
		     int (*take)(void *context, size_t stream, struct ptah_profile *profile),
		     void *context)
{
	int status = 0;

	if (!live || !take || !(live->config.what & PTAH_LIVE_COUNTS))
		return PTAH_E_INVAL;
	for (size_t i = 0; i < live->count && status >= 0; i++)
		if (live->streams[i]->counts)
			status = take(context, i, live->streams[i]->counts->profile);
	return status < 0 ? status : 0;
}

/* Functions */

/* The tallies of streams of threads, and of threads that run on processors. */
static size_t tallies(const struct ptah_live *live)
{
	return live->count + live->runner_count;
}

/* One of them. NULL: it has none. */
static const struct live_tally *tally_at(const struct ptah_live *live, size_t i, int32_t *space)
{
	const struct live_runner *r;

	if (i < live->count) {
		*space = live->session->streams[i].info.space;
		return &live->streams[i]->own.tally;
	}
	r = live->runners[i - live->count];
	*space = r ? r->thread->info.space : -1;
	return r ? &r->tally : NULL;
}

static void add_row(struct ptah_live_function *to, const struct ptah_live_function *from)
{
	to->flags |= from->flags;
	to->calls += from->calls;
	to->instructions += from->instructions;
	to->open += from->open;
	to->ended += from->ended;
	to->timed += from->timed;
	to->ticks += from->ticks;
	to->total_instructions += from->total_instructions;
	if (from->max_ticks > to->max_ticks)
		to->max_ticks = from->max_ticks;
	if (from->max_instructions > to->max_instructions)
		to->max_instructions = from->max_instructions;
}

static int compare_rows(const void *a, const void *b)
{
	const struct ptah_live_function *x = a, *y = b;

	return COMPARE_THEN(x->space, y->space, COMPARE(x->function, y->function));
}

static size_t list_rows(const struct live_tally *tally, int32_t space,
			struct ptah_live_function *rows)
{
	for (size_t i = 0; i < tally->count; i++) {
		const struct tally_row *r = &tally->rows[i];

		rows[i] =
		    (struct ptah_live_function){.space = r->space ? -1 - (int32_t)r->space : space,
						.flags = r->flags,
						.function = r->function,
						.calls = r->calls,
						.instructions = r->instructions,
						.open = r->open,
						.ended = r->ended,
						.timed = r->timed,
						.ticks = r->ticks,
						.max_ticks = r->max_ticks,
						.waited = r->waited,
						.total_instructions = r->total_instructions,
						.max_instructions = r->max_instructions};
	}
	return tally->count;
}

int ptah_live_functions(struct ptah_live *live, struct ptah_live_function **rows, size_t *n)
{
	const struct live_tally *tally;
	struct ptah_live_function *list;
	size_t count = 0, last = 0;
	int32_t space;

	if (!live || !rows || !n || !(live->config.what & PTAH_LIVE_CALLS))
		return PTAH_E_INVAL;
	for (size_t i = 0; i < tallies(live); i++)
		if ((tally = tally_at(live, i, &space)))
			count += tally->count;
	list = calloc(count + 1, sizeof(*list));
	if (!list)
		return PTAH_E_NOMEM;
	count = 0;
	for (size_t i = 0; i < tallies(live); i++)
		if ((tally = tally_at(live, i, &space)))
			count += list_rows(tally, space, list + count);
	qsort(list, count, sizeof(*list), compare_rows);
	for (size_t i = 1; i < count; i++) {
		if (!compare_rows(&list[last], &list[i]))
			add_row(&list[last], &list[i]);
		else
			list[++last] = list[i];
	}
	*rows = list;
	*n = count ? last + 1 : 0;
	return 0;
}

/* Adds the times of a function's calls, of all threads of its address space. */
static void add_times(struct ptah_live *live, const struct ptah_live_function *function,
		      struct histogram *sum)
{
	for (size_t i = 0; i < tallies(live); i++) {
		int32_t space;
		const struct live_tally *tally = tally_at(live, i, &space);
		const struct tally_row *row;

		for (unsigned k = 0; k < 2; k++) {
			const bool other = k && function->space < -1;

			if (!tally || (k && !other) || (!k && space != function->space))
				continue;
			row = live_tally_find(tally, other ? (uint16_t)(-1 - function->space) : 0,
					      function->function);
			if (row && row->timed)
				histogram_merge(sum, &row->times);
		}
	}
}

uint64_t ptah_live_common_quantile(struct ptah_live *live,
				   const struct ptah_live_function *functions, size_t n, double q)
{
	struct histogram sum = {.min = UINT64_MAX};
	uint64_t value = 0;

	if (!live || (n && !functions))
		return 0;
	for (size_t i = 0; i < n; i++)
		add_times(live, &functions[i], &sum);
	if (sum.n)
		value = histogram_quantile(&sum, q);
	free(sum.buckets);
	return value;
}

uint64_t live_quantile(struct ptah_live *live, const struct ptah_live_function *function, double q)
{
	return ptah_live_common_quantile(live, function, function != NULL, q);
}
