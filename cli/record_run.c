/* SPDX-License-Identifier: MIT */
/* Runs a recording: starts and polls the recorder, handles signals and --control, and ends it. */
#include "record_report.h"

#include "interrupt.h"
#include "progress.h"
#include "support/monotonic.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS	       50
#define WATCH_MS       10  /* with a watch, whose lag is at least that of a poll */
#define ONE_KEY_STROKE 0.2 /* seconds: one Ctrl-C may arrive as two signals */

/* Signals that have arrived and are not handled yet: the handlers only note them. */
static volatile sig_atomic_t got_interrupt, got_termination, got_snapshot;

/* How often Ctrl-C was pressed, and when it was last. */
static volatile sig_atomic_t key_strokes;
static int64_t last_stroke;

/* What runs now: who presses Ctrl-C twice does not want to wait for programs. */
static struct ptah_recorder *_Atomic hurried;

/* Values of got_interrupt. */
enum {
	INTERRUPT_TYPED = 1, /* Ctrl-C: the terminal has sent it to the command as well */
	INTERRUPT_SENT,	     /* by a process, to this one: kill -INT */
};

/* Whether SIGINT was to be ignored, as shells want it of what they start in the background. */
static bool interrupts_ignored;

/* The time counts at which it came: this process may be busy when the next one does. */
static void note_interrupt(const siginfo_t *info)
{
	const int64_t t = monotonic_ns();

	if (!key_strokes || (double)(t - last_stroke) / 1e9 >= ONE_KEY_STROKE) {
		last_stroke = t;
		key_strokes = key_strokes + 1;
		if (key_strokes > 1)
			ptah_recorder_hurry(hurried);
	}
	if (got_interrupt != INTERRUPT_SENT)
		got_interrupt = info->si_code > 0 ? INTERRUPT_TYPED : INTERRUPT_SENT;
	if (got_interrupt == INTERRUPT_SENT || key_strokes > 1)
		begin_ending(SIGINT);
}

static void note_signal(int signal, siginfo_t *info, void *context)
{
	(void)context;
	if (signal == SIGINT)
		note_interrupt(info);
	else if (signal == SIGTERM || signal == SIGHUP)
		begin_ending(got_termination = signal);
	else if (signal == SIGUSR2)
		got_snapshot = 1;
}

/* In the command, which gets SIGINT as this process got it. */
static void ignore_interrupts(void)
{
	signal(SIGINT, SIG_IGN);
}

/*
 * Installs handlers. Signals are never set to be ignored, because the command would inherit that.
 * SIGXFSZ is the limit of a file's size (ulimit -f), of which the writer hears by its error.
 */
void recording_hold_signals(bool command)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGPIPE, SIGXFSZ, SIGQUIT};
	struct sigaction old, note = {.sa_sigaction = note_signal, .sa_flags = SA_SIGINFO};

	if (!sigaction(SIGINT, NULL, &old) && old.sa_handler == SIG_IGN)
		interrupts_ignored = !pthread_atfork(NULL, NULL, ignore_interrupts);
	watch_timer();
	/* Ctrl-\ is meant for the command. Without a command it ends this process, as usual. */
	for (size_t i = 0; i < ARRAY_SIZE(signals) - (command ? 0 : 1); i++)
		if (!sigaction(signals[i], NULL, &old) &&
		    (old.sa_handler != SIG_IGN || (signals[i] == SIGINT && interrupts_ignored)))
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
 * The terminal sends Ctrl-C also to the command, which may handle it; so the first
 * one is left to the command, and the second one ends the recording. When no
 * command is recorded, the first one ends the recording. So does one that was sent
 * to this process alone, or that the command ignores; then the command is ended
 * too, as by perf.
 */
