/* SPDX-License-Identifier: MIT */
/*
 * Calls that return: recursion of any depth, mutual recursion, callbacks of libraries, pointers,
 * functions that an IFUNC resolver chooses, and computed goto between them.
 */
#include "call_log.h"

#include <search.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned sum;

NOINLINE static unsigned deep(unsigned n)
{
	return n ? deep(n - 1) + 1 : 0;
}

NOINLINE static unsigned tree(unsigned n)
{
	return n < 2 ? n : tree(n - 1) + tree(n - 2);
}

NOINLINE static int odd(unsigned n);

NOINLINE static int even(unsigned n)
{
	const int result = n == 0 || odd(n - 1);

	sum++;
	return result;
}

NOINLINE static int odd(unsigned n)
{
	const int result = n != 0 && even(n - 1);

	sum++;
	return result;
}

NOINLINE static unsigned ackermann(unsigned m, unsigned n)
{
	if (!m)
		return n + 1;
	return ackermann(m - 1, n ? ackermann(m, n - 1) : 1) + 0 * sum;
}

/* Callbacks: frames of libc lie between those of the program. */

NOINLINE static int by_value(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

NOINLINE static void visit(const void *node, VISIT order, int depth)
{
	sum += order + (unsigned)depth + (node != NULL);
}

NOINLINE static void callbacks(void)
{
	int values[40];
	void *root = NULL;

	for (int i = 0; i < 40; i++)
		values[i] = i * 7919 % 101;
	qsort(values, 40, sizeof(*values), by_value);
	for (int i = 0; i < 40; i += 3)
		tsearch(&values[i], &root, by_value);
	twalk(root, visit);
	while (root)
		tdelete(*(int **)root, &root, by_value);
}

/* An indirect function: the dynamic linker calls the resolver, before there is a log. */

NOINLINE static unsigned chosen(unsigned n)
{
	return deep(n % 3) + 1;
}

QUIET static unsigned (*choose(void))(unsigned)
{
	return chosen;
}

unsigned indirect(unsigned n) __attribute__((ifunc("choose")));

NOINLINE static unsigned by_pointer(unsigned (*const table[])(unsigned), unsigned n)
{
	return table[n % 3](n) + table[(n + 1) % 3](n);
}

/* Computed goto: many indirect jumps inside of a function, which are no calls. */
NOINLINE static unsigned interpret(const char *program)
{
	static const void *const operations[] = {&&stop, &&deeper, &&add, &&again};
	unsigned value = 1;

	goto *operations[(unsigned char)*program];
deeper:
	value += deep(value & 7);
	goto *operations[(unsigned char)*++program];
add:
	value += 3;
	goto *operations[(unsigned char)*++program];
again:
	value ^= tree(value & 3);
	goto *operations[(unsigned char)*++program];
stop:
	return value;
}

NOINLINE static unsigned dense(unsigned n)
{
	switch (n % 9) {
	case 0:
		return deep(1);
	case 1:
		return tree(2);
	case 2:
		return chosen(n);
	case 3:
		return n * 7;
	case 4:
		return n ^ 4;
	case 5:
		return deep(3) + tree(3);
	case 6:
		return sum;
	case 7:
		return 7;
	default:
		return indirect(n);
	}
}

__attribute__((constructor)) static void begin(void)
{
	sum = deep(2);
}

__attribute__((destructor)) static void end(void)
{
	sum = deep(2);
}

NOINLINE static void at_exit(void)
{
	sum += tree(3);
}

int main(void)
{
	static unsigned (*const table[])(unsigned) = {deep, chosen, indirect};
	char text[64];

	atexit(at_exit);
	sum += deep(0) + deep(1) + deep(100) + tree(10);
	sum += deep(20000);
	sum += (unsigned)even(24) + (unsigned)odd(17) + ackermann(2, 3);
	callbacks();
	for (unsigned i = 0; i < 9; i++)
		sum += indirect(i) + by_pointer(table, i) + dense(i);
	sum += interpret("\1\2\3\1\1\2\3\3\2");
	/* Lazy binding, the first call and later ones. */
	for (int i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), "%u %d", sum, i);
		sum += (unsigned)strlen(text) + (unsigned)strtol("12", NULL, 10);
	}
	exit(0);
}
