/* SPDX-License-Identifier: MIT */
/*
 * leaves WHAT [late]: does what the recorder inside the program cannot follow, at once or after a
 * line of output. What comes then needs the program's own handlers, mask and registers.
 */
#include "report.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>

static volatile sig_atomic_t signals;

static void count(int signal)
{
	(void)signal;
	signals++;
}

static void *add(void *sum)
{
	for (int i = 0; i < 1000; i++)
		*(long *)sum += i;
	return NULL;
}

static void start_threads(void)
{
	long sums[4] = {0};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, add, &sums[i]))
			exit(1);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	report_number("threads", sums[0] + sums[1] + sums[2] + sums[3]);
}

int main(int count_of_arguments, char **arguments)
{
	const struct sigaction action = {.sa_handler = count};
	struct sigaction now;
	sigset_t blocked;

	setvbuf(stdout, NULL, _IONBF, 0);
	if (count_of_arguments < 2)
		return 1;
	if (count_of_arguments > 2)
		printf("it is late\n");
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR2);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	if (!strcmp(arguments[1], "threads"))
		start_threads();
	else
		report("ptrace", ptrace(PTRACE_PEEKDATA, 0, NULL, NULL));
	raise(SIGSEGV);
	raise(SIGUSR1);
	raise(SIGUSR2);
	report_number("signals", signals);
	sigpending(&blocked);
	report_number("SIGUSR2 waits", sigismember(&blocked, SIGUSR2));
	sigaction(SIGSEGV, NULL, &now);
	report_number("the handler is the program's", now.sa_handler == count);
	return 5;
}
