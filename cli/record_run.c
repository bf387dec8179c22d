/* SPDX-License-Identifier: MIT */
#include "record_run.h"

#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define POLL_MS	       50
#define REDRAW	       0.25 /* seconds */
#define FIRST_DRAWN    1.0  /* seconds: what is over sooner needs no line */
#define ONE_KEY_STROKE 0.2  /* seconds: signals of one Ctrl-C, which may come twice */

/* What has come and has not been seen to: handlers only note it. */
static volatile sig_atomic_t got_interrupt, got_termination, got_snapshot;

static void note_signal(int signal)
{
	if (signal == SIGINT)
		got_interrupt = 1;
	else if (signal == SIGTERM || signal == SIGHUP)
		got_termination = signal;
	else if (signal == SIGUSR2)
		got_snapshot = 1;
}

/* Handlers, and nothing ignored: the command inherits what is ignored. */
static void hold_signals(bool command)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGPIPE, SIGQUIT};
	struct sigaction old, note = {.sa_handler = note_signal};

	/* Ctrl-\ is the command's; without one it ends us as it ends everybody. */
	for (size_t i = 0; i < ARRAY_SIZE(signals) - (command ? 0 : 1); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &note, NULL);
}

struct run {
	const struct ptah_record_config *config;
	const struct recording_options *options;
	struct ptah_recorder *r;
	struct ptah_record_status status;
	double started, drawn, interrupted, resume_at; /* resume_at: 0: never */
	unsigned interrupts;
	bool shown; /* the progress line */
	bool end;   /* it is to end now */
};

static void erase(struct run *run)
{
	if (run->shown)
		fputs("\r\033[K", stderr);
	run->shown = false;
}

static void say(struct run *run, const char *format, ...) PRINTF_LIKE(2, 3);

/* A remark in perf's manner. */
static void say(struct run *run, const char *format, ...)
{
	va_list args;

	if (run->options->quiet)
		return;
	erase(run);
	fputs("[ ptah record: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs(" ]\n", stderr);
}

static void update(struct run *run)
{
	run->status.size = sizeof(run->status);
	ptah_recorder_status(run->r, &run->status);
}

/* Progress */

/*
 * Only while the terminal is ours and shows lines: not behind a shell that has
 * moved us to the background (a write could stop us: SIGTTOU), nor across an
 * editor's screen.
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

/* Ends at the line's beginning, so that the command writes over it and not behind it. */
static void draw(struct run *run)
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

/* Signals */

static bool records_command(const struct run *run)
{
	return run->config->target == PTAH_RECORD_COMMAND;
}

/*
 * The terminal sends Ctrl-C to the command too, which may mean something by it:
 * the second one is for us. Who records something else means us at once.
 */
static void on_interrupt(struct run *run)
{
	double t = now();

	if (!got_interrupt)
		return;
	got_interrupt = 0;
	if (run->interrupts && t - run->interrupted < ONE_KEY_STROKE)
		return;
	run->interrupted = t;
	run->interrupts++;
	if (run->interrupts > 1 || !records_command(run))
		run->end = true;
}

/* Who ends us means the command. */
static void on_termination(struct run *run)
{
	const int signal = got_termination;

	if (!signal)
		return;
	got_termination = 0;
	if (run->status.pid)
		kill(run->status.pid, signal);
	if (!run->status.pid || !records_command(run))
		run->end = true;
}

static void take_snapshot(struct run *run)
{
	int status = ptah_recorder_snapshot(run->r);

	if (status >= 0 && run->options->verbose)
		say(run, "snapshot");
}

static void on_snapshot(struct run *run)
{
	if (!got_snapshot)
		return;
	got_snapshot = 0;
	if (run->config->buffer == PTAH_RECORD_SNAPSHOT)
		take_snapshot(run);
}

/* Control */

/* Returns whether it was done. A failure that ends the recording is told by poll. */
static bool set_enabled(struct run *run, bool on)
{
	int status = on ? ptah_recorder_resume(run->r) : ptah_recorder_pause(run->r);

	run->resume_at = 0;
	if (status >= 0 && run->options->verbose)
		say(run, "tracing %s", on ? "enabled" : "disabled");
	return status >= 0;
}

static bool control_snapshot(struct run *run)
{
	if (run->config->buffer != PTAH_RECORD_SNAPSHOT) {
		say(run, "--control: snapshots need --snapshot");
		return false;
	}
	take_snapshot(run);
	return ptah_recorder_problem(run->r) == PTAH_RECORD_FINE;
}

