/* SPDX-License-Identifier: MIT */
/*
 * The answers "diff/functions", "diff/flame" and "diff/lines": figures of two recordings next to
 * each other, as columns whose names end in _old and _new.
 */
#include "view/answers.h"
#include "view/difference.h"
#include "view/sources.h"

#include "base/order.h"
#include "output/diff_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer has at most so many nodes, those with the most. */
#define MOST 100000

static const char *const value_words[] = {"instructions", "cycles", "time"};

/* What is asked, and the difference with its lock taken. */
struct asked {
	struct difference *difference;
	enum ptah_call_value value;
};

static int ask(struct view_model *m, const struct view_query *query, struct view_reply *reply,
	       struct asked *asked)
{
	const char *word = view_query_text(query, "value");
	unsigned value = 0;
	int status;

	asked->difference = view_model_difference(m);
	if (!asked->difference)
		return view_refuse(reply, 404, "There is one recording: ptah view OLD NEW.");
	while (word && value < PTAH_CALL_VALUE_MAX && strcmp(word, value_words[value]) != 0)
		value++;
	if (value == PTAH_CALL_VALUE_MAX)
		return view_refuse(reply, 400, "value is instructions, cycles or time.");
	asked->value = (enum ptah_call_value)value;
	status = difference_lock(asked->difference);
	if (status >= 0 && !view_model_is_stopped(m))
		return 0;
	difference_unlock(asked->difference);
	return view_model_is_stopped(m) ? view_refuse(reply, 503, "Ptah is ending.") : status;
}

static void put_files(struct json *j, struct view_model *m)
{
	json_string(j, "old_file", view_model_recording(m, VIEW_OLD)->path);
	json_string(j, "new_file", view_model_recording(m, VIEW_SHOWN)->path);
}

static void put_renamed(struct json *j, const struct diff *diff)
{
	json_array(j, "renamed");
	for (size_t i = 0; i < diff->renamed_count; i++) {
		json_object(j, NULL, true);
		json_string(j, "old", diff->renamed[i].path[DIFF_OLD]);
		json_string(j, "new", diff->renamed[i].path[DIFF_NEW]);
		json_end_object(j);
	}
	json_end_array(j);
}

static void put_difference_head(struct json *j, struct view_model *m, const struct asked *a)
{
	const struct difference *d = a->difference;

	put_files(j, m);
	for (unsigned side = 0; side < VIEW_SIDES; side++)
		json_number(j, side == VIEW_OLD ? "total_old" : "total_new",
			    graph_figure(&d->graphs[side][GRAPH_DOWN]->totals.inclusive, a->value));
	put_renamed(j, &d->pairs);
}

static void put_keys(struct json *j, const struct difference *d)
{
	json_array(j, "name");
	for (uint32_t i = 0; i < d->key_count; i++)
		json_string(j, NULL, d->keys[i].name);
	json_end_array(j);
	json_array(j, "object");
	for (uint32_t i = 0; i < d->key_count; i++)
		json_string(j, NULL, d->keys[i].object);
	json_end_array(j);
}

/* Functions */

/* The functions of the recording that is shown, by name and object. */
struct by_name {
	const char *name, *object;
	uint32_t id;
};

static int compare_difference_names(const void *a, const void *b)
{
	const struct by_name *x = a, *y = b;
	const int order = strcmp(x->name, y->name);

	return order ? order : strcmp(x->object, y->object);
}

/* Writes the numbers that functions have in the view: -1 for those that are not there. */
static int put_difference_numbers(struct json *j, struct view_model *m, const struct difference *d)
{
	const uint32_t count = view_function_count(m);
	struct by_name *list = calloc(count + 1, sizeof(*list));
	struct view_function f;
	uint32_t n = 0;

	if (!list)
		return PTAH_E_NOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (view_function(m, i, &f))
			list[n++] = (struct by_name){f.name, f.object, i};
	qsort(list, n, sizeof(*list), compare_difference_names);
	json_array(j, "function");
	for (uint32_t i = 0; i < d->key_count; i++) {
		const struct by_name key = {d->keys[i].name, d->keys[i].object, 0};
		const struct by_name *found =
		    bsearch(&key, list, n, sizeof(*list), compare_difference_names);

		json_signed(j, NULL, found ? (int64_t)found->id : -1);
	}
	json_end_array(j);
	free(list);
	return 0;
}

enum measure {
	CALLS,
	SELF,
	INCLUSIVE
};

static uint64_t figure_of(const struct asked *a, const struct difference_sums *sums,
			  enum measure measure)
{
	return measure == CALLS
		   ? sums->count
		   : graph_figure(measure == SELF ? &sums->self : &sums->inclusive, a->value);
}

static void put_sums(struct json *j, const struct asked *a, enum measure measure,
		     enum view_side side)
{
	static const char *const words[] = {"calls", "self", "incl"};
	const struct difference *d = a->difference;
	char name[64];

