/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits at futexes. The kernel's queue is first in, first out: a FUTEX_WAKE takes as
 * many of those that wait at its address as it returned, the oldest first, and FUTEX_REQUEUE puts
 * the next ones at the end of another queue. A thread may lose its processor after its call has begun
 * and before it is in the queue, so that others overtake it: then they return before the next wake
 * begins, and must have been taken. UNLOCK_PI gives the lock to one of those that wait for
 * it: the one that returns first, since the next UNLOCK_PI is its own.
 */
#include "waits/waits.h"

#include "base/bits.h"
#include "base/order.h"
#include "support/list.h"

#include <stdlib.h>

/* Operations (linux/futex.h). */
#define OPERATION	0x7f
#define PRIVATE		128
#define WAIT		0
#define WAKE		1
#define REQUEUE		3
#define CMP_REQUEUE	4
#define WAKE_OP		5
#define LOCK_PI		6
#define UNLOCK_PI	7
#define WAIT_BITSET	9
#define WAKE_BITSET	10
#define WAIT_REQUEUE_PI 11
#define CMP_REQUEUE_PI	12
#define LOCK_PI2	13

#define OWNER_BITS 0x3fffffff

/* A wait or a call that wakes, at an address. */
struct place {
	uint64_t address;
	int32_t pid;   /* 0: shared by processes */
	uint32_t wait; /* WAITS_NONE: it wakes */
	uint32_t call;
	uint32_t bits;	/* of WAKE_BITSET */
	bool is_second; /* of WAKE_OP, or to where others were requeued */
};

struct places {
	struct place *places;
	size_t count, capacity;
};

static int add_place(struct places *p, const struct place *place)
{
	if (!LIST_ROOM(p->places, p->count, p->capacity))
		return PTAH_E_NOMEM;
	p->places[p->count++] = *place;
	return 0;
}

/* By address, waits before wakes, and each by its beginning: calls are numbered in that order. */
static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if ((x->wait == WAITS_NONE) != (y->wait == WAITS_NONE))
		return x->wait == WAITS_NONE ? 1 : -1;
	return COMPARE(x->call, y->call);
}

static bool same_address(const struct place *x, const struct place *y)
{
	return x->address == y->address && x->pid == y->pid;
}

static bool is_requeue(unsigned operation)
{
	return operation == REQUEUE || operation == CMP_REQUEUE || operation == CMP_REQUEUE_PI;
}

static bool is_wake(unsigned operation)
{
	return operation == WAKE || operation == WAKE_BITSET || operation == WAKE_OP ||
	       operation == UNLOCK_PI || is_requeue(operation);
}

bool futexes_may_wake(const struct ptah_waits *w, uint32_t call, const struct wait *wait)
{
	const struct system_call *wake = &w->calls->calls[call], *c = wait_call(w, wait);
	const unsigned operation = wake->args[1] & OPERATION;

	return wake->number == NR_FUTEX && c->number == NR_FUTEX && is_wake(operation) &&
	       (wake->result > 0 || operation == UNLOCK_PI) && wake->args[0] == c->args[0] &&
	       (wake->pid == c->pid || !((wake->args[1] | c->args[1]) & PRIVATE));
}

static int add_wakes(const struct ptah_waits *w, struct places *p)
{
	int status = 0;

	for (size_t i = 0; i < w->calls->count && status >= 0; i++) {
		const struct system_call *c = &w->calls->calls[i];
		const unsigned operation = c->args[1] & OPERATION;
		struct place place = {.address = c->args[0],
				      .pid = c->args[1] & PRIVATE ? c->pid : 0,
				      .wait = WAITS_NONE,
				      .call = (uint32_t)i,
				      .bits = UINT32_MAX};

		if (c->number != NR_FUTEX || !is_wake(operation) ||
		    !(c->flags & PTAH_SYSCALL_RETURNED) || c->result < 0 ||
		    (!c->result && operation != UNLOCK_PI))
			continue;
		if (operation == WAKE_BITSET)
			place.bits = (uint32_t)c->args[5];
		status = add_place(p, &place);
		if ((operation == WAKE_OP || is_requeue(operation)) && status >= 0) {
			place.address = c->args[4];
			place.is_second = true;
			status = add_place(p, &place);
		}
	}
	return status;
}

