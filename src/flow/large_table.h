/* SPDX-License-Identifier: MIT */
/*
 * Tables that are accessed at random lie in large pages: that saves most page faults and TLB misses
 * (cc1plus: 88 MB of rows). A table must begin at the start of a large page, and realloc() would
 * move large pages as small ones, so these functions do it themselves. Large pages are advice: the
 * system may ignore it.
 */
#ifndef PTAH_FLOW_LARGE_TABLE_H
#define PTAH_FLOW_LARGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory of n bytes, NULL if there is none. `huge`: ask for large pages. */
void *flow_table_new(size_t n, bool huge);

/* n: the size that was asked for. */
void flow_table_free(void *table, size_t n);

/*
 * Moves the first `used` of n bytes to a table of `more` bytes. NULL: the old table is unchanged.
 */
void *flow_table_grow(void *table, size_t n, size_t used, size_t more, bool huge);

#endif
