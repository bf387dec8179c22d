/* SPDX-License-Identifier: MIT */
/*
 * ToPA tables: their layout, positions in them, and the validator. The expected
 * results come from a walker that follows the entries in memory one by one, as
 * the SDM describes it ("Table of Physical Addresses (ToPA)"), without any
 * formula.
 */
#include "engine/topa.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_AT UINT64_C(0x800000000)
#define TABLES_AT UINT64_C(0x100000000)

struct layout {
	struct topa t;
	struct ptah_hal_memory *tables, *blocks;
};

static void lay_out(struct layout *l, uint32_t regions, uint64_t region, uint64_t last,
		    uint32_t pages, bool multi, bool one_block)
{
	uint32_t n;

	memset(l, 0, sizeof(*l));
	l->t = (struct topa){
	    .region = region, .last = last, .regions = regions, .multi = multi, .pmi = true};
	assert_true(topa_size(&l->t, pages));
	l->tables = calloc(l->t.pages, sizeof(*l->tables));
	l->blocks = calloc(regions, sizeof(*l->blocks));
	assert_non_null(l->tables);
	assert_non_null(l->blocks);
	for (n = 0; n < l->t.pages; n++) {
		/* Pages that are neither contiguous nor in order. */
		l->tables[n] = (struct ptah_hal_memory){
		    .address = calloc(1, 4096),
		    .physical = TABLES_AT + (uint64_t)(n ^ 1) * 0x3000,
		    .size = 4096,
		};
		assert_non_null(l->tables[n].address);
	}
	for (n = 0; n < regions; n++)
		l->blocks[n].physical = BUFFER_AT + (one_block ? n : regions - 1 - n) * region;
	l->t.tables = l->tables;
	l->t.blocks = l->blocks;
	l->t.nblocks = one_block ? 1 : regions;
	topa_build(&l->t);
}

static void tear_down(struct layout *l)
{
	uint32_t n;

	for (n = 0; n < l->t.pages; n++)
		free(l->tables[n].address);
	free(l->tables);
	free(l->blocks);
}

/* The processor's output. SDM "ToPA": index + 1 when a region is full; END is followed at once. */
struct walker {
	const struct layout *l;
	struct topa_place place;
	uint64_t written, ints; /* INT regions that were filled */
};

static uint64_t entry_at(const struct walker *w)
{
	return ((uint64_t *)w->l->tables[w->place.page].address)[w->place.index];
}

static uint64_t size_of(uint64_t entry)
{
	return UINT64_C(4096) << (entry >> 6 & 15);
}

static void next_entry(struct walker *w)
{
	uint32_t n;

	w->place.index++;
	w->place.offset = 0;
	if (!(entry_at(w) & 1))
		return;
	for (n = 0; n < w->l->t.pages; n++) {
		if (w->l->tables[n].physical == (entry_at(w) & ~UINT64_C(0xfff)))
			break;
	}
	assert_true(n < w->l->t.pages);
	w->place.page = n;
	w->place.index = 0;
}

/* The address of the next byte. */
static uint64_t address_of(const struct walker *w)
{
	return (entry_at(w) & ~UINT64_C(0xfff)) + w->place.offset;
}

static void write_bytes(struct walker *w, uint64_t n)
{
	while (n) {
		uint64_t room = size_of(entry_at(w)) - w->place.offset;
		uint64_t step = room < n ? room : n;

		w->place.offset += step;
		w->written += step;
		n -= step;
		if (step == room) {
			w->ints += (entry_at(w) & PTAH_TOPA_INT) != 0;
			next_entry(w);
		}
	}
}

/* The address where the buffer's byte at this position should be, in each lap. */
static uint64_t expected_address(const struct layout *l, uint64_t position)
{
	uint32_t r = 0;

	position %= (l->t.regions - 1) * l->t.region + l->t.last;
	while (position >= l->t.region && r < l->t.regions - 1) {
		position -= l->t.region;
		r++;
	}
	return (l->t.nblocks == 1 ? l->blocks[0].physical + r * l->t.region
				  : l->blocks[r].physical) +
	       position;
}

static uint64_t random_below(uint64_t n)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % n;
}

