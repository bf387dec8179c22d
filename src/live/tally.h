/* SPDX-License-Identifier: MIT */
/* Figures of the functions of one thread, from the marks of its calls. */
#ifndef PTAH_LIVE_TALLY_H
#define PTAH_LIVE_TALLY_H

#include "calls/histogram.h"

#include "session/absences.h"
#include "support/index.h"

#include <ptah/calls.h>

#include <stddef.h>

/* A function. */
struct tally_row {
	uint64_t function;
	uint16_t space;
	uint16_t flags;
	uint64_t calls, open, instructions;
	uint64_t ended, timed;
	uint64_t ticks, max_ticks, total_instructions, max_instructions, waited;
	struct histogram times;
	uint32_t watches; /* that are of this function, */
	/* once that was looked up: of generated code, when the session had one jit_generation less,
	 * and up to a time. */
	uint64_t looked, until;
};

/*
 * For how long a thread has waited up to a mark, in ticks: it was on no processor, could not have
 * run, and the trace was off. Threads also sleep while the recorder makes room, when it is on.
 */
struct live_waits {
	const struct absences *absences; /* of the thread; NULL: none are known */
	bool no_switches;		 /* nobody's are: all the time in which the trace was off */
	uint64_t tsc, off_ticks, sum;
};

/* The thread's next mark. Returns the sum up to it. */
uint64_t live_waits_pass(struct live_waits *waits, const struct ptah_call_mark *mark);

struct live_tally {
	struct tally_row *rows;
	size_t count, capacity;
	struct index index; /* of the rows */
	struct tally_call {
		uint32_t row;
		uint64_t waited; /* by its thread, before it began */
	} * stack;		 /* the open calls, the innermost last */
	size_t depth, stack_capacity;
	uint64_t seen;	/* the thread's instructions that have been counted */
	uint64_t total; /* instructions, of all programs of the thread */
	uint64_t calls; /* that began */
	struct live_waits waits;
};

void live_tally_free(struct live_tally *tally);
int live_tally_add(struct live_tally *tally, const struct ptah_call_mark *marks, size_t n);
/* The thread has executed so many instructions: what is not counted yet is the innermost call's. */
int live_tally_reach(struct live_tally *tally, uint64_t instructions);
/* Another program: the thread's instructions begin with 0 again. */
void live_tally_begin_again(struct live_tally *tally);
/* Adds all of `from`, whose calls have ended. */
int live_tally_merge(struct live_tally *into, const struct live_tally *from);
/* Adds a row of another thread, whose calls have ended, to that of `function`. */
int live_tally_merge_row(struct live_tally *into, const struct tally_row *from, uint64_t function);
/* NULL: the function did not run. */
struct tally_row *live_tally_find(const struct live_tally *tally, uint16_t space,
				  uint64_t function);

#endif
