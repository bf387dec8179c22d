/* SPDX-License-Identifier: MIT */
/* The answer "functions": all functions as columns, of which the index is a function's number. */
#include "base/order.h"
#include "view/answers.h"
#include "view/trees.h"

#include <stdlib.h>
#include <string.h>

/* The different objects, in the order of their first functions. */
struct objects {
	const char **paths;
	uint32_t count;
	uint32_t *of; /* by function */
};

static const char *path_of(const struct view_function *f)
{
	return *f->path ? f->path : f->object;
}

struct by_path {
	const char *path;
	uint32_t function;
};

static int compare_paths(const void *a, const void *b)
{
	const struct by_path *x = a, *y = b;
	const int order = strcmp(x->path, y->path);

	return order ? order : COMPARE(x->function, y->function);
}

static int find_objects(struct view_model *m, uint32_t count, struct objects *objects)
{
	struct by_path *all = calloc(count + 1, sizeof(*all));
	struct view_function f;

	objects->paths = calloc(count + 1, sizeof(*objects->paths));
	objects->of = calloc(count + 1, sizeof(*objects->of));
	if (!all || !objects->paths || !objects->of) {
		free(all);
		return PTAH_E_NOMEM;
	}
	for (uint32_t i = 0; i < count; i++) {
		view_function(m, i, &f);
		all[i] = (struct by_path){path_of(&f), i};
	}
	qsort(all, count, sizeof(*all), compare_paths);
	for (uint32_t i = 0; i < count; i++) {
		if (!i || strcmp(all[i].path, all[i - 1].path) != 0)
			objects->paths[objects->count++] = all[i].path;
		objects->of[all[i].function] = objects->count - 1;
	}
	free(all);
	return 0;
}

static void put_function_texts(struct view_model *m, struct json *j, uint32_t count,
			       const struct objects *objects)
{
	struct view_function f;

	json_array(j, "objects");
	for (uint32_t i = 0; i < objects->count; i++)
		json_string(j, NULL, objects->paths[i]);
	json_end_array(j);
	json_array(j, "name");
	for (uint32_t i = 0; i < count; i++)
		json_string(j, NULL, view_function(m, i, &f) ? f.name : NULL);
	json_end_array(j);
	json_array(j, "object");
	for (uint32_t i = 0; i < count; i++)
		json_number(j, NULL, objects->of[i]);
	json_end_array(j);
	json_array(j, "file");
	for (uint32_t i = 0; i < count; i++)
		json_string(j, NULL, view_function(m, i, &f) ? f.file : NULL);
	json_end_array(j);
	json_array(j, "line");
	for (uint32_t i = 0; i < count; i++)
		json_number(j, NULL, view_function(m, i, &f) ? f.line : 0);
	json_end_array(j);
	json_array(j, "kind");
	for (uint32_t i = 0; i < count; i++) {
		view_function(m, i, &f);
		json_string(j, NULL, f.generated ? "generated" : f.ip >> 63 ? "kernel" : "user");
	}
	json_end_array(j);
}

#define COLUMN(name, member)                                                                       \
	{                                                                                          \
		name, offsetof(struct view_tree_function, member)                                  \
	}

static const struct {
	const char *name;
	size_t at;
} columns[] = {
    COLUMN("count", count),
    COLUMN("partial", partial),
    COLUMN("incl_instructions", inclusive.instructions),
    COLUMN("incl_cycles", inclusive.cycles),
    COLUMN("incl_time", inclusive.time),
    COLUMN("self_instructions", self.instructions),
    COLUMN("self_cycles", self.cycles),
    COLUMN("self_time", self.time),
};

static const struct {
	const char *name;
	enum ptah_call_value value;
} values[] = {
    {"instructions", PTAH_CALL_VALUE_INSTRUCTIONS},
    {"cycles", PTAH_CALL_VALUE_CYCLES},
    {"time", PTAH_CALL_VALUE_TIME},
};

static const struct {
	const char *name;
	size_t at;
} quantiles[] = {
    {"calls", offsetof(struct view_tree_function, of[0].calls)},
    {"min", offsetof(struct view_tree_function, of[0].min)},
    {"p50", offsetof(struct view_tree_function, of[0].quantile[VIEW_P50])},
    {"p90", offsetof(struct view_tree_function, of[0].quantile[VIEW_P90])},
    {"p99", offsetof(struct view_tree_function, of[0].quantile[VIEW_P99])},
    {"p999", offsetof(struct view_tree_function, of[0].quantile[VIEW_P999])},
    {"max", offsetof(struct view_tree_function, of[0].max)},
};

static uint64_t member(const struct view_tree_function *f, size_t at)
{
	uint64_t value;

	memcpy(&value, (const char *)f + at, sizeof(value));
	return value;
}

static void put_function_column(struct json *j, const char *name, const struct view_trees *t,
				uint32_t count, size_t at)
{
	json_array(j, name);
	for (uint32_t i = 0; i < count; i++)
		json_number(j, NULL, i < t->function_count ? member(&t->functions[i], at) : 0);
	json_end_array(j);
}

static void put_figures(struct json *j, const struct view_model *m, const struct view_trees *t,
			uint32_t count)
{
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		put_function_column(j, columns[i].name, t, count, columns[i].at);
	for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
		if ((values[v].value == PTAH_CALL_VALUE_TIME && !m->has_time) ||
		    (values[v].value == PTAH_CALL_VALUE_CYCLES && !m->has_cycles))
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(quantiles); i++) {
			char name[64] = "";

			strcpy(name, values[v].name);
			strcat(name, "_");
			strcat(name, quantiles[i].name);
			put_function_column(
			    j, name, t, count,
			    quantiles[i].at +
				values[v].value * sizeof(((struct view_tree_function *)0)->of[0]));
		}
	}
}

int view_answer_functions(struct view_model *m, const struct view_query *query,
			  struct view_reply *reply)
{
	const struct view_trees *t = view_trees_get(m);
	const uint32_t count = view_function_count(m);
	struct objects objects = {0};
	struct json *j = &reply->json;
	int status = find_objects(m, count, &objects);

	(void)query;
	if (status >= 0) {
		json_object(j, NULL, true);
		json_bool(j, "complete", t && view_functions_have_lines(m->functions));
		json_number(j, "count_of_functions", count);
		put_function_texts(m, j, count, &objects);
		if (t)
			put_figures(j, m, t, count);
		json_end_object(j);
		json_finish(j);
	}
	free(objects.paths);
	free(objects.of);
	return status;
}
