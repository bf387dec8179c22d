/* SPDX-License-Identifier: MIT */
/*
 * Reads the rings that the kernel writes: the order of loads and stores, records that wrap, and
 * what was lost.
 */
#include "record/perf_event/ring.h"

#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RECORD 65536 /* a record's size is a u16 */
#define PAGE	   4096

int ring_init(struct ring *ring, void *page, const void *data, uint64_t data_size, const void *aux,
	      uint64_t aux_size, bool overwrite)
{
	*ring = (struct ring){
	    .page = page,
	    .data = data,
	    .data_size = data_size,
	    .aux = aux,
	    .aux_size = aux ? aux_size : 0,
	    .overwrite = overwrite,
	};
	ring->joined = malloc(MAX_RECORD);
	ring->copy = malloc(aux ? aux_size : 1);
	ring->linear = malloc(aux && overwrite ? aux_size : 1);
	if (!ring->joined || !ring->copy || !ring->linear) {
		ring_fini(ring);
		return PTAH_E_NOMEM;
	}
	/* Bytes that still equal this copy have not been written by the processor. */
	if (aux && overwrite)
		memcpy(ring->copy, aux, aux_size);
	return 0;
}

void ring_fini(struct ring *ring)
{
	free(ring->joined);
	free(ring->copy);
	free(ring->linear);
	ring->joined = ring->copy = ring->linear = NULL;
	ring->page = NULL;
}

/* Copies the n bytes from `at` on out of a ring of `size` bytes. */
static void copy_out(uint8_t *to, const uint8_t *ring, uint64_t size, uint64_t at, size_t n)
{
	size_t place = at % size;
	size_t first = n < size - place ? n : (size_t)(size - place);

	memcpy(to, ring + place, first);
	memcpy(to + first, ring, n - first);
}

/* Adds up what a record says was lost. `size` is checked: at least the header. */
static void count_losses(struct ring *ring, const uint8_t *record, size_t size)
{
	uint64_t flags;

	switch (load_le32(record)) {
	case PERF_RECORD_AUX:
		if (size < 32)
			return;
		flags = load_le64(record + 24);
		ring->losses.truncated += flags & PERF_AUX_FLAG_TRUNCATED ? 1 : 0;
		ring->losses.partial += flags & PERF_AUX_FLAG_PARTIAL ? 1 : 0;
		ring->losses.collisions += flags & PERF_AUX_FLAG_COLLISION ? 1 : 0;
		ring->cut = ring->cut || flags & PERF_AUX_FLAG_TRUNCATED;
		break;
	case PERF_RECORD_LOST:
		if (size >= 24)
			ring->losses.lost_records += load_le64(record + 16);
		break;
	case PERF_RECORD_LOST_SAMPLES:
		if (size >= 16)
			ring->losses.lost_records += load_le64(record + 8);
		break;
	default:
		break;
	}
}

int ring_read_records(struct ring *ring,
		      int (*take)(void *context, const uint8_t *record, size_t size), void *context)
{
	uint64_t head, tail;
	int status;

	if (!ring->page)
		return 0;
	head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	tail = ring->page->data_tail; /* only this process writes it */
	status = head - tail > ring->data_size ? PTAH_E_BAD_FILE : 0;
	while (status >= 0 && tail != head) {
		const uint8_t *record = ring->data + tail % ring->data_size;
		/* The size of a record is a multiple of eight, so its header never wraps. */
		size_t size = head - tail < 8 ? 0 : load_le16(record + 6);

		if (size < 8 || size % 8 || size > head - tail) {
			status = PTAH_E_BAD_FILE;
			break;
		}
		if (size > ring->data_size - tail % ring->data_size) {
			copy_out(ring->joined, ring->data, ring->data_size, tail, size);
			record = ring->joined;
		}
		count_losses(ring, record, size);
		status = take(context, record, size);
		ring->records += size;
		tail += size;
	}
	__atomic_store_n(&ring->page->data_tail, status == PTAH_E_BAD_FILE ? head : tail,
			 __ATOMIC_RELEASE);
	return status < 0 ? status : 0;
}

bool ring_is_filling(const struct ring *ring)
{
	return ring->page &&
	       __atomic_load_n(&ring->page->data_head, __ATOMIC_RELAXED) - ring->page->data_tail >=
		   ring->data_size / 4;
}

/*
 * Makes room up to a page's beginning. Linux' driver counts whole pages from its head to its STOP
 * mark, and ends one too early where the parts of pages at both ends add up to another
 * (pt_buffer_reset_markers() in 6.1): then it traces on through bytes that were not taken yet, and
 * reports nothing. With a tail at the beginning of a page there is no such part.
 */
static void free_room(struct ring *ring)
{
	const uint64_t tail = ring->taken - ring->taken % PAGE;

	if (tail != ring->page->aux_tail)
		__atomic_store_n(&ring->page->aux_tail, tail, __ATOMIC_RELEASE);
}

bool ring_read_trace(struct ring *ring, struct ring_trace *trace)
{
	uint64_t head, tail;

	if (!ring->page || !ring->aux)
		return false;
	head = __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
	tail = ring->taken;
	if (head == tail)
		return false;
	/* The kernel stops at the tail. If it ever did not, only the newest aux_size bytes exist.
	 */
	if (head - tail > ring->aux_size) {
		ring->losses.overwritten += head - tail - ring->aux_size;
		tail = head - ring->aux_size;
	}
	*trace = (struct ring_trace){ring->copy, (size_t)(head - tail), tail};
	copy_out(ring->copy, ring->aux, ring->aux_size, tail, trace->size);
	ring->taken = head;
	free_room(ring);
	return true;
}

/* Whether the n bytes from `at` on have not changed since the last snapshot. */
static bool is_as_before(const struct ring *ring, uint64_t at, uint64_t n)
{
	uint64_t first = n < ring->aux_size - at ? n : ring->aux_size - at;

	return !memcmp(ring->aux + at, ring->copy + at, first) &&
	       !memcmp(ring->aux, ring->copy, n - first);
}

bool ring_read_snapshot(struct ring *ring, struct ring_trace *trace)
{
	uint64_t head, on, size;

	if (!ring->page || !ring->aux)
		return false;
	head = __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE) % ring->aux_size;
	/* The kernel has written this many bytes since the last snapshot, or whole rounds more. */
	on = size = (head - ring->last_head + ring->aux_size) % ring->aux_size;
	if (!is_as_before(ring, head, ring->aux_size - on)) {
		ring->losses.overwritten += on;
		ring->last += on;
		size = ring->aux_size;
	}
	*trace = (struct ring_trace){ring->linear, (size_t)size, ring->last};
	copy_out(ring->linear, ring->aux, ring->aux_size, head + ring->aux_size - size, size);
	memcpy(ring->copy, ring->aux, ring->aux_size);
	ring->last += size;
	ring->last_head = head;
	return size != 0;
}
