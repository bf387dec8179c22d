/* SPDX-License-Identifier: MIT */
/*
 * The logs of a thread: chunks of shared memory that are written in turn, with a guard page behind
 * each. The recorder empties the chunks that are FULL, fills them with zeros and gives them back.
 * Where it is slower than the program, the program waits: nothing is ever lost.
 */
#include "record/native/runtime/memory.h"
#include "record/native/runtime/runtime.h"

#include "record/native/runtime/sys.h"

#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/time_types.h>

#define SLOTS_MAX NATIVE_LIMIT(6000u, 1000u) /* of a process, where each takes mappings */

#define WAIT_NS 100000000 /* how long one wait takes, before it is looked whether to wait on */

static unsigned logs_of(const struct context *c)
{
	return c->runtime->flags & NATIVE_TRUTH ? NATIVE_LOGS : NATIVE_LOG_EXITS;
}

/* That the thread uses in turn; without a slot, one. */
static uint32_t chunks_of(const struct context *c)
{
	return c->discards ? 1 : native_slot_chunks(slot_number(c), c->runtime->chunks);
}

static struct native_chunk *chunk_of(const struct context *c, unsigned log, uint64_t number)
{
	return &c->slot->chunks[log][number % chunks_of(c)];
}

void ring_wake_recorder(const struct context *c)
{
	uint32_t *event = &c->runtime->shared->message_event;

	__atomic_fetch_add(event, 1, __ATOMIC_RELEASE);
	sys_call(__NR_futex, (uint64_t)event, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

/* Waits until the chunk can be written. If nobody reads, it is overwritten. */
static void wait_for_chunk(const struct context *c, struct native_chunk *chunk)
{
	const struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};

	while (__atomic_load_n(&chunk->state, __ATOMIC_ACQUIRE) == CHUNK_FULL &&
	       recorder_is_alive(c))
		sys_call(__NR_futex, (uint64_t)&chunk->state, FUTEX_WAIT, CHUNK_FULL,
			 (uint64_t)&wait, 0, 0);
}

/*
 * A chunk gets its guard page when it is used first: most threads end in their first chunk, and
 * each guard page may be two mappings more, which fork() has to copy. False: the process has no
 * more mappings.
 */
static bool guard_chunk(struct context *c, unsigned log, uint32_t index)
{
	const uint64_t page =
	    (uint64_t)c->slot + native_chunk_at(log, index) + c->runtime->chunk_bytes;

	if (index < c->guarded[log])
		return true;
	if (!memory_guard(c->runtime, page))
		return false;
	/* Behind a gap it is guarded again in each lap: nothing changes. */
	if (index == c->guarded[log])
		c->guarded[log]++;
	return true;
}

/* The next chunk that has a guard page. Those that get none are passed over: the first has one. */
static uint64_t next_guarded(struct context *c, unsigned log, uint64_t number)
{
	while (!guard_chunk(c, log, (uint32_t)(number % chunks_of(c)))) {
		struct native_chunk *chunk = chunk_of(c, log, number);

		wait_for_chunk(c, chunk);
		__atomic_store_n(&c->slot->current[log], number++, __ATOMIC_RELEASE);
		chunk->length = NATIVE_PASSED_OVER;
		__atomic_store_n(&chunk->state, CHUNK_FULL, __ATOMIC_RELEASE);
	}
	return number;
}

/* Makes chunk `number` the one that is written. */
static uint8_t *begin_chunk(struct context *c, unsigned log, uint64_t number)
{
	uint8_t *bytes;

	number = c->discards ? 0 : next_guarded(c, log, number);
	if (!c->discards && !c->paused)
		wait_for_chunk(c, chunk_of(c, log, number));
	bytes = (uint8_t *)c->slot + native_chunk_at(log, number % chunks_of(c));
	c->logs[log].chunk = bytes;
	c->logs[log].number = number;
	__atomic_store_n(&c->slot->current[log], number, __ATOMIC_RELEASE);
	return bytes;
}

static void publish(struct context *c, unsigned log, const uint8_t *end)
{
	const struct log_position *at = &c->logs[log];
	struct native_chunk *chunk = chunk_of(c, log, at->number);

	chunk->length = (uint32_t)(end - at->chunk);
	__atomic_store_n(&chunk->state, CHUNK_FULL, __ATOMIC_RELEASE);
}

bool ring_guard(struct context *c)
{
	const unsigned slot = c->discards ? 0 : slot_number(c);
	struct runtime *rt = c->runtime;
	const uint8_t bit = (uint8_t)(1u << slot % 8);
	const bool first =
	    !c->discards && !(__atomic_load_n(&rt->guarded[slot / 8], __ATOMIC_RELAXED) & bit);

	/* The program needs mappings, too: threads in more slots are not recorded. */
	if (first && rt->guards_are_mappings &&
	    __atomic_fetch_add(&rt->slots, 1, __ATOMIC_RELAXED) >= SLOTS_MAX)
		return false;
	for (unsigned log = 0; log < logs_of(c); log++) {
		c->guarded[log] = 0;
		if (!guard_chunk(c, log, 0))
			return false;
	}
	if (!c->discards)
		__atomic_fetch_or(&rt->guarded[slot / 8], bit, __ATOMIC_RELAXED);
	return true;
}

/* Where the logs begin that are written next. */
static void set_pointers(struct context *c)
{
	c->log = (uint64_t)c->logs[NATIVE_LOG_TRACE].chunk;
	c->exits_log = (uint64_t)c->logs[NATIVE_LOG_EXITS].chunk;
}

static void set_paused(struct context *c, bool paused)
{
	c->paused = paused;
	__atomic_store_n(&c->slot->paused, paused, __ATOMIC_RELEASE);
}

void ring_begin(struct context *c)
{
	c->calls_head = 0;
	c->call_logged = false;
	set_paused(c,
		   !c->discards && __atomic_load_n(&c->runtime->shared->paused, __ATOMIC_SEQ_CST));
	for (unsigned log = 0; log < logs_of(c); log++)
		begin_chunk(c, log, 0);
	set_pointers(c);
}

uint8_t *ring_next(struct context *c, unsigned log, const uint8_t *end)
{
	if (c->discards || c->paused)
		return begin_chunk(c, log, c->logs[log].number);
	publish(c, log, end);
	ring_wake_recorder(c);
	return begin_chunk(c, log, c->logs[log].number + 1);
}

bool ring_is_guard(const struct context *c, unsigned log, uint64_t address)
{
	return c->logs[log].chunk &&
	       address - ((uint64_t)c->logs[log].chunk + c->runtime->chunk_bytes) < NATIVE_PAGE;
}

/* True: something was written in the chunk. */
static bool publish_written(struct context *c, unsigned log)
{
	const uint64_t trace = c->poisoned ? c->real_log : c->log;
	const uint64_t end = log == NATIVE_LOG_TRACE ? trace : c->exits_log;

	if (end == (uint64_t)c->logs[log].chunk)
		return false;
	publish(c, log, (const uint8_t *)end);
	return true;
}

/* Of what is written while nobody reads it, nothing must be taken later. */
void ring_settle(struct context *c)
{
	const struct log_position *at = &c->logs[NATIVE_LOG_TRACE];

	if (!c->discards && !c->paused)
		__atomic_store_n(&c->slot->settled,
				 at->number * NATIVE_CHUNK + (c->log - (uint64_t)at->chunk),
				 __ATOMIC_RELEASE);
}

void ring_pause(struct context *c)
{
	for (unsigned log = 0; log < logs_of(c); log++)
		if (publish_written(c, log))
			begin_chunk(c, log, c->logs[log].number + 1);
	set_pointers(c);
	set_paused(c, true);
	ring_wake_recorder(c);
}

/* The recorder takes zeros at the end of a chunk for what was not written: see layout.h. */
void ring_resume(struct context *c)
{
	for (unsigned log = 0; log < logs_of(c); log++)
		__builtin_memset(c->logs[log].chunk, 0, c->runtime->chunk_bytes);
	set_pointers(c);
	set_paused(c, false);
	ring_wake_recorder(c);
}

/* Everything is published, so that nothing depends on how the thread ends. */
uint8_t *ring_stop(struct context *c, uint8_t *end)
{
	if (c->discards || c->paused || !c->unread)
		return end;
	c->log = (uint64_t)end;
	for (unsigned log = 0; log < logs_of(c); log++)
		if (publish_written(c, log))
			begin_chunk(c, log, c->logs[log].number + 1);
	__atomic_store_n(&c->slot->paused, NATIVE_STOPPED, __ATOMIC_RELEASE);
	ring_wake_recorder(c);
	c->stopped = c->slot;
	c->slot = c->unread;
	c->discards = true;
	ring_guard(c);
	ring_begin(c);
	return (uint8_t *)c->log;
}

void ring_end(struct context *c)
{
	struct native_thread *slot = c->stopped ? c->stopped : c->slot;

	if (c->discards && !c->stopped)
		return;
	for (unsigned log = 0; log < logs_of(c) && !c->discards && !c->paused; log++)
		publish_written(c, log);
	__atomic_store_n(&slot->state, NATIVE_SLOT_ENDED, __ATOMIC_RELEASE);
	ring_wake_recorder(c);
}
