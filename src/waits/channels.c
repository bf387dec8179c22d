/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits for bytes: the call that wrote the first byte that was read. The bytes of each
 * pipe and each direction of a connection are counted. An eventfd adds up what is written, so that
 * the first write during the wait ends it; and so does the first one to what a poll waits for. A write
 * waits where a pipe has no room, and ends with the last read before its end.
 */
#include "base/order.h"
#include "support/list.h"
#include "waits/waits.h"

#include <stdlib.h>

#define MSG_PEEK 2

/* Bytes of a pipe whose size nobody has set. */
#define PIPE_ROOM 65536

/* A call that writes to or reads from an object. */
struct transfer {
	uint32_t object; /* from which it is read */
	uint32_t call;
	uint32_t wait; /* of the call, if it may have waited; WAITS_NONE: none */
	bool is_read;
};

struct transfers {
	struct transfer *transfers;
	size_t count, capacity;
};

static bool is_read(int64_t number)
{
	return number == NR_READ || number == NR_READV || number == NR_RECVFROM ||
	       number == NR_RECVMSG;
}

/* It leaves the bytes where they are. */
static bool peeks(const struct system_call *c)
{
	return (c->number == NR_RECVFROM && c->args[3] & MSG_PEEK) ||
	       (c->number == NR_RECVMSG && c->args[2] & MSG_PEEK);
}

static int add_transfer(struct transfers *t, const struct transfer *transfer)
{
	if (!LIST_ROOM(t->transfers, t->count, t->capacity))
		return PTAH_E_NOMEM;
	t->transfers[t->count++] = *transfer;
	return 0;
}

/* From this call on it is not known how many bytes went through the object. */
static void stop_counting(struct ptah_syscalls *s, uint32_t object, const struct system_call *c)
{
	if (object && !s->objects[object].uncounted)
		s->objects[object].uncounted = c->begin;
}

/* Calls whose results are not the bytes of one object, or were lost. */
static void note_uncounted(struct ptah_syscalls *s, const struct system_call *c)
{
	const uint32_t peer = s->objects[c->object].peer;

	if (c->flags & PTAH_SYSCALL_RETURNED && c->result <= 0)
		return;
	switch (c->number) {
	case NR_SPLICE:
	case NR_TEE:
		stop_counting(s, s->objects[c->second].peer, c);
		stop_counting(s, c->number == NR_SPLICE ? c->object : 0, c);
		break;
	case NR_VMSPLICE:
	case NR_RECVMMSG:
	case NR_PREADV2:
		stop_counting(s, c->object, c);
		break;
	case NR_SENDMMSG:
	case NR_PWRITEV2:
		stop_counting(s, peer, c);
		break;
	default:
		if (call_is_cut(c) && is_read(c->number))
			stop_counting(s, c->object, c);
		if (call_is_cut(c) && call_writes(c->number))
			stop_counting(s, peer, c);
	}
}

static int list_transfers(const struct ptah_waits *w, struct transfers *t)
{
	const struct object *objects = w->calls->objects;
	size_t wait = 0;
	int status = 0;

	for (size_t i = 0; i < w->calls->count && status >= 0; i++) {
		const struct system_call *c = &w->calls->calls[i];
		struct transfer transfer = {.object = c->object,
					    .call = (uint32_t)i,
					    .wait = WAITS_NONE,
					    .is_read = is_read(c->number)};

		/* Both are in the order of the calls. */
		while (wait < w->count && w->waits[wait].call < i)
			wait++;
		if (wait < w->count && w->waits[wait].call == i)
			transfer.wait = (uint32_t)wait;
		note_uncounted(w->calls, c);
		if (!c->object || !(c->flags & PTAH_SYSCALL_RETURNED) || c->result <= 0 ||
		    (!transfer.is_read && !call_writes(c->number)))
			continue;
		if (!transfer.is_read)
			transfer.object = objects[c->object].peer;
		if (transfer.object)
			status = add_transfer(t, &transfer);
	}
	return status;
}

