/* SPDX-License-Identifier: MIT */
/* `ptah annotate --branches` and `--lines`, and what all of its output has in common. */
#include "annotate_view.h"

#include "base/text.h"
#include "output/fields.h"
#include "output/predictor.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PREDICTOR_NAME "TAGE, 18 KB"

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

const char *annotate_file(const struct annotate_view *v, const char *file)
{
	const char *slash = strrchr(file, '/');

	return slash && slash[1] && !v->options->full_paths ? slash + 1 : file;
}

void annotate_put_source(struct out *out, const char *text, size_t n, unsigned columns)
{
	char *line = malloc(8 * n + 1);
	size_t k = 0;

	if (!line)
		return;
	for (size_t i = 0; i < n && text[i] && text[i] != '\r'; i++) {
		if (text[i] != '\t') {
			line[k++] = text[i];
			continue;
		}
		do
			line[k++] = ' ';
		while (k % 8);
	}
	line[k] = '\0';
	if (columns && pretty_columns(line) > columns)
		pretty_name(out, line, columns);
	else
		out_clean(out, line);
	free(line);
}

/* A library may have been made of hundreds of files, none of which is here. */
#define MOST_MISSING 3

void annotate_note_missing(const struct annotate_view *v)
{
	if (v->missing_sources > MOST_MISSING)
		fprintf(stderr, "note: %zu more source files are missing\n",
			v->missing_sources - MOST_MISSING);
}

/* Notes what is wrong with a source file, once. */
static void check_source(struct annotate_view *v, struct source_file *file, uint32_t object)
{
	const struct annotate_object *o = &v->annotation->objects[object];
	struct stat st;
	char *path;

	if (file->noted || v->options->input.quiet)
		return;
	file->noted = true;
	if (!file->path && ++v->missing_sources > MOST_MISSING)
		return;
	if (!file->path) {
		print_clean(
		    "note: ", "%s: no such source file: --source-path=FOLDER says where it is now",
		    file->name);
		return;
	}
	path = o->is_file ? names_local_path(v->names, o->path) : NULL;
	if (path && !stat(path, &st) && st.st_mtime < file->modified)
		print_clean("note: ", "%s is newer than %s: its lines may not be those that ran",
			    file->path, o->path);
	free(path);
}

const char *annotate_source(struct annotate_view *v, uint32_t object, const char *name,
			    uint32_t line, size_t *n)
{
	struct source_file *file;

	if (v->options->no_source)
		return NULL;
	file = source_file(&v->sources, name);
	if (!file)
		return NULL;
	check_source(v, file, object);
	return source_line(file, line, n);
}

void annotate_put_branch(struct out *out, const struct annotation *a,
			 const struct annotate_branch *b)
{
	const uint64_t known = b->executed - b->unknown;
	char text[PRETTY_NUMBER];

	out_format(out, "taken %.2f%%", percent(b->taken, known));
	if (b->unknown)
		out_format(out, ", %s unknown", pretty_number(b->unknown, text));
	if (!a->predicted)
		return;
	out_text(out, ", missed ");
	pretty_style(out, pretty_heat(percent(b->missed, a->missed)));
	out_format(out, "%s (%.2f%%)", pretty_number(b->missed, text), percent(b->missed, known));
	pretty_style(out, PRETTY_PLAIN);
}

/* What stands before the tables */

void annotate_summary_text(struct annotate_view *v)
{
	const struct annotation *a = v->annotation;
	char n[PRETTY_NUMBER], b[PRETTY_NUMBER], m[PRETTY_NUMBER];

	if (v->command) {
		out_text(v->out, "# ");
		out_clean(v->out, v->command);
		out_char(v->out, '\n');
	}
	out_format(v->out, "# %s instructions, %s conditional branches",
		   pretty_number(a->instructions, n), pretty_number(a->executed, b));
	if (a->predicted)
		out_format(v->out,
			   "; a simulated predictor (" PREDICTOR_NAME ") misses %s, %.2f%%\n",
			   pretty_number(a->missed, m), percent(a->missed, a->executed));
	else if (v->options->no_predictor)
		out_text(v->out, "; no predictor was simulated\n");
	else
		out_text(v->out, "\n# Saved counts do not have the order of outcomes: no predictor "
				 "was simulated\n");
	out_char(v->out, '\n');
}

