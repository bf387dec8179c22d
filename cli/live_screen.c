/* SPDX-License-Identifier: MIT */
/* Shows what a live session measures on a terminal, by ncurses, and obeys keys. */
#include "live_screen.h"

#include "live_annotate.h"
#include "progress.h"

#include "output/pretty.h"

/* As functions: some macros of curses.h compare unsigned numbers with 0. */
#define NCURSES_NOMACROS
#include <curses.h>

#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD	    5 /* lines above the rows, the heading included */
#define ESCAPE	    27
#define ESCAPE_WAIT 25 /* milliseconds in which the rest of a key's sequence comes */
#define FILTER_MAX  64

enum screen_mode {
	SCREEN_FUNCTIONS,
	SCREEN_THREADS,
	SCREEN_DETAILS, /* of one function */
	SCREEN_HELP,
};

/* Pairs of colours. */
enum {
	COLOR_HOT = 1,
	COLOR_WARM,
	COLOR_BAD,
};

struct live_screen {
	struct live_view *view;
	FILE *out, *in;
	SCREEN *screen;
	struct out *text; /* room in which names are cut */
	bool color, paused, typing;
	enum screen_mode mode;
	size_t selected, top;
	char filter[FILTER_MAX];
	/* The function of SCREEN_DETAILS. */
	const char *name, *path;
	uint64_t place;
	/* Its listing, when it was made, and how long that took; its first line that is shown. */
	char *listing;
	double listed, listing_took;
	size_t line;
	size_t *shown; /* indices of the rows that pass the filter */
	size_t shown_count;
};

static void draw(struct live_screen *s);

/* Text */

static void put_at(int y, int x, const char *format, ...) PRINTF_LIKE(3, 4);

static void put_at(int y, int x, const char *format, ...)
{
	char text[512];
	va_list args;

	if (y < 0 || y >= LINES || x >= COLS)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	mvaddnstr(y, x, text, COLS - x);
}

/* Puts a name from an untrusted file, with its middle left out if it is too wide. */
static void put_screen_name(struct live_screen *s, int y, int x, const char *name, unsigned columns)
{
	size_t n;
	const char *text;

	if (y >= LINES || x >= COLS)
		return;
	if (x + (int)columns > COLS)
		columns = (unsigned)(COLS - x);
	pretty_name(s->text, name, columns);
	out_char(s->text, '\0');
	text = out_written(s->text, &n);
	mvaddstr(y, x, text);
	out_clear(s->text);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static uint64_t rate(uint64_t n, double seconds)
{
	return seconds > 0 ? (uint64_t)((double)n / seconds) : 0;
}

static void put_share(const struct live_screen *s, int y, int x, uint64_t part, uint64_t whole)
{
	const double percent = share(part, whole);
	const enum pretty_style heat = pretty_heat(percent);
	const int pair = heat == PRETTY_HOT ? COLOR_HOT : heat == PRETTY_WARM ? COLOR_WARM : 0;

	if (s->color && pair)
		attron(COLOR_PAIR(pair));
	put_at(y, x, "%6.2f%%", percent);
	if (s->color && pair)
		attroff(COLOR_PAIR(pair));
}

/* Filter */

static bool passes(const struct live_screen *s, const struct live_row *row)
{
	char text[32];

	return !*s->filter || strcasestr(live_label(s->view, row, text), s->filter) ||
	       strcasestr(live_object(row), s->filter);
}

static void choose_rows(struct live_screen *s)
{
	const struct live_measure *m = &s->view->measure;
	size_t *shown = reallocarray(s->shown, m->count + 1, sizeof(*shown));

	s->shown_count = 0;
	if (!shown)
		return;
	s->shown = shown;
	for (size_t i = 0; i < m->count; i++)
		if (passes(s, &m->rows[i]))
			shown[s->shown_count++] = i;
}

/* How many rows fit. */
static size_t room(void)
{
	return LINES > HEAD + 1 ? (size_t)(LINES - HEAD - 1) : 0;
}

static void keep_selected(struct live_screen *s, size_t count)
{
	if (s->selected >= count)
		s->selected = count ? count - 1 : 0;
	if (s->selected < s->top)
		s->top = s->selected;
	if (room() && s->selected >= s->top + room())
		s->top = s->selected - room() + 1;
}

/* The head */

static void put_screen_losses(const struct live_screen *s, int y, int x)
{
	const struct ptah_live_status *status = &s->view->measure.status;
	char a[PRETTY_NUMBER];
	const bool bad = status->dropped || status->errors || status->overflows;

	if (s->color && bad)
		attron(COLOR_PAIR(COLOR_BAD));
	put_at(y, x, "left out %s, errors %" PRIu64 ", overflows %" PRIu64,
	       pretty_bytes(status->dropped, a), status->errors, status->overflows);
	if (s->color && bad)
		attroff(COLOR_PAIR(COLOR_BAD));
}

static void put_screen_figures(const struct live_screen *s)
{
	const struct live_measure *m = &s->view->measure;
	const struct ptah_live_status *status = &m->status;
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER], d[PRETTY_NUMBER];

	put_at(1, 0, "%.1f s  %zu thread%s of %zu process%s  %s instructions/s, %s in all",
	       m->seconds, status->threads, status->threads == 1 ? "" : "s", status->processes,
	       status->processes == 1 ? "" : "es", pretty_number(rate(m->now, m->length), a),
	       pretty_number(m->instructions, b));
	put_at(2, 0, "trace %s/s, %s  lag %s, at most %s  ",
	       pretty_bytes(rate(status->bytes - m->before.bytes, m->length), a),
	       pretty_bytes(status->bytes, b), pretty_time(status->lag, c),
	       pretty_time(status->worst_lag, d));
	put_screen_losses(s, 2, getcurx(stdscr));
}

