/* SPDX-License-Identifier: MIT */
/* ptah annotate: source code and instructions with how often each ran. */
#include "annotate_view.h"
#include "base/order.h"
#include "output/pretty.h"
#include "read_outcomes.h"
#include "saved_counts.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_def annotate_options[] = {
    {.name = "symbol",
     .letter = 's',
     .kind = OPTION_TEXT,
     .at = offsetof(struct annotate_options, symbol),
     .arg = "FUNCTION",
     .help = "the function to show, as the argument",
     .man = "The function to show, as the argument does (as perf annotate has it)."},
    {.name = "dsos",
     .letter = 'd',
     .kind = OPTION_TEXT,
     .at = offsetof(struct annotate_options, objects),
     .arg = "OBJECT,...",
     .help = "only functions of these programs and libraries",
     .man = "Only functions of these programs and libraries: their paths, or the last parts of "
	    "them, with commas between them."},
    {.name = "branches",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, branches),
     .help = "rank the conditional branches by simulated misses",
     .man = "A list of the conditional branches instead, those first that the simulated predictor "
	    "missed most often."},
    {.name = "lines",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, lines),
     .help = "rank the lines of source code by instructions",
     .man = "A list of the lines of source code instead, those first on which most instructions "
	    "were executed."},
    {.name = "print-line",
     .letter = 'l',
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, print_line),
     .help = "file and line before each instruction",
     .man = "File and line before each instruction."},
    {.name = "full-paths",
     .letter = 'P',
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, full_paths),
     .help = "whole paths of objects and source files",
     .man = "Whole paths of objects and source files."},
    {.name = "no-source",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, no_source),
     .help = "do not read source files",
     .man = "Do not read source files: the numbers of the lines alone."},
    {.name = "asm-raw",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, raw_bytes),
     .help = "the bytes of each instruction",
     .man = "The bytes of each instruction before its text."},
    {.name = "att",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, att),
     .help = "AT&T syntax instead of Intel's",
     .man = "AT&T syntax instead of Intel's."},
    {.name = "full",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, full),
     .help = "all code that did not run, too",
     .man = "Text: show all instructions. By default 8 and more in a row that did not run are "
	    "one line."},
    {.name = "no-predictor",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, no_predictor),
     .help = "simulate no branch predictor: quicker",
     .man = "Simulate no branch predictor. The trace is then not read in order, which is much "
	    "faster, and code that is in no file cannot be shown as instructions."},
    {.name = "stdio",
     .kind = OPTION_FLAG,
     .at = offsetof(struct annotate_options, stdio),
     .help = "the default; accepted as perf has it",
     .man = "The default, accepted as perf annotate has it."},
    {.name = "limit",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .at = offsetof(struct annotate_options, input.limit),
     .arg = "N",
     .help = "functions or rows to show (default: 5 or 20; 0: all)",
     .man = "How many functions to show, if none is named, or how many rows of a list. Default: 5 "
	    "functions, 20 rows; 0: all."},
    {0},
};

/* Which functions are shown */

/* Whether an object is one of those of --dsos. */
static bool is_wanted_object(const struct annotate_options *o, const struct annotate_object *object)
{
	const char *at = o->objects;

	if (!at)
		return true;
	for (;;) {
		const size_t n = strcspn(at, ",");

		if ((object->path && strlen(object->path) == n && !strncmp(object->path, at, n)) ||
		    (strlen(object->shown) == n && !strncmp(object->shown, at, n)))
			return true;
		if (!at[n])
			return false;
		at += n + 1;
	}
}

/* What a FUNCTION of the command line means. */
struct wanted {
	const struct annotation *annotation;
	struct names *names;
	const char *text;
	char *file; /* FILE:LINE, or NULL */
	uint32_t line;
	bool is_address;
	uint64_t address;
	/* The places of the line in one object. */
	uint64_t *places;
	size_t place_count;
};

