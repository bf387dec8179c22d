/* SPDX-License-Identifier: MIT */
/* The call graphs of `ptah report` as text, TSV and JSON. */
#ifndef PTAH_CLI_GRAPH_VIEW_H
#define PTAH_CLI_GRAPH_VIEW_H

#include "graph_groups.h"
#include "render.h"

#include "output/json.h"

enum graph_kind {
	GRAPH_TREE,	  /* every path below its caller */
	GRAPH_TABLE,	  /* one row for each key */
	GRAPH_PAIR_TABLE, /* one row for each caller and callee */
};

struct graph_view {
	const struct input *input;
	const struct ptah_session *session; /* NULL: saved counts */
	unsigned times;			    /* of saved counts: enum ptah_counts_times */
	struct out *out;
	struct json json;
	enum graph_kind kind;
	bool upward; /* a tree from functions to their callers */
	enum ptah_call_value value;
	const char *value_word;
	double limit;			       /* percent below which nothing is shown */
	bool functions, objects, files, lines; /* what the keys have; lines: files too */
	const struct graph_group *groups;
	size_t group_count;
	size_t rows; /* printed so far */
};

/* `begin` prints everything. */
extern const struct renderer graph_renderers[FORMAT_MAX];

/* The words of --value, in the order of enum ptah_call_value, and one more. */
enum {
	GRAPH_VALUE_WALL = PTAH_CALL_VALUE_MAX, /* time, with what was waited for */
};
extern const char *const graph_value_words[];

/* The figure that such a word stands for. */
static inline enum ptah_call_value graph_value_of(int word)
{
	return word == GRAPH_VALUE_WALL ? PTAH_CALL_VALUE_TIME : (enum ptah_call_value)word;
}

#endif
