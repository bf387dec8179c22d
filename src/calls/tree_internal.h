/* SPDX-License-Identifier: MIT */
/*
 * struct ptah_call_tree. tree_sink.h: beginnings and ends of calls, inline. tree.c: memory, and
 * what is seldom. tree_fold.c: paths beyond the limit. tree_merge.c: sums of trees. tree_lists.c:
 * what callers read.
 *
 * A node is a path. Its inclusive figures are added when a call ends; self figures are computed
 * from them when they are asked for. Nodes, functions and pairs are referred to by index, because
 * arrays move when they grow; index 0 is none of them (the root, the outside of all functions).
 *
 * Folding: where the limit does not allow a node, or takes one away, its parent's *folded node*
 * takes the figures, and the functions and pairs keep what can no longer be computed from nodes.
 */
#ifndef PTAH_CALLS_TREE_INTERNAL_H
#define PTAH_CALLS_TREE_INTERNAL_H

#include "calls/histogram.h"

#include <ptah/calls.h>

#include <stddef.h>

#define TREE_MAX_PATHS 1000000

/* Flags of nodes, beside one bit for each enum ptah_call_begin. */
#define TREE_BEGINS    ((1U << PTAH_CALL_BEGIN_MAX) - 1)
#define TREE_RECURSIVE (1U << 14)
#define TREE_FOLDED    (1U << 15)

/* 64 bytes: one cache line. */
struct tree_node {
	uint64_t address;
	uint16_t space, flags;
	uint32_t function;
	uint32_t parent;
	/* Guesses; 0: none. */
	uint32_t first; /* the child that it will call first: the one that it called first before */
	uint32_t after; /* the sibling that will be called after it: the same */
	uint32_t folded; /* the child for folded calls; 0: none */
	uint64_t count;
	struct ptah_call_figures inclusive;
};

_Static_assert(sizeof(struct tree_node) == 64, "a node is a cache line");

struct tree_function {
	uint64_t address;
	uint16_t space, flags;
	uint64_t partial;
	uint64_t zeros; /* of cycles and time, if they are known, that are not in histograms yet */
	struct histogram histograms[PTAH_CALL_VALUE_MAX];
	/* Of folded calls. */
	uint64_t count;
	struct ptah_call_figures inclusive, self;
	/* tree_bounds.c: what its calls took at least and at most; most: 0, or TREE_NO_BOUND. */
	uint64_t least, most;
	int64_t bounded; /* the time up to which `most` has counted */
};

#define TREE_NO_BOUND UINT64_MAX

/* Of folded calls. */
struct tree_pair {
	uint32_t caller, callee; /* functions */
	uint64_t count;
	struct ptah_call_figures inclusive, self;
};

/*
 * An open call, with the thread's counts when it began. The counts do not lie side by side: copied
 * as one vector, they would have to wait for the scalar stores that have just changed them.
 */
struct tree_frame {
	uint64_t instructions;
	uint32_t node;
	uint32_t flags; /* enum tree_frame_flags: 0 for what is common */
	uint64_t cycles;
	uint64_t time;
	uint32_t last; /* the child that it called last; 0: none yet */
	uint32_t next; /* that it will call next, which is a guess; 0: none */
};

enum tree_frame_flags {
	TREE_FRAME_UNTIMED = 1 << 0,  /* no time was known when it began */
	TREE_FRAME_UNCYCLED = 1 << 1, /* the same of cycles */
	TREE_FRAME_RESUMED = 1 << 2,
	TREE_FRAME_FOLDED = 1 << 3, /* it has an entry in `folded` */
};

/* What a frame of a folded call needs in addition, because no node has it. */
struct tree_folded_frame {
	uint32_t caller, function;
	bool outermost; /* the function was not running */
	bool counted;	/* the call began here */
	struct ptah_call_figures callees;
};

/* What suspended calls ran before. */
struct tree_suspended {
	uint64_t id; /* 0: the entry is free */
	uint32_t function;
	uint32_t flags; /* enum tree_frame_flags of its parts; TREE_SUSPENDED_PARTIAL */
	struct ptah_call_figures before;
};

#define TREE_SUSPENDED_PARTIAL (1U << 16)

/* Those of a beginning that say something of the function, and not of the call alone. */
#define TREE_FUNCTION_FLAGS                                                                        \
	(PTAH_CALL_NO_BOUNDS | PTAH_CALL_STUB | PTAH_CALL_KERNEL | PTAH_CALL_RESTORER)

/* At the end of a call: it goes into no histogram. */
#define TREE_PARTIAL (PTAH_CALL_NO_BEGIN | PTAH_CALL_NO_END | PTAH_CALL_HAS_LOSS | PTAH_CALL_UNSURE)

