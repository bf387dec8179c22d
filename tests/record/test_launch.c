/* SPDX-License-Identifier: MIT */
/*
 * QEMU is started so that the program in it sees its environment in order. The judge is what QEMU
 * 7.2 does: it puts each variable of its own environment, then each of -E, before those that it has
 * put already.
 */
#include "test.h"

#include "record/qemu/launch.h"

#include <stdlib.h>
#include <string.h>

#define MAX 16

/* The environment that a program in QEMU would see. */
static size_t seen(char *const *arguments, char *const *environment, const char **list)
{
	const char *given[MAX];
	size_t n = 0;

	for (; *environment; environment++)
		given[n++] = *environment;
	for (; *arguments; arguments++)
		if (!strcmp(*arguments, "-E"))
			given[n++] = arguments[1];
	for (size_t i = 0; i < n; i++)
		list[i] = given[n - 1 - i];
	return n;
}

static void expect(char *const *environment, const char *const *expected, size_t own)
{
	char program[] = "/bin/x", argument[] = "a";
	char *argv[] = {argument, NULL};
	const struct command command = {program, argv};
	char **arguments = launch_arguments("qemu", "plugin", &command, environment, false);
	char **left = launch_environment(environment);
	const char *list[MAX];
	size_t n;

	assert_non_null(arguments);
	assert_non_null(left);
	n = seen(arguments, left, list);
	for (size_t i = 0; i < n; i++)
		assert_string_equal(list[i], expected[i]);
	assert_null(expected[n]);
	for (n = 0; left[n]; n++)
		;
	assert_int_equal(n, own);
	free(arguments);
	free(left);
}

TEST(variables_keep_their_order)
{
	char *none[] = {NULL};
	char *plain[] = {"A=1", "B=x,y", "C=", NULL};
	char *emulators[] = {"A=1", "QEMU_LOG=exec", "B=2", "LD_PRELOAD=z.so", "C=x,y", NULL};
	char *comma[] = {"A=x,y", "LD_LIBRARY_PATH=/l", "B=2", NULL};
	char *own_comma[] = {"A=1", "LD_AUDIT=a,b", NULL};

	expect(none, (const char *const[]){NULL}, 0);
	expect(plain, (const char *const[]){"A=1", "B=x,y", "C=", NULL}, 3);
	expect(
	    emulators,
	    (const char *const[]){"A=1", "QEMU_LOG=exec", "B=2", "LD_PRELOAD=z.so", "C=x,y", NULL},
	    1);
	expect(comma, (const char *const[]){"LD_LIBRARY_PATH=/l", "A=x,y", "B=2", NULL}, 2);
	expect(own_comma, (const char *const[]){"A=1", "LD_AUDIT=a,b", NULL}, 1);
}

TEST(the_command_comes_last)
{
	static const char *const expected[] = {"qemu", "-plugin", "plugin", "-seed", "1",
					       "-0",   "name",	  "/bin/x", "",	     "-v"};
	char program[] = "/bin/x", name[] = "name", empty[] = "", option[] = "-v";
	char *argv[] = {name, empty, option, NULL}, *none[] = {NULL};
	const struct command command = {program, argv};
	char **arguments = launch_arguments("qemu", "plugin", &command, none, true);

	assert_non_null(arguments);
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++)
		assert_string_equal(arguments[i], expected[i]);
	assert_null(arguments[sizeof(expected) / sizeof(*expected)]);
	free(arguments);
}

TEST(commas_are_doubled)
{
	char *quoted = launch_quote("a,b,,c");

	assert_string_equal(quoted, "a,,b,,,,c");
	free(quoted);
}
