/* SPDX-License-Identifier: MIT */
/*
 * The contexts of a process's threads. They are never given back, but used again: a thread that
 * ends says so with its last store, after which it needs neither its context nor its stacks.
 */
#include "record/native/runtime/contexts.h"

#include "record/native/runtime/filter.h"
#include "record/native/runtime/sys.h"

#include <linux/futex.h>
#include <linux/time_types.h>

#define STACK_BYTES (128u << 10) /* of the runtime's code; that of the first thread is as large */
/* How long one wait for the recorder to free slots of threads that have ended takes. */
#define WAIT_NS 1000000
#define LOOKS	64 /* contexts that are looked at for one that is free */

struct native_thread *slot_at(const struct runtime *rt, unsigned n)
{
	return (struct native_thread *)((uint8_t *)rt->shared + native_slot_at(n));
}

/* None between `from` and n is free, unless the recorder has freed one meanwhile. */
static void note_claimed(struct native_header *shared, uint32_t from, unsigned n)
{
	uint32_t slots = __atomic_load_n(&shared->slots, __ATOMIC_RELAXED);

	while (slots <= n && !__atomic_compare_exchange_n(&shared->slots, &slots, n + 1, false,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	__atomic_compare_exchange_n(&shared->first_free, &from, n + 1, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/* *ended: a slot will be free when the recorder has taken what is in it. */
static struct native_thread *claim_from(const struct runtime *rt, uint32_t from, bool *ended)
{
	for (uint32_t n = from; n < NATIVE_THREADS; n++) {
		struct native_thread *slot = slot_at(rt, n);
		uint32_t state = NATIVE_SLOT_FREE;

		if (__atomic_compare_exchange_n(&slot->state, &state, NATIVE_SLOT_ACTIVE, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			note_claimed(rt->shared, from, n);
			return slot;
		}
		*ended |= state == NATIVE_SLOT_ENDED;
	}
	return NULL;
}

static struct native_thread *try_to_claim(const struct runtime *rt, bool *ended)
{
	const uint32_t from = __atomic_load_n(&rt->shared->first_free, __ATOMIC_RELAXED);
	struct native_thread *slot;

	*ended = false;
	slot = claim_from(rt, from, ended);
	return slot || !from ? slot : claim_from(rt, 0, ended);
}

struct native_thread *slot_claim(struct context *c)
{
	const struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};
	struct runtime *rt = c->runtime;
	struct native_thread *slot;
	bool ended;

	while (!(slot = try_to_claim(rt, &ended)) && ended && recorder_is_alive(c)) {
		uint32_t *event = &rt->shared->message_event;

		sys_call(__NR_futex, (uint64_t)event, FUTEX_WAIT,
			 __atomic_load_n(event, __ATOMIC_RELAXED), (uint64_t)&wait, 0, 0);
	}
	return slot;
}

void slot_release(struct native_thread *slot)
{
	if (slot)
		__atomic_store_n(&slot->state, NATIVE_SLOT_FREE, __ATOMIC_RELEASE);
}

/*
 * A context that an ended thread had. It is looked for where the last search ended, and not for
 * long: where thousands of threads run, nearly all are in use.
 */
static struct context *take_free(struct context *c)
{
	struct runtime *rt = c->runtime;
	struct context *at;

	cache_lock(c);
	at = rt->looked_at ? rt->looked_at : rt->contexts;
	for (unsigned i = 0; at && i < LOOKS; i++) {
		if (__atomic_load_n(&at->state, __ATOMIC_ACQUIRE) == CONTEXT_FREE)
			break;
		at = at->next ? at->next : rt->contexts;
	}
	rt->looked_at = at;
	if (at && at->state != CONTEXT_FREE)
		at = NULL;
	if (at)
		at->state = CONTEXT_RUNNING;
	cache_unlock(c);
	return at;
}

/* One region, because the kernel allows so many: the stack grows towards its beginning. */
static struct context *make(struct runtime *rt)
{
	uint8_t *stack = memory_take(rt, STACK_BYTES + filter_context_bytes(rt));
	struct context *c;

	if (!stack)
		return NULL;
	c = (struct context *)(stack + STACK_BYTES);
	c->self = c;
	c->runtime = rt;
	c->stack = (uint64_t)stack + STACK_BYTES;
	c->state = CONTEXT_RUNNING;
	return c;
}

/*
 * Where there is no slot, a thread writes to memory of its own, which nobody reads; also when it
 * has reached a stop range.
 */
static bool give_slot(struct context *c, struct native_thread *slot)
{
	const bool needs = !slot || filter_has_stops(c->runtime);

	c->discards = !slot;
	c->stopped = NULL;
	if (needs && !c->unread)
		c->unread = memory_take(c->runtime, NATIVE_LONE_BYTES);
	c->slot = slot ? slot : c->unread;
	return c->slot && (!needs || c->unread) && ring_guard(c);
}

/* The slot, or, where the process has no mappings for it any more, none. */
static bool give_some_slot(struct context *c, struct native_thread **slot)
{
	if (give_slot(c, *slot))
		return true;
	slot_release(*slot);
	return *slot && give_slot(c, *slot = NULL);
}

struct context *context_take(struct context *parent, uint64_t clone_flags)
{
	return context_take_with(parent, slot_claim(parent), clone_flags);
}

struct context *context_take_with(struct context *parent, struct native_thread *slot,
				  uint64_t clone_flags)
{
	struct context *c = take_free(parent);

	if (!c)
		c = make(parent->runtime);
	if (!c || !give_some_slot(c, &slot) || !signals_prepare_thread(c, parent, clone_flags)) {
		slot_release(slot);
		if (c)
			__atomic_store_n(&c->state, CONTEXT_FREE, __ATOMIC_RELEASE);
		return NULL;
	}
	c->pid = parent->pid;
	c->tid = 0;
	c->syscalls = parent->syscalls;
	c->inside = true;
	c->pending = c->poisoned = c->in_call = false;
	c->rseq.address = 0;
	c->interrupted = 0;
	for (unsigned log = 0; log < NATIVE_LOGS; log++)
		c->logs[log] = (struct log_position){0};
	unit_begin(c);
	return c;
}

void context_report(struct context *c)
{
	const struct native_message m = {.type = NATIVE_MESSAGE_THREAD,
					 .value = c->discards ? 0 : slot_number(c),
					 .address = (uintptr_t)&c->runtime->control,
					 .size = (uintptr_t)c};

	if (!c->discards)
		message_send(c, &m, NULL);
}

bool context_begin(struct context *c, struct native_thread *slot)
{
	if (!give_slot(c, slot))
		return false;
	c->slot->pid = c->pid;
	c->slot->tid = c->tid;
	ring_begin(c);
	context_report(c);
	return true;
}

void context_give_back(struct context *c)
{
	if (!c->discards)
		slot_release(c->slot);
	__atomic_store_n(&c->state, CONTEXT_FREE, __ATOMIC_RELEASE);
}

_Noreturn void context_end(struct context *c, uint64_t status)
{
	const uint64_t all = ~UINT64_C(0);

	/* A handler would run on a stack of the context's. */
	sys_call(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (uint64_t)&all, 0, sizeof(all), 0, 0);
	for (;;)
		__asm__ volatile("movl %[free], (%%rsi)\n\tsyscall"
				 :
				 : "a"((uint64_t)__NR_exit), "D"(status),
				   "S"(&c->state), [free] "i"(CONTEXT_FREE)
				 : "rcx", "r11", "memory");
}
