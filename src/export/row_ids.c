/* SPDX-License-Identifier: MIT */
/* Finds the row numbers of pairs and of bytes (row_ids.h). */
#include "export/row_ids.h"

#include "support/index.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

struct pair_id {
	uint64_t a, b;
	int64_t value;
};

int64_t *pair_ids_at(struct pair_ids *ids, uint64_t a, uint64_t b)
{
	const struct pair_id row = {a, b, 0};
	uint32_t number;
	bool is_new;

	ids->rows.row_size = sizeof(row);
	ids->rows.key_size = offsetof(struct pair_id, value);
	number = keyed_number(&ids->rows, &row, &is_new);
	return number ? &((struct pair_id *)keyed_row(&ids->rows, number))->value : NULL;
}

void pair_ids_clear(struct pair_ids *ids)
{
	keyed_clear(&ids->rows);
}

void pair_ids_free(struct pair_ids *ids)
{
	keyed_free(&ids->rows);
}

static bool has_bytes(const struct text_id *known, const void *key, size_t size)
{
	return known->size == size && !memcmp(known->key, key, size);
}

int64_t text_ids_of(struct text_ids *ids, const void *key, size_t size, bool *added)
{
	uint32_t hash, number;
	uint8_t *copy;

	*added = false;
	if (!index_reserve(&ids->index) || !LIST_ROOM(ids->keys, ids->count, ids->room))
		return 0;
	hash = index_hash_bytes(&ids->index, key, size);
	INDEX_FIND(number, &ids->index, hash, has_bytes(&ids->keys[number - 1], key, size));
	if (number)
		return number;
	copy = ids->count < UINT32_MAX ? malloc(size + 1) : NULL;
	if (!copy)
		return 0;
	memcpy(copy, key, size);
	ids->keys[ids->count++] = (struct text_id){copy, size};
	index_add(&ids->index, hash, (uint32_t)ids->count);
	*added = true;
	return (int64_t)ids->count;
}

void text_ids_free(struct text_ids *ids)
{
	for (size_t i = 0; i < ids->count; i++)
		free(ids->keys[i].key);
	free(ids->keys);
	index_free(&ids->index);
	*ids = (struct text_ids){0};
}
