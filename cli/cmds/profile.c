/* SPDX-License-Identifier: MIT */
/* ptah profile: how often each branch, block, edge or function ran. */
#include "shard_source.h"
#include "profile_view.h"
#include "saved_counts.h"
#include "window.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	int by;
	const char *save, *shard;
};

static const struct option_def by_options[] = {
    {.name = "by",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, by),
     .arg = "WHAT",
     .choices = profile_by_words,
     .help = "branches, blocks, edges or functions (default: branches)",
     .man = "What to count: *branches*, *blocks*, *edges* or *functions*. Default: "
	    "*branches*."},
    {0},
};

static const struct option_def save_options[] = {
    {.name = "save",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, save),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "save all counts as FILE, to be read as a recording is",
     .man = "Save all counts as *FILE*, whatever `--by` and `--limit` show. They are "
	    "written as *FILE*.N.tmp, which is renamed at the end, so that *FILE* is "
	    "never incomplete."},
    {.name = "calls",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, input.calls),
     .help = "with --save: save the calls, too",
     .man = "With `--save`: save which function called which as well, for `ptah report -g`. The "
	    "recording is then decoded twice."},
    {.name = "shard",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, shard),
     .arg = "I/N",
     .man_arg = "*I*/*N*",
     .help = "with --save: count the I-th of N equal parts, for ptah merge",
     .man =
	 "With `--save`: count the *I*-th of *N* equal parts of the recordings and nothing else, "
	 "and print nothing. `ptah merge` joins the parts to what the command without this "
	 "option saves. The recordings must be named in the same order for each part; their "
	 "folders may differ. A part is by bytes of the recordings: some of them, streams, and "
	 "pieces of streams from one PSB to another. Only these are read, and what the "
	 "recordings contain besides their trace. A stream in which several processes take "
	 "turns on a CPU is in the part in which it begins. One thread counts; processors are "
	 "used by counting several parts at once."},
    {0},
};

/* Branches, blocks and edges */

static void show_row(struct profile_view *v, const struct profile_row *row)
{
	const int32_t space = (int32_t)row->process;
	char from[NAMES_LABEL_MAX], to[NAMES_LABEL_MAX];
	const struct profile_shown shown = {
	    .pid = row->pid,
	    .comm = row->comm,
	    .from = row->from,
	    .to = row->to,
	    .count = row->count,
	    .taken = row->taken,
	    .unknown = row->unknown,
	    .instructions = row->instructions,
	    .insn_class = ptah_insn_class_name(row->insn_class),
	    .from_symbol =
		names_label_version(v->names, space, row->from, row->version, from, sizeof(from)),
	    .to_symbol =
		names_label_version(v->names, space, row->to, row->target_version, to, sizeof(to))};

	v->renderer->row(v, &shown);
}

/* Keeps what begins in the function of --function. */
static void keep_function(const struct profile_view *v, struct profile_rows *rows)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct profile_row *row = &rows->row[i];

		if (names_is(v->names,
			     names_find_version(v->names, (int32_t)row->process, row->from,
						row->version),
			     v->input->function))
			rows->row[kept++] = *row;
	}
	rows->count = kept;
}

static int show_rows(struct profile_view *v)
{
	struct profile_rows rows = {0};
	int status = profile_rows(v->counts, v->by, &rows);

	if (status >= 0 && v->input->function)
		keep_function(v, &rows);
	if (status >= 0) {
		v->row_count = rows.count;
		v->shown_count = input_shown(v->input, rows.count);
		RENDER(v->renderer, begin, v);
		for (size_t i = 0; i < v->shown_count; i++)
			show_row(v, &rows.row[i]);
		RENDER(v->renderer, end, v);
	}
	free(rows.row);
	return status;
}

/* Functions, as `ptah report` shows them. */

static int list_profile_functions(const struct profile_view *v, struct hotspot **rows, size_t *n)
{
	struct hotspots *counter;
	int status = hotspots_new(&counter);

	if (status < 0)
		return status;
	status = hotspots_add_counts(counter, v->counts);
	if (status >= 0)
		status = hotspots_functions(counter, v->names, rows, n);
	hotspots_free(counter);
	return status;
}

static int show_functions(struct profile_view *v)
{
	struct table table = {.total = v->totals.instructions};
	struct hotspot *rows;
	int status = list_profile_functions(v, &rows, &table.count);

	if (status < 0)
		return status;
	if (v->input->function)
		table.count = table_keep(rows, table.count, v->names, v->input->function);
	table_sort(rows, table.count, TABLE_BY_INSTRUCTIONS);
	table.rows = rows;
	table.shown = input_shown(v->input, table.count);
	for (size_t i = 0; i < table.shown; i++)
		names_fetch(v->names, &rows[i].name);
	v->row_count = table.count;
	v->functions = &table;
	v->renderer->begin(v);
	v->functions = NULL;
	free(rows);
	return status;
}

static int show_profile(struct profile_view *v)
{
	int status = ptah_counts_totals(v->counts, &v->totals, NULL);

	if (status >= 0 && !v->input->no_symbols) {
		status = input_names(v->input, NULL, &v->names);
		if (status >= 0)
			names_use_kernel(v->names, &v->kernel);
		/* The rows of branches and blocks are looked up when they are shown. */
		if (status >= 0 && v->by != BY_FUNCTIONS)
			names_show_all(v->names);
		if (status >= 0)
			status = names_use_counts(v->names, v->counts, v->input->force);
	}
	if (status >= 0 && v->names)
		counts_note_changed(v->input, v->names);
	if (status >= 0)
		status = v->by == BY_FUNCTIONS ? show_functions(v) : show_rows(v);
	return status;
}

