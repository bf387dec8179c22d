/* SPDX-License-Identifier: MIT */
/*
 * Folded stacks, as stackcollapse-perf.pl writes them: a line for each path with what ran in its
 * innermost function. Readers split a line at semicolons and at its last space.
 */
#include "export/formats.h"

#include "base/text.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* The line up to the current node. */
struct path {
	char *text;
	size_t n, room;
	size_t *ends; /* of the frames of each depth; the first is the group's */
	size_t end_room;
};

/* Appends a name, without the characters that mean something to readers. */
static bool append(struct path *p, const char *name)
{
	size_t n;

	if (!LIST_ROOM_FOR(p->text, p->n, strlen(name) + 2, p->room))
		return false;
	if (p->n)
		p->text[p->n++] = ';';
	if (!*name)
		p->text[p->n++] = '?';
	for (; *name; name += n) {
		if (text_is_harmful(text_character(name, &n))) {
			p->text[p->n++] = '?';
			continue;
		}
		memcpy(p->text + p->n, name, n);
		if (*name == ';')
			p->text[p->n] = ':';
		p->n += n;
	}
	return true;
}

/* Makes the path end with a frame at `depth`. */
static bool set_frame(struct path *p, uint32_t depth, const char *name)
{
	if (!LIST_ROOM(p->ends, depth, p->end_room))
		return false;
	p->n = depth ? p->ends[depth - 1] : 0;
	if (!append(p, name))
		return false;
	p->ends[depth] = p->n;
	return true;
}

static void put_line(struct out *out, const struct path *p, uint64_t value)
{
	if (!value)
		return;
	out_bytes(out, p->text, p->n);
	out_char(out, ' ');
	out_decimal(out, value);
	out_char(out, '\n');
}

/* The group's frame, from which its stacks begin: none where everything is together. */
static bool begin_group(struct path *p, const struct export_tree *tree,
			const struct export_tree_group *group)
{
	char *name = NULL;
	bool good;

	if (group->pid == INT32_MIN && !*group->comm) {
		good = set_frame(p, 0, "");
		if (good)
			p->ends[0] = 0;
		return good;
	}
	/* As stackcollapse-perf.pl: the name alone where that is enough. */
	if (tree->group_count > 1)
		name = export_tree_group_name(group);
	good = tree->group_count == 1 || name;
	good = good && set_frame(p, 0, name ? name : group->comm);
	free(name);
	return good;
}

static int put_group(struct out *out, const struct export_tree *tree,
		     const struct export_tree_group *group, struct path *p)
{
	const struct call_graph *graph = group->graph;
	bool good = begin_group(p, tree, group);
	char room[EXPORT_TREE_NAME];
	struct ptah_call_figures self;
	uint32_t i = 0;

	while (good && (i = export_tree_next(tree, graph, i)) && !out_failed(out)) {
		const struct graph_node *node = &graph->nodes[i];

		good = set_frame(p, node->depth, export_tree_name(&graph->keys[node->key], room));
		self = export_tree_self(tree, graph, i);
		if (good)
			put_line(out, p, graph_figure(&self, tree->value));
	}
	return good ? 0 : PTAH_E_NOMEM;
}

int export_folded(struct out *out, const struct export_tree *tree)
{
	struct path path = {0};
	int status = 0;

	for (size_t i = 0; i < tree->group_count && status >= 0; i++)
		status = put_group(out, tree, &tree->groups[i], &path);
	free(path.text);
	free(path.ends);
	return status;
}
