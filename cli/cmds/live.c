/* SPDX-License-Identifier: MIT */
/* ptah live: decodes what runs while it is recorded, as a screen or as lines. */
#include "live_annotate.h"
#include "live_cover.h"
#include "live_hits.h"
#include "live_screen.h"
#include "live_view.h"

#include "progress.h"
#include "record_configure.h"
#include "render.h"
#include "saved_counts.h"

#include "output/pager.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_SHOWN  0.2 /* seconds: the screen does not stay empty for a whole interval */
#define LEAST	     0.01
#define FIRST_TRACE  10 /* seconds: with --for, so long a command's first trace is waited for */
#define MOST_JOBS    256
#define MOST_NOTES   10
#define SMALL_BUFFER (UINT64_C(128) << 10)
#define SMALL_QUEUE  (UINT64_C(64) << 10)

/* What is followed, and where it is shown. */
struct following {
	struct live_view view;
	struct live_options *options;
	bool starts;			 /* a command is started */
	struct live_screen *screen;	 /* NULL: lines */
	int lines;			 /* where lines go: a copy of standard output */
	int command_output;		 /* -1: not given */
	int saved[3];			 /* what standard files were; -1: they still are */
	double next;			 /* when the interval ends */
	double looked;			 /* when keys were asked for */
	double traced;			 /* when the first trace of a command came; 0: not yet */
	bool leaving;			 /* the screen, or who reads lines, has ended */
	struct ptah_record_sink between; /* called between pieces of the recording */
	bool screened;			 /* there is a screen, or will be */
	int32_t pid;			 /* of the command; 0: none */
	int write_error;		 /* errno: why lines could not be written; 0: they could */
	bool unsaved;			 /* a hit could not be saved */
	char failure[1200];		 /* why, to be said when the screen has ended */
	int wait_status;		 /* of it, -1: not known */
	struct ptah_live_file *tee;
	struct live_hits *hits; /* NULL: nothing is watched for */
	struct control control;
	struct out *save;
	char command[4096];
	char recorder[512];
};

/* Standard files of the command */

static void move(struct following *f, int fd, int target)
{
	f->saved[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (f->saved[fd] >= 0)
		dup2(target, fd);
}

/*
 * The command inherits standard files at any time: a recorder may start it again. So they are its
 * own from now on, and this process uses copies.
 */
static void redirect(struct following *f)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	const int target = f->command_output >= 0 ? f->command_output : f->screened ? null : -1;

	if (f->starts && null >= 0) {
		move(f, STDOUT_FILENO, target >= 0 ? target : STDERR_FILENO);
		if (f->command_output >= 0 || (f->screened && isatty(STDERR_FILENO)))
			move(f, STDERR_FILENO, target);
		if (f->screened && isatty(STDIN_FILENO))
			move(f, STDIN_FILENO, null);
		f->view.redirected = f->options->command_output ? f->options->command_output
				     : f->screened		? "/dev/null"
								: NULL;
	}
	if (null >= 0)
		close(null);
}

static void restore(struct following *f)
{
	for (int fd = 0; fd < 3; fd++)
		if (f->saved[fd] >= 0) {
			dup2(f->saved[fd], fd);
			close(f->saved[fd]);
			f->saved[fd] = -1;
		}
}

/* The screen */

