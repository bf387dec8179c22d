/* SPDX-License-Identifier: MIT */
/*
 * What profiles and flame graphs are written from: call graphs from callers to callees, one for
 * each process, thread or all together. Nodes are read depth first, without a stack:
 *
 *	for (uint32_t i = export_tree_next(tree, graph, 0); i; i = export_tree_next(tree, graph, i))
 *		use(&graph->nodes[i], export_tree_self(tree, graph, i));
 *
 * Names are untrusted bytes of any length.
 */
#ifndef PTAH_EXPORT_TREE_H
#define PTAH_EXPORT_TREE_H

#include "output/call_graph.h"
#include "output/out.h"

struct export_tree_group {
	const char *comm; /* "" : of several, or not known */
	int32_t pid, tid; /* INT32_MIN: of several */
	const struct call_graph *graph;
};

struct export_tree {
	const char *command; /* that was recorded; NULL: not known */
	const struct export_tree_group *groups;
	size_t group_count;
	enum ptah_call_value value; /* for formats that show one figure */
	bool has_cycles, has_time;
	/*
	 * Calls below this depth are left out: what they ran counts for the call at this depth, so
	 * that recursion does not make lines of any length.
	 */
	uint32_t most_depth;
};

/* The node after `node`, which is 0 at the beginning. 0: there is none. */
uint32_t export_tree_next(const struct export_tree *tree, const struct call_graph *graph,
			  uint32_t node);

/* What ran in a node, with what is left out below it. */
struct ptah_call_figures export_tree_self(const struct export_tree *tree,
					  const struct call_graph *graph, uint32_t node);

/* What ran in all calls of a graph, and outside of functions. */
uint64_t export_tree_total(const struct export_tree *tree, const struct call_graph *graph);

#define EXPORT_TREE_NAME 24

/* What a node's function is called; `room` has EXPORT_TREE_NAME bytes for what has no name. */
const char *export_tree_name(const struct graph_key *key, char *room);

/* The same for a group: "comm", "comm 12" or "comm 12/13" for what is of one thread. To be freed.
 */
char *export_tree_group_name(const struct export_tree_group *group);

/* "instructions", "cycles" or "nanoseconds". */
const char *export_tree_unit(enum ptah_call_value value);

#endif
