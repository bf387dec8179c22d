/* SPDX-License-Identifier: MIT */
/*
 * Calls functions and logs when: timed_calls THREADS CALLS LOG [GATE]. With GATE it begins when that
 * file exists. With THREADS of -N, N processes have a thread each, and logs LOG, LOG.1 and so on. The
 * log has a line with the thread, the function and RDTSC at the beginning (+) and the end (-) of
 * each call.
 * Some of the functions take microseconds, some milliseconds now and then; one misses the cache, one
 * makes system calls, one sleeps, one waits for a lock.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

enum {
	MOST_THREADS = 64,
	RING = 1 << 21
};

struct call {
	int function;
	uint64_t begin, end;
};

static struct call *logs[MOST_THREADS];
static int tids[MOST_THREADS];
static long calls;
static uint32_t ring[RING];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread volatile uint64_t state = 88172645463325252u;

static void compute(long n)
{
	uint64_t x = state;

	for (long i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	state = x;
}

/* Without the fences what missed the cache before would count for what comes after it. */
static inline __attribute__((always_inline)) uint64_t time_now(void)
{
	uint64_t tsc;

	_mm_lfence();
	tsc = __rdtsc();
	_mm_lfence();
	return tsc;
}

#define FUNCTION(name, ...)                                                                        \
	__attribute__((noinline)) static void name(struct call *c, long n)                         \
	{                                                                                          \
		c->begin = time_now();                                                             \
		__VA_ARGS__;                                                                       \
		c->end = time_now();                                                               \
	}

FUNCTION(time_short, compute(n))
FUNCTION(time_long, compute(100 * n))
FUNCTION(time_system, for (long i = 0; i < n % 5; i++) syscall(SYS_getppid))
FUNCTION(time_sleep, nanosleep(&(struct timespec){.tv_nsec = 1000 * n}, NULL))
FUNCTION(time_lock, pthread_mutex_lock(&lock); compute(10 * n); pthread_mutex_unlock(&lock))
FUNCTION(time_miss, for (long i = 0; i < n; i++) state = ring[state % RING] + (uint64_t)i)

static const char *const names[] = {"time_short", "time_long", "time_system",
				    "time_sleep", "time_lock", "time_miss"};

static void (*const functions[])(struct call *c, long n) = {time_short, time_long, time_system,
							    time_sleep, time_lock, time_miss};

static void *run(void *number)
{
	const long thread = (long)number;
	uint64_t seed = 2463534242u + (uint64_t)thread;

	tids[thread] = (int)syscall(SYS_gettid);
	for (long i = 0; i < calls; i++) {
		struct call *c = &logs[thread][i];

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		c->function = seed >> 33 & 127;
		/* Sleeps and outliers are rare. */
		c->function = c->function < 6	? c->function
			      : c->function % 2 ? 0
						: 2 + 3 * (c->function % 4 == 2);
		functions[c->function](c, 20 + (long)(seed >> 40) % 400);
	}
	return NULL;
}

/* Makes more processes, one of another. Sets the name of this one's log. */
static void make_processes(long n, const char *path, char *log, size_t size)
{
	snprintf(log, size, "%s", path);
	for (long i = 1; i < n; i++) {
		if (fork())
			return;
		snprintf(log, size, "%s.%ld", path, i);
	}
}

int main(int argc, char **argv)
{
	const long wanted = argc > 3 ? atol(argv[1]) : 0, threads = wanted < 0 ? 1 : wanted;
	pthread_t list[MOST_THREADS];
	char log[4096];
	FILE *f;

	if (threads < 1 || threads > MOST_THREADS)
		return 2;
	while (argc > 4 && access(argv[4], F_OK))
		usleep(1000);
	calls = atol(argv[2]);
	make_processes(-wanted, argv[3], log, sizeof(log));
	for (uint32_t i = 0; i < RING; i++)
		ring[i] = i * 2654435761u;
	for (long i = 0; i < threads; i++)
		logs[i] = calloc((size_t)calls, sizeof(struct call));
	for (long i = 1; i < threads; i++)
		pthread_create(&list[i], NULL, run, (void *)i);
	run(NULL);
	for (long i = 1; i < threads; i++)
		pthread_join(list[i], NULL);
	f = fopen(log, "w");
	for (long i = 0; i < threads; i++)
		for (long k = 0; k < calls; k++) {
			const struct call *c = &logs[i][k];

			fprintf(f, "%d + %s %lu\n%d - %s %lu\n", tids[i], names[c->function],
				c->begin, tids[i], names[c->function], c->end);
		}
	if (fclose(f))
		return 1;
	while (wait(NULL) > 0)
		;
	return 0;
}