	if (measure == CALLS)
		snprintf(name, sizeof(name), "calls_%s", side == VIEW_OLD ? "old" : "new");
	else
		snprintf(name, sizeof(name), "%s_%s_%s", words[measure], value_words[a->value],
			 side == VIEW_OLD ? "old" : "new");
	json_array(j, name);
	for (uint32_t i = 0; i < d->key_count; i++)
		json_number(j, NULL, figure_of(a, &d->keys[i].sums[side], measure));
	json_end_array(j);
}

int view_answer_diff_functions(struct view_model *m, const struct view_query *query,
			       struct view_reply *reply)
{
	struct json *j = &reply->json;
	struct asked a;
	int status = ask(m, query, reply, &a);

	if (status)
		return status;
	json_object(j, NULL, true);
	put_difference_head(j, m, &a);
	put_keys(j, a.difference);
	status = put_difference_numbers(j, m, a.difference);
	for (unsigned side = 0; side < VIEW_SIDES; side++) {
		put_sums(j, &a, CALLS, (enum view_side)side);
		put_sums(j, &a, SELF, (enum view_side)side);
		put_sums(j, &a, INCLUSIVE, (enum view_side)side);
	}
	json_end_object(j);
	json_finish(j);
	difference_unlock(a.difference);
	return status;
}

/* Paths */

static uint64_t larger(const struct asked *a, const struct difference_node *n)
{
	const uint64_t x = figure_of(a, &n->sums[VIEW_OLD], INCLUSIVE),
		       y = figure_of(a, &n->sums[VIEW_SHOWN], INCLUSIVE);

	return x > y ? x : y;
}

static int compare_difference_figures(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return COMPARE(y, x);
}

/*
 * Chooses the nodes that are shown: at most MOST, those with the most in either recording. No node
 * has less than what is below it, so that a node's parent is there whenever the node is.
 * numbers[i]: the number of node i in the answer, UINT32_MAX if it is left out.
 */
static int choose_shown_nodes(const struct asked *a, unsigned way, uint32_t *numbers)
{
	const struct difference *d = a->difference;
	const uint32_t n = d->node_count[way];
	uint64_t *figures = malloc((n + 1) * sizeof(*figures)), least = 0;
	uint32_t shown = 0;

	if (!figures)
		return PTAH_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		figures[i] = larger(a, &d->nodes[way][i]);
	if (n > MOST) {
		qsort(figures, n, sizeof(*figures), compare_difference_figures);
		least = figures[MOST] + 1;
	}
	free(figures);
	for (uint32_t i = 0; i < n; i++)
		numbers[i] = larger(a, &d->nodes[way][i]) >= least ? shown++ : UINT32_MAX;
	return 0;
}

static void put_difference_figures(struct json *j, const struct asked *a, unsigned way,
				   const uint32_t *numbers, enum measure measure)
{
	static const char *const words[VIEW_SIDES][3] = {
	    [VIEW_SHOWN] = {"count_new", "self_new", "incl_new"},
	    [VIEW_OLD] = {"count_old", "self_old", "incl_old"},
	};
	const struct difference *d = a->difference;

	for (unsigned side = 0; side < VIEW_SIDES; side++) {
		json_array(j, words[side][measure]);
		for (uint32_t i = 0; i < d->node_count[way]; i++)
			if (numbers[i] != UINT32_MAX)
				json_number(j, NULL,
					    figure_of(a, &d->nodes[way][i].sums[side], measure));
		json_end_array(j);
	}
}

static void put_nodes(struct json *j, const struct asked *a, unsigned way, const uint32_t *numbers)
{
	const struct difference *d = a->difference;

	json_array(j, "key");
	for (uint32_t i = 0; i < d->node_count[way]; i++)
		if (numbers[i] != UINT32_MAX)
			json_number(j, NULL, d->nodes[way][i].key);
	json_end_array(j);
	json_array(j, "parent");
	for (uint32_t i = 0; i < d->node_count[way]; i++) {
		const uint32_t parent = d->nodes[way][i].parent;

		if (numbers[i] != UINT32_MAX)
			json_signed(j, NULL, parent == UINT32_MAX ? -1 : (int64_t)numbers[parent]);
	}
	json_end_array(j);
	for (unsigned measure = CALLS; measure <= INCLUSIVE; measure++)
		put_difference_figures(j, a, way, numbers, (enum measure)measure);
}

int view_answer_diff_flame(struct view_model *m, const struct view_query *query,
			   struct view_reply *reply)
{
	const char *word = view_query_text(query, "direction");
	const unsigned way = word && !strcmp(word, "up") ? GRAPH_UP : GRAPH_DOWN;
	struct json *j = &reply->json;
	uint32_t *numbers;
	struct asked a;
	int status = ask(m, query, reply, &a);

	if (status)
		return status;
	numbers = calloc(a.difference->node_count[way] + 1, sizeof(*numbers));
	status = numbers ? choose_shown_nodes(&a, way, numbers) : PTAH_E_NOMEM;
	if (status >= 0) {
		json_object(j, NULL, true);
		put_difference_head(j, m, &a);
		put_keys(j, a.difference);
		put_nodes(j, &a, way, numbers);
		json_end_object(j);
		json_finish(j);
	}
	free(numbers);
	difference_unlock(a.difference);
	return status;
}

