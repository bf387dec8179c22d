/* SPDX-License-Identifier: MIT */
/* Numbers for strings that are known by their addresses: for formats that write each string once.
 */
#ifndef PTAH_EXPORT_INTERNED_H
#define PTAH_EXPORT_INTERNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0: empty. */
struct interned {
	const void **keys;
	uint32_t *numbers;
	size_t capacity; /* 0 or a power of two */
	uint32_t count;
};

/*
 * The number of a key, from 1 on in the order of appearance. *is_new: it had none. 0: it has none,
 * and memory is short or `most` numbers are taken.
 */
uint32_t interned_number(struct interned *in, const void *key, uint32_t most, bool *is_new);
void interned_free(struct interned *in);

#endif
