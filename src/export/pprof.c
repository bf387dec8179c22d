/* SPDX-License-Identifier: MIT */
/*
 * pprof's profile.proto (https://github.com/google/pprof/tree/main/proto), in gzip: a sample for
 * each path, with everything that is counted. Functions are not distinguished by the place of the
 * call in their caller: a location is a function.
 */
#include "export/formats.h"
#include "export/gzip.h"
#include "support/table.h"
#include "export/protobuf.h"
#include "export/utf8.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* Fields. */
enum profile_field {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE = 2,
	PROFILE_MAPPING = 3,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION = 5,
	PROFILE_STRING = 6,
	PROFILE_COMMENT = 13,
	PROFILE_DEFAULT_TYPE = 14,
};

enum type_field {
	TYPE_TYPE = 1,
	TYPE_UNIT = 2,
};

enum sample_field {
	SAMPLE_LOCATION = 1,
	SAMPLE_VALUE = 2,
	SAMPLE_LABEL = 3,
};

enum label_field {
	LABEL_KEY = 1,
	LABEL_TEXT = 2,
	LABEL_NUMBER = 3,
};

enum mapping_field {
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILES = 8,
	MAPPING_HAS_LINES = 9,
};

enum location_field {
	LOCATION_ID = 1,
	LOCATION_MAPPING = 2,
	LOCATION_ADDRESS = 3,
	LOCATION_LINE = 4,
};

enum line_field {
	LINE_FUNCTION = 1,
	LINE_LINE = 2,
};

enum function_field {
	FUNCTION_ID = 1,
	FUNCTION_NAME = 2,
	FUNCTION_SYSTEM_NAME = 3,
	FUNCTION_FILE = 4,
	FUNCTION_START_LINE = 5,
};

#define FLUSH_SIZE (64u << 10)

struct pprof {
	struct protobuf p;
	struct gzip *gzip;
	const struct export_tree *tree;
	struct table strings, mappings;
	bool failed; /* memory was short */
};

static void flush(struct pprof *w, size_t most)
{
	if (w->p.n <= most)
		return;
	gzip_write(w->gzip, w->p.bytes, w->p.n);
	w->p.n = 0;
}

/*
 * The number of a text, which is written when it is new: not within another field. It is known by
 * `key`, which is the text itself or what has it.
 */
static uint64_t string_of(struct pprof *w, const void *key, const char *text)
{
	bool is_new;
	const uint32_t number = table_number(&w->strings, (uintptr_t)key, UINT32_MAX, &is_new);
	char *copy;

	if (!number)
		w->failed = true;
	if (!number || !is_new)
		return number;
	copy = utf8_copy(text);
	if (copy)
		protobuf_text(&w->p, PROFILE_STRING, copy);
	else
		w->failed = true;
	free(copy);
	return number;
}

static uint64_t constant(struct pprof *w, const char *text)
{
	return string_of(w, text, text);
}

static void put_type(struct pprof *w, unsigned field, const char *type, const char *unit)
{
	const uint64_t type_number = constant(w, type), unit_number = constant(w, unit);
	const size_t begin = protobuf_begin(&w->p, field);

	protobuf_number(&w->p, TYPE_TYPE, type_number);
	protobuf_number(&w->p, TYPE_UNIT, unit_number);
	protobuf_end(&w->p, begin);
}

static void put_types(struct pprof *w)
{
	static const char instructions[] = "instructions", calls[] = "calls", cycles[] = "cycles";
	static const char time[] = "time", count[] = "count", nanoseconds[] = "nanoseconds";
	const char *const defaults[] = {instructions, cycles, time};

	put_type(w, PROFILE_SAMPLE_TYPE, calls, count);
	put_type(w, PROFILE_SAMPLE_TYPE, instructions, count);
	if (w->tree->has_cycles)
		put_type(w, PROFILE_SAMPLE_TYPE, cycles, count);
	if (w->tree->has_time)
		put_type(w, PROFILE_SAMPLE_TYPE, time, nanoseconds);
	protobuf_number(&w->p, PROFILE_DEFAULT_TYPE, constant(w, defaults[w->tree->value]));
	if (w->tree->command)
		protobuf_number(&w->p, PROFILE_COMMENT, constant(w, w->tree->command));
}