static bool wants_screen(const struct live_options *o)
{
	const char *term = getenv("TERM");

	return o->format < 0 && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* Opens the screen on the terminal, which standard output was. */
static void open_screen(struct following *f)
{
	const int in = f->saved[STDIN_FILENO] >= 0
			   ? fcntl(f->saved[STDIN_FILENO], F_DUPFD_CLOEXEC, 3)
		       : isatty(STDIN_FILENO) ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
					      : open("/dev/tty", O_RDONLY | O_CLOEXEC);
	const int out = fcntl(f->lines, F_DUPFD_CLOEXEC, 3);
	struct out_look look;

	terminal_look(f->lines, (enum color_when)f->options->record.input.color, &look);
	f->screen = live_screen_new(&f->view, out, in, look.color);
	if (f->screen)
		return;
	/* A terminal of which nothing is known gets lines, and the command's output. */
	f->screened = false;
	restore(f);
	redirect(f);
}

static void close_screen(struct following *f)
{
	live_screen_free(f->screen);
	f->screen = NULL;
}

/* While it runs */

/* Whether somebody still reads the lines, of which one has been `written`. */
static bool is_read(struct following *f, bool written)
{
	if (!written && errno != EPIPE && errno != EINTR)
		f->write_error = errno;
	return written;
}

static void begin_following(struct following *f)
{
	f->view.started = f->looked = now();
	f->next = f->view.started + f->options->interval;
	if (f->screened)
		open_screen(f);
	if (f->screened && f->options->interval > FIRST_SHOWN)
		f->next = f->view.started + FIRST_SHOWN;
	if (!f->screened && !is_read(f, live_put_head(&f->view, f->lines)))
		f->leaving = true;
}

static void begin_recording(void *context, const struct ptah_recorder *r)
{
	struct following *f = context;
	const char *choice;

	ptah_recorder_kind(r, &choice);
	snprintf(f->recorder, sizeof(f->recorder), "%s", choice);
	f->view.recorder = f->recorder;
	redirect(f);
	begin_following(f);
}

/* The interval is over. As look(). */
static int end_interval(struct following *f)
{
	int status = live_measure(&f->view, false);

	if (status < 0)
		return status;
	f->next += f->options->interval;
	if (f->next < now())
		f->next = now() + f->options->interval;
	if (f->screen)
		live_screen_show(f->screen);
	return f->screen || is_read(f, live_put_line(&f->view, f->lines));
}

/* Says why a hit could not be saved. While the screen is shown there is no place for it. */
static void report_unsaved(struct following *f, const struct live_hit_line *line)
{
	f->unsaved = true;
	if (f->screen)
		snprintf(f->failure, sizeof(f->failure), "%s", line->failure);
	else
		fail(&command_live, "%s", line->failure);
}

/* Reports hits. As look(). */
static int show_hits(struct following *f, bool final)
{
	struct live_hit_line *line = &f->view.hit;
	int status = f->hits ? live_hits_look(f->hits, final) : 1;
	bool read = true;

	while (f->hits && read && live_hits_next(f->hits, line)) {
		f->view.hits = line->number;
		if (*line->failure)
			report_unsaved(f, line);
		read = f->screen || is_read(f, live_put_hit(&f->view, f->lines));
	}
	return status < 0 ? status : status && read;
}

/*
 * Whether the time of --for is over. That of a command begins when there is trace of it: on a busy
 * machine, an emulator may take longer to start than what is to be recorded lasts.
 */
static bool is_over(const struct following *f)
{
	const double wait = f->starts && !f->traced ? FIRST_TRACE : 0;
	const double began = f->traced > 0 ? f->traced : f->view.started;

	return f->options->length && f->looked - began - wait >= f->options->length;
}

/* Keys and intervals. 1; 0: it is to end; or an error. */
static int show_live(struct following *f)
{
	int status = show_hits(f, false), problem = 0;

	f->looked = now();
	if (status <= 0)
		f->leaving = true;
	if (f->screen && !live_screen_keys(f->screen))
		f->leaving = true;
	if (!f->leaving && f->looked >= f->next)
		status = end_interval(f);
	if (status >= 0)
		problem = live_cover_look(f->view.cover, false);
	status = problem < 0 ? problem : status;
	f->leaving |= !status || is_over(f) || live_cover_is_stable(f->view.cover);
	return status < 0 ? status : !f->leaving;
}

static int look(struct following *f)
{
	const int status = ptah_live_poll(f->view.live);

	return status < 0 ? status : show_live(f);
}

/*
 * The sink that gets each piece first. While trace comes faster than it is decoded, the live
 * session's sink waits, and the recorder does not return for a long time.
 */
static int take_piece(void *context, const struct ptah_record_piece *piece)
{
	struct following *f = context;
	const struct ptah_record_sink *tee = f->tee ? ptah_live_file_sink(f->tee) : NULL;
	int status = tee ? tee->take(tee->context, piece) : 0;

	if (f->starts && !f->traced && piece->kind == PTAH_RECORD_PIECE_TRACE)
		f->traced = now();
	if (status >= 0 && f->hits)
		status = live_hits_take(f->hits, piece);
	live_cover_take_piece(f->view.cover, piece);
	if (status >= 0 && f->view.started > 0 && !f->leaving && now() - f->looked > LEAST)
		status = show_live(f);
	return status < 0 ? status : 0;
}

static int take_end(void *context, int32_t pid, int wait_status)
{
	const struct following *f = context;

	if (f->hits)
		live_hits_ended(f->hits, pid, wait_status);
	live_cover_take_end(f->view.cover, pid, wait_status);
	return 0;
}

/* Somebody asks for what is kept. False: nothing is. */
static bool take_request(void *context, const char *why)
{
	const struct following *f = context;

	if (f->hits)
		live_hits_ask(f->hits, why);
	return f->hits != NULL;
}

static int look_at_recording(void *context, const struct ptah_recorder *r,
			     const struct ptah_record_status *status)
{
	struct following *f = context;

	(void)r;
	if (status->pid)
		f->pid = status->pid;
	return look(f);
}

static const char *why(void *context)
{
	const struct following *f = context;

	return ptah_live_why(f->view.live);
}

/* The end */

static void put_live_notes(const struct following *f)
{
	const char *note;
	size_t n = 0;

	if (f->options->record.quiet)
		return;
	for (; (note = ptah_session_note(ptah_live_session(f->view.live), n)); n++)
		if (n < MOST_NOTES)
			print_clean("note: ", "%s", note);
	if (n > MOST_NOTES)
		fprintf(stderr, "note: and %zu more\n", n - MOST_NOTES);
}

/* Saves the counts. Returns an exit code. */
static int save_counts(struct following *f)
{
	struct ptah_counts *counts = NULL;
	struct out *save = f->save;
	int status, code;

	f->save = NULL;
	if (!save)
		return EXIT_OK;
	status = live_counts(&f->view, &counts);
	if (status < 0)
		out_abort(save);
	code = status < 0 ? fail(&command_live, "%s", ptah_strerror(status))
			  : counts_write(&command_live, counts, save, true);
	ptah_counts_free(counts);
	return code;
}

/* Completes the recording that is written beside. Returns an exit code. */
static int end_tee(struct following *f)
{
	struct ptah_live_file *tee = f->tee;
	const int status = tee ? ptah_live_file_finish(tee) : 0;

	ptah_live_file_free(tee);
	f->tee = NULL;
	return status < 0 ? fail(&command_live, "%s: not everything could be written",
				 f->options->record.output)
			  : EXIT_OK;
}

/* Whether what was to be written could be, but for files. Returns an exit code. */
static int end_lines(const struct following *f)
{
	if (f->write_error)
		return fail(&command_live, "standard output: cannot write: %s",
			    strerror(f->write_error));
	if (*f->failure)
		fail(&command_live, "%s", f->failure);
	return f->unsaved ? EXIT_FAILED : EXIT_OK;
}

/* Decodes the rest and prints the result. `status`: whether all came. Returns an exit code. */
static int end_following(struct following *f, int status)
{
	struct ptah_live *live = f->view.live;
	int code, saved, covered, written, problem;

	f->leaving = true;
	close_screen(f);
	restore(f);
	problem = ptah_live_finish(live);
	code = end_tee(f);
	if (problem >= 0)
		problem = live_measure(&f->view, true);
	if (problem >= 0)
		problem = show_hits(f, true);
	if (problem >= 0 && !f->write_error)
		is_read(f, live_put_summary(&f->view, f->lines));
	put_live_notes(f);
	if (f->hits && !f->options->record.quiet && problem >= 0 && status >= 0)
		live_hits_note_absent(f->hits, &f->view.measure);
	if (f->hits && live_hits_unsaved(f->hits))
		fprintf(stderr,
			"note: %" PRIu64 " more hits were not saved; --hits says how many are "
			"wanted\n",
			live_hits_unsaved(f->hits));
	written = end_lines(f);
	if (status < 0)
		return EXIT_FAILED;
	if (problem < 0)
		return fail(&command_live, "%s",
			    *ptah_live_why(live) ? ptah_live_why(live) : ptah_strerror(problem));
	saved = save_counts(f);
	covered = live_cover_end(f->view.cover, f->pid, f->wait_status);
	return code ? code : saved ? saved : covered ? covered : written;
}

static int end_recording(void *context, const struct ptah_record_status *result, int status)
{
	struct following *f = context;

	f->wait_status = result->wait_status;
	return end_following(f, status);
}

/* Recording */

static void describe_command(struct following *f, const struct ptah_record_config *config)
{
	const struct target_options *t = &f->options->record.target;
	const struct option {
		const char *name, *value;
	} targets[] = {{"-p ", t->pids}, {"-t ", t->tids}};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++)
		if (targets[i].value && n < sizeof(f->command))
			n += (size_t)snprintf(f->command + n, sizeof(f->command) - n, "%s%s ",
					      targets[i].name, targets[i].value);
	for (char *const *argument = config->target.argv; argument && *argument; argument++)
		if (n < sizeof(f->command))
			n += (size_t)snprintf(f->command + n, sizeof(f->command) - n, "%s%s",
					      *argument, argument[1] ? " " : "");
	f->view.command = f->command;
}

