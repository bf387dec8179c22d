/* SPDX-License-Identifier: MIT */
/*
 * The answers "sources", "source", "code" and "coverage": source files, the lines of one, the
 * instructions of a function, and how much of each file ran. All as columns.
 */
#include "base/order.h"
#include "export/row_ids.h"
#include "view/answers.h"
#include "view/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A line of source code is cut there: nobody reads longer ones. */
#define LONGEST_LINE 4000

/* Takes the lock of the sources. 0, or what the maker returns. */
static int lock_sources(struct view_model *m, struct view_reply *reply, struct view_sources **s)
{
	int status;

	*s = view_model_sources(m, VIEW_SHOWN);
	if (!*s)
		return view_refuse(reply, 404, "there is no source code");
	status = view_sources_lock(*s);
	if (status >= 0)
		return 0;
	view_sources_unlock(*s);
	if (view_model_is_stopped(m))
		return view_refuse(reply, 503, "ptah view is ending");
	return status;
}

/* Writes a column of `count` numbers. */
#define PUT_COLUMN(j, name, count, value)                                                          \
	do {                                                                                       \
		json_array(j, name);                                                               \
		for (size_t i = 0; i < (count); i++)                                               \
			json_number(j, NULL, value);                                               \
		json_end_array(j);                                                                 \
	} while (0)

/* Files */

int view_answer_sources(struct view_model *m, const struct view_query *query,
			struct view_reply *reply)
{
	struct json *j = &reply->json;
	struct view_sources *s;
	int status = lock_sources(m, reply, &s);

	(void)query;
	if (status)
		return status;
	json_object(j, NULL, true);
	json_number(j, "total", s->annotation->instructions);
	json_array(j, "file");
	for (size_t i = 0; i < s->file_count; i++)
		json_string(j, NULL, s->files[i].name);
	json_end_array(j);
	PUT_COLUMN(j, "instructions", s->file_count, s->files[i].instructions);
	PUT_COLUMN(j, "lines", s->file_count, s->files[i].lines_run);
	json_end_object(j);
	json_finish(j);
	view_sources_unlock(s);
	return 0;
}

static void put_coverage(struct json *j, const struct view_sources *s)
{
	const struct source_coverage *c = s->coverage;
	const struct source_file_coverage *f = c->files;

	json_array(j, "file");
	for (size_t i = 0; i < c->file_count; i++)
		json_string(j, NULL, f[i].name);
	json_end_array(j);
	PUT_COLUMN(j, "lines_found", c->file_count, f[i].line_count);
	PUT_COLUMN(j, "lines_hit", c->file_count, f[i].lines_hit);
	PUT_COLUMN(j, "branches_found", c->file_count, 2 * f[i].branch_count);
	PUT_COLUMN(j, "branches_hit", c->file_count, f[i].ways_hit);
	PUT_COLUMN(j, "functions_found", c->file_count, f[i].function_count);
	PUT_COLUMN(j, "functions_hit", c->file_count, f[i].functions_hit);
	json_array(j, "missing");
	for (size_t i = 0; i < c->missing_count; i++)
		json_string(j, NULL, c->missing[i].path);
	json_end_array(j);
}

int view_answer_coverage(struct view_model *m, const struct view_query *query,
			 struct view_reply *reply)
{
	struct view_sources *s;
	int status = lock_sources(m, reply, &s);

	(void)query;
	if (status)
		return status;
	json_object(&reply->json, NULL, true);
	put_coverage(&reply->json, s);
	json_end_object(&reply->json);
	json_finish(&reply->json);
	view_sources_unlock(s);
	return 0;
}

/* The lines of a file */

