/* SPDX-License-Identifier: MIT */
/* odd CASE: what few programs do. Prints what came of it. */
#include "report.h"

#include <fcntl.h>
#include <immintrin.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define SWITCHES 1000
#define SIGNALS	 300

static volatile sig_atomic_t signals;

static void count(int signal)
{
	(void)signal;
	signals++;
}

static void start_timer(void (*handler)(int))
{
	const struct itimerval often = {{0, 700}, {0, 700}};

	signal(SIGALRM, handler);
	setitimer(ITIMER_REAL, &often, NULL);
}

static void stop_timer(void)
{
	const struct itimerval never = {{0, 0}, {0, 0}};

	setitimer(ITIMER_REAL, &never, NULL);
}

/* The recorder has no descriptors of its own that it would miss. */
static int close_all(bool one_by_one)
{
	if (one_by_one)
		for (int i = 0; i < 65536; i++)
			close(i);
	else
		syscall(SYS_close_range, 0u, ~0u, 0);
	return open("/dev/null", O_RDONLY) == 0 ? 7 : 8;
}

static int count_descriptors(void)
{
	int n = 0;

	for (int i = 0; i < 100; i++)
		n += fcntl(i, F_GETFD) >= 0;
	report_number("open", n);
	report("another", open("/dev/null", O_RDONLY));
	report("and another", open("/dev/null", O_RDONLY));
	report("child", wait(NULL));
	return 6;
}

/* The next program has room for one descriptor, which its loader needs. */
static int allow_three(char *self)
{
	const struct rlimit three = {3, 3};
	int status;
	pid_t child;

	close(0);
	report("limit", setrlimit(RLIMIT_NOFILE, &three));
	child = fork();
	if (!child)
		execl(self, self, "count", NULL);
	report("waited", waitpid(child, &status, 0) == child ? 0 : -1);
	return WEXITSTATUS(status);
}

static int move_descriptors(void)
{
	const int out = fcntl(1, F_DUPFD, 500), in = dup(0);

	close(1);
	dup2(out, 1);
	close(0);
	dup2(in, 0);
	printf("moved\n");
	return 0;
}

/* Of a process that need not be a child of this one. */
static void await_end(pid_t pid)
{
	struct pollfd process = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	if (process.fd < 0)
		return; /* it has ended */
	poll(&process, 1, -1);
	close(process.fd);
}

/* What the daemon does after the command has ended is not recorded: so it is waited for. */
static int become_daemon(void)
{
	int ends[2], status = 0;
	pid_t pid;

	if (pipe(ends))
		return 1;
	if (!fork()) {
		setsid();
		if (!fork()) {
			umask(0);
			for (int i = 0; i < 3; i++)
				close(i);
			pid = getpid();
			_exit(chdir("/") || write(ends[1], &pid, sizeof(pid)) != sizeof(pid));
		}
		_exit(3);
	}
	wait(&status);
	if (read(ends[0], &pid, sizeof(pid)) != sizeof(pid))
		return 1;
	await_end(pid);
	report_number("status", WEXITSTATUS(status));
	return 0;
}

/* 30 children with three each. */
static int fork_many(void)
{
	long sum = 0;
	int status;

	for (int i = 0; i < 30; i++)
		if (!fork()) {
			for (int k = 0; k < 3; k++)
				if (!fork())
					_exit(1);
			while (wait(&status) > 0)
				sum += WEXITSTATUS(status);
			_exit((int)sum);
		}
	while (wait(&status) > 0)
		sum += WEXITSTATUS(status);
	report_number("children of children", sum);
	return 0;
}

static void take_trap(int signal, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	report_number("signal", signal);
	report_number("code", info->si_code);
	if (signal == SIGILL)
		u->uc_mcontext.gregs[REG_RIP] += 2; /* behind UD2 */
}

static int trap(void)
{
	struct sigaction action = {.sa_sigaction = take_trap, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);
	sigaction(SIGILL, &action, NULL);
	__asm__ volatile("int3\n\tud2\n\t.byte 0xcd, 0x03" ::: "memory");
	return 0;
}

static ucontext_t main_context, other;
static char other_stack[65536];

static void switch_back(void)
{
	for (int i = 0; i < SWITCHES; i++)
		swapcontext(&other, &main_context);
}

static int switch_contexts(void)
{
	start_timer(count);
	getcontext(&other);
	other.uc_stack.ss_sp = other_stack;
	other.uc_stack.ss_size = sizeof(other_stack);
	other.uc_link = &main_context;
	makecontext(&other, switch_back, 0);
	for (int i = 0; i < SWITCHES; i++)
		swapcontext(&main_context, &other);
	stop_timer();
	printf("switched\n");
	return 0;
}

__attribute__((target("avx512f"))) static void use_vectors(int signal)
{
	(void)signal;
	signals++;
	__asm__ volatile("vpternlogd $255, %%zmm17, %%zmm17, %%zmm17\n\tkxnorw %%k3, %%k3, %%k3" ::
			     : "xmm17", "k3");
}

/* Registers that only AVX-512 has, while handlers change them. */
__attribute__((target("avx512f"))) static int keep_vectors(void)
{
	long wrong = 0;

	if (!__builtin_cpu_supports("avx512f"))
		return 77;
	start_timer(use_vectors);
	for (long k = 0; signals < SIGNALS; k++) {
		long lane;
		int mask;

		__asm__ volatile("vpbroadcastq %2, %%zmm17\n\tkmovw %k2, %%k3\n\t"
				 ".rept 20\n\tnop\n\t.endr\n\t"
				 "vextracti32x4 $3, %%zmm17, %%xmm16\n\tvmovq %%xmm16, %0\n\t"
				 "kmovw %%k3, %1"
				 : "=r"(lane), "=r"(mask)
				 : "r"(k)
				 : "xmm16", "xmm17", "k3");
		wrong += lane != k || mask != (int)(k & 0xffff);
	}
	stop_timer();
	report_number("wrong", wrong);
	return 0;
}

int main(int argument_count, char **arguments)
{
	const char *what = argument_count > 1 ? arguments[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(what, "close_range"))
		return close_all(false);
	if (!strcmp(what, "close"))
		return close_all(true);
	if (!strcmp(what, "descriptors"))
		return move_descriptors();
	if (!strcmp(what, "three"))
		return allow_three(arguments[0]);
	if (!strcmp(what, "count"))
		return count_descriptors();
	if (!strcmp(what, "daemon"))
		return become_daemon();
	if (!strcmp(what, "forks"))
		return fork_many();
	if (!strcmp(what, "traps"))
		return trap();
	if (!strcmp(what, "contexts"))
		return switch_contexts();
	if (!strcmp(what, "vectors"))
		return keep_vectors();
	return 1;
}
