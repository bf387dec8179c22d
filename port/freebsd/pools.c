/* SPDX-License-Identifier: MIT */
/*
 * Captures for new threads. hwt calls the backend for a thread where the kernel may not sleep, so
 * that captures are made ahead, in pools of POOL_CAPTURES; a task adds a pool when few are left.
 * Only the first thread of a buffer size, which comes from an ioctl, waits for its pool.
 */
#include "port.h"

#define POOL_CAPTURES 16u
#define POOL_LOW      8u

/* hwt's tool reads the buffer at each record, so that it must not wrap between two of them. */
#define LAP_RECORDS 16

struct pool {
	TAILQ_ENTRY(pool) next;
	int npages;
	struct ptah_pool *captures;
};

static TAILQ_HEAD(, pool) pools;
static struct mtx pools_mtx; /* of the list, and of who takes from it */
static struct task pools_task;

struct ptah_hal_memory *pt_blocks(const struct hwt_vm *vm, int flags)
{
	struct ptah_hal_memory *blocks =
	    mallocarray((size_t)vm->npages, sizeof(*blocks), M_PTAH, flags);
	int i;

	for (i = 0; blocks && i < vm->npages; i++)
		blocks[i] = (struct ptah_hal_memory){
		    .address = (char *)vm->kvaddr + (size_t)i * PAGE_SIZE,
		    .physical = VM_PAGE_TO_PHYS(vm->pages[i]),
		    .size = PAGE_SIZE,
		};
	return blocks;
}

/* May sleep. */
static int add_pool(int npages)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {
	    .size = sizeof(config),
	    .trace = &trace,
	    .cpu = PTAH_CAPTURE_THREAD,
	    .buffer = (size_t)npages * PAGE_SIZE,
	    .region = PAGE_SIZE,
	    .pmis = npages < LAP_RECORDS ? (unsigned)npages : LAP_RECORDS,
	    .no_memory = true,
	};
	struct ptah_trace_problem problem;
	struct pool *p = malloc(sizeof(*p), M_PTAH, M_WAITOK | M_ZERO);
	int status;

	ptah_trace_config_default(ptah_engine_caps(pt_engine, 0), &trace);
	p->npages = npages;
	status = ptah_pool_new(pt_engine, &config, POOL_CAPTURES, &p->captures, &problem);
	if (status < 0) {
		printf("ptah: no captures of %d pages: %s: %s\n", npages, problem.field,
		       problem.reason);
		free(p, M_PTAH);
		return pt_errno(status, &problem);
	}
	mtx_lock(&pools_mtx);
	TAILQ_INSERT_TAIL(&pools, p, next);
	mtx_unlock(&pools_mtx);
	return 0;
}

/* How many captures of this size there are, and how many of them can be taken. */
static unsigned count_captures(int npages, unsigned *left)
{
	unsigned all = 0;
	struct pool *p;

	*left = 0;
	TAILQ_FOREACH (p, &pools, next) {
		if (p->npages == npages) {
			all += POOL_CAPTURES;
			*left += ptah_pool_left(p->captures);
		}
	}
	return all;
}

/* Takes a pool out of the list of whose size no capture is in use. */
static struct pool *remove_idle(void)
{
	struct pool *p;
	unsigned left;

	mtx_lock(&pools_mtx);
	TAILQ_FOREACH (p, &pools, next) {
		if (count_captures(p->npages, &left) == left)
			break;
	}
	if (p)
		TAILQ_REMOVE(&pools, p, next);
	mtx_unlock(&pools_mtx);
	return p;
}

/* A size of which few captures are left; 0: none. */
static int find_low(void)
{
	int npages = 0;
	struct pool *p;
	unsigned left;

	mtx_lock(&pools_mtx);
	TAILQ_FOREACH (p, &pools, next) {
		count_captures(p->npages, &left);
		if (left < POOL_LOW)
			npages = p->npages;
	}
	mtx_unlock(&pools_mtx);
	return npages;
}

static void free_idle(void)
{
	struct pool *p;

	while ((p = remove_idle())) {
		/* Nobody takes from a pool that is in no list. */
		ptah_pool_free(p->captures);
		free(p, M_PTAH);
	}
}

static void check_pools(void *context, int pending)
{
	int npages;

	(void)context, (void)pending;
	free_idle();
	while ((npages = find_low()) && !add_pool(npages))
		;
}

static int take_now(const struct hwt_vm *vm, void *cookie, const struct ptah_hal_memory *blocks,
		    struct ptah_capture **capture, struct ptah_trace_problem *problem)
{
	int status = PTAH_E_NOMEM;
	struct pool *p;

	mtx_lock(&pools_mtx);
	TAILQ_FOREACH (p, &pools, next) {
		if (p->npages == vm->npages && status == PTAH_E_NOMEM)
			status = ptah_pool_take_memory(p->captures, 0, cookie, NULL, blocks,
						       (size_t)vm->npages, capture, problem);
	}
	mtx_unlock(&pools_mtx);
	return status;
}

int pt_pools_take(const struct hwt_vm *vm, void *cookie, struct ptah_capture **capture)
{
	struct ptah_hal_memory *blocks = pt_blocks(vm, M_NOWAIT);
	struct ptah_trace_problem problem = {0};
	int status = PTAH_E_NOMEM, error = 0;

	if (!blocks)
		return ENOMEM;
	status = take_now(vm, cookie, blocks, capture, &problem);
	if (status == PTAH_E_NOMEM && THREAD_CAN_SLEEP()) {
		error = add_pool(vm->npages);
		if (!error)
			status = take_now(vm, cookie, blocks, capture, &problem);
	}
	free(blocks, M_PTAH);
	pt_pools_check();
	return error ? error : pt_errno(status, &problem);
}

void pt_pools_check(void)
{
	taskqueue_enqueue(taskqueue_thread, &pools_task);
}

void pt_pools_init(void)
{
	TAILQ_INIT(&pools);
	mtx_init(&pools_mtx, "ptah pools", NULL, MTX_DEF);
	TASK_INIT(&pools_task, 0, check_pools, NULL);
}

void pt_pools_fini(void)
{
	taskqueue_drain(taskqueue_thread, &pools_task);
	free_idle();
}