static void put_screen_coverage(const struct live_measure *m)
{
	put_at(3, getcurx(stdscr),
	       "  reached: %" PRIu64 " blocks (+%" PRIu64 "), %" PRIu64 " edges (+%" PRIu64
	       "), %" PRIu64 " functions (+%" PRIu64 ")",
	       m->coverage.blocks, m->fresh.blocks, m->coverage.edges, m->fresh.edges,
	       m->coverage.functions, m->fresh.functions);
}

static void put_screen_head(struct live_screen *s)
{
	const struct live_view *v = s->view;

	attron(A_BOLD);
	put_at(0, 0, "ptah live: ");
	put_screen_name(s, 0, getcurx(stdscr), v->command, (unsigned)COLS / 2);
	attroff(A_BOLD);
	put_at(0, getcurx(stdscr), "  [");
	put_screen_name(s, 0, getcurx(stdscr), v->recorder, (unsigned)COLS);
	put_at(0, getcurx(stdscr), "]");
	put_screen_figures(s);
	put_at(3, 0, "sorted by %s", live_sort_words[v->sort]);
	if (v->measure.timed)
		put_at(3, getcurx(stdscr), "  times: %s", live_times(v));
	if (s->typing || *s->filter)
		put_at(3, getcurx(stdscr), "  filter: %s%s", s->filter, s->typing ? "_" : "");
	if (s->paused)
		put_at(3, getcurx(stdscr), "  PAUSED");
	if (v->hits) {
		put_at(3, getcurx(stdscr), "  hit %" PRIu64 ": ", v->hits);
		put_screen_name(s, 3, getcurx(stdscr), v->hit.text, (unsigned)COLS / 2);
	}
	if (v->measure.covers)
		put_screen_coverage(&v->measure);
	if (v->redirected) {
		put_at(3, getcurx(stdscr), "  the command's output goes to ");
		put_screen_name(s, 3, getcurx(stdscr), v->redirected, (unsigned)COLS);
	}
}

