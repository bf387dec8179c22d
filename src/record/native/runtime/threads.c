/* SPDX-License-Identifier: MIT */
/*
 * System calls that begin and end threads and processes: exit, execve, clone and its relatives.
 *
 * The child of fork() has a copy of everything but the shared memory: it takes a slot of its own
 * there, and is recorded from its first instruction on.
 *
 * A thread gets a context and a slot from its parent, and begins on its own stack of the runtime;
 * everything else that clone() is to do the kernel does for the program, such as clearing a word
 * when the thread is gone, which comes after its last instruction here.
 *
 * The child of vfork() shares the runtime's memory with its parent, which waits until the child
 * calls execve or ends. It runs natively meanwhile, with a stack of the runtime's that the parent
 * does not use; the recorder watches for its execve, and the new program is recorded. So a command
 * that a shell or posix_spawn() starts is recorded from its first instruction on; what is missing
 * is what the child does between vfork() and execve.
 */
#include "record/native/runtime/changes.h"
#include "record/native/runtime/syscalls.h"

#include "record/native/runtime/contexts.h"
#include "record/native/runtime/memory.h"
#include "record/native/runtime/sandbox.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"

#include <asm/errno.h>
#include <linux/prctl.h>
#include <linux/sched.h>

/* In siginfo_t of a process that a signal has ended (sigaction(2)). */
#define CLD_KILLED 2
#define CLD_DUMPED 3

#define CHILD_STACK 16384 /* of the runtime, for signals_leave() in the child of vfork() */

/* A child with these is no user or number of the recorder's: it is left out. */
#define NAMESPACE_FLAGS (CLONE_NEWUSER | CLONE_NEWPID)

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

static bool is_thread(uint64_t flags)
{
	const uint64_t all = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;

	return (flags & (all | CLONE_VFORK)) == all;
}

const char *process_refusal(const struct context *c, const struct call *call)
{
	const uint64_t flags = clone_flags(call);

	(void)c;
	if (call->treatment == SYSCALL_CLONE3) /* call_clone3() */
		return NULL;
	if (flags & CLONE_PTRACE)
		return "the program starts a process that its tracer is to trace";
	if (is_thread(flags))
		return NULL;
	if ((flags & CLONE_VM) && !(flags & CLONE_VFORK))
		return "the program starts a process that shares its memory";
	if (flags & (CLONE_THREAD | CLONE_SIGHAND))
		return "the program starts a process that shares its signal handlers";
	return NULL;
}

/* ---- The end ---------------------------------------------------------------- */

/* The process ends here. What other threads have logged ends at their last packets. */
static _Noreturn void call_exit_group(struct context *c, const struct call *call)
{
	const struct native_message m = {.type = NATIVE_MESSAGE_ENDED,
					 .pid = c->pid,
					 .tid = c->tid,
					 .value = (uint32_t)call->words[1]};

	message_send(c, &m, NULL);
	ring_end(c);
	for (;;)
		syscall_kernel(call);
}

/* Returns where a signal is to be delivered first: it may be the process's. */
static void call_exit(struct context *c, const struct call *call)
{
	signals_hold(c);
	if (c->pending) {
		signals_release(c);
		return;
	}
	ring_end(c);
	context_end(c, call->words[1]);
}

