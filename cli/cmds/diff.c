/* SPDX-License-Identifier: MIT */
/* ptah diff: what changed from one run to another. */
#include "diff_view.h"

#include <errno.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	int by;
	const char *ignore, *fail_over, *fail_over_each;
	uint64_t least;
};

static const struct option_def diff_options[] = {
    {.name = "by",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, by),
     .arg = "WHAT",
     .choices = diff_by_words,
     .help = "functions, branches or lines (default: functions)",
     .man = "What to compare: *functions* (the default), conditional *branches* or *lines* of "
	    "source code."},
    {.name = "ignore",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, ignore),
     .arg = "REGEX",
     .help = "leave out what has such a name or object",
     .man = "Leave out rows whose name, mangled or not, or the path of whose object, matches this "
	    "extended regular "
	    "expression (`regex`(7)). They are not in the totals either, but in a line of "
	    "their own."},
    {.name = "fail-over",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, fail_over),
     .arg = "PERCENT",
     .help = "exit with 1 if all together grew by more than so much",
     .man = "Exit with status 1 if the total of NEW is more than *PERCENT* above that of OLD: "
	    "for continuous integration. *0* is a limit, too."},
    {.name = "fail-over-each",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, fail_over_each),
     .arg = "PERCENT",
     .help = "exit with 1 if a single row grew by more than so much",
     .man = "Exit with status 1 if a single row grew by more than *PERCENT*, or is new, and by "
	    "at least `--least`."},
    {.name = "least",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct options, least),
     .arg = "N",
     .help = "leave out rows that changed by less than N (default: 1)",
     .man = "Leave out rows that changed by less than *N* instructions (or executions). They are "
	    "in the totals. Default: 1, which leaves out what did not change; 0 shows all."},
    {0},
};

/* Parses "5", "0.5" or "5%". Returns an exit code. */
static int parse_percent(const char *name, const char *text, double *percent)
{
	char *end;

	*percent = HUGE_VAL;
	if (!text)
		return 0;
	errno = 0;
	*percent = strtod(text, &end);
	if (end > text && *end == '%')
		end++;
	if (end == text || *end || errno || !(*percent >= 0) || !isfinite(*percent))
		return fail_options(&command_diff, "--%s=%s: not a percentage", name, text);
	return 0;
}

struct limits {
	double all, each;
	bool is_set;
	regex_t ignore;
};

/* Returns an exit code. */
static int read_limits(const struct options *o, struct limits *l)
{
	char why[256];
	int status = parse_percent("fail-over", o->fail_over, &l->all), problem;

	if (!status)
		status = parse_percent("fail-over-each", o->fail_over_each, &l->each);
	if (status || !o->ignore)
		return status;
	problem = regcomp(&l->ignore, o->ignore, REG_EXTENDED | REG_NOSUB);
	if (!problem) {
		l->is_set = true;
		return 0;
	}
	regerror(problem, &l->ignore, why, sizeof(why));
	return fail_options(&command_diff, "--ignore=%s: %s", o->ignore, why);
}

static bool is_ignored(const struct limits *l, const struct diff_row *row)
{
	return l->is_set && (!regexec(&l->ignore, row->name, 0, NULL, 0) ||
			     !regexec(&l->ignore, row->shown, 0, NULL, 0) ||
			     !regexec(&l->ignore, row->path, 0, NULL, 0));
}

static void add_to(struct diff_sums *s, const struct diff_row *row)
{
	s->rows++;
	for (int side = 0; side < DIFF_SIDES; side++)
		s->value[side] += row->value[side];
}

static uint64_t change_of(const struct diff_row *row)
{
	const uint64_t old = row->value[DIFF_OLD], new = row->value[DIFF_NEW];

	return old < new ? new - old : old - new;
}

/* Adds up the rows, and keeps those that are to be shown. */
static void choose_diff_rows(struct diff_view *v, const struct options *o, const struct limits *l,
			     struct diff *diff)
{
	size_t kept = 0;

	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_row row = diff->rows[i];

		if (is_ignored(l, &row)) {
			add_to(&v->ignored, &row);
			continue;
		}
		add_to(&v->all, &row);
		if (change_of(&row) >= o->least)
			diff->rows[kept++] = row;
	}
	v->rows = diff->rows;
	v->count = kept;
	v->shown = input_shown(v->input, kept);
	v->renamed = diff->renamed;
	v->renamed_count = diff->renamed_count;
}

