/* SPDX-License-Identifier: MIT */
/* Tables of Physical Addresses: lays them out, finds positions in them, checks them (topa.h). */
#include "engine/topa.h"

bool topa_size(struct topa *t, uint32_t pages)
{
	uint32_t least = (t->regions + TOPA_PER_PAGE - 1) / TOPA_PER_PAGE;

	t->lap = (uint64_t)(t->regions - 1) * t->region + t->last;
	if (!t->multi) {
		/* A table for each region; software switches from one to the next (room.c). */
		t->pages = t->entries = t->regions;
		t->laps = 1;
	} else {
		if (!pages)
			pages = least;
		if (pages < least)
			return false;
		t->laps = pages * TOPA_PER_PAGE / t->regions;
		t->entries = t->laps * t->regions;
		t->pages = (t->entries + TOPA_PER_PAGE - 1) / TOPA_PER_PAGE;
	}
	t->cycle = t->lap * t->laps;
	return true;
}

static uint32_t per_page(const struct topa *t)
{
	return t->multi ? TOPA_PER_PAGE : 1;
}

/* How many entries a page has before its END. */
static uint32_t entries_in(const struct topa *t, uint32_t page)
{
	uint32_t before = page * per_page(t);

	return t->entries - before < per_page(t) ? t->entries - before : per_page(t);
}

static uint64_t *entry_of(const struct topa *t, uint32_t k)
{
	return (uint64_t *)t->tables[k / per_page(t)].address + k % per_page(t);
}

static bool wants_int(const struct topa *t, uint32_t k)
{
	uint64_t r = k % t->regions;

	if (!t->pmi)
		return false;
	if (!t->multi)
		return true;
	if (t->pmis)
		return (r + 1) * t->pmis / t->regions > r * t->pmis / t->regions;
	return k == t->entries / 4 || k == t->entries / 4 * 3;
}

static uint64_t entry_value(const struct topa *t, uint32_t k)
{
	uint64_t size = (uint64_t)__builtin_ctzll(topa_bytes(t, k)) - 12;

	return topa_physical(t, k) | size << PTAH_TOPA_SIZE | (wants_int(t, k) ? PTAH_TOPA_INT : 0);
}

void topa_build(const struct topa *t)
{
	uint32_t page, k;

	for (k = 0; k < t->entries; k++) {
		/* Single-entry: STOP, so that the processor never wraps in its one region. */
		*entry_of(t, k) = entry_value(t, k) | (t->multi ? 0 : PTAH_TOPA_STOP);
	}
	for (page = 0; page < t->pages; page++) {
		uint32_t next = !t->multi ? page : page + 1 == t->pages ? 0 : page + 1;
		uint64_t *end = (uint64_t *)t->tables[page].address + entries_in(t, page);

		*end = t->tables[next].physical | PTAH_TOPA_END;
	}
}

uint64_t topa_start(const struct topa *t, uint64_t q)
{
	return q / t->regions * t->lap + q % t->regions * t->region;
}

uint64_t topa_bytes(const struct topa *t, uint64_t q)
{
	return q % t->regions == t->regions - 1 ? t->last : t->region;
}

uint64_t topa_physical(const struct topa *t, uint64_t q)
{
	uint64_t r = q % t->regions;

	return t->nblocks == 1 ? t->blocks[0].physical + r * t->region : t->blocks[r].physical;
}

uint8_t *topa_address(const struct topa *t, uint64_t q)
{
	uint64_t r = q % t->regions;

	return t->nblocks == 1 ? (uint8_t *)t->blocks[0].address + r * t->region
			       : t->blocks[r].address;
}

uint64_t topa_region(const struct topa *t, uint64_t position)
{
	return position / t->lap * t->regions + position % t->lap / t->region;
}

struct topa_place topa_locate(const struct topa *t, uint64_t position)
{
	uint64_t q = topa_region(t, position);
	uint32_t k = (uint32_t)(q % t->entries);

	return (struct topa_place){
	    .page = k / per_page(t),
	    .index = k % per_page(t),
	    .offset = position - topa_start(t, q),
	};
}

int topa_find(const struct topa *t, uint64_t physical, uint32_t hint)
{
	uint32_t page;

	if (t->tables[hint].physical == physical)
		return (int)hint;
	for (page = 0; page < t->pages; page++) {
		if (t->tables[page].physical == physical)
			return (int)page;
	}
	return -1;
}

bool topa_position(const struct topa *t, struct topa_place place, uint64_t before, bool stopped,
		   uint64_t *position)
{
	uint64_t offset, at;
	uint32_t k;

	if (place.page >= t->pages || place.index > entries_in(t, place.page))
		return false;
	k = place.page * per_page(t) + place.index;
	if (place.index == entries_in(t, place.page)) {
		/* At the END entry, which the processor is about to follow. It has no region. */
		if (place.offset)
			return false;
		k = k < t->entries ? k : 0;
	} else if (place.offset > topa_bytes(t, k)) {
		return false;
	}
	offset = topa_start(t, k) + place.offset;
	at = before - before % t->cycle + offset;
	if (at < before || (at == before && stopped))
		at += t->cycle;
	*position = at;
	return true;
}

