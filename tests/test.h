/* SPDX-License-Identifier: MIT */
/* Included by every cmocka test: the headers that cmocka.h needs before it, and cmocka.h. */
#ifndef PTAH_TESTS_TEST_H
#define PTAH_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka.h must come after the headers above. */
#include <cmocka.h>

/* cmocka's comparison is slow, byte by byte: it is called only to print a difference. */
static inline void test_same_bytes(const void *a, const void *b, size_t size, const char *file,
				   int line)
{
	if (memcmp(a, b, size))
		_assert_memory_equal(a, b, size, file, line);
}

/*
 * How many random programs a test takes: `all` of them in gcc's build without sanitizers, where
 * their results are compared, and the first `few` in the others. These are four times slower, or
 * repeat the release build with clang; `few` is enough for every kind of program and configuration.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
#define RANDOM_PROGRAMS(all, few) (few)
#else
#define RANDOM_PROGRAMS(all, few) (all)
#endif

#undef assert_memory_equal
#define assert_memory_equal(a, b, size) test_same_bytes((a), (b), (size), __FILE__, __LINE__)

#endif
