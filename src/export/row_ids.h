/* SPDX-License-Identifier: MIT */
/*
 * Numbers for what becomes a row of a database: maps from pairs of numbers, and from bytes, to row
 * numbers. All 0: empty.
 */
#ifndef PTAH_EXPORT_ROW_IDS_H
#define PTAH_EXPORT_ROW_IDS_H

#include "support/index.h"
#include "support/keyed.h"

struct pair_ids {
	struct keyed rows;
};

/*
 * The value of a pair, until the next call; 0 in it: the pair is new, and the caller sets it.
 * NULL: out of memory.
 */
int64_t *pair_ids_at(struct pair_ids *ids, uint64_t a, uint64_t b);
void pair_ids_clear(struct pair_ids *ids);
void pair_ids_free(struct pair_ids *ids);

/* The same for keys of bytes. They get the values 1, 2, 3 and so on. */
struct text_ids {
	struct text_id {
		uint8_t *key; /* malloc */
		size_t size;
	} * keys;
	size_t count, room;
	struct index index;
};

/* 0: out of memory. *added: the key is new. */
int64_t text_ids_of(struct text_ids *ids, const void *key, size_t size, bool *added);
void text_ids_free(struct text_ids *ids);

#endif