static bool parse_wanted(const char *text, struct wanted *w)
{
	const char *colon = strrchr(text, ':');
	char *end;

	w->text = text;
	if (!strncmp(text, "0x", 2)) {
		w->address = strtoull(text, &end, 16);
		w->is_address = !*end && end > text + 2;
	}
	if (!colon || colon == text || colon[-1] == ':' || colon[1] < '1' || colon[1] > '9' ||
	    colon[1 + strspn(colon + 1, "0123456789")])
		return true;
	w->line = (uint32_t)strtoul(colon + 1, NULL, 10);
	w->file = strndup(text, (size_t)(colon - text));
	return w->file != NULL;
}

static bool add_annotated_place(void *wanted, const struct ptah_line *line)
{
	struct wanted *w = wanted;

	if (!LIST_ADD(w->places, w->place_count))
		return false;
	w->places[w->place_count - 1] = line->start;
	return true;
}

/* Finds the places of FILE:LINE in an object. */
static void find_annotated_line(struct wanted *w, const struct annotate_object *object)
{
	w->place_count = 0;
	if (object->is_file && !object->changed)
		ptah_symbols_find_line(names_symbols(w->names), object->path, w->file, w->line,
				       add_annotated_place, w);
}

/* An address is one in the process, or in the ELF file as nm and objdump show it. */
static bool has_address(const struct wanted *w, const struct annotate_function *f)
{
	const struct annotate_object *object = &w->annotation->objects[f->object];
	struct ptah_elf_extent extent;
	bool found;
	char *path;

	if (w->address - f->ip < f->end - f->start)
		return true;
	if (!object->is_file || object->changed || w->address >> 47)
		return false;
	path = names_local_path(w->names, object->path);
	found = path && ptah_elf_extent(path, f->start, &extent) &&
		w->address - extent.at < f->end - f->start;
	free(path);
	return found;
}

/* A name that a compiler of generated code makes has more than the function's own:
 * "JS:^work /home/me/a.js:1:14", "py::work:/home/me/a.py". The user may write "work". */
static bool is_word_of(const char *name, const char *word)
{
	const size_t n = strlen(word);

	for (const char *at = strstr(name, word); at && n; at = strstr(at + 1, word))
		if ((at == name || strchr(" :~^*+", at[-1])) && (!at[n] || strchr(" :", at[n])))
			return true;
	return false;
}

static bool has_name(const struct wanted *w, const struct annotate_function *f)
{
	const struct annotate_object *object = &w->annotation->objects[f->object];

	if (!f->symbol)
		return false;
	return !strcmp(f->symbol, w->text) ||
	       (f->mangled && ptah_symbol_matches(f->mangled, w->text)) ||
	       (object->is_file
		    ? !object->changed && names_is_alias(w->names, object->path, f->start, w->text)
		    : is_word_of(f->symbol, w->text));
}

static bool matches(const struct wanted *w, const struct annotate_function *f)
{
	for (size_t i = 0; w->file && i < w->place_count; i++)
		if (w->places[i] - f->start < f->end - f->start)
			return true;
	return has_name(w, f) || (w->is_address && has_address(w, f));
}

/* Marks the functions that are wanted. Returns how many. */
static size_t mark_wanted(const struct annotate_options *o, struct wanted *w, bool *marks)
{
	const struct annotation *a = w->annotation;
	size_t n = 0;

	for (uint32_t k = 0; k < a->object_count; k++) {
		if (!is_wanted_object(o, &a->objects[k]))
			continue;
		if (w->file)
			find_annotated_line(w, &a->objects[k]);
		for (size_t i = 0; i < a->function_count; i++) {
			if (a->functions[i].object != k || !matches(w, &a->functions[i]))
				continue;
			marks[i] = true;
			n++;
		}
	}
	return n;
}

