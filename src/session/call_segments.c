/* SPDX-License-Identifier: MIT */
/*
 * Keeps the machines and the summaries of jobs. There are as many machines as jobs, because each
 * has a cache of functions to fill, and as many summaries as segments that wait to be joined.
 */
#include "session/call_segments.h"

#include "session/session.h"
#include "calls/calls.h"
#include "support/list.h"

#include <pthread.h>
#include <stdlib.h>

struct call_segments {
	const struct ptah_session *session;
	struct ptah_functions *functions;
	int32_t space;
	struct ptah_call_tree_config trees;
	pthread_mutex_t lock;
	/* What follows, by whoever holds the lock. */
	struct calls_knowledge knowledge;
	struct call_worker *idle, **workers;
	struct calls_summary **summaries; /* all */
	struct calls_summary **spare;
	size_t worker_count, worker_capacity, summary_count, summary_capacity;
	size_t spare_count, spare_capacity;
};

static bool find_function(void *context, unsigned space, uint64_t address, uint64_t tsc,
			  struct ptah_function *function)
{
	const struct call_segments *c = context;

	return ptah_functions_find(c->functions, space ? -1 : c->space, address, tsc, function);
}

static unsigned count_insns(void *context, unsigned space, uint64_t from, uint64_t to, uint64_t tsc)
{
	const struct call_segments *c = context;

	return session_count_insns(c->session, space ? -1 : c->space, from, to, tsc);
}

int call_segments_new(const struct ptah_session *session, struct ptah_functions *functions,
		      int32_t space, const struct ptah_call_tree_config *trees,
		      struct call_segments **segments)
{
	struct call_segments *c = calloc(1, sizeof(*c));

	if (!c)
		return PTAH_E_NOMEM;
	c->session = session;
	c->functions = functions;
	c->space = space;
	c->trees = *trees;
	if (pthread_mutex_init(&c->lock, NULL)) {
		free(c);
		return PTAH_E_NOMEM;
	}
	*segments = c;
	return 0;
}

void call_segments_free(struct call_segments *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->worker_count; i++) {
		calls_adder_free(c->workers[i]->adder);
		free(c->workers[i]);
	}
	for (size_t i = 0; i < c->summary_count; i++)
		calls_summary_free(c->summaries[i]);
	free(c->workers);
	free(c->summaries);
	free(c->spare);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* Called with the lock, as the functions below. */
static struct call_worker *new_worker(struct call_segments *c)
{
	const struct calls_config config = {
	    .size = sizeof(config), .find = find_function, .find_context = c, .count = count_insns};
	const bool has_room = LIST_ROOM(c->workers, c->worker_count, c->worker_capacity);
	struct call_worker *w = has_room ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return NULL;
	if (calls_adder_new(&config, NULL, &w->adder) < 0) {
		free(w);
		return NULL;
	}
	return c->workers[c->worker_count++] = w;
}

static struct calls_summary *new_summary(struct call_segments *c)
{
	struct calls_summary *s;

	/* There is room for all of them in the list of spare ones. */
	if (!LIST_ROOM(c->summaries, c->summary_count, c->summary_capacity) ||
	    !LIST_ROOM(c->spare, c->summary_count, c->spare_capacity) ||
	    calls_summary_new(&c->trees, &s) < 0)
		return NULL;
	return c->summaries[c->summary_count++] = s;
}

static struct calls_summary *take_spare(struct call_segments *c)
{
	return c->spare_count ? c->spare[--c->spare_count] : new_summary(c);
}

struct call_worker *call_segments_lend(struct call_segments *c, const struct calls_summary *like)
{
	struct calls_knowledge knowledge;
	struct call_worker *w;

	pthread_mutex_lock(&c->lock);
	w = c->idle;
	if (w)
		c->idle = w->next;
	else
		w = new_worker(c);
	if (w) {
		w->summary = take_spare(c);
		if (!w->summary) {
			w->next = c->idle;
			c->idle = w;
			w = NULL;
		}
	}
	knowledge = like ? *calls_summary_knowledge(like) : c->knowledge;
	pthread_mutex_unlock(&c->lock);
	if (w)
		calls_adder_summarize(w->adder, w->summary, &knowledge);
	return w;
}

void call_segments_take_back(struct call_segments *c, struct call_worker *w)
{
	pthread_mutex_lock(&c->lock);
	w->next = c->idle;
	c->idle = w;
	pthread_mutex_unlock(&c->lock);
}

void call_segments_take_summary(struct call_segments *c, struct calls_summary *summary)
{
	pthread_mutex_lock(&c->lock);
	c->spare[c->spare_count++] = summary;
	pthread_mutex_unlock(&c->lock);
}

void call_segments_learn(struct call_segments *c, const struct calls_adder *adder)
{
	struct calls_knowledge knowledge;

	calls_adder_know(adder, &knowledge);
	pthread_mutex_lock(&c->lock);
	c->knowledge = knowledge;
	pthread_mutex_unlock(&c->lock);
}
