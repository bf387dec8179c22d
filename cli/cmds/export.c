/* SPDX-License-Identifier: MIT */
/* ptah export: a recording in the formats of other tools. */
#include "export_view.h"
#include "graph_view.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What reads the recording for the formats of each source. */
static const struct {
	int (*run)(struct exporting *e);
	bool own_file; /* it writes the file of --output itself, which must be given */
	/* In place of `run`: it opens the files of the command line, too. */
	int (*run_files)(struct export_options *options, const struct export_format *format,
			 int argc, char **argv);
} drivers[EXPORT_SOURCE_MAX] = {
    [EXPORT_TIMELINE] = {.run = export_timeline},
    [EXPORT_LINES] = {.run_files = export_counts},
    [EXPORT_BLOCKS] = {.run_files = export_counts},
    [EXPORT_ADDRESSES] = {.run_files = export_addresses},
    [EXPORT_DATABASE] = {.run = export_database, .own_file = true},
    [EXPORT_TREE] = {.run = export_tree},
    [EXPORT_COSTS] = {.run = export_costs},
};

/* The words of --to: help, then the formats in the order of their table. */
static const char *const to_choices[] = {
    "help",
#define EXPORT_FORMAT(from, word, end, is_binary, writer, text) word,
#include "export/formats.def"
    NULL,
};

static const char *const clock_choices[] = {"default", "time", "instructions", NULL};

static const struct option_def to_options[] = {
    {.name = "to",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct export_options, to),
     .arg = "FORMAT",
     .choices = to_choices,
     .help = "the format; --to=help lists them (default: by the name of the output)",
     .man = "The format. Without this option it is chosen by the name of the output file. "
	    "`--to=help` lists the formats:\n"
	    ".RS\n"
#define EXPORT_FORMAT(from, word, end, is_binary, writer, text)                                    \
	".TP\n*" word "* (" end ")\n" text "\n"
#include "export/formats.def"
	    ".RE"},
    {0},
};

static const struct option_def timeline_options[] = {
    {.name = "clock",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct export_options, clock),
     .arg = "CLOCK",
     .choices = clock_choices,
     .help = "of timelines: default, time or instructions",
     .man = "What the axis of a timeline is: *time*, nanoseconds of perf's clock; or "
	    "*instructions*, those that the thread has executed since its trace began, one for a "
	    "nanosecond, so that threads cannot be compared. By *default* it is time, and "
	    "instructions where the recording has no times."},
    {.name = "stubs",
     .kind = OPTION_FLAG,
     .at = offsetof(struct export_options, stubs),
     .help = "of calls: show PLT stubs as functions",
     .man = "Of calls: show stubs of the procedure linkage table, and the dynamic linker's "
	    "resolver, as functions. Without this option what they run counts for their caller, "
	    "and so do the calls that they make."},
    {0},
};

static const struct option_def address_options[] = {
    {.name = "dso",
     .letter = 'd',
     .kind = OPTION_TEXT,
     .at = offsetof(struct export_options, dso),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "of profiles for compilers: whose (default: the program's)",
     .man = "Of profiles for compilers (*bolt*, *autofdo*, *llvm-profgen*): the program or library "
	    "whose profile is written, by its path or the last part of it. By default the program: "
	    "a file with the name of a process that ran it, the one of which most instructions "
	    "were executed."},
    {.name = "predictor",
     .kind = OPTION_FLAG,
     .at = offsetof(struct export_options, predictor),
     .help = "of profiles for compilers: simulate a branch predictor",
     .man = "Of *bolt*: read the trace in order, and simulate a branch predictor, as "
	    "`ptah-annotate`(1) does, so that conditional branches have the number of "
	    "mispredictions. Without this option it is 0. One recording only."},
    {0},
};

static const struct option_def tree_options[] = {
    {.name = "value",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct export_options, value),
     .arg = "WHAT",
     .choices = graph_value_words,
     .help = "of trees: instructions, cycles, time or wall",
     .man = "Of flame graphs, folded stacks and speedscope: what calls are measured by, as with "
	    "`ptah-report`(1); *wall* is all of the time, with waits as frames. *pprof* has "
	    "everything that is known, and begins with this."},
    {.name = "by",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct export_options, by),
     .arg = "WHAT",
     .choices = graph_by_words,
     .help = "of trees: all, process, thread or cpu",
     .man = "Of trees: calls for *all* together (the default), or those of each *process*, "
	    "*thread* or *cpu* by themselves, as with `ptah-report`(1): as a level of the flame "
	    "graph, as the first frame of a folded stack, as profiles of speedscope, as tags of "
	    "pprof."},
    {.name = "max-stack",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct export_options, max_stack),
     .arg = "N",
     .help = "leave out calls that are deeper (default: 1024, of timelines 500)",
     .man =
	 "Leave out calls with *N* callers or more. Of trees, they count for the caller at that "
	 "depth; the default is 1024. Of timelines, the caller says so; the default is 500, and "
	 "*firefox* has all: Perfetto loses track of slices that are nested more than 512 deep."},
    {0},
};

