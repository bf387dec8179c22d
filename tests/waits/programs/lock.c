/* SPDX-License-Identifier: MIT */
/*
 * Four threads and one mutex. One of them holds it for long; each logs when it wants the mutex, has
 * it, and gives it back.
 */
#include "wait_log.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) void critical(unsigned n)
{
	log_line("want", 0);
	pthread_mutex_lock(&mutex);
	log_line("got", 0);
	spin(n);
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
	for (int i = 0; i < 100; i++) {
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