/* The i-th futex of futex_waitv(), which it has. */
static struct place place_of_vector(const struct system_call *c, int64_t i)
{
	const uint8_t *futex = c->data + 24 * i; /* struct futex_waitv */

	return (struct place){.address = load_le64(futex + 8),
			      .pid = load_le32(futex + 16) & PRIVATE ? c->pid : 0};
}

/* futex_waitv() returns which of its futexes was woken. False: that is not known. */
static bool find_woken_futex(const struct system_call *c, struct place *place)
{
	struct place woken;

	if (!(c->flags & PTAH_SYSCALL_RETURNED) || c->result < 0 ||
	    c->result >= (int64_t)(c->data_size / 24))
		return false;
	woken = place_of_vector(c, c->result);
	place->address = woken.address;
	place->pid = woken.pid;
	return true;
}

static int add_waits(const struct ptah_waits *w, struct places *p)
{
	int status = 0;

	for (size_t i = 0; i < w->count && status >= 0; i++) {
		const struct wait *wait = &w->waits[i];
		const struct system_call *c = wait_call(w, wait);
		struct place place = {.address = c->args[0],
				      .pid = c->args[1] & PRIVATE ? c->pid : 0,
				      .wait = (uint32_t)i,
				      .call = wait->call};

		if (wait->kind != PTAH_WAIT_FUTEX || wait->how != PTAH_WAIT_END_UNKNOWN ||
		    (c->flags & PTAH_SYSCALL_RETURNED && c->result < 0) ||
		    (c->number == NR_FUTEX_WAITV && !find_woken_futex(c, &place)))
			continue;
		status = add_place(p, &place);
	}
	return status;
}

/*
 * One address: its waits [next, first_wake), which come in turn, and those that are queued; its calls
 * that wake, of which [wake, end) are still to be carried out.
 */
struct queue {
	const struct place *first, *next, *first_wake, *wake, *end;
	uint32_t head, tail; /* numbers of waits; WAITS_NONE: it is empty */
	size_t length;
	/* The call that ended last of those that were carried out: when, and of which thread. */
	uint64_t woke_until;
	int32_t woke_by;
};

struct queues {
	struct ptah_waits *w;
	struct queue *queues; /* by address */
	size_t count;
	/* Of each wait the next one in its queue, and the call that has requeued it. */
	uint32_t *after, *requeued;
	size_t looks;
	/*
	 * What the present call has taken: how many, when the last of them was over, and whether the
	 * call may have lost its processor before it woke them.
	 */
	int64_t taken;
	uint64_t taken_until;
	bool is_late;
	uint64_t deadline; /* of find_deadline() */
};

/* So many waits are looked at: a recording may have thousands that no wake takes. */
#define MOST_LOOKS (UINT32_C(1) << 28)

static struct queue *find_queue(const struct queues *q, const struct place *place)
{
	size_t low = 0, high = q->count;

	while (low + 1 < high) { /* the last one that is not behind the place */
		const size_t middle = low + (high - low) / 2;
		const struct place *first = q->queues[middle].first;

		if (first->address < place->address ||
		    (first->address == place->address && first->pid <= place->pid))
			low = middle;
		else
			high = middle;
	}
	return &q->queues[low];
}

static void append(struct queues *q, struct queue *queue, uint32_t wait)
{
	q->after[wait] = WAITS_NONE;
	if (queue->head == WAITS_NONE)
		queue->head = wait;
	else
		q->after[queue->tail] = wait;
	queue->tail = wait;
	queue->length++;
}

/* Those that began before a call's end are in the queue. */
static void fill_queue(struct queues *q, struct queue *queue, uint64_t time)
{
	for (; queue->next < queue->first_wake && q->w->waits[queue->next->wait].begin < time;
	     queue->next++)
		append(q, queue, queue->next->wait);
}

/* Takes the wait behind `before` out of the queue; WAITS_NONE: the first one. */
static void take_out(struct queues *q, struct queue *queue, uint32_t before)
{
	uint32_t *link = before == WAITS_NONE ? &queue->head : &q->after[before];

	if (queue->tail == *link)
		queue->tail = before;
	*link = q->after[*link];
	queue->length--;
}

/*
 * Leaves out of the queue what was over before `time`. One that was requeued and that no UNLOCK_PI
 * has ended was given its lock at once, by the call that would have requeued it.
 */
