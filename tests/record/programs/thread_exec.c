/* SPDX-License-Identifier: MIT */
/*
 * A thread that is not the first one calls execve while the others run or wait; with "exec PATH",
 * the only thread does.
 */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *spin(void *unused)
{
	/* A loop with a conditional branch, because no packet says how often one without it ran. */
	for (volatile unsigned i = 0; i < UINT_MAX; i++)
		;
	return unused;
}

static void *replace(void *path)
{
	char *argv[] = {path, "again", NULL};

	execv(path, argv);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t one, two;

	if (argc > 2)
		return execv(argv[2], argv + 2);
	if (argc > 1)
		return 5;
	if (pthread_create(&one, NULL, spin, NULL) || pthread_create(&two, NULL, replace, argv[0]))
		return 1;
	return pthread_join(one, NULL) ? 2 : 3;
}
