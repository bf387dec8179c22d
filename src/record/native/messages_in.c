/* SPDX-License-Identifier: MIT */
/* Takes the runtime's messages out of the shared memory: see messages_in.h. */
#include "record/native/messages_in.h"

#include "support/monotonic.h"

#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRAIN_NS (INT64_C(50) * 1000000) /* after this the others are left for the next time */
#define LOOK	 16			 /* messages between two looks at the time */

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* All that has been taken. */
static void answer(struct native_messages *in)
{
	__atomic_store_n(&in->shared->answered, (uint32_t)in->tail, __ATOMIC_RELEASE);
	wake(&in->shared->answered);
}

/* Its sender waits for the answer. */
static bool is_question(const struct native_message *m)
{
	return m->type == NATIVE_MESSAGE_MAP || m->type == NATIVE_MESSAGE_EXEC;
}

static void copy_out(const struct native_messages *in, uint64_t position, void *to, size_t n)
{
	const uint8_t *ring = (const uint8_t *)in->shared + NATIVE_HEADER_BYTES;
	const size_t at = position % NATIVE_MESSAGES;
	const size_t first = n < NATIVE_MESSAGES - at ? n : NATIVE_MESSAGES - at;

	memcpy(to, ring + at, first);
	memcpy((uint8_t *)to + first, ring, n - first);
}

static uint64_t padded_size(const struct native_message *m)
{
	return sizeof(*m) + ((m->bytes + UINT64_C(7)) & ~UINT64_C(7));
}

static bool is_id(uint64_t value)
{
	return value > 0 && value <= INT32_MAX;
}

/* Whether the writer and other tools can take what is in it. */
static bool is_sound(const struct native_message *m)
{
	if (m->pid <= 0 || m->tid <= 0)
		return false;
	switch (m->type) {
	case NATIVE_MESSAGE_THREAD:
		return m->value < NATIVE_THREADS;
	case NATIVE_MESSAGE_MAP:
		return m->size && m->address <= UINT64_MAX - m->size;
	case NATIVE_MESSAGE_MAPPED:
		return m->size && m->address <= UINT64_MAX - m->size &&
		       !((m->address | m->size) % NATIVE_PAGE) &&
		       m->bytes > sizeof(struct native_mapped);
	case NATIVE_MESSAGE_CODE:
		return m->bytes && m->address <= UINT64_MAX - m->bytes;
	case NATIVE_MESSAGE_FORK:
		return is_id(m->value);
	case NATIVE_MESSAGE_EXITS:
		return m->bytes >= sizeof(struct native_exit);
	case NATIVE_MESSAGE_FATAL:
		return m->value && m->value < NSIG;
	case NATIVE_MESSAGE_REAPED:
		return m->value && m->value < NSIG && is_id(m->address);
	default:
		return m->type <= NATIVE_MESSAGE_USER && m->type;
	}
}

/*
 * The next message is found by the size of the one before. When one makes no sense, all that have
 * been sent are dropped, and those who wait for an answer among them are let go.
 */
static void drop_all(struct native_messages *in, uint64_t head)
{
	in->damaged = true;
	in->tail = head;
	answer(in);
}

/* False: there is no whole message before `head`. */
static bool take_message(struct native_messages *in, uint64_t head)
{
	struct native_message m;

	if (head - in->tail < sizeof(m))
		return false;
	copy_out(in, in->tail, &m, sizeof(m));
	if (m.bytes > NATIVE_MESSAGE_MAX || head - in->tail < padded_size(&m))
		return false;
	copy_out(in, in->tail + sizeof(m), in->payload, m.bytes);
	in->payload[m.bytes] = '\0';
	in->tail += padded_size(&m);
	if (is_sound(&m))
		in->take(in->context, &m, in->payload);
	else
		in->damaged = true;
	if (is_question(&m))
		answer(in);
	return true;
}

bool native_messages_drain(struct native_messages *in)
{
	const uint64_t head = __atomic_load_n(&in->shared->message_head, __ATOMIC_ACQUIRE);
	const int64_t end = monotonic_ns() + DRAIN_NS;

	if (head - in->tail > NATIVE_MESSAGES)
		drop_all(in, head);
	for (unsigned n = 1; in->tail != head && (n % LOOK || monotonic_ns() < end); n++)
		if (!take_message(in, head))
			drop_all(in, head);
	__atomic_store_n(&in->shared->message_tail, in->tail, __ATOMIC_RELEASE);
	return in->tail == head;
}
