/* SPDX-License-Identifier: MIT */
/* crowd N: N threads that exist at the same time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all;

static void *wait_for_all(void *unused)
{
	pthread_barrier_wait(&all);
	return unused;
}

int main(int count, char **arguments)
{
	const unsigned n = count > 1 ? (unsigned)atoi(arguments[1]) : 1;
	pthread_t *threads = calloc(n, sizeof(*threads));
	unsigned started = 0;

	if (!threads || pthread_barrier_init(&all, NULL, n + 1))
		return 1;
	while (started < n && !pthread_create(&threads[started], NULL, wait_for_all, NULL))
		started++;
	printf("%u threads\n", started);
	if (started < n)
		exit(2);
	pthread_barrier_wait(&all);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
