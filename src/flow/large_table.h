/* SPDX-License-Identifier: MIT */
/*
 * The tables of a flow and of its profile: zeroed memory that grows.
 *
 * Large tables are accessed at random, so they lie in large pages: that saves most page faults and
 * TLB misses (cc1plus: 88 MB of rows). A table must begin at the start of a large page, and
 * realloc() would move large pages as small ones, so these functions do it themselves. Large pages
 * are advice: the system may ignore it.
 *
 * Small tables come from the heap as long as they are few, and then from large pages that they
 * share, the arena. A short trace of much code fills 2 MB of tables within a millisecond or two.
 * Small pages of them cost about 1.2 us each, 600 us; one large page costs 70 to 140 us (measured
 * in a virtual machine, Linux 6.18). A table that has grown leaves its old place in the arena
 * unused.
 *
 * In debug builds and with AddressSanitizer there is no arena, and tables up to the size of a large
 * page come from the heap, where such tools find accesses outside of a table.
 */
#ifndef PTAH_FLOW_LARGE_TABLE_H
#define PTAH_FLOW_LARGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct flow_arena {
	bool huge;		  /* ask for large pages; without them there is no arena */
	struct arena_page *pages; /* the first of them has most room */
	size_t used; /* bytes of the first; before there is one, bytes taken from the heap */
};

/* Frees the arena, and with it the tables that lie in it. */
void flow_arena_fini(struct flow_arena *arena);

/* Zeroed memory of n bytes, NULL if there is none. */
void *flow_table_new(struct flow_arena *arena, size_t n);

/*
 * How many elements a full table of n should have: small tables have few sizes, because each leaves
 * its place in the arena unused.
 */
static inline size_t flow_table_more(size_t n)
{
	return n < 1024 ? 4 * n : 2 * n;
}

/* n: the size that was asked for. */
void flow_table_free(const struct flow_arena *arena, void *table, size_t n);

/*
 * Moves the first `used` of n bytes to a table of `more` bytes, of which the bytes from n on are
 * zero. NULL: the old table is unchanged.
 */
void *flow_table_grow(struct flow_arena *arena, void *table, size_t n, size_t used, size_t more);

/*
 * Memory of n bytes that begins at a multiple of `align`, a power of two and a divisor of n. Not
 * zeroed if it comes from the heap.
 */
void *flow_aligned_new(struct flow_arena *arena, size_t align, size_t n);
void flow_aligned_free(const struct flow_arena *arena, void *memory);

#endif