/* Returns only where the call has failed. What this image has logged stays in its slot. */
static int64_t call_exec(struct context *c, const struct call *call)
{
	struct native_message m = {.type = NATIVE_MESSAGE_EXEC, .value = sandbox_summary(c)};
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

/* No other thread is within the runtime's data when fork() copies them. */
static void take_locks(struct context *c)
{
	signals_hold(c);
	cache_lock(c);
	memory_hold(c->runtime);
	signals_lock(c->runtime->handlers);
	mapping_lock(c);
}

static void give_locks(struct context *c)
{
	mapping_unlock(c);
	signals_unlock(c->runtime->handlers);
	memory_release(c->runtime);
	cache_unlock(c);
}

/* The child has this thread alone. The memory of the others' contexts is lost. */
static void forget_others(struct context *c)
{
	c->next = NULL;
	c->runtime->contexts = c;
	c->runtime->looked_at = NULL;
	c->runtime->leaving = 0;
}

static bool is_alone(const struct context *c)
{
	return c->runtime->flags & NATIVE_ALONE;
}

/* Whether the new process, or thread, runs untraced from its beginning. */
static bool is_left_out(const struct context *c, const struct call *call)
{
	return is_alone(c) ||
	       (!is_thread(clone_flags(call)) && clone_flags(call) & NAMESPACE_FLAGS);
}

/* Once for the recording, and for each of the two reasons. */
static void note_left_out(struct context *c)
{
	const uint32_t reason = is_alone(c) ? 1 : 2;

	if (!(__atomic_fetch_or(&c->runtime->shared->left_out, reason, __ATOMIC_RELAXED) & reason))
		message_text(c, NATIVE_MESSAGE_NOTE, 0,
			     is_alone(c)
				 ? "children and threads of the command were left out, as was asked"
				 : "processes in namespaces of their own run untraced");
}

/* In the child of fork(): it is a process of its own from here on. forked: a TSC before the call. */
static void begin_child(struct context *c, const struct registers *r, struct native_thread *slot,
			bool left_out, uint64_t forked)
{
	struct native_message m = {
	    .type = NATIVE_MESSAGE_FORK, .address = forked, .value = (uint64_t)c->pid};
	char name[COMM_BYTES] = {0};

	c->pid = (int32_t)sys_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	c->tid = (int32_t)sys_call(__NR_gettid, 0, 0, 0, 0, 0, 0);
	if (left_out) {
		leave_memory(c);
		signals_forked(c);
		signals_leave(c, r);
	}
	/* It may have ended when the recorder reads this. */
	if (!(c->runtime->denied & NATIVE_NEEDS_USER) &&
	    !sys_call(__NR_prctl, PR_GET_NAME, (uint64_t)name, 0, 0, 0, 0))
		m.bytes = sizeof(name);
	message_send(c, &m, name);
	if (!slot || !context_begin(c, slot)) {
		slot_release(slot);
		message_text(c, NATIVE_MESSAGE_LEFT, r->rip,
			     "more threads run at the same time than can be recorded");
		leave_memory(c);
		signals_forked(c);
		signals_leave(c, r);
	}
	signals_forked(c);
}

/* True in a child: its log begins. */
static bool call_fork(struct context *c, struct registers *r, const struct call *call)
{
	const uint64_t *w = call->words;
	const bool left_out = is_left_out(c, call);
	struct native_thread *slot = left_out ? NULL : slot_claim(c);
	uint64_t forked;
	int64_t result;

	if (left_out)
		note_left_out(c);
	changes_forked(c);
	take_locks(c);
	/* Nothing is mapped now. Before the child runs, the parent may be another program. */
	forked = __builtin_ia32_rdtsc();
	/* The child returns here, on its copy of the runtime's stack: the program's comes below. */
	if (call->treatment == SYSCALL_CLONE)
		result = sys_call(__NR_clone, w[1], 0, w[3], w[4], w[5], 0);
	else
		result = syscall_kernel(call);
	give_locks(c);
	syscall_return(r, call, result);
	if (result) {
		signals_release(c);
		if (sys_is_error(result))
			slot_release(slot);
		return false;
	}
	if (call->treatment == SYSCALL_CLONE && w[2])
		r->general[4] = w[2];
	forget_others(c);
	if (clone_flags(call) & CLONE_NEWNS) /* paths may lead somewhere else */
		c->runtime->began = 0;
	begin_child(c, r, slot, left_out, forked);
	return true;
}

/* ---- Threads ------------------------------------------------------------------ */

/*
 * clone() with a stack for the child, which calls function(argument) there and never returns. In
 * assembly, because the child must not touch the stack that its parent goes on with. stack_end: a
 * multiple of 16.
 */
static int64_t clone_to(const uint64_t arguments[5], uint64_t stack_end, void (*function)(void *),
			void *argument)
{
	const uint64_t child_tid = arguments[3], tls = arguments[4];
	register uint64_t r10 __asm__("r10") = child_tid;
	register uint64_t r8 __asm__("r8") = tls;
	uint64_t *top = (uint64_t *)(stack_end - 16);
	int64_t result;

	top[0] = (uint64_t)argument;
	top[1] = (uint64_t)function;
	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "popq %%rdi\n\t"
			 "popq %%rax\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "call *%%rax\n\t"
			 "1:"
			 : "=a"(result)
			 : "a"(__NR_clone), "D"(arguments[0]), "S"(top), "d"(arguments[2]),
			   "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory", "cc");
	return result;
}

struct thread_start {
	struct context *context;
	struct registers registers;
};

/* The new thread's first code, with all signals blocked, GS still its parent's. */
static _Noreturn void run_thread(void *argument)
{
	struct thread_start *start = argument;
	struct context *c = start->context;

	sys_set_gs(c);
	__atomic_store_n(&c->tid, (int32_t)sys_call(__NR_gettid, 0, 0, 0, 0, 0, 0),
			 __ATOMIC_RELEASE);
	c->slot->pid = c->pid;
	c->slot->tid = c->tid;
	ring_begin(c);
	context_report(c);
	signals_begin_thread(c);
	c->log = (uint64_t)packets_begin(c, (uint8_t *)c->log, start->registers.rip);
	call_log_begin(c, __NR_clone, start->registers.rip);
	signals_head(c, &start->registers, true);
}

static void note_lack_of_slots(struct context *c)
{
	if (!__atomic_exchange_n(&c->runtime->lacks_slots, true, __ATOMIC_RELAXED))
		message_text(c, NATIVE_MESSAGE_NOTE, 0,
			     "more threads run at the same time than can be recorded: some of them "
			     "are missing");
}

