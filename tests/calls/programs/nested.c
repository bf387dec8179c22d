/* SPDX-License-Identifier: MIT */
/*
 * gcc's nested functions: called by way of code on the stack, which belongs to no function, and
 * left by a goto to a label of the function around them.
 */
#include "call_log.h"

#include <stdlib.h>

static volatile int sum;

NOINLINE static void sorted(int by)
{
	int values[20];

	NOINLINE int compare(const void *a, const void *b)
	{
		const int x = *(const int *)a % by, y = *(const int *)b % by;

		return (x > y) - (x < y);
	}

	for (int i = 0; i < 20; i++)
		values[i] = i * 37 % 23;
	qsort(values, 20, sizeof(*values), compare);
	sum += values[0];
}

NOINLINE static int leaves(int n)
{
	__label__ out;
	const unsigned long mark = calls_mark();
	int depth = 0;

	NOINLINE void down(int k)
	{
		depth++;
		if (!k)
			goto out;
		down(k - 1);
		depth--;
	}

	down(n);
	return 0;
out:
	calls_unwind(mark);
	return depth;
}

int main(void)
{
	for (int i = 2; i < 6; i++)
		sorted(i);
	for (int i = 0; i < 5; i++)
		sum += leaves(i);
	return 0;
}
