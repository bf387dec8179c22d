/* SPDX-License-Identifier: MIT */
/*
 * Calls by many paths, with work in each, that log themselves (tests/calls/programs/call_log.h):
 * recursion, callbacks of the library, functions that are called from several places, a thread.
 */
#include "call_log.h"

#include <pthread.h>
#include <stdlib.h>

static volatile unsigned sum;

NOINLINE static void work(unsigned n)
{
	for (unsigned i = 0; i < 200 * n; i++)
		sum += i;
}

NOINLINE static void leaf(void)
{
	work(1);
}

NOINLINE static void twice(void (*function)(void))
{
	work(2);
	function();
	function();
}

NOINLINE static void down(unsigned n)
{
	work(1);
	if (n)
		down(n - 1);
	else
		leaf();
}

NOINLINE static int compare(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	work(1);
	return (x > y) - (x < y);
}

NOINLINE static void strange(void)
{
	work(3);
	leaf();
}

NOINLINE static void *run(void *argument)
{
	work(5);
	twice(leaf);
	return argument;
}

int main(void)
{
	int values[] = {5, 3, 9, 1, 7, 2};
	pthread_t thread;

	for (unsigned i = 0; i < 3; i++)
		down(i * 4);
	twice(leaf);
	twice(strange);
	qsort(values, 6, sizeof(*values), compare);
	if (pthread_create(&thread, NULL, run, NULL))
		return 1;
	return pthread_join(thread, NULL);
}
