/* SPDX-License-Identifier: MIT */
/*
 * The drivers of `ptah export` for coverage: of source code, and of blocks as drcov has them. They
 * add up recordings and saved counts.
 */
#include "export/source_coverage.h"
#include "export_view.h"
#include "output/drcov.h"
#include "saved_counts.h"

#include <stdlib.h>
#include <string.h>

/* Splits a list of patterns at its commas. The caller frees *text and the result. */
static const char **split(const char *list, char **text)
{
	const char **patterns;
	size_t n = 1;

	for (const char *p = list; p && *p; p++)
		n += *p == ',';
	*text = list ? strdup(list) : NULL;
	patterns = calloc(n + 1, sizeof(*patterns));
	if (!patterns || (list && !*text)) {
		free(*text);
		free(patterns);
		return NULL;
	}
	n = 0;
	for (char *rest = *text, *word; rest && (word = strsep(&rest, ","));)
		if (*word)
			patterns[n++] = word;
	return patterns;
}

static int new_coverage(const struct export_options *options, const struct annotation *annotation,
			struct source_coverage **coverage)
{
	char *included = NULL, *excluded = NULL;
	const char **include = split(options->include, &included);
	const char **exclude = split(options->exclude, &excluded);
	const struct source_coverage_config config = {.include = include, .exclude = exclude};
	int problem =
	    include && exclude ? source_coverage_new(annotation, &config, coverage) : PTAH_E_NOMEM;

	free(include);
	free(exclude);
	free(included);
	free(excluded);
	return problem;
}

static const char *reason(int status)
{
	switch (status) {
	case 0:
		return "another file ran";
	case PTAH_E_MISSING:
		return "no debug information";
	case PTAH_E_BAD_MAGIC:
		return "no ELF file of this kind";
	default:
		return ptah_strerror(status);
	}
}

/* Says which programs, libraries and lines the coverage does not have. */
static void note_missing(const struct input *input, const struct source_coverage *coverage)
{
	for (size_t i = 0; i < coverage->missing_count && !input->quiet; i++)
		print_clean("note: ", "%s: not in the coverage: %s", coverage->missing[i].path,
			    reason(coverage->missing[i].status));
	if (coverage->unnamed && !input->quiet)
		print_clean(
		    "note: ",
		    "%zu pieces of code are not in the coverage: their source files have no "
		    "name in the debug information, or one of more than 4095 bytes",
		    coverage->unnamed);
}

/* What writes coverage, and to where. */
struct writing {
	const struct command *command;
	const struct export_options *options;
	const struct export_format *format;
	const struct ptah_counts *counts;
	struct names *names;
	struct out *out;
};

/* Writes the coverage of what the annotation has. Returns an exit code. */
static int write_coverage(const struct writing *w, const struct annotation *annotation)
{
	struct source_coverage *coverage;
	int problem = new_coverage(w->options, annotation, &coverage), status = 0;

	if (problem < 0)
		return fail(w->command, "%s", ptah_strerror(problem));
	note_missing(&w->options->input, coverage);
	if (!coverage->file_count && coverage->left_out)
		status = fail(w->command,
			      "no source file is left by --include and --exclude: they match whole "
			      "names, as */src/*.c does");
	else if (!coverage->file_count)
		status =
		    fail(w->command, "nothing that ran has debug information with lines (gcc -g)");
	else
		problem = w->format->lines(w->out, coverage);
	source_coverage_free(coverage);
	return problem < 0 ? fail(w->command, "%s", ptah_strerror(problem)) : status;
}

static int write_lines(const struct writing *w)
{
	const struct annotation_config config = {.counts = w->counts, .names = w->names};
	struct annotation *annotation;
	const int problem = annotation_new(&config, &annotation);
	int status;

	if (problem < 0)
		return fail(w->command, "%s", ptah_strerror(problem));
	status = write_coverage(w, annotation);
	annotation_free(annotation);
	return status;
}

static int write_blocks(const struct writing *w)
{
	const struct input *input = &w->options->input;
	struct ptah_counts_process p;
	struct drcov *drcov;
	int problem = drcov_new(w->names, &drcov);

	for (size_t i = 0; problem >= 0 && ptah_counts_process(w->counts, i, &p); i++)
		for (size_t k = 0; k < p.block_count && problem >= 0; k++)
			problem = drcov_add(drcov, (int32_t)i, p.blocks[k].ip, p.blocks[k].end,
					    p.blocks[k].version);
	if (problem >= 0) {
		w->format->blocks(drcov, w->out);
		if (drcov_left_out(drcov) && !input->quiet)
			print_clean("note: ", "%zu blocks lie in no file: they are left out",
				    drcov_left_out(drcov));
	}
	drcov_free(drcov);
	return problem < 0 ? fail(w->command, "%s", ptah_strerror(problem)) : 0;
}

int export_write_counts(const struct command *command, const struct export_options *options,
			const struct export_format *format, const struct ptah_counts *counts,
			struct names *names, struct out *out)
{
	const struct writing w = {command, options, format, counts, names, out};

	return format->source == EXPORT_LINES ? write_lines(&w) : write_blocks(&w);
}

/* Writes the output of --output. Returns an exit code. */
static int write_output(const struct export_options *options, const struct export_format *format,
			const struct ptah_counts *counts, struct names *names)
{
	struct out *out;
	int status = output_open(&command_export, &options->input, &out);

	if (status)
		return status;
	status = export_write_counts(&command_export, options, format, counts, names, out);
	if (!status)
		return output_close(&command_export, out, 0);
	out_abort(out); /* no incomplete file is left */
	return status;
}

int export_counts(struct export_options *options, const struct export_format *format, int argc,
		  char **argv)
{
	struct input *input = &options->input;
	struct names_kernel kernel = {0};
	struct ptah_profile_totals totals;
	struct ptah_counts *counts;
	struct names *names = NULL;
	int status, problem;

	if (input->function)
		return fail_usage(&command_export, "--function: --to=%s is of whole files",
				  format->name);
	status = counts_read(&command_export, input, argc, argv, &counts, &kernel);
	if (status)
		return status;
	problem = input_names(input, NULL, &names);
	if (problem >= 0)
		problem = names_use_counts(names, counts, input->force);
	if (problem < 0)
		status = fail(&command_export, "%s", ptah_strerror(problem));
	else if (interrupted())
		status = interrupted_status();
	else
		status = write_output(options, format, counts, names);
	if (!status && ptah_counts_totals(counts, &totals, NULL) >= 0 && totals.errors)
		status = fail_errors(&command_export, totals.errors);
	names_free(names);
	ptah_counts_free(counts);
	return status;
}
