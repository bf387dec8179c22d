/* SPDX-License-Identifier: MIT */
/*
 * Loaded before a command, it lets one of ptah's own allocations fail, the one of the number in
 * FAIL_AT, or with FAIL_ON all from then on. Those of libraries go on: some end the process when
 * there is no memory, which is not what is tested. FAIL_COUNT=1 prints how many there were.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t n);

static atomic_long count;
static _Thread_local bool inside; /* of dladdr() */

static bool is_ours(const void *caller)
{
	Dl_info info;
	bool ours;

	if (inside)
		return false;
	inside = true;
	ours = dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "ptah");
	inside = false;
	return ours;
}

static bool fails(const void *caller)
{
	const char *at = getenv("FAIL_AT");
	long n;

	if (!is_ours(caller))
		return false;
	n = atomic_fetch_add(&count, 1) + 1;
	if (!at || n < atol(at) || (n > atol(at) && !getenv("FAIL_ON")))
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t n)
{
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, n);
}

void *reallocarray(void *old, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}

__attribute__((destructor)) static void print_count(void)
{
	if (getenv("FAIL_COUNT"))
		fprintf(stderr, "%ld allocations\n", (long)count);
}