/* The number of an object's mapping, which is written when it is new. */
static uint64_t mapping_of(struct pprof *w, const char *path)
{
	bool is_new;
	const uint32_t number = table_number(&w->mappings, (uintptr_t)path, UINT32_MAX, &is_new);
	uint64_t file;
	size_t begin;

	if (!number)
		w->failed = true;
	if (!number || !is_new)
		return number;
	file = constant(w, path);
	begin = protobuf_begin(&w->p, PROFILE_MAPPING);
	protobuf_number(&w->p, MAPPING_ID, number);
	protobuf_number(&w->p, MAPPING_FILE, file);
	/* Or pprof would look for the names itself. */
	protobuf_number(&w->p, MAPPING_HAS_FUNCTIONS, 1);
	protobuf_number(&w->p, MAPPING_HAS_FILES, 1);
	protobuf_number(&w->p, MAPPING_HAS_LINES, 1);
	protobuf_end(&w->p, begin);
	return number;
}

/* A function, and the location that is the function. */
static void put_key(struct pprof *w, const struct graph_key *key, uint64_t id)
{
	char room[EXPORT_TREE_NAME];
	const char *text = export_tree_name(key, room);
	const uint64_t name = string_of(w, text == room ? (const void *)key : text, text);
	const uint64_t file = key->file ? constant(w, key->file) : 0;
	const char *object = key->path ? key->path : key->object;
	const uint64_t mapping = object ? mapping_of(w, object) : 0;
	size_t begin = protobuf_begin(&w->p, PROFILE_FUNCTION), line;

	protobuf_number(&w->p, FUNCTION_ID, id);
	protobuf_number(&w->p, FUNCTION_NAME, name);
	protobuf_number(&w->p, FUNCTION_SYSTEM_NAME, name);
	protobuf_number(&w->p, FUNCTION_FILE, file);
	protobuf_number(&w->p, FUNCTION_START_LINE, key->line);
	protobuf_end(&w->p, begin);
	begin = protobuf_begin(&w->p, PROFILE_LOCATION);
	protobuf_number(&w->p, LOCATION_ID, id);
	protobuf_number(&w->p, LOCATION_MAPPING, mapping);
	protobuf_number(&w->p, LOCATION_ADDRESS, key->ip);
	line = protobuf_begin(&w->p, LOCATION_LINE);
	protobuf_number(&w->p, LINE_FUNCTION, id);
	protobuf_number(&w->p, LINE_LINE, key->line);
	protobuf_end(&w->p, line);
	protobuf_end(&w->p, begin);
}

struct label {
	uint64_t key, text, number;
};

static void put_label(struct pprof *w, const struct label *label)
{
	const size_t begin = protobuf_begin(&w->p, SAMPLE_LABEL);

	protobuf_number(&w->p, LABEL_KEY, label->key);
	if (label->text)
		protobuf_number(&w->p, LABEL_TEXT, label->text);
	else
		protobuf_number(&w->p, LABEL_NUMBER, label->number);
	protobuf_end(&w->p, begin);
}

static size_t labels_of(struct pprof *w, const struct export_tree_group *group,
			struct label *labels)
{
	size_t n = 0;

	if (*group->comm) {
		labels[n].key = constant(w, "comm");
		labels[n++].text = string_of(w, group, group->comm);
	}
	if (group->pid != INT32_MIN)
		labels[n++] = (struct label){constant(w, "pid"), 0, (uint64_t)(int64_t)group->pid};
	if (group->tid != INT32_MIN)
		labels[n++] = (struct label){constant(w, "tid"), 0, (uint64_t)(int64_t)group->tid};
	return n;
}

