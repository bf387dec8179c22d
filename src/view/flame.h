/* SPDX-License-Identifier: MIT */
/* Flame graphs: paths of functions with what ran on them, from the trees or from logs. */
#ifndef PTAH_VIEW_FLAME_H
#define PTAH_VIEW_FLAME_H

#include "support/index.h"
#include "view/trees.h"

/* What a node is that is no function. */
enum flame_special {
	FLAME_FUNCTION,
	FLAME_ROOT,
	FLAME_OUTSIDE, /* what ran in no known function */
	FLAME_FOLDED,  /* paths that were too many, of any function */
};

struct flame_node {
	uint32_t function;
	uint32_t parent; /* less than the node's own number; the root's is 0 */
	uint8_t special; /* enum flame_special */
	uint64_t count, self, inclusive;
};

struct flame {
	struct flame_node *nodes; /* [0] is the root */
	uint32_t count, capacity;
	struct index index; /* of the nodes but the root, by parent and function */
	bool inexact;	    /* parts of calls at the edges of the window were estimated */
};

/* At most so many nodes are made: then paths are folded. */
#define FLAME_NODES 1000000

/* A flame graph with a root alone. Free it also after a failure. */
int flame_init(struct flame *flame);
void flame_fini(struct flame *flame);

/* The child of a node for a function; 0: out of memory. */
uint32_t flame_child(struct flame *flame, uint32_t parent, enum flame_special special,
		     uint32_t function);

/* From all calls. */
int flame_from_trees(const struct view_trees *trees, enum ptah_call_value value,
		     struct flame *flame);

/* What is added from a log: what ran in [from, to) of the axis. */
struct flame_window {
	enum log_axis axis;
	uint64_t from, to;
	enum ptah_call_value value;
};

int flame_add_thread(struct flame *flame, struct view_model *model, struct view_thread *thread,
		     const struct flame_window *window);

/* Computes the inclusive figures, when all is added. */
void flame_sum(struct flame *flame);

/* The other way round: below each function its callers, by what ran in the function itself. */
int flame_invert(const struct flame *flame, struct flame *inverted);

#endif
