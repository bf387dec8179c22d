/* SPDX-License-Identifier: MIT */
/* `ptah report` by calls: its options, and the way from a recording to a call graph. */
#ifndef PTAH_CLI_GRAPH_REPORT_H
#define PTAH_CLI_GRAPH_REPORT_H

#include "graph_groups.h"

struct graph_options {
	const char *call_graph;	   /* NULL: no tree */
	const char *percent_limit; /* NULL: the default */
	const char *sort;	   /* words of --sort that name what is distinguished; NULL: none */
	bool stubs;		   /* show PLT stubs */
	int value;		   /* enum ptah_call_value */
	int by;			   /* enum graph_by */
};

/* The words of a value of --call-graph, beside a percentage. */
extern const char *const graph_order_words[];

/* perf's other words, which are refused. */
extern const char *const graph_refused_words[];

/* Whether one of the options is given that only calls can answer. */
bool graph_is_asked(const struct graph_options *options);

/*
 * Whether `words` names what can be distinguished (a list such as "function,object"). False:
 * nothing has been printed.
 */
bool graph_can_sort(const char *words);

/* Prints the report. Returns an exit code. */
int graph_report(const struct command *command, const struct graph_options *options,
		 struct input *input, int argc, char **argv);

#endif
