/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits for threads and processes, by exit calls, and those that a signal ended, by the
 * calls that send one.
 */
#include "waits/waits.h"

#include <stdlib.h>

#define PRIVATE	   128
#define OWNER_BITS 0x3fffffff

/* A call that concerns a thread or a process: its exit, or a signal to it. */
struct event {
	int32_t target;
	uint32_t call;
};

struct events {
	struct event *events;
	size_t count, capacity;
};

static int add_event(struct events *e, int32_t target, size_t call)
{
	struct event *more;

	if (e->count == e->capacity) {
		e->capacity = e->capacity ? 2 * e->capacity : 64;
		more = reallocarray(e->events, e->capacity, sizeof(*more));
		if (!more)
			return PTAH_E_NOMEM;
		e->events = more;
	}
	e->events[e->count++] = (struct event){target, (uint32_t)call};
	return 0;
}

static int compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->call < y->call ? -1 : x->call > y->call;
}

/* The last call for a target that began before `time`. NULL: there is none. */
static const struct event *last_before(const struct ptah_waits *w, const struct events *e,
				       int32_t target, uint64_t time)
{
	size_t low = 0, high = e->count;

	while (low < high) { /* the first that is later */
		const size_t middle = low + (high - low) / 2;
		const struct event *m = &e->events[middle];

		if (m->target < target ||
		    (m->target == target && w->calls->calls[m->call].begin < time))
			low = middle + 1;
		else
			high = middle;
	}
	return low && e->events[low - 1].target == target ? &e->events[low - 1] : NULL;
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

static int list_call(struct lists *l, const struct system_call *c, size_t i)
{
	int status;

	switch (c->number) {
	case NR_EXIT:
		return add_event(&l->threads, c->tid, i);
	case NR_EXIT_GROUP:
		status = add_event(&l->threads, c->tid, i);
		return status < 0 ? status : add_event(&l->processes, c->pid, i);
	case NR_KILL:
	case NR_TKILL:
		return c->args[1] ? add_event(&l->signals, (int32_t)c->args[0], i) : 0;
	case NR_TGKILL:
		return c->args[2] ? add_event(&l->signals, (int32_t)c->args[1], i) : 0;
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

	if (tid <= 0 || table_get(&w->pids, (uint32_t)tid) != (uint32_t)wait->pid)
		return;
	if (joins)
		wait->kind = PTAH_WAIT_THREAD;
	exit = last_before(w, &l->threads, tid, wait->end);
	if (!exit || wait->how == PTAH_WAIT_END_NEVER)
		return;
	if (w->calls->calls[exit->call].begin >= wait->begin)
		wait_set_waker(w, wait, exit->call);
}

static void match_child(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	const struct system_call *c = wait_call(w, wait);
	const struct event *exit;

	/* waitid() returns 0: which process it was is in memory. */
	if (c->number != NR_WAIT4 || c->result <= 0)
		return;
	exit = last_before(w, &l->processes, (int32_t)c->result, wait->end);
	if (!exit)
		return;
	if (w->calls->calls[exit->call].begin < wait->begin)
		wait->is_none = true;
	else
		wait_set_waker(w, wait, exit->call);
}

static void match_signal(struct ptah_waits *w, const struct lists *l, struct wait *wait)
{
	const struct event *to_thread = last_before(w, &l->signals, wait->tid, wait->end);
	const struct event *to_process = last_before(w, &l->signals, wait->pid, wait->end);
	const struct event *sent = !to_thread || (to_process && to_process->call > to_thread->call)
				       ? to_process
				       : to_thread;

	/* One that was sent before the wait would have ended it at its beginning. */
	if (!sent || call_end(w, &w->calls->calls[sent->call]) < wait->begin)
		return;
	wait_set_waker(w, wait, sent->call);
	wait->how = PTAH_WAIT_END_SIGNAL;
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
}

int endings_match(struct ptah_waits *w)
{
	struct lists l = {0};
	int status = 0;

	for (size_t i = 0; i < w->calls->count && status >= 0; i++)
		if (w->calls->calls[i].flags & PTAH_SYSCALL_ENTERED)
			status = list_call(&l, &w->calls->calls[i], i);
	sort_events(&l.threads);
	sort_events(&l.processes);
	sort_events(&l.signals);
	for (size_t i = 0; i < w->count && status >= 0; i++)
		match_wait(w, &l, &w->waits[i]);
	free(l.threads.events);
	free(l.processes.events);
	free(l.signals.events);
	return status;
}
