/* SPDX-License-Identifier: MIT */
/* What the programs of system_calls.sh print: results that are the same in each run. */
#ifndef PTAH_TESTS_NATIVE_REPORT_H
#define PTAH_TESTS_NATIVE_REPORT_H

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Prints whether a call succeeded, or its error. */
static inline void report(const char *what, long result)
{
	printf("%s: %s\n", what, result == -1 ? strerror(errno) : "done");
}

static inline void report_number(const char *what, long number)
{
	printf("%s: %ld\n", what, number);
}

#endif
