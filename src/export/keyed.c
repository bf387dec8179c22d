/* SPDX-License-Identifier: MIT */
/* A hash table of rows with open addressing (keyed.h). */
#include "export/keyed.h"

#include <stdlib.h>
#include <string.h>

#define MOST (UINT32_C(1) << 31)

static size_t hash(const struct keyed *k, const void *row)
{
	uint64_t h = 0, word;

	for (size_t i = 0; i < k->key_size; i += sizeof(word)) {
		memcpy(&word, (const uint8_t *)row + i, sizeof(word));
		h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return (size_t)(h ^ h >> 32);
}

static size_t slot_of(const struct keyed *k, const void *row)
{
	size_t i = hash(k, row) & (k->capacity - 1);

	while (k->slots[i] && memcmp(keyed_row(k, k->slots[i]), row, k->key_size) != 0)
		i = (i + 1) & (k->capacity - 1);
	return i;
}

static bool grow_slots(struct keyed *k)
{
	const size_t capacity = k->capacity ? 2 * k->capacity : 256;
	uint32_t *slots = calloc(capacity, sizeof(*slots));

	if (!slots)
		return false;
	free(k->slots);
	k->slots = slots;
	k->capacity = capacity;
	for (uint32_t i = 1; i <= k->count; i++)
		slots[slot_of(k, keyed_row(k, i))] = i;
	return true;
}

static bool grow_rows(struct keyed *k)
{
	const size_t room = k->room ? 2 * k->room : 128;
	uint8_t *rows = reallocarray(k->rows, room, k->row_size);

	if (!rows)
		return false;
	k->rows = rows;
	k->room = room;
	return true;
}

uint32_t keyed_number(struct keyed *k, const void *row, bool *is_new)
{
	size_t slot;

	*is_new = false;
	if (2 * ((size_t)k->count + 1) > k->capacity && !grow_slots(k))
		return 0;
	slot = slot_of(k, row);
	if (k->slots[slot])
		return k->slots[slot];
	if (k->count == MOST || (k->count == k->room && !grow_rows(k)))
		return 0;
	*is_new = true;
	k->slots[slot] = ++k->count;
	memcpy(keyed_row(k, k->count), row, k->row_size);
	return k->count;
}

void keyed_free(struct keyed *k)
{
	free(k->rows);
	free(k->slots);
	k->rows = NULL;
	k->slots = NULL;
	k->room = k->capacity = 0;
	k->count = 0;
}
