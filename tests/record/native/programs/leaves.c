/* SPDX-License-Identifier: MIT */
/*
 * leaves WHAT [late]: does what the recorder inside the program cannot follow, at once or after a
 * line of output; reserved: with as much reserved memory as AddressSanitizer's. What comes then needs the program's own handlers, mask and registers.
 */
#include "report.h"

#include <asm/prctl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void count(int signal)
{
	(void)signal;
	signals++;
}

/* GS is the recorder's. */
static void ask_for_gs(void)
{
	unsigned long base = 1;

	report("GS", syscall(SYS_arch_prctl, ARCH_GET_GS, &base));
	report_number("GS", (long)base);
}

/* Old programs ask for the time at a fixed address, where the kernel carries the call out. */
static void call_vsyscall(void)
{
	long (*const get_time)(long *) = (long (*)(long *))0xffffffffff600400;

	report_number("it is after 2001", get_time(NULL) > 1000000000);
}

static atomic_bool stop;
static sem_t ready, end;

static void *spin(void *unused)
{
	long n = 0;

	(void)unused;
	sem_post(&ready);
	while (!stop)
		n++;
	return NULL;
}

/* Waits in the kernel meanwhile. */
static void *wait_for_end(void *unused)
{
	(void)unused;
	sem_post(&ready);
	while (sem_wait(&end))
		;
	return NULL;
}

static void start_threads(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, i % 2 ? spin : wait_for_end, NULL))
			exit(1);
	for (int i = 0; i < 4; i += !sem_wait(&ready))
		;
	ask_for_gs();
	/* The handlers are the program's again, in each thread. */
	for (int i = 0; i < 4; i++) {
		pthread_kill(threads[i], SIGUSR1);
		while (signals <= i)
			sched_yield();
	}
	stop = true;
	sem_post(&end);
	sem_post(&end);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	report_number("threads", signals);
}

static bool reserve(void)
{
	return mmap(NULL, (size_t)16 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		    -1, 0) != MAP_FAILED;
}

/* A gigabyte of addresses is enough for what comes then. */
static void limit_addresses(void)
{
	const struct rlimit limit = {UINT64_C(1) << 30, UINT64_C(1) << 30};
	pthread_t thread;

	report("limit", setrlimit(RLIMIT_AS, &limit));
	report("memory", malloc((size_t)100 << 20) ? 0 : -1);
	stop = true;
	report_number("thread", pthread_create(&thread, NULL, spin, NULL));
	report_number("thread", pthread_join(thread, NULL));
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
	else if (!strcmp(arguments[1], "gs"))
		ask_for_gs();
	else if (!strcmp(arguments[1], "reserved") && reserve())
		ask_for_gs();
	else if (!strcmp(arguments[1], "vsyscall"))
		call_vsyscall();
	else if (!strcmp(arguments[1], "limit"))
		limit_addresses();
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
