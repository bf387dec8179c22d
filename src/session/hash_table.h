/* SPDX-License-Identifier: MIT */
/*
 * The hash tables of a session: from numbers to array indices, and of strings that are stored once.
 * Recordings come from strangers: with lists instead, a file of some megabytes could keep the
 * decoder busy for hours.
 */
#ifndef PTAH_SESSION_HASH_TABLE_H
#define PTAH_SESSION_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct table_entry {
	uint32_t key;
	size_t value; /* SIZE_MAX: the entry is free */
};

struct table {
	struct table_entry *entries;
	size_t capacity, count; /* capacity: 0 or a power of two */
};

/* The value of a key; SIZE_MAX: it has none. */
size_t table_get(const struct table *t, uint32_t key);

/* Sets or replaces the value of a key. 0 or PTAH_E_NOMEM. */
int table_set(struct table *t, uint32_t key, size_t value);
void table_free(struct table *t);

struct strings {
	char **entries;
	size_t capacity, count;
};

/*
 * Returns the only copy of text[0..n), up to its first NUL and NUL-terminated. NULL: out of memory.
 */
const char *strings_keep(struct strings *s, const char *text, size_t n);
void strings_free(struct strings *s);

#endif