/*
 * Where trace comes faster than it is decoded, the buffers are always full, and what is in them is
 * behind. Without hardware the program waits, and nothing is lost with small ones. And calls that
 * are watched for their time need times in the trace, of which a simulated processor has none but
 * those of PSBs.
 */
static void choose_for_simulated(const struct following *f, struct ptah_record_config *config)
{
	const struct record_options *o = &f->options->record;
	const struct ptah_record_sink nowhere = {.take = NULL};
	struct ptah_record_config dry = *config;
	struct ptah_recorder *r;
	enum ptah_recorder_kind kind;

	dry.output.sink = &nowhere;
	if (ptah_recorder_new(&dry, &r, NULL, NULL) < 0)
		return;
	kind = ptah_recorder_kind(r, NULL);
	ptah_recorder_free(r);
	if (kind != PTAH_RECORDER_QEMU && kind != PTAH_RECORDER_PTRACE &&
	    kind != PTAH_RECORDER_NATIVE)
		return;
	if (!o->buffer)
		config->buffer.size = SMALL_BUFFER;
	if (!o->events.count && kind != PTAH_RECORDER_NATIVE && live_hits_need_times(f->hits))
		config->trace.mtc = config->trace.cyc = true;
}

static int follow_recording(struct following *f, char **argv)
{
	struct ptah_record_config config = {.size = sizeof(config)};
	struct filters filters = {.count = 0};
	struct triggers triggers = {.count = 0};
	struct record_options *o = &f->options->record;
	const struct recording_watch watch = {
	    f, begin_recording, look_at_recording, end_recording, why, take_request};
	struct recording_options recording = {.command = &command_live,
					      .quiet = o->quiet,
					      .no_progress = true,
					      .chosen = o->recorder || o->qemu || o->plugin,
					      .control = &f->control,
					      .watch = &watch};
	int status = record_configure(o, argv, &config, &filters, &triggers, &recording.delay_ms);

	if (status == EXIT_OK) {
		/* Unless whatever runs is recorded: the lag is smaller with a buffer for each. */
		config.target.per_thread = !o->target.all_cpus && !o->target.cpus && !o->vm;
		choose_for_simulated(f, &config);
		config.output.path = NULL;
		config.output.sink = ptah_live_sink(f->view.live);
		f->starts = config.target.argv != NULL;
		/* A program without a slash is searched by the recorder. */
		if (f->hits && f->starts && !o->vm && !o->quiet &&
		    strchr(config.target.argv[0], '/'))
			live_hits_note_unknown(f->hits, config.target.argv[0]);
		describe_command(f, &config);
		status = recording_run(&config, &recording);
	}
	target_free(&config);
	filters_free(&filters);
	triggers_free(&triggers);
	return status;
}

