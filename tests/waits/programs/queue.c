/* SPDX-License-Identifier: MIT */
/*
 * Two producers and three consumers with a mutex and a condition variable, and a semaphore for which
 * main waits. An item is the number of the thread that made it. Items are made until consumers have
 * waited often, however late they began.
 */
#include "wait_log.h"

#include <semaphore.h>
#include <stdbool.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static sem_t done;
static long items[1000];
static int head, tail, stopped;
static int waits; /* that consumers have begun */

#define WAITS 100

/* False: consumers have waited often. */
__attribute__((noinline)) bool produce(int i)
{
	bool is_wanted;

	pthread_mutex_lock(&mutex);
	if (tail - head < 1000)
		items[tail++ % 1000] = own_log->tid;
	log_line("signal", 0);
	if (i % 10 == 9)
		pthread_cond_broadcast(&filled);
	else
		pthread_cond_signal(&filled);
	log_line("signalled", 0);
	is_wanted = waits < WAITS;
	pthread_mutex_unlock(&mutex);
	return is_wanted;
}

__attribute__((noinline)) long consume(void)
{
	long item = -1;

	pthread_mutex_lock(&mutex);
	while (head == tail && !stopped) {
		waits++;
		log_line("wait", 0);
		pthread_cond_wait(&filled, &mutex);
		log_line("woke", 0);
	}
	if (head < tail) {
		item = items[head++ % 1000];
		log_line("item", item);
	}
	pthread_mutex_unlock(&mutex);
	return item;
}

static void *producer(void *argument)
{
	const struct timespec pause = {0, 200000};

	(void)argument;
	begin_log();
	for (int i = 0; produce(i); i++)
		nanosleep(&pause, NULL);
	return NULL;
}

static void *consumer(void *argument)
{
	(void)argument;
	begin_log();
	while (consume() >= 0)
		spin(5000);
	log_line("post", 0);
	sem_post(&done);
	log_line("posted", 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[5];

	begin_log();
	sem_init(&done, 0, 0);
	for (int i = 0; i < 5; i++)
		pthread_create(&threads[i], NULL, i < 2 ? producer : consumer, NULL);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	pthread_mutex_lock(&mutex);
	stopped = 1;
	log_line("signal", 0);
	pthread_cond_broadcast(&filled);
	log_line("signalled", 0);
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 3; i++) {
		log_line("semwait", 0);
		sem_wait(&done);
		log_line("semgot", 0);
	}
	for (int i = 2; i < 5; i++)
		pthread_join(threads[i], NULL);
	if (argc > 1)
		write_logs(argv[1]);
	return 0;
}
