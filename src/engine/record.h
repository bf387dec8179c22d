/* SPDX-License-Identifier: MIT */
/*
 * Records from the look at a processor (in an NMI, perhaps) to the consumer: a
 * ring with one writer and one reader, without a lock. What finds no room is
 * summed up, and goes to whoever comes first: the writer, with the next record that
 * finds room, or the reader, when it has emptied the ring. Freestanding.
 */
#ifndef PTAH_ENGINE_RECORD_H
#define PTAH_ENGINE_RECORD_H

#include <ptah/engine.h>

#include <stdatomic.h>

struct record_ring {
	struct ptah_capture_record *records;
	uint32_t mask;
	_Atomic uint32_t head, tail; /* written, read: modulo 2^32 */
	/* Found no room, and not told yet. */
	_Atomic uint32_t owed_flags;
	_Atomic uint64_t owed_lost, owed_position;
	_Atomic uint64_t dropped;
};

/* `records` has room for mask + 1, a power of two. */
void record_init(struct record_ring *ring, struct ptah_capture_record *records, uint32_t capacity);

/* NMI; the writer alone. */
void record_push(struct record_ring *ring, const struct ptah_capture_record *record);

/* The reader alone. */
size_t record_pop(struct record_ring *ring, struct ptah_capture_record *records, size_t n);

#endif
