/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits for threads and processes, by exit calls, and those that a signal ended, by the
 * calls that send one.
 */
#include "waits/waits.h"

#include "base/bits.h"
#include "base/order.h"
#include "support/list.h"

#include <stdlib.h>

#define PRIVATE	   128
#define OWNER_BITS 0x3fffffff

/* A call that concerns a thread or a process: its exit, or a signal to it. */
struct event {
	int32_t target;
	uint32_t call;
	uint32_t signal; /* 0: it is none */
};

struct events {
	struct event *events;
	size_t count, capacity;
};

static int add_event(struct events *e, int32_t target, size_t call, uint64_t signal)
{
	if (!LIST_ROOM(e->events, e->count, e->capacity))
		return PTAH_E_NOMEM;
	e->events[e->count++] = (struct event){target, (uint32_t)call, (uint32_t)signal};
	return 0;
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	return COMPARE_THEN(x->target, y->target, COMPARE(x->call, y->call));
}

/* The last call for a target that began before `time`. NULL: there is none. */
static const struct event *last_before(const struct ptah_waits *w, const struct events *e,
				       int32_t target, uint64_t time)
{
	size_t at;

	/* Finds the first that is later. */
	BISECT(at, 0, e->count,
	       e->events[at].target < target || (e->events[at].target == target &&
						 w->calls->calls[e->events[at].call].begin < time));
	return at && e->events[at - 1].target == target ? &e->events[at - 1] : NULL;
}

static void sort_events(struct events *e)
{
	if (e->count)
		qsort(e->events, e->count, sizeof(*e->events), compare_events);
}

/* Exits by thread and by process, and signals by thread or process. */
struct lists {
	struct events threads, processes, signals;
};

/* Of one with the signal 0, or that failed, nothing has come. */
static int list_signal(struct lists *l, const struct system_call *c, size_t i, uint64_t target,
		       uint64_t signal)
{
	if (!signal || (c->flags & PTAH_SYSCALL_RETURNED && c->result < 0))
		return 0;
	return add_event(&l->signals, (int32_t)target, i, signal);
}

static int list_call(const struct ptah_waits *w, struct lists *l, size_t i)
{
	const struct system_call *c = &w->calls->calls[i];
	int status;

	switch (c->number) {
	case NR_EXIT:
		return add_event(&l->threads, c->tid, i, 0);
	case NR_EXIT_GROUP:
		status = add_event(&l->threads, c->tid, i, 0);
		return status < 0 ? status : add_event(&l->processes, c->pid, i, 0);
	case NR_KILL:
	case NR_TKILL:
	case NR_RT_SIGQUEUEINFO:
		return list_signal(l, c, i, c->args[0], c->args[1]);
	case NR_TGKILL:
	case NR_RT_TGSIGQUEUEINFO:
		return list_signal(l, c, i, c->args[1], c->args[2]);
	case NR_PIDFD_SEND_SIGNAL:
		return list_signal(l, c, i, (uint32_t)w->calls->objects[c->object].pid, c->args[1]);
	default:
		return 0;
	}
}

/*
 * pthread_join() waits for the word that the kernel clears when the thread has ended, and for the
 * value that is its number. The word of a robust mutex has its owner's number in its low bits, and
 * the highest one set while others wait.
 */
static void match_exit(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	const struct system_call *c = wait_call(w, wait);
	const uint32_t value = (uint32_t)c->args[2];
	const bool joins = !(c->args[1] & PRIVATE) && value <= OWNER_BITS;
	const int32_t tid = (int32_t)(value & OWNER_BITS);
	const struct event *exit;

	if (c->number != NR_FUTEX || tid <= 0 ||
	    table_get(&w->pids, (uint32_t)tid) != (uint32_t)wait->pid)
		return;
	if (joins) {
		wait->kind = PTAH_WAIT_THREAD;
		wait->holder = tid;
	}
	exit = last_before(w, &l->threads, tid, wait->end);
	if (!exit || wait->how == PTAH_WAIT_END_NEVER)
		return;
	if (w->calls->calls[exit->call].begin >= wait->begin)
		wait_set_waker(w, wait, exit->call);
}

/* The process whose end a call has waited for. 0: that is not known. */
static int32_t child_of(const struct ptah_waits *w, const struct wait *wait,
			const struct system_call *c)
{
	if (wait->ready)
		return w->calls->objects[w->calls->members[wait->ready].object].pid;
	if (c->number == NR_WAIT4)
		return c->result > 0 ? (int32_t)c->result : 0;
	if (c->number != NR_WAITID || c->result)
		return 0;
	if (c->data_size >= 24)
		return (int32_t)load_le32(c->data + 16);  /* si_pid */
	return c->args[0] == 1 ? (int32_t)c->args[1] : 0; /* P_PID */
}

static void match_child(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	const int32_t child = child_of(w, wait, wait_call(w, wait));
	const struct event *exit =
	    child > 0 ? last_before(w, &l->processes, child, wait->end) : NULL;

	if (!exit)
		return;
	if (w->calls->calls[exit->call].begin < wait->begin)
		wait->is_none = true;
	else
		wait_set_waker(w, wait, exit->call);
}

/* So many signals are looked through for one with a number. */
#define MOST_SIGNALS 16

