/* SPDX-License-Identifier: MIT */
/*
 * speedscope's JSON (https://www.speedscope.app/file-format-schema.json): for each group an evented
 * profile, in which the calls of each path follow each other as one, the largest first. Its size is
 * in proportion to the nodes, which that of a list of whole stacks is not.
 */
#include "export/formats.h"

#include "output/json.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* The numbers of the groups' keys in the list of frames. */
static uint64_t first_frame(const struct export_tree *tree, size_t group)
{
	uint64_t n = 0;

	for (size_t i = 0; i < group; i++)
		n += tree->groups[i].graph->key_count - 1;
	return n;
}

static void put_frames(struct json *j, const struct export_tree *tree)
{
	char room[EXPORT_TREE_NAME];

	json_object(j, "shared", false);
	json_array(j, "frames");
	for (size_t i = 0; i < tree->group_count; i++) {
		const struct call_graph *graph = tree->groups[i].graph;

		for (uint32_t k = 1; k < graph->key_count; k++) {
			const struct graph_key *key = &graph->keys[k];

			json_object(j, NULL, true);
			json_string(j, "name", export_tree_name(key, room));
			if (key->file)
				json_string(j, "file", key->file);
			else if (key->path)
				json_string(j, "file", key->path);
			if (key->line)
				json_number(j, "line", key->line);
			json_end_object(j);
		}
	}
	json_end_array(j);
	json_end_object(j);
}

struct events {
	struct json *j;
	const struct export_tree *tree;
	const struct call_graph *graph;
	uint64_t first, at;
};

static void put_event(const struct events *e, const char *type, uint32_t node)
{
	json_object(e->j, NULL, true);
	json_string(e->j, "type", type);
	json_number(e->j, "at", e->at);
	json_number(e->j, "frame", e->first + e->graph->nodes[node].key - 1);
	json_end_object(e->j);
}

/* Ends the calls from `node` outwards, up to those of `depth`. */
static void close_calls(struct events *e, uint32_t node, uint32_t depth)
{
	for (; node && e->graph->nodes[node].depth >= depth; node = e->graph->nodes[node].parent) {
		const struct ptah_call_figures self = export_tree_self(e->tree, e->graph, node);

		e->at += graph_figure(&self, e->tree->value);
		put_event(e, "C", node);
	}
}

static uint64_t sum_of(const struct export_tree *tree, const struct call_graph *graph)
{
	uint64_t sum = 0;

	for (uint32_t i = export_tree_next(tree, graph, 0); i;
	     i = export_tree_next(tree, graph, i)) {
		const struct ptah_call_figures self = export_tree_self(tree, graph, i);

		sum += graph_figure(&self, tree->value);
	}
	return sum;
}

static int put_profile(struct json *j, const struct export_tree *tree, size_t group)
{
	const struct call_graph *graph = tree->groups[group].graph;
	struct events e = {j, tree, graph, first_frame(tree, group), 0};
	char *name = export_tree_group_name(&tree->groups[group]);
	uint32_t before = 0;

	if (!name)
		return PTAH_E_NOMEM;
	json_object(j, NULL, false);
	json_string(j, "type", "evented");
	json_string(j, "name", name);
	json_string(j, "unit", tree->value == PTAH_CALL_VALUE_TIME ? "nanoseconds" : "none");
	json_number(j, "startValue", 0);
	json_number(j, "endValue", sum_of(tree, graph));
	json_array(j, "events");
	for (uint32_t i = export_tree_next(tree, graph, 0); i && !out_failed(j->out);
	     i = export_tree_next(tree, graph, i)) {
		close_calls(&e, before, graph->nodes[i].depth);
		put_event(&e, "O", i);
		before = i;
	}
	close_calls(&e, before, 1);
	json_end_array(j);
	json_end_object(j);
	free(name);
	return 0;
}

int export_speedscope(struct out *out, const struct export_tree *tree)
{
	struct json j;
	int status = 0;

	json_init(&j, out);
	json_object(&j, NULL, false);
	json_string(&j, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_string(&j, "exporter", "ptah@" PTAH_VERSION_STRING);
	if (tree->command)
		json_string(&j, "name", tree->command);
	json_number(&j, "activeProfileIndex", 0);
	put_frames(&j, tree);
	json_array(&j, "profiles");
	for (size_t i = 0; i < tree->group_count && status >= 0; i++)
		status = put_profile(&j, tree, i);
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
	return status;
}