void annotate_summary_json(struct annotate_view *v)
{
	const struct annotation *a = v->annotation;

	json_string(&v->json, "command", v->command);
	json_number(&v->json, "instructions", a->instructions);
	json_number(&v->json, "branches_executed", a->executed);
	json_string(&v->json, "predictor", a->predicted ? PREDICTOR_NAME : NULL);
	if (a->predicted)
		json_number(&v->json, "missed", a->missed);
}

static void begin_list_json(struct annotate_view *v, const char *array)
{
	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	annotate_summary_json(v);
	json_number(&v->json, "rows", v->count);
	json_array(&v->json, array);
}

static void end_list_json(void *view)
{
	struct annotate_view *v = view;

	json_end_array(&v->json);
	json_end_object(&v->json);
	json_finish(&v->json);
}

static void end_list_text(void *view)
{
	const struct annotate_view *v = view;

	if (v->shown < v->count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n", v->count - v->shown);
}

/* Branches */

/* A branch as TSV and JSON have it. */
struct flat_branch {
	uint64_t executed, taken, unknown, missed, ip, line;
	bool has_missed, has_line;
	const char *symbol, *to_symbol, *object, *file;
};

static const struct field branch_fields[] = {
    {"missed", "missed", FIELD_NUMBER, offsetof(struct flat_branch, missed), 0,
     offsetof(struct flat_branch, has_missed)},
    FIELD(struct flat_branch, "executed", FIELD_NUMBER, executed),
    FIELD(struct flat_branch, "taken", FIELD_NUMBER, taken),
    FIELD(struct flat_branch, "unknown", FIELD_NUMBER, unknown),
    FIELD(struct flat_branch, "ip", FIELD_ADDRESS, ip),
    FIELD(struct flat_branch, "symbol", FIELD_STRING, symbol),
    FIELD(struct flat_branch, "to_symbol", FIELD_STRING, to_symbol),
    FIELD(struct flat_branch, "object", FIELD_STRING, object),
    FIELD(struct flat_branch, "file", FIELD_STRING, file),
    {"line", "line", FIELD_NUMBER, offsetof(struct flat_branch, line), 0,
     offsetof(struct flat_branch, has_line)},
};

static const struct row_type branch_type = ROW_TYPE(branch_fields);

struct branch_texts {
	char from[1024], to[1024];
};

static void flatten_branch(const struct annotate_view *v, const struct annotate_branch *b,
			   struct branch_texts *texts, struct flat_branch *flat)
{
	const struct annotation *a = v->annotation;
	const struct annotate_object *o = &a->objects[b->object];
	struct ptah_line line;

	*flat = (struct flat_branch){
	    .executed = b->executed,
	    .taken = b->taken,
	    .unknown = b->unknown,
	    .missed = b->missed,
	    .has_missed = a->predicted,
	    .ip = b->ip,
	    .object = o->path ? o->path : o->shown,
	    .symbol = annotate_label(annotation_function(a, b->object, b->at), b->at, texts->from,
				     sizeof(texts->from)),
	    .to_symbol = annotate_label(annotation_function(a, b->object, b->target), b->target,
					texts->to, sizeof(texts->to)),
	};
	if (!names_line(v->names,
			names_find_version(v->names, (int32_t)b->process, b->ip, b->version),
			&line))
		return;
	flat->file = line.file;
	flat->line = line.line;
	flat->has_line = true;
}

/* The outcome that a branch had less often: what always predicting the other one would miss. */
static uint64_t rarer(const struct annotate_branch *b)
{
	const uint64_t known = b->executed - b->unknown;

	return b->taken < known - b->taken ? b->taken : known - b->taken;
}

/* On a terminal columns are as wide as what they hold. */
static void set_branch_widths(struct annotate_view *v, const char *head)
{
	const struct annotation *a = v->annotation;
	uint64_t figure = 0, executed = 0;
	char text[PRETTY_NUMBER];

	v->figure_width = v->executed_width = 15;
	if (!pretty_rest(v->out, 0))
		return;
	for (size_t i = 0; i < a->branch_count; i++) {
		const struct annotate_branch *b = &a->branches[i];
		const uint64_t one = a->predicted ? b->missed : rarer(b);

		figure = one > figure ? one : figure;
		executed = b->executed > executed ? b->executed : executed;
	}
	v->figure_width = (int)strlen(pretty_number(figure, text));
	if (v->figure_width < (int)strlen(head))
		v->figure_width = (int)strlen(head);
	v->executed_width = (int)strlen(pretty_number(executed, text));
	if (v->executed_width < (int)strlen("executed"))
		v->executed_width = (int)strlen("executed");
}

static void begin_branches_text(void *view)
{
	struct annotate_view *v = view;
	const char *head = v->annotation->predicted ? "missed" : "rarer outcome";

	annotate_summary_text(v);
	set_branch_widths(v, head);
	pretty_head(v->out, "%*s %7s %*s %7s  %s\n", v->figure_width, head, "of it",
		    v->executed_width, "executed", "taken", "branch -> target");
}

static void put_list_branch_text(void *view, const void *row)
{
	struct annotate_view *v = view;
	const struct annotate_branch *b = row;
	const bool predicted = v->annotation->predicted;
	const uint64_t figure = predicted ? b->missed : rarer(b);
	const uint64_t known = b->executed - b->unknown;
	const unsigned used =
	    (unsigned)(v->figure_width + v->executed_width) + 1 + 7 + 1 + 1 + 7 + 2;
	struct branch_texts texts;
	struct flat_branch flat;
	char n[PRETTY_NUMBER], m[PRETTY_NUMBER], place[64] = "";
	unsigned rest = pretty_rest(v->out, used + 4), room = 0;

	flatten_branch(v, b, &texts, &flat);
	if (flat.has_line)
		snprintf(place, sizeof(place), "%.40s:%" PRIu64, annotate_file(v, flat.file),
			 flat.line);
	if (rest && *place) {
		room = pretty_columns(place);
		room = room > rest / 3 ? rest / 3 : room;
		rest -= room + 2;
	}
	out_format(v->out, "%*s ", v->figure_width, pretty_number(figure, n));
	out_format(v->out, "%6.2f%%", percent(figure, known));
	out_format(v->out, " %*s %6.2f%%  ", v->executed_width, pretty_number(b->executed, m),
		   percent(b->taken, known));
	pretty_name(v->out, flat.symbol, rest / 2);
	out_text(v->out, " -> ");
	pretty_name(v->out, flat.to_symbol, rest / 2);
	pretty_style(v->out, PRETTY_SOURCE);
	if (*place)
		out_text(v->out, "  ");
	pretty_name(v->out, place, room);
	pretty_style(v->out, PRETTY_PLAIN);
	out_char(v->out, '\n');
}

static void begin_branches_tsv(void *view)
{
	fields_tsv_head(((struct annotate_view *)view)->out, &branch_type, 0);
}

static void put_branch_tsv(void *view, const void *row)
{
	struct annotate_view *v = view;
	struct branch_texts texts;
	struct flat_branch flat;

	flatten_branch(v, row, &texts, &flat);
	fields_tsv(v->out, &branch_type, 0, &flat);
}

static void begin_branches_json(void *view)
{
	begin_list_json(view, "branches");
}

static void put_list_branch_json(void *view, const void *row)
{
	struct annotate_view *v = view;
	struct branch_texts texts;
	struct flat_branch flat;

	flatten_branch(v, row, &texts, &flat);
	fields_json(&v->json, &branch_type, 0, &flat);
}

const struct renderer annotate_branch_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = begin_branches_text,
		     .row = put_list_branch_text,
		     .end = end_list_text,
		     .offered = true},
    [FORMAT_JSON] = {.begin = begin_branches_json,
		     .row = put_list_branch_json,
		     .end = end_list_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_branches_tsv, .row = put_branch_tsv, .offered = true},
};

