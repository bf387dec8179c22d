/* SPDX-License-Identifier: MIT */
/*
 * A program without a library, in which callgrind counts the same instructions as a trace has:
 * loops, functions with several callers, pointers, inlined code, and no recursion, for which
 * callgrind has rules of its own.
 */
static volatile unsigned sum;

static inline __attribute__((always_inline)) void inlined(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sum += i;
}

static __attribute__((noinline)) unsigned leaf(unsigned n)
{
	inlined(n);
	return n & 3;
}

static __attribute__((noinline)) unsigned middle(unsigned n, unsigned (*function)(unsigned))
{
	unsigned result = 0;

	for (unsigned i = 0; i < n; i++)
		result += i % 3 ? leaf(i) : function(i);
	return result;
}

static __attribute__((noinline)) unsigned other(unsigned n)
{
	return n > 10 ? leaf(n) + leaf(1) : 0;
}

__attribute__((noreturn, used)) static void begin(void)
{
	unsigned status = middle(40, other) + middle(17, leaf) + leaf(100);

	status &= 0;
	__asm__ volatile("syscall" : : "a"(60), "D"(status) : "rcx", "r11");
	__builtin_unreachable();
}

__asm__(".globl _start\n"
	".type _start, @function\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	call begin\n"
	".size _start, . - _start\n");
