/* SPDX-License-Identifier: MIT */
/* Lists the system calls that may have waited, and keeps those that did. */
#include "waits/waits.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "base/order.h"
#include "session/session.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* Results. */
#define E_INTR	    (-4)
#define E_AGAIN	    (-11)
#define E_TIMED_OUT (-110)

/* Futex operations that wait. */
static bool futex_waits(uint64_t operation)
{
	switch (operation & 0x7f) {
	case 0:	 /* WAIT */
	case 6:	 /* LOCK_PI */
	case 9:	 /* WAIT_BITSET */
	case 11: /* WAIT_REQUEUE_PI */
	case 13: /* LOCK_PI2 */
		return true;
	default:
		return false;
	}
}

static bool futex_spins(uint64_t operation)
{
	return (operation & 0x7f) == 6 || (operation & 0x7f) == 13; /* LOCK_PI, LOCK_PI2 */
}

/* What a read of this kind of descriptor waits for. PTAH_WAIT_KIND_MAX: it is not known to wait. */
static enum ptah_wait_kind kind_of_read(unsigned descriptor)
{
	switch (descriptor) {
	case PTAH_DESCRIPTOR_PIPE:
		return PTAH_WAIT_PIPE;
	case PTAH_DESCRIPTOR_SOCKET:
		return PTAH_WAIT_SOCKET;
	case PTAH_DESCRIPTOR_EVENTFD:
		return PTAH_WAIT_EVENTFD;
	case PTAH_DESCRIPTOR_TIMERFD:
		return PTAH_WAIT_SLEEP;
	case PTAH_DESCRIPTOR_SIGNALFD:
		return PTAH_WAIT_SIGNAL;
	case PTAH_DESCRIPTOR_INOTIFY:
		return PTAH_WAIT_INOTIFY;
	default:
		return PTAH_WAIT_KIND_MAX;
	}
}

bool call_writes(int64_t number)
{
	return number == NR_WRITE || number == NR_WRITEV || number == NR_SENDTO ||
	       number == NR_SENDMSG || number == NR_SENDFILE;
}

/* Calls that wait for room alone: taking long does not show that they did. */
static bool waits_for_room(int64_t number)
{
	return call_writes(number) || number == NR_MSGSND || number == NR_MQ_TIMEDSEND;
}

static enum ptah_wait_kind kind_of_write(unsigned descriptor)
{
	return descriptor == PTAH_DESCRIPTOR_PIPE     ? PTAH_WAIT_PIPE
	       : descriptor == PTAH_DESCRIPTOR_SOCKET ? PTAH_WAIT_SOCKET
						      : PTAH_WAIT_KIND_MAX;
}

