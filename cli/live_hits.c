/* SPDX-License-Identifier: MIT */
/*
 * Watches of `ptah live`: on a hit, the end of what was recorded is saved, and a command is run.
 * Hits come from the threads that decode; everything else is done by the thread that records.
 */
#include "live_hits.h"
#include "support/list.h"
#include "support/monotonic.h"

#include <ptah/session.h>
#include <ptah/symbol.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* Of trace, in all, and of what describes it. */
#define MEMORY (UINT64_C(256) << 20)

#define USUAL_KEEP (UINT64_C(50) * 1000000)
#define USUAL_FILE "hit-%n.data"

/*
 * Between two stamps nothing is told before the second one (ptah_session_times().estimated): so long
 * ago may be what a hit that comes next is of.
 */
#define HELD UINT64_C(50000000)
/* More than what is asked for is kept, because the end of a process is known some rounds later. */
#define SLACK (UINT64_C(200) * 1000000)

/* Rounds of the recorder after which the trace before an event has come. */
#define ROUNDS 3

/*
 * An event is waited for at most so long: of a process that has ended, until its trace is there and
 * decoded, however many threads it had; and of what somebody asks for, until what ran is decoded.
 */
#define WAIT_END (UINT64_C(10) * SECOND)
#define WAIT_ASK SECOND

/* Without --hits no more are saved: a function that is called a million times a second would fill
 * the disk. */
#define MOST_SAVED 100

/* What one hit waits for: the end of a process, or somebody asked. */
struct pending {
	size_t watch; /* WATCH_NONE: somebody asked */
	int32_t pid;
	int wait_status;
	uint64_t rounds; /* its trace has come when so many have ended; 0: not known yet */
	/* Of CLOCK_MONOTONIC: nothing of before `asked` is forgotten until it is saved, which is
	 * when what had come at `came` (0: not all has come) is decoded, or at `end`. */
	uint64_t asked, came, end;
	char why[300];
};

#define WATCH_NONE SIZE_MAX

struct live_hits {
	struct ptah_watch watches[PTAH_LIVE_WATCHES];
	const char *texts[PTAH_LIVE_WATCHES];
	bool have_hit[PTAH_LIVE_WATCHES]; /* calls of their functions */
	size_t count;
	uint64_t keep_ns; /* 0: --keep gives bytes */
	uint64_t keep_bytes;
	const char *file, *commands[TEXT_LIST]; /* file: NULL: nothing is saved */
	size_t command_count;
	uint64_t limit; /* --hits; 0: no limit */
	struct ptah_live *live;
	struct ptah_live_keep *keep;

	/* What only the thread that records uses. */
	struct pending *pending;
	size_t pending_count;
	pid_t *children;
	size_t child_count;

	pthread_mutex_t lock; /* of what follows */
	uint64_t hits;
	struct live_hit_line *lines; /* that have not been reported */
	size_t line_count, next_line;
};

/* Options */

/* A time, which has a unit, or a size. */
static int read_keep(const char *text, struct live_hits *h)
{
	const size_t n = strlen(text);
	double seconds;
	bool bare;

	if (n && strchr("smh", text[n - 1]) && live_parse_time(text, &seconds) && seconds >= 1e-6) {
		h->keep_ns = (uint64_t)(seconds * 1e9);
		return EXIT_OK;
	}
	if (parse_size(text, "BKMG", &h->keep_bytes, &bare) && h->keep_bytes)
		return EXIT_OK;
	return fail_usage(&command_live,
			  "--keep=%s: it is a time with its unit (50ms, 2s), or a number of bytes "
			  "for each thread (256K)",
			  text);
}

/* Whether the name of a file has the number of the hit in it: %n, and not %%n. */
static bool names_number(const char *file)
{
	for (const char *p = file; *p; p++)
		if (*p == '%' && p[1] && *++p == 'n')
			return true;
	return false;
}

static int read_actions(const struct live_options *o, struct live_hits *h)
{
	for (size_t i = 0; i < o->actions.count; i++) {
		const char *text = o->actions.texts[i];

		if (strncmp(text, "save:", 5) != 0) {
			h->commands[h->command_count++] = text;
			continue;
		}
		if (!text[5])
			return fail_usage(&command_live, "--on-hit=save: names no file");
		if (h->file)
			return fail_usage(&command_live, "--on-hit=save: can be given once");
		h->file = text + 5;
	}
	if (!h->file)
		h->file = USUAL_FILE;
	if (o->hits != 1 && !names_number(h->file))
		return fail_usage(&command_live,
				  "--on-hit=save:%s: without %%n, the number of the hit, each one "
				  "would replace the one before; or --hits=1",
				  h->file);
	return EXIT_OK;
}

