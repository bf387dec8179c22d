/* SPDX-License-Identifier: MIT */
/* Reads the clock, in the vdso, until it was interrupted in several places. */
#include <signal.h>
#include <sys/time.h>
#include <time.h>

static volatile sig_atomic_t signals;

static void on_alarm(int number)
{
	(void)number;
	signals++;
}

int main(void)
{
	const struct itimerval often = {{0, 3000}, {0, 3000}};
	struct timespec now;

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; signals < 25 && i < 3000; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	return 0;
}