/* What a call waits for that takes long. */
static enum ptah_wait_kind kind_of(const struct ptah_syscalls *s, const struct system_call *c)
{
	switch (c->number) {
	case NR_FUTEX:
		return futex_waits(c->args[1]) ? PTAH_WAIT_FUTEX : PTAH_WAIT_KIND_MAX;
	case NR_READ:
	case NR_READV:
		return kind_of_read(s->objects[c->object].kind);
	case NR_WRITE:
	case NR_WRITEV:
	case NR_SENDTO:
	case NR_SENDMSG:
	case NR_SENDFILE:
		return kind_of_write(s->objects[c->object].kind);
	case NR_FUTEX_WAITV:
		return PTAH_WAIT_FUTEX;
	case NR_RECVFROM:
	case NR_RECVMSG:
	case NR_ACCEPT:
	case NR_ACCEPT4:
		return PTAH_WAIT_SOCKET;
	case NR_POLL:
		return c->args[2] ? PTAH_WAIT_POLL : PTAH_WAIT_KIND_MAX;
	case NR_EPOLL_WAIT:
	case NR_EPOLL_PWAIT:
		return c->args[3] ? PTAH_WAIT_POLL : PTAH_WAIT_KIND_MAX;
	case NR_EPOLL_PWAIT2:
	case NR_PPOLL:
	case NR_SELECT:
	case NR_PSELECT6:
		return PTAH_WAIT_POLL;
	case NR_WAIT4: /* without WNOHANG */
		return c->args[2] & 1 ? PTAH_WAIT_KIND_MAX : PTAH_WAIT_CHILD;
	case NR_WAITID:
		return c->args[3] & 1 ? PTAH_WAIT_KIND_MAX : PTAH_WAIT_CHILD;
	case NR_NANOSLEEP:
	case NR_CLOCK_NANOSLEEP:
		return PTAH_WAIT_SLEEP;
	case NR_PAUSE:
	case NR_RT_SIGSUSPEND:
	case NR_RT_SIGTIMEDWAIT:
		return PTAH_WAIT_SIGNAL;
	case NR_FLOCK: /* without LOCK_NB */
		return c->args[1] & 4 ? PTAH_WAIT_KIND_MAX : PTAH_WAIT_LOCK;
	case NR_FCNTL: /* F_SETLKW, F_OFD_SETLKW */
		return c->args[1] == 7 || c->args[1] == 38 ? PTAH_WAIT_LOCK : PTAH_WAIT_KIND_MAX;
	case NR_SEMOP:
	case NR_SEMTIMEDOP:
	case NR_MSGSND:
	case NR_MSGRCV:
	case NR_MQ_TIMEDSEND:
	case NR_MQ_TIMEDRECEIVE:
		return PTAH_WAIT_MESSAGE;
	case NR_FSYNC:
	case NR_FDATASYNC:
	case NR_SYNC:
	case NR_SYNCFS:
		return PTAH_WAIT_FILE;
	default:
		return PTAH_WAIT_KIND_MAX;
	}
}

/* What a call has waited for in which the thread is known to have slept. */
static enum ptah_wait_kind kind_of_absence(const struct ptah_syscalls *s,
					   const struct system_call *c)
{
	const unsigned descriptor = s->objects[c->object].kind;

	if (descriptor == PTAH_DESCRIPTOR_FILE)
		return PTAH_WAIT_FILE;
	if (kind_of_read(descriptor) != PTAH_WAIT_KIND_MAX)
		return kind_of_read(descriptor);
	return c->number == NR_CONNECT ? PTAH_WAIT_SOCKET : PTAH_WAIT_CALL;
}

static bool was_interrupted(int64_t result)
{
	return result == E_INTR ||
	       (result <= SYSCALL_RESTART_FIRST && result >= SYSCALL_RESTART_LAST);
}

/* How the call itself says that it ended. */
static void set_end(const struct ptah_waits *w, struct wait *wait, const struct system_call *c)
{
	const bool several = wait->kind == PTAH_WAIT_POLL;

	if (call_is_cut(c))
		wait->is_none = true; /* switches may say more */
	else if (!(c->flags & PTAH_SYSCALL_RETURNED))
		wait->how = PTAH_WAIT_END_NEVER;
	else if (was_interrupted(c->result))
		wait->how = PTAH_WAIT_END_SIGNAL;
	else if (c->result == E_TIMED_OUT || (several && !c->result) ||
		 (wait->kind == PTAH_WAIT_SLEEP && c->result >= 0) ||
		 (c->number == NR_RT_SIGTIMEDWAIT && c->result == E_AGAIN))
		wait->how = PTAH_WAIT_END_TIME;
	else if (c->result == E_AGAIN || (wait->kind != PTAH_WAIT_SIGNAL && c->result < 0))
		/* It failed, and at once unless it took long: a futex's value had changed. */
		wait->is_none = (wait->kind == PTAH_WAIT_FUTEX && c->result == E_AGAIN) ||
				c->end < c->begin + PTAH_WAITS_SHORT;
	wait->is_sure = wait->how != PTAH_WAIT_END_UNKNOWN ||
			(c->number == NR_FUTEX && !futex_spins(c->args[1]));
	if (waits_for_room(c->number)) {
		wait->is_sure = false;
		wait->is_none = wait->how != PTAH_WAIT_END_NEVER;
	}
	wait->end = call_end(w, c);
}