/* Lines */

struct flat_line {
	double percent;
	uint64_t instructions, executed, line;
	const char *file, *symbol, *object;
};

static const struct field line_fields[] = {
    FIELD(struct flat_line, "percent", FIELD_REAL, percent),
    FIELD(struct flat_line, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct flat_line, "executed", FIELD_NUMBER, executed),
    FIELD(struct flat_line, "file", FIELD_STRING, file),
    FIELD(struct flat_line, "line", FIELD_NUMBER, line),
    FIELD(struct flat_line, "symbol", FIELD_STRING, symbol),
    FIELD(struct flat_line, "object", FIELD_STRING, object),
};

static const struct row_type line_type = ROW_TYPE(line_fields);

static struct flat_line flatten_line(const struct annotate_view *v, const struct annotate_line *l,
				     char *text, size_t size)
{
	const struct annotate_object *o = &v->annotation->objects[l->object];

	return (struct flat_line){
	    .percent = percent(l->instructions, v->annotation->instructions),
	    .instructions = l->instructions,
	    .executed = l->executed,
	    .file = l->file,
	    .line = l->line,
	    .symbol = annotate_label(l->function, l->function->start, text, size),
	    .object = o->path ? o->path : o->shown,
	};
}

static void begin_lines_text(void *view)
{
	struct annotate_view *v = view;

	annotate_summary_text(v);
	pretty_head(v->out, "%7s %17s %15s  %s\n", "percent", "instructions", "executed",
		    "line of source code");
}

