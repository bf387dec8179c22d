/* SPDX-License-Identifier: MIT */
/* Prints a recording's progress, remarks, closing lines and failures on standard error. */
#include "record_report.h"

#include "progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <termios.h>
#include <unistd.h>

#define REDRAW	      0.25 /* seconds */
#define SLOW_RECORDER "ptrace"
#define FIRST_DRAWN   1.0 /* seconds: a shorter recording shows no progress */

void record_erase(struct run *run)
{
	if (run->shown)
		fputs("\r\033[K", stderr);
	run->shown = false;
}

static void remark(struct run *run, const char *format, va_list args)
{
	char text[1536], head[32];

	record_erase(run);
	vsnprintf(text, sizeof(text), format, args);
	snprintf(head, sizeof(head), "[ ptah %s: ", run->options->command->name);
	print_clean(head, "%s ]", text);
}

void record_remark(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (!run->options->quiet)
		remark(run, format, args);
	va_end(args);
}

/* Prints a remark with --quiet too, because something is wrong. */
static void warn(struct run *run, const char *format, ...) PRINTF_LIKE(2, 3);

static void warn(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	remark(run, format, args);
	va_end(args);
}

/*
 * Whether the progress line may be printed. Not when this process is in the background of its
 * terminal (a write could stop it by SIGTTOU), and not when the command has set the terminal to
 * another mode, as an editor does.
 */
static bool may_draw(void)
{
	struct termios modes;

	return tcgetpgrp(STDERR_FILENO) == getpgrp() && !tcgetattr(STDERR_FILENO, &modes) &&
	       modes.c_lflag & ICANON;
}

static uint64_t losses(const struct ptah_record_losses *l)
{
	return l->truncated + l->overwritten + l->partial + l->collisions + l->lost_records +
	       l->overflows;
}

/* The line ends with a carriage return, so that output of the command overwrites it. */
void record_draw(struct run *run)
{
	const struct ptah_record_status *s = &run->status;
	double t = now();

	if (run->options->quiet || run->options->no_progress || t - run->started < FIRST_DRAWN ||
	    t - run->drawn < REDRAW || !isatty(STDERR_FILENO) || !may_draw())
		return;
	run->drawn = t;
	run->shown = true;
	fprintf(stderr, "\r%.0f s%s: %.1f MB of trace", t - run->started,
		s->paused ? ", paused" : "", (double)s->trace_bytes / 1e6);
	if (s->instructions)
		fprintf(stderr, ", %" PRIu64 " instructions", s->instructions);
	fprintf(stderr, ", %u thread%s", s->threads, s->threads == 1 ? "" : "s");
	if (s->processes)
		fprintf(stderr, ", %u process%s", s->processes, s->processes == 1 ? "" : "es");
	if (s->snapshots)
		fprintf(stderr, ", %u snapshot%s", s->snapshots, s->snapshots == 1 ? "" : "s");
	fputs(losses(&s->losses) ? ", losses\033[K\r" : "\033[K\r", stderr);
}

static const char *output_path(const struct run *run)
{
	return run->config->output.path ? run->config->output.path : "perf.data";
}

