/* SPDX-License-Identifier: MIT */
/*
 * Threads: a few that contend (with the atomics that QEMU can do in parallel,
 * and with cmpxchg16b, which it may run alone), and many that come and go.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#define MANY 700

static atomic_uint count;
static struct pair {
	unsigned long long low, high;
} wide __attribute__((aligned(16)));
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Adds 1 to both halves at once. */
static void add_wide(void)
{
	unsigned long long low = 0, high = 0;
	unsigned char done;

	do {
		__asm__ volatile("lock cmpxchg16b %1\n\tsete %0"
				 : "=q"(done), "+m"(wide), "+a"(low), "+d"(high)
				 : "b"(low + 1), "c"(high + 1)
				 : "cc");
	} while (!done);
}

static void *contend(void *name)
{
	prctl(PR_SET_NAME, name);
	for (int i = 0; i < 2000; i++) {
		atomic_fetch_add(&count, 1);
		add_wide();
		if (i % 10 == 0) {
			pthread_mutex_lock(&lock);
			pthread_mutex_unlock(&lock);
		}
	}
	return NULL;
}

static void *brief(void *unused)
{
	atomic_fetch_add(&count, 1);
	return unused;
}

int main(void)
{
	static char names[4][8] = {"first", "second", "third", "fourth"};
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, contend, names[i]))
			return 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < MANY; i += 4) {
		for (int k = 0; k < 4; k++)
			if (pthread_create(&threads[k], NULL, brief, NULL))
				return 1;
		for (int k = 0; k < 4; k++)
			pthread_join(threads[k], NULL);
	}
	return count == 4 * 2000 + MANY && wide.low == wide.high && wide.low == 4 * 2000 ? 0 : 1;
}
