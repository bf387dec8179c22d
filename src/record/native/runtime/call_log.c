/* SPDX-License-Identifier: MIT */
/*
 * Logs the system calls of a thread, with what some of their arguments point to: call_entry.h. A
 * call is in the log before it is made, so that the recorder sees it in the order of time, however
 * long it takes, and whatever becomes of the thread in it.
 */
#include "record/call_data.h"
#include "record/call_entry.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"
#include "record/native/runtime/syscalls.h"

#include <linux/futex.h>
#include <linux/time_types.h>

#define WAIT_NS 100000000 /* how long one wait for the recorder takes, as in ring.c */

/* The place in the ring, and how many bytes lie behind it without a break. */
static uint8_t *place(const struct context *c, uint64_t position, uint64_t *room)
{
	const uint64_t at = position % NATIVE_CALL_BYTES;

	*room = NATIVE_CALL_BYTES - at;
	return (uint8_t *)c->slot + NATIVE_CALLS_AT + at;
}

/* Whole words, which no break divides. */
static uint64_t put_words(const struct context *c, uint64_t position, const void *words, unsigned n)
{
	uint64_t room;

	for (unsigned i = 0; i < n; i++, position += 8)
		__builtin_memcpy(place(c, position, &room), (const uint8_t *)words + 8 * i, 8);
	return position;
}

/* Where the copy of an entry begins. */
struct copy {
	const struct context *context;
	uint64_t position;
};

static bool call_data_read(void *context, void *to, uint64_t from, uint64_t n)
{
	(void)context;
	return signals_copy(to, (const void *)from, n);
}

static void call_data_put(void *context, uint64_t at, const void *bytes, uint64_t n)
{
	const struct copy *copy = context;
	uint64_t room;
	uint8_t *to = place(copy->context, copy->position + at, &room);
	const uint64_t first = n < room ? n : room;

	__builtin_memcpy(to, bytes, first);
	__builtin_memcpy(place(copy->context, copy->position + at + first, &room),
			 (const uint8_t *)bytes + first, n - first);
}

/* Whether the log is still this thread's: a recorder that was deceived may have freed the slot. */
static bool has_log(const struct context *c)
{
	return __atomic_load_n(&c->slot->calls_head, __ATOMIC_RELAXED) == c->calls_head;
}

/* Waits for room for an entry. False: there is none, because nobody reads. */
static bool wait_for_room(const struct context *c)
{
	const struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};
	uint64_t *tail = &c->slot->calls_tail, taken;

	while (c->calls_head + CALL_ENTRY_MAX - (taken = __atomic_load_n(tail, __ATOMIC_ACQUIRE)) >
	       NATIVE_CALL_BYTES) {
		if (!has_log(c) || !recorder_is_alive(c))
			return false;
		sys_call(__NR_futex, (uint64_t)tail, FUTEX_WAIT, (uint32_t)taken, (uint64_t)&wait,
			 0, 0);
	}
	return has_log(c);
}

/* The entry's words and data are in the ring. */
static void publish_entry(struct context *c, struct call_entry *e, uint64_t data)
{
	const uint64_t half = NATIVE_CALL_BYTES / 2, before = c->calls_head;
	const unsigned words = call_entry_words(e->kind);

	e->tsc = c->stamp ? c->stamp : __builtin_ia32_rdtsc();
	e->data = (uint16_t)data;
	put_words(c, before, e, sizeof(*e) / 8);
	c->calls_head += sizeof(*e) + 8 * words + ((data + 7) & ~UINT64_C(7));
	__atomic_store_n(&c->slot->calls_head, c->calls_head, __ATOMIC_RELEASE);
	if (before / half != c->calls_head / half)
		ring_wake_recorder(c);
}

static bool is_logged(const struct context *c)
{
	return c->runtime->flags & NATIVE_CALLS && !c->discards && !c->paused;
}

void call_log_call(struct context *c, const struct call *call)
{
	struct call_entry e = {
	    .ip = call->next, .number = (uint32_t)call->words[0], .kind = CALL_ENTRY_CALL};
	struct copy copy = {.context = c};

	c->call_logged = is_logged(c) && wait_for_room(c);
	if (!c->call_logged)
		return;
	copy.position = put_words(c, c->calls_head + sizeof(e), call->words + 1, CALL_ENTRY_WORDS);
	publish_entry(c, &e, call_data_before(&copy, call->words[0], call->words + 1, &e.argument));
}

void call_log_return(struct context *c, const struct call *call, int64_t result)
{
	struct call_entry e = {
	    .ip = call->next, .number = (uint32_t)call->words[0], .kind = CALL_ENTRY_RETURN};
	struct copy copy = {.context = c};

	if (!c->call_logged || !is_logged(c) || !wait_for_room(c))
		return;
	c->call_logged = false;
	copy.position = put_words(c, c->calls_head + sizeof(e), &result, 1);
	publish_entry(c, &e,
		      sys_is_error(result) ? 0
					   : call_data_after(&copy, call->words[0], call->words + 1,
							     result, &e.argument));
}

void call_log_begin(struct context *c, uint64_t number, uint64_t ip)
{
	const struct call call = {.words = {number}, .next = ip};

	c->call_logged = true;
	call_log_return(c, &call, 0);
}
