/* SPDX-License-Identifier: MIT */
/*
 * Captures that are allocated ahead, so that one can be taken where nothing may sleep. They are in
 * the engine's list from the beginning, because the list has a lock; an atomic state of each says
 * whether it is in use.
 */
#include "engine/internal.h"

#define MAX_POOL 65536u

struct ptah_pool {
	struct ptah_engine *engine;
	struct ptah_hal_memory memory;
	struct ptah_capture_config config; /* `trace` is that of this struct */
	struct ptah_trace_config trace;
	unsigned n;
	struct ptah_capture *captures[];
};

static void free_captures(struct ptah_pool *pool)
{
	unsigned i;

	for (i = 0; i < pool->n; i++) {
		engine_unlink(pool->captures[i]);
		buffer_free(pool->captures[i]);
	}
}

static int fill_pool(struct ptah_pool *pool, unsigned n, struct ptah_trace_problem *problem)
{
	int status = PTAH_OK;

	while (pool->n < n && status == PTAH_OK) {
		struct ptah_capture **c = &pool->captures[pool->n];

		status = buffer_new(pool->engine, &pool->config, c, problem);
		if (status < 0)
			break;
		(*c)->pool = pool;
		atomic_store(&(*c)->pooled, POOLED_IDLE);
		engine_link(*c);
		pool->n++;
	}
	return status;
}

int ptah_pool_new(struct ptah_engine *engine, const struct ptah_capture_config *config, unsigned n,
		  struct ptah_pool **pool, struct ptah_trace_problem *problem)
{
	struct ptah_hal_memory memory;
	struct ptah_pool *p;
	int status;

	if (problem)
		*problem = (struct ptah_trace_problem){0};
	if (!engine || !config || config->size < sizeof(*config) || !pool)
		return buffer_refuse_call(problem);
	if (!n || n > MAX_POOL) {
		buffer_refuse(problem, "n", "a pool has 1 to 65536 captures", PTAH_PROBLEM_MAX, n,
			      MAX_POOL);
		return PTAH_E_LIMIT;
	}
	status =
	    buffer_alloc(engine->hal, engine->port, 52,
			 sizeof(*p) + (uint64_t)n * sizeof(p->captures[0]), TOPA_PAGE, &memory);
	if (status < 0)
		return buffer_explain(status, problem);
	p = memory.address;
	p->engine = engine;
	p->memory = memory;
	p->config = *config;
	p->n = 0;
	status = fill_pool(p, n, problem);
	if (status < 0) {
		free_captures(p);
		engine->hal->release(engine->port, &memory);
		return buffer_explain(status, problem);
	}
	p->trace = *config->trace;
	p->config.trace = &p->trace;
	*pool = p;
	return PTAH_OK;
}

static bool claim(struct ptah_capture *c, unsigned state)
{
	unsigned idle = POOLED_IDLE;

	return atomic_compare_exchange_strong(&c->pooled, &idle, state);
}

int ptah_pool_free(struct ptah_pool *pool)
{
	struct ptah_hal_memory memory;
	unsigned claimed = 0, i;

	if (!pool)
		return PTAH_OK;
	while (claimed < pool->n && claim(pool->captures[claimed], POOLED_CHANGING))
		claimed++;
	if (claimed < pool->n) {
		for (i = 0; i < claimed; i++)
			atomic_store(&pool->captures[i]->pooled, POOLED_IDLE);
		return PTAH_E_BUSY;
	}
	free_captures(pool);
	memory = pool->memory;
	pool->engine->hal->release(pool->engine->port, &memory);
	return PTAH_OK;
}

int ptah_pool_take(struct ptah_pool *pool, uint64_t owner, void *cookie,
		   const struct ptah_trace_config *trace, struct ptah_capture **capture,
		   struct ptah_trace_problem *problem)
{
	struct ptah_capture_config config;
	unsigned i;
	int status;

	if (problem)
		*problem = (struct ptah_trace_problem){0};
	if (!pool || !capture || (trace && trace->size < sizeof(*trace)))
		return buffer_refuse_call(problem);
	config = pool->config;
	config.owner = owner;
	config.cookie = cookie;
	if (trace) {
		config.trace = trace;
		status = buffer_check_trace(pool->engine, config.cpu, pool->captures[0]->xsaves,
					    trace, problem);
		if (status < 0)
			return status;
	}
	for (i = 0; i < pool->n; i++) {
		struct ptah_capture *c = pool->captures[i];

		if (!claim(c, POOLED_CHANGING))
			continue;
		buffer_configure(c, &config);
		atomic_store(&c->pooled, POOLED_USED);
		*capture = c;
		return PTAH_OK;
	}
	buffer_refuse(problem, "pool", "all its captures are in use", PTAH_PROBLEM_MAX, pool->n,
		      pool->n);
	return PTAH_E_NOMEM;
}

unsigned ptah_pool_left(const struct ptah_pool *pool)
{
	unsigned left = 0, i;

	for (i = 0; pool && i < pool->n; i++)
		left += atomic_load(&pool->captures[i]->pooled) == POOLED_IDLE;
	return left;
}

void pool_return(struct ptah_capture *c)
{
	unsigned used;
	uint32_t n;

	/* CHANGING already: of an owner that died. LOOKED does not last. */
	do
		used = POOLED_USED;
	while (!atomic_compare_exchange_strong(&c->pooled, &used, POOLED_CHANGING) &&
	       used != POOLED_CHANGING);
	/* The next owner must not see the trace of this one. */
	for (n = 0; n < c->topa.nblocks; n++)
		memset(c->topa.blocks[n].address, 0, c->topa.blocks[n].size);
	page_free(c);
	buffer_reset(c);
	atomic_store(&c->pooled, POOLED_IDLE);
}