/* Returns EXIT_FAILED, with a message, if a limit is exceeded. */
static int judge(const struct diff_view *v, const struct limits *l)
{
	const double grown = diff_percent(v->all.value[DIFF_OLD], v->all.value[DIFF_NEW]);
	int status = 0;

	if (grown > l->all)
		status = fail(&command_diff, "%s is %.2f %% above %s (--fail-over=%g)",
			      v->runs[DIFF_NEW].path, grown, v->runs[DIFF_OLD].path, l->all);
	for (size_t i = 0; i < v->count && isfinite(l->each); i++) {
		const struct diff_row *r = &v->rows[i];
		const double each = diff_percent(r->value[DIFF_OLD], r->value[DIFF_NEW]);

		if (!(each > l->each))
			continue;
		return isfinite(each)
			   ? fail(&command_diff, "%s is %.2f %% above (--fail-over-each=%g)",
				  r->shown[0] ? r->shown : r->path, each, l->each)
			   : fail(&command_diff, "%s is new (--fail-over-each=%g)",
				  r->shown[0] ? r->shown : r->path, l->each);
	}
	return status;
}

/* Compares the runs that were read, and prints. Returns an exit code. */
static int compare(struct diff_view *v, const struct options *o, const struct limits *l,
		   struct diff_run *runs)
{
	struct diff_entry *entries[DIFF_SIDES];
	size_t counts[DIFF_SIDES];
	struct diff diff = {0};
	int problem = 0, status = 0;

	for (int side = 0; side < DIFF_SIDES && problem >= 0; side++) {
		problem = diff_run_list(&o->input, (enum diff_by)o->by, &runs[side]);
		entries[side] = runs[side].list.entries;
		counts[side] = runs[side].list.count;
	}
	if (problem >= 0)
		problem = diff_compare(entries, counts, &diff);
	if (problem >= 0) {
		choose_diff_rows(v, o, l, &diff);
		diff_renderers[o->input.format].begin(v);
		status = judge(v, l);
	} else {
		status = fail(&command_diff, "%s", ptah_strerror(problem));
	}
	diff_fini(&diff);
	for (int side = 0; side < DIFF_SIDES; side++)
		if (runs[side].totals.errors && !status)
			status = fail_errors(&command_diff, runs[side].totals.errors);
	return status;
}

static int run_diff(int argc, char **argv)
{
	struct options o = {.input.limit = 20, .least = 1};
	struct limits limits = {.all = HUGE_VAL, .each = HUGE_VAL};
	struct diff_run runs[DIFF_SIDES] = {{0}};
	struct diff_view view = {.input = &o.input, .runs = runs};
	const char *paths[] = {"perf.data.old", "perf.data"};
	int status, first = options_parse(&command_diff, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (argc - first > DIFF_SIDES)
		return fail_usage(&command_diff, "two files are compared; \"%s\" is too much",
				  argv[first + 2]);
	for (int i = 0; i < argc - first; i++)
		paths[i] = argv[first + i];
	status = read_limits(&o, &limits);
	if (!status)
		status = output_open(&command_diff, &o.input, &view.out);
	if (status)
		return status;
	view.by = (enum diff_by)o.by;
	for (int side = 0; side < DIFF_SIDES && !status && !interrupted(); side++)
		status = diff_run_read(&command_diff, &o.input, paths[side], &runs[side]);
	if (!status && interrupted())
		status = interrupted_status();
	if (!status)
		status = compare(&view, &o, &limits, runs);
	for (int side = 0; side < DIFF_SIDES; side++)
		diff_run_fini(&runs[side]);
	if (limits.is_set)
		regfree(&limits.ignore);
	if (!status || view.all.rows)
		return output_close(&command_diff, view.out, status);
	out_abort(view.out);
	return status;
}

const struct command command_diff = {
    .name = "diff",
    .usage = "[OPTIONS] [OLD [NEW]]",
    .summary = "what changed from one run to another",
    .details =
	"Compares two recordings, or counts saved by `ptah profile --save`, of one program or of\n"
	"two versions of it. Functions are matched by their names, so that addresses may differ.\n"
	"OLD is perf.data.old and NEW perf.data where they are not given. Recordings of the\n"
	"simulated processor are exact and repeatable: --fail-over makes them a performance test.",
    .options =
	(const struct option_def *const[]){diff_options, names_options, limit_options, jobs_options,
					   decode_options, output_options, format_options,
					   quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_diff,
};
