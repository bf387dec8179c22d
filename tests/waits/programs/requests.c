/* SPDX-License-Identifier: MIT */
/*
 * Six requests: the first computes, each of the others waits 10 ms longer than the one before. The
 * file argv[1] has for how many milliseconds each took, by CLOCK_MONOTONIC.
 */
#include <stdio.h>
#include <time.h>

static void spin(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

__attribute__((noinline)) void compute(void)
{
	spin(5000000);
}

__attribute__((noinline)) void request(long ms)
{
	const struct timespec time = {0, ms * 1000000};

	if (ms)
		nanosleep(&time, NULL);
	else
		spin(100000);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
	FILE *log = argc > 1 ? fopen(argv[1], "w") : NULL;
	double took[6];

	for (int i = 0; i < 6; i++) {
		const double begin = now();

		request(10L * i);
		took[i] = now() - begin;
		compute();
	}
	for (int i = 0; log && i < 6; i++)
		fprintf(log, "%f\n", took[i]);
	return log ? fclose(log) : 1;
}
