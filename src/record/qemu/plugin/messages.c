/* SPDX-License-Identifier: MIT */
/* Sends messages to the recorder through the ring in shared memory, and waits for the recorder. */
#include "record/qemu/plugin/plugin.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

void plugin_doze(void)
{
	const struct timespec pause = {0, 200000};

	if (!lifeline_holds(__atomic_load_n(&plugin.shared->alive, __ATOMIC_ACQUIRE)))
		plugin.recorder_gone = true;
	else
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Waits until *word is no longer `old`, or until there is no recorder any more to change it. */
void plugin_wait(_Atomic uint64_t *word, uint64_t old)
{
	while (!plugin.recorder_gone && atomic_load_explicit(word, memory_order_acquire) == old)
		plugin_doze();
}

/* Copies into the ring, which wraps. */
static void copy_into_ring(uint64_t position, const void *bytes, size_t n)
{
	uint8_t *ring = shared_messages(plugin.shared);
	size_t at = position % SHARED_MESSAGES;
	size_t first = n < SHARED_MESSAGES - at ? n : SHARED_MESSAGES - at;

	memcpy(ring + at, bytes, first);
	memcpy(ring, (const uint8_t *)bytes + first, n - first);
}

/* A process that died with the lock had not moved message_head, so no message is incomplete. */
static void lock_messages(struct shared_header *h)
{
	if (pthread_mutex_lock(&h->message_lock) == EOWNERDEAD)
		pthread_mutex_consistent(&h->message_lock);
}

/* The lock is not held while waiting: a stopped process must not stop the others. */
void plugin_send(const struct shared_message *message, const void *payload)
{
	struct shared_header *h = plugin.shared;
	uint64_t head, tail, total = (sizeof(*message) + message->bytes + 7) & ~UINT64_C(7);

	while (!plugin.recorder_gone) {
		lock_messages(h);
		head = atomic_load_explicit(&h->message_head, memory_order_relaxed);
		tail = atomic_load_explicit(&h->message_tail, memory_order_acquire);
		if (head + total - tail <= SHARED_MESSAGES) {
			copy_into_ring(head, message, sizeof(*message));
			copy_into_ring(head + sizeof(*message), payload, message->bytes);
			atomic_store_explicit(&h->message_head, head + total, memory_order_release);
			pthread_mutex_unlock(&h->message_lock);
			return;
		}
		pthread_mutex_unlock(&h->message_lock);
		plugin_wait(&h->message_tail, tail);
	}
}

void plugin_note(const char *text)
{
	struct shared_message message = {
	    .type = MESSAGE_NOTE, .bytes = (uint32_t)strlen(text), .pid = getpid()};

	plugin_send(&message, text);
}

void plugin_send_text_at(unsigned type, int32_t tid, const char *text, uint64_t time)
{
	size_t n = strlen(text);
	struct shared_message message = {
	    .type = type,
	    .bytes = (uint32_t)(n < SHARED_MESSAGE_MAX ? n : SHARED_MESSAGE_MAX),
	    .pid = getpid(),
	    .tid = tid,
	    .tsc = time,
	};

	plugin_send(&message, text);
}

void plugin_send_text(unsigned type, int32_t tid, const char *text)
{
	plugin_send_text_at(type, tid, text, atomic_load(&plugin.shared->clock));
}

bool plugin_read(uint64_t address, void *bytes, size_t n)
{
	struct iovec to = {bytes, n};
	struct iovec from = {(void *)(uintptr_t)(address + plugin.guest_base), n};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)n;
}