static int read_watches(const struct live_options *o, struct live_hits *h)
{
	struct ptah_message why = {""};

	if (o->watches.count > PTAH_LIVE_WATCHES)
		return fail_usage(&command_live, "--watch: at most %d", PTAH_LIVE_WATCHES);
	for (; h->count < o->watches.count; h->count++) {
		h->texts[h->count] = o->watches.texts[h->count];
		if (ptah_watch_parse(h->texts[h->count], &h->watches[h->count], &why) < 0)
			return fail_usage(&command_live, "--watch: %s", why.text);
	}
	return EXIT_OK;
}

/* Whether the watch needs to know how a process ended, which only the recorder knows. */
static bool is_of_ends(const struct ptah_watch *w)
{
	return w->kind == PTAH_WATCH_SIGNAL || w->kind == PTAH_WATCH_EXIT;
}

static bool watches_ends(const struct live_hits *h)
{
	for (size_t i = 0; i < h->count; i++)
		if (is_of_ends(&h->watches[i]))
			return true;
	return false;
}

static int check_hit_options(const struct live_options *o, const struct live_hits *h)
{
	for (size_t i = 0; i < h->count && o->record.input.path; i++)
		if (is_of_ends(&h->watches[i]))
			return fail_usage(&command_live,
					  "--watch='%s': how a process ended is not in a recording "
					  "that comes through a pipe (-i)",
					  h->texts[i]);
	return EXIT_OK;
}

int live_hits_new(const struct live_options *o, struct live_hits **hits)
{
	struct live_hits *h;
	int code;

	*hits = NULL;
	if (!o->watches.count && !o->keep && !o->actions.count && !o->hits && !o->record.control)
		return EXIT_OK;
	h = calloc(1, sizeof(*h));
	if (!h)
		return fail(&command_live, "out of memory");
	pthread_mutex_init(&h->lock, NULL);
	h->keep_ns = o->keep ? 0 : USUAL_KEEP;
	h->limit = o->hits;
	code = o->keep ? read_keep(o->keep, h) : EXIT_OK;
	if (code == EXIT_OK)
		code = read_watches(o, h);
	if (code == EXIT_OK)
		code = read_actions(o, h);
	if (code == EXIT_OK)
		code = check_hit_options(o, h);
	if (code == EXIT_OK &&
	    ptah_live_keep_new(UINT64_MAX, MEMORY, watches_ends(h), &h->keep) < 0)
		code = fail(&command_live, "out of memory");
	if (code == EXIT_OK)
		*hits = h;
	else
		live_hits_free(h);
	return code;
}

/* Commands */

/* Waits for those that have ended, or for all, unless a signal ends the waiting. */
static void reap(struct live_hits *h, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < h->child_count; i++) {
		pid_t pid;

		do
			pid = waitpid(h->children[i], NULL, all ? 0 : WNOHANG);
		while (pid < 0 && errno == EINTR && !consumer_given_up());
		if (!pid)
			h->children[n++] = h->children[i];
	}
	h->child_count = n;
}

/*
 * Runs the command with the file's name as its argument. What it prints goes to standard error, and
 * while the screen is shown, to where the recorded command's output goes.
 */
static void run_hit_command(struct live_hits *h, const char *command,
			    const struct live_hit_line *line)
{
	char text[4096];
	char *argv[] = {"sh", "-c", text, "ptah", (char *)(uintptr_t)line->file, NULL};
	extern char **environ;
	posix_spawn_file_actions_t files;
	pid_t *children = reallocarray(h->children, h->child_count + 1, sizeof(*children));
	pid_t pid;

	if (!children || snprintf(text, sizeof(text), "%s \"$@\"", command) >= (int)sizeof(text))
		return;
	h->children = children;
	if (posix_spawn_file_actions_init(&files))
		return;
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
	if (!posix_spawn(&pid, "/bin/sh", &files, NULL, argv, environ))
		children[h->child_count++] = pid;
	else
		fail(&command_live, "--on-hit=%s: %s", command, strerror(errno));
	posix_spawn_file_actions_destroy(&files);
}

