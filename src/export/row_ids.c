/* SPDX-License-Identifier: MIT */
/* Hash tables from keys to row numbers (row_ids.h): open addressing, at most half full. */
#include "export/row_ids.h"

#include "support/list.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

static struct pair_id *find_pair(struct pair_id *slots, size_t room, uint64_t a, uint64_t b)
{
	size_t i = (size_t)mix(mix(a) + b) & (room - 1);

	while (slots[i].value && (slots[i].a != a || slots[i].b != b))
		i = (i + 1) & (room - 1);
	return &slots[i];
}

static bool grow_pairs(struct pair_ids *ids)
{
	const size_t room = ids->room ? 2 * ids->room : 1024;
	struct pair_id *slots = calloc(room, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < ids->room; i++)
		if (ids->slots[i].value)
			*find_pair(slots, room, ids->slots[i].a, ids->slots[i].b) = ids->slots[i];
	free(ids->slots);
	ids->slots = slots;
	ids->room = room;
	return true;
}

int64_t *pair_ids_at(struct pair_ids *ids, uint64_t a, uint64_t b)
{
	struct pair_id *slot;

	if (2 * ids->count >= ids->room && !grow_pairs(ids))
		return NULL;
	slot = find_pair(ids->slots, ids->room, a, b);
	if (!slot->value) {
		slot->a = a;
		slot->b = b;
		ids->count++;
	}
	return &slot->value;
}

void pair_ids_clear(struct pair_ids *ids)
{
	if (ids->room)
		memset(ids->slots, 0, ids->room * sizeof(*ids->slots));
	ids->count = 0;
}

void pair_ids_free(struct pair_ids *ids)
{
	free(ids->slots);
	*ids = (struct pair_ids){0};
}

static uint64_t hash_bytes(const uint8_t *key, size_t size)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ key[i]) * UINT64_C(0x100000001b3);
	return mix(hash);
}

static uint32_t *find_text(const struct text_ids *ids, const uint8_t *key, size_t size,
			   uint64_t hash)
{
	size_t i = (size_t)hash & (ids->room - 1);

	for (; ids->slots[i]; i = (i + 1) & (ids->room - 1)) {
		const struct text_id *k = &ids->keys[ids->slots[i] - 1];

		if (k->hash == hash && k->size == size && !memcmp(k->key, key, size))
			break;
	}
	return &ids->slots[i];
}

static bool grow_texts(struct text_ids *ids)
{
	const size_t room = ids->room ? 2 * ids->room : 256;
	uint32_t *slots = calloc(room, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t k = 0; k < ids->count; k++) {
		size_t i = (size_t)ids->keys[k].hash & (room - 1);

		while (slots[i])
			i = (i + 1) & (room - 1);
		slots[i] = (uint32_t)k + 1;
	}
	free(ids->slots);
	ids->slots = slots;
	ids->room = room;
	return true;
}

static bool add_text(struct text_ids *ids, const void *key, size_t size, uint64_t hash)
{
	uint8_t *copy;

	if (!LIST_ROOM(ids->keys, ids->count, ids->key_room))
		return false;
	copy = malloc(size + 1);
	if (!copy)
		return false;
	memcpy(copy, key, size);
	ids->keys[ids->count].key = copy;
	ids->keys[ids->count].size = size;
	ids->keys[ids->count++].hash = hash;
	return true;
}

int64_t text_ids_of(struct text_ids *ids, const void *key, size_t size, bool *added)
{
	const uint64_t hash = hash_bytes(key, size);
	uint32_t *slot;

	*added = false;
	if (2 * ids->count >= ids->room && !grow_texts(ids))
		return 0;
	slot = find_text(ids, key, size, hash);
	if (!*slot) {
		if (ids->count >= UINT32_MAX - 1 || !add_text(ids, key, size, hash))
			return 0;
		*slot = (uint32_t)ids->count;
		*added = true;
	}
	return *slot;
}

void text_ids_free(struct text_ids *ids)
{
	for (size_t i = 0; i < ids->count; i++)
		free(ids->keys[i].key);
	free(ids->keys);
	free(ids->slots);
	*ids = (struct text_ids){0};
}