/* Whether the text is newer than the object that has its lines. */
static bool is_newer(const struct view_sources *s, const struct view_source_file *file,
		     const struct source_file *text)
{
	struct stat st;

	for (size_t i = 0; i < file->line_count; i++) {
		const struct view_line *l = &s->lines[file->first_line + i];
		const struct annotate_object *o;
		bool newer;
		char *path;

		if (l->object == VIEW_NO_OBJECT)
			continue;
		o = &s->annotation->objects[l->object];
		if (!o->is_file)
			continue;
		path = names_local_path(s->config.names, o->path);
		newer = path && !stat(path, &st) && st.st_mtime < text->modified;
		free(path);
		return newer;
	}
	return false;
}

/* Writes the text of a file; null if it is nowhere. */
static int put_source_text(struct json *j, struct view_sources *s,
			   const struct view_source_file *file)
{
	struct source_file *text = source_file(&s->texts, file->name);
	char line[LONGEST_LINE + 1];

	if (!text)
		return PTAH_E_NOMEM;
	if (!text->path) {
		json_string(j, "text", NULL);
		return 0;
	}
	json_bool(j, "newer", is_newer(s, file, text));
	json_array(j, "text");
	for (uint32_t i = 1; i <= text->lines; i++) {
		size_t n = 0;
		const char *at = source_line(text, i, &n);

		if (n && at[n - 1] == '\r')
			n--;
		n = n < LONGEST_LINE ? n : LONGEST_LINE;
		memcpy(line, at ? at : "", at ? n : 0);
		line[at ? n : 0] = '\0';
		json_string(j, NULL, line);
	}
	json_end_array(j);
	return 0;
}

static void put_source_branches(struct json *j, const struct source_file_coverage *c)
{
	const struct source_branch *b = c ? c->branches : NULL;
	const size_t n = c ? c->branch_count : 0;

	PUT_COLUMN(j, "branch_line", n, b[i].line);
	PUT_COLUMN(j, "branch_executed", n, b[i].executed);
	PUT_COLUMN(j, "branch_taken", n, b[i].ways[b[i].ways[0].fall_through].count);
	PUT_COLUMN(j, "branch_unknown", n, b[i].unknown);
}

/* The functions of the view that begin in a file. */
static void put_source_functions(struct json *j, struct view_model *m, const struct view_sources *s,
				 uint32_t file)
{
	const uint32_t count = view_function_count(m);
	const char *last = NULL;
	uint32_t is = UINT32_MAX;
	struct view_function f;

	json_array(j, "function");
	for (uint32_t i = 0; i < count; i++) {
		if (!view_function(m, i, &f) || !f.file)
			continue;
		if (f.file != last)
			is = view_sources_find(s, last = f.file);
		if (is == file)
			json_number(j, NULL, i);
	}
	json_end_array(j);
}

int view_answer_source(struct view_model *m, const struct view_query *query,
		       struct view_reply *reply)
{
	struct json *j = &reply->json;
	const struct view_source_file *file;
	const struct view_line *lines;
	struct view_sources *s;
	uint64_t number;
	int status;

	if (!view_query_number(query, "file", UINT32_MAX, &number))
		return view_refuse(reply, 400, "source takes file=NUMBER, as sources lists them");
	status = lock_sources(m, reply, &s);
	if (status)
		return status;
	if (number >= s->file_count) {
		view_sources_unlock(s);
		return view_refuse(reply, 404, "there is no such source file");
	}
	file = &s->files[number];
	lines = s->lines + file->first_line;
	json_object(j, NULL, true);
	json_string(j, "file", file->name);
	status = put_source_text(j, s, file);
	PUT_COLUMN(j, "line", file->line_count, lines[i].line);
	PUT_COLUMN(j, "executed", file->line_count, lines[i].executed);
	PUT_COLUMN(j, "instructions", file->line_count, lines[i].instructions);
	put_source_branches(j, file->coverage);
	put_source_functions(j, m, s, (uint32_t)number);
	json_end_object(j);
	json_finish(j);
	view_sources_unlock(s);
	return status;
}

/* The instructions of a function */