/* Refuses options that contradict each other. Returns an exit code. */
static int check_profile_options(const struct options *o)
{
	if (o->input.no_symbols && o->by == BY_FUNCTIONS) {
		fail(&command_profile, "--by=functions is by symbols: not with --no-symbols");
		return EXIT_USAGE;
	}
	if (o->input.no_symbols && o->input.function) {
		fail(&command_profile, "--function is by symbols: not with --no-symbols");
		return EXIT_USAGE;
	}
	if (o->input.calls && !o->save) {
		fail(&command_profile, "--calls is for --save; ptah report -g shows calls");
		return EXIT_USAGE;
	}
	if (o->shard && !o->save) {
		fail(&command_profile,
		     "--shard is for --save, which keeps the part for ptah merge");
		return EXIT_USAGE;
	}
	if (o->shard && (o->input.pt || o->input.calls || window_is_wanted(&o->input))) {
		fail(&command_profile, "--shard counts parts of whole recordings: not with %s",
		     o->input.pt      ? "--pt"
		     : o->input.calls ? "--calls"
				      : "--since, --until and --around");
		return EXIT_USAGE;
	}
	if (o->save && !strcmp(o->save, "-")) {
		fail(&command_profile, "--save: it takes the name of a file");
		return EXIT_USAGE;
	}
	if (o->save && o->input.output && !strcmp(o->save, o->input.output)) {
		fail(&command_profile, "--save and --output name one file: %s", o->save);
		return EXIT_USAGE;
	}
	return 0;
}

/* A recording is not replaced by its counts. Saved counts may be replaced by a sum that they are
 * in. Returns an exit code. */
static int check_save(const struct options *o, int argc, char **argv)
{
	struct input input = o->input;

	for (int i = 0; o->save && (i < argc || !i); i++) {
		input.path = i < argc ? argv[i] : o->input.path;
		if (input_reads(&input, o->save) &&
		    ptah_counts_recognise(o->save) != PTAH_COUNTS_SUM)
			return fail_usage(&command_profile,
					  "--save=%s: this is what is read; name another file",
					  o->save);
	}
	return EXIT_OK;
}

/* Prints the counts, and saves them with --save. Returns an exit code. */
static int finish_profile(struct profile_view *v, struct out *save)
{
	int problem = show_profile(v), status = 0, unsaved;

	names_free(v->names);
	unsaved = counts_write(&command_profile, v->counts, save, problem >= 0);
	if (problem < 0)
		status = fail(&command_profile, "%s", ptah_strerror(problem));
	else if (v->totals.errors)
		status = fail_errors(&command_profile, v->totals.errors);
	else if (v->input->function && !v->row_count)
		status = fail_function(&command_profile, v->input->function);
	return unsaved ? unsaved : status;
}

static int run_shard(struct options *o, int argc, char **argv)
{
	struct out *save;
	int status = counts_create(&command_profile, o->save, &save);

	return status ? status
		      : shard_count(&command_profile, &o->input, argc, argv, o->shard, save);
}

static int run_profile(int argc, char **argv)
{
	struct options o = {.input.limit = 20};
	struct profile_view view = {.input = &o.input};
	struct ptah_counts *counts;
	struct out *save;
	int status, first = options_parse(&command_profile, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = check_profile_options(&o);
	if (!status)
		status = check_save(&o, argc - first, argv + first);
	if (!status && o.shard)
		return run_shard(&o, argc - first, argv + first);
	view.by = (enum profile_by)o.by;
	view.renderer = renderer_choose(&command_profile,
					view.by == BY_FUNCTIONS ? profile_function_renderers
								: profile_renderers,
					o.input.format, "");
	if (!view.renderer)
		return EXIT_USAGE;
	if (!status)
		status = output_open(&command_profile, &o.input, &view.out);
	if (status)
		return status;
	status = counts_create(&command_profile, o.save, &save);
	if (status) {
		out_abort(view.out);
		return status;
	}
	status = counts_read(&command_profile, &o.input, argc - first, argv + first, &counts,
			     &view.kernel);
	if (status) {
		out_abort(save);
		out_abort(view.out);
		return status;
	}
	view.counts = counts;
	status = finish_profile(&view, save);
	ptah_counts_free(counts);
	return output_close(&command_profile, view.out, status);
}

const struct command command_profile = {
    .name = "profile",
    .usage = "[OPTIONS] [FILE...]",
    .summary = "how often each branch, block, edge or function ran",
    .details =
	"Exact counts of everything that ran: conditional branches with how often they were\n"
	"taken, blocks, indirect branches with their targets, or functions. --save keeps the\n"
	"counts; saved ones are read in a recording's place, and several files are added up.",
    .options =
	(const struct option_def *const[]){
	    by_options, save_options, limit_options, names_options, symbols_options, jobs_options,
	    input_options, raw_options, ptxed_options, window_options, function_options,
	    decode_options, output_options, format_options, quiet_options, help_options, NULL},
    .notes =
	(const struct option_note[]){
	    {"input", "Counts that `--save` made may stand in a recording's place, and there may "
		      "be several files, which are added up."},
	    {"force", "Of saved counts: take the names from such a file all the same."},
	    {"tid", "Saved counts know no threads."},
	    {0}},
    .operand = COMPLETE_FILE,
    .run = run_profile,
};