/* Reading */

/* Returns an exit code. */
static int open_input(const char *path, int *fd)
{
	if (!strcmp(path, "-") && isatty(STDIN_FILENO))
		return fail_usage(&command_live,
				  "-i -: standard input is a terminal; pipe a recording "
				  "into it: perf record -o - ... | ptah live -i -");
	*fd = strcmp(path, "-") != 0 ? open(path, O_RDONLY | O_CLOEXEC)
				     : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	return *fd < 0 ? fail(&command_live, "%s: %s", path, strerror(errno)) : EXIT_OK;
}

/* How the answer of ptah_live_feed_fd() is explained. */
static int input_failed(const struct following *f, int status)
{
	const char *path = f->options->record.input.path;
	const char *sentence = ptah_live_why(f->view.live);

	fail(&command_live, "%s: %s", path, *sentence ? sentence : ptah_strerror(status));
	if (strstr(sentence, "complete"))
		fprintf(stderr, "Recordings that are complete are read by 'ptah report' and other "
				"commands.\n");
	return EXIT_FAILED;
}

/* SIGUSR2 has come; while a command is recorded, recording_run() sees to that. */
static volatile sig_atomic_t got_request;

static void on_request(int signal)
{
	(void)signal;
	got_request = 1;
}

/* What --control and SIGUSR2 ask for while a pipe is read. False: it is to end. */
static bool obey(struct following *f)
{
	enum control_command command;

	if (got_request && !take_request(f, "SIGUSR2"))
		print_clean("", "SIGUSR2: nothing is kept; see --keep");
	got_request = 0;
	while ((command = control_next(&f->control)) != CONTROL_NONE) {
		if (command == CONTROL_HIT || command == CONTROL_SNAPSHOT)
			take_request(f, f->control.line);
		else if (command != CONTROL_PING && command != CONTROL_STOP)
			continue;
		control_acknowledge(&f->control);
		if (command == CONTROL_STOP)
			return false;
	}
	return true;
}

