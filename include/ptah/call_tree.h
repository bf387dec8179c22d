/* SPDX-License-Identifier: MIT */
/*
 * Call trees: calls added up by their path (which function called which called
 * which), by function, and by caller and callee.
 *
 *	struct ptah_call_tree_config config = {.size = sizeof(config)};
 *	ptah_call_tree_new(&config, &tree);
 *	... for each batch of marks of one thread (calls.h):
 *	ptah_call_tree_add(tree, marks, n);
 *	... for each further thread, with a tree of its own:
 *	ptah_call_tree_merge(tree, other, NULL, NULL);
 *	ptah_call_tree_nodes(tree, &nodes, &count);
 *
 * Figures are instructions, core cycles and nanoseconds. *Inclusive* is from the
 * beginning of a call to its end; *self* is inclusive without what the function
 * called. A node's inclusive figures contain those of the nodes below it, so in a
 * recursion they contain the deeper calls of the same function. The sums of a
 * function count nested calls of it once: only calls during which the function
 * was not running already add to its inclusive figures. Those of a pair of caller
 * and callee are of the same calls, so that the inclusive figures of all callers
 * of a function add up to the function's. Self figures add up everywhere.
 *
 * Calls whose beginning or end is not in the trace, or that contain a loss, add
 * what is known of them to the sums; they are not in histograms, and `partial`
 * counts them (flags NO_BEGIN, NO_END, HAS_LOSS and UNSURE of the end). A suspended
 * call (a coroutine) counts once, where it first began; its parts count where they
 * ran, and its histogram has their sum. Time passes also while a thread does not run.
 *
 * Memory is in proportion to distinct paths, of which there are `max_paths` at
 * most. When there would be more, those in which the fewest instructions ran are
 * folded: below each caller one node keeps the sum of the paths that were folded
 * there. Functions and pairs stay exact (up to limits: see below). Endless recursion is
 * folded, too.
 *
 * A tree belongs to one thread at a time.
 */
#ifndef PTAH_CALL_TREE_H
#define PTAH_CALL_TREE_H

#include <ptah/calls.h>

PTAH_BEGIN_DECLS

struct ptah_call_tree;

struct ptah_call_tree_config {
	size_t size; /* sizeof(struct ptah_call_tree_config) */
	/*
	 * How TSC ticks become nanoseconds: ticks * time_mult >> time_shift. 0: they do not;
	 * then times are not counted.
	 */
	uint32_t time_mult, time_shift;
	uint32_t max_paths; /* 0: a million */
};

/* `config` may be NULL. */
PTAH_API int ptah_call_tree_new(const struct ptah_call_tree_config *config,
				struct ptah_call_tree **tree);
PTAH_API void ptah_call_tree_free(struct ptah_call_tree *tree);

/*
 * Adds marks of one thread, in order; batches may be cut anywhere. PTAH_E_NOMEM:
 * the tree keeps what was complete before, and adds nothing any more.
 * PTAH_E_INVAL: an end without a beginning.
 */
PTAH_API int ptah_call_tree_add(struct ptah_call_tree *tree, const struct ptah_call_mark *marks,
				size_t n);

/*
 * Gives a function of `from` the key that it has in `into`: changes *space and
 * *function to any numbers, for instance to those of a name. False: the function
 * is left out, and what it did counts for its caller.
 */
typedef bool ptah_call_tree_map(void *context, uint16_t *space, uint64_t *function);

/*
 * Adds all of `from`, which must have no open call. `map` may be NULL: keys stay as
 * they are. Where a map makes one function of several, of which some called others,
 * calls that were folded before count for each of them. PTAH_E_INVAL, PTAH_E_NOMEM:
 * `into` is then only good to be freed.
 */
PTAH_API int ptah_call_tree_merge(struct ptah_call_tree *into, const struct ptah_call_tree *from,
				  ptah_call_tree_map *map, void *context);

struct ptah_call_figures {
	uint64_t instructions;
	uint64_t cycles; /* 0 without CYC packets */
	uint64_t time;	 /* nanoseconds */
};

