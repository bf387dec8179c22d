/* SPDX-License-Identifier: MIT */
/* See call_log.h. */
#include "record/native/call_log.h"

#include "record/native/call_entry.h"
#include "record/native/native.h"

#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* So many bytes of calls are taken until they are written. */
#define TAKEN_MOST (4u << 20)

static uint8_t *log_of(const struct native_streams *s, unsigned slot)
{
	return (uint8_t *)streams_thread(s, slot) + NATIVE_CALLS_AT;
}

/* A list with room for one more of `size`. NULL: there is no memory. */
static void *with_room(void *list, size_t count, size_t *room, size_t more, size_t size)
{
	const size_t wanted = 2 * (count + more);
	void *bigger = list;

	if (count + more <= *room)
		return list;
	bigger = reallocarray(list, wanted, size);
	if (bigger)
		*room = wanted;
	return bigger;
}

/* Copies [from, to) of the log. False: there is no memory. */
static bool copy_log(struct recording *r, unsigned slot, uint64_t from, uint64_t to)
{
	struct native_calls *calls = &r->calls;
	const size_t n = to - from, at = from % NATIVE_CALL_BYTES;
	const size_t first = n < NATIVE_CALL_BYTES - at ? n : NATIVE_CALL_BYTES - at;
	const uint8_t *log = log_of(r->streams, slot);
	uint8_t *bytes = with_room(calls->bytes, calls->size, &calls->room, n, 1);

	if (!bytes)
		return false;
	calls->bytes = bytes;
	memcpy(bytes + calls->size, log + at, first);
	memcpy(bytes + calls->size + first, log, n - first);
	calls->size += n;
	return true;
}

/* The size of the entry; 0: it is none, or not whole in the n bytes. */
static size_t entry_size(const uint8_t *bytes, size_t n)
{
	struct native_entry e;
	size_t size;

	if (n < sizeof(e))
		return 0;
	memcpy(&e, bytes, sizeof(e));
	if ((e.kind != NATIVE_ENTRY_CALL && e.kind != NATIVE_ENTRY_RETURN) ||
	    e.data > NATIVE_ENTRY_DATA || e.argument >= NATIVE_ENTRY_WORDS)
		return 0;
	size = sizeof(e) + 8u * native_entry_words(e.kind) + ((e.data + 7u) & ~7u);
	return size <= n ? size : 0;
}

/*
 * Lists the entries from `at` on. Their times are those of the thread's trace: they neither go back
 * nor are later than now.
 */
static bool list_entries(struct recording *r, struct native_stream *stream, size_t at)
{
	struct native_calls *calls = &r->calls;
	size_t size;

	for (; at < calls->size; at += size) {
		struct taken_call *list =
		    with_room(calls->list, calls->count, &calls->list_room, 1, sizeof(*list));
		struct native_entry e;

		if (!list)
			return false;
		calls->list = list;
		size = entry_size(calls->bytes + at, calls->size - at);
		if (!size) {
			r->streams->damaged = true;
			break;
		}
		memcpy(&e, calls->bytes + at, sizeof(e));
		e.tsc = e.tsc < r->last_tsc ? e.tsc : r->last_tsc;
		if (stream->call_time < e.tsc)
			stream->call_time = e.tsc;
		if (calls->count && stream->call_time < list[calls->count - 1].tsc)
			calls->unordered = true;
		list[calls->count++] = (struct taken_call){.tsc = stream->call_time,
							   .at = at,
							   .size = size,
							   .pid = stream->pid,
							   .tid = stream->tid};
	}
	return true;
}