static struct wait *add_wait(struct ptah_waits *w)
{
	if (w->count >= WAITS_NONE - 1 || !LIST_ROOM(w->waits, w->count, w->capacity))
		return NULL;
	w->waits[w->count] = (struct wait){
	    .call = WAITS_NONE, .waker_call = WAITS_NONE, .waker_pid = -1, .waker_tid = -1};
	return &w->waits[w->count++];
}

static int list_calls(struct ptah_waits *w)
{
	for (size_t i = 0; i < w->calls->count; i++) {
		const struct system_call *c = &w->calls->calls[i];
		const enum ptah_wait_kind kind = kind_of(w->calls, c);
		struct wait *wait;

		if (table_set(&w->pids, (uint32_t)c->tid, (uint32_t)c->pid) < 0 ||
		    (c->tid != c->pid && table_set(&w->threaded, (uint32_t)c->pid, 1) < 0))
			return PTAH_E_NOMEM;
		if (!(c->flags & PTAH_SYSCALL_ENTERED) || kind == PTAH_WAIT_KIND_MAX)
			continue;
		wait = add_wait(w);
		if (!wait)
			return PTAH_E_NOMEM;
		wait->kind = (uint8_t)kind;
		wait->pid = c->pid;
		wait->tid = c->tid;
		wait->begin = c->begin;
		wait->call = (uint32_t)i;
		set_end(w, wait, c);
	}
	return 0;
}

struct wait *wait_in(const struct ptah_waits *w, size_t count, uint32_t call)
{
	size_t at;

	BISECT(at, 0, count, w->waits[at].call < call);
	return at < count && w->waits[at].call == call ? &w->waits[at] : NULL;
}

void wait_set_waker(struct ptah_waits *w, struct wait *wait, uint32_t call)
{
	const struct system_call *c = &w->calls->calls[call];

	wait->waker_call = call;
	wait->waker_pid = c->pid;
	wait->waker_tid = c->tid;
	wait->has_waker = true;
	wait->is_sure = true;
	if (wait->how == PTAH_WAIT_END_UNKNOWN)
		wait->how = PTAH_WAIT_END_WOKEN;
	/* It was given back in the course of that call; a call that began before the wait has done
	 * so after the wait began. */
	wait->woken = c->begin > wait->begin ? c->begin : wait->begin;
	if (wait->woken > wait->end)
		wait->woken = wait->end;
}

/* Context switches */

/* When a call was certainly in progress; of one whose beginning is not known, its end. */
static uint64_t call_time(const struct system_call *c)
{
	return c->flags & PTAH_SYSCALL_ENTERED ? c->begin : c->end;
}

/* The call of a thread in which it was at a time; WAITS_NONE: none. */
static uint32_t call_at(const struct ptah_waits *w, const uint32_t *by_thread, int32_t tid,
			uint64_t time)
{
	const struct system_call *calls = w->calls->calls;
	size_t at;

	/* Finds the first that begins later. */
	BISECT(at, 0, w->calls->count,
	       calls[by_thread[at]].tid < tid ||
		   (calls[by_thread[at]].tid == tid && call_time(&calls[by_thread[at]]) <= time));
	if (!at || calls[by_thread[at - 1]].tid != tid ||
	    !(calls[by_thread[at - 1]].flags & PTAH_SYSCALL_ENTERED) ||
	    call_end(w, &calls[by_thread[at - 1]]) < time)
		return WAITS_NONE;
	return by_thread[at - 1];
}

