/* SPDX-License-Identifier: MIT */
/*
 * Five threads of two processes sleep and compute, and write to a log how long: sleepers LOG [FILE].
 * With FILE, they begin when that exists. A line of the log is described in judge_off.c.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static const char *path;

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void *run(void *arg)
{
	const uint64_t ns = 3000000, wall = now(CLOCK_MONOTONIC);
	const uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), begin = __rdtsc();
	volatile unsigned sum = 0;
	uint64_t end, ran, all;
	char line[200];
	FILE *log;

	(void)arg;
	for (int i = 0; i < 20; i++) {
		nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
		for (int k = 0; k < 200000; k++)
			sum += k;
	}
	end = __rdtsc();
	ran = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	all = now(CLOCK_MONOTONIC) - wall;
	log = fopen(path, "a");
	snprintf(line, sizeof(line), "%d %lu %lu %lu %lu %lu\n", (int)syscall(SYS_gettid), begin,
		 end, 20 * ns, ran, all > ran ? all - ran : 0);
	fputs(line, log);
	fclose(log);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];

	path = argv[1];
	if (argc > 2)
		while (access(argv[2], F_OK))
			usleep(1000);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	if (!fork()) {
		run(NULL);
		_exit(0);
	}
	wait(NULL);
	run(NULL);
	return 0;
}
