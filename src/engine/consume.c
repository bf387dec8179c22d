/* SPDX-License-Identifier: MIT */
/*
 * The functions of a capture's consumer: where bytes are in memory, which bytes it has taken, and
 * its records.
 */
#include "engine/internal.h"

struct span {
	const uint8_t *address;
	uint64_t offset, size;
};

/*
 * Single-entry ToPA: finds the region that holds the byte at `position`, searching from the one in
 * use to older ones. False: the byte has just been overwritten.
 */
static bool find_filled(const struct ptah_capture *c, uint64_t position, uint64_t *q,
			uint64_t *start, uint64_t *end)
{
	uint32_t n;

	*end = ptah_capture_position(c);
	*q = atomic_load_explicit(&c->fills, memory_order_acquire);
	for (n = 0; n < c->topa.regions; n++, --*q) {
		*start =
		    atomic_load_explicit(&c->starts_of[*q % c->topa.regions], memory_order_acquire);
		if (*start <= position)
			return true;
		*end = *start;
		if (!*q)
			break;
	}
	return false;
}

/* The bytes from `position` to the end of their region. */
static struct span span_at(const struct ptah_capture *c, uint64_t position)
{
	const struct topa *t = &c->topa;
	uint64_t q = 0, start = position - position % t->lap, end = start + t->lap;

	if (c->swap) {
		if (!find_filled(c, position, &q, &start, &end))
			return (struct span){0};
	} else if (c->shape != PTAH_SHAPE_SINGLE) {
		q = topa_region(t, position);
		start = topa_start(t, q);
		end = start + topa_bytes(t, q);
	}
	return (struct span){
	    .address = topa_address(t, q) + (position - start),
	    .offset = q % t->regions * t->region + (position - start),
	    .size = end - position,
	};
}

int ptah_capture_pieces(const struct ptah_capture *c, uint64_t from, uint64_t to,
			struct ptah_piece *pieces, size_t n)
{
	uint64_t position;
	size_t used = 0;

	if (!c || (n && !pieces))
		return PTAH_E_INVAL;
	position = ptah_capture_position(c);
	if (from > to || to > position)
		return PTAH_E_INVAL;
	if (from < room_oldest(c, position))
		return PTAH_E_LOST;
	while (from < to) {
		struct span span = span_at(c, from);
		struct ptah_piece *last = used ? &pieces[used - 1] : NULL;

		if (!span.size)
			return PTAH_E_LOST;
		if (span.size > to - from)
			span.size = to - from;
		if (last && (const uint8_t *)last->address + last->size == span.address &&
		    last->offset + last->size == span.offset) {
			last->size += span.size;
		} else if (used < n) {
			pieces[used++] = (struct ptah_piece){span.address, span.offset, span.size};
		} else {
			break;
		}
		from += span.size;
	}
	return (int)used;
}

int ptah_capture_consume(struct ptah_capture *c, uint64_t upto, uint64_t *lost)
{
	uint64_t position, tail, oldest, gone = 0;

	if (lost)
		*lost = 0;
	if (!c || upto > ptah_capture_position(c))
		return PTAH_E_INVAL;
	if (atomic_load(&c->page.consumer))
		return PTAH_E_BUSY;
	tail = atomic_load_explicit(&c->tail, memory_order_relaxed);
	if (upto <= tail)
		return PTAH_OK;
	if (c->policy == PTAH_POLICY_WRAP && atomic_load(&c->running))
		capture_at_holder(c, capture_look, NULL);
	position = ptah_capture_position(c);
	oldest = room_oldest(c, position);
	if (c->policy == PTAH_POLICY_WRAP && oldest > tail)
		gone = (oldest < upto ? oldest : upto) - tail;
	atomic_fetch_add(&c->lost, gone);
	if (lost)
		*lost = gone;
	/*
	 * The tail is written before room_near() reads `halt`; the producer writes `halt` and then
	 * reads the tail (wait_for_room()). So at least one of the two sees what the other wrote.
	 */
	atomic_store(&c->tail, upto);
	if (c->policy == PTAH_POLICY_DRAIN && atomic_load(&c->started) && room_near(c))
		capture_at_holder(c, capture_look, NULL);
	return PTAH_OK;
}

int ptah_capture_records(struct ptah_capture *c, struct ptah_capture_record *records, size_t n)
{
	if (!c || (n && !records))
		return PTAH_E_INVAL;
	if (atomic_load(&c->page.consumer))
		return PTAH_E_BUSY;
	return (int)record_pop(&c->records, records, n);
}

int ptah_capture_memory(const struct ptah_capture *c, size_t from, struct ptah_hal_memory *memory,
			size_t n)
{
	size_t blocks, all, i;

	if (!c || (n && !memory))
		return PTAH_E_INVAL;
	blocks = c->topa.nblocks;
	all = blocks + c->topa.pages;
	if (from > all)
		from = all;
	if (n > all - from)
		n = all - from;
	for (i = 0; i < n; i++, from++)
		memory[i] = from < blocks ? c->topa.blocks[from] : c->topa.tables[from - blocks];
	return (int)n;
}
