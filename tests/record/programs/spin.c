/* SPDX-License-Identifier: MIT */
/*
 * spin SECONDS FILE [THREADS]: computes that long on each thread, then writes
 * "done" into FILE and exits while the other threads still run. SIGTERM ends
 * it with status 6.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned result;

static void on_term(int signal)
{
	(void)signal;
	_exit(6);
}

static void compute(void)
{
	unsigned x = 1;

	for (int i = 0; i < 100000; i++)
		x = x & 1 ? x * 3 + 1 : x / 2 + (unsigned)i;
	result = x;
}

static void *forever(void *unused)
{
	for (;;)
		compute();
	return unused;
}

int main(int argc, char **argv)
{
	struct timespec now, end;
	pthread_t thread;
	FILE *file;

	if (argc < 3)
		return 1;
	signal(SIGTERM, on_term);
	for (int i = 1; argc > 3 && i < atoi(argv[3]); i++)
		if (pthread_create(&thread, NULL, forever, NULL))
			return 1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += atoi(argv[1]);
	do {
		compute();
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec ||
		 (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
	file = fopen(argv[2], "w");
	if (!file)
		return 1;
	fputs("done\n", file);
	fclose(file);
	return 0;
}
