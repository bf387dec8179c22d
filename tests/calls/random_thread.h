/* SPDX-License-Identifier: MIT */
/*
 * A random thread: what it ran, as items, and its calls as they were, from the stacks that it kept
 * itself. It calls, returns, makes tail calls, calls through stubs, throws, calls longjmp(),
 * handles signals at any instruction, and switches between coroutines.
 */
#ifndef PTAH_TESTS_CALLS_RANDOM_THREAD_H
#define PTAH_TESTS_CALLS_RANDOM_THREAD_H

#include <stdint.h>

#include "calls/calls.h"

#include <ptah/calls.h>

/* A beginning or an end as it was. */
struct true_mark {
	uint64_t function, offset; /* offset: of the item before it */
	uint64_t instructions;	   /* before it */
	uint32_t id;
	uint8_t end, how;
};

struct random_thread {
	struct ptah_item *items;
	struct true_mark *marks;
	size_t item_count, mark_count;
};

/* `steps`: how often it does one of these things. Free it with random_thread_free(). */
struct random_thread *random_thread_new(uint64_t seed, unsigned steps);
void random_thread_free(struct random_thread *t);

/* A calls_function_finder for its code. */
bool random_thread_find(void *context, unsigned space, uint64_t ip, uint64_t tsc,
			struct ptah_function *function);

#endif