/* A function that is being written, with what its rows need more than once. */
struct listing {
	struct view_model *model;
	struct view_sources *sources;
	struct json *json;
	const struct annotate_function *function;
	struct annotate_code code;
	uint32_t *files; /* of the rows, of the list of files; UINT32_MAX: none */
};

static int find_files(struct listing *l)
{
	const char *last = NULL;
	uint32_t file = UINT32_MAX;

	l->files = calloc(l->code.count + 1, sizeof(*l->files));
	if (!l->files)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < l->code.count; i++) {
		const struct annotate_row *row = &l->code.rows[i];

		if (row->file && row->file != last)
			file = view_sources_find(l->sources, last = row->file);
		l->files[i] = row->file && row->line ? file : UINT32_MAX;
	}
	return 0;
}

static void put_signed_column(struct json *j, const char *name, const uint32_t *values, size_t n)
{
	json_array(j, name);
	for (size_t i = 0; i < n; i++)
		json_signed(j, NULL, values[i] == UINT32_MAX ? -1 : (int64_t)values[i]);
	json_end_array(j);
}

/* The row that begins at a place; UINT32_MAX: none. */
static uint32_t row_at(const struct annotate_code *code, uint64_t place)
{
	size_t at;

	BISECT(at, 0, code->count, code->rows[at].at < place);
	return at < code->count && code->rows[at].at == place ? (uint32_t)at : UINT32_MAX;
}

/* The numbers that the view has for the functions of an object, by the places where they begin. */
static int list_numbers(struct view_model *m, const char *path, struct pair_ids *numbers)
{
	const uint32_t count = view_function_count(m);
	struct view_function f;

	for (uint32_t i = 0; i < count; i++) {
		int64_t *number;

		if (!view_function(m, i, &f) || strcmp(f.path, path) != 0)
			continue;
		number = pair_ids_at(numbers, f.place, 0);
		if (!number)
			return PTAH_E_NOMEM;
		*number = (int64_t)i + 1;
	}
	return 0;
}

/* Where direct branches and calls go: to a row of the function, or to another function. */
static int find_targets(struct listing *l, struct pair_ids *numbers, uint32_t *to,
			uint32_t *functions)
{
	for (size_t i = 0; i < l->code.count; i++) {
		uint64_t target;
		int64_t *number;

		to[i] = functions[i] = UINT32_MAX;
		if (l->code.no_bytes || !annotate_target(&l->code, &l->code.rows[i], &target))
			continue;
		if (target - l->function->start < l->function->end - l->function->start) {
			to[i] = row_at(&l->code, target);
			continue;
		}
		number = pair_ids_at(numbers, target, 0);
		if (!number)
			return PTAH_E_NOMEM;
		functions[i] = *number ? (uint32_t)(*number - 1) : UINT32_MAX;
	}
	return 0;
}

static int put_targets(struct listing *l)
{
	const struct annotate_object *o = &l->sources->annotation->objects[l->function->object];
	uint32_t *to = calloc(l->code.count + 1, sizeof(*to));
	uint32_t *functions = calloc(l->code.count + 1, sizeof(*functions));
	struct pair_ids numbers = {0};
	int status = to && functions ? 0 : PTAH_E_NOMEM;

	if (status >= 0 && o->is_file)
		status = list_numbers(l->model, o->path, &numbers);
	if (status >= 0)
		status = find_targets(l, &numbers, to, functions);
	if (status >= 0) {
		put_signed_column(l->json, "to", to, l->code.count);
		put_signed_column(l->json, "to_function", functions, l->code.count);
	}
	pair_ids_free(&numbers);
	free(to);
	free(functions);
	return status;
}

