/* SPDX-License-Identifier: MIT */
/* ptah inject: a recording with samples in place of its trace, for tools that read perf.data. */
#include "input.h"
#include "progress.h"

#include "export/inject.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct inject_options {
	struct input input;
	const char *itrace;
	bool strip, build_ids, jit;
};

static const struct option_def inject_options[] = {
    {.name = "itrace",
     .kind = OPTION_OPTIONAL,
     .at = offsetof(struct inject_options, itrace),
     .arg = "LETTERS",
     .help = "which samples, in perf's letters (default: ibxwpe)",
     .man =
	 "Which samples are made, in the letters of *perf inject*. `i`: instructions, one for each "
	 "*period*, which is a number and a unit (*i* instructions, *t* ticks of the TSC, *ms*, "
	 "*us*, *ns*) and by default 100000 ns; *i1i* and *i0ns* are each instruction. `b`: all "
	 "branches that were taken; `c`: calls; `r`: returns. `g`*N*: instruction samples with "
	 "up to *N* callers, by default 16. `l`*N*: with the last *N* branches since the sample "
	 "before, by default 64. `e`: records for errors and overflows (*e-o*: without the "
	 "latter). `s`*N*: the first *N* samples are left out. Of `x`, `w`, `p`, `o` and `I` no "
	 "samples are made, which a note says. Default: *ibxwpe*."},
    {.name = "strip",
     .kind = OPTION_FLAG,
     .at = offsetof(struct inject_options, strip),
     .help = "leave out the samples that the recording has",
     .man = "Leave out the samples that the recording already has."},
    {.name = "build-ids",
     .letter = 'b',
     .kind = OPTION_REFUSED,
     .at = offsetof(struct inject_options, build_ids),
     .help = "the build ids of the recording are kept as they are"},
    {.name = "jit",
     .kind = OPTION_REFUSED,
     .at = offsetof(struct inject_options, jit),
     .help = "files of generated code are not made; perf inject --jit makes them"},
    {0},
};

static const struct option_def inject_output[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct input, output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write to FILE instead of standard output",
     .man = "Write to *FILE* instead of standard output, which must not be a terminal. An "
	    "existing file is renamed to *FILE*.old, as perf does. After a failure or Ctrl-C no "
	    "file is left."},
    {0},
};

struct run {
	const struct input *input;
	struct ptah_session *session;
	struct progress progress;
	size_t stream;
};

static bool wants_inject_stream(void *run, size_t stream)
{
	struct run *r = run;

	return input_wants(r->input, r->session, stream);
}

static bool show_inject_progress(void *run, uint64_t bytes)
{
	progress_at(&((struct run *)run)->progress, bytes);
	return !interrupted();
}

/* Refuses what cannot be read twice, or written. Returns an exit code. */
static int check_inject_files(const char *input, const char *output)
{
	struct stat st;

	if (!strcmp(input, "-") || (!stat(input, &st) && S_ISFIFO(st.st_mode)))
		return fail_usage(&command_inject,
				  "the recording is read several times: save it to a file first");
	if (!output && isatty(STDOUT_FILENO))
		return fail_usage(&command_inject, "samples are not for a terminal: --output=FILE");
	if (output && input_same_file(input, output))
		return fail_usage(&command_inject,
				  "--output=%s: this is the recording itself; name another file",
				  output);
	if (output && input_becomes_old(input, output))
		return fail_usage(&command_inject,
				  "--output=%s: the file that is there would be renamed to %s, "
				  "which is the recording; name another file",
				  output, input);
	return EXIT_OK;
}

static int inject(struct run *r, const struct itrace *itrace, bool strip, const char *output)
{
	struct inject job = {.input = r->input->path ? r->input->path : "perf.data",
			     .output = output,
			     .session = r->session,
			     .itrace = *itrace,
			     .strip = strip,
			     .jobs = input_jobs(r->input, 1),
			     .wants = wants_inject_stream,
			     .step = show_inject_progress,
			     .context = r,
			     .given_up = consumer_given_up};
	struct ptah_message why = {""};
	int status;

	progress_begin(&r->progress, r->input, r->session, true);
	status = inject_run(&job, &why);
	progress_end(&r->progress);
	input_notes(r->input, r->session);
	if (status < 0)
		return fail(&command_inject, "%s", *why.text ? why.text : ptah_strerror(status));
	if (job.stopped)
		return interrupted_status();
	if (*itrace->left_out && !r->input->quiet)
		print_clean("note: ", "--itrace: no samples are made for \"%s\"", itrace->left_out);
	return job.errors ? fail_errors(&command_inject, job.errors) : EXIT_OK;
}

static int run_inject(int argc, char **argv)
{
	struct inject_options o = {.itrace = ""};
	struct run r = {.input = &o.input};
	struct ptah_message why = {""};
	struct itrace itrace;
	const char *output;
	int status, first = options_parse(&command_inject, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (itrace_parse(o.itrace, &itrace, &why) < 0)
		return fail_usage(&command_inject, "%s", why.text);
	if (!o.input.path && first < argc)
		o.input.path = argv[first++];
	output = o.input.output && strcmp(o.input.output, "-") != 0 ? o.input.output : NULL;
	status = check_inject_files(o.input.path ? o.input.path : "perf.data", output);
	if (!status)
		status = input_open(&command_inject, &o.input, argc - first, argv + first, true,
				    &r.session);
	if (status)
		return status;
	status = inject(&r, &itrace, o.strip, output);
	ptah_session_close(r.session);
	return status;
}

const struct command command_inject = {
    .name = "inject",
    .usage = "[OPTIONS] -o FILE [RECORDING]",
    .summary = "a recording with samples in place of its trace",
    .details = "Writes a perf.data whose trace has become samples of instructions and branches,\n"
	       "with call chains and branch stacks: for perf report, perf annotate, hotspot,\n"
	       "create_llvm_prof, perf2bolt -p and others that read perf.data, with --itrace as\n"
	       "perf inject has it.",
    .options =
	(const struct option_def *const[]){inject_options, inject_output, input_options,
					   ordered_jobs_options, window_options, decode_options,
					   quiet_options, help_options, NULL},
    .notes = (const struct option_note[]){{"input", "Pipes and standard input are refused: the "
						    "recording is read several times."},
					  {0}},
    .operand = COMPLETE_FILE,
    .run = run_inject,
};
