/* SPDX-License-Identifier: MIT */
/*
 * Included by every cmocka test: the headers that cmocka.h needs before it, cmocka.h, and TEST().
 *
 *	TEST(lines_are_counted)
 *	{
 *		assert_int_equal(count_lines("a\nb\n"), 2);
 *	}
 *
 * is a test, which main() of main.c runs. TEST_WITH(name, set_up, tear_down) is one with functions
 * of its own before and after it, which may leave something in *state, and
 * TEST_GROUP(set_up, tear_down) names those of the whole program; NULL: none. A program that has to
 * do more defines main() itself, and lists its tests as cmocka does.
 */
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

/* For TEST(). */
void test_define(const struct CMUnitTest *test, int line);
void test_define_group(CMFixtureFunction set_up, CMFixtureFunction tear_down);

#define TEST_WITH(name, set_up, tear_down)                                                         \
	static void name(void **state);                                                            \
	__attribute__((constructor)) static void name##_defined(void)                              \
	{                                                                                          \
		test_define(&(const struct CMUnitTest){#name, name, set_up, tear_down, NULL},      \
			    __LINE__);                                                             \
	}                                                                                          \
	static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_WITH(name, NULL, NULL)

#define TEST_GROUP(set_up, tear_down)                                                              \
	__attribute__((constructor)) static void test_group_defined(void)                          \
	{                                                                                          \
		test_define_group(set_up, tear_down);                                              \
	}

#undef assert_memory_equal
#define assert_memory_equal(a, b, size) test_same_bytes((a), (b), (size), __FILE__, __LINE__)

#endif
