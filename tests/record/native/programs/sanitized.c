/* SPDX-License-Identifier: MIT */
/*
 * A program for sanitizers: threads that share a heap and a lock, a child, a handler. It has no
 * mistake that one of them would report.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define BYTES	10000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile sig_atomic_t handled;
static long sum;

static void handle(int number)
{
	handled = number;
}

static void *work(void *argument)
{
	for (long i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		sum += i ^ (long)argument;
		pthread_mutex_unlock(&lock);
	}
	return memset(malloc(BYTES), 1, BYTES);
}

static int child_status(void)
{
	const pid_t child = fork();
	int status = -1;

	if (!child)
		_exit(7);
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

int main(void)
{
	pthread_t threads[THREADS];
	long bytes = 0;

	signal(SIGUSR1, handle);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		unsigned char *got;

		pthread_join(threads[i], (void **)&got);
		for (int k = 0; k < BYTES; k++)
			bytes += got[k];
		free(got);
	}
	raise(SIGUSR1);
	printf("%ld %ld %d %d\n", sum, bytes, handled == SIGUSR1, child_status());
	return 0;
}
