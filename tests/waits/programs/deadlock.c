/* SPDX-License-Identifier: MIT */
/*
 * Two threads wait for each other's mutex until a signal ends the process, and a third one for the end
 * of a thread that waits for its mutex. argv[1] is written when each of them has its first.
 */
#include "wait_log.h"

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t third = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static const char *path;

__attribute__((noinline)) void transfer(pthread_mutex_t *from, pthread_mutex_t *to)
{
	pthread_mutex_lock(from);
	log_line(from == &first ? "first" : "second", 0);
	if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD)
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

/* Twenty of them make a stack of more than a thousand characters. */
__attribute__((noinline)) int descend_to_the_third_lock_through_many_calls_with_a_long_name(int n)
{
	if (n)
		return descend_to_the_third_lock_through_many_calls_with_a_long_name(n - 1) + 1;
	pthread_mutex_lock(&third);
	pthread_mutex_unlock(&third);
	return 0;
}

__attribute__((noinline)) void *spend(void *argument)
{
	descend_to_the_third_lock_through_many_calls_with_a_long_name(20);
	return argument;
}

__attribute__((noinline)) void *collect(void *argument)
{
	pthread_t spender;

	begin_log();
	pthread_mutex_lock(&third);
	log_line("third", 0);
	pthread_create(&spender, NULL, spend, NULL);
	if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD)
		write_logs(path);
	pthread_join(spender, NULL);
	pthread_mutex_unlock(&third);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t threads[3];

	if (argc < 2)
		return 2;
	path = argv[1];
	pthread_barrier_init(&all, NULL, 3);
	pthread_create(&threads[0], NULL, debit, NULL);
	pthread_create(&threads[1], NULL, credit, NULL);
	pthread_create(&threads[2], NULL, collect, NULL);
	pthread_join(threads[0], NULL);
	return 0;
}