static int follow_input(struct following *f)
{
	const char *path = f->options->record.input.path;
	struct ptah_live_status s = {.size = sizeof(s)};
	int status = 1, seen = 1, fd = -1, code = open_input(path, &fd);

	if (code)
		return code;
	sigaction(SIGUSR2, &(struct sigaction){.sa_handler = on_request}, NULL);
	snprintf(f->command, sizeof(f->command), "-i %s", path);
	f->view.command = f->command;
	f->view.recorder = path;
	begin_following(f);
	while (status > 0 && seen > 0 && !interrupted() && obey(f)) {
		status = ptah_live_feed_fd(f->view.live, fd, 10);
		if (status > 0)
			seen = look(f);
	}
	close(fd);
	if (status < 0 || seen < 0) {
		close_screen(f);
		return input_failed(f, status < 0 ? status : seen);
	}
	code = end_following(f, 0);
	ptah_live_status(f->view.live, &s);
	if (code)
		return code;
	if (interrupted())
		return interrupted_status();
	return s.errors ? fail_errors(&command_live, s.errors) : EXIT_OK;
}

/* Options */

static int check_times(struct live_options *o)
{
	o->interval = 1;
	if (o->every && (!live_parse_time(o->every, &o->interval) || o->interval < LEAST))
		return fail_usage(&command_live,
				  "--every=%s: it is a time of at least 10ms: seconds, or a number "
				  "with ms, s, m or h",
				  o->every);
	if (o->duration && (!live_parse_time(o->duration, &o->length) || o->length <= 0))
		return fail_usage(&command_live,
				  "--for=%s: it is a time: seconds, or a number with ms, s, m or h",
				  o->duration);
	return EXIT_OK;
}

static int check_live_options(struct live_options *o, char **argv)
{
	const struct target_options *t = &o->record.target;

	if (o->record.input.path && (argv[0] || t->pids || t->tids || t->cpus || t->all_cpus))
		return fail_usage(&command_live,
				  "-i reads a recording that somebody else makes: it "
				  "goes with no command, nor with -p, -t, -a or -C");

	if (o->record.input.path && o->record.output)
		return fail_usage(&command_live,
				  "-o and -i: what is read is written already; tee(1) "
				  "makes a copy of a pipe");
	if (o->record.output && !strcmp(o->record.output, "-"))
		return fail_usage(&command_live,
				  "-o -: standard output has the lines; name a file");
	if (o->record.input.jobs > MOST_JOBS)
		return fail_usage(&command_live, "--jobs: at most %d", MOST_JOBS);
	return check_times(o) ? EXIT_USAGE : live_cover_check(o);
}

/* The trace of one processor may have to wait for that of others, which needs room. */
static bool may_be_of_processors(const struct live_options *o)
{
	return o->record.input.path || o->record.target.all_cpus || o->record.target.cpus;
}

/* Callbacks of the live session */

static int take_counts(void *context, const struct ptah_live_thread *thread,
		       struct ptah_profile *profile)
{
	const struct following *f = context;

	return live_cover_take_counts(f->view.cover, thread, profile);
}

static int take_hit(void *context, const struct ptah_live_hit *hit)
{
	const struct following *f = context;

	return live_hits_take_hit(f->hits, hit);
}

