/* SPDX-License-Identifier: MIT */
/* The state and the renderers of `ptah annotate`. */
#ifndef PTAH_CLI_ANNOTATE_VIEW_H
#define PTAH_CLI_ANNOTATE_VIEW_H

#include "input.h"
#include "output/annotate.h"
#include "output/json.h"
#include "output/source_files.h"
#include "render.h"

struct annotate_options {
	struct input input;
	const char *symbol, *objects;
	bool branches, lines, no_source, print_line, raw_bytes, att, full, no_predictor;
	bool full_paths, stdio;
};

struct annotate_view {
	const struct annotate_options *options;
	const struct annotation *annotation;
	struct names *names;
	struct source_files sources;
	size_t missing_sources;
	struct out *out;
	struct json json;
	const char *command; /* that was recorded; NULL: unknown */
	/* What is shown: functions; or, with --branches or --lines, rows of which `count` exist. */
	const struct annotate_function **functions;
	size_t function_count, count, shown;
	int figure_width, executed_width; /* of the columns of --branches as text */
};

/* One listing for each function: `row` takes a struct annotate_function. */
extern const struct renderer annotate_renderers[FORMAT_MAX];

/* --branches: a struct annotate_branch; --lines: a struct annotate_line. */
extern const struct renderer annotate_branch_renderers[FORMAT_MAX];
extern const struct renderer annotate_line_renderers[FORMAT_MAX];

/* annotate_lists.c: the lines with "#" before text, and the beginning of the JSON document. */
void annotate_summary_text(struct annotate_view *view);
void annotate_summary_json(struct annotate_view *view);

/* The last part of a path, or all of it with --full-paths. */
const char *annotate_file(const struct annotate_view *view, const char *file);

/* Writes a line of source code: tabs become blanks, what a terminal would obey "?". `columns`: how
 * many are left; 0: no limit. */
void annotate_put_source(struct out *out, const char *text, size_t n, unsigned columns);

/* The text of a line, NULL if its file is not there. Reports once on standard error that a file is
 * missing, or newer than the program. */
const char *annotate_source(struct annotate_view *view, uint32_t object, const char *file,
			    uint32_t line, size_t *n);

/* Reports how many more files were missing than annotate_source() has named. */
void annotate_note_missing(const struct annotate_view *view);

/* "taken 99.61 %, missed 2,000 (0.39 %)" of a branch. */
void annotate_put_branch(struct out *out, const struct annotation *annotation,
			 const struct annotate_branch *branch);

#endif
