/* SPDX-License-Identifier: MIT */
/*
 * A program's own log of what it waited for: lines "thread TSC word number", written to the file
 * that argv[1] names. A log never waits: each thread has its own.
 */
#ifndef WAIT_LOG_H
#define WAIT_LOG_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define WAIT_LOG_MAX 100000

struct wait_log {
	struct wait_log *next;
	long tid;
	unsigned count;
	struct {
		const char *word;
		uint64_t tsc;
		long number;
	} lines[WAIT_LOG_MAX];
};

static struct wait_log *all_logs;
static __thread struct wait_log *own_log;

/* Once in each thread, before it logs. */
static void begin_log(void)
{
	struct wait_log *log = calloc(1, sizeof(*log));

	if (!log)
		abort();
	log->tid = syscall(SYS_gettid);
	own_log = log;
	do
		log->next = __atomic_load_n(&all_logs, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&all_logs, &log->next, log, 0, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED));
}

static inline void log_line(const char *word, long number)
{
	const unsigned i = own_log->count++;

	if (i >= WAIT_LOG_MAX)
		abort();
	own_log->lines[i].word = word;
	own_log->lines[i].number = number;
	own_log->lines[i].tsc = __rdtsc();
}

static void write_logs(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		abort();
	for (struct wait_log *log = all_logs; log; log = log->next)
		for (unsigned i = 0; i < log->count; i++)
			fprintf(file, "%ld %llu %s %ld\n", log->tid,
				(unsigned long long)log->lines[i].tsc, log->lines[i].word,
				log->lines[i].number);
	if (fclose(file))
		abort();
}

/* Runs for some iterations. */
static inline void spin(unsigned n)
{
	for (volatile unsigned i = 0; i < n; i++)
		;
}

#endif
