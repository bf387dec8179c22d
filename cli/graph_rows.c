/* SPDX-License-Identifier: MIT */
/* The rows of tables of call graphs, sorted, and the shares that figures have. */
#include "base/order.h"
#include "graph_rows.h"

#include <stdlib.h>

const char *const graph_value_words[] = {"instructions", "cycles", "time", "wall", NULL};

uint64_t graph_total(const struct graph_view *v, const struct graph_group *group)
{
	return graph_figure(&group->graph->totals.inclusive, v->value);
}

double graph_least(const struct graph_view *v, const struct graph_group *group)
{
	return v->limit / 100 * (double)graph_total(v, group);
}

double graph_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static int by_figure(const void *a, const void *b)
{
	const struct graph_table_row *x = a, *y = b;

	return COMPARE_THEN(y->figure, x->figure,
			    COMPARE_THEN(y->count, x->count, COMPARE(x->key->ip, y->key->ip)));
}

static size_t list_keys(const struct call_graph *g, struct graph_table_row *rows)
{
	size_t n = 0;

	for (uint32_t i = 1; i < g->key_count; i++)
		rows[n++] = (struct graph_table_row){.key = &g->keys[i],
						     .count = g->keys[i].count,
						     .inclusive = g->keys[i].inclusive,
						     .self = g->keys[i].self};
	return n;
}

static size_t list_pairs(const struct call_graph *g, struct graph_table_row *rows)
{
	size_t n = 0;

	for (uint32_t i = 1; i < g->node_count; i++) {
		const struct graph_node *node = &g->nodes[i];

		if (node->parent)
			rows[n++] =
			    (struct graph_table_row){.key = &g->keys[node->key],
						     .caller = &g->keys[g->nodes[node->parent].key],
						     .count = node->count,
						     .inclusive = node->inclusive,
						     .self = node->self};
	}
	return n;
}

struct graph_table_row *graph_list_rows(const struct graph_view *v, const struct call_graph *g,
					size_t *n)
{
	const bool pairs = v->kind == GRAPH_PAIR_TABLE;
	struct graph_table_row *rows = calloc(pairs ? g->node_count : g->key_count, sizeof(*rows));

	if (!rows)
		return NULL;
	*n = pairs ? list_pairs(g, rows) : list_keys(g, rows);
	for (size_t i = 0; i < *n; i++)
		rows[i].figure = graph_figure(pairs ? &rows[i].inclusive : &rows[i].self, v->value);
	qsort(rows, *n, sizeof(*rows), by_figure);
	return rows;
}
