/* SPDX-License-Identifier: MIT */
/*
 * waits: runs until there is a file `end`. Creates `ready` when it begins, prints a line for each
 * Ctrl-C, and exits with status 5. It mostly sleeps, so that a recording of it is short however
 * long it waits.
 */
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void on_interrupt(int signal)
{
	static const char text[] = "caught\n";

	(void)signal;
	if (write(1, text, sizeof(text) - 1) < 0)
		_exit(1);
}

int main(void)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	signal(SIGINT, on_interrupt);
	close(open("ready", O_CREAT | O_WRONLY, 0600));
	while (access("end", F_OK) < 0)
		nanosleep(&nap, NULL);
	return 5;
}
