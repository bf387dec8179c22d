/* SPDX-License-Identifier: MIT */
/*
 * Room and position: which part of the buffer may be written to now, which position follows from
 * the output registers after a slice, and from which position on bytes can still be read. This is
 * the file that knows the kinds of output apart: ToPA rings, single-entry ToPA ("swap"), a single
 * range.
 */
#include "engine/internal.h"

static uint64_t get(const _Atomic uint64_t *value)
{
	return atomic_load(value); /* sequentially consistent: tail and `halt`, see consume.c */
}

/*
 * Single-entry ToPA: switches to the next region when the current one is full, or when its PMI was
 * delivered, which may be before that. SDM "Single Output Region ToPA Implementation". False: the
 * current region is full and the next is not free.
 */
static bool find_swap(struct ptah_capture *c)
{
	uint32_t n = c->topa.regions;
	uint64_t next = c->fill + 1, position = position_of(c);
	uint64_t used = position - get(&c->starts_of[c->fill % n]);

	if (used < c->topa.region && (!c->swap_due || !used))
		return true;
	/* The bytes that the next region still holds end where those of the region after it begin.
	 */
	if (c->policy != PTAH_POLICY_WRAP && next >= n &&
	    get(&c->tail) < get(&c->starts_of[(next + 1) % n]))
		return used < c->topa.region;
	/* `oldest` first, so that a reader does not take the new beginning for the oldest byte. */
	if (next + 1 >= n)
		atomic_store(&c->oldest, n == 1 ? position : get(&c->starts_of[(next + 1) % n]));
	atomic_store_explicit(&c->starts_of[next % n], position, memory_order_release);
	c->fill = next;
	atomic_store_explicit(&c->fills, next, memory_order_release);
	c->swap_due = false;
	c->program = true;
	return true;
}

static void move_mark(struct ptah_capture *c, uint64_t mark)
{
	if (c->marked && c->mark == mark)
		return;
	if (c->marked)
		topa_mark_stop(&c->topa, c->mark, false);
	topa_mark_stop(&c->topa, mark, true);
	c->mark = mark;
	c->marked = true;
}

/*
 * Makes sure that output can continue at the position, and moves the STOP mark to the end of the
 * room; false: there is none. Tables are changed only while TraceEn = 0, because the processor may
 * hold copies of entries: SDM "ToPA Table Entry Fields".
 */
bool room_find(struct ptah_capture *c)
{
	uint64_t region;

	page_adopt(c);
	c->page.unused = false;
	if (c->shape == PTAH_SHAPE_SINGLE)
		return true;
	if (c->swap)
		return find_swap(c);
	if (c->policy == PTAH_POLICY_WRAP && !c->caged)
		return true;
	region = topa_region(&c->topa, position_of(c));
	if (c->policy == PTAH_POLICY_WRAP) {
		move_mark(c, region + c->topa.entries - 1);
		return true;
	}
	/* There is room up to the region before the one with the tail, in the next lap. */
	if (region > topa_region(&c->topa, get(&c->tail)) + c->topa.regions - 1)
		return false;
	move_mark(c, topa_region(&c->topa, get(&c->tail)) + c->topa.regions - 1);
	return true;
}

/*
 * Whether the capture is stopped by a lack of room, or so near to its STOP mark that a look is
 * needed to move the mark (always, where no PMI causes one). Any context.
 */
bool room_near(const struct ptah_capture *c)
{
	if (atomic_load(&c->halt) == HALT_FULL)
		return true;
	if (c->swap || !c->pmi)
		return true;
	return topa_region(&c->topa, get(&c->position)) + 1 >= get(&c->mark);
}

uint64_t room_oldest(const struct ptah_capture *c, uint64_t position)
{
	uint64_t floor = get(&c->floor);

	if (c->swap)
		return get(&c->oldest);
	return position > c->topa.lap + floor ? position - c->topa.lap : floor;
}

struct topa_place room_place(const struct ptah_capture *c, uint64_t position)
{
	if (c->shape == PTAH_SHAPE_SINGLE)
		return (struct topa_place){.offset = position % c->topa.lap};
	if (c->swap) {
		return (struct topa_place){
		    .page = (uint32_t)(c->fill % c->topa.regions),
		    .offset = position - get(&c->starts_of[c->fill % c->topa.regions]),
		};
	}
	return topa_locate(&c->topa, position);
}

/*
 * The canary: while a single range is traced, its newest bytes are replaced by a pattern that no
 * trace contains. They are the last bytes that a lap overwrites, so if the pattern has changed, a
 * whole lap was written.
 */
static uint8_t *canary_byte(const struct ptah_capture *c, uint64_t i)
{
	uint64_t at = position_of(c) + c->topa.lap - CANARY + i;

	return (uint8_t *)c->topa.blocks[0].address + (at & (c->topa.lap - 1));
}

static uint8_t canary_value(uint64_t i)
{
	return (uint8_t)(0xa5 ^ i * 29);
}

/* SDM "Single-Range Output": OUTPUT_BASE, and mask and offset in MASK_PTRS. */
static bool position_single(struct ptah_capture *c, const struct registers *r, uint64_t *position)
{
	uint64_t size = c->topa.lap, before = position_of(c), written;

	c->place = (struct topa_place){.offset = r->ptrs >> PTAH_RTIT_MASK_PTRS_OFFSET};
	if (r->base != c->topa.blocks[0].physical || c->place.offset >= size)
		return false;
	written = (c->place.offset - before) & (size - 1);
	if (!room_canary_lift(c, written)) {
		written += size;
		c->flags |= PTAH_CAPTURED_UNSURE;
	}
	*position = before + written;
	return true;
}

