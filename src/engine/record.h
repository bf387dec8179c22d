/* SPDX-License-Identifier: MIT */
/*
 * The ring that carries a capture's records from a look at the processor, perhaps in an NMI, to the
 * consumer. One writer, one reader, no lock. Records that find no room are combined into one
 * ("owed"): the writer adds it to the next record that finds room, or the reader takes it when it
 * has emptied the ring, whichever is first. A reader in another process has a copy of the ring
 * (page.h), and the writer does the reader's part here. Freestanding.
 */
#ifndef PTAH_ENGINE_RECORD_H
#define PTAH_ENGINE_RECORD_H

#include <ptah/engine/engine.h>

#include <stdatomic.h>

struct record_ring {
	struct ptah_capture_record *records;
	uint32_t mask;
	_Atomic uint32_t head, tail; /* written, read: modulo 2^32 */
	/* The sum of the records that found no room and have not been reported yet. */
	_Atomic uint32_t owed_flags;
	_Atomic uint64_t owed_lost, owed_position;
	_Atomic uint64_t dropped;
};

/* `records` has room for `capacity` of them, a power of two. */
void record_init(struct record_ring *ring, struct ptah_capture_record *records, uint32_t capacity);

/* NMI; the writer alone. */
void record_push(struct record_ring *ring, const struct ptah_capture_record *record);

/* The writer, for a reader in another process, whose number of records read this is, modulo 2^32.
 * A number that cannot be is ignored. */
void record_release(struct record_ring *ring, uint32_t read);

/* The sum of the records that found no room; flags 0: none. */
struct ptah_capture_record record_owed(const struct record_ring *ring);

/* The writer: pushes that sum as a record of its own. False: there is none, or no room. */
bool record_push_owed(struct record_ring *ring);

/* The reader alone. */
size_t record_pop(struct record_ring *ring, struct ptah_capture_record *records, size_t n);

#endif