/* Lines */

/* The file and the line of a row of the new recording: its name is "FILE:LINE". */
static uint32_t parse_line(const struct diff_row *row, char *file, size_t size)
{
	const char *colon = row->in[DIFF_NEW] ? strrchr(row->name, ':') : NULL;

	*file = '\0';
	if (!colon || (size_t)(colon - row->name) >= size)
		return 0;
	memcpy(file, row->name, (size_t)(colon - row->name));
	file[colon - row->name] = '\0';
	return (uint32_t)strtoul(colon + 1, NULL, 10);
}

static void put_places(struct json *j, const struct diff *diff, const struct view_sources *s)
{
	char file[4096];

	json_array(j, "file");
	for (size_t i = 0; i < diff->count; i++) {
		const uint32_t line = parse_line(&diff->rows[i], file, sizeof(file));
		const uint32_t number = line ? view_sources_find(s, file) : UINT32_MAX;

		json_string(j, NULL, number == UINT32_MAX ? NULL : s->files[number].name);
	}
	json_end_array(j);
	json_array(j, "line");
	for (size_t i = 0; i < diff->count; i++)
		json_number(j, NULL, parse_line(&diff->rows[i], file, sizeof(file)));
	json_end_array(j);
}

static void put_values(struct json *j, const char *name, const struct diff *diff,
		       enum diff_side side, bool calls)
{
	json_array(j, name);
	for (size_t i = 0; i < diff->count; i++)
		json_number(j, NULL, calls ? diff->rows[i].calls[side] : diff->rows[i].value[side]);
	json_end_array(j);
}

static void put_difference_lines(struct json *j, struct view_model *m, const struct diff *diff)
{
	uint64_t totals[DIFF_SIDES] = {0};

	for (size_t i = 0; i < diff->count; i++)
		for (unsigned side = 0; side < DIFF_SIDES; side++)
			totals[side] += diff->rows[i].value[side];
	json_object(j, NULL, true);
	put_files(j, m);
	json_string(j, "value", "instructions");
	json_number(j, "total_old", totals[DIFF_OLD]);
	json_number(j, "total_new", totals[DIFF_NEW]);
	put_renamed(j, diff);
	json_array(j, "name");
	for (size_t i = 0; i < diff->count; i++)
		json_string(j, NULL, diff->rows[i].shown[0] ? diff->rows[i].shown : NULL);
	json_end_array(j);
	json_array(j, "object");
	for (size_t i = 0; i < diff->count; i++) {
		const char *slash = strrchr(diff->rows[i].path, '/');

		json_string(j, NULL, slash ? slash + 1 : diff->rows[i].path);
	}
	json_end_array(j);
	put_places(j, diff, view_model_sources(m, VIEW_SHOWN));
	put_values(j, "old", diff, DIFF_OLD, false);
	put_values(j, "new", diff, DIFF_NEW, false);
	put_values(j, "executed_old", diff, DIFF_OLD, true);
	put_values(j, "executed_new", diff, DIFF_NEW, true);
	json_end_object(j);
	json_finish(j);
}

/* With the locks of both. */
static int compare_difference_lines(struct json *j, struct view_model *m)
{
	struct diff_list lists[DIFF_SIDES] = {{0}};
	struct diff_entry *entries[DIFF_SIDES];
	size_t counts[DIFF_SIDES];
	struct diff diff = {0};
	int status = 0;

	for (unsigned side = 0; side < DIFF_SIDES && status >= 0; side++) {
		const struct view_sources *s =
		    view_model_sources(m, side == DIFF_OLD ? VIEW_OLD : VIEW_SHOWN);

		lists[side].counts = s->counts;
		lists[side].names = s->config.names;
		lists[side].use = s->annotation;
		status = diff_list_lines(&lists[side]);
		entries[side] = lists[side].entries;
		counts[side] = lists[side].count;
	}
	if (status >= 0)
		status = diff_compare(entries, counts, &diff);
	if (status >= 0)
		put_difference_lines(j, m, &diff);
	diff_fini(&diff);
	for (unsigned side = 0; side < DIFF_SIDES; side++)
		diff_list_fini(&lists[side]);
	return status;
}

int view_answer_diff_lines(struct view_model *m, const struct view_query *query,
			   struct view_reply *reply)
{
	struct view_sources *old = view_model_sources(m, VIEW_OLD),
			    *shown = view_model_sources(m, VIEW_SHOWN);
	int status;

	(void)query;
	if (!old || !shown)
		return view_refuse(reply, 404, "There is one recording: ptah view OLD NEW.");
	status = view_sources_lock(old);
	if (status >= 0) {
		status = view_sources_lock(shown);
		if (status >= 0)
			status = compare_difference_lines(&reply->json, m);
		view_sources_unlock(shown);
	}
	view_sources_unlock(old);
	if (status < 0 && view_model_is_stopped(m))
		return view_refuse(reply, 503, "Ptah is ending.");
	return status;
}
