/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits at futexes. The kernel's queue is first in, first out: a FUTEX_WAKE takes as
 * many of those that wait at its address as it returned, the oldest first.
 */
#include "waits/waits.h"

#include "base/bits.h"

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
#define LOCK_PI2	13

#define OWNER_BITS 0x3fffffff

/* A wait or a call that wakes, at an address. */
struct place {
	uint64_t address;
	int32_t pid;   /* 0: shared by processes */
	uint32_t wait; /* WAITS_NONE: it wakes */
	uint32_t call;
	uint32_t bits;	/* of WAKE_BITSET */
	bool is_second; /* of WAKE_OP */
};

struct places {
	struct place *places;
	size_t count, capacity;
};

static int add_place(struct places *p, const struct place *place)
{
	struct place *more;

	if (p->count == p->capacity) {
		p->capacity = p->capacity ? 2 * p->capacity : 64;
		more = reallocarray(p->places, p->capacity, sizeof(*more));
		if (!more)
			return PTAH_E_NOMEM;
		p->places = more;
	}
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
	return x->call < y->call ? -1 : x->call > y->call;
}

static bool same_address(const struct place *x, const struct place *y)
{
	return x->address == y->address && x->pid == y->pid;
}

static bool is_wake(unsigned operation)
{
	return operation == WAKE || operation == WAKE_BITSET || operation == WAKE_OP ||
	       operation == REQUEUE || operation == CMP_REQUEUE || operation == UNLOCK_PI;
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
		if (operation == WAKE_OP && status >= 0) {
			place.address = c->args[4];
			place.is_second = true;
			status = add_place(p, &place);
		}
	}
	return status;
}

static int add_waits(const struct ptah_waits *w, struct places *p)
{
	int status = 0;

	for (size_t i = 0; i < w->count && status >= 0; i++) {
		const struct wait *wait = &w->waits[i];
		const struct system_call *c = wait_call(w, wait);
		const struct place place = {.address = c->args[0],
					    .pid = c->args[1] & PRIVATE ? c->pid : 0,
					    .wait = (uint32_t)i,
					    .call = wait->call};

		if (wait->kind == PTAH_WAIT_FUTEX && wait->how == PTAH_WAIT_END_UNKNOWN)
			status = add_place(p, &place);
	}
	return status;
}

/* What waits at an address while its wakes are read: those that no wake has taken yet. */
struct queue {
	struct wait **waits;
	size_t count;
	size_t looks; /* at waits of all queues */
};

/* So many waits are looked at: a recording may have thousands that no wake takes. */
#define MOST_LOOKS (UINT32_C(1) << 30)

/* Leaves out of the queue what was taken, and what was over before `time`. */
static void clean_queue(struct queue *q, uint64_t time)
{
	size_t n = 0;

	for (size_t i = 0; i < q->count; i++)
		if (!q->waits[i]->has_waker && !q->waits[i]->requeued && q->waits[i]->end > time)
			q->waits[n++] = q->waits[i];
	q->count = n;
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

/* The wake takes as many as it returned, the oldest first. */
static void take_from_queue(struct ptah_waits *w, const struct queue *q, const struct place *wake)
{
	const struct system_call *c = &w->calls->calls[wake->call];
	const unsigned operation = c->args[1] & OPERATION;
	int64_t room = room_of(c, wake);
	int64_t requeued = operation == REQUEUE || operation == CMP_REQUEUE ? c->result - room : 0;

	for (size_t i = 0; i < q->count && room + requeued > 0; i++) {
		struct wait *wait = q->waits[i];
		const struct system_call *waiting = wait_call(w, wait);
		const uint32_t bits = (waiting->args[1] & OPERATION) == WAIT_BITSET
					  ? (uint32_t)waiting->args[5]
					  : UINT32_MAX;

		if (wait->tid == c->tid || !(bits & wake->bits) || wait->begin >= call_end(w, c))
			continue;
		if (room > 0) {
			wait_set_waker(w, wait, wake->call);
			wait->flags |= is_divided(c) ? PTAH_WAIT_SEVERAL : 0;
			room--;
		} else {
			wait->requeued = true;
			requeued--;
		}
	}
}

/* The waits of one address, [first, first_wake), and its wakes, [first_wake, end). */
static void match_address(struct ptah_waits *w, struct queue *q, const struct place *first,
			  const struct place *first_wake, const struct place *end)
{
	const struct place *next = first;

	q->count = 0;
	for (const struct place *wake = first_wake; wake < end; wake++) {
		const struct system_call *c = &w->calls->calls[wake->call];

		for (; next < first_wake && w->waits[next->wait].begin < call_end(w, c); next++)
			q->waits[q->count++] = &w->waits[next->wait];
		q->looks += q->count;
		if (q->looks > MOST_LOOKS)
			return;
		clean_queue(q, c->begin);
		take_from_queue(w, q, wake);
	}
}

static void match_places(struct ptah_waits *w, struct queue *q, const struct places *p)
{
	const struct place *at = p->places, *end = at + p->count;

	while (at < end) {
		const struct place *first = at, *first_wake;

		while (at < end && same_address(at, first) && at->wait != WAITS_NONE)
			at++;
		first_wake = at;
		while (at < end && same_address(at, first))
			at++;
		match_address(w, q, first, first_wake, at);
	}
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

	if (c->data_arg || !tid || (int32_t)tid == wait->tid ||
	    table_get(&w->pids, tid) != (uint32_t)wait->pid)
		return 0;
	return (int32_t)tid;
}

int futexes_match(struct ptah_waits *w)
{
	struct places p = {0};
	struct queue q = {0};
	int status;

	for (size_t i = 0; i < w->count; i++)
		if (w->waits[i].kind == PTAH_WAIT_FUTEX)
			w->waits[i].holder = holder_of(w, &w->waits[i]);
	status = add_waits(w, &p);
	if (status >= 0)
		status = add_wakes(w, &p);
	if (status >= 0 && p.count) {
		q.waits = malloc(p.count * sizeof(*q.waits));
		status = q.waits ? 0 : PTAH_E_NOMEM;
	}
	if (q.waits) {
		qsort(p.places, p.count, sizeof(*p.places), compare_places);
		match_places(w, &q, &p);
	}
	free(q.waits);
	free(p.places);
	return status;
}
