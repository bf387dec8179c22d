/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
	const char *output, *qemu, *plugin;
	bool no_retcomp, long_tnt, quiet;
	uint64_t psb_period;
	int clock;
};

static const char *const clocks[] = {"insn", "host", NULL};

static const struct option_def option_defs[] = {
    {"output", 'o', OPTION_TEXT, offsetof(struct options, output), "FILE",
     "where to write (default: perf.data)", NULL},
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

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct ptah_record_config config = {.size = sizeof(config)};
	struct ptah_record_result result;
	struct ptah_message why = {""};
	int status, first = options_parse(&command_record, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (first >= argc) {
		fail(&command_record, "no command to record\nTry 'ptah record --help'.");
		return EXIT_USAGE;
	}
	if (o.psb_period > UINT32_MAX) {
		fail(&command_record, "--psb-period=%" PRIu64 " is too large", o.psb_period);
		return EXIT_USAGE;
	}
	config.output = o.output;
	config.argv = argv + first;
	config.no_retcomp = o.no_retcomp;
	config.long_tnt = o.long_tnt;
	config.clock = (enum ptah_record_clock)o.clock;
	config.psb_period = (uint32_t)o.psb_period;
	config.qemu = o.qemu;
	config.plugin = o.plugin ? o.plugin : getenv("PTAH_PLUGIN");
	status = ptah_record(&config, &result, &why);
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
	"simulated PT processor. Every thread is recorded; children are not. ptah ends with\n"
	"COMMAND's exit status (128 + N when signal N killed it).",
    .options = option_defs,
    .run = run,
};
