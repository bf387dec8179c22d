/* SPDX-License-Identifier: MIT */
/* ptah view: a recording in the browser, served or as one file. */
#include "browser.h"
#include "input.h"

#include "view/model.h"
#include "view/page.h"
#include "view/server.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most bytes of a file: what many mail servers and chats still take. */
#define MOST_BYTES UINT64_C(30000000)

struct options {
	struct input input;
	bool no_browser;
	uint64_t port, max_size;
};

static const struct option_def view_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, input.output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write one HTML file that has all in it, and serve nothing",
     .man = "Write one HTML file, and serve nothing. It has the page and the recording in it, and "
	    "needs neither `ptah` nor a network: it can be mailed, or kept with a bug report. As "
	    "many levels of detail are in it as fit into `--max-size`; the page shows where there "
	    "are no finer ones. The source code that the recording's functions were compiled from "
	    "is in it too, if it is found."},
    {.name = "max-size",
     .kind = OPTION_SIZE,
     .at = offsetof(struct options, max_size),
     .arg = "SIZE",
     .help = "of --output: the most bytes of the file (default: 30000000)",
     .man = "Of `--output`: the most bytes of the file, or with K, M or G. Default: 30000000."},
    {.name = "no-browser",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, no_browser),
     .help = "print the address, and open no browser",
     .man = "Print the address, and open no browser."},
    {.name = "port",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct options, port),
     .arg = "N",
     .help = "the TCP port of 127.0.0.1 (default: any that is free)",
     .man = "The TCP port of 127.0.0.1. Default: any that is free. A certain one is of use with "
	    "`ssh -L`."},
    {0},
};

/* A recording that is open. */
struct side {
	const struct input *input;
	struct ptah_session *session;
	struct names *names, *code_names;
};

static bool wants(void *context, size_t stream)
{
	const struct side *side = context;

	return input_wants(side->input, side->session, stream);
}

static int open_side(struct options *o, int argc, char **argv, struct side *side,
		     struct view_recording *recording)
{
	int status, problem;

	o->input.samples = true;
	status = input_open(&command_view, &o->input, argc, argv, true, &side->session);

	if (status) {
		side->session = NULL;
		return status;
	}
	side->input = &o->input;
	problem = input_names(&o->input, side->session, &side->names);
	if (problem >= 0)
		problem = input_names(&o->input, NULL, &side->code_names);
	if (problem < 0)
		return fail(&command_view, "%s", ptah_strerror(problem));
	input_notes(&o->input, side->session);
	*recording = (struct view_recording){
	    .session = side->session,
	    .names = side->names,
	    .code_names = side->code_names,
	    .source_paths = input_source_paths(&o->input),
	    .path = o->input.path ? o->input.path
		    : o->input.pt ? o->input.pt
				  : "perf.data",
	    .symfs = o->input.symfs,
	    .wants = wants,
	    .context = side,
	};
	return EXIT_OK;
}

/* Of two names the first is that of the older recording, as with ptah diff. */
static int open_sides(struct options *o, int argc, char **argv, struct side sides[VIEW_SIDES],
		      struct view_recording recordings[VIEW_SIDES])
{
	int status;

	if (argc < 2)
		return open_side(o, argc, argv, &sides[VIEW_SHOWN], &recordings[VIEW_SHOWN]);
	if (argc > 2)
		return fail_usage(&command_view, "two recordings at most; \"%s\" is too much",
				  argv[2]);
	if (o->input.path || o->input.pt)
		return fail_usage(&command_view, "one of --%s and two recordings",
				  o->input.pt ? "pt" : "input");
	status = open_side(o, 1, argv, &sides[VIEW_OLD], &recordings[VIEW_OLD]);
	o->input.path = NULL;
	return status ? status
		      : open_side(o, 1, argv + 1, &sides[VIEW_SHOWN], &recordings[VIEW_SHOWN]);
}

static int fail_model(const struct ptah_message *why, int problem)
{
	return fail(&command_view, "%s", why->text[0] ? why->text : ptah_strerror(problem));
}

/* Prints the address, and opens the browser. */
static void show_address(const struct options *o, const struct view_server *server)
{
	int error;

	printf("%s\n", view_server_address(server));
	fflush(stdout);
	if (!o->input.quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "Ctrl-C ends the server.\n");
	if (o->no_browser || !browser_expected())
		return;
	error = browser_open(view_server_ticket(server));
	if (error && !o->input.quiet)
		fprintf(stderr,
			"note: no browser could be opened (%s): open the address yourself\n",
			strerror(error));
}

/* Serves until Ctrl-C, which is the way to end it and no failure. `waiting`: the signal mask in
 * which Ctrl-C arrives. */
static int serve(const struct options *o, struct view_model *model, const sigset_t *waiting)
{
	const struct view_server_config config = {
	    .answer = view_model_answer, .context = model, .port = (uint16_t)o->port};
	struct ptah_message why = {""};
	struct view_server *server;
	const int problem = view_server_start(&config, &server, &why);

	if (problem < 0)
		return fail_model(&why, problem);
	show_address(o, server);
	while (!interrupted())
		sigsuspend(waiting);
	sigprocmask(SIG_SETMASK, waiting, NULL); /* a second Ctrl-C ends the command at once */
	view_model_stop(model);
	view_server_stop(server);
	return EXIT_OK;
}

