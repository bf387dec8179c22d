/* SPDX-License-Identifier: MIT */
#include "record/qemu/plugin.h"

#include <pthread.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * Waits until *word is no longer `old`, a short while at a time, and notices
 * when nobody is there any more to change it.
 */
void plugin_wait(_Atomic uint64_t *word, uint64_t old)
{
	const struct timespec pause = {0, 200000};

	while (atomic_load_explicit(word, memory_order_acquire) == old) {
		if (getppid() != plugin.shared->recorder) {
			plugin.recorder_gone = true;
			return;
		}
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
}

/* Copies into the wrapping ring. */
static void put(uint64_t position, const void *bytes, size_t n)
{
	uint8_t *ring = shared_messages(plugin.shared);
	size_t at = position % SHARED_MESSAGES;
	size_t first = n < SHARED_MESSAGES - at ? n : SHARED_MESSAGES - at;

	memcpy(ring + at, bytes, first);
	memcpy(ring, (const uint8_t *)bytes + first, n - first);
}

void plugin_send(const struct shared_message *message, const void *payload)
{
	struct shared_header *h = plugin.shared;
	uint64_t head, tail, total = (sizeof(*message) + message->bytes + 7) & ~UINT64_C(7);

	pthread_mutex_lock(&lock);
	head = atomic_load_explicit(&h->message_head, memory_order_relaxed);
	for (;;) {
		tail = atomic_load_explicit(&h->message_tail, memory_order_acquire);
		if (plugin.recorder_gone || head + total - tail <= SHARED_MESSAGES)
			break;
		plugin_wait(&h->message_tail, tail);
	}
	if (!plugin.recorder_gone) {
		put(head, message, sizeof(*message));
		put(head + sizeof(*message), payload, message->bytes);
		atomic_store_explicit(&h->message_head, head + total, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

void plugin_note(const char *text)
{
	struct shared_message message = {
	    .type = MESSAGE_NOTE, .bytes = (uint32_t)strlen(text), .pid = getpid()};

	plugin_send(&message, text);
}

bool plugin_read(uint64_t address, void *bytes, size_t n)
{
	struct iovec to = {bytes, n};
	struct iovec from = {(void *)(uintptr_t)(address + plugin.guest_base), n};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)n;
}
