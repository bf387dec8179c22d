/* SPDX-License-Identifier: MIT */
/*
 * work32: a 32-bit program, without a C library (so that none has to be installed), which makes
 * system calls by INT 80H.
 */
static volatile int sink;

static int system_call(int number, int a, const void *b, int c)
{
	int result;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(a), "c"(b), "d"(c)
			 : "memory");
	return result;
}

__attribute__((noinline)) int deep(int n)
{
	return n <= 0 ? 1 : deep(n - 1) + (n & 1);
}

static int plus(int x)
{
	return x + 1;
}
static int minus(int x)
{
	return x - 1;
}
static int (*volatile table[])(int) = {plus, minus};

void _start(void)
{
	for (int i = 0; i < 200; i++) {
		sink += deep(i % 80);
		sink = table[i & 1](sink);
		if (i % 50 == 0)
			system_call(4 /* write */, 1, "32\n", 3);
	}
	system_call(1 /* exit */, 0, 0, 0);
	for (;;)
		;
}