/* What is no command is told, and not acknowledged, as with perf. */
static void on_control(struct run *run)
{
	enum control_command command;

	while (!run->end && (command = control_next(run->options->control)) != CONTROL_NONE) {
		bool done = true;

		switch (command) {
		case CONTROL_ENABLE:
		case CONTROL_DISABLE:
			done = set_enabled(run, command == CONTROL_ENABLE);
			break;
		case CONTROL_SNAPSHOT:
			done = control_snapshot(run);
			break;
		case CONTROL_STOP:
			run->end = true;
			break;
		case CONTROL_EVLIST:
			erase(run);
			fputs("intel_pt\n", stderr);
			break;
		case CONTROL_PING:
			break;
		default:
			say(run, "--control: no such command; it takes enable, disable, snapshot, "
				 "stop, ping and evlist");
			done = false;
		}
		if (done)
			control_acknowledge(run->options->control);
	}
}

/* The end */

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void tell_losses(struct run *run)
{
	const struct ptah_record_losses *l = &run->status.losses;

	if (l->truncated)
		say(run,
		    "trace was lost %" PRIu64 " time%s because the buffer was full: make it larger "
		    "(-m ,SIZE) or trace less (--filter)",
		    l->truncated, plural(l->truncated));
	if (l->overwritten)
		say(run,
		    "%" PRIu64 " byte%s of trace were overwritten before they were taken: make the "
		    "buffer larger (-m ,SIZE)",
		    l->overwritten, plural(l->overwritten));
	if (l->partial)
		say(run,
		    "a virtual machine made %" PRIu64 " gap%s: this processor does not trace while "
		    "VMX is in use; stop the virtual machines",
		    l->partial, plural(l->partial));
	if (l->collisions)
		say(run,
		    "samples got in the way of the trace %" PRIu64 " time%s: end the other "
		    "recordings on this machine",
		    l->collisions, plural(l->collisions));
	if (l->lost_records)
		say(run,
		    "%" PRIu64 " record%s of maps, names and switches were lost, and the code they "
		    "told of may be missing: make their buffer larger (-m SIZE)",
		    l->lost_records, plural(l->lost_records));
	if (l->overflows)
		say(run,
		    "the processor had to leave packets out %" PRIu64
		    " time%s (OVF): ask for fewer "
		    "(no cyc, a --filter)",
		    l->overflows, plural(l->overflows));
}

static void tell_result(struct run *run)
{
	const struct ptah_record_status *s = &run->status;
	char counted[64] = "", processes[32] = "", snapshots[32] = "";

	if (s->instructions)
		snprintf(counted, sizeof(counted), "%" PRIu64 " instructions, ", s->instructions);
	if (s->processes > 1)
		snprintf(processes, sizeof(processes), " of %u processes", s->processes);
	if (s->snapshots)
		snprintf(snapshots, sizeof(snapshots), ", %u snapshot%s", s->snapshots,
			 plural(s->snapshots));
	say(run, "%.3f MB of trace, %s%u %s%s%s%s written to %s%s", (double)s->trace_bytes / 1e6,
	    counted, s->threads, run->config->target == PTAH_RECORD_CPUS ? "stream" : "thread",
	    plural(s->threads), processes, snapshots,
	    run->config->output ? run->config->output : "perf.data",
	    s->notes ? "; 'ptah report' tells what was left out" : "");
	tell_losses(run);
}

/* What to do about it, where the sentence does not say it itself. */
static void advise(enum ptah_record_problem problem, const char *sentence)
{
	static const char *const said[PTAH_RECORD_PROBLEM_MAX] = {
	    [PTAH_RECORD_NO_PROCESSOR] = "--recorder",
	    [PTAH_RECORD_NO_DRIVER] = "--recorder",
	    [PTAH_RECORD_PERMISSION] = "perf_event_paranoid",
	    [PTAH_RECORD_MLOCK] = "perf_event_mlock_kb",
	    [PTAH_RECORD_BUSY] = "end the other",
	    [PTAH_RECORD_NOT_POSSIBLE] = "--recorder",
	    [PTAH_RECORD_NO_MEMORY] = "ulimit",
	};

	if ((unsigned)problem < PTAH_RECORD_PROBLEM_MAX && said[problem] &&
	    !strstr(sentence, said[problem]))
		fprintf(stderr, "%s\n", ptah_record_advice(problem));
}