static void on_interrupt(struct run *run)
{
	const bool sent = got_interrupt == INTERRUPT_SENT || interrupts_ignored;

	if (!got_interrupt)
		return;
	got_interrupt = 0;
	if (run->interrupts == key_strokes)
		return;
	run->interrupts = key_strokes;
	run->end_command = run->end_command || (sent && !run->end);
	if (run->interrupts > 1 || sent || !records_command(run))
		run->end = true;
}

/* A signal that would end this process is passed on to the command. */
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

static void take_record_snapshot(struct run *run)
{
	int status = ptah_recorder_snapshot(run->r);

	if (status >= 0 && run->options->verbose)
		record_remark(run, "snapshot");
}

/* Asks the watch to keep what happened last. */
static bool keep_moment(struct run *run, const char *why)
{
	const struct recording_watch *w = run->options->watch;
	const bool kept = w->request && w->request(w->context, why);

	if (!kept)
		record_remark(run, "%s: nothing is kept; see --keep", why);
	return kept;
}

static void on_snapshot(struct run *run)
{
	if (!got_snapshot)
		return;
	got_snapshot = 0;
	if (run->options->watch)
		keep_moment(run, "SIGUSR2");
	else if (run->config->buffer.policy == PTAH_RECORD_SNAPSHOT)
		take_record_snapshot(run);
}

/* Control */

/* Returns whether it was done. If it failed, ptah_recorder_poll() reports why and the recording
 * ends. */
static bool set_enabled(struct run *run, bool on)
{
	int status = ptah_recorder_pause(run->r, !on);

	run->resume_at = 0;
	if (status >= 0 && run->options->verbose)
		record_remark(run, "tracing %s", on ? "enabled" : "disabled");
	return status >= 0;
}

static bool control_snapshot(struct run *run)
{
	if (run->options->watch)
		return keep_moment(run, run->options->control->line);
	if (run->config->buffer.policy != PTAH_RECORD_SNAPSHOT) {
		record_remark(run, "--control: snapshots need --snapshot");
		return false;
	}
	take_record_snapshot(run);
	return !*ptah_recorder_why(run->r, NULL);
}