static bool was_stopped(void *context)
{
	(void)context;
	return interrupted();
}

static bool next_question(void *model, size_t i, char text[VIEW_QUERY_SIZE])
{
	return view_model_file_query(model, i, text);
}

static int put_page(const struct options *o, struct view_model *model, struct out *out)
{
	const struct view_page page = {.answer = view_model_answer,
				       .question = next_question,
				       .stopped = was_stopped,
				       .context = model,
				       .most = o->max_size};
	struct view_page_result result;
	int problem = view_model_wait(model, interrupted);

	if (problem >= 0 && !interrupted())
		problem = view_page_write(&page, out, &result);
	if (problem == PTAH_E_NOSPACE)
		return fail(&command_view,
			    "--max-size=%" PRIu64 ": not even the page fits into so many bytes",
			    o->max_size);
	if (problem < 0 && !interrupted())
		return fail(&command_view, "%s", ptah_strerror(problem));
	if (!interrupted() && result.left_out && !o->input.quiet)
		fprintf(stderr,
			"note: the finest levels of detail do not fit into %" PRIu64
			" bytes; 'ptah view' without -o has them\n",
			o->max_size);
	return EXIT_OK;
}

/* The page is written: what is missing in it. Returns an exit code. */
static int tell_problems(const struct options *o, struct view_model *model)
{
	struct view_problems problems;

	view_model_problems(model, &problems);
	if (problems.log_full && !o->input.quiet)
		print_clean("note: ",
			    "there was no room for the file of single calls: of some parts "
			    "only levels of detail are in the page; TMPDIR names another "
			    "folder for it");
	return problems.errors ? fail_errors(&command_view, problems.errors) : EXIT_OK;
}

static int write_page(const struct options *o, struct view_model *model)
{
	struct out *out;
	int status = output_open(&command_view, &o->input, &out);

	if (status)
		return status;
	status = put_page(o, model, out);
	if (!status)
		return output_close(&command_view, out, tell_problems(o, model));
	out_abort(out);
	return status;
}

/* The threads of the model and the server inherit a mask without Ctrl-C and its like: they arrive
 * in this thread alone. */
static void block_signals(sigset_t *before)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGINT);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, before);
}

static int show_pages(const struct options *o, const struct view_recording recordings[VIEW_SIDES])
{
	struct view_model_config config = {.jobs = input_jobs(&o->input, 0),
					   .folder = getenv("TMPDIR")};
	struct ptah_message why = {""};
	struct view_model *model;
	sigset_t before;
	int problem, status;

	memcpy(config.recordings, recordings, sizeof(config.recordings));
	block_signals(&before);
	problem = view_model_new(&config, &model, &why);
	if (problem < 0)
		return fail_model(&why, problem);
	if (!o->input.output) {
		status = serve(o, model, &before);
	} else {
		sigprocmask(SIG_SETMASK, &before, NULL);
		status = write_page(o, model);
	}
	view_model_free(model);
	return status;
}

static int check_view_options(const struct options *o)
{
	if (o->port > UINT16_MAX)
		return fail_options(&command_view, "--port=%" PRIu64 ": not a port", o->port);
	if (o->input.output && (o->port || o->no_browser))
		return fail_options(&command_view, "--%s: with --output nothing is served",
				    o->port ? "port" : "no-browser");
	if (o->input.prefix_strip && !o->input.prefix)
		return fail_usage(&command_view, "--prefix-strip belongs to --prefix");
	if (o->input.output && !strcmp(o->input.output, "-") && isatty(STDOUT_FILENO))
		return fail_usage(&command_view, "--output=-: not for a terminal");
	return EXIT_OK;
}

static int run_view(int argc, char **argv)
{
	struct options o = {.max_size = MOST_BYTES};
	struct view_recording recordings[VIEW_SIDES] = {{0}};
	struct side sides[VIEW_SIDES] = {{0}};
	int status, first = options_parse(&command_view, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = check_view_options(&o);
	if (!status)
		status = open_sides(&o, argc - first, argv + first, sides, recordings);
	if (!status)
		status = show_pages(&o, recordings);
	for (int side = 0; side < VIEW_SIDES; side++) {
		names_free(sides[side].names);
		names_free(sides[side].code_names);
		ptah_session_close(sides[side].session);
	}
	return status;
}

const struct command command_view = {
    .name = "view",
    .usage = "[OPTIONS] [[OLD] FILE]",
    .summary = "a recording in the browser: timeline, flame graph, source",
    .details =
	"Shows a recording in a browser: a timeline of all calls, flame graphs, functions, source\n"
	"with counts, coverage. With OLD, also what changed since that recording. The page is\n"
	"served on 127.0.0.1, at an address that cannot be guessed, until Ctrl-C; with --output "
	"it\n"
	"becomes one HTML file.",
    .options = (const struct option_def *const[]){view_options, source_options, input_options,
						  decode_options, names_options, window_options,
						  jobs_options, raw_options, quiet_options,
						  help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_view,
};