/* A connection is for who waits at the listening socket what a write is for a reader. */
static int list_connections(const struct ptah_waits *w, struct transfers *t)
{
	const struct ptah_syscalls *s = w->calls;
	int status = 0;

	for (size_t i = 0; i < s->object_count && status >= 0; i++) {
		const struct object *o = &s->objects[i];
		const uint32_t other = o->peer ? s->objects[o->peer].call : 0;
		const struct system_call *accepted = o->call ? &s->calls[o->call - 1] : NULL;
		const struct transfer transfer = {.object = accepted ? accepted->object : 0,
						  .call = other - 1,
						  .wait = WAITS_NONE};

		if (other && transfer.object && accepted->number != NR_CONNECT)
			status = add_transfer(t, &transfer);
	}
	return status;
}

/* By object, writes before reads; writes by their beginning, reads by their end. */
static int compare_transfers(const void *a, const void *b, void *context)
{
	const struct ptah_waits *w = context;
	const struct transfer *x = a, *y = b;
	const uint64_t s = w->calls->calls[x->call].end, t = w->calls->calls[y->call].end;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	if (x->is_read != y->is_read)
		return x->is_read ? 1 : -1;
	if (x->is_read && s != t)
		return s < t ? -1 : 1;
	return COMPARE(x->call, y->call);
}

/*
 * A read that began before its first byte was written has waited for it. If the write had begun
 * before, the byte may have been there already: then only the time says whether it waited.
 */
static void end_read(struct ptah_waits *w, const struct transfer *read,
		     const struct transfer *write)
{
	struct wait *wait = read->wait == WAITS_NONE ? NULL : &w->waits[read->wait];
	const struct system_call *c = &w->calls->calls[write->call];

	/* One that began later has not written what was read: the count is wrong, or bytes lost. */
	if (!wait || c->begin >= wait->end)
		return;
	if (c->end <= wait->begin ||
	    (c->begin <= wait->begin && wait->end - wait->begin < PTAH_WAITS_SHORT))
		wait->is_none = true;
	else
		wait_set_waker(w, wait, write->call);
}

/*
 * Where reads overlap, it is not known which one came first to its bytes, or whether one has woken
 * another: of several threads that write, any may have ended the wait.
 */
static void mark_overlapping(struct ptah_waits *w, const struct transfer *first,
			     const struct transfer *reads, const struct transfer *end)
{
	const struct system_call *calls = w->calls->calls;
	uint64_t begins = UINT64_MAX; /* the first of the later reads */
	bool several = false;

	for (const struct transfer *write = first; write < reads && !several; write++)
		several = calls[write->call].tid != calls[first->call].tid;
	for (const struct transfer *read = end; several && read-- > reads;) {
		const struct system_call *c = &calls[read->call];
		struct wait *wait = read->wait == WAITS_NONE ? NULL : &w->waits[read->wait];

		if (wait && wait->has_waker &&
		    (begins < c->end || (read > reads && calls[read[-1].call].end > c->begin)))
			wait->flags |= PTAH_WAIT_SEVERAL;
		begins = c->begin < begins ? c->begin : begins;
	}
}