/* An unknown command is reported and not acknowledged, as in perf. */
static void on_control(struct run *run)
{
	enum control_command command;

	while (run->options->control && !run->end &&
	       (command = control_next(run->options->control)) != CONTROL_NONE) {
		bool done = true;

		switch (command) {
		case CONTROL_ENABLE:
		case CONTROL_DISABLE:
			done = set_enabled(run, command == CONTROL_ENABLE);
			break;
		case CONTROL_SNAPSHOT:
		case CONTROL_HIT:
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
			record_remark(
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
 * Waits for a command that is still running when the recording has ended. A command that only
 * determined how long to record is terminated, and so is one whose recorder is sent a SIGINT. From
 * the second Ctrl-C on, each one ends the waiting and leaves the command running.
 */
static void wait_for_command(struct run *run)
{
	const int before = run->interrupts;
	bool ended = !records_command(run) || run->end_command;

	if (!run->status.pid)
		return;
	if (ended)
		kill(run->status.pid, SIGTERM);
	else if (run->end || run->status.full)
		record_remark(run, "the command goes on; Ctrl-C%s leaves it alone",
			      before ? "" : " twice");
	run->end = false;
	while (waitpid(run->status.pid, &run->status.wait_status, WNOHANG) == 0) {
		on_interrupt(run);
		on_termination(run);
		if (run->interrupts > 1 && run->interrupts > before)
			return;
		if (run->end_command && !ended)
			ended = !kill(run->status.pid, SIGTERM);
		ptah_recorder_poll(run->r, 0);
		poll(NULL, 0, POLL_MS / 5);
	}
	run->status.pid = 0;
}

/* The exit code of the recorded command. Without one, or if it is still running, our own. */
static int exit_code(const struct run *run)
{
	const int status = run->status.wait_status;

	if (run->status.pid)
		return EXIT_INTERRUPTED;
	if (run->unwatched && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
		return EXIT_OK;
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

/* Whether what a flight recorder has is to be kept. */
static bool is_kept(struct run *run)
{
	const int status = run->status.wait_status;

	if (run->options->keep == RECORD_KEEP || run->status.crashes || run->status.snapshots)
		return true;
	return run->options->keep == RECORD_KEEP_FAILURES && !run->status.pid && status != -1 &&
	       (WIFSIGNALED(status) || WEXITSTATUS(status));
}

/* The recording has ended as it should. */
static int complete(struct run *run)
{
	int status = ptah_recorder_stop(run->r);

	update(run);
	run->kept = status < 0 || is_kept(run);
	return run->kept ? ptah_recorder_finish(run->r) : status;
}

/* Lets the watch look. As ptah_recorder_poll(). */
static int watch(struct run *run)
{
	const struct recording_watch *w = run->options->watch;
	int status;

	update(run);
	status = w->look(w->context, run->r, &run->status);
	if (status)
		return status;
	run->end_command = run->end = true;
	run->unwatched = !consumer_given_up(); /* otherwise a signal has ended it */
	return 0;
}

static int follow(struct run *run)
{
	int status = ptah_recorder_start(run->r);

	if (status >= 0)
		record_print_metadata(run);
	run->started = now();
	if (run->options->delay_ms > 0)
		run->resume_at = run->started + (double)run->options->delay_ms / 1000;
	while (status >= 0) {
		update(run);
		record_draw(run);
		if (!run->options->watch)
			record_watch_space(run);
		on_interrupt(run);
		on_termination(run);
		if (run->end)
			break;
		on_time(run);
		on_snapshot(run);
		on_control(run);
		if (run->end)
			break;
		status = ptah_recorder_poll(run->r, run->options->watch ? WATCH_MS : POLL_MS);
		if (status > 0 && run->options->watch)
			status = watch(run);
		if (status <= 0)
			break;
	}
	record_erase(run);
	if (status >= 0)
		return complete(run);
	ptah_recorder_finish(run->r); /* keeps what there is */
	return status;
}

/* Prints the result, or why there is none. Returns an exit code. */
static int end_recording_run(struct run *run, int status)
{
	const struct recording_watch *w = run->options->watch;
	const int seen = w ? w->end(w->context, &run->status, status) : EXIT_OK;
	const char *why = w ? w->why(w->context) : "";
	enum ptah_record_problem problem;
	const char *sentence;
	int code;

	if (status >= 0 && !w && run->kept)
		record_print_result(run);
	else if (status >= 0 && !w)
		record_remark(run, "nothing went wrong, and nothing is kept");
	else if (status >= 0)
		record_print_losses(run);
	if (status >= 0)
		return seen;
	sentence = ptah_recorder_why(run->r, &problem);
	code = *why ? fail(run->options->command, "%s", why)
		    : record_failed(run, status, problem, sentence);
	if (!w)
		record_print_kept(run);
	return code;
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
	recording_hold_signals(config->target.argv != NULL);
	status = ptah_recorder_new(options->dry_run ? &dry : config, &run.r, &problem, &why);
	if (status < 0)
		return record_failed(&run, status, problem, why.text);
	record_print_choice(&run);
	hurried = run.r;
	if (options->dry_run || got_interrupt || got_termination) {
		hurried = NULL;
		ptah_recorder_free(run.r);
		return options->dry_run ? EXIT_OK : EXIT_INTERRUPTED;
	}
	if (options->watch)
		options->watch->begin(options->watch->context, run.r);
	status = follow(&run);
	update(&run);
	code = end_recording_run(&run, status);
	/* A failure ends the recording but not the command, which must not wait for its tracer. */
	ptah_recorder_stop(run.r);
	update(&run);
	wait_for_command(&run);
	hurried = NULL;
	ptah_recorder_free(run.r);
	if (status >= 0 && run.end_command && !run.unwatched && records_command(&run))
		return EXIT_INTERRUPTED;
	return status < 0 || code ? code : exit_code(&run);
}