static void clean_queue(struct queues *q, struct queue *queue, uint64_t time)
{
	uint32_t before = WAITS_NONE, next;

	for (uint32_t i = queue->head; i != WAITS_NONE; i = next) {
		struct wait *wait = &q->w->waits[i];

		next = q->after[i];
		q->looks++;
		if (wait->end > time) {
			before = i;
			continue;
		}
		take_out(q, queue, before);
		if (q->requeued[i] != WAITS_NONE &&
		    (wait_call(q->w, wait)->args[1] & OPERATION) == WAIT_REQUEUE_PI)
			wait_set_waker(q->w, wait, q->requeued[i]);
	}
}

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* How many a call has woken at a place, at most. */
static int64_t room_of(const struct system_call *c, const struct place *wake)
{
	switch (c->args[1] & OPERATION) {
	case UNLOCK_PI:
		return 1;
	case REQUEUE: /* of the result, others were requeued */
	case CMP_REQUEUE:
		return smaller(c->result, (uint32_t)c->args[2]);
	case CMP_REQUEUE_PI: /* that one was given its lock, it does not say */
		return 0;
	case WAKE_OP:
		return smaller(c->result, (uint32_t)c->args[wake->is_second ? 3 : 2]);
	default:
		return c->result;
	}
}

/* The result of WAKE_OP is of both places: how many it has woken at each, it does not say. */
static bool is_divided(const struct system_call *c)
{
	return (c->args[1] & OPERATION) == WAKE_OP &&
	       c->result < (int64_t)(uint32_t)c->args[2] + (uint32_t)c->args[3];
}

/* Whether a wake may take this wait. */
static bool may_take(const struct ptah_waits *w, const struct wait *wait, const struct place *wake)
{
	const struct system_call *c = &w->calls->calls[wake->call];
	const struct system_call *waiting = wait_call(w, wait);
	const bool has_bits =
	    waiting->number == NR_FUTEX && (waiting->args[1] & OPERATION) == WAIT_BITSET;
	const uint32_t bits = has_bits ? (uint32_t)waiting->args[5] : UINT32_MAX;

	return wait->tid != c->tid && bits & wake->bits && wait->begin < call_end(w, c);
}

/*
 * Whether a wake of another thread was going on at the same time: it is not known which one came
 * first to the kernel's queue.
 */
static bool is_overlapped(const struct ptah_waits *w, const struct queue *queue,
			  const struct wait *wait, const struct system_call *c)
{
	const struct system_call *next =
	    queue->wake < queue->end ? &w->calls->calls[queue->wake->call] : NULL;

	if (next && next->tid != c->tid && next->begin < call_end(w, c) && next->begin < wait->end)
		return true;
	return queue->woke_by != c->tid && queue->woke_until > c->begin &&
	       queue->woke_until > wait->begin;
}

/* A switch from one thread to another is two records. */
#define SWITCH_NS 5000

/*
 * Whether a call may have lost its processor before it woke this wait, so that others woke in its
 * place. A processor that goes to the woken thread shows that it had been woken.
 */
static bool may_be_late(const struct ptah_waits *w, const struct wait *wait,
			const struct system_call *c)
{
	const struct absences *t = absences_find(&w->absences, c->tid);
	const size_t i = t ? absences_after(t, c->begin) : 0;
	const struct absences *woken = absences_find(&w->absences, wait->tid);
	size_t last;

	if (!t || i == t->count || t->list[i].from >= call_end(w, c) ||
	    t->list[i].from >= wait->end)
		return false;
	if (t->list[i].lost || !woken)
		return true;
	/* The wait's last absence ends when it runs again. */
	last = absences_after(woken, wait->end);
	return !last || woken->list[last - 1].to < t->list[i].from ||
	       woken->list[last - 1].to > t->list[i].from + SWITCH_NS;
}

static void wake_up(struct queues *q, const struct queue *queue, struct wait *wait,
		    const struct place *wake)
{
	const struct system_call *c = &q->w->calls->calls[wake->call];

	wait_set_waker(q->w, wait, wake->call);
	/* Of another process the address may be that of other memory. */
	if (is_divided(c) || wait->pid != c->pid || is_overlapped(q->w, queue, wait, c))
		wait->flags |= PTAH_WAIT_SEVERAL;
	q->is_late |= may_be_late(q->w, wait, c);
	q->taken++;
	q->taken_until = wait->end > q->taken_until ? wait->end : q->taken_until;
}

