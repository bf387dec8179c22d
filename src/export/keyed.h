/* SPDX-License-Identifier: MIT */
/*
 * Rows that are found by their first bytes: a hash table of structures, each stored once and
 * numbered from 1 on in the order of appearance.
 */
#ifndef PTAH_EXPORT_KEYED_H
#define PTAH_EXPORT_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0 but the sizes: empty. */
struct keyed {
	size_t row_size;
	size_t key_size; /* the first bytes of a row, padding included: a multiple of 8 */
	uint8_t *rows;
	uint32_t *slots; /* numbers; 0: free */
	size_t room, capacity;
	uint32_t count;
};

/*
 * The number of the row with the key of `row`, which is added (and *is_new set) if there is none.
 * 0: out of memory, or there are 2^31 rows.
 */
uint32_t keyed_number(struct keyed *k, const void *row, bool *is_new);

/* The row with a number. It moves when another one is added. */
static inline void *keyed_row(const struct keyed *k, uint32_t number)
{
	return k->rows + (size_t)(number - 1) * k->row_size;
}

void keyed_free(struct keyed *k);

#endif
