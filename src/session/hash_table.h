/* SPDX-License-Identifier: MIT */
/*
 * Hash tables of the session: numbers to array indices, and strings that are
 * kept once. Recordings come from strangers, so that looking through lists
 * would let a file of some megabytes keep us busy for hours.
 */
#ifndef PTAH_SESSION_HASH_TABLE_H
#define PTAH_SESSION_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_entry {
	uint32_t key;
	size_t value; /* SIZE_MAX: free */
};

struct table {
	struct table_entry *entries;
	size_t capacity, count; /* capacity: 0 or a power of two */
};

/* The value of a key, SIZE_MAX when it has none. */
size_t table_get(const struct table *t, uint32_t key);

/* Sets or replaces. 0 or PTAH_E_NOMEM. */
int table_set(struct table *t, uint32_t key, size_t value);
void table_free(struct table *t);

struct strings {
	char **entries;
	size_t capacity, count;
};

/* The one copy of text[0..n), NUL-terminated and up to its first NUL. NULL when memory is out. */
const char *strings_keep(struct strings *s, const char *text, size_t n);
void strings_free(struct strings *s);

#endif