/* The writes of one object, [first, reads), and its reads, [reads, end). */
static void match_bytes(struct ptah_waits *w, const struct transfer *first,
			const struct transfer *reads, const struct transfer *end)
{
	const struct transfer *write = first;
	uint64_t read_bytes = 0;    /* before the present read */
	uint64_t written_bytes = 0; /* before the present write */
	uint64_t written_until = 0; /* the last end of the writes before it */
	const struct system_call *calls = w->calls->calls;
	const struct object *object = &w->calls->objects[first->object];
	const uint64_t known_until = object->uncounted ? object->uncounted : UINT64_MAX;

	for (const struct transfer *read = reads; read < end; read++) {
		const struct system_call *c = &calls[read->call];

		if (c->end > known_until)
			break;
		while (write < reads &&
		       written_bytes + (uint64_t)calls[write->call].result <= read_bytes) {
			if (written_until < calls[write->call].end)
				written_until = calls[write->call].end;
			written_bytes += (uint64_t)calls[write++->call].result;
		}
		if (write < reads)
			end_read(w, read, write);
		/* Of writes that overlap, it is not known which one came first. */
		if (write < reads && read->wait != WAITS_NONE && w->waits[read->wait].has_waker &&
		    (written_until > calls[write->call].begin ||
		     (write + 1 < reads && calls[write[1].call].begin < calls[write->call].end)))
			w->waits[read->wait].flags |= PTAH_WAIT_SEVERAL;
		if (!peeks(c))
			read_bytes += (uint64_t)c->result;
	}
	mark_overlapping(w, first, reads, end);
}

/* So many reads are looked at before and behind a moment of a write. */
#define MOST_READS 256

/* The bytes that were certainly in a pipe when a write began. */
struct content {
	const struct transfer *write, *read; /* the next ones to be counted */
	uint64_t written, was_read;
};

static bool was_full(const struct ptah_waits *w, struct content *content,
		     const struct transfer *reads, const struct transfer *end,
		     const struct system_call *c)
{
	const struct system_call *calls = w->calls->calls;
	const struct object *pipe = &w->calls->objects[c->object];
	const bool is_set = pipe->room && pipe->room_since < c->end;
	uint64_t was_read, inside;

	for (; content->write < reads && calls[content->write->call].end <= c->begin;
	     content->write++)
		content->written += (uint64_t)calls[content->write->call].result;
	for (; content->read < end && calls[content->read->call].end <= c->begin; content->read++)
		if (!peeks(&calls[content->read->call]))
			content->was_read += (uint64_t)calls[content->read->call].result;
	/* It is not known when those that go on take their bytes. */
	was_read = content->was_read;
	for (const struct transfer *r = content->read;
	     r < end && r < content->read + MOST_READS && calls[r->call].begin < c->begin; r++)
		was_read += (uint64_t)calls[r->call].result;
	inside = content->written > was_read ? content->written - was_read : 0;
	/* How much a socket holds is not known; but it has room when nothing is in it. */
	if (pipe->kind != PTAH_DESCRIPTOR_PIPE)
		return inside;
	return inside + (uint64_t)c->result > (is_set ? pipe->room : PIPE_ROOM);
}

