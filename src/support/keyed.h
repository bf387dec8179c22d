/* SPDX-License-Identifier: MIT */
/*
 * Rows that are found by their first bytes: structures, each stored once and numbered from 1 on in
 * the order of appearance.
 */
#ifndef PTAH_SUPPORT_KEYED_H
#define PTAH_SUPPORT_KEYED_H

#include "support/index.h"

/* All 0 but the sizes: empty. */
struct keyed {
	size_t row_size;
	size_t key_size; /* the first bytes of a row, padding included */
	uint32_t most;	 /* rows; 0: 2^31 */
	uint8_t *rows;
	size_t room;
	uint32_t count;
	struct index index;
};

/*
 * The number of the row with the key of `row`, which is added (and *is_new set) if there is none.
 * 0: out of memory, or there are as many rows as there may be.
 */
uint32_t keyed_number(struct keyed *k, const void *row, bool *is_new);

/* The row with a number. It moves when another one is added. */
static inline void *keyed_row(const struct keyed *k, uint32_t number)
{
	return k->rows + (size_t)(number - 1) * k->row_size;
}

/* Forgets all rows; the memory stays. */
void keyed_clear(struct keyed *k);
void keyed_free(struct keyed *k);

#endif
