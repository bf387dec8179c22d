/* SPDX-License-Identifier: MIT */
/* Runs a recording: signals, control, the end. */
#include "record_report.h"

#include "progress.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_MS	       50
#define ONE_KEY_STROKE 0.2 /* seconds: signals of one Ctrl-C, which may come twice */

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

static void update(struct run *run)
{
	run->status.size = sizeof(run->status);
	ptah_recorder_status(run->r, &run->status);
}

/* Signals */

static bool records_command(const struct run *run)
{
	return run->config->target.kind == PTAH_RECORD_COMMAND;
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
		record_say(run, "snapshot");
}

static void on_snapshot(struct run *run)
{
	if (!got_snapshot)
		return;
	got_snapshot = 0;
	if (run->config->buffer.policy == PTAH_RECORD_SNAPSHOT)
		take_snapshot(run);
}

/* Control */

/* Returns whether it was done. A failure that ends the recording is told by poll. */
static bool set_enabled(struct run *run, bool on)
{
	int status = on ? ptah_recorder_resume(run->r) : ptah_recorder_pause(run->r);

	run->resume_at = 0;
	if (status >= 0 && run->options->verbose)
		record_say(run, "tracing %s", on ? "enabled" : "disabled");
	return status >= 0;
}

static bool control_snapshot(struct run *run)
{
	if (run->config->buffer.policy != PTAH_RECORD_SNAPSHOT) {
		record_say(run, "--control: snapshots need --snapshot");
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
			record_erase(run);
			fputs("intel_pt\n", stderr);
			break;
		case CONTROL_PING:
			break;
		default:
			record_say(
			    run, "--control: no such command; it takes enable, disable, snapshot, "
				 "stop, ping and evlist");
			done = false;
		}
		if (done)
			control_acknowledge(run->options->control);
	}
}

/* The end */

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
		record_say(run, "the command goes on; Ctrl-C leaves it alone");
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

static void on_time(struct run *run)
{
	if (run->resume_at > 0 && now() >= run->resume_at)
		set_enabled(run, true);
}

static int follow(struct run *run)
{
	int status = ptah_recorder_start(run->r);

	if (status >= 0)
		record_tell_metadata(run);
	run->started = now();
	if (run->options->delay_ms > 0)
		run->resume_at = run->started + (double)run->options->delay_ms / 1000;
	while (status >= 0) {
		update(run);
		record_draw(run);
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
	record_erase(run);
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

	dry.output.sink = &nowhere;
	hold_signals(config->target.argv != NULL);
	status = ptah_recorder_new(options->dry_run ? &dry : config, &run.r, &problem, &why);
	if (status < 0)
		return record_failed(&run, status, problem, why.text);
	record_tell_choice(&run);
	if (options->dry_run || got_interrupt || got_termination) {
		ptah_recorder_free(run.r);
		return options->dry_run ? EXIT_OK : EXIT_INTERRUPTED;
	}
	status = follow(&run);
	update(&run);
	code = status < 0 ? record_failed(&run, status, ptah_recorder_problem(run.r),
					  ptah_recorder_why(run.r))
			  : EXIT_OK;
	if (status >= 0)
		record_tell_result(&run);
	/* A failure ends the recording, not the command, which must not wait for us. */
	ptah_recorder_stop(run.r);
	update(&run);
	wait_for_command(&run);
	ptah_recorder_free(run.r);
	return status < 0 ? code : exit_code(&run);
}