static int compare_threads(const void *a, const void *b, void *context)
{
	const struct ptah_waits *w = context;
	const struct system_call *x = &w->calls->calls[*(const uint32_t *)a];
	const struct system_call *y = &w->calls->calls[*(const uint32_t *)b];

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

/* The numbers of all calls, by thread. */
static uint32_t *list_by_thread(struct ptah_waits *w)
{
	uint32_t *list = malloc((w->calls->count + 1) * sizeof(*list));

	if (!list)
		return NULL;
	for (size_t i = 0; i < w->calls->count; i++)
		list[i] = (uint32_t)i;
	if (w->calls->count)
		qsort_r(list, w->calls->count, sizeof(*list), compare_threads, w);
	return list;
}

/*
 * Whether a thread began or ended a call while it should have been off its processor. A call is a
 * little earlier or later than the kernel's own times.
 */
static bool has_run(const struct ptah_waits *w, const uint32_t *by_thread, int32_t tid,
		    const struct absence *a)
{
	const struct system_call *calls = w->calls->calls, *c;
	size_t at;

	if (a->to - a->from <= 2 * ABSENCES_NEAR)
		return false;
	/* Finds the first that begins later than it left. */
	BISECT(at, 0, w->calls->count,
	       calls[by_thread[at]].tid < tid ||
		   (calls[by_thread[at]].tid == tid &&
		    call_time(&calls[by_thread[at]]) <= a->from + ABSENCES_NEAR));
	c = at < w->calls->count ? &calls[by_thread[at]] : NULL;
	if (c && c->tid == tid && call_time(c) < a->to - ABSENCES_NEAR)
		return true;
	c = at ? &calls[by_thread[at - 1]] : NULL;
	return c && c->tid == tid && c->flags & PTAH_SYSCALL_RETURNED &&
	       c->end > a->from + ABSENCES_NEAR && c->end < a->to - ABSENCES_NEAR;
}

/* An absence in which the thread made calls is none: the switches between them were lost. */
static void compare_absences(struct ptah_waits *w, const uint32_t *by_thread)
{
	for (size_t i = 0; i < w->absences.count; i++) {
		const struct absences *t = &w->absences.threads[i];

		for (size_t k = 0; k < t->count; k++)
			t->list[k].lost |= has_run(w, by_thread, t->tid, &t->list[k]);
	}
}

/* The kernel spins for a lock with priority inheritance as long as the one that has it runs. */
static bool has_spun(const struct system_call *c, const struct wait *wait)
{
	return c->number == NR_FUTEX && futex_spins(c->args[1]) && wait->has_waker &&
	       wait->end - wait->begin >= PTAH_WAITS_SHORT;
}

/* A wait that does nothing but sleep: without any switch in it, switches were lost. */
static bool is_only_sleep(const struct wait *wait)
{
	return wait->kind == PTAH_WAIT_FUTEX || wait->kind == PTAH_WAIT_THREAD ||
	       wait->kind == PTAH_WAIT_CHILD || wait->kind == PTAH_WAIT_SLEEP ||
	       wait->kind == PTAH_WAIT_SIGNAL;
}

/* What the switches say of a wait in a call: whether the thread slept, and when it ran again. */
static void compare_with_switches(struct ptah_waits *w, struct wait *wait)
{
	const struct system_call *c = wait_call(w, wait);
	const struct absences *t = absences_find(&w->absences, wait->tid);
	bool slept = false;
	size_t i;

	if (!t || absences_lost(t, wait->begin, wait->end))
		return;
	i = absences_after(t, wait->begin);
	if (i == t->count || t->list[i].from >= wait->end) {
		if (is_only_sleep(wait) && wait->end - wait->begin > PTAH_WAITS_SHORT)
			return;
		/* It never left its processor. */
		wait->is_none = wait->how != PTAH_WAIT_END_NEVER && !has_spun(c, wait);
		return;
	}
	wait->is_sure = true;
	for (; i < t->count && t->list[i].from < wait->end; i++) {
		slept = slept || !t->list[i].preempted;
		if (t->list[i].to < wait->end)
			wait->ran = t->list[i].to;
	}
	if (!slept) { /* other threads ran instead: that is what it waited for */
		wait->is_none |= wait->how == PTAH_WAIT_END_UNKNOWN && !wait->has_waker;
		return;
	}
	/* It waited, whatever the result; and if that is not known, no longer than it was away. */
	wait->is_none = false;
	if (!call_is_cut(c)) {
		/* What cannot wait does not sleep: the time of SO_RCVTIMEO was over. */
		if (wait->kind == PTAH_WAIT_SOCKET && wait->how == PTAH_WAIT_END_UNKNOWN &&
		    c->result == E_AGAIN)
			wait->how = PTAH_WAIT_END_TIME;
		return;
	}
	if (wait->ran)
		wait->end = wait->ran;
	if (wait->woken > wait->end)
		wait->woken = wait->end;
}

static uint64_t wait_waker_began(const struct ptah_waits *w, const struct wait *wait)
{
	return w->calls->calls[wait->waker_call].begin;
}

/*
 * The call in which the waker of a wake-up was, if it is known better than from calls who ended the
 * wait: threads come into the kernel's queue of a futex in another order than into their calls, which
 * is all that calls say. WAITS_NONE: it is not.
 */
static uint32_t find_better_waker(const struct ptah_waits *w, const struct wait *wait,
				  const struct wakeup *wakeup, const uint32_t *by_thread)
{
	uint32_t call;

	if (wakeup->waker_tid <= 0 || wakeup->waker_tid == wait->tid)
		return WAITS_NONE;
	call = call_at(w, by_thread, wakeup->waker_tid, wakeup->time);
	/* An interrupt wakes from whatever thread it came in. */
	if (call == WAITS_NONE)
		return WAITS_NONE;
	if (!wait->has_waker)
		return wait->how == PTAH_WAIT_END_UNKNOWN ? call : WAITS_NONE;
	return wait->how == PTAH_WAIT_END_WOKEN && wait->call != WAITS_NONE &&
		       futexes_may_wake(w, call, wait)
		   ? call
		   : WAITS_NONE;
}

/* A wake-up says who ended a wait, if the calls do not say it as well, and when exactly. */
static void compare_with_wakeups(struct ptah_waits *w, struct wait *wait, const uint32_t *by_thread)
{
	const uint64_t until = wait->ran ? wait->ran : wait->end;
	const struct wakeup *wakeup = switches_wakeup(w, wait->tid, wait->begin, until);
	uint32_t call;

	if (!wakeup || wait->is_none)
		return;
	call = find_better_waker(w, wait, wakeup, by_thread);
	wait->is_sure = true;
	if (call != WAITS_NONE) {
		wait_set_waker(w, wait, call);
		wait->flags &= (uint16_t)~PTAH_WAIT_SEVERAL;
	}
	/*
	 * On another processor a thread becomes runnable a little after the call that wakes it has
	 * begun; what it waited for was free from that call on.
	 */
	if (!wait->woken || wait->waker_call == WAITS_NONE ||
	    wait_waker_began(w, wait) >= wakeup->time)
		wait->woken = wakeup->time;
}

/* Where the recorder makes stamps, a thread also sleeps when it has to wait for the recorder. */
static unsigned outside_of_calls(const struct ptah_waits *w)
{
	return ptah_session_times(w->session).kind == PTAH_TIME_STAMPED ? PTAH_WAIT_OUTSIDE
									: PTAH_WAIT_FAULT;
}

/* Absences of a thread outside of waits become waits of their own. */
static int add_absences(struct ptah_waits *w, const uint32_t *by_thread, size_t in_calls,
			const struct absences *t)
{
	/* The kernel's own threads make no calls: what they wait for is not known. */
	if (w->calls->count && table_get(&w->pids, (uint32_t)t->tid) == SIZE_MAX)
		return 0;
	for (size_t i = 0; i < t->count; i++) {
		const struct absence *a = &t->list[i];
		const uint32_t call = call_at(w, by_thread, t->tid, a->from);
		const struct system_call *c = call == WAITS_NONE ? NULL : &w->calls->calls[call];
		struct wait *wait = wait_in(w, in_calls, call);

		if (a->lost || (c && wait && !wait->is_none))
			continue;
		wait = add_wait(w);
		if (!wait)
			return PTAH_E_NOMEM;
		wait->kind = (uint8_t)(a->preempted	 ? PTAH_WAIT_PREEMPTED
				       : c		 ? kind_of_absence(w->calls, c)
				       : w->calls->count ? outside_of_calls(w)
							 : PTAH_WAIT_CALL);
		wait->pid = t->pid;
		wait->tid = t->tid;
		wait->begin = a->from;
		wait->end = wait->ran = a->to;
		wait->woken = a->preempted ? a->from : 0;
		wait->call = call;
		wait->is_sure = true;
		if (!a->preempted)
			compare_with_wakeups(w, wait, by_thread);
	}
	return 0;
}

static int use_switches(struct ptah_waits *w, const uint32_t *by_thread)
{
	size_t in_calls;
	int status = 0;

	for (size_t i = 0; i < w->count; i++) {
		compare_with_switches(w, &w->waits[i]);
		compare_with_wakeups(w, &w->waits[i], by_thread);
	}
	in_calls = w->count;
	for (size_t i = 0; i < w->absences.count && status >= 0; i++)
		status = add_absences(w, by_thread, in_calls, &w->absences.threads[i]);
	return status;
}

/* The result */

static bool is_kept(const struct wait *wait)
{
	return !wait->is_none && (wait->is_sure || (wait->end >= wait->begin &&
						    wait->end - wait->begin >= PTAH_WAITS_SHORT));
}

static int compare_waits(const void *a, const void *b)
{
	const struct wait *x = a, *y = b;

	return COMPARE_THEN(x->begin, y->begin, COMPARE(x->tid, y->tid));
}

static int compare_by_thread(const void *a, const void *b, void *context)
{
	const struct ptah_waits *w = context;
	const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;

	return COMPARE_THEN(w->waits[i].tid, w->waits[k].tid, COMPARE(i, k));
}

/* Drops what was no wait, and connects the waits of each thread. */
static int finish(struct ptah_waits *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->count; i++)
		if (is_kept(&w->waits[i]))
			w->waits[n++] = w->waits[i];
	w->count = n;
	w->by_thread = malloc((n + 1) * sizeof(*w->by_thread));
	if (!w->by_thread)
		return PTAH_E_NOMEM;
	if (n)
		qsort(w->waits, n, sizeof(*w->waits), compare_waits);
	for (size_t i = 0; i < n; i++)
		w->by_thread[i] = (uint32_t)i;
	if (n)
		qsort_r(w->by_thread, n, sizeof(*w->by_thread), compare_by_thread, w);
	for (size_t i = 0; i < n; i++) {
		struct wait *wait = &w->waits[w->by_thread[i]];

		wait->next = i + 1 < n && w->waits[w->by_thread[i + 1]].tid == wait->tid
				 ? w->by_thread[i + 1]
				 : WAITS_NONE;
	}
	return 0;
}

