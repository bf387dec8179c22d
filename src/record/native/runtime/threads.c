/* SPDX-License-Identifier: MIT */
/*
 * System calls that begin and end processes: exit, execve, fork and its relatives.
 *
 * The child of fork() has a copy of everything but the shared memory: it takes a slot of its own
 * there, and is recorded from its first instruction on.
 *
 * The child of vfork() shares the runtime's memory with its parent, which waits until the child
 * calls execve or ends. It runs natively meanwhile, with a stack of the runtime's that the parent
 * does not use; the recorder watches for its execve, and the new program is recorded. So a command
 * that a shell or posix_spawn() starts is recorded from its first instruction on; what is missing
 * is what the child does between vfork() and execve.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/sys.h"

#include <asm/errno.h>
#include <linux/sched.h>

#define CHILD_STACK 16384 /* of the runtime, for signals_leave() in the child of vfork() */

/* A child with these could not be followed, or reached from the recorder by its number. */
#define STRANGE_FLAGS                                                                              \
	(CLONE_PTRACE | CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |              \
	 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* The flags of clone() that make the same child. */
static uint64_t clone_flags(const struct call *call)
{
	switch (call->treatment) {
	case SYSCALL_FORK:
		return 17 /* SIGCHLD */;
	case SYSCALL_VFORK:
		return CLONE_VM | CLONE_VFORK | 17;
	default:
		return (uint32_t)call->words[1];
	}
}

const char *process_refusal(const struct context *c, const struct call *call)
{
	const uint64_t flags = clone_flags(call);

	(void)c;
	if (call->treatment == SYSCALL_CLONE3) /* call_clone3() */
		return NULL;
	if (flags & STRANGE_FLAGS)
		return "the program starts a process in a namespace of its own";
	if ((flags & CLONE_VM) && !(flags & CLONE_VFORK))
		return "the program starts a thread";
	if (flags & (CLONE_THREAD | CLONE_SIGHAND))
		return "the program starts a thread";
	return NULL;
}

/* ---- The end ---------------------------------------------------------------- */

/* The thread, or the process, ends here. */
static _Noreturn void call_exit(struct context *c, const struct call *call)
{
	ring_end(c);
	for (;;)
		syscall_kernel(call);
}

/* Returns only where the call has failed. What this image has logged stays in its slot. */
static int64_t call_exec(struct context *c, const struct call *call)
{
	struct native_message m = {.type = NATIVE_MESSAGE_EXEC};
	int64_t result;

	message_ask(c, &m, NULL);
	signals_exec(c);
	result = syscall_kernel(call);
	signals_exec_failed(c);
	m.type = NATIVE_MESSAGE_EXEC_FAILED;
	message_send(c, &m, NULL);
	return result;
}

/* ---- fork --------------------------------------------------------------------- */

static struct native_thread *slot_at(const struct runtime *rt, unsigned n)
{
	return (struct native_thread *)((uint8_t *)rt->shared + native_slot_at(rt->flags, n));
}

/* NATIVE_THREADS: all are in use. */
static unsigned claim_slot(const struct runtime *rt)
{
	for (unsigned n = 0; n < NATIVE_THREADS; n++) {
		uint32_t free = NATIVE_SLOT_FREE;

		if (__atomic_compare_exchange_n(&slot_at(rt, n)->state, &free, NATIVE_SLOT_ACTIVE,
						false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return n;
	}
	return NATIVE_THREADS;
}

static void release_slot(const struct runtime *rt, unsigned n)
{
	if (n < NATIVE_THREADS)
		__atomic_store_n(&slot_at(rt, n)->state, NATIVE_SLOT_FREE, __ATOMIC_RELEASE);
}

/* In the child of fork(): it is a process of its own from here on. */
static void begin_child(struct context *c, const struct registers *r, unsigned slot)
{
	struct native_message m = {.type = NATIVE_MESSAGE_FORK, .value = (uint64_t)c->pid};

	c->pid = (int32_t)sys_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	c->tid = (int32_t)sys_call(__NR_gettid, 0, 0, 0, 0, 0, 0);
	message_send(c, &m, NULL);
	if (slot == NATIVE_THREADS) {
		message_text(c, NATIVE_MESSAGE_LEFT, r->rip,
			     "more threads run at the same time than can be recorded");
		signals_forked(c);
		signals_leave(c, r);
	}
	c->slot = slot_at(c->runtime, slot);
	c->slot->pid = c->pid;
	c->slot->tid = c->tid;
	ring_begin(c);
	m.type = NATIVE_MESSAGE_THREAD;
	m.value = slot;
	message_send(c, &m, NULL);
	signals_forked(c);
}

/* True in a child: its log begins. */
static bool call_fork(struct context *c, struct registers *r, const struct call *call)
{
	const uint64_t *w = call->words;
	const unsigned slot = claim_slot(c->runtime);
	int64_t result;

	signals_hold(c);
	/* The child returns here, on its copy of the runtime's stack: the program's comes below. */
	if (call->treatment == SYSCALL_CLONE)
		result = sys_call(__NR_clone, w[1], 0, w[3], w[4], w[5], 0);
	else
		result = sys_call(__NR_clone, clone_flags(call), 0, 0, 0, 0, 0);
	syscall_return(r, call, result);
	if (result) {
		signals_release(c);
		if (sys_is_error(result))
			release_slot(c->runtime, slot);
		return false;
	}
	if (call->treatment == SYSCALL_CLONE && w[2])
		r->general[4] = w[2];
	begin_child(c, r, slot);
	return true;
}

/* ---- vfork -------------------------------------------------------------------- */

struct native_child {
	struct context *context;
	struct registers registers;
};

/*
 * In the child of vfork(), on a stack of its own. It shares the context, which stays the parent's:
 * nothing is kept (call_vfork() has seen to that), and nothing else is changed by leaving.
 */
__attribute__((used)) static _Noreturn void run_native_child(struct native_child *child)
{
	struct context view = *child->context;
	const struct native_message m = {.type = NATIVE_MESSAGE_EXEC};

	view.self = &view;
	view.pid = (int32_t)sys_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	view.tid = view.pid;
	message_ask(&view, &m, NULL);
	signals_leave(child->context, &child->registers);
}

/*
 * clone() with a stack for the child, which finds its argument there and never returns. In
 * assembly, because the child must not touch the stack that its parent goes on with.
 */
static int64_t clone_native(const uint64_t arguments[5], uint64_t stack_end,
			    struct native_child *child)
{
	const uint64_t child_tid = arguments[3], tls = arguments[4];
	register uint64_t r10 __asm__("r10") = child_tid;
	register uint64_t r8 __asm__("r8") = tls;
	int64_t result;

	*(uint64_t *)(stack_end - 16) = (uint64_t)child;
	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "popq %%rdi\n\t"
			 "addq $8, %%rsp\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "call %P[run]\n"
			 "1:"
			 : "=a"(result)
			 : "a"(__NR_clone), "D"(arguments[0]), "S"(stack_end - 16),
			   "d"(arguments[2]), "r"(r10), "r"(r8), [run] "i"(run_native_child)
			 : "rcx", "r11", "memory", "cc");
	return result;
}

static void call_vfork(struct context *c, struct registers *r, const struct call *call)
{
	const uint64_t *w = call->words;
	const uint64_t plain[5] = {clone_flags(call)};
	const uint64_t given[5] = {w[1], w[2], w[3], w[4], w[5]};
	const bool is_clone = call->treatment == SYSCALL_CLONE;
	uint8_t *stack = memory_map(c->runtime, CHILD_STACK);
	struct native_child *child = (struct native_child *)stack;
	int64_t result;

	if (!stack) {
		syscall_return(r, call, -ENOMEM);
		return;
	}
	signals_hold(c);
	if (c->pending) { /* the child would deliver it too: it comes before the call */
		signals_release(c);
		memory_unmap(c->runtime, stack, CHILD_STACK);
		return;
	}
	/* The child runs natively, in this memory. */
	changes_give_back_all(c);
	child->context = c;
	child->registers = *r;
	syscall_return(&child->registers, call, 0);
	if (is_clone && w[2])
		child->registers.general[4] = w[2];
	result = clone_native(is_clone ? given : plain, (uint64_t)stack + CHILD_STACK, child);
	signals_release(c);
	memory_unmap(c->runtime, stack, CHILD_STACK);
	syscall_return(r, call, result);
}

bool process_call(struct context *c, struct registers *r, const struct call *call)
{
	switch (call->treatment) {
	case SYSCALL_EXIT:
	case SYSCALL_EXIT_GROUP:
		call_exit(c, call);
	case SYSCALL_EXEC:
		syscall_return(r, call, call_exec(c, call));
		return false;
	case SYSCALL_CLONE3:
		syscall_return(r, call, -ENOSYS);
		return false;
	default:
		if (!(clone_flags(call) & CLONE_VM))
			return call_fork(c, r, call);
		call_vfork(c, r, call);
		return false;
	}
}
