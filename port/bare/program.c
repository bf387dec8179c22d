/* SPDX-License-Identifier: MIT */
/* The program whose path is recorded and printed. tests/record/bare.sh says which calls must be. */
#include "program.h"

#define NAME(function)                                                                             \
	extern const struct program_name name_of_##function;                                       \
	__attribute__((section(".names"), used))                                                   \
	const struct program_name name_of_##function = {(uintptr_t)(function), #function}

volatile unsigned steps;

TRACED unsigned gcd(unsigned a, unsigned b)
{
	return b ? gcd(b, a % b) : a;
}
NAME(gcd);

TRACED unsigned half(unsigned n)
{
	return n / 2;
}
NAME(half);

TRACED unsigned triple(unsigned n)
{
	return 3 * n + 1;
}
NAME(triple);

TRACED unsigned collatz(unsigned n)
{
	unsigned length = 0;

	for (; n != 1; length++)
		n = n % 2 ? triple(n) : half(n);
	return length;
}
NAME(collatz);

TRACED unsigned short_path(void)
{
	return gcd(48, 18) + collatz(6);
}
NAME(short_path);

TRACED void step(void)
{
	steps++;
}
NAME(step);

TRACED void long_path(unsigned n)
{
	while (n--)
		step();
}
NAME(long_path);

/* The invalid instruction comes last, so that a trace of a crash has this path at its end. */
TRACED void crash(unsigned n)
{
	long_path(n);
	short_path();
	__asm__ volatile("ud2");
}
NAME(crash);
