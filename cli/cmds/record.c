/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "filter.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	const char *output, *qemu, *plugin, *event, *filter;
	bool no_retcomp, long_tnt, quiet, stop_when_full;
	uint64_t psb_period, snapshot, buffer;
	int clock;
};

static const char *const clocks[] = {"insn", "host", NULL};

static const struct option_def option_defs[] = {
    {"output", 'o', OPTION_TEXT, offsetof(struct options, output), "FILE",
     "where to write (default: perf.data)", NULL},
    {"event", 'e', OPTION_TEXT, offsetof(struct options, event), "EVENT",
     "intel_pt/TERMS/u: tsc, noretcomp, mtc, mtc_period, cyc, cyc_thresh, psb_period", NULL},
    {"filter", 0, OPTION_TEXT, offsetof(struct options, filter), "FILTER",
     "trace only 'filter SYMBOL@FILE' or START/SIZE@FILE; 'stop ...' ends it there", NULL},
    {"snapshot", 'S', OPTION_SIZE, offsetof(struct options, snapshot), "SIZE",
     "keep the last SIZE bytes of each thread's trace alone", NULL},
    {"stop-when-full", 0, OPTION_FLAG, offsetof(struct options, stop_when_full), NULL,
     "end each thread's trace when its buffer is full", NULL},
    {"buffer", 0, OPTION_SIZE, offsetof(struct options, buffer), "SIZE",
     "the buffer of a thread (default: 4M)", NULL},
    {"no-retcomp", 0, OPTION_FLAG, offsetof(struct options, no_retcomp), NULL,
     "no return compression: larger, quicker to decode", NULL},
    {"long-tnt", 0, OPTION_FLAG, offsetof(struct options, long_tnt), NULL,
     "send TNT-64 packets instead of TNT-8", NULL},
    {"psb-period", 0, OPTION_NUMBER, offsetof(struct options, psb_period), "BYTES",
     "trace bytes between PSB+ (default: 4096; a power of two)", NULL},
    {"clock", 0, OPTION_CHOICE, offsetof(struct options, clock), "CLOCK",
     "insn or host: what TSC counts (default: insn, repeatable)", clocks},
    {"qemu", 0, OPTION_TEXT, offsetof(struct options, qemu), "PATH",
     "the emulator (default: qemu-x86_64)", NULL},
    {"plugin", 0, OPTION_TEXT, offsetof(struct options, plugin), "PATH",
     "the recorder's plugin (default: found beside ptah)", NULL},
    {"quiet", 'q', OPTION_FLAG, offsetof(struct options, quiet), NULL, "no closing line", NULL},
    {"help", 'h', OPTION_HELP, 0, NULL, "show this help", NULL},
    {0},
};

/* Ends as the command did. */
static int pass_status(int wait_status)
{
	if (WIFSIGNALED(wait_status))
		return 128 + WTERMSIG(wait_status);
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : EXIT_FAILED;
}

/* The words that say how, into *config. Returns an exit code. */
static int configure(const struct options *o, char **argv, struct ptah_record_config *config,
		     struct filters *filters)
{
	char program[PATH_MAX];
	struct ptah_message why = {""};
	int status = EXIT_OK;