/* The same, or something else that is seldom. */
#define TREE_SPECIAL (TREE_PARTIAL | PTAH_CALL_FOLDED)

/* A call that has ended and took no time and no cycles, on its way into histograms. */
struct tree_value {
	uint32_t function, instructions;
};

#define TREE_VALUES 512

/* What a call took in every unit, where an instance of struct tree_value cannot have it. */
struct tree_call {
	uint32_t function;
	struct ptah_call_figures figures;
};

/* A tree without histograms keeps here what calls took, for those of another tree. */
struct tree_list {
	struct tree_value *values;
	struct tree_call *calls;
	size_t value_count, value_capacity, call_count, call_capacity;
};

/* Indices by hash; 0: free. */
struct tree_index {
	uint32_t *entries;
	uint32_t capacity, count; /* capacity: 0 or a power of two */
};

enum tree_units {
	TREE_CYCLES = 1 << 0,
	TREE_TIME = 1 << 1,
};

struct ptah_call_tree {
	/* The thread whose marks are added. frames[0] is the root's, *top that of the innermost
	 * call. */
	struct tree_frame *frames, *top;
	struct tree_frame
	    *last; /* the last there is memory for; NULL: out of memory, nothing is added */
	unsigned known, unknown; /* enum tree_units: in the marks so far */
	uint64_t ticks, time;	 /* the thread's last, and what they are in nanoseconds */
	/*
	 * The time at which the thread had no ticks: so nanoseconds are rounded alike by whoever
	 * begins to add in the middle.
	 */
	uint64_t origin;
	uint64_t left_instructions, left_cycles; /* when the last outermost call ended */
	uint32_t time_mult, time_shift;

	struct tree_node *nodes;
	struct tree_function *functions;
	uint32_t *open; /* of each function: calls of it that have not ended */
	struct tree_pair *pairs;
	uint32_t node_count, node_capacity; /* folded nodes and the root included */
	uint32_t function_count, function_capacity;
	uint32_t pair_count, pair_capacity;
	struct tree_index node_index, function_index, pair_index;

	uint32_t max_paths, max_functions, max_pairs;
	uint32_t paths;	  /* nodes without the root and folded ones */
	uint32_t refused; /* paths that were not made since the last folding */
	/* Nodes that folding keeps, and renumbers here: the path that a merge has reached. */
	uint32_t *keep;
	size_t keep_count;
	uint32_t keep_one; /* the same for the node that gets a child */

	struct tree_folded_frame *folded; /* of the folded frames, which are the innermost ones */
	size_t folded_depth, folded_capacity;

	struct tree_suspended *suspended;
	uint32_t suspended_capacity, suspended_count;

	/* What ran outside of all calls, instructions and cycles. */
	struct ptah_call_figures outside;
	uint64_t folded_paths, folded_calls;
	struct ptah_call_figures folded_figures;

	/*
	 * What is not in histograms yet, nothing while no call is open: values of calls that have
	 * just ended, and the zeros of functions, of which `zeros` is the list.
	 */
	uint32_t value_count, zero_count;
	uint32_t *zeros;
	struct tree_list *list;	    /* there are no histograms; or NULL */
	struct tree_bounds *bounds; /* NULL: bounds of times are not asked for */
	struct tree_value values[TREE_VALUES];
};

static inline void tree_add_figures(struct ptah_call_figures *to,
				    const struct ptah_call_figures *figures)
{
	to->instructions += figures->instructions;
	to->cycles += figures->cycles;
	to->time += figures->time;
}

static inline struct ptah_call_figures tree_difference(const struct ptah_call_figures *a,
						       const struct ptah_call_figures *b)
{
	return (struct ptah_call_figures){a->instructions - b->instructions, a->cycles - b->cycles,
					  a->time - b->time};
}

static inline uint64_t tree_nanoseconds(const struct ptah_call_tree *t, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * t->time_mult >> t->time_shift);
}

/* Out of memory: from now on nothing is added. Returns 0. */
uint32_t tree_fail(struct ptah_call_tree *t);

static inline bool tree_failed(const struct ptah_call_tree *t)
{
	return !t->last;
}

/* How many calls are open. */
static inline size_t tree_depth(const struct ptah_call_tree *t)
{
	return (size_t)(t->top - t->frames);
}

/* A larger array, with zeros after its present entries. NULL: out of memory. */
void *tree_larger(void *array, size_t size, size_t from, size_t to);

/* Remembers what a call ran before it was suspended. False: it cannot be remembered. */
bool tree_suspend(struct ptah_call_tree *t, uint64_t id, uint32_t function, uint32_t flags,
		  const struct ptah_call_figures *inclusive);

/* Adds what a resumed call, which ends, ran before, and forgets it. */
void tree_resume(struct ptah_call_tree *t, uint64_t id, struct ptah_call_figures *inclusive,
		 uint32_t *flags);

