/* SPDX-License-Identifier: MIT */
/*
 * The branches in the items of a stream, one by one, as perf's decoder reports them: those that
 * were taken, and where tracing begins and ends.
 */
#ifndef PTAH_EXPORT_BRANCHES_H
#define PTAH_EXPORT_BRANCHES_H

#include <ptah/session.h>

/* What a branch is: perf's PERF_IP_FLAG_*. */
enum branch_flags {
	BRANCH_ANY = 1 << 0, /* all have it */
	BRANCH_CALL = 1 << 1,
	BRANCH_RETURN = 1 << 2,
	BRANCH_CONDITIONAL = 1 << 3,
	BRANCH_SYSTEM = 1 << 4, /* system call, or return from one */
	BRANCH_ASYNC = 1 << 5,
	BRANCH_INTERRUPT = 1 << 6,
	BRANCH_BEGIN = 1 << 8, /* tracing begins: from nowhere (0) */
	BRANCH_END = 1 << 9,   /* tracing ends: to nowhere, unless the trace says where to */
};

struct branch {
	uint64_t from, to, tsc;
	uint16_t flags;
	uint8_t size; /* of the instruction; 0: there is none */
};

typedef int branch_taker(void *context, const struct branch *branch);

struct branches {
	struct ptah_reader *reader; /* that the items come from */
	branch_taker *take;	    /* its negative result ends the work */
	void *context;
	/* The branch whose target is what comes next; from 0: there is none. */
	struct branch next;
};

/* Takes the next item. Returns 0, or the result of `take`. */
int branches_take(struct branches *b, const struct ptah_item *item);

/* What follows was not reached from here: another thread runs, or something was lost. */
void branches_cut(struct branches *b);

#endif
