/* SPDX-License-Identifier: MIT */
/* ptah record: runs a recorder as its options say. */
#include "record_configure.h"
#include "record_control.h"
#include "record_run.h"

static int run_record(int argc, char **argv)
{
	struct record_options o = {.command = &command_record};
	struct ptah_record_config config = {.size = sizeof(config)};
	struct filters filters = {.count = 0};
	struct triggers triggers = {.count = 0};
	struct control control = {.commands = -1, .acks = -1};
	struct recording_options recording = {.command = &command_record, .control = &control};
	int status, first = options_parse(&command_record, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status =
	    record_configure(&o, argv + first, &config, &filters, &triggers, &recording.delay_ms);
	if (status == EXIT_OK)
		status = control_open(&command_record, o.control, &control);
	if (status == EXIT_OK) {
		recording.quiet = o.quiet;
		recording.verbose = o.verbose;
		recording.no_progress = o.no_progress;
		recording.dry_run = o.dry_run;
		recording.keep = o.on_failure ? RECORD_KEEP_FAILURES
				 : o.on_crash ? RECORD_KEEP_CRASHES
					      : RECORD_KEEP;
		recording.chosen = o.recorder || o.vm || o.qemu || o.plugin;
		status = recording_run(&config, &recording);
	}
	control_close(&control);
	target_free(&config);
	filters_free(&filters);
	triggers_free(&triggers);
	return status;
}

const struct command command_record = {
    .name = "record",
    .usage = "[OPTIONS] [--] [COMMAND [ARGUMENTS]]",
    .summary = "run a command and record every branch it takes",
    .details =
	"Runs COMMAND and writes its Intel PT trace into a perf.data file; or records what runs\n"
	"already (-p, -t, -a, -C) until it ends, COMMAND does, or Ctrl-C is pressed. Without PT\n"
	"hardware the program is recorded from inside (--recorder=native), also what runs already\n"
	"(-p), or under qemu-user, whose plugin feeds a simulated PT processor; no privileges are\n"
	"needed. ptah ends with COMMAND's exit status (128 + N when signal\n"
	"N killed it).",
    .options = (const struct option_def *const[]){record_output_options, record_event_options,
						  record_machine_options, record_target_options,
						  record_simulated_options, record_options, NULL},
    .operand = COMPLETE_COMMAND,
    .run = run_record,
};