static void put_screen_keys(void)
{
	attron(A_REVERSE);
	put_at(LINES - 1, 0, "%-*s", COLS,
	       "q quit  space pause  s sort  / filter  t threads  enter its code  h help");
	attroff(A_REVERSE);
}

/* Functions */

/* The time of a call; "-": not known, or shorter than the times in the trace can tell. */
static const char *time_text(const struct live_view *v, uint64_t time, char text[PRETTY_NUMBER])
{
	if (!time)
		return "-";
	return ptah_session_times(ptah_live_session(v->live)).estimated
		   ? pretty_estimate(time, text)
		   : pretty_time(time, text);
}

static void put_times(const struct live_view *v, const struct live_row *row, int y, int x)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER];

	put_at(y, x, "%9s %9s %9s", time_text(v, row->p50, a), time_text(v, row->p99, b),
	       time_text(v, row->max, c));
	if (v->measure.waits)
		put_at(y, x + 30, "%9s", row->waited ? pretty_time(row->waited, a) : "-");
}

/* Where names begin. */
static int name_column(const struct live_view *v)
{
	return v->measure.waits ? 71 : 61;
}

static void put_screen_row(struct live_screen *s, const struct live_row *row, int y, bool selected)
{
	const struct live_measure *m = &s->view->measure;
	char a[PRETTY_NUMBER], text[32];
	int rest;

	if (selected)
		attron(A_REVERSE);
	put_at(y, 0, "%*s", COLS, "");
	put_share(s, y, 0, row->now, m->now);
	put_share(s, y, 8, row->instructions, m->instructions);
	put_at(y, 16, "%13s ", pretty_number(rate(row->calls_now, m->length), a));
	put_times(s->view, row, y, 30);
	rest = COLS - name_column(s->view);
	if (rest > 0)
		put_screen_name(s, y, name_column(s->view), live_label(s->view, row, text),
				rest > 40 ? (unsigned)rest - 20 : (unsigned)rest);
	if (rest > 40) {
		put_at(y, getcurx(stdscr), "  ");
		put_screen_name(s, y, getcurx(stdscr), live_object(row), 18);
	}
	if (selected)
		attroff(A_REVERSE);
}

static void draw_functions(struct live_screen *s)
{
	const struct live_measure *m = &s->view->measure;

	choose_rows(s);
	keep_selected(s, s->shown_count);
	attron(A_BOLD | A_UNDERLINE);
	put_at(HEAD - 1, 0, "%7s %7s %13s %9s %9s %9s %9s", "now", "total", "calls/s", "p50", "p99",
	       "max", m->waits ? "waits" : "");
	put_at(HEAD - 1, name_column(s->view) - 1, " %-*s", COLS, "function");
	attroff(A_BOLD | A_UNDERLINE);
	for (size_t i = 0; i < room() && s->top + i < s->shown_count; i++)
		put_screen_row(s, &m->rows[s->shown[s->top + i]], HEAD + (int)i,
			       s->top + i == s->selected);
	if (!s->shown_count)
		put_at(HEAD, 0, "%s",
		       *s->filter ? "no function passes the filter"
				  : "nothing has been decoded yet");
}

/* Threads */

static void draw_threads(struct live_screen *s)
{
	const struct live_measure *m = &s->view->measure;
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER];

	keep_selected(s, m->thread_count);
	attron(A_BOLD | A_UNDERLINE);
	put_at(HEAD - 1, 0, "%7s %15s %17s %10s %8s %8s  %-*s", "now", "instructions/s",
	       "instructions", "trace", "errors", "process", COLS, "thread");
	attroff(A_BOLD | A_UNDERLINE);
	for (size_t i = 0; i < room() && s->top + i < m->thread_count; i++) {
		const struct live_thread_row *row = &m->threads[s->top + i];
		const struct ptah_live_thread *t = &row->thread;
		const int y = HEAD + (int)i;

		put_share(s, y, 0, row->now, m->now);
		put_at(y, 8, "%15s %17s %10s %8" PRIu64 " %8d  ",
		       pretty_number(rate(row->now, m->length), a),
		       pretty_number(t->instructions, b), pretty_bytes(t->bytes, c), t->errors,
		       t->pid);
		if (t->cpu >= 0)
			put_at(y, getcurx(stdscr), "processor %d ", t->cpu);
		else
			put_at(y, getcurx(stdscr), "%d ", t->tid);
		put_screen_name(s, y, getcurx(stdscr), t->comm, sizeof(t->comm));
		if (t->ended)
			put_at(y, getcurx(stdscr), " (ended)");
	}
}

