/* SPDX-License-Identifier: MIT */
/*
 * Checks what a program could see of being single-stepped: TF in pushed flags, SIGTRAP's mask and
 * handler, traps of its own, system calls that are interrupted. Exits with 0 if everything is as
 * without a tracer.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TF 0x100u

static volatile sig_atomic_t traps, alarms;

static void check(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "traps: %s (%s)\n", what, strerror(errno));
		exit(1);
	}
}

static void on_trap(int signal)
{
	(void)signal;
	traps = traps + 1;
}

static void on_alarm(int signal)
{
	(void)signal;
	alarms = alarms + 1;
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	check(!sigaction(signal, &action, NULL), "sigaction");
}

static uint64_t flags_now(void)
{
	uint64_t flags;

	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tpopq %0\n\tlea 128(%%rsp), %%rsp"
			 : "=r"(flags)
			 :
			 : "memory");
	return flags;
}

/* R11 after a SYSCALL has RFLAGS. */
static uint64_t flags_of_call(void)
{
	register uint64_t flags __asm__("r11");
	long result = 39; /* getpid */

	__asm__ volatile("syscall" : "+a"(result), "=r"(flags) : : "rcx", "memory");
	return flags;
}

static void flags(void)
{
	uint16_t word;

	for (int i = 0; i < 100; i++) {
		check(!(flags_now() & TF), "PUSHFQ shows TF");
		__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfw\n\tpopw %0\n\t"
				 "lea 128(%%rsp), %%rsp"
				 : "=r"(word)
				 :
				 : "memory");
		check(!(word & TF), "PUSHFW shows TF");
		check(!(flags_of_call() & TF), "SYSCALL shows TF");
	}
}

static void mask(void)
{
	sigset_t set, now;
	struct sigaction action;

	handle(SIGTRAP, on_trap, 0);
	sigfillset(&set);
	check(!sigprocmask(SIG_BLOCK, &set, NULL), "sigprocmask");
	for (volatile int i = 0; i < 100; i++)
		;
	raise(SIGTRAP);
	for (volatile int i = 0; i < 100; i++)
		;
	check(traps == 0, "a blocked SIGTRAP came");
	check(!sigprocmask(SIG_BLOCK, NULL, &now) && sigismember(&now, SIGTRAP) == 1,
	      "SIGTRAP is not blocked");
	check(!sigpending(&now) && sigismember(&now, SIGTRAP) == 1, "SIGTRAP is not pending");
	check(!sigaction(SIGTRAP, NULL, &action) && action.sa_handler == on_trap,
	      "SIGTRAP has lost its handler");
	check(!sigprocmask(SIG_UNBLOCK, &set, NULL), "sigprocmask");
	check(traps == 1, "SIGTRAP did not come once");
}

static void own_traps(void)
{
	traps = 0;
	__asm__ volatile("int3");
	__asm__ volatile("int3");
	check(traps == 2, "INT3 twice");
	kill(getpid(), SIGTRAP);
	check(traps == 3, "kill(SIGTRAP)");
}

/* TF set by the program: a trap after each of three NOPs and after the POPF that clears it. */
static void own_steps(void)
{
	traps = 0;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "pushfq\n\t"
			 "pushfq\n\t"
			 "orq $0x100, (%%rsp)\n\t"
			 "popfq\n\t"
			 "nop\n\t"
			 "nop\n\t"
			 "nop\n\t"
			 "popfq\n\t"
			 "lea 128(%%rsp), %%rsp"
			 :
			 :
			 : "memory", "cc");
	check(traps == 4, "four steps");
	check(!(flags_now() & TF), "TF is gone");
}

/* Waits until the parent sleeps at ten looks in a row, which is in read() and nowhere before. */
static void wait_until_parent_sleeps(void)
{
	char path[32], text[512], *state;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)getppid());
	fd = open(path, O_RDONLY);
	for (int looks = 0; fd >= 0 && looks < 10; usleep(20000)) {
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

		if (n <= 0)
			break;
		text[n] = '\0';
		state = strrchr(text, ')');
		looks = state && state[2] == 'S' ? looks + 1 : 0;
	}
	close(fd);
}

/* A child that signals its parent, which reads what arrives later. */
static void calls(int flags, int expected)
{
	int ends[2];
	char byte = 0;
	pid_t child;
	ssize_t n;

	alarms = 0;
	handle(SIGUSR1, on_alarm, flags);
	check(!pipe(ends), "pipe");
	child = fork();
	if (!child) {
		wait_until_parent_sleeps();
		kill(getppid(), SIGUSR1);
		usleep(200000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	n = read(ends[0], &byte, 1);
	check(expected ? n < 0 && errno == expected : n == 1 && byte == 'x', "read");
	check(alarms == 1, "one signal");
	check(waitpid(child, NULL, 0) == child, "waitpid");
	close(ends[0]);
	close(ends[1]);
}

/* sigsuspend() has a mask of its own, and restores the old one. */
static void suspend(void)
{
	sigset_t set, old, now;

	alarms = 0;
	handle(SIGALRM, on_alarm, 0);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaddset(&set, SIGTRAP);
	check(!sigprocmask(SIG_BLOCK, &set, &old), "sigprocmask");
	alarm(1);
	sigdelset(&set, SIGALRM);
	check(sigsuspend(&set) < 0 && errno == EINTR && alarms == 1, "sigsuspend");
	check(!sigprocmask(SIG_BLOCK, NULL, &now) && sigismember(&now, SIGALRM) == 1 &&
		  sigismember(&now, SIGTRAP) == 1,
	      "the mask behind sigsuspend");
	check(!sigprocmask(SIG_SETMASK, &old, NULL), "sigprocmask");
}

int main(void)
{
	flags();
	mask();
	own_traps();
	own_steps();
	calls(SA_RESTART, 0);
	calls(0, EINTR);
	suspend();
	return 0;
}
