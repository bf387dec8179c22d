/* SPDX-License-Identifier: MIT */
/* ptah export of profiles and flame graphs: adds up the calls by path, and hands them over. */
#include "export_view.h"
#include "graph_view.h"

#include "export/tree.h"

#include <inttypes.h>
#include <stdlib.h>

/* perf's --max-stack has 127; a program's own recursion is often deeper. */
#define MOST_DEPTH 1024

/* How many calls' functions are deeper than that, and what these ran. */
static void note_cut(const struct exporting *e, const struct export_tree *tree)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < tree->group_count; i++) {
		const struct call_graph *graph = tree->groups[i].graph;

		for (uint32_t n = 1; n < graph->node_count; n++)
			if (graph->nodes[n].depth > tree->most_depth)
				calls += graph->nodes[n].count;
	}
	if (calls && !e->options->input.quiet)
		print_clean("note: ",
			    "%" PRIu64 " calls are deeper than --max-stack=%" PRIu32
			    ": what they ran counts for their callers at that depth",
			    calls, tree->most_depth);
}

/* Writes what has been read. Returns 0 or an error. */
static int put_tree(struct exporting *e, const struct graph_groups *g, struct export_tree *tree)
{
	struct export_tree_group *groups = calloc(g->count, sizeof(*groups));
	int status;

	if (!groups)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < g->count; i++) {
		const struct ptah_call_totals *totals = &g->groups[i].graph->totals;

		groups[i] = (struct export_tree_group){.comm = g->groups[i].comm,
						       .pid = g->groups[i].pid,
						       .tid = g->groups[i].tid,
						       .graph = g->groups[i].graph};
		tree->has_cycles = tree->has_cycles || totals->inclusive.cycles;
		tree->has_time = tree->has_time || totals->inclusive.time;
	}
	tree->groups = groups;
	tree->group_count = g->count;
	note_cut(e, tree);
	status = e->format->tree(e->out, tree);
	free(groups);
	return status;
}

static int read_and_put(struct exporting *e, struct graph_groups *g, struct export_tree *tree)
{
	int status =
	    graph_groups_read(&command_export, &e->options->input, e->session, g, &e->errors);

	if (status)
		return status;
	status = graph_groups_sort(g);
	if (status < 0)
		return status;
	e->found = graph_groups_have_calls(g);
	if (e->options->input.function && !e->found)
		return 0; /* the command says so */
	status = graph_groups_check_value(&command_export, g, e->session);
	return status ? status : put_tree(e, g, tree);
}

int export_tree(struct exporting *e)
{
	const struct export_options *o = e->options;
	struct graph_groups g = {.by = (enum graph_by)o->by,
				 .wall = o->value == GRAPH_VALUE_WALL,
				 .config = {.names = e->names,
					    .sort = GRAPH_FUNCTION | GRAPH_OBJECT | GRAPH_LINE,
					    .direction = GRAPH_DOWN,
					    .stubs = o->stubs,
					    .function = o->input.function,
					    .value = graph_value_of(o->value)}};
	struct export_tree tree = {.command = ptah_session_command(e->session),
				   .value = g.config.value,
				   .most_depth = MOST_DEPTH};
	int status;

	if (o->max_stack)
		tree.most_depth =
		    o->max_stack < UINT32_MAX ? (uint32_t)o->max_stack : UINT32_MAX - 1;
	status = read_and_put(e, &g, &tree);
	if (!status && g.config.value == PTAH_CALL_VALUE_TIME)
		input_note_times(&o->input, e->session);
	graph_groups_free(&g);
	return status;
}