/* One function */

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static const struct live_row *find_screen_row(const struct live_screen *s)
{
	const struct live_measure *m = &s->view->measure;

	for (size_t i = 0; i < m->count; i++)
		if (m->rows[i].place == s->place && is_same(m->rows[i].name, s->name) &&
		    is_same(m->rows[i].path, s->path))
			return &m->rows[i];
	return NULL;
}

static uint64_t mean(uint64_t sum, uint64_t n)
{
	return n ? sum / n : 0;
}

static void put_screen_calls(const struct live_view *v, const struct live_row *row, int y)
{
	const struct live_measure *m = &v->measure;
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER];

	put_at(y, 0, "calls          %s, %s/s now, %s running", pretty_number(row->calls, a),
	       pretty_number(rate(row->calls_now, m->length), b), pretty_number(row->open, c));
	put_at(y + 1, 0, "of single calls, what they called included (%s that ended):",
	       pretty_number(row->ended, a));
	put_at(y + 2, 0, "  instructions %s on average, at most %s",
	       pretty_number(mean(row->total_instructions, row->ended), a),
	       pretty_number(row->max_instructions, b));
	put_at(y + 3, 0, "  time         p50 %s, p99 %s, at most %s", time_text(v, row->p50, a),
	       time_text(v, row->p99, b), time_text(v, row->max, c));
	if (m->waits)
		put_at(y + 3, getcurx(stdscr), "; waited %s in all", pretty_time(row->waited, a));
	put_at(y + 4, 0, "  (times are %s)", live_times_text(v));
}

/* Makes the listing again, if that takes not more than a tenth of the time. */
static void list_code(struct live_screen *s, const struct live_row *row)
{
	const double begin = now();
	char *text;

	if (s->listing && begin - s->listed < 10 * s->listing_took + 0.5)
		return;
	if (live_annotate(s->view, row, (unsigned)COLS, &text) < 0)
		text = NULL;
	if (text) {
		free(s->listing);
		s->listing = text;
	}
	s->listed = now();
	s->listing_took = s->listed - begin;
}

/* Shows the listing below the line `y`. */
static void put_listing(struct live_screen *s, int y)
{
	const char *at = s->listing;
	size_t count = 0, skip;

	if (!at) {
		put_at(y, 0, "its code has not been counted yet, or is not known");
		return;
	}
	for (const char *p = at; (p = strchr(p, '\n')); p++)
		count++;
	if (s->line >= count)
		s->line = count ? count - 1 : 0;
	for (skip = s->line; skip && (at = strchr(at, '\n')); skip--)
		at++;
	for (; at && *at && y < LINES - 1; y++) {
		const size_t n = strcspn(at, "\n");

		put_at(y, 0, "%.*s", (int)(n < (size_t)COLS ? n : (size_t)COLS), at);
		at += at[n] ? n + 1 : n;
	}
}

