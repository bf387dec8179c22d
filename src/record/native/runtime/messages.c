/* SPDX-License-Identifier: MIT */
/*
 * Messages to the recorder: one ring of bytes for all threads of all recorded processes. A sender
 * holds the lock only while it copies, never while it waits, so that a holder that lives has it for
 * microseconds; one that was killed has it forever, and after a second it is taken away from it.
 * What it had written is not published, and is overwritten.
 */
#include "record/native/runtime/runtime.h"

#include "record/native/runtime/sys.h"

#include <asm/errno.h>
#include <linux/futex.h>
#include <linux/time_types.h>

#define WAIT_NS	      10000000 /* how long one wait takes, before it is looked whether to wait on */
#define LOCK_PATIENCE 100      /* such waits until the holder of the lock is held to be dead */

enum lock_state {
	LOCK_FREE = 0,
	LOCK_TAKEN,
	LOCK_WAITED
};

/* Between processes, so not FUTEX_PRIVATE_FLAG. False: the time has passed without anything. */
static bool wait_while(uint32_t *word, uint32_t value)
{
	const struct __kernel_timespec wait = {.tv_nsec = WAIT_NS};

	return sys_call(__NR_futex, (uint64_t)word, FUTEX_WAIT, value, (uint64_t)&wait, 0, 0) !=
	       -ETIMEDOUT;
}

static void wake(uint32_t *word)
{
	sys_call(__NR_futex, (uint64_t)word, FUTEX_WAKE, INT32_MAX, 0, 0, 0);
}

bool recorder_is_alive(const struct context *c)
{
	return lifeline_holds(
	    __atomic_load_n(&c->runtime->shared->recorder_alive, __ATOMIC_ACQUIRE));
}

/*
 * The holder is held to be dead when nobody wakes this thread and no message is sent for a second.
 * Wakes alone say that it lives: of many senders one may lose every race for the lock that was
 * given back. A word that is no state was written by nobody who has the lock.
 */
static void take_lock(struct native_header *shared)
{
	uint32_t *lock = &shared->message_lock, state = LOCK_FREE;
	uint64_t head = __atomic_load_n(&shared->message_head, __ATOMIC_RELAXED);
	unsigned waits = 0;

	if (__atomic_compare_exchange_n(lock, &state, LOCK_TAKEN, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	for (;;) {
		const uint64_t before = head;

		state = __atomic_exchange_n(lock, LOCK_WAITED, __ATOMIC_ACQUIRE);
		if ((state != LOCK_TAKEN && state != LOCK_WAITED) || waits > LOCK_PATIENCE)
			return;
		waits = wait_while(lock, LOCK_WAITED) ? 0 : waits + 1;
		head = __atomic_load_n(&shared->message_head, __ATOMIC_RELAXED);
		waits = head != before ? 0 : waits;
	}
}

static void give_lock(uint32_t *lock)
{
	if (__atomic_exchange_n(lock, LOCK_FREE, __ATOMIC_RELEASE) == LOCK_WAITED)
		sys_call(__NR_futex, (uint64_t)lock, FUTEX_WAKE, 1, 0, 0, 0);
}

/* Copies to the position `at` of the ring. */
static void put_bytes(struct native_header *shared, uint64_t at, const void *bytes, uint64_t n)
{
	uint8_t *ring = (uint8_t *)shared + NATIVE_HEADER_BYTES;
	const uint8_t *from = bytes;

	for (uint64_t i = 0; i < n; i++)
		ring[(at + i) % NATIVE_MESSAGES] = from[i];
}

/* Takes the lock with `n` bytes free behind the head. False: the recorder is gone. */
static bool lock_space(struct context *c, uint64_t n)
{
	struct native_header *shared = c->runtime->shared;

	for (;;) {
		uint32_t event;

		if (!recorder_is_alive(c))
			return false;
		take_lock(shared);
		if (shared->message_head + n -
			__atomic_load_n(&shared->message_tail, __ATOMIC_ACQUIRE) <=
		    NATIVE_MESSAGES)
			return true;
		event = __atomic_load_n(&shared->message_event, __ATOMIC_RELAXED);
		give_lock(&shared->message_lock);
		/* The recorder does not wake anybody when it takes messages: it is fast. */
		wait_while(&shared->message_event, event);
	}
}

/* *end: the position behind it. */
static bool send_message(struct context *c, const struct native_message *m, const void *payload,
			 uint64_t *end)
{
	struct native_header *shared = c->runtime->shared;
	struct native_message message = *m;
	const uint64_t padded = sizeof(message) + ((message.bytes + 7u) & ~UINT64_C(7));
	uint64_t head;

	message.pid = c->pid;
	message.tid = c->tid;
	message.tsc = __builtin_ia32_rdtsc();
	if (message.bytes > NATIVE_MESSAGE_MAX || !lock_space(c, padded))
		return false;
	head = __atomic_load_n(&shared->message_head, __ATOMIC_RELAXED);
	*end = head + padded;
	put_bytes(shared, head, &message, sizeof(message));
	put_bytes(shared, head + sizeof(message), payload, message.bytes);
	__atomic_store_n(&shared->message_head, *end, __ATOMIC_RELEASE);
	give_lock(&shared->message_lock);
	__atomic_fetch_add(&shared->message_event, 1, __ATOMIC_RELEASE);
	wake(&shared->message_event);
	return true;
}

bool message_send(struct context *c, const struct native_message *m, const void *payload)
{
	uint64_t end;

	return send_message(c, m, payload, &end);
}

/* Whether the head is before what has been sent: somebody has destroyed the ring. */
static bool is_lost(const struct native_header *shared, uint64_t end)
{
	return (int64_t)(__atomic_load_n(&shared->message_head, __ATOMIC_RELAXED) - end) < 0;
}

bool message_ask(struct context *c, const struct native_message *m, const void *payload)
{
	struct native_header *shared = c->runtime->shared;
	uint32_t *answered = &shared->answered, now;
	uint64_t end;

	if (!send_message(c, m, payload, &end))
		return false;
	while ((int32_t)((now = __atomic_load_n(answered, __ATOMIC_ACQUIRE)) - (uint32_t)end) < 0) {
		wait_while(answered, now);
		if (!recorder_is_alive(c) || is_lost(shared, end))
			return false;
	}
	return true;
}

void message_text(struct context *c, uint32_t type, uint64_t address, const char *text)
{
	struct native_message m = {.type = type, .address = address};

	while (m.bytes < NATIVE_MESSAGE_MAX && text[m.bytes])
		m.bytes++;
	message_send(c, &m, text);
}