void live_hits_free(struct live_hits *h)
{
	if (!h)
		return;
	reap(h, true);
	ptah_live_keep_free(h->keep);
	free(h->pending);
	free(h->children);
	free(h->lines);
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* Saving */

/* The file's name: %n is the number of the hit, %p and %t are the process and the thread. */
static bool name_file(const struct live_hits *h, const struct live_hit_line *line, char *name,
		      size_t size)
{
	size_t n = 0;

	for (const char *p = h->file; *p && n < size; p++) {
		if (*p != '%' || !p[1]) {
			name[n++] = *p;
			continue;
		}
		p++;
		if (*p == 'n')
			n += (size_t)snprintf(name + n, size - n, "%" PRIu64, line->number);
		else if (*p == 'p' || *p == 't')
			n += (size_t)snprintf(name + n, size - n, "%d",
					      *p == 'p' ? line->pid : line->tid);
		else
			name[n++] = *p;
	}
	if (n >= size)
		return false;
	name[n] = '\0';
	return true;
}

/* Saves what is kept of the process. `since`: nanoseconds of perf's clock; 0: all that is kept. */
static void save(struct live_hits *h, struct live_hit_line *line, uint64_t since)
{
	const struct ptah_hit hit = {.size = sizeof(hit),
				     .time = line->time,
				     .since = since,
				     .pid = line->pid,
				     .tid = line->tid,
				     .text = line->text};
	struct ptah_message why = {"its name is too long"};
	char name[sizeof(line->file)];

	if (name_file(h, line, name, sizeof(name)) &&
	    ptah_live_keep_save(h->keep, name, &hit, &why) >= 0)
		memcpy(line->file, name, sizeof(name));
	else
		snprintf(line->failure, sizeof(line->failure), "%s", why.text);
}

/* Counts a hit and saves it. The line's text, time, pid and tid are filled in. */
static int add_hit(struct live_hits *h, struct live_hit_line *line, uint64_t since)
{
	int status = 0;

	pthread_mutex_lock(&h->lock);
	if (!h->limit || h->hits < h->limit) {
		line->number = ++h->hits;
		if (!h->limit && line->number > MOST_SAVED) {
			pthread_mutex_unlock(&h->lock);
			return 0;
		}
		save(h, line, since);
		if (LIST_ADD(h->lines, h->line_count))
			h->lines[h->line_count - 1] = *line;
		else
			status = PTAH_E_NOMEM;
	}
	pthread_mutex_unlock(&h->lock);
	return status;
}

/* Where to begin to look, if nothing says more. */
static uint64_t begin_of(const struct live_hits *h, uint64_t time)
{
	return h->keep_ns && time > h->keep_ns ? time - h->keep_ns : 0;
}

static void put_hit_time(char *text, size_t size, uint64_t ns)
{
	if (ns < 1000)
		snprintf(text, size, "%" PRIu64 " ns", ns);
	else if (ns < 1000000)
		snprintf(text, size, "%.3f us", (double)ns / 1e3);
	else if (ns < SECOND)
		snprintf(text, size, "%.3f ms", (double)ns / 1e6);
	else
		snprintf(text, size, "%.3f s", (double)ns / 1e9);
}

static void describe_call(const struct live_hits *h, const struct ptah_live_hit *hit,
			  struct live_hit_line *line)
{
	const struct ptah_watch *w = &h->watches[hit->watch];
	const char *least = "", *how = "";
	char value[64] = "";

	switch (w->kind) {
	case PTAH_WATCH_TIME:
	case PTAH_WATCH_WAITS:
		put_hit_time(value, sizeof(value), hit->value);
		least = hit->at_least ? "at least " : "";
		if (w->kind == PTAH_WATCH_WAITS)
			how = hit->in_kernel ? " in the kernel (there are no context switches)"
					     : ", by context switches";
		break;
	case PTAH_WATCH_INSTRUCTIONS:
		snprintf(value, sizeof(value), "%" PRIu64 " instructions", hit->value);
		break;
	case PTAH_WATCH_RATE:
		snprintf(value, sizeof(value), "%" PRIu64 " calls in a second", hit->value);
		break;
	default:
		break;
	}
	snprintf(line->text, sizeof(line->text), "%.250s%s%s%s%s%s", h->texts[hit->watch],
		 *value ? ": " : "", least, value, how,
		 *value && w->kind != PTAH_WATCH_RATE && !hit->mark->end ? ", so far" : "");
}

int live_hits_take_hit(struct live_hits *h, const struct ptah_live_hit *hit)
{
	const struct ptah_session *session = ptah_live_session(h->live);
	const uint8_t kind = h->watches[hit->watch].kind;
	const bool lasts = kind <= PTAH_WATCH_WAITS;
	struct live_hit_line line = {.pid = hit->thread->pid, .tid = hit->thread->tid};
	uint64_t since = 0;

	h->have_hit[hit->watch] = true;
	if (hit->tsc)
		line.time = ptah_session_time(session, hit->tsc);
	if (lasts && hit->begin_tsc)
		since = ptah_session_time(session, hit->begin_tsc);
	/* The beginning may have an estimated time, and the moment the least that it can be. */
	if (line.time && since > line.time)
		since = line.time;
	describe_call(h, hit, &line);
	return add_hit(h, &line, since ? since : begin_of(h, line.time));
}

void live_hits_configure(struct live_hits *h, struct ptah_live_config *config)
{
	config->watches = h->watches;
	config->watch_count = h->count;
}

bool live_hits_need_times(const struct live_hits *h)
{
	for (size_t i = 0; h && i < h->count; i++)
		if (h->watches[i].kind == PTAH_WATCH_TIME || h->watches[i].kind == PTAH_WATCH_WAITS)
			return true;
	return false;
}

void live_hits_begin(struct live_hits *h, struct ptah_live *live)
{
	h->live = live;
}

int live_hits_take(struct live_hits *h, const struct ptah_record_piece *piece)
{
	const struct ptah_record_sink *sink = ptah_live_keep_sink(h->keep);

	return sink->take(sink->context, piece);
}

/* What is saved a little later */

static struct pending *add_pending(struct live_hits *h)
{
	const uint64_t now = (uint64_t)monotonic_ns();

	if (!LIST_ADD(h->pending, h->pending_count))
		return NULL;
	h->pending[h->pending_count - 1] =
	    (struct pending){.watch = WATCH_NONE, .pid = -1, .asked = now, .end = now + WAIT_ASK};
	return &h->pending[h->pending_count - 1];
}

void live_hits_ended(struct live_hits *h, int32_t pid, int wait_status)
{
	const struct ptah_record_sink *sink = ptah_live_keep_sink(h->keep);

	sink->ended(sink->context, pid, wait_status);
	for (size_t i = 0; i < h->count; i++) {
		struct pending *p =
		    ptah_watch_ended(&h->watches[i], wait_status) ? add_pending(h) : NULL;

		if (!p)
			continue;
		p->watch = i;
		p->pid = pid;
		p->wait_status = wait_status;
		p->end = p->asked + WAIT_END;
	}
}

void live_hits_ask(struct live_hits *h, const char *why)
{
	struct pending *p = add_pending(h);

	if (p)
		snprintf(p->why, sizeof(p->why), "%s", why);
}

/* The last time of the process, or of all, as far as it has been decoded. The session stands still.
 */
static uint64_t last_time(const struct live_hits *h, int32_t pid)
{
	struct ptah_live_thread t = {.size = sizeof(t)};
	uint64_t last = 0;

	for (size_t i = 0; ptah_live_thread(h->live, i, &t) >= 0; i++)
		if ((pid <= 0 || t.pid == pid) && t.tsc > last)
			last = t.tsc;
	return last ? ptah_session_time(ptah_live_session(h->live), last) : 0;
}

static int save_pending(struct live_hits *h, const struct pending *p)
{
	struct live_hit_line line = {.pid = p->pid, .tid = -1};

	line.time = last_time(h, p->pid);
	if (p->watch == WATCH_NONE)
		snprintf(line.text, sizeof(line.text), "%s", p->why);
	else if (WIFSIGNALED(p->wait_status))
		snprintf(line.text, sizeof(line.text), "%.250s: signal %d ended process %d",
			 h->texts[p->watch], WTERMSIG(p->wait_status), p->pid);
	else
		snprintf(line.text, sizeof(line.text), "%.250s: process %d exited with %d",
			 h->texts[p->watch], p->pid, WEXITSTATUS(p->wait_status));
	return add_hit(h, &line, begin_of(h, line.time));
}

/*
 * Whether all that ran before the event is there, and decoded. Recorders of hardware tell the
 * command's end before its last trace has come (struct ptah_record_sink).
 */
static bool is_due(const struct live_hits *h, struct pending *p, const struct ptah_live_status *s,
		   uint64_t now)
{
	if (now >= p->end)
		return true;
	if (!p->rounds && (p->pid <= 0 || ptah_live_keep_has_ended(h->keep, p->pid)))
		p->rounds = s->rounds + ROUNDS;
	if (!p->came && p->rounds && s->rounds >= p->rounds)
		p->came = now;
	return p->came && now - s->lag >= p->came;
}

static int save_due(struct live_hits *h, const struct ptah_live_status *s, uint64_t now, bool final)
{
	size_t n = 0;
	bool held = false;
	int status = 0;

	for (size_t i = 0; i < h->pending_count; i++) {
		struct pending p = h->pending[i];

		if (status < 0 || (!final && !is_due(h, &p, s, now))) {
			h->pending[n++] = p;
			continue;
		}
		if (!held && !final)
			ptah_live_hold(h->live);
		held = true;
		status = save_pending(h, &p);
	}
	if (held && !final)
		ptah_live_release(h->live);
	h->pending_count = n;
	return status;
}

/* Forgets what is too old for a hit that is decoded from now on, and for those that are pending. */
static void forget_old(struct live_hits *h, uint64_t now, uint64_t lag)
{
	const uint64_t old = h->keep_ns + lag + SLACK;

	for (size_t i = 0; i < h->pending_count; i++)
		if (h->pending[i].asked < now)
			now = h->pending[i].asked;
	if (h->keep_ns && now > old)
		ptah_live_keep_forget(h->keep, 0, now - old);
	else if (!h->keep_ns && now > lag + HELD)
		ptah_live_keep_forget(h->keep, h->keep_bytes, now - lag - HELD);
}

int live_hits_look(struct live_hits *h, bool final)
{
	struct ptah_live_status s = {.size = sizeof(s)};
	const uint64_t now = (uint64_t)monotonic_ns();
	bool full;
	int status;

	ptah_live_status(h->live, &s);
	status = save_due(h, &s, now, final);
	forget_old(h, now, s.lag);
	reap(h, false);
	pthread_mutex_lock(&h->lock);
	full = h->limit && h->hits >= h->limit;
	pthread_mutex_unlock(&h->lock);
	return status < 0 ? status : !full;
}

uint64_t live_hits_unsaved(struct live_hits *h)
{
	uint64_t n;

	pthread_mutex_lock(&h->lock);
	n = !h->limit && h->hits > MOST_SAVED ? h->hits - MOST_SAVED : 0;
	pthread_mutex_unlock(&h->lock);
	return n;
}

bool live_hits_next(struct live_hits *h, struct live_hit_line *line)
{
	bool found;

	pthread_mutex_lock(&h->lock);
	found = h->next_line < h->line_count;
	if (found)
		*line = h->lines[h->next_line++];
	if (h->next_line == h->line_count)
		h->next_line = h->line_count = 0;
	pthread_mutex_unlock(&h->lock);
	for (size_t i = 0; found && *line->file && i < h->command_count; i++)
		run_hit_command(h, h->commands[i], line);
	return found;
}

/* Whether the file of the watch, if it names one, is the program. */
static bool is_of_program(const struct ptah_watch *w, const char *program)
{
	struct ptah_watch file = *w;

	file.kind = PTAH_WATCH_ENTER;
	return ptah_watch_is_of(&file, w->function, program);
}

void live_hits_note_unknown(const struct live_hits *h, const char *program)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;

	if (ptah_symbols_new(NULL, &symbols) < 0)
		return;
	for (size_t i = 0; i < h->count; i++) {
		const struct ptah_watch *w = &h->watches[i];

		if (is_of_ends(w) || !is_of_program(w, program) ||
		    ptah_symbols_find(symbols, program, w->function, 0, &symbol) != 0)
			continue;
		print_clean("note: ", "--watch='%s': %s itself has no such function%s", h->texts[i],
			    program,
			    w->file[0]
				? ""
				: "; those of libraries and of generated code are found when "
				  "they run");
	}
	ptah_symbols_free(symbols);
}

void live_hits_note_absent(const struct live_hits *h, const struct live_measure *m)
{
	for (size_t i = 0; i < h->count; i++) {
		const struct ptah_watch *w = &h->watches[i];
		/* Generated code that was replaced has the row of what replaced it. */
		bool has_run = is_of_ends(w) || h->have_hit[i];

		for (size_t k = 0; k < m->count && !has_run; k++)
			has_run = ptah_watch_is_of(w, m->rows[k].name, m->rows[k].path);
		if (!has_run)
			print_clean("note: ", "--watch='%s': no function of this name has run",
				    h->texts[i]);
	}
}
