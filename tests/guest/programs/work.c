/* SPDX-License-Identifier: MIT */
/*
 * work KIND [N]: a program that is recorded in the guest, with much of one kind of control flow:
 * threads, forks, exec, switches between processes, moves between processors, signals, calls.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile long sink;

/* Calls, conditional branches and returns, deeper than the 64 returns that a processor compresses.
 */
__attribute__((noinline)) long deep(int n)
{
	return n <= 0 ? 1 : deep(n - 1) + (n & 1);
}

/* The functions of the address filters. */
__attribute__((noinline)) long filtered(long x)
{
	for (int i = 0; i < 10; i++)
		x = x * 3 + (x & 4 ? i : -i);
	return x;
}

__attribute__((noinline)) long stopper(long x)
{
	return x ^ 5;
}

/* Indirect calls. */
static long plus(long x)
{
	return x + 1;
}
static long minus(long x)
{
	return x - 1;
}
static long (*volatile table[])(long) = {plus, minus, filtered, stopper};

static void some(int n)
{
	for (int i = 0; i < n; i++) {
		sink += deep(i % 100);
		sink = table[i & 3](sink);
	}
}

static void *thread(void *n)
{
	for (int i = 0; i < 4; i++) {
		some(*(int *)n);
		sched_yield();
	}
	return NULL;
}

static void threads(int n)
{
	pthread_t id[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&id[i], NULL, thread, &n);
	for (int i = 0; i < 4; i++)
		pthread_join(id[i], NULL);
}

static void forks(int n)
{
	for (int i = 0; i < n; i += 4) {
		for (int k = 0; k < 4; k++)
			if (fork() == 0) {
				some(5);
				_exit(0);
			}
		while (wait(NULL) > 0)
			;
	}
}

static void on_cpu(int cpu)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* Two processes on one processor, each waiting for the other. */
static void switches(int n)
{
	int there[2], back[2];
	char c = 0;
	if (pipe(there) != 0 || pipe(back) != 0)
		exit(1);
	on_cpu(0);
	if (fork() == 0) {
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1 && c != 'e')
			some(2);
		_exit(0);
	}
	for (int i = 1; i <= n; i++) {
		c = i == n ? 'e' : 'x';
		if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1)
			exit(1);
		some(2);
	}
	wait(NULL);
}

static void moves(int n)
{
	for (int i = 0; i < n; i++) {
		on_cpu(i & 1);
		some(10);
	}
}

static void on_signal(int number)
{
	sink += number;
}

static void signals(int n)
{
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < n; i++) {
		raise(SIGUSR1);
		some(1);
	}
}

/* Bursts with pauses, to be attached to; ends by itself after some seconds. */
static void bursts(int n)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	for (int i = 0; i < n; i++) {
		some(20);
		nanosleep(&pause, NULL);
	}
}

/* Calls of the vDSO. */
static void times(int n)
{
	struct timespec now;
	for (int i = 0; i < n; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sink += now.tv_nsec & 1;
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "some";
	int n = argc > 2 ? atoi(argv[2]) : 20;
	static const struct {
		const char *name;
		void (*run)(int);
	} kinds[] = {{"some", some},	     {"threads", threads}, {"forks", forks},
		     {"switches", switches}, {"moves", moves},	   {"signals", signals},
		     {"bursts", bursts},     {"times", times}};
	if (!strcmp(kind, "exec"))
		return execl(argv[0], argv[0], "some", argc > 2 ? argv[2] : "20", (char *)NULL);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kind, kinds[i].name)) {
			kinds[i].run(n);
			return 0;
		}
	return 2;
}
