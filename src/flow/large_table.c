/* SPDX-License-Identifier: MIT */
/* Zeroed tables from the heap, in a shared large page, or in large pages of their own. */
#include "flow/large_table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGE ((size_t)2 << 20)
#define LINE  64 /* of the cache */

/* So many bytes come from the heap before there is an arena. */
#define HEAP_FIRST ((size_t)192 << 10)

#if !defined(MADV_HUGEPAGE) || !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__)
#define HAS_ARENA false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ARENA false
#endif
#endif
#ifndef HAS_ARENA
#define HAS_ARENA true
#endif

/* Larger tables than this have pages of their own. */
#define HEAP_MOST (HAS_ARENA ? LARGE / 2 : LARGE)

#ifdef MADV_HUGEPAGE
static void *map(size_t n)
{
	void *memory = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Where the address space is too small for the detour to an aligned address, it is not aligned. */
static void *map_large(size_t n, bool huge)
{
	char *all = map(n + LARGE), *memory;

	if (!all)
		return map(n);
	memory = (char *)(((uintptr_t)all + LARGE - 1) & ~(uintptr_t)(LARGE - 1));
	if (memory > all)
		munmap(all, (size_t)(memory - all));
	if (memory < all + LARGE)
		munmap(memory + n, LARGE - (size_t)(memory - all));
	if (huge)
		madvise(memory, n, MADV_HUGEPAGE);
	return memory;
}

static bool is_mapped(size_t n)
{
	return n > HEAP_MOST;
}
#else
static void *map_large(size_t n, bool huge)
{
	(void)n;
	(void)huge;
	return NULL;
}

static bool is_mapped(size_t n)
{
	(void)n;
	return false;
}
#endif

/* `to` is a power of two. */
static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* The size of a table in pages of its own: whole large ones. */
static size_t mapped_size(size_t n)
{
	return round_up(n, LARGE);
}

struct arena_page {
	struct arena_page *next;
};

/* Takes n bytes of a new page. */
static void *take_of_new(struct flow_arena *a, size_t align, size_t n)
{
	const size_t at = LINE > align ? LINE : align;
	struct arena_page *page = map_large(LARGE, true);

	if (!page)
		return NULL;
	if (a->pages && a->used <= at + n) {
		page->next = a->pages->next;
		a->pages->next = page;
	} else {
		page->next = a->pages;
		a->pages = page;
		a->used = at + n;
	}
	return (char *)page + at;
}

/* Takes n bytes of the arena. NULL: they have to come from the heap. */
static void *take_arena_bytes(struct flow_arena *a, size_t align, size_t n)
{
	const size_t at = round_up(a->used, align);

	if (!HAS_ARENA || !a->huge)
		return NULL;
	if (!a->pages) {
		a->used += n;
		return a->used > HEAP_FIRST ? take_of_new(a, align, n) : NULL;
	}
	if (at > LARGE || n > LARGE - at)
		return take_of_new(a, align, n);
	a->used = at + n;
	return (char *)a->pages + at;
}

static bool lies_in(const struct flow_arena *a, const void *memory)
{
	for (const struct arena_page *page = a->pages; page; page = page->next)
		if ((uintptr_t)memory - (uintptr_t)page < LARGE)
			return true;
	return false;
}

void flow_arena_fini(struct flow_arena *a)
{
	for (struct arena_page *page = a->pages, *next; page; page = next) {
		next = page->next;
		munmap(page, LARGE);
	}
	a->pages = NULL;
	a->used = 0;
}

void *flow_table_new(struct flow_arena *a, size_t n)
{
	void *memory;

	if (is_mapped(n))
		return map_large(mapped_size(n), a->huge);
	memory = take_arena_bytes(a, LINE, n);
	return memory ? memory : calloc(1, n);
}

void flow_table_free(const struct flow_arena *a, void *table, size_t n)
{
	if (table && is_mapped(n))
		munmap(table, mapped_size(n));
	else if (!lies_in(a, table))
		free(table);
}

#ifdef MREMAP_FIXED
/*
 * The system call, because libraries that watch memory for MPI replace mremap() by a function that
 * drops the fifth argument (UCX 1.13, which comes with MPICH).
 */
static bool move_pages(void *from, size_t size, void *to)
{
	return syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
	       (long)(intptr_t)to;
}
#endif

void *flow_table_grow(struct flow_arena *a, void *table, size_t n, size_t used, size_t more)
{
	void *grown = flow_table_new(a, more);

#ifdef MREMAP_FIXED
	if (is_mapped(n)) { /* moves the pages themselves: nothing is copied */
		const size_t size = mapped_size(n);
		void *moved;

		if (grown && move_pages(table, size, grown))
			return grown;
		if (grown)
			flow_table_free(a, grown, more);
		/* There may be room for a larger table, but not for both. */
		moved = mremap(table, size, mapped_size(more), MREMAP_MAYMOVE);
		return moved == MAP_FAILED ? NULL : moved;
	}
#endif
	if (!grown)
		return NULL;
	if (table)
		memcpy(grown, table, used);
	flow_table_free(a, table, n);
	return grown;
}

void *flow_aligned_new(struct flow_arena *a, size_t align, size_t n)
{
	void *memory = take_arena_bytes(a, align, n);

	return memory ? memory : aligned_alloc(align, n);
}

void flow_aligned_free(const struct flow_arena *a, void *memory)
{
	if (!lies_in(a, memory))
		free(memory);
}
