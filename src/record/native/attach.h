/* SPDX-License-Identifier: MIT */
/*
 * Puts the runtime into a process that runs already, and takes it out again. Uses ptrace only
 * meanwhile; all calls have to come from the same thread.
 *
 *	attach_check(pid, &why)			whether it can be done; changes nothing
 *	a = attach_hold(pid, &why)		all of its threads stand
 *	... write what is mapped ...
 *	attach_put(a, &target, &why)		the runtime is in, the threads go on
 *	...
 *	detach_process(&target)			the process goes on natively
 */
#ifndef PTAH_RECORD_NATIVE_ATTACH_H
#define PTAH_RECORD_NATIVE_ATTACH_H

#include "record/native/inject.h"
#include "record/recorder.h"

struct attach;

enum ptah_record_problem attach_check(int32_t pid, struct ptah_message *why);

/* NULL: *why says why; the process goes on as before. */
struct attach *attach_hold(int32_t pid, const int64_t *late, struct ptah_message *why);

struct attach_memory {
	struct inject_memory inject;
	/* Claims a slot; NATIVE_THREADS: none is free. */
	unsigned (*claim)(void *context);
	void (*give_back)(void *context, unsigned slot);
	void *context;
};

/*
 * Frees a. *control: the address of the process's struct native_control. On failure, the process
 * goes on as before.
 */
int attach_put(struct attach *a, const struct attach_memory *memory, uint64_t *control,
	       struct ptah_message *why);

struct detach {
	int32_t pid;
	uint64_t control;    /* address of its struct native_control */
	const int64_t *late; /* haste.h */
	/*
	 * Called while threads run to where they can be let go: takes what they write, and answers
	 * them.
	 */
	void (*serve)(void *context);
	void *context;
	/* Results: it has become another program; so many threads could not be stopped. */
	bool executed;
	unsigned stuck;
};

/* Returns when no thread can write to the shared memory any more but those that are stuck. */
void detach_process(struct detach *d);

#endif
