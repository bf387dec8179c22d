/* SPDX-License-Identifier: MIT */
/* Pausing threads: see pauses.h. */
#include "record/native/pauses.h"

#include "record/haste.h"
#include "record/native/threads.h"
#include "support/monotonic.h"

#include <errno.h>
#include <stddef.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS	    (INT64_C(5) * 1000000) /* after an interruption, before the next one */
#define WAIT_MAX_NS (INT64_C(1) * 1000000000)
#define LATE_NS	    (INT64_C(800) * 1000000)
#define END_NS	    (INT64_C(3) * 1000000000) /* after this a thread is not waited for any more */

void pauses_begin_thread(struct native_pauses *p, unsigned slot, uint64_t control, uint64_t gs_base)
{
	p->list[slot] = (struct native_pause){.control = control, .gs_base = gs_base};
}

void pauses_set(struct native_pauses *p, bool on)
{
	p->on = on;
	p->set = monotonic_ns();
	for (unsigned i = 0; i < p->streams->slots; i += NATIVE_THREADS)
		__atomic_store_n(&streams_header(p->streams, i)->paused, on, __ATOMIC_SEQ_CST);
	STREAMS_EACH (p->streams, i) {
		p->list[i].taken = false;
		p->list[i].next = p->list[i].wait = 0;
	}
}

bool pauses_traces(const struct native_pauses *p, int32_t tid)
{
	for (unsigned i = 0; i < NATIVE_STOPS; i++)
		if (tid && p->stops[i].tid == tid)
			return true;
	return false;
}

bool pauses_are_late(const struct native_pauses *p)
{
	return monotonic_ns() - p->set > LATE_NS;
}

#ifdef __x86_64__

static bool read_from(pid_t pid, void *to, uint64_t from, size_t n)
{
	const struct tracee h = {.pid = pid};

	return tracee_read(&h, to, from, n);
}

/* What the thread's context has at the offset that is at `member` of struct native_control. */
static bool read_context(const struct native_pause *e, pid_t pid, size_t member, void *to, size_t n)
{
	uint64_t at = 0;

	return read_from(pid, &at, e->control + member, sizeof(at)) &&
	       read_from(pid, to, e->gs_base + at, n);
}

/* Whether it is in a system call of the program, from which it comes back to look at `paused`. */
static bool is_in_call(const struct native_pause *e, pid_t pid)
{
	bool in_call = false;

	return read_context(e, pid, offsetof(struct native_control, in_call), &in_call,
			    sizeof(in_call)) &&
	       in_call;
}

/*
 * Whether it was attached to in a call, which it has not made again yet. It comes there by itself,
 * and after a signal the kernel would let the call fail.
 */
static bool is_before_call(const struct native_pause *e, pid_t pid)
{
	uint32_t interrupted = 0;

	return read_context(e, pid, offsetof(struct native_control, interrupted), &interrupted,
			    sizeof(interrupted)) &&
	       interrupted;
}

/*
 * The kernel restarts the call in which a thread was stopped, if it was in one. These it would not,
 * and nothing has happened in them yet (threads.c).
 */
static void make_again(const struct thread *t)
{
	struct user_regs_struct r = t->regs;

	if (!t->interrupted || (int64_t)r.rax != -EINTR)
		return;
	r.rip -= 2;
	r.rax = r.orig_rax;
	r.orig_rax = UINT64_MAX;
	ptrace(PTRACE_SETREGS, t->tid, 0, &r);
}

/*
 * The thread stands. It is in the runtime or in the cache: then the signal is delivered before it
 * runs on, and is not one that is left for later, when it may be on its own.
 */
static void interrupt(const struct native_pauses *p, const struct native_stop *stop)
{
	const struct native_stream *s = &p->streams->list[stop->slot];
	const struct native_pause *e = &p->list[stop->slot];
	struct thread t = {.tid = stop->tid};
	siginfo_t info = {.si_signo = SIGTRAP, .si_code = NATIVE_STOP_CODE};
	uint64_t runtime = 0;

	if (!threads_read(&t))
		return;
	make_again(&t);
	if (!s->used || s->tid != stop->tid || streams_has_ended(p->streams, stop->slot) ||
	    t.regs.gs_base != e->gs_base || t.mask >> (SIGTRAP - 1) & 1 ||
	    is_in_call(e, stop->pid) || is_before_call(e, stop->pid) ||
	    !read_from(stop->pid, &runtime, e->control + offsetof(struct native_control, runtime),
		       sizeof(runtime)))
		return;
	info.si_addr = (void *)(uintptr_t)runtime;
	syscall(SYS_rt_tgsigqueueinfo, stop->pid, stop->tid, SIGTRAP, &info);
}