/* Who ended the waits that are listed. */
static int match_waits(struct ptah_waits *w)
{
	int status = futexes_match(w);

	if (status >= 0)
		status = channels_match(w);
	if (status >= 0)
		status = locks_match(w);
	return status < 0 ? status : endings_match(w);
}

static int find_waits(struct ptah_waits *w)
{
	int status = switches_read(w);
	uint32_t *by_thread = NULL;

	if (status >= 0)
		status = list_calls(w);
	if (status >= 0 && (w->absences.count || w->wakeup_count)) {
		by_thread = list_by_thread(w);
		status = by_thread ? 0 : PTAH_E_NOMEM;
	}
	if (by_thread)
		compare_absences(w, by_thread);
	if (status >= 0)
		status = match_waits(w);
	if (status >= 0 && by_thread)
		status = use_switches(w, by_thread);
	free(by_thread);
	return status < 0 ? status : finish(w);
}

int ptah_waits_new(const struct ptah_session *session, const struct ptah_waits_config *config,
		   struct ptah_waits **waits)
{
	struct ptah_waits *w;
	int status;

	if (!session || !waits || (config && config->size < sizeof(*config)))
		return PTAH_E_INVAL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return PTAH_E_NOMEM;
	w->session = session;
	status = ptah_syscalls_new(session, &w->calls);
	if (status >= 0)
		status = find_waits(w);
	if (status >= 0 && config && config->stacks)
		status = stacks_read(w, config);
	if (status < 0) {
		ptah_waits_free(w);
		return status;
	}
	*waits = w;
	return 0;
}

