/* SPDX-License-Identifier: MIT */
/*
 * Two threads wait for each other's mutex until a signal ends the process. argv[1] is written when
 * each of them has its first.
 */
#include "wait_log.h"

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static const char *path;

__attribute__((noinline)) void transfer(pthread_mutex_t *from, pthread_mutex_t *to)
{
	pthread_mutex_lock(from);
	log_line(from == &first ? "first" : "second", 0);
	if (pthread_barrier_wait(&both) == PTHREAD_BARRIER_SERIAL_THREAD)
		write_logs(path);
	pthread_mutex_lock(to);
	pthread_mutex_unlock(to);
	pthread_mutex_unlock(from);
}

__attribute__((noinline)) void *debit(void *argument)
{
	begin_log();
	transfer(&first, &second);
	return argument;
}

__attribute__((noinline)) void *credit(void *argument)
{
	begin_log();
	transfer(&second, &first);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc < 2)
		return 2;
	path = argv[1];
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&threads[0], NULL, debit, NULL);
	pthread_create(&threads[1], NULL, credit, NULL);
	pthread_join(threads[0], NULL);
	return 0;
}