/*
 * Puts values that wait into the histograms; all of them when no call is open. Done many at a time,
 * the cache misses, of which each value has two, overlap.
 */
void tree_spill(struct ptah_call_tree *t);

/* Puts all values that wait into the histograms, or the list: before these are read while calls
 * are open. */
void tree_flush(struct ptah_call_tree *t);

/*
 * tree_bounds.c: what runs from an offset of the trace on ran not before one time and not after
 * another (0 and UINT64_MAX: not known). False: out of memory.
 */
bool tree_bound_times(struct ptah_call_tree *t, uint64_t offset, uint64_t low, uint64_t high);
/* The innermost call has just begun, and is about to end. */
void tree_bound_begin(struct ptah_call_tree *t, const struct ptah_call_counts *counts, uint64_t tsc,
		      uint64_t offset);
void tree_bound_end(struct ptah_call_tree *t, const struct ptah_call_counts *counts, uint64_t tsc,
		    uint64_t offset);
/*
 * The innermost call has called its last child: a call that took no time, and so did `calls` - 1
 * calls in it, each the first child of the one before.
 */
void tree_bound_leaf(struct ptah_call_tree *t, unsigned calls,
		     const struct ptah_call_counts *counts, uint64_t tsc, uint64_t offset);
void tree_free_bounds(struct ptah_call_tree *t);

/* tree_graft.c: what the same is for a tree with a list. */
void tree_list_values(struct ptah_call_tree *t);
void tree_list_call(struct ptah_call_tree *t, uint32_t function,
		    const struct ptah_call_figures *figures);

/* Puts what a call took into histograms at once. `flags`: of its frame. */
void tree_add_values(struct ptah_call_tree *t, uint32_t function, uint32_t flags,
		     const struct ptah_call_figures *inclusive);

/* The slow parts of tree_sink.h. */
void tree_learn(struct ptah_call_tree *t, const struct ptah_call_counts *counts, uint64_t tsc);
bool tree_grow_frames(struct ptah_call_tree *t);
/* The node to enter from `parent`. 0: there is none, either out of memory or to be folded. */
uint32_t tree_find_child(struct ptah_call_tree *t, uint32_t parent, uint64_t address,
			 uint16_t space, unsigned flags);
void tree_begin_folded(struct ptah_call_tree *t, uint64_t address, uint16_t space, unsigned how,
		       unsigned flags, const struct ptah_call_counts *counts);
void tree_end_special(struct ptah_call_tree *t, unsigned how, unsigned flags, uint64_t id,
		      struct ptah_call_figures inclusive);

/*
 * As tree_find_child(), where the caller knows whether the function is further up. 0: failed, or
 * the limit is reached.
 */
uint32_t tree_make_child(struct ptah_call_tree *t, uint32_t parent, uint64_t address,
			 uint16_t space, bool recursive);

/* Appends a node of zeros, which is no path yet. 0: out of memory. */
uint32_t tree_append_node(struct ptah_call_tree *t, uint32_t parent);

/* The function's index; 0: none, out of memory or too many functions. */
uint32_t tree_find_function(const struct ptah_call_tree *t, uint64_t address, uint16_t space);
uint32_t tree_make_function(struct ptah_call_tree *t, uint64_t address, uint16_t space);

/* The child of `parent` for folded calls, which may be `parent` itself. 0: out of memory. */
uint32_t tree_folded_child(struct ptah_call_tree *t, uint32_t parent);

/* The pair of two functions, for folded calls. NULL: out of memory. */
struct tree_pair *tree_make_pair(struct ptah_call_tree *t, uint32_t caller, uint32_t callee);

/* Folds about half of the paths. False: out of memory. */
bool tree_fold(struct ptah_call_tree *t);

/* Adds folded calls of `callee` to its function and pair. */
bool tree_count_folded(struct ptah_call_tree *t, uint32_t caller, uint32_t callee, uint64_t count,
		       bool outermost, const struct ptah_call_figures *inclusive,
		       const struct ptah_call_figures *self);

/*
 * Self figures of all nodes; those of nodes with an open call are meaningless. The caller frees
 * them. NULL: out of memory.
 */
struct ptah_call_figures *tree_self_figures(const struct ptah_call_tree *t);

/* The sum over the whole tree. */
struct ptah_call_figures tree_root_figures(const struct ptah_call_tree *t);

/* Makes the index of nodes again, after they have moved. */
bool tree_index_nodes(struct ptah_call_tree *t);

struct tree_place {
	uint32_t node, depth;
};

/*
 * All nodes, depth first, siblings in the order of ptah_call_tree_nodes(). The caller frees the
 * list. NULL: out of memory.
 */
struct tree_place *tree_depth_first(const struct ptah_call_tree *t);

#endif