/* The last signal to a thread or a process before the end of its wait. `signal` 0: any. */
static const struct event *last_signal(const struct ptah_waits *w, const struct lists *l,
				       int32_t target, const struct wait *wait, uint32_t signal)
{
	const struct event *sent = last_before(w, &l->signals, target, wait->end);

	for (unsigned i = 0; i < MOST_SIGNALS && sent && signal && sent->signal != signal; i++)
		sent = sent > l->signals.events && sent[-1].target == target ? sent - 1 : NULL;
	return sent && (!signal || sent->signal == signal) ? sent : NULL;
}

/* Whether a signal, if there is one, came during the wait and from another thread than `sent`. */
static bool is_other(const struct ptah_waits *w, const struct event *signal,
		     const struct event *sent, const struct wait *wait)
{
	const struct system_call *calls = w->calls->calls;

	return signal && calls[signal->call].tid != calls[sent->call].tid &&
	       call_end(w, &calls[signal->call]) >= wait->begin;
}

/* Whether another thread has sent a signal that may have ended the wait, not later than this one. */
static bool others_sent(const struct ptah_waits *w, const struct lists *l, const struct event *sent,
			const struct wait *wait, uint32_t signal)
{
	const struct event *at = sent;

	for (unsigned i = 0; i < MOST_SIGNALS && at > l->signals.events; i++) {
		at--;
		if (at->target != sent->target ||
		    call_end(w, &w->calls->calls[at->call]) < wait->begin)
			return false;
		if ((!signal || at->signal == signal) && is_other(w, at, sent, wait))
			return true;
	}
	return false;
}

static void match_signal(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	const struct system_call *c = wait_call(w, wait);
	const uint32_t signal =
	    c->number == NR_RT_SIGTIMEDWAIT && c->result > 0 ? (uint32_t)c->result : 0;
	const struct event *to_thread = last_signal(w, l, wait->tid, wait, signal);
	const struct event *to_process = last_signal(w, l, wait->pid, wait, signal);
	const struct event *sent = !to_thread || (to_process && to_process->call > to_thread->call)
				       ? to_process
				       : to_thread;

	/* One that was sent before the wait would have ended it at its beginning. */
	if (!sent || call_end(w, &w->calls->calls[sent->call]) < wait->begin)
		return;
	wait_set_waker(w, wait, sent->call);
	wait->how = PTAH_WAIT_END_SIGNAL;
	if (others_sent(w, l, sent, wait, signal) || is_other(w, to_thread, sent, wait) ||
	    is_other(w, to_process, sent, wait))
		wait->flags |= PTAH_WAIT_SEVERAL;
	/* Any thread of a process may get what was sent to the process. */
	if (sent == to_process && !signal &&
	    table_get(&w->threaded, (uint32_t)wait->pid) != SIZE_MAX)
		wait->flags |= PTAH_WAIT_SEVERAL;
}

/* What poll() and the like have found ready is no channel: a timer, a signal, a process. */
static void match_ready(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	switch (w->calls->objects[w->calls->members[wait->ready].object].kind) {
	case PTAH_DESCRIPTOR_TIMERFD:
		wait->how = PTAH_WAIT_END_TIME;
		wait->is_sure = true;
		break;
	case PTAH_DESCRIPTOR_SIGNALFD:
		match_signal(w, l, wait);
		break;
	case PTAH_DESCRIPTOR_PIDFD:
		match_child(w, l, wait);
		break;
	default:
		break;
	}
}

static void match_wait(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	if (wait->kind == PTAH_WAIT_FUTEX && !wait->has_waker)
		match_exit(w, l, wait);
	if (wait->kind == PTAH_WAIT_CHILD && wait->how == PTAH_WAIT_END_UNKNOWN)
		match_child(w, l, wait);
	if (wait->how == PTAH_WAIT_END_SIGNAL ||
	    (wait->kind == PTAH_WAIT_SIGNAL && wait->how == PTAH_WAIT_END_UNKNOWN))
		match_signal(w, l, wait);
	if (wait->ready && !wait->has_waker)
		match_ready(w, l, wait);
}

/* Who never came back is gone when the process is. */
static void end_with_process(const struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	const struct event *exit = wait->how == PTAH_WAIT_END_NEVER
				       ? last_before(w, &l->processes, wait->pid, UINT64_MAX)
				       : NULL;

	if (exit && w->calls->calls[exit->call].begin >= wait->begin)
		wait->end = wait->ran = w->calls->calls[exit->call].begin;
}

int endings_match(struct ptah_waits *w)
{
	struct lists l = {0};
	int status = 0;

	for (size_t i = 0; i < w->calls->count && status >= 0; i++)
		if (w->calls->calls[i].flags & PTAH_SYSCALL_ENTERED)
			status = list_call(w, &l, i);
	sort_events(&l.threads);
	sort_events(&l.processes);
	sort_events(&l.signals);
	for (size_t i = 0; i < w->count && status >= 0; i++) {
		match_wait(w, &l, &w->waits[i]);
		end_with_process(w, &l, &w->waits[i]);
	}
	free(l.threads.events);
	free(l.processes.events);
	free(l.signals.events);
	return status;
}
