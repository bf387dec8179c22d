/* SPDX-License-Identifier: MIT */
/*
 * Threads that run without system calls, code that is made and changed, and processes that come and
 * go, until a signal ends it: for recordings that end meanwhile. When all of that runs, it prints
 * its own number and that of a process that runs on when it has ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECONDS 60 /* it never outlives its test for longer */
#define THREADS 2
#define STEPS	20000
#define PAGE	4096

static atomic_int begun;
static volatile unsigned sink;

static unsigned halve(unsigned n)
{
	return n / 2;
}

static unsigned triple(unsigned n)
{
	return 3 * n + 1;
}

/* Calls, returns, conditional and indirect branches, none of which repeats the one before for long.
 */
static void step(unsigned seed, unsigned steps)
{
	static unsigned (*volatile const functions[])(unsigned) = {halve, triple};

	for (unsigned n = seed; steps; steps--) {
		n = functions[n & 1](n);
		if (n < 2)
			n = seed += 2;
		sink += n % 7;
	}
}

static void *run(void *number)
{
	atomic_fetch_add(&begun, 1);
	for (unsigned seed = (unsigned)(size_t)number;; seed++)
		step(seed, STEPS);
	return NULL;
}

/* Functions that return what was just written into them, at addresses that are used again. */
static void *make_code(void *unused)
{
	static const unsigned char code[] = {0xb8, 0, 0, 0, 0, 0xc3};

	(void)unused;
	atomic_fetch_add(&begun, 1);
	for (unsigned i = 0;; i++) {
		unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (page == MAP_FAILED)
			exit(1);
		for (unsigned k = 0; k < 3; k++) {
			memcpy(page, code, sizeof(code));
			memcpy(page + 1, &i, sizeof(i));
			if (((unsigned (*)(void))page)() != i)
				exit(1);
			step(i, STEPS / 10);
		}
		munmap(page, PAGE);
	}
	return NULL;
}

/* After the numbers are printed. */
static __attribute__((noinline)) void make_processes(void)
{
	for (;;) {
		const pid_t pid = fork();

		if (!pid) {
			step(7, 10 * STEPS);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			exit(1);
	}
}

int main(void)
{
	pthread_t thread;
	pid_t other;

	alarm(SECONDS);
	if (pthread_create(&thread, NULL, make_code, NULL))
		return 1;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, run, (void *)(1000 * i + 27)))
			return 1;
	while (atomic_load(&begun) < THREADS + 1)
		usleep(1000);
	other = fork();
	if (!other) {
		alarm(SECONDS);
		run((void *)(size_t)3);
	}
	printf("%d %d\n", (int)getpid(), (int)other);
	fflush(stdout);
	make_processes();
}
