/* SPDX-License-Identifier: MIT */
/*
 * Handlers that interrupt a computation anywhere, several at a time, on a stack of their own; and
 * faults: left by siglongjmp, repaired in the handler, in the middle of rep movs, at an address
 * without code.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t ticks, users, faults;
static sigjmp_buf back;
static volatile int skip; /* bytes to skip after a fault; 0: siglongjmp */

static void on_tick(int signal)
{
	(void)signal;
	ticks++;
}

static void on_user(int signal, siginfo_t *info, void *context)
{
	(void)signal, (void)info, (void)context;
	users++;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)signal, (void)info;
	faults++;
	if (!skip)
		siglongjmp(back, 1);
	u->uc_mcontext.gregs[REG_RIP] +=
	    skip - 1; /* 1: stay, because a trap has advanced already */
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigaction(signal, &action, NULL);
}

static unsigned compute(unsigned seed)
{
	for (int i = 0; i < 1000; i++)
		seed = seed % 3 ? seed * 1103515245u + 12345u : seed ^ seed >> 3;
	return seed;
}

/* Two signals at once, repeatedly, from another process. */
static pid_t start_sender(void)
{
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < 300; i++) {
			kill(getppid(), SIGUSR1);
			kill(getppid(), SIGUSR2);
			usleep(300);
		}
		_exit(0);
	}
	return child;
}

static void interrupt(void)
{
	struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
	struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
	volatile unsigned sum = 0;
	pid_t child;

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &tick, NULL);
	handle(SIGUSR1, on_user, 0);
	handle(SIGUSR2, on_user, SA_ONSTACK);
	child = start_sender();
	setitimer(ITIMER_REAL, &every, NULL);
	/* A busy machine may not have let this process run while the other one was sending. */
	while (child) {
		for (int i = 0; i < 50; i++)
			sum = sum + compute(sum);
		if (waitpid(child, NULL, WNOHANG) == child)
			child = ticks < 20 || users < 20 ? start_sender() : 0;
	}
	setitimer(ITIMER_REAL, &never, NULL);
}

/* Faults of each kind, left by a jump and, where that makes sense, skipped. */
static void fault(void)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *bad = page + 4096;
	void (*nowhere)(void) = (void (*)(void))64; /* 0 means "no address" to perf */
	volatile int rounds = 0;

	mprotect(page + 4096, 4096, PROT_NONE);
	handle(SIGSEGV, on_fault, SA_NODEFER);
	handle(SIGILL, on_fault, SA_NODEFER);
	handle(SIGFPE, on_fault, SA_NODEFER);
	handle(SIGTRAP, on_fault, SA_NODEFER);
	for (rounds = 0; rounds < 10; rounds++) {
		skip = 0;
		if (!sigsetjmp(back, 1))
			*bad = 1;
		if (!sigsetjmp(back, 1))
			memset(page + 4000, 1, 4096);
		if (!sigsetjmp(back, 1)) {
			char *to = page + 4090;
			const char *from = page;
			size_t n = 100;

			__asm__ volatile("nop\n\trep movsb"
					 : "+D"(to), "+S"(from), "+c"(n)::"memory");
		}
		if (!sigsetjmp(back, 1))
			__asm__ volatile("call *%0" ::"r"(nowhere) : "memory");
		if (!sigsetjmp(back, 1))
			__asm__ volatile("ud2");
		if (!sigsetjmp(back, 1))
			__asm__ volatile("int3");
		skip = 3; /* ud2 has two bytes, and so has div */
		__asm__ volatile("nop\n\tud2\n\tnop" ::: "memory");
		__asm__ volatile("xor %%edx, %%edx\n\txor %%ecx, %%ecx\n\tdiv %%ecx\n\tnop" ::
				     : "eax", "ecx", "edx", "cc");
		skip = 1; /* int3 is a trap: the saved address is after it */
		__asm__ volatile("nop\n\tint3\n\tnop" ::: "memory");
	}
	if (faults != 90) {
		fprintf(stderr, "%d faults\n", (int)faults);
		exit(1);
	}
}

int main(void)
{
	interrupt();
	fault();
	return 0;
}
