/* SPDX-License-Identifier: MIT */
/*
 * The program of docs/waits.md: 300 orders are placed one after the other, while another thread
 * counts the stock now and then.
 */
#include <pthread.h>
#include <time.h>

static pthread_mutex_t stock = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned items[64];
static int finished;

static void work(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		items[i % 64]++;
}

static void place_order(void)
{
	work(100000);
	pthread_mutex_lock(&stock);
	work(1000);
	pthread_mutex_unlock(&stock);
}

static void count_stock(void)
{
	pthread_mutex_lock(&stock);
	work(10000000);
	pthread_mutex_unlock(&stock);
}

static void *audit(void *argument)
{
	const struct timespec pause = {0, 10000000};

	nanosleep(&pause, NULL);
	count_stock();
	__atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
	return argument;
}

int main(void)
{
	pthread_t auditor;

	pthread_create(&auditor, NULL, audit, NULL);
	/* At least 300, and until the stock has been counted. */
	for (int i = 0; i < 300 || !__atomic_load_n(&finished, __ATOMIC_ACQUIRE); i++)
		place_order();
	pthread_join(auditor, NULL);
	return 0;
}
