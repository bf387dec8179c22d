/* SPDX-License-Identifier: MIT */
/* Counts by block and by edge: an array in the order of first use, with a hash table over it. */
#include "profile/profile_internal.h"

#include "base/hash.h"
#include "flow/large_table.h"

#include <stdlib.h>

#define FIRST_SLOTS    1024
#define FIRST_OF_ARENA 256 /* a coverage of a short trace needs no more */

static size_t first_slots(const struct tally *t)
{
	return t->arena ? FIRST_OF_ARENA : FIRST_SLOTS;
}

static uint32_t hash(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t h = hash_number(a) ^ rotate_left(b * UINT64_C(0xd6e8feb86659fd93), 29) ^ c;

	return (uint32_t)(hash_number(h) >> 20);
}

static uint32_t hash_block(const struct tally_block *b)
{
	return hash(b->ip ^ b->version << 8, b->end ^ b->target_version << 8, b->head ^ b->space);
}

static uint32_t hash_edge(const struct tally_edge *e)
{
	return hash(e->from ^ e->version << 8, e->to ^ e->target_version << 8,
		    e->space << 8 | e->mode);
}

/* Makes room for `more` items of `size` bytes. */
static bool make_tally_room(struct tally *t, size_t size, size_t more)
{
	size_t capacity = t->capacity ? t->capacity : first_slots(t) / 2;
	void *items;

	if (t->capacity - t->count >= more)
		return true;
	while (capacity - t->count < more && capacity < UINT32_MAX)
		capacity = t->arena ? flow_table_more(capacity) : 2 * capacity;
	if (capacity >= UINT32_MAX)
		return false;
	if (t->arena)
		items = flow_table_grow(t->arena, t->items, t->capacity * size, t->count * size,
					capacity * size);
	else
		items = realloc(t->items, capacity * size);
	if (!items)
		return false;
	t->items = items;
	t->item_size = size;
	t->capacity = capacity;
	return true;
}

static void free_slots(struct tally *t)
{
	if (t->arena)
		flow_table_free(t->arena, t->slots, t->slot_count * sizeof(*t->slots));
	else
		free(t->slots);
}

/* Makes twice as many slots as `items` and at least twice as many as before. */
static bool rehash(struct tally *t, size_t items)
{
	size_t n = t->slot_count ? 2 * t->slot_count : first_slots(t);
	struct tally_slot *slots;

	while (2 * items > n)
		n *= 2;
	slots = t->arena ? flow_table_new(t->arena, n * sizeof(*slots)) : calloc(n, sizeof(*slots));
	if (!slots)
		return false;
	for (size_t i = 0; i < t->slot_count; i++) {
		size_t at = t->slots[i].hash & (n - 1);

		if (!t->slots[i].item)
			continue;
		while (slots[at].item)
			at = (at + 1) & (n - 1);
		slots[at] = t->slots[i];
	}
	free_slots(t);
	t->slots = slots;
	t->slot_count = n;
	return true;
}

struct tally_block *tally_block(struct tally *t, const struct tally_block *key)
{
	struct tally_block *b;
	const uint32_t hash = hash_block(key);
	size_t at;

	if (2 * (t->count + 1) > t->slot_count && !rehash(t, t->count + 1))
		return NULL;
	for (at = hash & (t->slot_count - 1); t->slots[at].item;
	     at = (at + 1) & (t->slot_count - 1)) {
		if (t->slots[at].hash != hash)
			continue;
		b = (struct tally_block *)t->items + t->slots[at].item - 1;
		if (b->ip == key->ip && b->end == key->end && b->head == key->head &&
		    b->space == key->space && b->version == key->version &&
		    b->target_version == key->target_version)
			return b;
	}
	if (!make_tally_room(t, sizeof(*b), 1))
		return NULL;
	t->slots[at] = (struct tally_slot){(uint32_t)++t->count, hash};
	b = (struct tally_block *)t->items + t->count - 1;
	*b = *key;
	b->count = b->taken = b->unknown = 0;
	return b;
}

struct tally_edge *tally_edge(struct tally *t, const struct tally_edge *key)
{
	struct tally_edge *e;
	const uint32_t hash = hash_edge(key);
	size_t at;

	if (2 * (t->count + 1) > t->slot_count && !rehash(t, t->count + 1))
		return NULL;
	for (at = hash & (t->slot_count - 1); t->slots[at].item;
	     at = (at + 1) & (t->slot_count - 1)) {
		if (t->slots[at].hash != hash)
			continue;
		e = (struct tally_edge *)t->items + t->slots[at].item - 1;
		if (e->from == key->from && e->to == key->to && e->space == key->space &&
		    e->mode == key->mode && e->insn_class == key->insn_class &&
		    e->version == key->version && e->target_version == key->target_version)
			return e;
	}
	if (!make_tally_room(t, sizeof(*e), 1))
		return NULL;
	t->slots[at] = (struct tally_slot){(uint32_t)++t->count, hash};
	e = (struct tally_edge *)t->items + t->count - 1;
	*e = *key;
	e->count = 0;
	return e;
}

static bool reserve_tally_slots(struct tally *t, size_t size, size_t more)
{
	if (more > UINT32_MAX || !make_tally_room(t, size, more))
		return false;
	return 2 * (t->count + more) <= t->slot_count || rehash(t, t->count + more);
}

bool tally_reserve_blocks(struct tally *t, size_t more)
{
	return reserve_tally_slots(t, sizeof(struct tally_block), more);
}

bool tally_reserve_edges(struct tally *t, size_t more)
{
	return reserve_tally_slots(t, sizeof(struct tally_edge), more);
}

void tally_clear(struct tally *t)
{
	t->count = 0;
	if (t->slots)
		memset(t->slots, 0, t->slot_count * sizeof(*t->slots));
}

void tally_free(struct tally *t)
{
	if (t->arena)
		flow_table_free(t->arena, t->items, t->capacity * t->item_size);
	else
		free(t->items);
	free_slots(t);
	memset(t, 0, sizeof(*t));
}
