/* SPDX-License-Identifier: MIT */
/*
 * The threads of a live session: one that takes the steps, and others that decode streams during
 * them.
 */
#include "live/live.h"

#include <stdatomic.h>
#include <stdlib.h>

struct live_crew {
	struct ptah_live *live;
	pthread_t steps, *helpers;
	bool steps_started;
	size_t count; /* of helpers */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool stop;
	/* The present work. */
	unsigned turn; /* its number */
	unsigned busy; /* helpers that have not ended it */
	size_t n;
	atomic_size_t next;
	void (*work)(void *context, size_t i);
	void *context;
};

static void work_on(struct live_crew *c)
{
	size_t i;

	while ((i = atomic_fetch_add(&c->next, 1)) < c->n)
		c->work(c->context, i);
}

static void *help(void *context)
{
	struct live_crew *c = context;
	unsigned turn = 0;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		while (!c->stop && c->turn == turn)
			pthread_cond_wait(&c->changed, &c->lock);
		if (c->stop)
			break;
		turn = c->turn;
		pthread_mutex_unlock(&c->lock);
		work_on(c);
		pthread_mutex_lock(&c->lock);
		if (!--c->busy)
			pthread_cond_broadcast(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

void live_crew_run(struct live_crew *c, size_t n, void (*work)(void *context, size_t i),
		   void *context)
{
	if (!c || !c->count || n < 2) {
		for (size_t i = 0; i < n; i++)
			work(context, i);
		return;
	}
	pthread_mutex_lock(&c->lock);
	c->n = n;
	c->work = work;
	c->context = context;
	atomic_store(&c->next, 0);
	c->busy = (unsigned)c->count;
	c->turn++;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	work_on(c);
	pthread_mutex_lock(&c->lock);
	while (c->busy)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
}

/* Waits until there is something to do. False: the session ends. */
static bool wait_for_work(struct ptah_live *live, bool more)
{
	bool stop;

	pthread_mutex_lock(&live->lock);
	while (!more && !live->stop && (live->status < 0 || !live->rounds_queued) &&
	       !(live->finishing && !live->finished))
		pthread_cond_wait(&live->changed, &live->lock);
	stop = live->stop;
	pthread_mutex_unlock(&live->lock);
	return !stop;
}

static void finish_round(struct ptah_live *live)
{
	pthread_mutex_lock(&live->lock);
	live->finished = true;
	pthread_cond_broadcast(&live->changed);
	pthread_mutex_unlock(&live->lock);
}

static void *take_steps(void *context)
{
	struct ptah_live *live = context;
	bool finishing;
	int status = 0;

	while (wait_for_work(live, status > 0)) {
		pthread_mutex_lock(&live->lock);
		finishing = live->finishing;
		pthread_mutex_unlock(&live->lock);
		live_enter(live);
		status = live_step(live);
		if (!status && finishing)
			status = live_end(live);
		live_leave(live);
		if (status <= 0 && finishing)
			finish_round(live);
	}
	return NULL;
}

int live_crew_new(struct ptah_live *live, struct live_crew **crew)
{
	struct live_crew *c = calloc(1, sizeof(*c));

	if (c)
		c->helpers = calloc(live->config.jobs, sizeof(*c->helpers));
	if (!c || !c->helpers) {
		free(c);
		return PTAH_E_NOMEM;
	}
	c->live = live;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	*crew = c;
	/* Fewer helpers are no failure. */
	while (c->count + 1 < live->config.jobs &&
	       !pthread_create(&c->helpers[c->count], NULL, help, c))
		c->count++;
	c->steps_started = !pthread_create(&c->steps, NULL, take_steps, live);
	return c->steps_started ? 0 : PTAH_E_SYSTEM;
}

void live_crew_free(struct live_crew *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->live->lock);
	c->live->stop = true;
	pthread_cond_broadcast(&c->live->changed);
	pthread_mutex_unlock(&c->live->lock);
	if (c->steps_started)
		pthread_join(c->steps, NULL);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	for (size_t i = 0; i < c->count; i++)
		pthread_join(c->helpers[i], NULL);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
	free(c->helpers);
	free(c);
}
