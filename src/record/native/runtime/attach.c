/* SPDX-License-Identifier: MIT */
/*
 * Beginning in a program that runs already. The recorder holds all of its threads; in one of them
 * it starts the runtime, which makes a context for each. When all have one, the recorder lets each
 * go on at attach_thread(), with all signals blocked, on the context's stack.
 */
#include "record/native/runtime/contexts.h"
#include "record/native/runtime/memory.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/syscalls.h"

#include <linux/rseq.h>
#include <linux/sched.h>

#define EVERY_THREAD (CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)

/* Of a thread, at the end of its stack. */
struct thread_start {
	struct context *context; /* first: the recorder sets GS */
	struct registers registers;
};

static _Noreturn void attach_thread(struct thread_start *start);

static uint64_t address_of(void (*function)(void))
{
	uint64_t address = (uintptr_t)function;

	__asm__("" : "+r"(address)); /* no address becomes a constant */
	return address;
}

void attach_control(struct runtime *rt)
{
	struct native_control *control = &rt->control;

	control->runtime = (uintptr_t)rt;
	control->thread_entry = address_of((void (*)(void))attach_thread);
	control->held_entry = address_of((void (*)(void))leave_held);
	control->window = (uintptr_t)signals_window_call + 2;
	control->interrupted = offsetof(struct context, interrupted);
	control->in_call = offsetof(struct context, in_call);
	control->leaving = (uintptr_t)&rt->leaving;
	control->left = (uintptr_t)&rt->left;
	memory_control(rt);
}

/* The recorder's answer; negative: it is gone. */
static int64_t tell_ready(struct runtime *rt, int64_t status)
{
	return sys_call(NATIVE_CALL, NATIVE_CALL_READY, (uint64_t)status, (uint64_t)&rt->control, 0,
			0, 0);
}

static struct registers registers_of(const struct native_attached_thread *t)
{
	struct registers r = {.rip = t->rip, .rflags = t->rflags};

	for (unsigned i = 0; i < 16; i++)
		r.general[i] = t->registers[i];
	return r;
}

static void begin_context(struct context *c, const struct native_attached_thread *t)
{
	c->tid = t->tid;
	c->rseq = t->rseq;
	c->interrupted = t->interrupted;
	c->interrupted_at = t->rip;
}

/* False: there is no memory. */
static bool make_context(struct context *first, struct native_attached_thread *t)
{
	struct native_thread *slot =
	    t->slot < NATIVE_THREADS ? slot_at(first->runtime, t->slot) : NULL;
	struct context *c = context_take_with(first, slot, EVERY_THREAD);
	struct thread_start *start;

	if (!c)
		return false;
	begin_context(c, t);
	start = (struct thread_start *)((c->stack - sizeof(*start)) & ~UINT64_C(15));
	start->context = c;
	start->registers = registers_of(t);
	t->start = (uintptr_t)start;
	return true;
}

static bool make_contexts(struct context *c, struct native_attached *a)
{
	if (!signals_attach(c, a->threads[0].mask) ||
	    !(c->syscalls = memory_take(c->runtime, sizeof(*c->syscalls))))
		return false;
	for (uint32_t i = 0; i < a->range_count; i++)
		c->syscalls->executable[i] =
		    (struct address_range){a->ranges[i].start, a->ranges[i].end};
	c->syscalls->executable_count = a->range_count;
	begin_context(c, &a->threads[0]);
	for (uint32_t i = 1; i < a->thread_count; i++)
		if (!make_context(c, &a->threads[i]))
			return false;
	return true;
}

/*
 * The kernel writes to the registered area, and moves a thread out of the code that the area says
 * it is in, which is not where it is.
 */
static void end_rseq(const struct context *c)
{
	const struct native_rseq *q = &c->rseq;

	if (!q->address)
		return;
	sys_call(__NR_rseq, q->address, q->size, RSEQ_FLAG_UNREGISTER, q->signature, 0, 0);
	syscall_unset_rseq(q);
}

static _Noreturn void begin_thread(struct context *c, struct registers *r)
{
	end_rseq(c);
	c->slot->pid = c->pid;
	c->slot->tid = c->tid;
	ring_begin(c);
	context_report(c);
	c->log = (uint64_t)packets_begin(c, (uint8_t *)c->log, r->rip);
	signals_attach_thread(c);
	signals_head(c, r, true);
}

static _Noreturn void attach_thread(struct thread_start *start)
{
	struct context *c = start->context;

	begin_thread(c, &start->registers);
}

_Noreturn void attach_run(struct context *c, const struct native_handover *h)
{
	struct native_attached *a = (struct native_attached *)h->attached;
	struct runtime *rt = c->runtime;
	struct registers r = registers_of(&a->threads[0]);

	/* It can only be left, not be started again. */
	rt->attached = rt->committed = true;
	if (!memory_add(rt, h->attached, h->attached + a->bytes) || !make_contexts(c, a))
		for (;;) /* the recorder undoes all this */
			tell_ready(rt, -1);
	signals_attach_all(c);
	for (uint32_t i = 1; i < a->thread_count; i++)
		signals_attach_other(((struct thread_start *)a->threads[i].start)->context, c,
				     a->threads[i].mask);
	if (tell_ready(rt, 0) <
	    0) /* nothing is left of it but this thread, and the others native */
		signals_leave(c, &r);
	begin_thread(c, &r);
}
