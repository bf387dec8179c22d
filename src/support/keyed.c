/* SPDX-License-Identifier: MIT */
/* Finds rows by their first bytes (keyed.h). */
#include "support/keyed.h"

#include "support/index.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

#define MOST (UINT32_C(1) << 31)

uint32_t keyed_number(struct keyed *k, const void *row, bool *is_new)
{
	uint32_t hash, number;

	*is_new = false;
	if (!index_reserve(&k->index))
		return 0;
	hash = index_hash_bytes(&k->index, row, k->key_size);
	INDEX_FIND(number, &k->index, hash, !memcmp(keyed_row(k, number), row, k->key_size));
	if (number)
		return number;
	if (k->count == (k->most ? k->most : MOST) ||
	    (k->count == k->room &&
	     !list_grow(&k->rows, k->count, 1, &k->room, sizeof(k->room), k->row_size)))
		return 0;
	*is_new = true;
	index_add(&k->index, hash, ++k->count);
	memcpy(keyed_row(k, k->count), row, k->row_size);
	return k->count;
}

void keyed_clear(struct keyed *k)
{
	index_clear(&k->index);
	k->count = 0;
}

void keyed_free(struct keyed *k)
{
	free(k->rows);
	index_free(&k->index);
	k->rows = NULL;
	k->room = 0;
	k->count = 0;
}
