/* SPDX-License-Identifier: MIT */
/*
 * filter [N [wait]]: functions that call each other many times, for address filters and small
 * buffers. "wait": not before a byte, or the end, of standard input.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long sink, done;

NOINLINE static void handler(int signal)
{
	(void)signal;
	sink += 7;
}

NOINLINE static unsigned long leaf(unsigned long x)
{
	for (unsigned i = 0; i < (x & 3); i++)
		sink += i;
	return x * 2654435761u;
}

NOINLINE static unsigned long middle(unsigned long x, unsigned long (*f)(unsigned long))
{
	if (x % 5000 == 4999)
		raise(SIGUSR1);
	if (x & 1)
		x += leaf(x);
	return f(x) + leaf(x >> 3);
}

NOINLINE static void finish(void)
{
	done = 1;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000, sum = 0;
	char byte;

	if (argc > 2 && read(0, &byte, 1) < 0)
		return 1;
	signal(SIGUSR1, handler);
	for (unsigned long i = 0; i < n; i++)
		sum += middle(i, leaf);
	finish();
	return write(1, &sum, sizeof(sum)) != (ssize_t)sizeof(sum);
}
