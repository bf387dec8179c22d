/* SPDX-License-Identifier: MIT */
/*
 * Call graphs as they are shown: the call trees of threads and processes, added up by what their
 * functions are called, from callers to callees or the other way round.
 */
#ifndef PTAH_OUTPUT_CALL_GRAPH_H
#define PTAH_OUTPUT_CALL_GRAPH_H

#include "output/names.h"

#include <ptah/calls.h>

/* What functions are distinguished by: any of them together. */
enum graph_sort {
	GRAPH_FUNCTION = 1 << 0,
	GRAPH_OBJECT = 1 << 1,
	GRAPH_FILE = 1 << 2, /* the source file of the function */
	GRAPH_LINE = 1 << 3, /* the line where it is declared */
};

/* A function, or an object. */
struct graph_key {
	const char *function; /* NULL: not known, or not distinguished */
	const char *object;   /* its file without folders; NULL: not distinguished */
	const char *path;     /* of the file; NULL: not known */
	const char *file;     /* of the source; NULL: not known, or not distinguished */
	uint32_t line;	      /* 0: the same */
	uint64_t ip;	      /* where the function begins, in the first process that had it */
	/* What is no function: "[folded]", "[outside of functions]", "[outermost]", a label. */
	const char *special;
	/* Its sums. A call while the same key was running already is not in `inclusive`. */
	uint64_t count;
	struct ptah_call_figures inclusive, self;
};

struct graph_node {
	uint32_t key, parent;
	uint32_t depth;	      /* 0: the root, which has no key */
	uint32_t first, next; /* child, sibling; 0: none */
	uint64_t count;
	struct ptah_call_figures inclusive, self;
};

enum graph_direction {
	GRAPH_DOWN, /* from callers to callees */
	/* From a function to its callers, by what ran in the function itself. */
	GRAPH_UP,
	/* Below each caller the functions that it called, and nothing below these. */
	GRAPH_PAIRS,
};

/*
 * Functions of trees from this number on, at which no code can be, are no functions: what they are
 * called is the text of that number.
 */
#define GRAPH_LABEL UINT64_C(0x0100000000000000)

struct graph_labels {
	char **texts;
	size_t count;
};

struct call_graph_config {
	struct names *names;
	unsigned sort; /* enum graph_sort */
	enum graph_direction direction;
	bool stubs; /* PLT stubs are functions; otherwise what they run counts for their caller */
	const char *function;		   /* only what ran in its calls; NULL: all */
	enum ptah_call_value value;	   /* what the children of a node are ordered by */
	const struct graph_labels *labels; /* they live as long as the graph; NULL: none */
};

/* How many callers above a function GRAPH_UP distinguishes. */
#define GRAPH_MOST_CALLERS 127

struct call_graph {
	struct call_graph_config config;
	struct graph_key *keys;	  /* keys[0] is none */
	struct graph_node *nodes; /* nodes[0] is the root, with what all have */
	uint32_t key_count, node_count;
	struct ptah_call_totals totals; /* added up over the trees */
	/* config.function: folded calls that none of its calls made; some may be calls of it. */
	uint64_t folded_elsewhere;
	struct graph_tables *tables;
};

int call_graph_new(const struct call_graph_config *config, struct call_graph **graph);
void call_graph_free(struct call_graph *graph);

/* Adds the calls of a thread. */
int call_graph_add(struct call_graph *graph, const struct ptah_call_thread *thread,
		   const struct ptah_call_tree *tree);

/* Orders the children of every node: those with the most first. To be called before reading. */
int call_graph_sort(struct call_graph *graph);

/* The figure that a graph is ordered by. */
uint64_t graph_figure(const struct ptah_call_figures *figures, enum ptah_call_value value);

#endif