bool topa_crosses_int(const struct topa *t, uint64_t from, uint64_t to)
{
	uint64_t q = topa_region(t, from);

	if (to - from >= t->cycle)
		return true;
	for (; topa_start(t, q) + topa_bytes(t, q) <= to; q++) {
		if (*entry_of(t, (uint32_t)(q % t->entries)) & PTAH_TOPA_INT)
			return true;
	}
	return false;
}

bool topa_is_stop(const struct topa *t, uint64_t q)
{
	return *entry_of(t, (uint32_t)(q % t->entries)) & PTAH_TOPA_STOP;
}

void topa_mark_stop(const struct topa *t, uint64_t q, bool stop)
{
	uint32_t k = (uint32_t)(q % t->entries);
	uint64_t *entry = entry_of(t, k);

	/* A stop there must raise a PMI, wherever the other INT marks are. */
	if (stop)
		*entry |= PTAH_TOPA_STOP | (t->pmi ? PTAH_TOPA_INT : 0);
	else
		*entry = (*entry & ~(PTAH_TOPA_STOP | PTAH_TOPA_INT)) |
			 (wants_int(t, k) ? PTAH_TOPA_INT : 0);
}

#define ENTRY_RESERVED (UINT64_C(1) << 1 | UINT64_C(1) << 3 | UINT64_C(1) << 5 | UINT64_C(3) << 10)

static uint64_t beyond(unsigned physical_bits)
{
	return physical_bits >= 64 ? 0 : ~UINT64_C(0) << physical_bits;
}

/* What is wrong with one entry, whatever the others are. */
static unsigned entry_fault(uint64_t entry, uint32_t index, unsigned physical_bits)
{
	uint64_t base = entry & ~UINT64_C(0xfff);

	if (entry & (ENTRY_RESERVED | beyond(physical_bits)))
		return TOPA_RESERVED;
	if (entry & PTAH_TOPA_END) {
		if (entry & (PTAH_TOPA_INT | PTAH_TOPA_STOP))
			return TOPA_END_FLAGS;
		return index ? TOPA_SOUND : TOPA_END_FIRST;
	}
	if (base & ((UINT64_C(4096) << (entry >> PTAH_TOPA_SIZE & 15)) - 1))
		return TOPA_UNALIGNED;
	return TOPA_SOUND;
}

/* SDM "Single Output Region ToPA Implementation": the second entry is an END that leads to the same
 * table. Entry 0 passes. */
static bool is_second(uint64_t entry, uint32_t index, uint64_t table)
{
	return !index || ((entry & PTAH_TOPA_END) && (entry & ~UINT64_C(0xfff)) == table);
}

static bool found(struct topa_fault *fault, unsigned kind, uint32_t page, uint64_t index)
{
	fault->kind = (uint8_t)kind;
	fault->page = page;
	fault->index = (uint32_t)index;
	return kind == TOPA_SOUND;
}

/* Checks one table from `index` to its END; *page becomes the table that the END leads to. */
static bool check_table(const struct ptah_hal_memory *tables, uint32_t n, unsigned physical_bits,
			bool multi, uint32_t *page, uint32_t index, struct topa_fault *fault)
{
	const struct ptah_hal_memory *table = &tables[*page];
	const uint64_t *entries = table->address;
	uint64_t target;
	unsigned kind;
	uint32_t i;

	for (;; index++) {
		if (index >= table->size / 8)
			return found(fault, TOPA_NO_END, *page, index);
		kind = entry_fault(entries[index], index, physical_bits);
		if (!kind && !multi && !is_second(entries[index], index, table->physical))
			kind = TOPA_SINGLE;
		if (kind)
			return found(fault, kind, *page, index);
		if (entries[index] & PTAH_TOPA_END)
			break;
		if (entries[index] & PTAH_TOPA_STOP)
			fault->behind_stop = true;
	}
	target = entries[index] & ~UINT64_C(0xfff);
	for (i = 0; i < n; i++) {
		uint32_t next = (*page + 1 + i) % n;

		if (tables[next].physical == target) {
			*page = next;
			return true;
		}
	}
	return found(fault, TOPA_FOREIGN_TABLE, *page, index);
}

bool topa_check(const struct ptah_hal_memory *tables, uint32_t n, unsigned physical_bits,
		bool multi, struct topa_place place, struct topa_fault *fault)
{
	uint32_t page = place.page, index = place.index, visits;
	const uint64_t *entries;

	*fault = (struct topa_fault){0};
	if (page >= n)
		return found(fault, TOPA_FOREIGN_TABLE, page, index);
	/* After n more tables all that can be reached have been checked. */
	for (visits = 0; visits <= n; visits++) {
		entries = tables[page].address;
		if (tables[page].physical & (0xfff | beyond(physical_bits)))
			return found(fault,
				     tables[page].physical & 0xfff ? TOPA_UNALIGNED : TOPA_RESERVED,
				     page, index);
		if (visits == 0 && index < tables[page].size / 8 &&
		    !(entries[index] & PTAH_TOPA_END) &&
		    place.offset >= UINT64_C(4096) << (entries[index] >> PTAH_TOPA_SIZE & 15))
			return found(fault, TOPA_OFFSET, page, index);
		if (!check_table(tables, n, physical_bits, multi, &page, index, fault))
			return false;
		index = 0;
	}
	return true;
}