/* It was told to stop, and has not yet. Signals that come before are passed on. */
static void look_at(struct native_pauses *p, struct native_stop *stop)
{
	const struct native_stop is = *stop;
	int status = 0;
	const pid_t got = tracee_look(is.tid, &status);

	if (!got)
		return;
	if (got < 0 || !WIFSTOPPED(status)) {
		stop->tid = 0;
		if (got > 0 && is.tid == is.pid)
			p->ended(p->context, is.pid, status);
	} else if (status >> 16 == PTRACE_EVENT_STOP) {
		interrupt(p, stop);
		ptrace(PTRACE_DETACH, is.tid, 0, 0);
		stop->tid = 0;
	} else {
		ptrace(PTRACE_CONT, is.tid, 0, status >> 16 ? 0 : WSTOPSIG(status));
	}
}

static struct native_stop *free_stop(struct native_pauses *p)
{
	for (unsigned i = 0; i < NATIVE_STOPS; i++)
		if (!p->stops[i].tid)
			return &p->stops[i];
	return NULL;
}

static void begin_stop(struct native_pauses *p, unsigned slot)
{
	const struct native_stream *s = &p->streams->list[slot];
	struct native_pause *e = &p->list[slot];
	struct native_stop *stop = free_stop(p);
	const int64_t now = monotonic_ns();

	if (now < e->next || !stop)
		return;
	e->wait = e->wait ? 2 * e->wait : WAIT_NS;
	if (e->wait > WAIT_MAX_NS)
		e->wait = WAIT_MAX_NS;
	e->next = now + e->wait;
	if (ptrace(PTRACE_SEIZE, s->tid, 0, PTRACE_O_TRACESYSGOOD))
		return;
	*stop = (struct native_stop){.pid = s->pid, .tid = s->tid, .slot = slot};
	ptrace(PTRACE_INTERRUPT, s->tid, 0, 0);
	look_at(p, stop);
}

static bool follow(struct native_pauses *p, unsigned slot)
{
	const struct native_stream *s = &p->streams->list[slot];
	struct native_pause *e = &p->list[slot];

	if (!s->used || streams_has_ended(p->streams, slot) ||
	    streams_has_stopped(p->streams, slot) || streams_has_paused(p->streams, slot) == p->on)
		return true;
	if (pauses_traces(p, s->tid))
		return false;
	if (p->over || !p->may_trace(p->context, s->pid, s->tid))
		return true;
	if (is_in_call(e, s->pid)) {
		if (p->on && !e->taken)
			streams_take_written(p->streams, slot);
		e->taken = true;
		return true;
	}
	begin_stop(p, slot);
	return false;
}

bool pauses_follow(struct native_pauses *p)
{
	bool all = true;

	for (unsigned i = 0; i < NATIVE_STOPS; i++)
		if (p->stops[i].tid)
			look_at(p, &p->stops[i]);
	STREAMS_EACH (p->streams, i)
		all &= follow(p, i);
	return all;
}

void pauses_end(struct native_pauses *p, int32_t pid)
{
	const int64_t end = monotonic_ns() + END_NS;
	unsigned looks = 0;

	for (unsigned i = 0; i < NATIVE_STOPS; i++)
		while (p->stops[i].tid && (!pid || p->stops[i].pid == pid) &&
		       monotonic_ns() < end && !haste_is_late(p->late)) {
			look_at(p, &p->stops[i]);
			if (p->stops[i].tid)
				haste_nap(&looks);
		}
}

#else

bool pauses_follow(struct native_pauses *p)
{
	(void)p;
	return true;
}

void pauses_end(struct native_pauses *p, int32_t pid)
{
	(void)p;
	(void)pid;
}

#endif
