/* SPDX-License-Identifier: MIT */
/*
 * Functions that do not return to their callers: longjmp, signal handlers that are nested, run on
 * another stack, or leave by siglongjmp, and threads that end in the middle.
 */
#include "call_log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static volatile unsigned sum;

NOINLINE static unsigned deep(unsigned n)
{
	return n ? deep(n - 1) + 1 : 0;
}

/* setjmp and longjmp */

static jmp_buf back, outer_back;
static volatile unsigned long mark, outer_mark;

NOINLINE static void jump_out(unsigned n)
{
	if (!n)
		longjmp(back, 1);
	jump_out(n - 1);
	sum++;
}

NOINLINE static void jump(unsigned n)
{
	mark = calls_mark();
	if (!setjmp(back))
		jump_out(n);
	else
		calls_unwind(mark);
	sum += deep(n % 5);
}

NOINLINE static void jump_far(unsigned n)
{
	jump(n);
	if (n == 3)
		longjmp(outer_back, 1);
	jump_far(n - 1);
	sum++;
}

NOINLINE static void jumps(void)
{
	for (unsigned i = 0; i < 20; i++)
		jump(i * i % 150);
	outer_mark = calls_mark();
	if (!setjmp(outer_back))
		jump_far(9);
	else
		calls_unwind(outer_mark);
	sum += deep(2);
}

/* longjmp as a loop, and out of a callback of libc */

NOINLINE static int leave_early(const void *a, const void *b)
{
	if (*(const int *)a == 5 || *(const int *)b == 5)
		longjmp(back, 1);
	return 0;
}

NOINLINE static void loops(void)
{
	static int values[] = {1, 2, 3, 4, 5, 6, 7, 8};
	volatile unsigned turns = 0;

	mark = calls_mark();
	if (setjmp(back))
		calls_unwind(mark);
	if (turns++ < 10) {
		sum += deep(turns);
		longjmp(back, 1);
	}
	if (!setjmp(back))
		qsort(values, 8, sizeof(*values), leave_early);
	else
		calls_unwind(mark);
	deep(1);
}

/* Signals */

static sigjmp_buf signal_back;

NOINLINE static void on_signal(int number)
{
	sum += deep((unsigned)number % 4);
}

NOINLINE static void on_nested(int number)
{
	deep(1);
	if (number == SIGUSR2)
		raise(SIGUSR1);
	deep(2);
}

NOINLINE static void on_info(int number, siginfo_t *info, void *context)
{
	sum += (unsigned)number + (info != NULL) + (context != NULL);
	deep(3);
}

NOINLINE static void on_escape(int number)
{
	deep(2);
	siglongjmp(signal_back, number);
}

/* A fault in the middle of a function: the handler makes the page readable. */
static char *page;

NOINLINE static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	deep(1);
}

NOINLINE static unsigned touch(void)
{
	return (unsigned char)page[7] + deep(1);
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	sigaction(number, &action, NULL);
}

static void handle_info(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = handler;
	action.sa_flags = SA_SIGINFO | flags;
	sigaction(number, &action, NULL);
}

NOINLINE static void escape(void (*cause)(void))
{
	mark = calls_mark();
	if (!sigsetjmp(signal_back, 1))
		cause();
	else
		calls_unwind(mark);
	deep(1);
}

NOINLINE static void by_kill(void)
{
	deep(1);
	kill(getpid(), SIGTERM);
	sum++;
}

NOINLINE static void by_fault(void)
{
	deep(1);
	sum += *(volatile unsigned char *)16;
	sum++;
}

NOINLINE static void by_division(void)
{
	static volatile int zero;

	sum += (unsigned)(7 / zero);
	sum++;
}

NOINLINE static void signals(void)
{
	const stack_t other = {.ss_sp = malloc(65536), .ss_size = 65536};

	sigaltstack(&other, NULL);
	handle(SIGUSR1, on_signal, 0);
	for (int i = 0; i < 5; i++)
		raise(SIGUSR1);
	handle(SIGUSR2, on_nested, 0);
	raise(SIGUSR2);
	handle(SIGUSR1, on_signal, SA_ONSTACK);
	raise(SIGUSR1);
	raise(SIGUSR2);
	handle_info(SIGUSR1, on_info, SA_ONSTACK);
	kill(getpid(), SIGUSR1);

	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	handle_info(SIGSEGV, on_fault, 0);
	for (int i = 0; i < 3; i++) {
		mprotect(page, 4096, PROT_NONE);
		sum += touch();
	}

	handle(SIGTERM, on_escape, 0);
	handle(SIGSEGV, on_escape, SA_ONSTACK);
	handle(SIGFPE, on_escape, SA_NODEFER);
	for (int i = 0; i < 4; i++) {
		escape(by_kill);
		escape(by_fault);
		escape(by_division);
	}
}

/* Signals at any instruction */

static volatile sig_atomic_t alarms;

NOINLINE static void on_alarm(int number)
{
	alarms++;
	deep((unsigned)number % 3);
}

NOINLINE static void alarms_everywhere(void)
{
	const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};

	handle(SIGALRM, on_alarm, SA_RESTART);
	setitimer(ITIMER_REAL, &often, NULL);
	for (unsigned i = 0; alarms < 20 && i < 3000; i++)
		sum += deep(i % 7);
	setitimer(ITIMER_REAL, &never, NULL);
}

int main(int argc, char **argv)
{
	(void)argv;
	jumps();
	loops();
	signals();
	if (argc > 1)
		alarms_everywhere();
	deep(1);
	return 0;
}
