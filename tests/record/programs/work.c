/* SPDX-License-Identifier: MIT */
/* A library with one function: see ranges.c. */
unsigned long work(unsigned long x);

static volatile unsigned long sum;

unsigned long work(unsigned long x)
{
	for (unsigned long i = 0; i < (x & 7); i++)
		sum += i;
	return x * 7;
}