static void draw_details(struct live_screen *s)
{
	const struct live_measure *m = &s->view->measure;
	const struct live_row *row = find_screen_row(s);
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], text[32];

	if (!row)
		return;
	attron(A_BOLD);
	put_screen_name(s, HEAD - 1, 0, live_label(s->view, row, text), (unsigned)COLS);
	attroff(A_BOLD);
	put_at(HEAD, 0, "file           ");
	put_screen_name(s, HEAD, getcurx(stdscr), row->path ? row->path : "[unknown]",
			(unsigned)COLS);
	put_at(HEAD + 1, 0, "address        0x%" PRIx64 ", in the file 0x%" PRIx64, row->address,
	       row->place);
	put_at(HEAD + 2, 0, "instructions   %s in it, %.2f%% of all; %s/s now, %.2f%%",
	       pretty_number(row->instructions, a), share(row->instructions, m->instructions),
	       pretty_number(rate(row->now, m->length), b), share(row->now, m->now));
	put_screen_calls(s->view, row, HEAD + 3);
	list_code(s, row);
	put_listing(s, HEAD + 9);
}

/* Help */

static void draw_help(void)
{
	static const char *const lines[] = {
	    "q            end; a command that was started is ended, too",
	    "p, space     stop the display, or let it go on; the program runs on",
	    "s            the next order: now, total, calls, p99, max, waits",
	    "/            show functions whose name or file has the text; enter keeps it,",
	    "             escape shows all",
	    "t            threads, or functions again",
	    "up, down     choose a function (also j, k, page up, page down, home, end)",
	    "enter        its figures, source code and instructions, with how often they ran",
	    "h, ?         this help, or back",
	    "",
	    "now          share of the instructions of the last interval",
	    "total        share of all instructions",
	    "p50 p99 max  times of single calls, since the beginning; ~: estimated; -: not known,",
	    "             or shorter than the times in the trace can tell",
	    "waits        how long threads waited in its calls, where context switches say so",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		put_at(HEAD + (int)i, 0, "%s", lines[i]);
}

static void draw(struct live_screen *s)
{
	erase();
	put_screen_head(s);
	switch (s->mode) {
	case SCREEN_THREADS:
		draw_threads(s);
		break;
	case SCREEN_DETAILS:
		draw_details(s);
		break;
	case SCREEN_HELP:
		draw_help();
		break;
	default:
		draw_functions(s);
	}
	put_screen_keys();
	refresh();
}

void live_screen_show(struct live_screen *s)
{
	if (!s->paused)
		draw(s);
}

/* Keys */

static void type_filter(struct live_screen *s, int key)
{
	const size_t n = strlen(s->filter);

	if (key == ESCAPE)
		s->filter[0] = '\0';
	if (key == ESCAPE || key == '\r' || key == '\n' || key == KEY_ENTER)
		s->typing = false;
	else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n)
		s->filter[n - 1] = '\0';
	else if (key >= ' ' && key < 127 && n < FILTER_MAX - 1)
		snprintf(s->filter + n, FILTER_MAX - n, "%c", key);
	s->selected = s->top = 0;
}

static void scroll_by(struct live_screen *s, ptrdiff_t n)
{
	if (n < 0)
		s->line -= s->line < (size_t)-n ? s->line : (size_t)-n;
	else
		s->line += (size_t)n; /* put_listing() knows where it ends */
}

static void move_by(struct live_screen *s, ptrdiff_t n)
{
	const size_t count =
	    s->mode == SCREEN_THREADS ? s->view->measure.thread_count : s->shown_count;

	if (s->mode == SCREEN_DETAILS) {
		scroll_by(s, n);
		return;
	}
	if (n < 0)
		s->selected -= s->selected < (size_t)-n ? s->selected : (size_t)-n;
	else
		s->selected += (size_t)n;
	if (s->selected >= count)
		s->selected = count ? count - 1 : 0;
}

static void switch_to(struct live_screen *s, enum screen_mode mode)
{
	s->mode = s->mode == mode ? SCREEN_FUNCTIONS : mode;
	if (mode == SCREEN_THREADS)
		s->selected = s->top = 0;
}

static void open_selected(struct live_screen *s)
{
	const struct live_row *row;

	if (s->mode != SCREEN_FUNCTIONS) {
		s->mode = SCREEN_FUNCTIONS;
		return;
	}
	if (s->selected >= s->shown_count)
		return;
	row = &s->view->measure.rows[s->shown[s->selected]];
	s->name = row->name;
	s->path = row->path;
	s->place = row->place;
	free(s->listing);
	s->listing = NULL;
	s->listing_took = 0;
	s->line = 0;
	s->mode = SCREEN_DETAILS;
}

