/* SPDX-License-Identifier: MIT */
/* What all calls took by function and by path: a call tree whose functions are those of
 * functions.h. */
#ifndef PTAH_VIEW_TREES_H
#define PTAH_VIEW_TREES_H

#include "view/model_internal.h"

/* The percentiles of a function's calls. */
enum view_quantile {
	VIEW_P50,
	VIEW_P90,
	VIEW_P99,
	VIEW_P999,
	VIEW_QUANTILES
};

struct view_tree_function {
	uint64_t count, partial;
	struct ptah_call_figures inclusive, self;
	struct {
		uint64_t calls, min, max, quantile[VIEW_QUANTILES];
	} of[PTAH_CALL_VALUE_MAX];
	uint16_t flags;
};

/* So many functions are in the list of those that ran most. */
#define VIEW_TOP 200

struct view_trees {
	struct ptah_call_tree *sum;	      /* functions are numbers + 1 */
	struct view_tree_function *functions; /* by number; all 0: not called */
	uint32_t function_count;
	uint32_t top[VIEW_TOP]; /* those with the most instructions of their own, in order */
	unsigned top_count;
	struct ptah_call_node *nodes; /* as of ptah_call_tree_nodes() */
	size_t node_count;
	struct ptah_call_totals totals;
	uint64_t errors;
};

#endif