void record_watch_space(struct run *run)
{
	struct statvfs s;
	uint64_t left;

	if (run->warned || statvfs(output_path(run), &s))
		return;
	left = (uint64_t)s.f_bavail * s.f_frsize;
	if (!run->space)
		run->space = left;
	if (left > run->space / 10 || left == run->space)
		return;
	run->warned = true;
	warn(run,
	     "%.1f MB of space are left for %s, a tenth of what was free at the beginning: the "
	     "recording ends when the disk is full; --max-size limits it",
	     (double)left / 1e6, output_path(run));
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

void record_print_losses(struct run *run)
{
	const struct ptah_record_losses *l = &run->status.losses;

	if (l->truncated)
		record_remark(run,
			      "trace was lost %" PRIu64
			      " time%s because the buffer was full: make it larger "
			      "(-m ,SIZE) or trace less (--filter)",
			      l->truncated, plural(l->truncated));
	if (l->overwritten && run->config->buffer.policy == PTAH_RECORD_SNAPSHOT)
		record_remark(run,
			      "at least %" PRIu64 " byte%s of trace before the snapshots were "
			      "overwritten, as --snapshot intends",
			      l->overwritten, plural(l->overwritten));
	else if (l->overwritten)
		record_remark(run,
			      "%" PRIu64
			      " byte%s of trace were overwritten before they were taken: make the "
			      "buffer larger (-m ,SIZE)",
			      l->overwritten, plural(l->overwritten));
	if (l->partial)
		record_remark(run,
			      "a virtual machine made %" PRIu64
			      " gap%s: this processor does not trace while "
			      "VMX is in use; stop the virtual machines",
			      l->partial, plural(l->partial));
	if (l->collisions)
		record_remark(run,
			      "samples got in the way of the trace %" PRIu64
			      " time%s: end the other "
			      "recordings on this machine",
			      l->collisions, plural(l->collisions));
	if (l->lost_records)
		record_remark(run,
			      "%" PRIu64
			      " record%s of maps, names and switches were lost, and the code they "
			      "contained may be missing: make their buffer larger (-m SIZE)",
			      l->lost_records, plural(l->lost_records));
	if (l->overflows)
		record_remark(run,
			      "the processor had to leave packets out %" PRIu64
			      " time%s (OVF): ask for fewer "
			      "(no cyc, a --filter)",
			      l->overflows, plural(l->overflows));
}

/* The most notes that are printed after a recording. */
#define MOST_NOTES 10

/* Prints what was not recorded, which is in the recording's notes. */
static void print_record_notes(struct run *run, const char *path)
{
	const struct ptah_session_config config = {.size = sizeof(config), .no_images = true};
	struct ptah_message why = {""};
	struct ptah_session *session;
	const char *note;
	size_t n = 0;

	if (!run->status.notes || run->options->quiet ||
	    ptah_session_open(path, &config, &session, &why) < 0)
		return;
	for (; (note = ptah_session_note(session, n)); n++)
		if (n < MOST_NOTES)
			record_remark(run, "note: %s", note);
	if (n > MOST_NOTES)
		record_remark(run, "%zu more notes: 'ptah stat' shows them", n - MOST_NOTES);
	ptah_session_close(session);
}

void record_print_result(struct run *run)
{
	const char *path = output_path(run);
	const struct ptah_record_status *s = &run->status;
	char counted[64] = "", processes[32] = "", snapshots[32] = "";

	if (s->instructions)
		snprintf(counted, sizeof(counted), "%" PRIu64 " instructions, ", s->instructions);
	if (s->processes > 1)
		snprintf(processes, sizeof(processes), " of %u processes", s->processes);
	if (s->snapshots)
		snprintf(snapshots, sizeof(snapshots), ", %u snapshot%s", s->snapshots,
			 plural(s->snapshots));
	if (s->full)
		record_remark(run, "the size limit is reached (--max-size): the recording ends");
	record_remark(run, "%.3f MB of trace, %s%u %s%s%s%s written to %s",
		      (double)s->trace_bytes / 1e6, counted, s->threads,
		      run->config->target.kind == PTAH_RECORD_CPUS ? "stream" : "thread",
		      plural(s->threads), processes, snapshots, path);
	if (run->options->keep != RECORD_KEEP)
		record_remark(run, "ptah script --last=20%s%s shows the end of each thread",
			      run->config->output.path ? " -i " : "",
			      run->config->output.path ? path : "");
	if (s->jit_copies)
		record_remark(run, "%u list%s of generated code copied to %s%s.jit", s->jit_copies,
			      plural(s->jit_copies), path,
			      run->config->output.kcore ? "/data" : "");
	record_print_losses(run);
	print_record_notes(run, path);
}

void record_print_kept(struct run *run)
{
	const struct ptah_record_status *s = &run->status;

	if (!s->trace_bytes)
		return;
	warn(
	    run,
	    "%s has the %.3f MB of trace that were written before, and can be decoded; %.3f MB are "
	    "lost, and what ran later was not recorded",
	    output_path(run), (double)s->trace_bytes / 1e6, (double)s->losses.unwritten / 1e6);
}

/* Prints the advice for a problem, unless the sentence contains it already. */
static void advise(const struct run *run, enum ptah_record_problem problem, const char *sentence)
{
	static const char *const said[PTAH_RECORD_PROBLEM_MAX] = {
	    [PTAH_RECORD_NO_PROCESSOR] = "--recorder",
	    [PTAH_RECORD_NO_DRIVER] = "--recorder",
	    [PTAH_RECORD_PERMISSION] = "perf_event_paranoid",
	    [PTAH_RECORD_MLOCK] = "perf_event_mlock_kb",
	    [PTAH_RECORD_BUSY] = "end the other",
	    [PTAH_RECORD_NOT_POSSIBLE] = "--recorder",
	    [PTAH_RECORD_NO_MEMORY] = "ulimit",
	    [PTAH_RECORD_TOO_SLOW] = "--recorder",
	};

	/* Recorders that need no hardware cannot record processors. */
	if (run->config->target.kind == PTAH_RECORD_CPUS &&
	    (problem == PTAH_RECORD_NO_PROCESSOR || problem == PTAH_RECORD_NO_DRIVER))
		fputs(
		    "Processors (-a, -C) can only be recorded with Intel PT hardware; without it, "
		    "record a command, or by single steps a process (--recorder=ptrace -p).\n",
		    stderr);
	else if ((unsigned)problem < PTAH_RECORD_PROBLEM_MAX && said[problem] &&
		 !strstr(sentence, said[problem]))
		fprintf(stderr, "%s\n", ptah_record_advice(problem, NULL));
}

int record_failed(const struct run *run, int status, enum ptah_record_problem problem,
		  const char *sentence)
{
	fail(run->options->command, "%s", *sentence ? sentence : ptah_strerror(status));
	advise(run, problem, sentence);
	return problem == PTAH_RECORD_BAD_OPTION ? EXIT_USAGE : EXIT_FAILED;
}

void record_print_choice(struct run *run)
{
	const char *choice, *reason;

	ptah_recorder_kind(run->r, &choice);
	reason = strstr(choice, ": ");
	if (reason)
		record_remark(run, "with the recorder %s", choice);
	else
		record_remark(run, "with the recorder %s%s", choice,
			      run->options->chosen ? ", as asked for" : ", the first choice");
	if (!strncmp(choice, SLOW_RECORDER, strlen(SLOW_RECORDER)))
		record_remark(run, "it stops the program after each instruction, which makes it "
				   "thousands of times slower");
}

void record_print_metadata(struct run *run)
{
	struct ptah_record_metadata m = {.size = sizeof(m)};

	if (run->options->verbose && ptah_recorder_metadata(run->r, &m) >= 0 &&
	    (*m.vendor || m.rtit_ctl))
		record_remark(run,
			      "processor %s %u/%u/%u, IA32_RTIT_CTL 0x%" PRIx64
			      ", time_shift %u, time_mult %" PRIu32 ", time_zero %" PRIu64,
			      *m.vendor ? m.vendor : "(simulated)", m.cpu.family, m.cpu.model,
			      m.cpu.stepping, m.rtit_ctl, m.time_shift, m.time_mult, m.time_zero);
}