	if (o->psb_period > UINT32_MAX) {
		fail(&command_record, "--psb-period=%" PRIu64 " is too large", o->psb_period);
		return EXIT_USAGE;
	}
	if (o->snapshot && (o->stop_when_full || o->buffer)) {
		fail(&command_record, "--snapshot goes neither with --stop-when-full nor --buffer");
		return EXIT_USAGE;
	}
	config->output = o->output;
	config->argv = argv;
	config->clock = (enum ptah_record_clock)o->clock;
	config->psb_period = (uint32_t)o->psb_period;
	config->no_retcomp = o->no_retcomp;
	config->long_tnt = o->long_tnt;
	config->qemu = o->qemu;
	config->plugin = o->plugin ? o->plugin : getenv("PTAH_PLUGIN");
	config->buffer = o->snapshot	     ? PTAH_RECORD_SNAPSHOT
			 : o->stop_when_full ? PTAH_RECORD_STOP_WHEN_FULL
					     : PTAH_RECORD_DRAIN;
	config->buffer_size = o->snapshot ? o->snapshot : o->buffer;
	if (o->event && ptah_record_parse_event(o->event, config, &why) < 0) {
		fail(&command_record, "%s", why.text);
		return EXIT_USAGE;
	}
	if (status == EXIT_OK && o->filter) {
		bool found = ptah_record_program(argv, program, sizeof(program)) >= 0;

		status = filters_parse(&command_record, o->filter, found ? program : NULL, filters);
		config->filters = filters->items;
		config->filter_count = filters->count;
	}
	return status;
}

static volatile sig_atomic_t forward_to;

static void forward(int signal)
{
	if (forward_to > 0 && (signal == SIGTERM || signal == SIGHUP))
		kill((pid_t)forward_to, signal);
}

/* The terminal sends its signals to the command too; who else signals us means the command. */
static void hold_signals(void)
{
	static const int signals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	struct sigaction old, pass = {.sa_handler = forward};

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &pass, NULL);
}

static int record(const struct ptah_record_config *config, struct ptah_record_status *result,
		  struct ptah_message *why)
{
	struct ptah_recorder *r;
	int status = ptah_recorder_new(config, &r, NULL, why);

	if (status < 0)
		return status;
	hold_signals();
	status = ptah_recorder_start(r);
	do {
		ptah_recorder_status(r, result);
		forward_to = result->pid;
	} while (status >= 0 && (status = ptah_recorder_poll(r, 100)) > 0);
	if (status >= 0)
		status = ptah_recorder_finish(r);
	ptah_recorder_status(r, result);
	/* A failure ends the recording, not the command. */
	while (result->pid && waitpid(result->pid, &result->wait_status, 0) < 0 && errno == EINTR)
		;
	snprintf(why->text, sizeof(why->text), "%s", ptah_recorder_why(r));
	ptah_recorder_free(r);
	return status;
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct ptah_record_config config = {.size = sizeof(config)};
	struct ptah_record_status result = {.size = sizeof(result)};
	struct ptah_message why = {""};
	struct filters filters = {.count = 0};
	int status, first = options_parse(&command_record, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (first >= argc) {
		fail(&command_record, "no command to record\nTry 'ptah record --help'.");
		return EXIT_USAGE;
	}
	status = configure(&o, argv + first, &config, &filters);
	if (status != EXIT_OK) {
		filters_free(&filters);
		return status;
	}
	status = record(&config, &result, &why);
	filters_free(&filters);
	if (status < 0)
		return fail(&command_record, "%s", why.text[0] ? why.text : ptah_strerror(status));
	if (!o.quiet)
		fprintf(stderr,
			"[ ptah record: %.3f MB of trace, %" PRIu64 " instructions, %u thread%s "
			"written to %s%s ]\n",
			(double)result.trace_bytes / 1e6, result.instructions, result.threads,
			result.threads == 1 ? "" : "s", o.output ? o.output : "perf.data",
			result.notes ? "; 'ptah report' tells what was left out" : "");
	return pass_status(result.wait_status);
}

const struct command command_record = {
    .name = "record",
    .usage = "[OPTIONS] [--] COMMAND [ARGUMENTS]",
    .summary = "run a command and record every branch it takes",
    .details =
	"Runs COMMAND and writes its Intel PT trace into a perf.data file. No PT hardware and\n"
	"no privileges are needed: the program runs under qemu-user, whose plugin feeds a\n"
	"simulated PT processor. Threads and children are recorded too. ptah ends with\n"
	"COMMAND's exit status (128 + N when signal N killed it).",
    .options = option_defs,
    .run = run,
};
