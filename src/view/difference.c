/* SPDX-License-Identifier: MIT */
/* Reads the calls of two recordings, and finds what belongs together (difference.h). */
#include "view/difference.h"

#include "output/wait_names.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

int difference_new(struct view_model *model, struct difference **difference)
{
	struct difference *d = calloc(1, sizeof(*d));

	if (!d)
		return PTAH_E_NOMEM;
	d->model = model;
	if (pthread_mutex_init(&d->lock, NULL)) {
		free(d);
		return PTAH_E_NOMEM;
	}
	*difference = d;
	return 0;
}

void difference_free(struct difference *d)
{
	if (!d)
		return;
	for (unsigned side = 0; side < VIEW_SIDES; side++)
		for (unsigned way = 0; way < 2; way++)
			call_graph_free(d->graphs[side][way]);
	for (unsigned way = 0; way < 2; way++)
		free(d->nodes[way]);
	diff_fini(&d->pairs);
	free(d->keys);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

/* Calls */

struct reading {
	struct difference *difference;
	enum view_side side;
	const struct view_recording *recording;
	struct ptah_waits *waits; /* NULL: none are known */
};

static bool wants(void *reading, size_t stream)
{
	const struct reading *r = reading;

	return !r->recording->wants || r->recording->wants(r->recording->context, stream);
}

static bool goes_on(void *reading, uint64_t bytes)
{
	const struct reading *r = reading;

	(void)bytes;
	return !view_model_is_stopped(r->difference->model);
}

static int take_difference_tree(void *reading, const struct ptah_call_thread *thread,
				struct ptah_call_tree *tree)
{
	const struct reading *r = reading;
	struct difference *d = r->difference;
	int status = 0;

	view_names_lock(d->model, r->side);
	for (unsigned way = 0; way < 2 && status >= 0; way++)
		status = call_graph_add(d->graphs[r->side][way], thread, tree);
	view_names_unlock(d->model, r->side);
	return status;
}

static uint64_t end_of_thread(void *reading, const struct ptah_call_thread *thread, uint64_t tsc)
{
	const struct reading *r = reading;

	return wait_end_of_thread(r->waits, r->recording->session, thread, tsc);
}

static int read_side(struct difference *d, enum view_side side)
{
	struct reading r = {d, side, view_model_recording(d->model, side), NULL};
	struct ptah_call_reader_config config = {.size = sizeof(config),
						 .wants = wants,
						 .progress = goes_on,
						 .context = &r,
						 .jobs = view_model_jobs(d->model)};
	int status = 0;

	for (unsigned way = 0; way < 2 && status >= 0; way++) {
		const struct call_graph_config graph = {.names = r.recording->names,
							.sort = GRAPH_FUNCTION | GRAPH_OBJECT,
							.direction = way == GRAPH_UP ? GRAPH_UP
										     : GRAPH_DOWN};

		status = call_graph_new(&graph, &d->graphs[side][way]);
	}
	if (status >= 0 && ptah_session_samples(r.recording->session)) {
		status = ptah_waits_new(r.recording->session, NULL, &r.waits);
		config.ended = end_of_thread;
	}
	if (status >= 0)
		status = ptah_session_call_trees(r.recording->session, &config,
						 take_difference_tree, &r);
	ptah_waits_free(r.waits);
	for (unsigned way = 0; way < 2 && status >= 0; way++)
		status = call_graph_sort(d->graphs[side][way]);
	return status;
}

/* Functions */

static const char *name_of(const struct graph_key *k)
{
	return k->special ? k->special : k->function ? k->function : "[unknown]";
}

static const char *path_of(const struct graph_key *k)
{
	return k->path ? k->path : k->object ? k->object : "";
}

/* Finds which objects of the two recordings are one. */
static int pair_objects(struct difference *d)
{
	struct diff_entry *entries[DIFF_SIDES] = {NULL};
	size_t counts[DIFF_SIDES] = {0};
	int status = 0;

	for (unsigned side = 0; side < DIFF_SIDES && status >= 0; side++) {
		const struct call_graph *g =
		    d->graphs[side == DIFF_OLD ? VIEW_OLD : VIEW_SHOWN][GRAPH_DOWN];

		entries[side] = calloc(g->key_count + 1, sizeof(**entries));
		if (!entries[side])
			status = PTAH_E_NOMEM;
		for (uint32_t i = 1; i < g->key_count && status >= 0; i++)
			entries[side][counts[side]++] = (struct diff_entry){
			    .path = path_of(&g->keys[i]),
			    .name = name_of(&g->keys[i]),
			    .value = g->keys[i].self.instructions,
			};
	}
	if (status >= 0)
		status = diff_compare(entries, counts, &d->pairs);
	free(entries[DIFF_OLD]);
	free(entries[DIFF_NEW]);
	return status;
}

/* The path by which an object of the old recording goes in the new one. */
static const char *new_path(const struct difference *d, enum view_side side, const char *path)
{
	for (size_t i = 0; side == VIEW_OLD && i < d->pairs.renamed_count; i++)
		if (!strcmp(d->pairs.renamed[i].path[DIFF_OLD], path))
			return d->pairs.renamed[i].path[DIFF_NEW];
	return path;
}

static void add_figures(struct ptah_call_figures *to, const struct ptah_call_figures *from)
{
	to->instructions += from->instructions;
	to->cycles += from->cycles;
	to->time += from->time;
}

static void add_sums(struct difference_sums *to, uint64_t count,
		     const struct ptah_call_figures *inclusive,
		     const struct ptah_call_figures *self)
{
	to->count += count;
	add_figures(&to->inclusive, inclusive);
	add_figures(&to->self, self);
}

/* Maps the keys of one graph to those of both recordings. `to` has a place for each key. */
static int map_keys(struct difference *d, struct text_ids *ids, enum view_side side, unsigned way,
		    uint32_t *to)
{
	const struct call_graph *g = d->graphs[side][way];

	for (uint32_t i = 1; i < g->key_count; i++) {
		const struct graph_key *k = &g->keys[i];
		const char *path = new_path(d, side, path_of(k)), *name = name_of(k);
		const size_t n = strlen(path), m = strlen(name);
		char *text = malloc(n + m + 2);
		bool added = false;
		int64_t id;

		if (!text)
			return PTAH_E_NOMEM;
		memcpy(text, path, n + 1);
		memcpy(text + n + 1, name, m + 1);
		id = text_ids_of(ids, text, n + m + 2, &added);
		free(text);
		if (!id || (added && !LIST_ROOM(d->keys, d->key_count, d->key_room)))
			return PTAH_E_NOMEM;
		if (added)
			d->keys[d->key_count++] = (struct difference_key){
			    .name = name, .object = k->object ? k->object : ""};
		to[i] = (uint32_t)id - 1;
		if (way == GRAPH_DOWN)
			add_sums(&d->keys[to[i]].sums[side], k->count, &k->inclusive, &k->self);
		/* The new recording has the names that are shown. */
		if (side == VIEW_SHOWN && k->object)
			d->keys[to[i]].object = k->object;
	}
	return 0;
}

/* Paths */

/* Adds the nodes of one graph; their parents are before them in its list or not, so it is walked
 * from the root. */
static int add_difference_nodes(struct difference *d, struct pair_ids *ids, enum view_side side,
				unsigned way, const uint32_t *keys)
{
	const struct call_graph *g = d->graphs[side][way];
	uint32_t *to = calloc(g->node_count + 1, sizeof(*to));
	uint32_t at = g->node_count ? g->nodes[0].first : 0;

	if (!to)
		return PTAH_E_NOMEM;
	to[0] = UINT32_MAX;
	while (at) {
		const struct graph_node *n = &g->nodes[at];
		const uint32_t parent = to[n->parent];
		int64_t *id = pair_ids_at(ids, (uint64_t)parent + 1, keys[n->key]);

		if (!id ||
		    (!*id && !LIST_ROOM(d->nodes[way], d->node_count[way], d->node_room[way]))) {
			free(to);
			return PTAH_E_NOMEM;
		}
		if (!*id) {
			d->nodes[way][d->node_count[way]++] =
			    (struct difference_node){.key = keys[n->key], .parent = parent};
			*id = d->node_count[way];
		}
		to[at] = (uint32_t)*id - 1;
		add_sums(&d->nodes[way][to[at]].sums[side], n->count, &n->inclusive, &n->self);
		if (n->first) {
			at = n->first;
			continue;
		}
		while (at && !g->nodes[at].next)
			at = g->nodes[at].parent;
		at = at ? g->nodes[at].next : 0;
	}
	free(to);
	return 0;
}

static int join_difference(struct difference *d)
{
	struct text_ids ids = {0};
	int status = 0;

	for (unsigned way = 0; way < 2 && status >= 0; way++) {
		struct pair_ids paths = {0};

		/* The new recording first: its paths have its order. */
		for (unsigned side = 0; side < VIEW_SIDES && status >= 0; side++) {
			const struct call_graph *g = d->graphs[side][way];
			uint32_t *keys = calloc(g->key_count + 1, sizeof(*keys));

			status = keys ? map_keys(d, &ids, (enum view_side)side, way, keys)
				      : PTAH_E_NOMEM;
			if (status >= 0)
				status = add_difference_nodes(d, &paths, (enum view_side)side, way,
							      keys);
			free(keys);
		}
		pair_ids_free(&paths);
	}
	text_ids_free(&ids);
	return status;
}

static int make_difference(struct difference *d)
{
	int status = 0;

	for (unsigned side = 0; side < VIEW_SIDES && status >= 0; side++)
		status = read_side(d, (enum view_side)side);
	if (status >= 0)
		status = pair_objects(d);
	return status < 0 ? status : join_difference(d);
}

int difference_lock(struct difference *d)
{
	pthread_mutex_lock(&d->lock);
	if (!d->made) {
		d->made = true;
		d->status = make_difference(d);
	}
	return d->status;
}

void difference_unlock(struct difference *d)
{
	pthread_mutex_unlock(&d->lock);
}