static int failed(const struct run *run, int status, enum ptah_record_problem problem,
		  const char *sentence)
{
	fail(run->options->command, "%s", *sentence ? sentence : ptah_strerror(status));
	advise(problem, sentence);
	return problem == PTAH_RECORD_BAD_OPTION ? EXIT_USAGE : EXIT_FAILED;
}

/*
 * The command that goes on when the recording has ended. One that only said how
 * long to record has nothing more to do. A third Ctrl-C leaves it alone.
 */
static void wait_for_command(struct run *run)
{
	if (!run->status.pid)
		return;
	if (!records_command(run))
		kill(run->status.pid, SIGTERM);
	else if (run->end)
		say(run, "the command goes on; Ctrl-C leaves it alone");
	run->end = false;
	while (waitpid(run->status.pid, &run->status.wait_status, WNOHANG) == 0) {
		const unsigned before = run->interrupts;

		on_interrupt(run);
		on_termination(run);
		if (before >= 2 && run->interrupts > before)
			return;
		poll(NULL, 0, POLL_MS / 5);
	}
	run->status.pid = 0;
}

/* Ends as the command did; what ran before us and goes on has no say. */
static int exit_code(const struct run *run)
{
	const int status = run->status.wait_status;

	if (run->status.pid)
		return EXIT_INTERRUPTED;
	if (status == -1 || (!records_command(run) && !WIFEXITED(status)))
		return EXIT_OK;
	if (WIFSIGNALED(status))
		return 128 + WTERMSIG(status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* The loop */

static void tell_choice(struct run *run)
{
	const char *choice = ptah_recorder_choice(run->r);
	const char *reason = strstr(choice, ": ");

	if (reason)
		say(run, "with the recorder %s", choice);
	else
		say(run, "with the recorder %s%s", choice,
		    run->options->chosen ? ", as asked for" : ", the first choice");
}

static void tell_metadata(struct run *run)
{
	struct ptah_record_metadata m = {.size = sizeof(m)};

	if (run->options->verbose && ptah_recorder_metadata(run->r, &m) >= 0 &&
	    (*m.vendor || m.rtit_ctl))
		say(run,
		    "processor %s %u/%u/%u, IA32_RTIT_CTL 0x%" PRIx64
		    ", time_shift %u, time_mult %" PRIu32 ", time_zero %" PRIu64,
		    *m.vendor ? m.vendor : "(simulated)", m.cpu.family, m.cpu.model, m.cpu.stepping,
		    m.rtit_ctl, m.time_shift, m.time_mult, m.time_zero);
}

static void on_time(struct run *run)
{
	if (run->resume_at > 0 && now() >= run->resume_at)
		set_enabled(run, true);
}

static int follow(struct run *run)
{
	int status = ptah_recorder_start(run->r);

	if (status >= 0)
		tell_metadata(run);
	run->started = now();
	if (run->options->delay_ms > 0)
		run->resume_at = run->started + (double)run->options->delay_ms / 1000;
	while (status >= 0) {
		update(run);
		draw(run);
		on_interrupt(run);
		on_termination(run);
		if (run->end)
			break;
		on_time(run);
		on_snapshot(run);
		on_control(run);
		if (run->end)
			break;
		status = ptah_recorder_poll(run->r, POLL_MS);
		if (status <= 0)
			break;
	}
	erase(run);
	return status < 0 ? status : ptah_recorder_finish(run->r);
}

int recording_run(const struct ptah_record_config *config, const struct recording_options *options)
{
	static const struct ptah_record_sink nowhere = {.take = NULL};
	struct run run = {.config = config, .options = options, .status.wait_status = -1};
	struct ptah_record_config dry = *config;
	struct ptah_message why = {""};
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	int status, code;

	dry.sink = &nowhere;
	hold_signals(config->argv != NULL);
	status = ptah_recorder_new(options->dry_run ? &dry : config, &run.r, &problem, &why);
	if (status < 0)
		return failed(&run, status, problem, why.text);
	tell_choice(&run);
	if (options->dry_run || got_interrupt || got_termination) {
		ptah_recorder_free(run.r);
		return options->dry_run ? EXIT_OK : EXIT_INTERRUPTED;
	}
	status = follow(&run);
	update(&run);
	code = status < 0
		   ? failed(&run, status, ptah_recorder_problem(run.r), ptah_recorder_why(run.r))
		   : EXIT_OK;
	if (status >= 0)
		tell_result(&run);
	/* A failure ends the recording, not the command, which must not wait for us. */
	ptah_recorder_stop(run.r);
	update(&run);
	wait_for_command(&run);
	ptah_recorder_free(run.r);
	return status < 0 ? code : exit_code(&run);
}