static void follow(const struct layout *l, unsigned steps)
{
	struct walker w = {.l = l};
	uint64_t before = 0, position, ints;
	unsigned i;

	for (i = 0; i < steps; i++) {
		uint64_t n = i % 5 == 0	  ? i % 2
			     : i % 5 == 1 ? l->t.lap
			     : i % 5 == 2 ? l->t.region + (i & 3) - 1
					  : random_below(l->t.cycle);
		struct topa_place at;

		if (n >= l->t.cycle)
			n = l->t.cycle - 1;
		ints = w.ints;
		write_bytes(&w, n);
		assert_int_equal(address_of(&w), expected_address(l, w.written));
		assert_true(topa_position(&l->t, w.place, before, false, &position));
		assert_int_equal(position, w.written);
		assert_int_equal(topa_crosses_int(&l->t, before, position), w.ints != ints);
		at = topa_locate(&l->t, position);
		assert_int_equal(at.page, w.place.page);
		assert_int_equal(at.index, w.place.index);
		assert_int_equal(at.offset, w.place.offset);
		before = position;
	}
}

TEST(positions)
{
	static const uint32_t counts[] = {1, 2, 3, 255, 510, 511, 512, 1023};
	struct layout l;
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		lay_out(&l, counts[i], 4096, 4096, 0, true, true);
		follow(&l, 300);
		tear_down(&l);
		lay_out(&l, counts[i], 65536, 65536, 5, true, false);
		follow(&l, 200);
		tear_down(&l);
	}
	lay_out(&l, 2, UINT64_C(1) << 27, 4096, 0, true, true);
	follow(&l, 300);
	tear_down(&l);
	lay_out(&l, 32768, 4096, 4096, 0, true, true);
	assert_int_equal(l.t.pages, 65);
	follow(&l, 20);
	tear_down(&l);
}

/* At the end of a region with STOP the registers stay: this is a full cycle, not an empty one. */
TEST(stopped_after_a_cycle)
{
	struct layout l;
	uint64_t position, q, before;

	lay_out(&l, 511, 4096, 4096, 0, true, true);
	assert_int_equal(l.t.laps, 1);
	for (q = 0; q < 1100; q += 37) {
		uint32_t k = (uint32_t)(q % 511);

		before = q * 4096;
		assert_true(topa_position(&l.t, (struct topa_place){0, k ? k - 1 : 510, 4096},
					  before, true, &position));
		assert_int_equal(position, before + l.t.cycle);
		assert_true(
		    topa_position(&l.t, (struct topa_place){0, k, 0}, before, false, &position));
		assert_int_equal(position, before);
	}
	/* The next step follows END. */
	assert_true(topa_position(&l.t, (struct topa_place){0, 511, 0}, 4096, false, &position));
	assert_int_equal(position, 511 * 4096);
	assert_false(topa_position(&l.t, (struct topa_place){0, 511, 1}, 0, false, &position));
	assert_false(topa_position(&l.t, (struct topa_place){0, 512, 0}, 0, false, &position));
	assert_false(topa_position(&l.t, (struct topa_place){0, 3, 4097}, 0, false, &position));
	assert_false(topa_position(&l.t, (struct topa_place){1, 0, 0}, 0, false, &position));
	tear_down(&l);
}

TEST(marks)
{
	struct layout l;
	uint32_t k, ints;

	/* At least two INT bits in a cycle, and never on the last entry. */
	lay_out(&l, 3, 4096, 4096, 0, true, true);
	for (k = ints = 0; k < l.t.entries; k++)
		ints += (((uint64_t *)l.tables[0].address)[k] & PTAH_TOPA_INT) != 0;
	assert_int_equal(ints, 2);
	assert_false(((uint64_t *)l.tables[0].address)[l.t.entries - 1] & PTAH_TOPA_INT);
	/* As many in each lap as requested. */
	l.t.pmis = 2;
	topa_build(&l.t);
	for (k = ints = 0; k < l.t.entries; k++)
		ints += (((uint64_t *)l.tables[0].address)[k] & PTAH_TOPA_INT) != 0;
	assert_int_equal(ints, 2 * l.t.laps);
	topa_mark_stop(&l.t, 600, true);
	assert_true(topa_is_stop(&l.t, 600));
	assert_true(topa_is_stop(&l.t, 600 + l.t.entries));
	assert_false(topa_is_stop(&l.t, 601));
	topa_mark_stop(&l.t, 600, false);
	for (k = 0; k < l.t.entries; k++)
		assert_false(topa_is_stop(&l.t, k));
	tear_down(&l);
}