enum ptah_call_value {
	PTAH_CALL_VALUE_INSTRUCTIONS,
	PTAH_CALL_VALUE_CYCLES,
	PTAH_CALL_VALUE_TIME,
	PTAH_CALL_VALUE_MAX
};

struct ptah_call_totals {
	struct ptah_call_figures inclusive; /* of the whole tree */
	uint64_t calls;	   /* that began; those that were running before do not count */
	uint64_t paths;	   /* distinct ones in the tree */
	uint64_t partial;  /* calls that are in no histogram */
	uint64_t untimed;  /* of the others: no time was known when they began */
	uint64_t uncycled; /* of the others: no cycles were known when they began */
	/* Paths that were folded, the calls in them, and what these calls ran. */
	uint64_t folded_paths, folded_calls;
	struct ptah_call_figures folded;
	/*
	 * Of these, calls of functions that are in no list, because there were more than half as
	 * many functions as there may be paths, and what ran in them.
	 */
	uint64_t unlisted_calls;
	struct ptah_call_figures unlisted;
};

/* This and the lists below: PTAH_E_INVAL while a call is open, PTAH_E_NOMEM. */
PTAH_API int ptah_call_tree_totals(const struct ptah_call_tree *tree,
				   struct ptah_call_totals *totals);

enum ptah_call_node_flags {
	PTAH_CALL_NODE_RECURSIVE = 1 << 0, /* its function is also further up */
	PTAH_CALL_NODE_FOLDED = 1 << 1,	   /* the folded calls below its parent, of any function */
};

/* A path: the function, called by the one of its parent, and so on up to the root. */
struct ptah_call_node {
	uint64_t function;
	uint16_t space;
	uint16_t flags;
	uint16_t begins;	 /* bit i: a call began by enum ptah_call_begin i */
	uint16_t function_flags; /* as in struct ptah_call_function */
	uint32_t parent;	 /* its index in the list; less than the node's own */
	uint32_t depth;		 /* 0: the root */
	uint64_t count;		 /* calls that began */
	struct ptah_call_figures inclusive, self;
};

/*
 * The nodes, depth first. The first is the root, which is no function: its self
 * figures are what ran in no known function. Nodes with the same parent are in the
 * order of space and function, the folded one last. The caller frees the array.
 */
PTAH_API int ptah_call_tree_nodes(const struct ptah_call_tree *tree, struct ptah_call_node **nodes,
				  size_t *n);

struct ptah_call_function {
	uint64_t function;
	uint16_t space;
	/* enum ptah_call_flags: NO_BOUNDS, STUB, KERNEL, RESTORER; FOLDED if one of its calls has
	 * it. */
	uint16_t flags;
	uint32_t reserved;
	uint64_t count, partial;
	struct ptah_call_figures inclusive, self;
	/* Histograms of the inclusive figures. calls 0: none. */
	struct {
		uint64_t calls, min, max;
	} histogram[PTAH_CALL_VALUE_MAX];
};

/* In the order of space and function. The caller frees the array. */
PTAH_API int ptah_call_tree_functions(const struct ptah_call_tree *tree,
				      struct ptah_call_function **functions, size_t *n);

/*
 * The smallest value that at least the share `q` (0 to 1) of a function's calls do
 * not exceed, right to 1 %; min and max are exact. 0 when its histogram is empty.
 */
PTAH_API uint64_t ptah_call_tree_quantile(const struct ptah_call_tree *tree,
					  const struct ptah_call_function *function,
					  enum ptah_call_value value, double q);

struct ptah_call_pair {
	uint64_t caller, callee;
	uint16_t caller_space, callee_space;
	bool no_caller; /* the callee was outermost, or its caller is unlisted: `caller` is 0 */
	uint64_t count;
	struct ptah_call_figures inclusive, self; /* of the callee */
};

/* In the order of caller (first those without one) and callee. The caller frees the array. */
PTAH_API int ptah_call_tree_pairs(const struct ptah_call_tree *tree, struct ptah_call_pair **pairs,
				  size_t *n);

PTAH_END_DECLS

#endif
