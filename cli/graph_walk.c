/* SPDX-License-Identifier: MIT */
/* Goes through a call graph with a stack of its own: recursion may be deep in the graph. */
#include "graph_walk.h"

#include <stdlib.h>
#include <string.h>

/* A node of which the children are being visited. */
struct open_node {
	uint32_t child; /* the next one */
	size_t shown;	/* children that have not been visited and will be */
	bool rest;	/* some are hidden, and are to be reported */
	bool branches;
	uint32_t level; /* of the children */
	size_t row;
};

struct walk {
	const struct call_graph *graph;
	double least;
	size_t most;
	bool hidden;
	void (*visit)(void *context, const struct graph_line *line);
	void *context;
	struct open_node *stack;
	bool *bars;
	size_t depth, capacity, row;
};

static bool is_shown(const struct walk *w, uint32_t child, size_t nth)
{
	const struct graph_node *n = &w->graph->nodes[child];
	const double figure = (double)graph_figure(&n->inclusive, w->graph->config.value);

	if (n->parent == 0 && w->most && nth >= w->most)
		return false;
	return figure >= w->least;
}

static bool reserve_walk_depth(struct walk *w)
{
	const size_t capacity = w->capacity ? 2 * w->capacity : 64;
	struct open_node *stack;
	bool *bars;

	if (w->depth + 2 < w->capacity)
		return true;
	stack = reallocarray(w->stack, capacity, sizeof(*stack));
	if (!stack)
		return false;
	w->stack = stack;
	bars = reallocarray(w->bars, capacity, sizeof(*bars));
	if (!bars)
		return false;
	w->bars = bars;
	w->capacity = capacity;
	return true;
}

/* How many children of a node are shown; *rest is the first that is not. */
static size_t count_shown(const struct walk *w, uint32_t node, uint32_t *rest)
{
	size_t n = 0;

	*rest = w->graph->nodes[node].first;
	while (*rest && is_shown(w, *rest, n)) {
		n++;
		*rest = w->graph->nodes[*rest].next;
	}
	return n;
}

/* Adds up the children from `child` on. */
static void sum_hidden(const struct walk *w, uint32_t child, struct graph_line *line)
{
	for (; child; child = w->graph->nodes[child].next) {
		const struct graph_node *n = &w->graph->nodes[child];

		line->hidden++;
		line->hidden_calls += n->count;
		line->hidden_figures.instructions += n->inclusive.instructions;
		line->hidden_figures.cycles += n->inclusive.cycles;
		line->hidden_figures.time += n->inclusive.time;
	}
}

/* Begins with the children of a node. */
static bool enter_graph_node(struct walk *w, uint32_t node, uint32_t level)
{
	struct open_node *open;
	uint32_t rest;

	if (!reserve_walk_depth(w))
		return false;
	open = &w->stack[w->depth++];
	memset(open, 0, sizeof(*open));
	open->child = w->graph->nodes[node].first;
	open->row = w->row;
	open->shown = count_shown(w, node, &rest);
	/* Otherwise it is on the line of the node, which the root has not. */
	open->rest = rest && w->hidden && (open->shown > 1 || !node);
	open->branches = open->shown + open->rest > 1;
	open->level = level + open->branches;
	return true;
}

static struct graph_line line_of(struct walk *w, const struct open_node *open)
{
	const bool last = open->shown + open->rest == 0;

	if (open->branches)
		w->bars[open->level] = !last;
	return (struct graph_line){.row = ++w->row,
				   .parent = w->depth > 1 ? open->row : 0,
				   .depth = (uint32_t)w->depth,
				   .level = open->level,
				   .branches = open->branches,
				   .last = last,
				   .bars = w->bars};
}

static void visit_rest(struct walk *w, struct open_node *open)
{
	struct graph_line line;

	open->rest = false;
	line = line_of(w, open);
	sum_hidden(w, open->child, &line);
	w->visit(w->context, &line);
}

static bool step_graph_walk(struct walk *w)
{
	struct open_node *open = &w->stack[w->depth - 1];
	const uint32_t node = open->child;
	struct graph_line line;
	uint32_t rest;

	if (!open->shown) {
		if (open->rest)
			visit_rest(w, open);
		w->depth--;
		return true;
	}
	open->shown--;
	open->child = w->graph->nodes[node].next;
	line = line_of(w, open);
	line.node = &w->graph->nodes[node];
	if (w->hidden && count_shown(w, node, &rest) <= 1)
		sum_hidden(w, rest, &line);
	w->visit(w->context, &line);
	return enter_graph_node(w, node, line.level);
}

int graph_walk(const struct call_graph *graph, double least, size_t most, bool hidden, size_t row,
	       void (*visit)(void *context, const struct graph_line *line), void *context)
{
	struct walk w = {.graph = graph,
			 .least = least,
			 .most = most,
			 .hidden = hidden,
			 .visit = visit,
			 .context = context,
			 .row = row};
	bool good = enter_graph_node(&w, 0, 0);

	while (good && w.depth)
		good = step_graph_walk(&w);
	free(w.stack);
	free(w.bars);
	return good ? 0 : PTAH_E_NOMEM;
}
