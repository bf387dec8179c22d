/* SPDX-License-Identifier: MIT */
/* Goes through call graphs for the formats of profiles and flame graphs (tree.h). */
#include "export/tree.h"

#include <inttypes.h>
#include <stdio.h>

static bool is_deepest(const struct export_tree *tree, const struct graph_node *node)
{
	return node->depth >= tree->most_depth;
}

uint32_t export_tree_next(const struct export_tree *tree, const struct call_graph *graph,
			  uint32_t node)
{
	const struct graph_node *nodes = graph->nodes;

	if (nodes[node].first && !is_deepest(tree, &nodes[node]))
		return nodes[node].first;
	while (node && !nodes[node].next)
		node = nodes[node].parent;
	return node ? nodes[node].next : 0;
}

struct ptah_call_figures export_tree_self(const struct export_tree *tree,
					  const struct call_graph *graph, uint32_t node)
{
	const struct graph_node *n = &graph->nodes[node];

	return is_deepest(tree, n) ? n->inclusive : n->self;
}

uint64_t export_tree_total(const struct export_tree *tree, const struct call_graph *graph)
{
	uint64_t sum = 0;

	for (uint32_t i = graph->nodes[0].first; i; i = graph->nodes[i].next)
		sum += graph_figure(&graph->nodes[i].inclusive, tree->value);
	return sum;
}

const char *export_tree_name(const struct graph_key *key, char *room)
{
	if (key->special)
		return key->special;
	if (key->function)
		return key->function;
	snprintf(room, EXPORT_TREE_NAME, "0x%" PRIx64, key->ip);
	return room;
}

char *export_tree_group_name(const struct export_tree_group *group)
{
	const char *comm = *group->comm ? group->comm : "all";
	char *name;
	int n;

	if (group->pid == INT32_MIN)
		n = asprintf(&name, "%s", comm);
	else if (group->tid == INT32_MIN)
		n = asprintf(&name, "%s %" PRId32, comm, group->pid);
	else
		n = asprintf(&name, "%s %" PRId32 "/%" PRId32, comm, group->pid, group->tid);
	return n < 0 ? NULL : name;
}

const char *export_tree_unit(enum ptah_call_value value)
{
	static const char *const units[] = {"instructions", "cycles", "nanoseconds"};

	return units[value];
}