void ptah_waits_free(struct ptah_waits *w)
{
	if (!w)
		return;
	ptah_syscalls_free(w->calls);
	free(w->waits);
	absences_free(&w->absences);
	free(w->wakeups);
	free(w->nodes);
	table_free(&w->pids);
	table_free(&w->threaded);
	free(w->by_thread);
	free(w);
}

/* Questions */

size_t ptah_waits_count(const struct ptah_waits *w)
{
	return w->count;
}

const struct ptah_syscalls *ptah_waits_syscalls(const struct ptah_waits *w)
{
	return w->calls;
}

bool ptah_waits_has_switches(const struct ptah_waits *w, int32_t tid)
{
	return absences_find(&w->absences, tid);
}

/* Of futex_waitv() the futex that was woken. */
static uint64_t futex_of(const struct system_call *c)
{
	const bool known = c->flags & PTAH_SYSCALL_RETURNED && c->result >= 0 &&
			   c->result < (int64_t)(c->data_size / 24);

	if (c->number == NR_FUTEX)
		return c->args[0];
	return c->number == NR_FUTEX_WAITV && known ? load_le64(c->data + 24 * c->result + 8) : 0;
}

int ptah_waits_get(const struct ptah_waits *w, size_t i, struct ptah_wait *wait)
{
	const struct member *ready;
	const struct system_call *c;
	const struct wait *from;

	if (!w || !wait || wait->size < sizeof(*wait))
		return PTAH_E_INVAL;
	if (i >= w->count)
		return PTAH_E_MISSING;
	from = &w->waits[i];
	c = from->call == WAITS_NONE ? NULL : wait_call(w, from);
	ready = from->ready ? &w->calls->members[from->ready] : NULL;
	*wait = (struct ptah_wait){.size = sizeof(*wait),
				   .kind = from->kind,
				   .how = from->how,
				   .flags = from->flags,
				   .pid = from->pid,
				   .tid = from->tid,
				   .begin = from->begin,
				   .end = from->end,
				   .woken = from->woken,
				   .ran = from->ran,
				   .call = c ? from->call : SIZE_MAX,
				   .address = c ? futex_of(c) : 0,
				   .object = ready ? ready->object
					     : c   ? c->object
						   : 0,
				   .descriptor = ready ? ready->descriptor : -1,
				   .waker_pid = from->waker_pid,
				   .waker_tid = from->waker_tid,
				   .waker_call =
				       from->waker_call == WAITS_NONE ? SIZE_MAX : from->waker_call,
				   .holder = from->holder};
	return 0;
}