/* The one that returns first gets the lock. */
static void unlock(struct queues *q, struct queue *queue, const struct place *wake)
{
	uint32_t before = WAITS_NONE, found = WAITS_NONE, before_found = WAITS_NONE;
	struct wait *waits = q->w->waits;

	for (uint32_t i = queue->head; i != WAITS_NONE; before = i, i = q->after[i])
		if (may_take(q->w, &waits[i], wake) &&
		    (found == WAITS_NONE || waits[i].end < waits[found].end)) {
			found = i;
			before_found = before;
		}
	if (found == WAITS_NONE)
		return;
	take_out(q, queue, before_found);
	wake_up(q, queue, &waits[found], wake);
}

/* So many calls that wake are looked at behind one of them, and so many waits that are over then. */
#define MOST_AHEAD 16
#define MOST_OVER  64

/* The ends of waits, of those that are queued and those that come, that are over at a time. */
static unsigned list_over(struct queues *q, const struct queue *queue, uint64_t time,
			  uint64_t over[MOST_OVER])
{
	const struct wait *waits = q->w->waits;
	unsigned n = 0;

	for (uint32_t i = queue->head; i != WAITS_NONE && n < MOST_OVER;
	     i = q->after[i], q->looks++)
		if (waits[i].end <= time)
			over[n++] = waits[i].end;
	for (const struct place *p = queue->next;
	     p < queue->first_wake && n < MOST_OVER && waits[p->wait].begin < time; p++, q->looks++)
		if (waits[p->wait].end <= time)
			over[n++] = waits[p->wait].end;
	return n;
}

/*
 * The present call takes `room` more. Waits that are over when a later one begins were taken by those
 * before it: if that leaves no room for others, only waits that are over by then may be taken now.
 * Returns that time; UINT64_MAX: any wait may be taken.
 */
static uint64_t find_deadline(struct queues *q, const struct queue *queue, int64_t room)
{
	const struct system_call *calls = q->w->calls->calls;
	const size_t ahead = (size_t)(queue->end - queue->wake);
	const struct place *end = queue->wake + (ahead < MOST_AHEAD ? ahead : MOST_AHEAD);
	uint64_t over[MOST_OVER];
	unsigned n;

	if (!ahead)
		return UINT64_MAX;
	n = list_over(q, queue, calls[end[-1].call].begin, over);
	for (const struct place *later = queue->wake; later < end && room <= n; later++) {
		const struct system_call *c = &calls[later->call];
		int64_t by_then = 0;

		for (unsigned i = 0; i < n; i++)
			by_then += over[i] <= c->begin;
		if (by_then >= room)
			return c->begin;
		/* More than there can be are as many; a stranger's result would overflow. */
		if (!later->is_second || (c->args[1] & OPERATION) == WAKE_OP)
			room += smaller(is_requeue(c->args[1] & OPERATION) ? c->result
									   : room_of(c, later),
					MOST_OVER + 1);
	}
	return UINT64_MAX;
}

/* The oldest wait that a call may take now; *before: the one before it. WAITS_NONE: there is none. */
static uint32_t find_oldest(struct queues *q, const struct queue *queue, const struct place *wake,
			    int64_t room, uint32_t *before)
{
	/* Where all are taken, the order is nothing. */
	q->deadline = queue->length <= (uint64_t)room ? UINT64_MAX : find_deadline(q, queue, room);
	*before = WAITS_NONE;
	for (uint32_t i = queue->head; i != WAITS_NONE; *before = i, i = q->after[i], q->looks++)
		if (q->w->waits[i].end <= q->deadline && may_take(q->w, &q->w->waits[i], wake))
			return i;
	return WAITS_NONE;
}

/*
 * When a waiting thread was certainly in the kernel's queue: when it went to sleep. One that never did
 * was woken on its way there. Where switches are not recorded, its call's beginning is all that is
 * known.
 */
static uint64_t time_of_sleep(const struct ptah_waits *w, const struct wait *wait)
{
	const struct absences *t = absences_find(&w->absences, wait->tid);
	size_t i = t ? absences_after(t, wait->begin) : 0;

	if (!t)
		return wait->begin;
	if (absences_lost(t, wait->begin, wait->end))
		return wait->end;
	while (i < t->count && t->list[i].from < wait->end && t->list[i].preempted)
		i++;
	return i < t->count && t->list[i].from < wait->end ? t->list[i].from : wait->end;
}