static void move_to(struct live_screen *s, int key)
{
	const ptrdiff_t page = (ptrdiff_t)room();

	switch (key) {
	case KEY_UP:
	case 'k':
		move_by(s, -1);
		break;
	case KEY_DOWN:
	case 'j':
		move_by(s, 1);
		break;
	case KEY_PPAGE:
		move_by(s, -page);
		break;
	case KEY_NPAGE:
		move_by(s, page);
		break;
	case KEY_HOME:
		move_by(s, -PTRDIFF_MAX / 2);
		break;
	case KEY_END:
		move_by(s, PTRDIFF_MAX / 2);
		break;
	default:
		break;
	}
}

/* false: the screen is to end. */
static bool obey(struct live_screen *s, int key)
{
	switch (key) {
	case 'q':
		return false;
	case 'p':
	case ' ':
		s->paused = !s->paused;
		break;
	case 's':
		s->view->sort = (s->view->sort + 1) % LIVE_SORT_MAX;
		live_sort_rows(s->view);
		break;
	case '/':
		s->mode = SCREEN_FUNCTIONS;
		s->typing = true;
		s->filter[0] = '\0';
		break;
	case 't':
		switch_to(s, SCREEN_THREADS);
		break;
	case 'h':
	case '?':
		switch_to(s, SCREEN_HELP);
		break;
	case '\r':
	case '\n':
	case KEY_ENTER:
		open_selected(s);
		break;
	case ESCAPE:
		s->mode = SCREEN_FUNCTIONS;
		s->filter[0] = '\0';
		break;
	default:
		move_to(s, key);
	}
	return true;
}

bool live_screen_keys(struct live_screen *s)
{
	bool any = false;
	int key;

	while ((key = getch()) != ERR) {
		any = true;
		if (s->typing && key != KEY_RESIZE)
			type_filter(s, key);
		else if (!obey(s, key))
			return false;
	}
	if (any)
		draw(s);
	return true;
}

/* Beginning and end */

static void set_colors(struct live_screen *s, bool color)
{
	s->color = color && has_colors() && start_color() != ERR;
	if (!s->color)
		return;
	use_default_colors();
	init_pair(COLOR_HOT, COLOR_RED, -1);
	init_pair(COLOR_WARM, COLOR_GREEN, -1);
	init_pair(COLOR_BAD, COLOR_RED, -1);
}

static bool open_terminal(struct live_screen *s, int out, int in)
{
	s->out = out >= 0 ? fdopen(out, "w") : NULL;
	s->in = in >= 0 ? fdopen(in, "r") : NULL;
	if (!s->out && out >= 0)
		close(out);
	if (!s->in && in >= 0)
		close(in);
	setlocale(LC_CTYPE, "");
	s->screen = s->out && s->in ? newterm(NULL, s->out, s->in) : NULL;
	return s->screen != NULL;
}

struct live_screen *live_screen_new(struct live_view *view, int out, int in, bool color)
{
	struct live_screen *s = calloc(1, sizeof(*s));

	if (!s || out_open_memory(&s->text) < 0) {
		free(s);
		return NULL;
	}
	s->view = view;
	if (!open_terminal(s, out, in)) {
		live_screen_free(s);
		return NULL;
	}
	set_term(s->screen);
	set_colors(s, color);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_WAIT);
	curs_set(0);
	draw(s);
	return s;
}

void live_screen_free(struct live_screen *s)
{
	if (!s)
		return;
	if (s->screen) {
		endwin();
		delscreen(s->screen);
	}
	if (s->out)
		fclose(s->out);
	if (s->in)
		fclose(s->in);
	out_abort(s->text);
	free(s->listing);
	free(s->shown);
	free(s);
}