/* The thread may go on up to here, and one that waits for so much is woken. */
static void set_tail(const struct native_streams *s, unsigned slot, uint64_t to, bool wake)
{
	uint64_t *tail = &streams_thread(s, slot)->calls_tail;

	if (__atomic_load_n(tail, __ATOMIC_RELAXED) == to)
		return;
	__atomic_store_n(tail, to, __ATOMIC_RELEASE);
	if (wake)
		syscall(SYS_futex, tail, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Of a thread whose trace is not kept any more, nothing is. False: there is no memory. */
static bool take_log(struct recording *r, unsigned slot)
{
	struct native_streams *s = r->streams;
	struct native_stream *stream = &s->list[slot];
	const uint64_t from = stream->calls;
	const size_t at = r->calls.size;
	bool done = true;
	uint64_t to;

	if (!stream->used && !s->damaged)
		return true;
	to = __atomic_load_n(&streams_thread(s, slot)->calls_head, __ATOMIC_ACQUIRE);
	native_take_time(r); /* later than the entries that are taken */
	if (!stream->used || to - from > NATIVE_CALL_BYTES)
		s->damaged = true;
	else if (to != from && !r->kept[slot].full)
		done = copy_log(r, slot, from, to) && list_entries(r, stream, at);
	stream->calls = to;
	set_tail(s, slot, to, to - from >= NATIVE_CALL_BYTES / 4);
	return done;
}

static int compare_times(const void *a, const void *b)
{
	const struct taken_call *x = a, *y = b;

	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static void write_call(struct recording *r, const struct taken_call *taken, const uint8_t *bytes)
{
	struct perfdata_call call = {.pid = taken->pid, .tid = taken->tid, .tsc = taken->tsc};
	struct native_entry e;
	size_t words;

	memcpy(&e, bytes, sizeof(e));
	words = 8u * native_entry_words(e.kind);
	call.ip = e.ip;
	call.number = (int32_t)e.number;
	call.returned = e.kind == NATIVE_ENTRY_RETURN;
	memcpy(call.words, bytes + sizeof(e), words);
	call.argument = e.argument;
	call.data = bytes + sizeof(e) + words;
	call.data_size = e.data;
	native_wrote(r, perfdata_write_call(native_writer(r), &call));
}

/* Forgets the oldest calls, so that no more than `most` bytes are kept. */
static void forget_calls(struct native_calls *calls, size_t most)
{
	while (calls->kept_size - calls->gone > most) {
		struct taken_call oldest;

		memcpy(&oldest, calls->kept + calls->gone, sizeof(oldest));
		calls->gone += sizeof(oldest) + oldest.size;
	}
	if (calls->gone < calls->kept_size / 2)
		return;
	calls->kept_size -= calls->gone;
	memmove(calls->kept, calls->kept + calls->gone, calls->kept_size);
	calls->gone = 0;
}

/* False: there is no memory. */
static bool keep_call(struct recording *r, const struct taken_call *taken, const uint8_t *bytes)
{
	struct native_calls *calls = &r->calls;
	uint8_t *kept = with_room(calls->kept, calls->kept_size, &calls->kept_room,
				  sizeof(*taken) + taken->size, 1);

	if (!kept)
		return false;
	calls->kept = kept;
	memcpy(kept + calls->kept_size, taken, sizeof(*taken));
	memcpy(kept + calls->kept_size + sizeof(*taken), bytes, taken->size);
	calls->kept_size += sizeof(*taken) + taken->size;
	forget_calls(calls, r->buffer);
	return true;
}

void native_write_kept_calls(struct recording *r)
{
	struct native_calls *calls = &r->calls;
	struct taken_call taken;

	for (size_t at = calls->gone; at < calls->kept_size; at += sizeof(taken) + taken.size) {
		memcpy(&taken, calls->kept + at, sizeof(taken));
		write_call(r, &taken, calls->kept + at + sizeof(taken));
	}
	calls->kept_size = calls->gone = 0;
}

/* Writes, or keeps, what was taken, in the order of time. False: there is no memory. */
static bool pass_calls(struct recording *r)
{
	struct native_calls *calls = &r->calls;
	bool done = true;

	if (calls->unordered)
		qsort(calls->list, calls->count, sizeof(*calls->list), compare_times);
	for (size_t i = 0; i < calls->count && done; i++) {
		const struct taken_call *taken = &calls->list[i];

		if (r->r->config.buffer.policy == PTAH_RECORD_SNAPSHOT)
			done = keep_call(r, taken, calls->bytes + taken->at);
		else
			write_call(r, taken, calls->bytes + taken->at);
	}
	calls->size = calls->count = 0;
	calls->unordered = false;
	return done;
}

void native_take_calls(struct recording *r)
{
	bool done = true;

	if (!(r->flags & NATIVE_CALLS))
		return;
	STREAMS_EACH (r->streams, i) {
		done = done && take_log(r, i);
		/* Of thousands of threads each may have written much since the last round. */
		if (done && r->calls.size > TAKEN_MOST)
			done = pass_calls(r);
	}
	if (!done || !pass_calls(r))
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
}

void native_calls_free(struct native_calls *calls)
{
	free(calls->bytes);
	free(calls->list);
	free(calls->kept);
}