/*
 * A wait is taken, and others are not, of which some began before the thread was asleep: it is not
 * known whether they overtook it.
 */
static void mark_overtaking(struct queues *q, uint32_t taken)
{
	struct wait *waits = q->w->waits;
	const uint64_t asleep = time_of_sleep(q->w, &waits[taken]);

	for (uint32_t i = q->after[taken]; i != WAITS_NONE && waits[i].begin < asleep;
	     i = q->after[i], q->looks++) {
		if (waits[i].end > q->deadline)
			continue;
		waits[i].flags |= PTAH_WAIT_SEVERAL;
		waits[taken].flags |= PTAH_WAIT_SEVERAL;
	}
}

/* Takes as many as the call has woken, the oldest first; the next ones go on in another queue. */
static void take_oldest(struct queues *q, struct queue *queue, struct queue *to,
			const struct place *wake)
{
	const struct system_call *c = &q->w->calls->calls[wake->call];
	const int64_t room = room_of(c, wake);
	int64_t left = to ? c->result : room;
	const int64_t requeued = left - room;
	uint32_t before;

	for (uint32_t i; left > 0 && q->looks < MOST_LOOKS; left--) {
		i = find_oldest(q, queue, wake, left, &before);
		if (i == WAITS_NONE)
			return;
		if (queue->length > (size_t)left)
			mark_overtaking(q, i);
		take_out(q, queue, before);
		if (left > requeued) {
			wake_up(q, queue, &q->w->waits[i], wake);
		} else {
			q->requeued[i] = wake->call;
			append(q, to, i);
		}
	}
}

static void carry_out(struct queues *q, const struct place *wake)
{
	const struct system_call *c = &q->w->calls->calls[wake->call];
	const unsigned operation = c->args[1] & OPERATION;
	const struct place target = {.address = c->args[4], .pid = wake->pid};
	struct queue *queue = find_queue(q, wake), *to = NULL;

	queue->wake++;
	q->taken = 0;
	q->taken_until = 0;
	q->is_late = false;
	fill_queue(q, queue, call_end(q->w, c));
	clean_queue(q, queue, c->begin);
	if (is_requeue(operation)) {
		if (wake->is_second)
			return;
		to = find_queue(q, &target);
		if (to == queue)
			return;
		fill_queue(q, to, c->begin);
	}
	if (operation == UNLOCK_PI)
		unlock(q, queue, wake);
	else
		take_oldest(q, queue, to, wake);
	/*
	 * The call has woken before those that it woke were over, however long it takes to return, if
	 * it is certain that it woke them.
	 */
	if (q->taken < c->result || q->is_late || q->taken_until > call_end(q->w, c))
		q->taken_until = call_end(q->w, c);
	if (queue->woke_until < q->taken_until) {
		queue->woke_until = q->taken_until;
		queue->woke_by = c->tid;
	}
}

static int compare_calls(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->call != y->call)
		return x->call < y->call ? -1 : 1;
	return (int)x->is_second - (int)y->is_second;
}

/* Divides the places, which are sorted, into queues. */
static void make_queues(struct queues *q, const struct places *p)
{
	const struct place *at = p->places, *end = at + p->count;

	while (at < end) {
		struct queue *queue = &q->queues[q->count++];

		*queue =
		    (struct queue){.first = at, .next = at, .head = WAITS_NONE, .tail = WAITS_NONE};
		while (at < end && same_address(at, queue->first) && at->wait != WAITS_NONE)
			at++;
		queue->first_wake = queue->wake = at;
		while (at < end && same_address(at, queue->first))
			at++;
		queue->end = at;
	}
}

/* So many of the last calls that wake at an address are looked at. */
#define MOST_BEFORE 16

/* Whether a call woke at the place of a queue while a thread waited. */
static bool woke_during(const struct ptah_waits *w, const struct queue *queue,
			const struct wait *wait)
{
	const struct system_call *calls = w->calls->calls;
	const struct place *at;
	size_t n, end = (size_t)(queue->end - queue->first_wake);

	/* Finds the first that began later. */
	BISECT(n, 0, end, calls[queue->first_wake[n].call].begin < wait->end);
	at = queue->first_wake + n;
	for (size_t i = 1; i <= n && i <= MOST_BEFORE; i++)
		if (call_end(w, &calls[at[-(ptrdiff_t)i].call]) > wait->begin)
			return true;
	return false;
}