static unsigned judge(struct layout *l, unsigned bits, bool multi, struct topa_place place)
{
	struct topa_fault fault;
	bool sound = topa_check(l->tables, l->t.pages, bits, multi, place, &fault);

	assert_int_equal(sound, fault.kind == TOPA_SOUND);
	return fault.kind;
}

/* Each rule of SDM "ToPA Errors", broken in one entry. */
TEST(validator)
{
	const struct topa_place start = {0};
	struct layout l;
	uint64_t *entry, good;
	unsigned bit;

	lay_out(&l, 1023, 8192, 8192, 0, true, true);
	assert_int_equal(judge(&l, 39, true, start), TOPA_SOUND);
	assert_int_equal(judge(&l, 39, true, (struct topa_place){2, 0, 8191}), TOPA_SOUND);
	assert_int_equal(judge(&l, 39, true, (struct topa_place){2, 0, 8192}), TOPA_OFFSET);
	assert_int_equal(judge(&l, 39, true, (struct topa_place){3, 0, 0}), TOPA_FOREIGN_TABLE);
	assert_int_equal(judge(&l, 39, false, start), TOPA_SINGLE);
	assert_int_equal(judge(&l, 35, true, start), TOPA_RESERVED);
	entry = (uint64_t *)l.tables[1].address + 200;
	good = *entry;
	for (bit = 0; bit < 64; bit++) {
		bool reserved =
		    bit == 1 || bit == 3 || bit == 5 || bit == 10 || bit == 11 || bit >= 39;

		*entry = good | UINT64_C(1) << bit;
		if (reserved)
			assert_int_equal(judge(&l, 39, true, start), TOPA_RESERVED);
		if (bit == 2 || bit == 4)
			assert_int_equal(judge(&l, 39, true, start), TOPA_SOUND);
	}
	*entry = (good & ~UINT64_C(0x1fff)) | 1u << 6 | 0x1000; /* 8 KB at 4 KB */
	assert_int_equal(judge(&l, 39, true, start), TOPA_UNALIGNED);
	*entry = good;
	entry = (uint64_t *)l.tables[1].address + 511;
	good = *entry;
	*entry = good | PTAH_TOPA_INT;
	assert_int_equal(judge(&l, 39, true, start), TOPA_END_FLAGS);
	*entry = good | PTAH_TOPA_STOP;
	assert_int_equal(judge(&l, 39, true, start), TOPA_END_FLAGS);
	*entry = good + 0x1000;
	assert_int_equal(judge(&l, 39, true, start), TOPA_FOREIGN_TABLE);
	*entry = *(uint64_t *)l.tables[1].address;
	assert_int_equal(judge(&l, 39, true, start), TOPA_NO_END);
	*entry = good;
	entry = l.tables[2].address;
	good = *entry;
	*entry = l.tables[0].physical | PTAH_TOPA_END;
	assert_int_equal(judge(&l, 39, true, start), TOPA_END_FIRST);
	*entry = good;
	l.tables[1].physical += 0x80;
	assert_int_equal(judge(&l, 39, true, (struct topa_place){1, 0, 0}), TOPA_UNALIGNED);
	l.tables[1].physical -= 0x80;
	assert_int_equal(judge(&l, 39, true, start), TOPA_SOUND);
	tear_down(&l);

	/* Single-entry: after its one region, each table has an END to itself. */
	lay_out(&l, 4, 4096, 4096, 0, false, true);
	assert_int_equal(judge(&l, 39, false, (struct topa_place){3, 0, 0}), TOPA_SOUND);
	((uint64_t *)l.tables[3].address)[1] = l.tables[2].physical | PTAH_TOPA_END;
	assert_int_equal(judge(&l, 39, false, (struct topa_place){3, 0, 0}), TOPA_SINGLE);
	tear_down(&l);
}

TEST(sizes)
{
	struct topa t = {.region = 4096, .last = 4096, .regions = 512, .multi = true};

	assert_false(topa_size(&t, 1));
	assert_true(topa_size(&t, 2));
	assert_int_equal(t.laps, 1);
	assert_int_equal(t.pages, 2);
	t.regions = 1;
	assert_true(topa_size(&t, 0));
	assert_int_equal(t.laps, 511);
	assert_int_equal(t.cycle, 511 * 4096);
	t.regions = 511;
	assert_true(topa_size(&t, 3));
	assert_int_equal(t.laps, 3);
	assert_int_equal(t.pages, 3);
}