/* Why a function cannot be shown: it did not run, or there is no such function. */
static int fail_wanted(const struct annotate_options *o, const struct wanted *w)
{
	const struct annotation *a = w->annotation;
	struct ptah_symbol symbol;

	for (size_t k = 0; !w->file && !w->is_address && k < a->object_count; k++)
		if (a->objects[k].is_file && is_wanted_object(o, &a->objects[k]) &&
		    ptah_symbols_find(names_symbols(w->names), a->objects[k].path, w->text, 0,
				      &symbol) > 0)
			return fail(&command_annotate, "%s of %s did not run", w->text,
				    a->objects[k].path);
	if (is_readable(w->text))
		return fail_file(&command_annotate, w->text);
	return fail(
	    &command_annotate,
	    "nothing that ran is %s%s: it takes a function's name, FILE:LINE or an address; "
	    "'ptah report --limit=0' lists the functions that ran",
	    w->text, o->objects ? " in the objects of --dsos" : "");
}

/* Chooses the functions to show. Returns an exit code. */
static int choose_functions(struct annotate_view *v, int argc, char **argv)
{
	const struct annotate_options *o = v->options;
	const struct annotation *a = v->annotation;
	bool *marks = calloc(a->function_count + 1, sizeof(*marks));
	const bool all = !argc && !o->symbol;
	int status = 0;

	v->functions = calloc(a->function_count + 1, sizeof(const struct annotate_function *));
	if (!marks || !v->functions) {
		free(marks);
		return fail(&command_annotate, "%s", ptah_strerror(PTAH_E_NOMEM));
	}
	for (int i = o->symbol ? -1 : 0; i < argc && !status; i++) {
		struct wanted w = {.annotation = a, .names = v->names};

		if (!parse_wanted(i < 0 ? o->symbol : argv[i], &w))
			status = fail(&command_annotate, "%s", ptah_strerror(PTAH_E_NOMEM));
		else if (!mark_wanted(o, &w, marks))
			status = fail_wanted(o, &w);
		free(w.file);
		free(w.places);
	}
	for (size_t i = 0; i < a->function_count; i++)
		if (all ? is_wanted_object(o, &a->objects[a->functions[i].object]) : marks[i])
			v->functions[v->function_count++] = &a->functions[i];
	free(marks);
	if (!status && all && o->objects && !v->function_count)
		status = fail(&command_annotate,
			      "nothing that ran is of --dsos=%s: 'ptah report' lists the objects",
			      o->objects);
	return status;
}

static bool is_chosen(const struct annotate_view *v, uint32_t object, uint64_t at)
{
	for (size_t i = 0; i < v->function_count; i++)
		if (v->functions[i]->object == object && at >= v->functions[i]->start &&
		    at < v->functions[i]->end)
			return true;
	return false;
}

/* What is shown of them */

static int show_annotated_functions(struct annotate_view *v, const struct renderer *renderer,
				    bool named)
{
	v->count = v->function_count;
	v->shown = named ? v->count : input_shown(&v->options->input, v->count);
	RENDER(renderer, begin, v);
	for (size_t i = 0; i < v->shown && !out_failed(v->out) && !interrupted(); i++)
		renderer->row(v, v->functions[i]);
	RENDER(renderer, end, v);
	return 0;
}

static uint64_t rarer(const struct annotate_branch *b)
{
	const uint64_t known = b->executed - b->unknown;

	return b->taken < known - b->taken ? b->taken : known - b->taken;
}

static int by_misses(const void *a, const void *b)
{
	const struct annotate_branch *x = *(const struct annotate_branch *const *)a;
	const struct annotate_branch *y = *(const struct annotate_branch *const *)b;
	int order = COMPARE(y->missed, x->missed);

	/* Without a predictor, and among equals: what always predicting the same would miss. */
	order = order ? order : COMPARE(rarer(y), rarer(x));
	order = order ? order : COMPARE(y->executed, x->executed);
	order = order ? order : COMPARE(x->object, y->object);
	return order ? order : COMPARE(x->at, y->at);
}

