/* SPDX-License-Identifier: MIT */
/* ptah waits: what threads waited for, for how long, and who ended it. */
#include "progress.h"
#include "waits_view.h"

#include <ptah/session.h>

#include <stdlib.h>

static const char *const sort_choices[] = {"total", "waits", "p50",  "p90",
					   "p99",   "max",   "name", NULL};

static const struct option_def waits_options[] = {
    {.name = "list",
     .kind = OPTION_FLAG,
     .at = offsetof(struct waits_options, list),
     .help = "single waits, each with who ended it, instead of sums",
     .man = "Single waits instead of sums, the longest first (in TSV and JSON in the order of "
	    "time): when, in which thread and function, how long, who ended it and in which "
	    "function, and who had the lock when the wait began."},
    {.name = "folded",
     .kind = OPTION_FLAG,
     .at = offsetof(struct waits_options, folded),
     .help = "the stacks of waits with nanoseconds, for flamegraph.pl and speedscope",
     .man = "The stacks of waits, a line each with nanoseconds, as flamegraph.pl and speedscope "
	    "read them: a flame graph of the time in which threads waited. What they waited for is "
	    "the innermost frame."},
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct waits_options, sort),
     .arg = "COLUMN",
     .choices = sort_choices,
     .help = "total, waits, p50, p90, p99, max or name (default: total)",
     .man = "The column by which causes are sorted: *total* (the default), *waits*, *p50*, *p90*, "
	    "*p99*, *max* or *name*."},
    {0},
};

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.offered = true},
    [FORMAT_JSON] = {.offered = true},
    [FORMAT_TSV] = {.offered = true},
};

static bool show_progress(void *progress, uint64_t bytes)
{
	progress_at(progress, bytes);
	return !interrupted();
}

static int read_waits(struct waits_view *v)
{
	const struct input *input = &v->options->input;
	struct ptah_window window = {.size = sizeof(window)};
	struct progress progress;
	const struct ptah_waits_config config = {.size = sizeof(config),
						 .stacks = true,
						 .jobs = input_jobs(input, 0),
						 .progress = show_progress,
						 .context = &progress};
	int status;

	v->until = UINT64_MAX;
	if (ptah_session_get_window(v->session, &window)) {
		v->from = window.since ? ptah_session_time(v->session, window.since) : 0;
		if (window.until < UINT64_MAX)
			v->until = ptah_session_time(v->session, window.until);
	}
	progress_begin(&progress, input, v->session, true);
	status = ptah_waits_new(v->session, &config, &v->names.waits);
	progress_end(&progress);
	return status < 0 ? status : waits_list(v);
}

static int show_waits(struct waits_view *v)
{
	const struct input *input = &v->options->input;
	int status = input_names(input, v->session, &v->names.names);

	v->names.session = v->session;
	if (status >= 0)
		status = read_waits(v);
	if (status >= 0)
		status = v->options->folded		? waits_put_folded(v)
			 : input->format == FORMAT_JSON ? waits_put_json(v)
			 : input->format == FORMAT_TSV	? waits_put_tsv(v)
							: waits_put_text(v);
	if (status < 0)
		return fail(&command_waits, "%s", ptah_strerror(status));
	if (!ptah_waits_count(v->names.waits) && !input->quiet &&
	    !ptah_syscalls_count(ptah_waits_syscalls(v->names.waits)))
		print_clean("note: ",
			    "no waits: the recording has neither system calls nor context "
			    "switches with which they are found");
	return EXIT_OK;
}

static int run_waits(int argc, char **argv)
{
	struct waits_options o = {.input = {.limit = 20, .from_hit = true}};
	struct waits_view v = {.options = &o};
	int status, first = options_parse(&command_waits, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (!renderer_choose(&command_waits, renderers, o.input.format, ""))
		return EXIT_USAGE;
	if (o.folded && (o.list || o.input.format != FORMAT_TEXT))
		return fail_usage(&command_waits, "--folded, or --list and --format, not both");
	v.wanted = argv + first;
	v.wanted_count = argc - first;
	/* `ptah waits FILE`, as other commands have it */
	if (!o.input.path && !o.input.pt && v.wanted_count && !is_readable("perf.data") &&
	    is_readable(v.wanted[0])) {
		fail_file(&command_waits, v.wanted[0]);
		return EXIT_USAGE;
	}
	o.input.samples = true;
	status = input_open(&command_waits, &o.input, 0, NULL, true, &v.session);
	if (status)
		return status;
	status = output_open(&command_waits, &o.input, &v.out);
	if (status) {
		ptah_session_close(v.session);
		return status;
	}
	status = show_waits(&v);
	free(v.entries);
	ptah_waits_free(v.names.waits);
	names_free(v.names.names);
	ptah_session_close(v.session);
	return output_close(&command_waits, v.out, status);
}

const struct command command_waits = {
    .name = "waits",
    .usage = "[OPTIONS] [FUNCTION...]",
    .summary = "what threads waited for, and who ended it",
    .details =
	"For each cause and function how often threads waited, for how long, and in which\n"
	"functions the waits were ended; and for each lock who waited for it, and who had it\n"
	"then. With names of functions, only the waits in them and in what they called. System\n"
	"calls have to be in the recording, as `ptah record` writes them; context switches say\n"
	"more.",
    .options =
	(const struct option_def *const[]){waits_options, limit_options, names_options,
					   jobs_options, input_options, raw_options, ptxed_options,
					   window_options, decode_options, output_options,
					   format_options, quiet_options, help_options, NULL},
    .operand = COMPLETE_NOTHING,
    .run = run_waits,
};