static bool position_swap(struct ptah_capture *c, const struct registers *r, uint64_t *position)
{
	uint64_t start = get(&c->starts_of[c->fill % c->topa.regions]);

	/* The region has STOP, so nothing is written after it, although the END leads to it again.
	 */
	if (r->base != c->topa.tables[c->place.page].physical || c->place.index ||
	    c->place.offset > c->topa.region || start + c->place.offset < position_of(c))
		return false;
	if (r->pmi)
		c->swap_due = true;
	*position = start + c->place.offset;
	return true;
}

/*
 * Notices a whole cycle between two looks, which the registers do not show. The PMI bit says that a
 * region with INT was filled; if none ends in the bytes that seem to have been written, a cycle
 * more was written. The exception is a late bit, which belongs to the slice before (`owed`).
 */
static void count_cycle(struct ptah_capture *c, const struct registers *r, uint64_t *position)
{
	bool crossed;

	if (!c->pmi || c->marked)
		return;
	crossed = topa_crosses_int(&c->topa, position_of(c), *position);
	if (r->pmi && !crossed && !c->owed) {
		*position += c->topa.cycle;
		c->flags |= PTAH_CAPTURED_UNSURE;
	}
	c->owed = crossed && !r->pmi;
}

bool room_position(struct ptah_capture *c, const struct registers *r, uint64_t *position)
{
	bool stopped = (r->status & PTAH_RTIT_STATUS_STOPPED) != 0;
	int page;

	if (c->shape == PTAH_SHAPE_SINGLE) {
		if (position_single(c, r, position))
			return true;
		room_canary_lift(c, 0);
		return false;
	}
	page = topa_find(&c->topa, r->base, c->place.page);
	if (page < 0)
		return false;
	c->place = (struct topa_place){
	    .page = (uint32_t)page,
	    .index = (uint32_t)r->ptrs >> PTAH_RTIT_MASK_PTRS_INDEX,
	    .offset = r->ptrs >> PTAH_RTIT_MASK_PTRS_OFFSET,
	};
	if (c->swap)
		return position_swap(c, r, position);
	if (!topa_position(&c->topa, c->place, position_of(c), stopped, position))
		return false;
	count_cycle(c, r, position);
	return true;
}

uint64_t room_limit(const struct ptah_capture *c)
{
	if (c->shape == PTAH_SHAPE_SINGLE)
		return UINT64_MAX;
	if (c->swap)
		return get(&c->starts_of[c->fill % c->topa.regions]) + c->topa.region;
	if (c->marked)
		return topa_start(&c->topa, c->mark) + topa_bytes(&c->topa, c->mark);
	return position_of(c) + c->topa.cycle - 1;
}

/* Single-range output: has the canary been overwritten, if only in part? */
static bool canary_touched(const struct ptah_capture *c)
{
	uint64_t i;

	for (i = 0; i < CANARY; i++) {
		if (*canary_byte(c, i) != canary_value(i))
			return true;
	}
	return false;
}

static uint64_t live_single(const struct ptah_capture *c, uint64_t base, uint64_t offset)
{
	uint64_t size = c->topa.lap, before = position_of(c), written;

	if (base != c->topa.blocks[0].physical || offset >= size)
		return before;
	written = (offset - before) & (size - 1);
	/* The first byte of the canary is overwritten last but CANARY - 1 of a lap. */
	if (canary_touched(c) && written <= size - CANARY)
		written = size - CANARY + 1;
	return before + written;
}

uint64_t room_live(const struct ptah_capture *c, uint64_t base, uint64_t ptrs)
{
	uint64_t before = position_of(c), position = before;
	uint64_t offset = ptrs >> PTAH_RTIT_MASK_PTRS_OFFSET;
	uint32_t index = (uint32_t)ptrs >> PTAH_RTIT_MASK_PTRS_INDEX;
	int page;

	if (c->shape == PTAH_SHAPE_SINGLE)
		return live_single(c, base, offset);
	page = topa_find(&c->topa, base, c->place.page);
	if (page < 0)
		return before;
	if (c->swap) {
		position = get(&c->starts_of[c->fill % c->topa.regions]) + offset;
		if ((uint32_t)page != c->place.page || index)
			return before;
	} else if (!topa_position(&c->topa, (struct topa_place){(uint32_t)page, index, offset},
				  before, false, &position)) {
		return before;
	}
	/* A place that output cannot have reached is older than the last look. */
	return position < before || position > room_limit(c) ? before : position;
}

bool room_at_stop(const struct ptah_capture *c)
{
	uint64_t q = c->fill;

	if (c->shape == PTAH_SHAPE_SINGLE)
		return false;
	if (!c->swap)
		q = c->place.page * TOPA_PER_PAGE + c->place.index;
	return c->place.offset == topa_bytes(&c->topa, q) && topa_is_stop(&c->topa, q);
}

void room_canary_set(struct ptah_capture *c)
{
	uint64_t i;

	for (i = 0; i < CANARY; i++) {
		c->under[i] = *canary_byte(c, i);
		*canary_byte(c, i) = canary_value(i);
	}
	c->canary = true;
}

/* Removes the canary and restores the bytes that it covered. `written` bytes were written, or a lap
 * more: then it returns false. */
bool room_canary_lift(struct ptah_capture *c, uint64_t written)
{
	uint64_t first = written > c->topa.lap - CANARY ? written - (c->topa.lap - CANARY) : 0, i;

	if (!c->canary)
		return true;
	c->canary = false;
	for (i = first; i < CANARY; i++) {
		if (*canary_byte(c, i) != canary_value(i))
			return false;
	}
	for (i = first; i < CANARY; i++)
		*canary_byte(c, i) = c->under[i];
	return true;
}
