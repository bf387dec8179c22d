/* SPDX-License-Identifier: MIT */
/*
 * Summaries: what a part of a trace did to the calls of a thread, found without what precedes it.
 *
 * A part begins with an unknown stack. Its machine has, in the place of the stack, an *assumed*
 * frame: the function that runs there. Calls that begin and end above that frame are added up in a
 * tree of the summary's own. What touches the stack below (a return from the assumed frame, an
 * exception, a signal, a loss) is a *step*: the machine that has the true stack carries it out
 * later, and a new *section* begins with another assumed frame. So a summary is a list of sections,
 * each with a tree of paths, the calls that are open at its end, and the step that ends it.
 *
 * calls_adder_join() goes through the sections with the true stack. Each section is added only if
 * its assumption is true; otherwise the part has to be taken again from there on. The result is
 * therefore that of a machine which takes everything, bit by bit.
 */
#ifndef PTAH_CALLS_SUMMARY_H
#define PTAH_CALLS_SUMMARY_H

#include "calls/adder.h"
#include "calls/machine.h"
#include "calls/tree_internal.h"

/* So many calls may be open in a section: more are left to the true stack. */
#define SUMMARY_DEPTH 4096

/*
 * What a summary may have. One with more is given up, because a trace can have several steps for
 * each of its bytes: functions that jump to each other, of whose chain of tail calls the beginning
 * is not in the summary. Most segments have fewer than 1,000 sections and 200,000 nodes.
 */
#define SUMMARY_SECTIONS (1U << 14)
#define SUMMARY_NODES	 (1U << 19)
#define SUMMARY_OPEN	 (1U << 18)

enum step_kind {
	STEP_CALL, /* a branch, which the machine's function for this kind of branch carries out */
	STEP_RETURN,
	STEP_JUMP,
	STEP_FAR,
	STEP_ITEM,
	STEP_ARRIVE, /* execution is at `to`: what was pending is carried out */
	STEP_END,    /* of the summary */
};

/* Where the list of a summary's tree was. */
struct tree_end {
	size_t values, calls;
};

struct step {
	uint8_t kind;	    /* enum step_kind */
	uint8_t insn_class; /* of a branch */
	uint64_t site, end, to;
	size_t item; /* index */
	/* ARRIVE at the beginning of the summary: the time there. */
	bool has_time;
	uint64_t tsc, cycles;
};

struct section {
	/*
	 * False: it consists of its step, because execution has not arrived anywhere. What its
	 * beginning and its end were has no meaning then.
	 */
	bool assumed;
	/* The assumed frame, when the section began. */
	uint64_t low, size, function;
	bool has_bounds;
	bool needs_function;			       /* which function it is has mattered */
	uint64_t instructions, ticks, tsc, cycles, id; /* at its beginning */
	uint64_t step_at; /* instructions of the summary before the step */
	/* Its state at its end. */
	struct calls_now now;
	uint64_t end_low, end_size; /* the assumed frame's piece */
	uint64_t end_cycles, end_id;
	uint64_t site, end; /* the machine's */
	uint8_t pending;
	bool crossed, entered_known, entered;
	size_t first_open, end_open;	 /* open calls, the outermost first */
	size_t first_called, end_called; /* functions without bounds that were called */
	uint32_t root, end_node;	 /* of the tree: the section's nodes */
	struct tree_end first_value, end_value;
	struct step step;
};

struct open_frame {
	struct calls_frame frame;
	struct tree_frame tree; /* unless the call is hidden */
};

struct calls_summary {
	struct ptah_call_tree *tree; /* with the list */
	struct tree_list list;
	unsigned known; /* enum tree_units, as the tree assumes them */
	struct calls_knowledge knowledge;

	struct section *sections; /* that have ended */
	size_t count, capacity;
	struct section now; /* the one that has not */
	bool begun;	    /* the machine has arrived somewhere */
	/* What the machine's next span has. */
	uint64_t next_tsc, next_cycles;

	struct open_frame *open;
	size_t open_count, open_capacity;
	struct ptah_item *items;
	size_t item_count, item_capacity;
	uint64_t *called;
	size_t called_count, called_capacity;

	/*
	 * A join has the nodes of the true tree here, by those of the summary's; and the functions,
	 * which stay.
	 */
	uint32_t *numbers, *functions;
	size_t number_capacity, function_capacity;
	const struct ptah_call_tree *into; /* the true tree */
	bool unfit;			   /* it cannot be joined */
};

/*
 * The machine's functions for what is seldom ask these first. True: it is a step, which the
 * summary has noted. False: the machine carries it out as always.
 */
bool summary_call(struct calls_machine *m, uint64_t site, uint64_t end, uint64_t to);
bool summary_return(struct calls_machine *m, uint64_t site, uint64_t to);
bool summary_jump(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t to);
bool summary_far(struct calls_machine *m, unsigned insn_class, uint64_t site, uint64_t end,
		 uint64_t to);
bool summary_continue(struct calls_machine *m, uint64_t ip);
bool summary_event(struct calls_machine *m, const struct ptah_item *item);

/* tree_graft.c */

/* Makes the tree of a summary empty. The functions stay. */
void tree_restart(struct ptah_call_tree *t);
/* A section begins. Returns the node that its paths begin at; 0: out of memory. */
uint32_t tree_begin_section(struct ptah_call_tree *t);
/* The calls that are open are no longer the tree's. */
void tree_forget_open(struct ptah_call_tree *t);
/* Whether there is surely room for so many nodes of `from`. */
bool tree_has_room(const struct ptah_call_tree *t, const struct ptah_call_tree *from,
		   uint32_t nodes);
/*
 * Adds the nodes from `first` to `end` (not included) of `from`, which are below `root`, to those
 * below the innermost call of `into`. `numbers` gets their nodes there, and `functions`, for those
 * that it has not, the functions. False: out of memory.
 */
bool tree_graft(struct ptah_call_tree *into, const struct ptah_call_tree *from, uint32_t root,
		uint32_t end, uint32_t *numbers, uint32_t *functions);
/* Begins a call that `from` has begun, in this node of `into`. False: out of memory. */
bool tree_push(struct ptah_call_tree *into, const struct tree_frame *frame, uint32_t node);
/* Adds what calls took. `functions`: those of `into`, for those of the list. */
void tree_take_values(struct ptah_call_tree *into, const struct tree_list *l,
		      const struct tree_end *from, const struct tree_end *to,
		      const uint32_t *functions);

#endif
