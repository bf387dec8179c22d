/* SPDX-License-Identifier: MIT */
/* Zeroed tables in large pages, by mmap() and mremap(); small ones come from the heap. */
#include "flow/large_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE ((size_t)2 << 20)

#ifdef MADV_HUGEPAGE
static void *map_large(size_t n, bool huge)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *all = mmap(NULL, n + LARGE, PROT_READ | PROT_WRITE, flags, -1, 0), *memory;

	if (all == MAP_FAILED)
		return NULL;
	memory = (char *)(((uintptr_t)all + LARGE - 1) & ~(uintptr_t)(LARGE - 1));
	if (memory > all)
		munmap(all, (size_t)(memory - all));
	munmap(memory + n, LARGE - (size_t)(memory - all));
	if (huge)
		madvise(memory, n, MADV_HUGEPAGE);
	return memory;
}
#endif

/*
 * Sizes are a power of two times a few bytes. Above the size of a large page they are rounded up to
 * whole ones.
 */
static size_t table_size(size_t n)
{
	return n > LARGE ? (n + LARGE - 1) & ~(LARGE - 1) : n;
}

void *flow_table_new(size_t n, bool huge)
{
#ifdef MADV_HUGEPAGE
	if (n > LARGE)
		return map_large(table_size(n), huge);
#endif
	(void)huge;
	return calloc(1, n);
}

void flow_table_free(void *table, size_t n)
{
#ifdef MADV_HUGEPAGE
	if (table && n > LARGE)
		munmap(table, table_size(n));
	else
#endif
		free(table);
}

void *flow_table_grow(void *table, size_t n, size_t used, size_t more, bool huge)
{
	void *grown = flow_table_new(more, huge);

	if (!grown)
		return NULL;
#ifdef MREMAP_FIXED
	if (n > LARGE) { /* moves the pages themselves: nothing is copied */
		const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;

		if (mremap(table, table_size(n), table_size(n), flags, grown) == grown)
			return grown;
		flow_table_free(grown, more);
		return NULL;
	}
#endif
	if (table)
		memcpy(grown, table, used);
	flow_table_free(table, n);
	return grown;
}
