/* SPDX-License-Identifier: MIT */
/* ptah repack: a recording with the same trace in fewer bytes. */
#include "input.h"
#include "progress.h"

#include "export/repack.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct repack_options {
	struct input input;
	bool retcomp;
	uint64_t psb_period;
};

static const struct option_def repack_options[] = {
    {.name = "retcomp",
     .kind = OPTION_FLAG,
     .at = offsetof(struct repack_options, retcomp),
     .help = "compress returns, although it was recorded without",
     .man = "Compress returns in a recording that was made with *--no-retcomp*, too."},
    {.name = "psb-period",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct repack_options, psb_period),
     .arg = "BYTES",
     .help = "add a PSB+ at the first time after so many bytes without one",
     .man =
	 "Add a PSB+, at which every decoder can begin or go on after missing code, where *BYTES* "
	 "bytes or more have none: at the next TSC packet, because a PSB+ has a time. For "
	 "recordings made natively, which have one in 128 KiB. Refused for traces with MTC or "
	 "CYC packets."},
    {0},
};

static const struct option_def repack_output[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write to FILE instead of the recording's place",
     .man = "Write to *FILE*. By default the new file takes the recording's place. A file that is "
	    "there is renamed to *FILE*.old, as perf does; after a failure or Ctrl-C everything is "
	    "as it was."},
    {0},
};

struct run {
	struct progress progress;
	uint64_t done;
};

static bool show_repack_progress(void *context, uint64_t bytes)
{
	struct run *r = context;

	r->done += bytes;
	progress_at(&r->progress, r->done);
	return !interrupted();
}

static int repack(struct repack_options *o, const char *input, const char *output,
		  struct ptah_session *session)
{
	struct run r = {0};
	struct repack_job job = {.input = input,
				 .output = output,
				 .session = session,
				 .retcomp = o->retcomp,
				 .psb_period = o->psb_period,
				 .step = show_repack_progress,
				 .context = &r};
	struct ptah_message why = {""};
	int status;

	progress_begin(&r.progress, &o->input, session, true);
	status = repack_run(&job, &why);
	progress_end(&r.progress);
	input_notes(&o->input, session);
	if (status < 0)
		return fail(&command_repack, "%s", *why.text ? why.text : ptah_strerror(status));
	if (job.stopped)
		return interrupted_status();
	if (!o->input.quiet && job.copied)
		fprintf(stderr,
			"note: %llu bytes of trace around errors and losses were copied as "
			"they are\n",
			(unsigned long long)job.copied);
	if (!o->input.quiet)
		fprintf(stderr, "%llu bytes of trace became %llu\n", (unsigned long long)job.before,
			(unsigned long long)job.after);
	return EXIT_OK;
}

/* Refuses what cannot be read twice, or written. Returns an exit code. */
static int check_repack_files(const char *input, const char *output)
{
	struct stat st;

	if (!strcmp(input, "-") || (!stat(input, &st) && !S_ISREG(st.st_mode)))
		return fail_usage(&command_repack,
				  "the recording is read several times, and replaced: it must be a "
				  "file");
	if (output && input_becomes_old(input, output))
		return fail_usage(&command_repack,
				  "--output=%s: the file that is there would be renamed to %s, "
				  "which is the recording; name another file",
				  output, input);
	return EXIT_OK;
}

static int run_repack(int argc, char **argv)
{
	struct repack_options o = {0};
	struct ptah_session *session;
	const char *input;
	int status, first = options_parse(&command_repack, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (!o.input.path && first < argc)
		o.input.path = argv[first++];
	input = o.input.path ? o.input.path : "perf.data";
	status = check_repack_files(input, o.input.output);
	if (!status)
		status = input_open(&command_repack, &o.input, argc - first, argv + first, true,
				    &session);
	if (status)
		return status;
	status = repack(&o, input, o.input.output ? o.input.output : input, session);
	ptah_session_close(session);
	return status;
}

const struct command command_repack = {
    .name = "repack",
    .usage = "[OPTIONS] [RECORDING]",
    .summary = "a recording with the same trace in fewer bytes",
    .details = "Joins outcomes into full TNT packets, and compresses addresses and returns, as a\n"
	       "processor does. For recordings of simulated processors whose recorder writes\n"
	       "packets as they come. Counts, paths and times stay the same.",
    .options =
	(const struct option_def *const[]){repack_options, repack_output, input_options,
					   decode_options, quiet_options, help_options, NULL},
    .notes = (const struct option_note[]){{"input", "Pipes and standard input are refused: the "
						    "recording is read several times."},
					  {0}},
    .operand = COMPLETE_FILE,
    .run = run_repack,
};