static int open_live(struct following *f)
{
	const struct live_options *o = f->options;
	const struct input *input = &o->record.input;
	char cache[4096];
	struct ptah_live_config config = {
	    .size = sizeof(config),
	    .what =
		PTAH_LIVE_CALLS | (o->save || f->screened || f->view.cover ? PTAH_LIVE_COUNTS : 0),
	    .session = {.size = sizeof(config.session),
			.symfs = input->symfs,
			.vmlinux = input->vmlinux,
			.kallsyms = input->kallsyms,
			.build_id_cache = input_build_id_cache(input, cache, sizeof(cache)),
			.fetch = input_may_fetch(input),
			.fetch_progress = input_show_fetch,
			.fetch_context = (void *)(uintptr_t)input},
	    .jobs = input_jobs(input, 0),
	    .policy = o->drop ? PTAH_LIVE_DROP : PTAH_LIVE_WAIT,
	    .queue = o->queue || o->drop || may_be_of_processors(o) ? o->queue : SMALL_QUEUE,
	    .tee = &f->between,
	    /* Counts that are saved must be kept. */
	    .on_counts = f->view.cover && !o->save ? take_counts : NULL,
	    .on_hit = f->hits ? take_hit : NULL,
	    .context = f,
	};
	int status;

	f->between = (struct ptah_record_sink){.take = take_piece, .ended = take_end, .context = f};
	if (f->hits)
		live_hits_configure(f->hits, &config);
	status = ptah_live_new(&config, &f->view.live);
	if (status >= 0 && f->hits)
		live_hits_begin(f->hits, f->view.live);

	if (status >= 0)
		status = input_names(input, NULL, &f->view.names);
	return status < 0 ? fail(&command_live, "%s", ptah_strerror(status))
			  : live_cover_begin(f->view.cover, f->view.live);
}

/* Opens what is written. Returns an exit code. */
static int open_files(struct following *f)
{
	const struct live_options *o = f->options;
	struct ptah_message why = {""};
	int status;

	f->lines = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (f->lines < 0)
		return fail(&command_live, "%s", strerror(errno));
	if (o->command_output) {
		f->command_output =
		    open(o->command_output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (f->command_output < 0)
			return fail(&command_live, "%s: %s", o->command_output, strerror(errno));
	}
	if (o->record.output && ptah_live_file_new(o->record.output, &f->tee, &why) < 0)
		return fail(&command_live, "%s", why.text);
	status = o->save ? output_create(&command_live, o->save, &f->save) : EXIT_OK;
	return status ? status : live_cover_new(o, &f->view.cover);
}

static void close_files(struct following *f)
{
	if (f->save)
		out_abort(f->save);
	ptah_live_file_free(f->tee);
	if (f->lines >= 0)
		close(f->lines);
	if (f->command_output >= 0)
		close(f->command_output);
}

static int run_live(int argc, char **argv)
{
	struct live_options o = {.record = {.command = &command_live, .clock = PTAH_CLOCK_HOST},
				 .format = -1,
				 .limit = LIVE_NO_LIMIT,
				 .cover_format = -1};
	struct following f = {.options = &o,
			      .view = {.options = &o},
			      .saved = {-1, -1, -1},
			      .lines = -1,
			      .control = {.commands = -1, .acks = -1},
			      .wait_status = -1,
			      .command_output = -1};
	int status, first = options_parse(&command_live, argc, argv, &o, &status);

	if (first < 0)
		return status;
	f.screened = wants_screen(&o);
	f.view.sort = (enum live_sort)o.sort;
	status = check_live_options(&o, argv + first);
	if (status == EXIT_OK)
		status = live_hits_new(&o, &f.hits);
	if (status == EXIT_OK)
		status = control_open(&command_live, o.record.control, &f.control);
	if (o.record.input.path)
		input_watch_signals();
	else
		recording_hold_signals(argv[first] != NULL);
	if (status == EXIT_OK)
		status = open_files(&f);
	if (status == EXIT_OK)
		status = open_live(&f);
	if (status == EXIT_OK)
		status =
		    o.record.input.path ? follow_input(&f) : follow_recording(&f, argv + first);
	live_measure_free(&f.view);
	live_cover_free(f.view.cover);
	names_free(f.view.names);
	ptah_live_free(f.view.live);
	live_hits_free(f.hits);
	control_close(&f.control);
	close_files(&f);
	return status;
}

const struct command command_live = {
    .name = "live",
    .usage = "[OPTIONS] [--] [COMMAND [ARGUMENTS]]",
    .summary = "watch functions and their calls while the program runs",
    .details =
	"Records COMMAND, or what runs already (-p, -t, -a), as ptah record does, and decodes it\n"
	"meanwhile: on a terminal a screen like that of top, of functions by instructions of the\n"
	"last second, with their calls; otherwise, or with --format, a line for each second.\n"
	"-i reads a recording that comes through a pipe. Nothing is written without -o. ptah\n"
	"ends with COMMAND's exit status, as with ptah record.",
    .options =
	(const struct option_def *const[]){live_options, live_cover_options, record_event_options,
					   record_machine_options, record_target_options,
					   live_input_options, names_options,
					   record_simulated_options, help_options, NULL},
    .operand = COMPLETE_COMMAND,
    .run = run_live,
};
