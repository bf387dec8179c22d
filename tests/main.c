/* SPDX-License-Identifier: MIT */
/* The main function of test programs: runs what TEST() of test.h defined. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>

static struct {
	struct CMUnitTest *tests;
	int *lines;
	size_t count;
	CMFixtureFunction set_up, tear_down;
} defined;

/* Constructors run in no order that compilers promise: the order is that of the lines. */
void test_define(const struct CMUnitTest *test, int line)
{
	size_t at = defined.count++;

	defined.tests = realloc(defined.tests, defined.count * sizeof(*defined.tests));
	defined.lines = realloc(defined.lines, defined.count * sizeof(*defined.lines));
	if (!defined.tests || !defined.lines)
		abort();
	for (; at && defined.lines[at - 1] > line; at--) {
		defined.tests[at] = defined.tests[at - 1];
		defined.lines[at] = defined.lines[at - 1];
	}
	defined.tests[at] = *test;
	defined.lines[at] = line;
}

void test_define_group(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	defined.set_up = set_up;
	defined.tear_down = tear_down;
}

int main(void)
{
	int failed = _cmocka_run_group_tests(program_invocation_short_name, defined.tests,
					     defined.count, defined.set_up, defined.tear_down);

	free(defined.tests);
	free(defined.lines);
	return failed;
}
