/* SPDX-License-Identifier: MIT */
/* A static program for gdb to look back on: calls, returns, an indirect call, loops. */
static long twice(long x)
{
	return 2 * x;
}

static long plus(long x)
{
	return x + 1;
}

static long (*const table[])(long) = {twice, plus};

__attribute__((noinline)) static long fib(long n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

__attribute__((noinline)) static long each(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += table[i & 1](i);
	return sum;
}

__attribute__((noinline)) static void finish(long status)
{
	__asm__ volatile("syscall" : : "a"(60L), "D"(status) : "memory");
}

void begin(void)
{
	/* 5 + (0 + 2 + 4 + 4) */
	finish(fib(5) + each(4) != 15);
}

__asm__(".globl _start\n"
	"_start: xor %ebp, %ebp\n"
	"and $-16, %rsp\n"
	"call begin\n");
