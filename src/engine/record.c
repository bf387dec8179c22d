/* SPDX-License-Identifier: MIT */
/* The ring of records between producer and consumer: record.h says how it works. */
#include "engine/record.h"

void record_init(struct record_ring *ring, struct ptah_capture_record *records, uint32_t capacity)
{
	ring->records = records;
	ring->mask = capacity - 1;
	atomic_init(&ring->head, 0);
	atomic_init(&ring->tail, 0);
	atomic_init(&ring->dropped, 0);
}

static void owe(struct record_ring *ring, const struct ptah_capture_record *record)
{
	atomic_store(&ring->owed_position, record->position);
	atomic_fetch_add(&ring->owed_lost, record->lost);
	/* The flags last: take_owed() looks at them first, and then finds the rest. */
	atomic_fetch_or(&ring->owed_flags, record->flags | PTAH_CAPTURED_DROPPED);
	atomic_fetch_add_explicit(&ring->dropped, 1, memory_order_relaxed);
}

/* Writer and reader may call this at the same time: each flag and each lost byte is reported
 * once. */
static bool take_owed(struct record_ring *ring, struct ptah_capture_record *record)
{
	uint32_t flags;

	if (!atomic_load_explicit(&ring->owed_flags, memory_order_relaxed))
		return false;
	flags = atomic_exchange(&ring->owed_flags, 0);
	record->flags |= flags;
	record->lost += atomic_exchange(&ring->owed_lost, 0);
	return flags != 0;
}

void record_push(struct record_ring *ring, const struct ptah_capture_record *record)
{
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	struct ptah_capture_record *to = &ring->records[head & ring->mask];

	if (head - tail > ring->mask) {
		owe(ring, record);
		return;
	}
	*to = *record;
	take_owed(ring, to);
	atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

void record_release(struct record_ring *ring, uint32_t read)
{
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	if (read - tail <= head - tail)
		atomic_store_explicit(&ring->tail, read, memory_order_release);
}

struct ptah_capture_record record_owed(const struct record_ring *ring)
{
	return (struct ptah_capture_record){
	    .position = atomic_load(&ring->owed_position),
	    .lost = atomic_load(&ring->owed_lost),
	    .flags = atomic_load(&ring->owed_flags),
	};
}

bool record_push_owed(struct record_ring *ring)
{
	struct ptah_capture_record record = record_owed(ring);
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	if (!record.flags ||
	    atomic_load_explicit(&ring->head, memory_order_relaxed) - tail > ring->mask)
		return false;
	/* record_push() adds the sum. */
	record.flags = 0;
	record.lost = 0;
	record_push(ring, &record);
	return true;
}

size_t record_pop(struct record_ring *ring, struct ptah_capture_record *records, size_t n)
{
	uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
	uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
	size_t k;

	for (k = 0; k < n && tail != head; k++, tail++)
		records[k] = ring->records[tail & ring->mask];
	atomic_store_explicit(&ring->tail, tail, memory_order_release);
	/* There may be no further record to which the writer could add what is owed. */
	if (k < n) {
		records[k] =
		    (struct ptah_capture_record){.position = atomic_load(&ring->owed_position)};
		k += take_owed(ring, &records[k]);
	}
	return k;
}
