/* SPDX-License-Identifier: MIT */
/*
 * Hash tables from numbers to array indices, and of strings that are stored once. Their keys come
 * from strangers, too (index.h). All 0: empty.
 */
#ifndef PTAH_SUPPORT_TABLE_H
#define PTAH_SUPPORT_TABLE_H

#include "support/index.h"

struct table {
	struct table_entry {
		uint64_t key;
		size_t value; /* SIZE_MAX: the entry is free */
	} * entries;
	size_t capacity, count; /* capacity: 0 or a power of two */
	uint64_t secret[2];
};

/* The value of a key; SIZE_MAX: it has none. */
size_t table_get(const struct table *t, uint64_t key);

/* Sets or replaces the value of a key. 0 or PTAH_E_NOMEM. */
int table_set(struct table *t, uint64_t key, size_t value);

/*
 * The number of a key, from 1 on in the order of appearance, in a table that is used by this
 * function alone. *is_new: it had none. 0: it has none, and memory is short or `most` numbers are
 * taken.
 */
uint32_t table_number(struct table *t, uint64_t key, uint32_t most, bool *is_new);
void table_free(struct table *t);

struct strings {
	char **list;
	size_t count, room;
	struct index index;
};

/*
 * Returns the only copy of text[0..n), up to its first NUL and NUL-terminated. NULL: out of memory.
 */
const char *strings_keep(struct strings *s, const char *text, size_t n);
void strings_free(struct strings *s);

#endif
