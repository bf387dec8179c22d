/* SPDX-License-Identifier: MIT */
/* A call machine that adds calls to a call tree, without making marks. */
#ifndef PTAH_CALLS_ADDER_H
#define PTAH_CALLS_ADDER_H

#include "calls/calls.h"

/* Adds the calls of one thread to a tree. */
struct calls_adder;

/* The tree must live as long as the adder. */
int calls_adder_new(const struct calls_config *config, struct ptah_call_tree *tree,
		    struct calls_adder **adder);
void calls_adder_free(struct calls_adder *adder);

/* As the functions for a list of marks. 0 or PTAH_E_NOMEM. */
int calls_adder_take_spans(struct calls_adder *adder, const struct ptah_span *spans, size_t n);
int calls_adder_take(struct calls_adder *adder, const struct ptah_item *items, size_t n);
/*
 * What is taken next ran between these times (0 and UINT64_MAX: not known), from this offset of the
 * trace on. Once said, the tree's functions have bounds of their times. 0 or PTAH_E_NOMEM.
 */
int calls_adder_bound(struct calls_adder *adder, uint64_t offset, uint64_t low, uint64_t high);
uint64_t calls_adder_time(const struct calls_adder *adder);
void calls_adder_wait(struct calls_adder *adder, uint64_t until);
int calls_adder_finish(struct calls_adder *adder);
int calls_adder_exec(struct calls_adder *adder, uint64_t tsc);
int calls_adder_lost(struct calls_adder *adder);
void calls_adder_code_changed(struct calls_adder *adder);

/*
 * A part of a trace can be taken without what precedes it: see summary.h. One adder makes summaries
 * of parts, one after the other, and the thread's adder joins them in order.
 */
struct calls_summary;

/* `trees`: as of the thread's tree. */
int calls_summary_new(const struct ptah_call_tree_config *trees, struct calls_summary **summary);
void calls_summary_free(struct calls_summary *summary);

/* What the thread's adder has learned so far, so that others may assume it. */
#define CALLS_LEARNED 32

struct calls_learned {
	uint64_t function;
	uint16_t space;
};

struct calls_knowledge {
	uint64_t skipped;  /* ticks that were part of losses */
	unsigned switches; /* how many functions are known to exchange stacks */
	struct calls_learned list[CALLS_LEARNED];
};

void calls_adder_know(const struct calls_adder *adder, struct calls_knowledge *knowledge);

/*
 * Begins a summary. The adder's tree is the summary's from now on. What is taken next are spans,
 * and items that are no blocks. 0 or PTAH_E_NOMEM, also if there is too much for a summary.
 */
void calls_adder_summarize(struct calls_adder *adder, struct calls_summary *summary,
			   const struct calls_knowledge *knowledge);
int calls_adder_summarize_spans(struct calls_adder *adder, const struct ptah_span *spans, size_t n);
int calls_adder_end_summary(struct calls_adder *adder);

/*
 * Joins a summary: as if what it was made of had been taken. `cycles` are those of the thread where
 * the summary's are 0. Returns 1; 0: it was joined up to the beginning of section *joined, and the
 * adder has to take the rest itself; or PTAH_E_NOMEM.
 */
int calls_adder_join(struct calls_adder *adder, struct calls_summary *summary, uint64_t cycles,
		     size_t *joined);

/*
 * Looks for the place up to which a summary was joined: another adder and summary, begun alike,
 * take the same spans and items again, one at a time. 1: the place is after the one that was given
 * last; 2: before the end of it, and the thread's adder has to take it, too; 0: not reached yet.
 */
int calls_adder_search(struct calls_adder *adder, const struct ptah_span *span,
		       const struct ptah_item *item, size_t joined);
/* What the summary was begun with. */
const struct calls_knowledge *calls_summary_knowledge(const struct calls_summary *summary);

/* The time of the first span or item. */
uint64_t calls_summary_time(const struct calls_summary *summary);

/* The thread's core cycles so far. */
uint64_t calls_adder_cycles(const struct calls_adder *adder);

/* How many error items are in what was joined. */
uint64_t calls_summary_errors(const struct calls_summary *summary, size_t joined);

#endif
