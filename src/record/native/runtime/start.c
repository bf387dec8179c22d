/* SPDX-License-Identifier: MIT */
/*
 * The first code of the runtime that runs in a program: the recorder has put it there instead of
 * the program's first instruction (inject.c). It makes the runtime and the context of the thread,
 * and enters the cache with the registers that the program begins with.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/contexts.h"
#include "record/native/runtime/filter.h"
#include "record/native/runtime/memory.h"
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/sys.h"

static const char no_memory[] = "there is no memory for the recorder in the program";

/*
 * The handover alone says what is constant: other programs of the recording can write to the shared
 * memory.
 */
static void fill_runtime(struct runtime *rt, const struct native_handover *h)
{
	const struct native_header *constants = &h->constants;

	rt->shared = (struct native_header *)(uintptr_t)h->shared;
	rt->blob = h->blob;
	rt->blob_bytes = h->blob_bytes;
	rt->committed = h->committed;
	rt->denied = h->denied;
	rt->filters_before = h->filters;
	rt->flags = constants->flags;
	rt->no_retcomp = constants->no_retcomp;
	rt->tsc = constants->tsc;
	rt->began = h->names ? constants->began : 0;
	rt->chunks = constants->chunks;
	rt->chunk_bytes = constants->chunk_bytes;
}

/* There is no memory even for a context: one on the stack is enough to say so. */
static _Noreturn void give_up(const struct native_handover *h)
{
	struct runtime rt = {0};
	struct context c = {.self = &c, .runtime = &rt, .pid = h->pid, .tid = h->pid};

	fill_runtime(&rt, h);
	c.inside = true;
	leave_broken(&c, no_memory);
}

static struct runtime *make_runtime(const struct native_handover *h)
{
	uint32_t low, high;
	struct runtime *rt;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	/* Three numbers that differ from process to process; places need no better chance. */
	rt = memory_begin(h->constants.guard ^ h->blob ^ ((uint64_t)high << 32 | low));
	if (!rt)
		return NULL;
	fill_runtime(rt, h);
	if (!memory_add(rt, h->blob, h->blob + h->blob_bytes) ||
	    !memory_add(rt, h->shared, h->shared + native_bytes()))
		return NULL;
	memory_not_dumped(rt);
	changes_begin(rt, h);
	attach_control(rt);
	return filter_begin(rt, &h->constants) ? rt : NULL;
}

static struct context *make_context(struct runtime *rt, const struct native_handover *h)
{
	struct context *c = memory_take_first(rt, filter_context_bytes(rt));

	if (c && filter_has_stops(rt))
		c->unread = memory_take(rt, NATIVE_LONE_BYTES);
	if (!c || (filter_has_stops(rt) && !c->unread))
		return NULL;
	c->self = c;
	c->runtime = rt;
	c->stack = (uint64_t)(uintptr_t)h & ~UINT64_C(15);
	c->pid = c->tid = h->pid;
	c->inside = true;
	c->state = CONTEXT_RUNNING;
	c->slot = (struct native_thread *)(uintptr_t)(h->shared + native_slot_at(h->slot));
	if (!ring_guard(c))
		return NULL;
	sys_set_gs(c);
	unit_begin(c);
	return c;
}

static void begin_thread(struct context *c)
{
	c->slot->pid = c->pid;
	c->slot->tid = c->tid;
	__atomic_store_n(&c->slot->state, NATIVE_SLOT_ACTIVE, __ATOMIC_RELEASE);
	ring_begin(c);
	context_report(c);
	signals_begin(c);
}

static _Noreturn void run(struct context *c, const struct native_handover *h)
{
	struct registers r = {.rip = h->rip, .rflags = h->rflags};

	for (unsigned i = 0; i < 16; i++)
		r.general[i] = h->registers[i];
	begin_thread(c);
	c->log = (uint64_t)(uintptr_t)packets_begin(c, (uint8_t *)(uintptr_t)c->log, r.rip);
	call_log_begin(c, __NR_execve, r.rip);
	signals_head(c, &r, true);
}

_Noreturn void start(struct native_handover *h)
{
	struct runtime *rt = make_runtime(h);
	struct context *c = rt ? make_context(rt, h) : NULL;

	if (c && h->attached)
		attach_run(c, h);
	if (c)
		run(c, h);
	give_up(h);
}
