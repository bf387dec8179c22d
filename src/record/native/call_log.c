/* SPDX-License-Identifier: MIT */
/* See call_log.h. */
#include "record/native/call_log.h"

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

/* Copies [from, to) of the log. PTAH_E_NOMEM; 1: there is something else than entries. */
static int copy_log(struct recording *r, unsigned slot, uint64_t from, uint64_t to)
{
	struct native_stream *stream = &r->streams->list[slot];
	const struct call_origin origin = {.pid = stream->pid,
					   .tid = stream->tid,
					   .last = &stream->call_time,
					   .latest = r->last_tsc};
	const size_t n = to - from, at = from % NATIVE_CALL_BYTES;
	const size_t first = n < NATIVE_CALL_BYTES - at ? n : NATIVE_CALL_BYTES - at;
	const uint8_t *log = log_of(r->streams, slot);
	uint8_t *bytes = call_samples_room(&r->calls, n);

	if (!bytes)
		return PTAH_E_NOMEM;
	memcpy(bytes, log + at, first);
	memcpy(bytes + first, log, n - first);
	return call_samples_take(&r->calls, n, &origin);
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

/* Of a thread whose trace is not kept any more, nothing is. 0 or PTAH_E_NOMEM. */
static int take_log(struct recording *r, unsigned slot)
{
	struct native_streams *s = r->streams;
	struct native_stream *stream = &s->list[slot];
	const uint64_t from = stream->calls;
	int status = 0;
	uint64_t to;

	if (!stream->used && !s->damaged)
		return 0;
	to = __atomic_load_n(&streams_thread(s, slot)->calls_head, __ATOMIC_ACQUIRE);
	native_take_time(r); /* later than the entries that are taken */
	if (!stream->used || to - from > NATIVE_CALL_BYTES)
		s->damaged = true;
	else if (to != from && !r->kept[slot].full)
		status = copy_log(r, slot, from, to);
	if (status > 0)
		s->damaged = true;
	stream->calls = to;
	set_tail(s, slot, to, to - from >= NATIVE_CALL_BYTES / 4);
	return status < 0 ? status : 0;
}

void native_take_calls(struct recording *r)
{
	int status = 0;

	if (!(r->flags & NATIVE_CALLS))
		return;
	STREAMS_EACH (r->streams, i) {
		if (status >= 0)
			status = take_log(r, i);
		/* Of thousands of threads each may have written much since the last round. */
		if (status >= 0 && r->calls.size > TAKEN_MOST)
			status = call_samples_pass(&r->calls, r->r, r->buffer);
	}
	if (status >= 0)
		status = call_samples_pass(&r->calls, r->r, r->buffer);
	if (status < 0)
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
}