/* The first of some reads that was not over at a time. */
static const struct transfer *first_after(const struct ptah_waits *w, const struct transfer *low,
					  const struct transfer *high, uint64_t time)
{
	while (low < high) {
		const struct transfer *middle = low + (high - low) / 2;

		if (w->calls->calls[middle->call].end <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * The last read that began before a write's end, and was not over at its beginning. Reads are sorted by
 * their ends: those that were not over at the write's end, of a few threads, and those before them.
 */
static void find_room(struct ptah_waits *w, const struct transfer *reads,
		      const struct transfer *end, struct wait *wait)
{
	const struct system_call *calls = w->calls->calls;
	const struct transfer *first = first_after(w, reads, end, wait->begin);
	const struct transfer *middle = first_after(w, first, end, wait->end);
	const struct transfer *found = NULL;
	bool several = false;

	first = middle - first > MOST_READS ? middle - MOST_READS : first;
	end = end - middle > MOST_READS ? middle + MOST_READS : end;
	for (const struct transfer *r = first; r < end; r++) {
		const struct system_call *c = &calls[r->call];

		if (c->begin >= wait->end || c->tid == wait->tid)
			continue;
		several = several || (found && calls[found->call].tid != c->tid);
		found = !found || r->call > found->call ? r : found;
	}
	if (!found)
		return;
	wait_set_waker(w, wait, found->call);
	if (several)
		wait->flags |= PTAH_WAIT_SEVERAL;
}

/*
 * Whether another thread wrote to the same object meanwhile. The one that gets the room first may let
 * the next one go on. Writes are sorted by their ends; a few on both sides are looked at.
 */
static bool writes_others(const struct ptah_waits *w, const struct transfer *first,
			  const struct transfer *end, const struct transfer *write)
{
	const struct system_call *calls = w->calls->calls, *c = &calls[write->call];
	const struct transfer *from = write - first > MOST_READS ? write - MOST_READS : first;
	const struct transfer *to = end - write > MOST_READS ? write + MOST_READS : end;

	for (const struct transfer *t = from; t < to; t++)
		if (calls[t->call].tid != c->tid && calls[t->call].begin < c->end &&
		    calls[t->call].end > c->begin)
			return true;
	return false;
}

/* The writes of an object, [first, reads), that waited for room, and its reads, [reads, end). */
static void match_room(struct ptah_waits *w, const struct transfer *first,
		       const struct transfer *reads, const struct transfer *end)
{
	struct content content = {.write = first, .read = reads};
	const uint64_t uncounted = w->calls->objects[first->object].uncounted;

	for (const struct transfer *write = first; write < reads; write++) {
		const struct system_call *c = &w->calls->calls[write->call];
		struct wait *wait = write->wait == WAITS_NONE ? NULL : &w->waits[write->wait];

		if (!wait || (uncounted && c->end > uncounted))
			continue;
		/* Where there is room, a thread also sleeps when another one is in the same pipe. */
		if (!was_full(w, &content, reads, end, c))
			continue;
		/* Of other objects it is not known how much they hold: only switches show it. */
		if (wait->kind == PTAH_WAIT_PIPE)
			wait->is_none = false;
		find_room(w, reads, end, wait);
		if (wait->has_waker && writes_others(w, first, reads, write))
			wait->flags |= PTAH_WAIT_SEVERAL;
		wait->is_sure = !wait->is_none;
	}
}

/* The first write that was not over when the wait began, if it began before the wait's end. */
static const struct transfer *first_during(const struct ptah_waits *w, const struct transfer *first,
					   const struct transfer *end, const struct wait *wait,
					   bool *several)
{
	const struct transfer *low = first, *high = end;

	/* Writes are sorted by their beginnings; those of some calls before may last until then. */
	while (low < high) {
		const struct transfer *middle = low + (high - low) / 2;

		if (w->calls->calls[middle->call].begin < wait->begin)
			low = middle + 1;
		else
			high = middle;
	}
	for (unsigned back = 0; back < 16 && low > first; back++) {
		if (w->calls->calls[low[-1].call].end <= wait->begin)
			break;
		low--;
	}
	if (low == end || w->calls->calls[low->call].begin >= wait->end ||
	    w->calls->calls[low->call].end <= wait->begin)
		return NULL;
	*several = low + 1 < end && w->calls->calls[low[1].call].begin < wait->end &&
		   w->calls->calls[low[1].call].tid != w->calls->calls[low->call].tid;
	return low;
}

/*
 * Whether an eventfd was not 0 when a read began: somebody has written since the read before, and no
 * other read goes on.
 */
static bool was_set(const struct ptah_waits *w, const struct transfer *first,
		    const struct transfer *reads, const struct transfer *read,
		    const struct transfer *end)
{
	const struct system_call *calls = w->calls->calls, *c = &calls[read->call];
	const uint64_t since = read > reads ? calls[read[-1].call].end : 0;
	const struct transfer *low = first, *high = reads;

	if (read + 1 < end && calls[read[1].call].begin < c->begin)
		return false;
	while (low < high) { /* the first write that began later */
		const struct transfer *middle = low + (high - low) / 2;

		if (calls[middle->call].begin < c->begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low > first && calls[low[-1].call].begin >= since &&
	       calls[low[-1].call].end <= c->begin;
}

/*
 * Another thread has read the eventfd during this wait: it has taken what was written first, perhaps,
 * so that any write during the wait may have ended it.
 */
static bool is_shared_read(const struct ptah_waits *w, const struct transfer *write,
			   const struct transfer *reads, const struct transfer *read)
{
	const struct system_call *calls = w->calls->calls, *c = &calls[read->call];
	const struct system_call *before = read > reads ? &calls[read[-1].call] : NULL;

	if (!before || before->end <= c->begin || before->tid == c->tid)
		return false;
	for (const struct transfer *t = write;
	     t < reads && t < write + MOST_READS && calls[t->call].begin < c->end; t++)
		if (calls[t->call].tid != calls[write->call].tid)
			return true;
	return false;
}

static void match_event(struct ptah_waits *w, const struct transfer *first,
			const struct transfer *reads, const struct transfer *end)
{
	for (const struct transfer *read = reads; read < end; read++) {
		struct wait *wait = read->wait == WAITS_NONE ? NULL : &w->waits[read->wait];
		bool several = false;
		const struct transfer *write =
		    wait ? first_during(w, first, reads, wait, &several) : NULL;

		if (wait && was_set(w, first, reads, read, end)) {
			wait->is_none = true;
			continue;
		}
		if (write)
			wait_set_waker(w, wait, write->call);
		if (write && (several || is_shared_read(w, write, reads, read)))
			wait->flags |= PTAH_WAIT_SEVERAL;
	}
}

static void match_transfers(struct ptah_waits *w, const struct transfers *t)
{
	const struct transfer *at = t->transfers, *end = at + t->count;

	while (at < end) {
		const struct transfer *first = at, *reads;

		while (at < end && at->object == first->object && !at->is_read)
			at++;
		reads = at;
		while (at < end && at->object == first->object)
			at++;
		if (w->calls->objects[first->object].kind == PTAH_DESCRIPTOR_EVENTFD)
			match_event(w, first, reads, at);
		else
			match_bytes(w, first, reads, at);
		match_room(w, first, reads, at);
	}
}

/* The first transfer of an object, or its first read. */
static const struct transfer *find_first(const struct transfers *t, uint32_t object, bool is_read)
{
	size_t at;

	BISECT(at, 0, t->count,
	       t->transfers[at].object < object ||
		   (t->transfers[at].object == object && t->transfers[at].is_read < is_read));
	return t->count ? t->transfers + at : NULL;
}

/* So many objects are looked at in all: a program may watch thousands, and wait a million times. */
#define MOST_LOOKS (UINT32_C(1) << 26)

struct found {
	const struct transfer *transfer; /* NULL: none yet */
	uint32_t member;
	bool several;
};

/* What is written to an object during the wait, or read by its other side, may have ended it. */
static void look_at_object(struct ptah_waits *w, const struct transfers *t, const struct wait *wait,
			   uint32_t m, bool for_writing, struct found *found)
{
	const struct ptah_syscalls *s = w->calls;
	const uint32_t own = s->members[m].object;
	const uint32_t object = for_writing ? s->objects[own].peer : own;
	const struct transfer *first = find_first(t, object, for_writing);
	const struct transfer *end =
	    for_writing ? find_first(t, object + 1, false) : find_first(t, object, true);
	const struct transfer *during;
	bool more = false;

	during = object && first < end ? first_during(w, first, end, wait, &more) : NULL;
	if (!during)
		return;
	found->several = found->several || more || found->transfer;
	if (!found->transfer || during->call < found->transfer->call) {
		found->transfer = during;
		found->member = m;
	}
}

/* Without its result a wait of epoll ends with the first write to one of its objects. */
static void look_at_all(struct ptah_waits *w, const struct transfers *t, const struct wait *wait,
			uint32_t *looks, struct found *found)
{
	const struct ptah_syscalls *s = w->calls;
	const uint32_t epoll = wait_call(w, wait)->object;

	for (uint32_t m = s->objects[epoll].members; m && *looks < MOST_LOOKS;
	     m = s->members[m].next, (*looks)++)
		if (s->members[m].since < wait->end && s->members[m].until > wait->begin)
			look_at_object(w, t, wait, m, false, found);
}

/* Those that were ready at its end: the first write to one of them has ended the wait. */
static void look_at_ready(struct ptah_waits *w, const struct transfers *t, const struct wait *wait,
			  struct found *found)
{
	const struct member *members = w->calls->members;
	const uint32_t first = wait_call(w, wait)->ready;

	for (uint32_t m = first; m; m = members[m].next)
		look_at_object(w, t, wait, m, !(members[m].data & ~(uint64_t)READY_OUT), found);
	/* One alone was it, whoever made it ready. */
	if (!found->member && !members[first].next)
		found->member = first;
}

static void match_poll(struct ptah_waits *w, const struct transfers *t, struct wait *wait,
		       uint32_t *looks)
{
	const struct system_call *c = wait_call(w, wait);
	struct found found = {0};

	if (c->ready)
		look_at_ready(w, t, wait, &found);
	else if (c->object)
		look_at_all(w, t, wait, looks, &found);
	wait->ready = c->ready || found.transfer ? found.member : 0;
	if (!found.transfer)
		return;
	wait_set_waker(w, wait, found.transfer->call);
	if (found.several)
		wait->flags |= PTAH_WAIT_SEVERAL;
}

/*
 * Of threads that wait at one epoll the kernel wakes one, which wakes the next if something is left:
 * who wrote what one of them has found, or whether anything was left for it, is not known.
 */
static int mark_shared(struct ptah_waits *w)
{
	/* Of each object the wait that ends last of those that began so far, plus 1. */
	uint32_t *last = calloc(w->calls->object_count, sizeof(*last));

	if (!last)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < w->count; i++) {
		struct wait *wait = &w->waits[i];
		const uint32_t object = wait_call(w, wait)->object;
		struct wait *before = last[object] ? &w->waits[last[object] - 1] : NULL;

		if (!object || w->calls->objects[object].kind != PTAH_DESCRIPTOR_EPOLL)
			continue;
		if (before && before->tid != wait->tid && before->end > wait->begin) {
			before->flags |= before->has_waker ? PTAH_WAIT_SEVERAL : 0;
			wait->flags |= wait->has_waker ? PTAH_WAIT_SEVERAL : 0;
		}
		if (!before || before->end < wait->end)
			last[object] = (uint32_t)i + 1;
	}
	free(last);
	return 0;
}

/* A wait for a connection ends with the call that connects. */
static void match_accepts(struct ptah_waits *w)
{
	const struct ptah_syscalls *s = w->calls;

	for (size_t i = 0; i < s->object_count; i++) {
		const struct object *o = &s->objects[i];
		const uint32_t other = o->peer ? s->objects[o->peer].call : 0;
		struct wait *wait = o->call && other ? wait_in(w, w->count, o->call - 1) : NULL;

		if (!wait || s->calls[o->call - 1].number == NR_CONNECT)
			continue;
		if (s->calls[other - 1].begin < wait->begin)
			wait->is_none = true;
		else
			wait_set_waker(w, wait, other - 1);
	}
}

int channels_match(struct ptah_waits *w)
{
	struct transfers t = {0};
	uint32_t looks = 0;
	int status = list_transfers(w, &t);

	if (status >= 0)
		status = list_connections(w, &t);
	if (status >= 0 && t.count) {
		qsort_r(t.transfers, t.count, sizeof(*t.transfers), compare_transfers, w);
		match_transfers(w, &t);
	}
	for (size_t i = 0; i < w->count && status >= 0; i++)
		if (w->waits[i].kind == PTAH_WAIT_POLL && w->waits[i].how == PTAH_WAIT_END_UNKNOWN)
			match_poll(w, &t, &w->waits[i], &looks);
	free(t.transfers);
	match_accepts(w);
	return status < 0 ? status : mark_shared(w);
}