size_t ptah_waits_next(const struct ptah_waits *w, size_t i)
{
	return i >= w->count || w->waits[i].next == WAITS_NONE ? SIZE_MAX : w->waits[i].next;
}

size_t ptah_waits_of_thread(const struct ptah_waits *w, int32_t tid, uint64_t since)
{
	size_t at;

	/* The waits of a thread do not overlap, so that their ends are in order, too. */
	BISECT(at, 0, w->count,
	       w->waits[w->by_thread[at]].tid < tid || (w->waits[w->by_thread[at]].tid == tid &&
							w->waits[w->by_thread[at]].end <= since));
	return at < w->count && w->waits[w->by_thread[at]].tid == tid ? w->by_thread[at] : SIZE_MAX;
}

const char *ptah_wait_kind_name(unsigned kind)
{
	static const char *const names[] = {"futex",
					    "end of thread",
					    "end of process",
					    "pipe",
					    "socket",
					    "eventfd",
					    "poll",
					    "sleep",
					    "signal",
					    "file",
					    "file lock",
					    "message",
					    "not known",
					    "processor",
					    "page fault",
					    "inotify",
					    "page fault or recorder"};

	return kind < ARRAY_SIZE(names) ? names[kind] : NULL;
}

const char *ptah_wait_end_name(unsigned how)
{
	static const char *const names[] = {"unknown", "woken", "time", "signal", "never"};

	return how < ARRAY_SIZE(names) ? names[how] : NULL;
}