static const struct option_def coverage_options[] = {
    {.name = "include",
     .kind = OPTION_TEXT,
     .at = offsetof(struct export_options, include),
     .arg = "PATTERN,...",
     .help = "of coverage: only source files with these names",
     .man = "Of coverage of source code: only files whose names match one of the patterns, as "
	    "`lcov`(1) has it: `*/src/*`. A pattern is of the whole name, with its folders; * is "
	    "any number of characters, slashes included."},
    {.name = "exclude",
     .kind = OPTION_TEXT,
     .at = offsetof(struct export_options, exclude),
     .arg = "PATTERN,...",
     .help = "of coverage: no source files with these names",
     .man = "Of coverage of source code: no files whose names match one of the patterns: "
	    "`/usr/include/*`. With `--include` too, what both match is left out."},
    {0},
};

/* In the order of enum export_branches. */
static const char *const branches_choices[] = {"none", "calls", "all", NULL};

static const struct option_def database_options[] = {
    {.name = "branches",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct export_options, branches),
     .arg = "WHICH",
     .choices = branches_choices,
     .help = "of databases: which branches are rows: none, calls or all (default: none)",
     .man = "Of databases: which branches become rows of the table *samples*: *none* (the "
	    "default), *calls* (calls and returns), or *all* that were taken. The recording is "
	    "decoded a second time for them."},
    {0},
};

static int list_formats(void)
{
	for (const struct export_format *f = export_formats; f->name; f++)
		printf("%-12s %-14s %s\n", f->name, f->extension, f->summary);
	return EXIT_OK;
}

/* The format of --to, or of the name of the output. Returns an exit code. */
static int choose_format(struct exporting *e)
{
	const struct export_options *o = e->options;
	const bool is_file = o->input.output && strcmp(o->input.output, "-") != 0;

	if (o->to > 0)
		e->format = &export_formats[o->to - 1];
	else if (is_file)
		e->format = export_find_by_file(o->input.output);
	if (!e->format && is_file)
		return fail_options(&command_export,
				    "--output=%s: the name does not say the format: --to=FORMAT "
				    "(--to=help lists them)",
				    o->input.output);
	if (!e->format)
		return fail_options(&command_export,
				    "--to=FORMAT is missing (--to=help lists the formats)");
	if (drivers[e->format->source].own_file && !is_file)
		return fail_usage(&command_export, "--to=%s writes a file: --output=FILE",
				  e->format->name);
	if (e->format->binary && !o->input.output && isatty(STDOUT_FILENO))
		return fail_usage(&command_export, "--to=%s is not for a terminal: --output=FILE",
				  e->format->name);
	return EXIT_OK;
}

/* Reads and writes. Returns an exit code; *complete: the output may be kept. */
static int export_session(struct exporting *e, bool *complete)
{
	const struct input *input = &e->options->input;
	int problem = input_names(input, e->session, &e->names);

	if (problem >= 0) {
		names_show_all(e->names);
		problem = drivers[e->format->source].run(e);
	}
	*complete = !problem;
	input_notes(input, e->session);
	if (problem < 0)
		return fail(&command_export, "%s", ptah_strerror(problem));
	if (problem)
		return problem;
	if (e->errors)
		return fail_errors(&command_export, e->errors);
	if (input->function && !e->found)
		return fail_function(&command_export, input->function);
	return EXIT_OK;
}

static int run_export(int argc, char **argv)
{
	struct export_options o = {.to = -1};
	struct exporting e = {.options = &o};
	bool complete = false;
	int status, first = options_parse(&command_export, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (!o.to)
		return list_formats();
	status = choose_format(&e);
	if (!status && drivers[e.format->source].run_files)
		return drivers[e.format->source].run_files(&o, e.format, argc - first,
							   argv + first);
	/* Waits: of the wall time, and of threads that wait until the end. */
	o.input.samples =
	    !status && (e.format->source == EXPORT_TIMELINE || e.format->source == EXPORT_TREE ||
			e.format->source == EXPORT_DATABASE);
	if (!status)
		status = input_open(&command_export, &o.input, argc - first, argv + first, true,
				    &e.session);
	if (status)
		return status;
	if (!drivers[e.format->source].own_file)
		status = output_open(&command_export, &o.input, &e.out);
	if (!status)
		status = export_session(&e, &complete);
	names_free(e.names);
	ptah_session_close(e.session);
	if (e.out && complete)
		return output_close(&command_export, e.out, status);
	out_abort(e.out); /* no incomplete file is left */
	return status;
}

const struct command command_export = {
    .name = "export",
    .usage = "--to=FORMAT [OPTIONS] [FILE]",
    .summary = "a recording in the formats of other tools",
    .details =
	"Writes what ran as a file that another tool opens: every call of every thread as a\n"
	"timeline, calls by path, rows of a database, the coverage of source code, or a profile\n"
	"for compilers. --to=help lists the formats.",
    .options =
	(const struct option_def *const[]){
	    to_options, timeline_options, tree_options, coverage_options, address_options,
	    database_options, names_options, jobs_options, input_options, raw_options,
	    ptxed_options, window_options, function_options, decode_options, output_options,
	    quiet_options, help_options, NULL},
    .notes =
	(const struct option_note[]){{"function",
				      "Timelines have everything below its calls, too. Losses "
				      "and errors are shown wherever they are."},
				     {"jobs", "Timelines are decoded by one thread by default, "
					      "because writing is most of their work."},
				     {0}},
    .operand = COMPLETE_FILE,
    .run = run_export,
};
