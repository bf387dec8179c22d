/* SPDX-License-Identifier: MIT */
/*
 * Four threads and one mutex. One of them holds it for long; each logs when it wants the mutex, has
 * it, and gives it back.
 */
#include "wait_log.h"

#define MEETINGS 100

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int wanting, meetings;

__attribute__((noinline)) void critical(unsigned n)
{
	__atomic_fetch_add(&wanting, 1, __ATOMIC_RELAXED);
	log_line("want", 0);
	pthread_mutex_lock(&mutex);
	log_line("got", 0);
	__atomic_fetch_sub(&wanting, 1, __ATOMIC_RELAXED);
	spin(n);
	if (__atomic_load_n(&wanting, __ATOMIC_RELAXED))
		__atomic_fetch_add(&meetings, 1, __ATOMIC_RELAXED);
	log_line("giving", 0);
	pthread_mutex_unlock(&mutex);
	log_line("gave", 0);
}

__attribute__((noinline)) void slow_work(void)
{
	critical(400000);
}

__attribute__((noinline)) void quick_work(void)
{
	critical(100000);
}

static void *work(void *number)
{
	begin_log();
	for (int i = 0; i < 100 || __atomic_load_n(&meetings, __ATOMIC_RELAXED) < MEETINGS; i++) {
		if (number)
			quick_work();
		else
			slow_work();
		spin(40000);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, work, i ? "quick" : NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	if (argc > 1)
		write_logs(argv[1]);
	return 0;
}
