/* SPDX-License-Identifier: MIT */
/*
 * Tables that are looked up all over lie in large pages: that saves most of the
 * faults and of the TLB's misses (cc1plus: 88 MB of rows). They must begin at
 * one, and a realloc() moves large pages as small ones. What the system makes of
 * the advice is its affair.
 */
#ifndef PTAH_FLOW_LARGE_TABLE_H
#define PTAH_FLOW_LARGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Memory of n bytes, all 0. NULL: there is none. `huge`: large pages are asked for. */
void *flow_table_new(size_t n, bool huge);

/* n: its size, as it was asked for. */
void flow_table_free(void *table, size_t n);

/* `used` of n bytes, now in another table of more bytes. NULL: as it was. */
void *flow_table_grow(void *table, size_t n, size_t used, size_t more, bool huge);

#endif
