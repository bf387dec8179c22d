/* SPDX-License-Identifier: MIT */
/* What the text of call graphs (graph_view.c) and TSV and JSON (graph_structured.c) share. */
#ifndef PTAH_CLI_GRAPH_ROWS_H
#define PTAH_CLI_GRAPH_ROWS_H

#include "graph_view.h"
#include "graph_walk.h"

/* What ran in all calls of a group. */
uint64_t graph_total(const struct graph_view *v, const struct graph_group *group);

/* The least figure that is shown. */
double graph_least(const struct graph_view *v, const struct graph_group *group);

double graph_percent(uint64_t part, uint64_t whole);

/* A row of a table: a key, or (GRAPH_PAIR_TABLE) a key and its caller. */
struct graph_table_row {
	const struct graph_key *key, *caller;
	uint64_t count;
	struct ptah_call_figures inclusive, self;
	uint64_t figure; /* what rows are sorted by */
};

/*
 * The rows of a table, sorted. Functions are ordered by what ran in themselves, as the table
 * without calls is; pairs by what ran in the calls. The caller frees them. NULL: out of memory.
 */
struct graph_table_row *graph_list_rows(const struct graph_view *v, const struct call_graph *g,
					size_t *n);

/* Print everything: functions of graph_renderers, whose view is a struct graph_view. */
void graph_put_tsv(void *view);
void graph_put_json(void *view);

#endif