static int show_branches(struct annotate_view *v, const struct renderer *renderer, bool named)
{
	const struct annotation *a = v->annotation;
	const struct annotate_branch **list = calloc(a->branch_count + 1, sizeof(*list));

	if (!list)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < a->branch_count; i++) {
		const struct annotate_branch *b = &a->branches[i];

		if (named ? is_chosen(v, b->object, b->at)
			  : is_wanted_object(v->options, &a->objects[b->object]))
			list[v->count++] = b;
	}
	qsort(list, v->count, sizeof(const struct annotate_branch *), by_misses);
	v->shown = input_shown(&v->options->input, v->count);
	RENDER(renderer, begin, v);
	for (size_t i = 0; i < v->shown && !out_failed(v->out); i++)
		renderer->row(v, list[i]);
	RENDER(renderer, end, v);
	free(list);
	return 0;
}

static int by_annotated_instructions(const void *a, const void *b)
{
	const struct annotate_line *x = a, *y = b;
	int order = COMPARE(y->instructions, x->instructions);

	order = order ? order : COMPARE(x->object, y->object);
	order = order ? order : strcmp(x->file, y->file);
	return order ? order : COMPARE(x->line, y->line);
}

static int show_lines(struct annotate_view *v, const struct renderer *renderer, bool named)
{
	const struct annotation *a = v->annotation;
	struct annotate_line *lines = NULL, *more;
	size_t n = 0;
	int status = 0;

	if (!named && !v->options->objects)
		status = annotate_lines(a, NULL, &lines, &n);
	for (size_t i = 0; (named || v->options->objects) && i < v->function_count && status >= 0;
	     i++) {
		struct annotate_line *joined;
		size_t k;

		status = annotate_lines(a, v->functions[i], &more, &k);
		if (status < 0)
			break;
		joined = reallocarray(lines, n + k + 1, sizeof(*lines));
		if (joined) {
			lines = joined;
			memcpy(lines + n, more, k * sizeof(*more));
			n += k;
		} else {
			status = PTAH_E_NOMEM;
		}
		free(more);
	}
	if (status >= 0) {
		if (n)
			qsort(lines, n, sizeof(*lines), by_annotated_instructions);
		v->count = n;
		v->shown = input_shown(&v->options->input, n);
		RENDER(renderer, begin, v);
		for (size_t i = 0; i < v->shown && !out_failed(v->out); i++)
			renderer->row(v, &lines[i]);
		RENDER(renderer, end, v);
		if (!n && !v->options->input.quiet)
			print_clean("note: ", "nothing that ran has debug information with lines "
					      "(gcc -g)");
	}
	free(lines);
	return status;
}

static const struct renderer *renderers_of(const struct annotate_options *o)
{
	return o->branches ? annotate_branch_renderers
	       : o->lines  ? annotate_line_renderers
			   : annotate_renderers;
}

/* Prints what is asked for. Returns an exit code. */
static int show_annotated(struct annotate_view *v, int argc, char **argv)
{
	const struct annotate_options *o = v->options;
	const bool named = argc || o->symbol;
	const struct renderer *renderer = &renderers_of(o)[o->input.format];
	int status = choose_functions(v, argc, argv), problem;

	if (status)
		return status;
	problem = o->branches ? show_branches(v, renderer, named)
		  : o->lines  ? show_lines(v, renderer, named)
			      : show_annotated_functions(v, renderer, named);
	return problem < 0 ? fail(&command_annotate, "%s", ptah_strerror(problem)) : 0;
}

/* What the command has read. */
struct source {
	struct ptah_session *session; /* NULL: saved counts */
	struct ptah_counts *counts;
	struct names_kernel kernel;
	struct outcomes outcomes;
	bool has_outcomes;
};

/* Reads the recording or the saved counts. Returns an exit code. */
static int read_annotated_source(struct annotate_options *o, struct source *s)
{
	struct input *input = &o->input;
	int status, problem;

	if (!input->pt && input->path && ptah_counts_recognise(input->path) == PTAH_COUNTS_SUM)
		return counts_read(&command_annotate, input, 0, NULL, &s->counts, &s->kernel);
	status = input_open(&command_annotate, input, 0, NULL, true, &s->session);
	if (!status)
		status =
		    counts_of_session(&command_annotate, input, s->session, &s->counts, &s->kernel);
	if (status || o->no_predictor || interrupted())
		return status;
	problem = input_outcomes(input, s->session, &s->outcomes);
	s->has_outcomes = problem >= 0;
	return problem < 0 ? fail(&command_annotate, "%s", ptah_strerror(problem)) : 0;
}