static void call_thread(struct context *c, struct registers *r, const struct call *call)
{
	const uint64_t *w = call->words, all = ~UINT64_C(0);
	const uint64_t given[5] = {w[1], w[2], w[3], w[4], w[5]};
	struct context *child =
	    is_alone(c) ? context_take_with(c, NULL, w[1]) : context_take(c, w[1]);
	struct thread_start *start;
	int64_t result;

	if (!child) {
		syscall_return(r, call, -EAGAIN);
		return;
	}
	sandbox_inherit(c, child);
	if (is_alone(c))
		note_left_out(c);
	else if (child->discards)
		note_lack_of_slots(c);
	start = (struct thread_start *)((child->stack - sizeof(*start)) & ~UINT64_C(15));
	start->context = child;
	start->registers = *r;
	syscall_return(&start->registers, call, 0);
	if (w[2])
		start->registers.general[4] = w[2];
	sys_call(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, (uint64_t)&all, 0, sizeof(all), 0, 0);
	result = clone_to(given, (uint64_t)start, run_thread, start);
	signals_release(c);
	syscall_return(r, call, result);
	if (sys_is_error(result))
		context_give_back(child);
}

/* ---- vfork -------------------------------------------------------------------- */

struct native_child {
	struct context *context;
	struct registers registers;
	bool left_out;
};

/*
 * In the child of vfork(), on a stack of its own. It shares the context, which stays the parent's:
 * nothing is kept (call_vfork() has seen to that), and nothing else is changed by leaving.
 */
static _Noreturn void run_native_child(void *argument)
{
	const struct native_child *child = argument;
	struct context view = *child->context;
	const struct native_message m = {.type = NATIVE_MESSAGE_EXEC,
					 .value = sandbox_summary(child->context)};

	view.self = &view;
	view.pid = (int32_t)sys_call(__NR_getpid, 0, 0, 0, 0, 0, 0);
	view.tid = view.pid;
	if (!child->left_out)
		message_ask(&view, &m, NULL);
	signals_leave(child->context, &child->registers);
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
	child->left_out = is_left_out(c, call);
	if (child->left_out)
		note_left_out(c);
	/* The child runs natively, in this memory. */
	changes_give_back_all(c);
	child->context = c;
	child->registers = *r;
	syscall_return(&child->registers, call, 0);
	if (is_clone && w[2])
		child->registers.general[4] = w[2];
	__atomic_store_n(&c->in_call, true, __ATOMIC_SEQ_CST);
	result = clone_to(is_clone ? given : plain, (uint64_t)stack + CHILD_STACK, run_native_child,
			  child);
	__atomic_store_n(&c->in_call, false, __ATOMIC_SEQ_CST);
	signals_release(c);
	memory_unmap(c->runtime, stack, CHILD_STACK);
	syscall_return(r, call, result);
}

bool process_read(const struct context *c, uint64_t at, void *into, size_t n)
{
	(void)c;
	return signals_copy(into, (const void *)at, n);
}

void process_reaped(struct context *c, const struct call *call, int64_t result)
{
	const bool by_id = call->words[0] == __NR_waitid;
	const uint64_t place = call->words[by_id ? 3 : 2];
	struct native_message m = {.type = NATIVE_MESSAGE_REAPED};
	int32_t status = 0;
	struct ended {
		int32_t signal, error, code, pad, pid, uid, status;
	} ended = {0}; /* the beginning of siginfo_t, as waitid() fills it in */

	if (!place || result < 0 || (!by_id && !result))
		return;
	if (by_id && process_read(c, place, &ended, sizeof(ended))) {
		m.address = (uint32_t)ended.pid;
		if (ended.code == CLD_KILLED || ended.code == CLD_DUMPED)
			status = ended.status;
	} else if (!by_id && process_read(c, place, &status, sizeof(status))) {
		m.address = (uint64_t)result;
		status = (status & 0x7f) != 0x7f ? status & 0x7f : 0; /* 7FH: it was stopped */
	}
	m.value = (uint32_t)status;
	if (m.address && status > 0)
		message_send(c, &m, NULL);
}

bool process_call(struct context *c, struct registers *r, const struct call *call)
{
	switch (call->treatment) {
	case SYSCALL_EXIT:
		call_exit(c, call);
		return false;
	case SYSCALL_EXIT_GROUP:
		call_exit_group(c, call);
	case SYSCALL_EXEC:
		syscall_return(r, call, call_exec(c, call));
		return false;
	case SYSCALL_CLONE3:
		syscall_return(r, call, -ENOSYS);
		return false;
	default:
		if (!(clone_flags(call) & CLONE_VM))
			return call_fork(c, r, call);
		if (is_thread(clone_flags(call))) {
			call_thread(c, r, call);
			return false;
		}
		call_vfork(c, r, call);
		return false;
	}
}
