/* SPDX-License-Identifier: MIT */
/*
 * Calls of other kinds than those of timed_calls.c, with a log of the same form: timed_kinds LOG.
 * They nest, come from libc, end by longjmp(), begin by a signal, go on with another stack running,
 * and meet pages for the first time.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

enum {
	ROUNDS = 100,
	LINES = 1 << 16,
	PAGE = 4096,
	STACK = 65536
};

static struct line {
	const char *name;
	char sign;
	uint64_t tsc;
} lines[LINES];
static unsigned line_count;

static volatile uint64_t state = 88172645463325252u;
static jmp_buf back;
static ucontext_t outside, inside;
static char stack[STACK];
static char *pages;

/* The compiler moves nothing over the calls of volatile assembly. */
#define LOG(the_sign)                                                                              \
	do {                                                                                       \
		struct line *l = &lines[line_count++];                                             \
		l->name = __func__;                                                                \
		l->sign = the_sign;                                                                \
		_mm_lfence();                                                                      \
		l->tsc = __rdtsc();                                                                \
		_mm_lfence();                                                                      \
	} while (0)

#define FUNCTION(name, parameter, ...)                                                             \
	__attribute__((noinline)) static void name(parameter)                                      \
	{                                                                                          \
		LOG('+');                                                                          \
		__VA_ARGS__;                                                                       \
		LOG('-');                                                                          \
	}

static void compute(long n)
{
	uint64_t x = state;

	for (long i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	state = x;
}

FUNCTION(time_recursive, long n, compute(50); if (n) time_recursive(n - 1); compute(20))
FUNCTION(time_jump, long n, compute(100 * n); if (n % 3) longjmp(back, 1))
FUNCTION(time_set, long n, if (!setjmp(back)) time_jump(n); compute(100))
FUNCTION(time_handler, int signal, compute(10 * signal))
FUNCTION(time_raise, void, compute(50); raise(SIGUSR1))
FUNCTION(time_inside, void, compute(500); swapcontext(&inside, &outside); compute(500))
FUNCTION(time_outside, void, compute(200); swapcontext(&outside, &inside))
FUNCTION(time_touch, long n, for (long i = 0; i < 10; i++) pages[(10 * n + i) * PAGE] = 1)

static int time_compare(const void *a, const void *b)
{
	int order;

	LOG('+');
	compute(5);
	order = *(const int *)a - *(const int *)b;
	LOG('-');
	return order;
}

FUNCTION(time_sort, void, int list[20]; for (int i = 0; i < 20; i++) list[i] = i * 7919 % 97;
	 qsort(list, 20, sizeof(list[0]), time_compare))

static void switch_stacks(void)
{
	getcontext(&inside);
	inside.uc_stack.ss_sp = stack;
	inside.uc_stack.ss_size = sizeof(stack);
	inside.uc_link = &outside;
	makecontext(&inside, time_inside, 0);
	time_outside();
	time_outside();
}

int main(int argc, char **argv)
{
	const int tid = (int)syscall(SYS_gettid);
	FILE *f = argc > 1 ? fopen(argv[1], "w") : NULL;

	pages = mmap(NULL, (size_t)10 * ROUNDS * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!f || pages == MAP_FAILED || signal(SIGUSR1, time_handler) == SIG_ERR)
		return 2;
	for (long i = 0; i < ROUNDS; i++) {
		time_recursive(i % 30);
		time_set(i);
		time_raise();
		switch_stacks();
		time_touch(i);
		time_sort();
	}
	for (unsigned i = 0; i < line_count; i++)
		fprintf(f, "%d %c %s %lu\n", tid, lines[i].sign, lines[i].name, lines[i].tsc);
	return fclose(f) ? 1 : 0;
}