static void put_sample(struct pprof *w, const struct call_graph *graph, uint32_t node,
		       uint64_t first, const struct label *labels, size_t label_count)
{
	const struct ptah_call_figures self = export_tree_self(w->tree, graph, node);
	const uint64_t calls = graph->nodes[node].count;
	size_t begin, part;

	if (!calls && !self.instructions && !self.cycles && !self.time)
		return;
	begin = protobuf_begin(&w->p, PROFILE_SAMPLE);
	part = protobuf_begin(&w->p, SAMPLE_LOCATION); /* the innermost call first */
	for (uint32_t i = node; i; i = graph->nodes[i].parent)
		protobuf_packed(&w->p, first + graph->nodes[i].key);
	protobuf_end(&w->p, part);
	part = protobuf_begin(&w->p, SAMPLE_VALUE);
	protobuf_packed(&w->p, calls);
	protobuf_packed(&w->p, self.instructions);
	if (w->tree->has_cycles)
		protobuf_packed(&w->p, self.cycles);
	if (w->tree->has_time)
		protobuf_packed(&w->p, self.time);
	protobuf_end(&w->p, part);
	for (size_t i = 0; i < label_count; i++)
		put_label(w, &labels[i]);
	protobuf_end(&w->p, begin);
}

static bool grow_sums(uint64_t **sums, size_t *room, uint32_t number)
{
	size_t more = *room ? *room : 16;
	uint64_t *bigger;

	if (number < *room)
		return true;
	while (more <= number)
		more *= 2;
	bigger = reallocarray(*sums, more, sizeof(**sums));
	if (!bigger)
		return false;
	memset(bigger + *room, 0, (more - *room) * sizeof(*bigger));
	*sums = bigger;
	*room = more;
	return true;
}

/* pprof calls the first mapping the main program: the object in which the most ran. */
static void put_main(struct pprof *w)
{
	struct table objects = {0};
	const char *main_path = NULL;
	uint64_t *sums = NULL, most = 0;
	size_t room = 0;

	for (size_t i = 0; i < w->tree->group_count; i++) {
		const struct call_graph *graph = w->tree->groups[i].graph;

		for (uint32_t k = 1; k < graph->key_count; k++) {
			const struct graph_key *key = &graph->keys[k];
			uint32_t number;
			bool is_new;

			if (!key->path)
				continue;
			number = table_number(&objects, (uintptr_t)key->path, UINT32_MAX, &is_new);
			if (!number || !grow_sums(&sums, &room, number)) {
				w->failed = true;
				break;
			}
			sums[number] += graph_figure(&key->self, w->tree->value);
			if (sums[number] > most) {
				most = sums[number];
				main_path = key->path;
			}
		}
	}
	if (main_path)
		mapping_of(w, main_path);
	table_free(&objects);
	free(sums);
}

/* `first`: the number of the keys before those of this group. */
static void put_group(struct pprof *w, const struct export_tree_group *group, uint64_t first)
{
	const struct call_graph *graph = group->graph;
	struct label labels[3] = {{0}};
	const size_t n = labels_of(w, group, labels);

	for (uint32_t k = 1; k < graph->key_count; k++) {
		put_key(w, &graph->keys[k], first + k);
		flush(w, FLUSH_SIZE);
	}
	for (uint32_t i = export_tree_next(w->tree, graph, 0); i;
	     i = export_tree_next(w->tree, graph, i)) {
		put_sample(w, graph, i, first, labels, n);
		flush(w, FLUSH_SIZE);
	}
}

int export_pprof(struct out *out, const struct export_tree *tree)
{
	struct pprof w = {.tree = tree};
	uint64_t first = 0;
	int status = gzip_begin(out, &w.gzip);

	if (status < 0)
		return status;
	protobuf_text(&w.p, PROFILE_STRING, ""); /* string 0 */
	put_types(&w);
	put_main(&w);
	for (size_t i = 0; i < tree->group_count && !out_failed(out); i++) {
		put_group(&w, &tree->groups[i], first);
		first += tree->groups[i].graph->key_count;
	}
	flush(&w, 0);
	status = w.failed || w.p.failed ? PTAH_E_NOMEM : 0;
	gzip_end(w.gzip, status >= 0);
	table_free(&w.strings);
	table_free(&w.mappings);
	protobuf_free(&w.p);
	return status;
}
