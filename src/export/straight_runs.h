/* SPDX-License-Identifier: MIT */
/*
 * Straight runs: what was executed from the target of one taken branch to the next taken branch,
 * computed from counts of blocks.
 *
 * Compilers' tools take such runs, because the last branch records of a processor are pairs of
 * them. Counts do not have the order of execution, so that which entry of a run belongs to which
 * exit is not known where several cross. Here the run that began first ends first. Whatever the
 * choice: every instruction is in as many runs as it was executed, every branch that was not taken
 * is passed as often as it was not taken, and as many runs begin and end at each place as in the
 * execution.
 */
#ifndef PTAH_EXPORT_STRAIGHT_RUNS_H
#define PTAH_EXPORT_STRAIGHT_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block that ran, at its addresses in a file. */
struct run_block {
	uint64_t ip, last, end; /* `last`: its last instruction; `end`: the address after it */
	uint64_t count;
	uint64_t left; /* times its last instruction went elsewhere, or is not known to have gone on
			*/
	/* It ends with no branch, or with one into the kernel: what follows is only in the same run
	 * where nothing else explains how execution came there. */
	bool cut;
};

/* Taken branches to an address. */
struct run_entry {
	uint64_t ip, count;
	bool by_call; /* by calls and returns, not by jumps */
};

struct straight_run {
	uint64_t start, last; /* addresses of its first and last instruction */
	uint64_t count;
	bool by_call; /* entered by calls or returns */
};

struct straight_runs {
	struct straight_run *run; /* by start, last and by_call, each once */
	size_t count, capacity;
	uint64_t broken; /* executions that had to be cut in two: see RUNS_ALIVE */
};

/* No more runs than this pass one place together, which bounds the time; others are cut there. No
 * code of a compiler comes near. */
#define RUNS_ALIVE 4096

/*
 * Both lists are sorted here; equal elements may occur more than once. Blocks are at least one byte
 * long, and their sums fit in 64 bits. 0, or PTAH_E_NOMEM with *runs freed.
 */
int straight_runs_make(struct run_block *blocks, size_t block_count, struct run_entry *entries,
		       size_t entry_count, struct straight_runs *runs);
void straight_runs_free(struct straight_runs *runs);

#endif
