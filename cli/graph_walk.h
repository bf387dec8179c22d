/* SPDX-License-Identifier: MIT */
/* Visits the nodes of a call graph in the order in which they are printed. */
#ifndef PTAH_CLI_GRAPH_WALK_H
#define PTAH_CLI_GRAPH_WALK_H

#include "output/call_graph.h"

/* A line of a tree. */
struct graph_line {
	const struct graph_node *node; /* NULL: what is hidden below the caller */
	size_t row, parent;	       /* numbers of the lines, from 1 on; parent 0: none */
	uint32_t depth;		       /* 1: outermost */
	/* An only callee continues the column of its caller; siblings branch off, a level deeper.
	 */
	uint32_t level;
	bool branches, last; /* it branches off; it is the last to do so */
	const bool *bars;    /* of each level from 1 to `level`: a later sibling follows below */
	/*
	 * How many are hidden, and what they have. With a node: of its callees, of which at most
	 * one is shown; 0: none, or they have a line of their own. Without a node: this is that
	 * line.
	 */
	size_t hidden;
	uint64_t hidden_calls;
	struct ptah_call_figures hidden_figures;
};

/*
 * Calls `visit` for the `most` first children of the root (0: all), and everything below them, that
 * have at least `least` of the value. The sum of what is below is on the line of its caller, or is
 * a line among several callees; where `hidden` is false it is left out. `row` is the number before
 * the first line's. 0 or PTAH_E_NOMEM.
 */
int graph_walk(const struct call_graph *graph, double least, size_t most, bool hidden, size_t row,
	       void (*visit)(void *context, const struct graph_line *line), void *context);

#endif
