/* SPDX-License-Identifier: MIT */
/*
 * Threads that return, end in the middle, are cancelled, and take signals; with an argument the
 * process forks, executes itself, and forks by vfork.
 */
#include "call_log.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic unsigned sum;

NOINLINE static unsigned deep(unsigned n)
{
	return n ? deep(n - 1) + 1 : 0;
}

/* A thread ends by longjmp from one cleanup handler to the next. */
struct cleanup {
	unsigned long mark;
	unsigned n;
};

NOINLINE static void clean_up(unsigned n)
{
	sum += deep(n);
}

QUIET static void unwound(void *argument)
{
	const struct cleanup *c = argument;

	calls_unwind(c->mark);
	clean_up(c->n);
}

NOINLINE static void *returns(void *argument)
{
	for (unsigned i = 0; i < 30; i++)
		sum += deep(i % 6);
	return argument;
}

NOINLINE static void leave(unsigned n)
{
	struct cleanup c = {calls_mark(), n};

	if (!n)
		pthread_exit(NULL);
	pthread_cleanup_push(unwound, &c);
	leave(n - 1);
	pthread_cleanup_pop(0);
}

NOINLINE static void *exits(void *argument)
{
	leave(3);
	return argument;
}

/* QEMU 7.2 does not survive a cancellation that comes as a signal, so that pause() would not do. */
NOINLINE static void wait_here(void)
{
	for (;;) {
		sched_yield();
		pthread_testcancel();
	}
}

NOINLINE static void *is_cancelled(void *argument)
{
	deep(2);
	wait_here();
	return argument;
}

static pthread_t start(void *(*function)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, function, NULL))
		abort();
	return thread;
}

NOINLINE static void threads(void)
{
	pthread_t all[6];

	for (int i = 0; i < 4; i++)
		all[i] = start(i % 2 ? exits : returns);
	all[4] = start(is_cancelled);
	all[5] = start(returns);
	pthread_cancel(all[4]);
	for (int i = 0; i < 6; i++)
		pthread_join(all[i], NULL);
}

/* Processes */

NOINLINE static void work(void)
{
	sum += deep(4);
}

NOINLINE static void child(unsigned n)
{
	work();
	if (n)
		child(n - 1);
}

NOINLINE static int forks(unsigned n)
{
	int status;

	if (n)
		return forks(n - 1);
	if (!fork()) {
		calls_forked(1);
		child(2);
		return 1;
	}
	wait(&status);
	work();
	return 0;
}

/* Without a log, because between vfork() and execv() the child may not write to its parent's. */
QUIET NOINLINE static void executes(char *program)
{
	char *const arguments[] = {program, (char *)"again", NULL};

	if (!fork()) {
		calls_forked(0);
		work();
		calls_execute();
		execv(program, arguments);
		abort();
	}
	wait(NULL);
	if (!vfork()) {
		execv(program, arguments);
		_exit(1);
	}
	wait(NULL);
	work();
}

int main(int argc, char **argv)
{
	if (argc == 1) {
		threads();
	} else if (!strcmp(argv[1], "fork")) {
		if (!forks(2))
			executes(argv[0]);
		work();
	} else {
		child(1);
	}
	return 0;
}
