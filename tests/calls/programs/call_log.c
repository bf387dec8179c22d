/* SPDX-License-Identifier: MIT */
/* The log of call_log.h. It is compiled without instrumentation. */
#include "call_log.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CAPACITY (1u << 20)

/* The highest byte of an entry says what it is, the rest is an address or a number; compare.py has
 * the same list. */
enum kind {
	ENTER,
	EXIT,
	TAIL,
	UNWIND,
	SWITCH,
	FORKED,
	EXEC
};

struct log {
	struct log *next;
	int tid;
	atomic_uint count; /* a signal handler may add entries while its program adds one */
	uint64_t entries[CAPACITY];
};

static _Atomic(struct log *) logs;
static __thread struct log *mine;

static struct log *make_log(void)
{
	struct log *log = mmap(NULL, sizeof(*log), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (log == MAP_FAILED)
		abort();
	log->tid = gettid();
	log->next = atomic_load(&logs);
	while (!atomic_compare_exchange_weak(&logs, &log->next, log))
		;
	return mine = log;
}

static void add(enum kind kind, uint64_t value)
{
	struct log *log = mine ? mine : make_log();
	const unsigned at = atomic_fetch_add(&log->count, 1);

	if (at >= CAPACITY)
		abort();
	log->entries[at] = (uint64_t)kind << 56 | value;
}

void calls_enter(const void *function)
{
	add(ENTER, (uintptr_t)function);
}

void calls_exit(const void *function)
{
	add(EXIT, (uintptr_t)function);
}

void calls_enter_here(void)
{
	calls_enter(__builtin_return_address(0));
}

void calls_exit_here(void)
{
	calls_exit(__builtin_return_address(0));
}

void __cyg_profile_func_enter(void *function, void *site) QUIET;
void __cyg_profile_func_exit(void *function, void *site) QUIET;

void __cyg_profile_func_enter(void *function, void *site)
{
	(void)site;
	calls_enter(function);
}

void __cyg_profile_func_exit(void *function, void *site)
{
	(void)site;
	calls_exit(function);
}

void calls_tail(const void *function)
{
	add(TAIL, (uintptr_t)function);
}

unsigned long calls_mark(void)
{
	return mine ? mine->count : 0;
}

void calls_unwind(unsigned long mark)
{
	add(UNWIND, mark);
}

void calls_switch(unsigned long number)
{
	add(SWITCH, number);
}

void calls_forked(int logged)
{
	mine->tid = gettid();
	atomic_store(&logs, mine);
	mine->next = NULL;
	add(FORKED, (uint64_t)logged);
}

void calls_execute(void)
{
	add(EXEC, 0);
	calls_write();
}

static int write_object(struct dl_phdr_info *info, size_t size, void *file)
{
	(void)size;
	fprintf(file, "object %#lx %s\n", (unsigned long)info->dlpi_addr, info->dlpi_name);
	return 0;
}

/* call_log.o is the first to be linked, so that this is the last destructor. */
__attribute__((destructor)) void calls_write(void)
{
	const char *prefix = getenv("CALL_LOG");
	char name[4096];
	FILE *file;

	if (!prefix)
		return;
	snprintf(name, sizeof(name), "%s.%d", prefix, getpid());
	file = fopen(name, "a");
	if (!file)
		abort();
	dl_iterate_phdr(write_object, file);
	for (struct log *log = atomic_load(&logs); log; log = log->next) {
		const unsigned count = log->count;

		fprintf(file, "tid %d %u\n", log->tid, count);
		fwrite(log->entries, sizeof(*log->entries), count, file);
		log->count = 0;
	}
	fclose(file);
}
