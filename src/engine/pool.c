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
	if (config->memory || config->memories)
		return buffer_refuse(problem, "memory", "no_memory, and each taking brings its own",
				     PTAH_PROBLEM_NEEDS, config->memories, 0);
	if (!n || n > MAX_POOL) {
		buffer_refuse(problem, "n", "a pool has 1 to 65536 captures", PTAH_PROBLEM_MAX, n,
			      MAX_POOL);
		return PTAH_E_LIMIT;
	}
	status = buffer_alloc(engine->hal, engine->port, NOBODY, PTAH_MEMORY_ENGINE,
			      sizeof(*p) + (uint64_t)n * sizeof(p->captures[0]), &memory);
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

/* Checks what can be checked before there is a capture: what to trace, and the blocks. */
static int check_taking(const struct ptah_pool *pool, const struct ptah_capture_config *config,
			const struct ptah_hal_memory *memory, size_t n,
			struct ptah_trace_problem *problem)
{
	const struct ptah_capture *any = pool->captures[0];
	uint64_t size;
	int status = PTAH_OK;

	if (config->trace != &pool->trace)
		status = buffer_check_trace(pool->engine, config->cpu, any->xsaves, config->trace,
					    problem);
	if (status < 0 || (!any->lent && !memory && !n))
		return status;
	if (!any->lent)
		return buffer_refuse(problem, "memory", "the pool's captures have buffers",
				     PTAH_PROBLEM_FLAG, n, 0);
	status = lent_check(memory, n, any->physical_bits, &size, problem);
	if (status == PTAH_OK && size != any->topa.lap)
		return buffer_refuse(problem, "memory", "not as large as the pool's buffers",
				     size < any->topa.lap ? PTAH_PROBLEM_MIN : PTAH_PROBLEM_MAX,
				     size, any->topa.lap);
	return status;
}

/* Gives a capture that was claimed its memory. */
static int lend(struct ptah_capture *c, const struct ptah_hal_memory *memory, size_t n,
		struct ptah_trace_problem *problem)
{
	int status;

	if (!c->lent)
		return PTAH_OK;
	status = lent_place(&c->topa, c->config.cpu, memory, n, problem);
	if (status == PTAH_OK && c->shape != PTAH_SHAPE_SINGLE)
		topa_build(&c->topa);
	return status;
}

int ptah_pool_take_memory(struct ptah_pool *pool, uint64_t owner, void *cookie,
			  const struct ptah_trace_config *trace,
			  const struct ptah_hal_memory *memory, size_t n,
			  struct ptah_capture **capture, struct ptah_trace_problem *problem)
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
	if (trace)
		config.trace = trace;
	status = check_taking(pool, &config, memory, n, problem);
	if (status < 0)
		return status;
	for (i = 0; i < pool->n; i++) {
		struct ptah_capture *c = pool->captures[i];

		if (!claim(c, POOLED_CHANGING))
			continue;
		status = lend(c, memory, n, problem);
		if (status < 0) {
			atomic_store(&c->pooled, POOLED_IDLE);
			return status;
		}
		buffer_configure(c, &config);
		atomic_store(&c->pooled, POOLED_USED);
		*capture = c;
		return PTAH_OK;
	}
	buffer_refuse(problem, "pool", "all its captures are in use", PTAH_PROBLEM_MAX, pool->n,
		      pool->n);
	return PTAH_E_NOMEM;
}

int ptah_pool_take(struct ptah_pool *pool, uint64_t owner, void *cookie,
		   const struct ptah_trace_config *trace, struct ptah_capture **capture,
		   struct ptah_trace_problem *problem)
{
	return ptah_pool_take_memory(pool, owner, cookie, trace, NULL, 0, capture, problem);
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
	/* The next owner must not see the trace of this one. Memory that was lent may be gone. */
	for (n = 0; n < c->topa.nblocks && !c->lent; n++)
		memset(c->topa.blocks[n].address, 0, c->topa.blocks[n].size);
	page_free(c);
	buffer_reset(c);
	atomic_store(&c->pooled, POOLED_IDLE);
}