static void put_texts(struct listing *l)
{
	const struct annotate_code *code = &l->code;
	char text[768];

	json_array(l->json, "address");
	for (size_t i = 0; i < code->count; i++)
		json_address(l->json, NULL, code->rows[i].at + code->slide);
	json_end_array(l->json);
	json_array(l->json, "text");
	for (size_t i = 0; i < code->count; i++) {
		if (code->no_bytes)
			snprintf(text, sizeof(text), "(a block; its code is not available)");
		else
			annotate_instruction(l->sources->annotation, l->function, code,
					     &code->rows[i], 0, text, sizeof(text));
		json_string(l->json, NULL, text);
	}
	json_end_array(l->json);
	json_array(l->json, "bytes");
	for (size_t i = 0; i < code->count; i++) {
		text[0] = '\0';
		for (unsigned k = 0; k < code->rows[i].size && k < 15; k++)
			snprintf(text + 3 * k, 4, "%02x ", code->rows[i].bytes[k]);
		json_string(l->json, NULL, text);
	}
	json_end_array(l->json);
}

static void put_source_counts(struct listing *l)
{
	const struct annotate_row *r = l->code.rows;
	const size_t n = l->code.count;

	PUT_COLUMN(l->json, "executed", n, r[i].executed);
	PUT_COLUMN(l->json, "line", n, r[i].line);
	PUT_COLUMN(l->json, "branch", n, r[i].branch != NULL);
	PUT_COLUMN(l->json, "taken", n, r[i].branch ? r[i].branch->taken : 0);
	PUT_COLUMN(l->json, "unknown", n, r[i].branch ? r[i].branch->unknown : 0);
	put_signed_column(l->json, "file", l->files, n);
}

static const char *why_no_code(const struct annotate_object *o)
{
	return o->changed ? "The code is not available: the file has changed since it ran."
	       : o->is_file
		   ? "The code is not available: the file cannot be read."
		   : "The code is in no file: the counts of its blocks. `ptah annotate` shows it.";
}

static int put_source_code(struct listing *l, uint64_t number)
{
	const struct annotate_function *f = l->function;
	struct json *j = l->json;
	size_t first = 0;

	while (first < l->code.count && l->files[first] == UINT32_MAX)
		first++;
	json_object(j, NULL, true);
	json_number(j, "function", number);
	json_number(j, "instructions", f->instructions);
	json_number(j, "branches", f->branches);
	json_bool(j, "available", !l->code.no_bytes);
	if (l->code.no_bytes)
		json_string(j, "reason", why_no_code(&l->sources->annotation->objects[f->object]));
	json_bool(j, "rewritten", l->code.rewritten);
	json_bool(j, "cut", l->code.cut);
	json_signed(j, "source", first < l->code.count ? (int64_t)l->files[first] : -1);
	json_number(j, "source_line", first < l->code.count ? l->code.rows[first].line : 0);
	put_texts(l);
	put_source_counts(l);
	if (put_targets(l) < 0)
		return PTAH_E_NOMEM;
	json_end_object(j);
	json_finish(j);
	return 0;
}

int view_answer_code(struct view_model *m, const struct view_query *query, struct view_reply *reply)
{
	struct listing l = {.model = m, .json = &reply->json};
	struct view_function f;
	uint64_t number;
	int status;

	if (!view_query_number(query, "function", UINT32_MAX, &number))
		return view_refuse(reply, 400, "code takes function=NUMBER");
	if (!view_function(m, number, &f))
		return view_refuse(reply, 404, "there is no such function");
	status = lock_sources(m, reply, &l.sources);
	if (status)
		return status;
	l.function = view_sources_function(l.sources, f.path, f.place ? f.place : f.ip);
	if (!l.function) {
		view_sources_unlock(l.sources);
		return view_refuse(reply, 404, "no instruction of it was counted");
	}
	status = annotate_code(l.sources->annotation, l.function, &l.code);
	if (status >= 0) {
		status = find_files(&l);
		if (status >= 0)
			status = put_source_code(&l, number);
		free(l.files);
		annotate_code_free(&l.code);
	}
	view_sources_unlock(l.sources);
	return status;
}
