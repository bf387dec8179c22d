/* SPDX-License-Identifier: MIT */
/*
 * Large memory of tests, between pages that cannot be accessed. With AddressSanitizer malloc()
 * writes to the shadow of all that it returns, used or not, and free() again: where a test takes
 * megabytes a thousand times and uses few of them, that was most of its time. An access behind the
 * end ends the program here as well, also in builds without sanitizers.
 */
#ifndef PTAH_TESTS_PAGES_H
#define PTAH_TESTS_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGES_SIZE ((size_t)4096)

static inline size_t pages_whole(size_t size)
{
	return (size + PAGES_SIZE - 1) / PAGES_SIZE * PAGES_SIZE;
}

/* `size` bytes of zeros that end where an inaccessible page begins; they begin with a page if
 * `size` is a multiple of pages. */
static inline void *pages_new(size_t size)
{
	const size_t whole = pages_whole(size);
	uint8_t *p = mmap(NULL, whole + 2 * PAGES_SIZE, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED || mprotect(p + PAGES_SIZE, whole, PROT_READ | PROT_WRITE))
		abort();
	return p + PAGES_SIZE + (whole - size);
}

static inline void pages_free(void *address, size_t size)
{
	const size_t whole = pages_whole(size);

	if (munmap((uint8_t *)address - (whole - size) - PAGES_SIZE, whole + 2 * PAGES_SIZE))
		abort();
}

#endif