static int annotate(struct annotate_view *v, const struct source *s, int argc, char **argv)
{
	const struct input *input = &v->options->input;
	struct annotation_config config = {.counts = s->counts,
					   .session = s->session,
					   .outcomes = s->has_outcomes ? &s->outcomes : NULL};
	struct ptah_profile_totals totals;
	struct annotation *a = NULL;
	int status = ptah_counts_totals(s->counts, &totals, NULL);

	if (status >= 0)
		status = input_names(input, NULL, &v->names);
	if (status >= 0) {
		names_use_kernel(v->names, &s->kernel);
		status = names_use_counts(v->names, s->counts, input->force);
	}
	config.names = v->names;
	if (status >= 0)
		status = annotation_new(&config, &a);
	if (status < 0)
		return fail(&command_annotate, "%s", ptah_strerror(status));
	v->annotation = a;
	v->command = s->session ? ptah_session_command(s->session) : NULL;
	status = show_annotated(v, argc, argv);
	annotate_note_missing(v);
	annotation_free(a);
	if (!status && totals.errors)
		status = fail_errors(&command_annotate, totals.errors);
	return status;
}

/* Refuses options that contradict each other. Returns an exit code. */
static int check_annotated_options(struct annotate_options *o)
{
	if (o->branches && o->lines)
		return fail_usage(&command_annotate, "one of --branches and --lines");
	if (o->input.prefix_strip && !o->input.prefix)
		return fail_usage(&command_annotate, "--prefix-strip belongs to --prefix");
	if (o->input.limit == UINT64_MAX)
		o->input.limit = o->branches || o->lines ? 20 : 5;
	return renderer_choose(&command_annotate, renderers_of(o), o->input.format, "")
		   ? 0
		   : EXIT_USAGE;
}

static int run_annotate(int argc, char **argv)
{
	struct annotate_options o = {.input.limit = UINT64_MAX};
	struct annotate_view v = {.options = &o};
	struct source source = {.session = NULL};
	int status, first = options_parse(&command_annotate, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = check_annotated_options(&o);
	/* `ptah annotate FILE`, as other commands have it */
	if (!status && !o.input.path && !o.input.pt && first < argc && !is_readable("perf.data") &&
	    is_readable(argv[first])) {
		fail_file(&command_annotate, argv[first]);
		status = EXIT_USAGE;
	}
	if (!status)
		status = output_open(&command_annotate, &o.input, &v.out);
	if (status)
		return status;
	v.sources.paths = input_source_paths(&o.input);
	status = read_annotated_source(&o, &source);
	if (!status)
		status = annotate(&v, &source, argc - first, argv + first);
	free(v.functions);
	source_files_fini(&v.sources);
	names_free(v.names);
	outcomes_free(&source.outcomes);
	ptah_counts_free(source.counts);
	ptah_session_close(source.session);
	return output_close(&command_annotate, v.out, status);
}

const struct command command_annotate = {
    .name = "annotate",
    .usage = "[OPTIONS] [FUNCTION...]",
    .summary = "source code and instructions with how often each ran",
    .details =
	"Functions with the lines of their source code and their instructions, how often each\n"
	"was executed, how often each conditional branch was taken, and how often a simulated\n"
	"branch predictor missed it. FUNCTION is a name, FILE:LINE or an address; by default the\n"
	"hottest functions. --branches ranks the branches of the whole program.",
    .options =
	(const struct option_def *const[]){annotate_options, source_options, names_options,
					   jobs_options, input_options, raw_options, ptxed_options,
					   window_options, decode_options, output_options,
					   format_options, quiet_options, help_options, NULL},
    .notes =
	(const struct option_note[]){
	    {"input", "Counts that `ptah-profile`(1) saved may stand in a recording's place: "
		      "without a predictor, because counts have no order."},
	    {0}},
    .operand = COMPLETE_NOTHING,
    .run = run_annotate,
};