static void put_line_text(void *view, const void *row)
{
	struct annotate_view *v = view;
	const struct annotate_line *l = row;
	char n[PRETTY_NUMBER], m[PRETTY_NUMBER], place[64];
	const char *source;
	size_t size;

	pretty_percent(v->out, l->instructions, v->annotation->instructions);
	out_format(v->out, " %17s %15s  ", pretty_number(l->instructions, n),
		   pretty_number(l->executed, m));
	snprintf(place, sizeof(place), "%.40s:%" PRIu32, annotate_file(v, l->file), l->line);
	pretty_text(v->out, PRETTY_SOURCE, place);
	source = annotate_source(v, l->object, l->file, l->line, &size);
	while (source && size && (*source == ' ' || *source == '\t')) {
		source++;
		size--;
	}
	if (source) {
		out_text(v->out, "  ");
		annotate_put_source(
		    v->out, source, size,
		    pretty_rest(v->out, 7 + 1 + 17 + 1 + 15 + 4 + (unsigned)strlen(place)));
	}
	out_char(v->out, '\n');
}

static void begin_lines_tsv(void *view)
{
	fields_tsv_head(((struct annotate_view *)view)->out, &line_type, 0);
}

static void put_line_tsv(void *view, const void *row)
{
	struct annotate_view *v = view;
	char text[1024];
	const struct flat_line flat = flatten_line(v, row, text, sizeof(text));

	fields_tsv(v->out, &line_type, 0, &flat);
}

static void begin_lines_json(void *view)
{
	begin_list_json(view, "lines");
}

static void put_line_json(void *view, const void *row)
{
	struct annotate_view *v = view;
	char text[1024];
	const struct flat_line flat = flatten_line(v, row, text, sizeof(text));

	fields_json(&v->json, &line_type, 0, &flat);
}

const struct renderer annotate_line_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = begin_lines_text,
		     .row = put_line_text,
		     .end = end_list_text,
		     .offered = true},
    [FORMAT_JSON] = {.begin = begin_lines_json,
		     .row = put_line_json,
		     .end = end_list_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_lines_tsv, .row = put_line_tsv, .offered = true},
};