/*
 * futex_waitv() returns the last one of its futexes that was woken: one before that may have ended the
 * wait, if somebody woke there.
 */
static void mark_vector(const struct queues *q, struct wait *wait)
{
	const struct system_call *c = wait_call(q->w, wait);

	for (int64_t i = 0; i < c->result && i < (int64_t)(c->data_size / 24); i++) {
		const struct place place = place_of_vector(c, i);
		const struct queue *queue = find_queue(q, &place);

		if (same_address(queue->first, &place) && woke_during(q->w, queue, wait))
			wait->flags |= PTAH_WAIT_SEVERAL;
	}
}

static void mark_vectors(const struct queues *q)
{
	for (size_t i = 0; i < q->w->count; i++)
		if (q->w->waits[i].has_waker && q->w->waits[i].call != WAITS_NONE &&
		    wait_call(q->w, &q->w->waits[i])->number == NR_FUTEX_WAITV)
			mark_vector(q, &q->w->waits[i]);
}

/* Carries out all wakes in their order. */
static int match_places(struct ptah_waits *w, const struct places *p)
{
	struct queues q = {.w = w};
	struct place *wakes = malloc(p->count * sizeof(*wakes));
	int status = PTAH_E_NOMEM;
	size_t n = 0;

	q.queues = malloc(p->count * sizeof(*q.queues));
	q.after = malloc((w->count + 1) * sizeof(*q.after));
	q.requeued = malloc((w->count + 1) * sizeof(*q.requeued));
	if (wakes && q.queues && q.after && q.requeued) {
		status = 0;
		for (size_t i = 0; i < w->count; i++)
			q.requeued[i] = WAITS_NONE;
		make_queues(&q, p);
		for (size_t i = 0; i < p->count; i++)
			if (p->places[i].wait == WAITS_NONE)
				wakes[n++] = p->places[i];
		if (n)
			qsort(wakes, n, sizeof(*wakes), compare_calls);
		for (size_t i = 0; i < n && q.looks < MOST_LOOKS; i++)
			carry_out(&q, &wakes[i]);
		for (size_t i = 0; i < q.count; i++)
			clean_queue(&q, &q.queues[i], UINT64_MAX);
		mark_vectors(&q);
		/* Of one that was overtaken and that no call has woken, there are no others. */
		for (size_t i = 0; i < w->count; i++)
			if (!w->waits[i].has_waker)
				w->waits[i].flags &= ~(unsigned)PTAH_WAIT_SEVERAL;
	}
	free(q.queues);
	free(q.after);
	free(q.requeued);
	free(wakes);
	return status;
}

/* Who has the lock: what glibc's mutex says, if it is a thread of the process; or the futex. */
static int32_t holder_of(const struct ptah_waits *w, const struct wait *wait)
{
	const struct system_call *c = wait_call(w, wait);
	const uint32_t word = c->data && c->data_size >= 4 ? load_le32(c->data) : 0;
	const uint32_t owner = c->data && c->data_size >= 8 ? load_le32(c->data + 4) : 0;
	const unsigned operation = c->args[1] & OPERATION;
	const bool pi = operation == LOCK_PI || operation == LOCK_PI2;
	const uint32_t tid = pi ? word & OWNER_BITS : owner;

	if (c->number != NR_FUTEX || c->data_arg || !tid || (int32_t)tid == wait->tid ||
	    table_get(&w->pids, tid) != (uint32_t)wait->pid)
		return 0;
	return (int32_t)tid;
}

int futexes_match(struct ptah_waits *w)
{
	struct places p = {0};
	int status;

	for (size_t i = 0; i < w->count; i++)
		if (w->waits[i].kind == PTAH_WAIT_FUTEX)
			w->waits[i].holder = holder_of(w, &w->waits[i]);
	status = add_waits(w, &p);
	if (status >= 0)
		status = add_wakes(w, &p);
	if (status >= 0 && p.count) {
		qsort(p.places, p.count, sizeof(*p.places), compare_places);
		status = match_places(w, &p);
	}
	free(p.places);
	return status;
}
