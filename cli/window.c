/* SPDX-License-Identifier: MIT */
/*
 * Reads --since, --until and --around, and finds out what they mean in a recording: seconds of
 * perf's clock, seconds from the beginning or the end, percent, or instructions.
 */
#include "window.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

/* Widths of --around if none is given. */
#define DEFAULT_WIDTH	     UINT64_C(1000000) /* a millisecond */
#define DEFAULT_INSTRUCTIONS UINT64_C(1000)

enum moment_kind {
	MOMENT_NONE,
	MOMENT_TIME,	    /* nanoseconds of perf's clock */
	MOMENT_AFTER_BEGIN, /* nanoseconds after the first time of the recording */
	MOMENT_BEFORE_END,  /* before the last one */
	MOMENT_SHARE,	    /* billionths of the time between them */
	MOMENT_INSTRUCTION, /* number of an instruction */
	MOMENT_HIT,	    /* for which the recording was kept */
};

struct moment {
	enum moment_kind kind;
	uint64_t value;
};

/* The times of the recording, in nanoseconds. */
struct span {
	uint64_t first, last;
	bool known;
};

bool window_is_wanted(const struct input *input)
{
	return input->since || input->until || input->around;
}

bool window_has_times(const struct input *input)
{
	return (input->since && *input->since != '@') || (input->until && *input->until != '@') ||
	       (input->around && *input->around != '@');
}

/* Reads a number with up to nine decimals, as billionths. *end: what follows. */
static bool read_decimal(const char *text, uint64_t *value, const char **end)
{
	uint64_t whole = 0, part = 0, unit = SECOND;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (whole > UINT64_MAX / SECOND / 10 - 1)
			return false;
		whole = 10 * whole + (uint64_t)(*p - '0');
	}
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++) {
			unit /= 10;
			part += unit * (uint64_t)(*p - '0');
		}
	*value = whole * SECOND + part;
	*end = p;
	return p > text && p[-1] != '.';
}

/* A length of time: seconds, or a number with s, ms, us or ns. */
static bool read_length(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t divisor;
	} units[] = {{"", 1}, {"s", 1}, {"ms", 1000}, {"us", 1000000}, {"ns", 1000000000}};
	const char *unit;
	uint64_t value;

	if (!read_decimal(text, &value, &unit))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].unit) != 0)
			continue;
		*ns = value / units[i].divisor;
		return true;
	}
	return false;
}

static bool read_window_number(const char *text, uint64_t *value)
{
	char *end;

	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && *value < INT64_MAX;
}

static bool read_moment(const char *text, struct moment *moment)
{
	const char *end;

	if (!strcmp(text, "hit")) {
		moment->kind = MOMENT_HIT;
		return true;
	}
	if (*text == '@') {
		moment->kind = MOMENT_INSTRUCTION;
		return read_window_number(text + 1, &moment->value);
	}
	if (*text == '+' || *text == '-') {
		moment->kind = *text == '+' ? MOMENT_AFTER_BEGIN : MOMENT_BEFORE_END;
		return read_length(text + 1, &moment->value);
	}
	if (!read_decimal(text, &moment->value, &end))
		return false;
	if (!strcmp(end, "%")) {
		moment->kind = MOMENT_SHARE;
		moment->value /= 100;
		return moment->value <= SECOND;
	}
	moment->kind = MOMENT_TIME;
	return !*end;
}

static int refuse_window(const struct command *command, const char *option, const char *text)
{
	return fail_usage(command,
			  "--%s=%s: it takes a time in seconds as --time prints it (12.345), "
			  "+SECONDS from the beginning, -SECONDS before the end, a percentage "
			  "(25%%), an instruction (@123456), or \"hit\"%s",
			  option, text,
			  strcmp(option, "around") ? "" : "; and after a comma how much around it");
}

/* Reads the options into two moments. --around becomes a moment and half a width to each side. */
struct wanted {
	struct moment since, until;
	const char *option; /* one that was given, for messages */
	uint64_t half;	    /* of --around, in the units of the moment */
};

static int read_around(const struct command *command, const struct input *input, struct wanted *w)
{
	char text[64];
	char *comma;
	bool right;

	if (input->since || input->until)
		return fail_usage(command, "--around, or --since and --until, not both");
	snprintf(text, sizeof(text), "%s", input->around);
	comma = strchr(text, ',');
	if (comma)
		*comma = '\0';
	if (strlen(input->around) >= sizeof(text) || !read_moment(text, &w->since))
		return refuse_window(command, "around", input->around);
	w->half = w->since.kind == MOMENT_INSTRUCTION ? DEFAULT_INSTRUCTIONS : DEFAULT_WIDTH;
	right =
	    !comma || (w->since.kind == MOMENT_INSTRUCTION ? read_window_number(comma + 1, &w->half)
							   : read_length(comma + 1, &w->half));
	if (!right)
		return refuse_window(command, "around", input->around);
	w->half /= 2;
	w->until = w->since;
	w->option = "around";
	return EXIT_OK;
}

static int read_options(const struct command *command, const struct input *input, struct wanted *w)
{
	const bool since_counts = input->since && *input->since == '@';
	const bool until_counts = input->until && *input->until == '@';

	if (input->around)
		return read_around(command, input, w);
	w->option = input->since ? "since" : "until";
	if (input->since && !read_moment(input->since, &w->since))
		return refuse_window(command, "since", input->since);
	if (input->until && !read_moment(input->until, &w->until))
		return refuse_window(command, "until", input->until);
	if (input->since && input->until && since_counts != until_counts)
		return fail_usage(command, "--since and --until: two times, or two instructions");
	return EXIT_OK;
}

/* The times of the streams that are decoded. *without: how many have none. */
static void find_span(const struct input *input, const struct ptah_session *session,
		      struct span *span, size_t *without)
{
	for (size_t i = 0; i < ptah_session_streams(session); i++) {
		uint64_t first, last;

		if (!input_wants(input, session, i))
			continue;
		if (ptah_session_stream_times(session, i, &first, &last) < 0) {
			++*without;
			continue;
		}
		first = ptah_session_time(session, first);
		last = ptah_session_time(session, last);
		if (!span->known || first < span->first)
			span->first = first;
		if (!span->known || last > span->last)
			span->last = last;
		span->known = true;
	}
}

/* The moment as nanoseconds. */
static uint64_t resolve(const struct moment *m, const struct span *span)
{
	const uint64_t length = span->last - span->first;

	switch (m->kind) {
	case MOMENT_AFTER_BEGIN:
		return m->value < UINT64_MAX - span->first ? span->first + m->value : UINT64_MAX;
	case MOMENT_BEFORE_END:
		return m->value < span->last ? span->last - m->value : 0;
	case MOMENT_SHARE:
		return span->first + length / SECOND * m->value +
		       length % SECOND * m->value / SECOND;
	default:
		return m->value;
	}
}

static const char *put_seconds(uint64_t ns, char text[32])
{
	snprintf(text, 32, "%" PRIu64 ".%09" PRIu64, ns / SECOND, ns % SECOND);
	return text;
}

/* What was asked for is not, or not wholly, within the times of the trace. */
static int check_span(const struct command *command, const struct input *input,
		      const struct wanted *w, const struct span *span, bool has_samples,
		      uint64_t since, uint64_t until)
{
	char a[32], b[32], c[32], d[32];

	if (since > until)
		return fail(command, "--%s: the window ends before it begins", w->option);
	put_seconds(span->first, a);
	put_seconds(span->last, b);
	/* Threads may wait when nothing is traced any more. */
	if ((since > span->last && !(input->samples && has_samples)) || until < span->first)
		return fail(command,
			    "--%s: nothing was traced then; the times of the trace are from %s to "
			    "%s",
			    w->option, a, b);
	put_seconds(since, c);
	put_seconds(until, d);
	if (!input->quiet && w->since.kind && since && since < span->first)
		print_clean("note: ",
			    "--%s: from %s on is asked for; the first time in the trace "
			    "is %s",
			    w->option, c, a);
	if (!input->quiet && since > span->last)
		print_clean(
		    "note: ", "--%s: nothing was traced then; the last time in the trace is %s",
		    w->option, b);
	else if (!input->quiet && w->until.kind && until > span->last)
		print_clean("note: ",
			    "--%s: up to %s is asked for; the last time in the trace is "
			    "%s",
			    w->option, d, b);
	return EXIT_OK;
}

/* Replaces "hit" by its time. */
static int set_hit(const struct command *command, const struct ptah_session *session,
		   struct wanted *w)
{
	struct ptah_hit hit = {.size = sizeof(hit)};

	if (w->since.kind != MOMENT_HIT && w->until.kind != MOMENT_HIT)
		return EXIT_OK;
	if (ptah_session_hit(session, 0, &hit) < 0 || !hit.time)
		return fail(command,
			    "--%s=hit: the recording has no hit with a time; 'ptah live --watch' "
			    "saves such",
			    w->option);
	if (w->since.kind == MOMENT_HIT)
		w->since =
		    (struct moment){MOMENT_TIME, w->half || !hit.since ? hit.time : hit.since};
	if (w->until.kind == MOMENT_HIT)
		w->until = (struct moment){MOMENT_TIME, hit.time};
	return EXIT_OK;
}

/* Without options, commands that show what was executed begin where the hit does. */
static void set_usual(const struct input *input, struct ptah_session *session)
{
	struct ptah_hit hit = {.size = sizeof(hit)};
	struct span span = {0};
	size_t without = 0;
	struct ptah_window window = {
	    .size = sizeof(window), .until = UINT64_MAX, .last = UINT64_MAX};
	char a[32];

	if (!input->from_hit || ptah_session_hit(session, 0, &hit) < 0)
		return;
	if (!input->quiet)
		print_clean("note: ", "kept because of: %s", hit.text);
	if (!hit.since || !ptah_session_time(session, 1))
		return;
	find_span(input, session, &span, &without);
	if (!span.known || hit.since <= span.first || hit.since > span.last)
		return;
	window.since = ptah_session_tsc(session, hit.since, true);
	if (ptah_session_set_window(session, &window) >= 0 && !input->quiet)
		print_clean("note: ", "it begins there, at %s; --since=0%% shows what was before",
			    put_seconds(hit.since, a));
}

static int set_times(const struct command *command, const struct input *input,
		     const struct wanted *w, struct ptah_session *session,
		     struct ptah_window *window)
{
	struct span span = {0};
	uint64_t since = 0, until = UINT64_MAX;
	size_t without = 0;
	int status;

	if (!ptah_session_time(session, 1))
		return fail(command,
			    "--%s: the recording does not relate TSC to perf's clock, so that no "
			    "time of it is known; an instruction can be given instead (@123456)",
			    w->option);
	find_span(input, session, &span, &without);
	if (!span.known)
		return fail(command,
			    "--%s: the trace has no time stamps: record with -e intel_pt/tsc/u, or "
			    "give an instruction instead (@123456)",
			    w->option);
	if (w->since.kind)
		since = resolve(&w->since, &span);
	if (w->until.kind)
		until = resolve(&w->until, &span);
	since = since > w->half ? since - w->half : 0;
	until = until < UINT64_MAX - w->half ? until + w->half : UINT64_MAX;
	status = check_span(command, input, w, &span, ptah_session_samples(session), since, until);
	if (status)
		return status;
	if (without && !input->quiet && w->since.kind)
		print_clean("note: ", "%zu of the streams have no time stamps and are left out",
			    without);
	if (w->since.kind)
		window->since = ptah_session_tsc(session, since, true);
	if (w->until.kind)
		window->until = ptah_session_tsc(session, until, false);
	return EXIT_OK;
}

static int set_numbers(const struct command *command, const struct input *input,
		       const struct wanted *w, const struct ptah_session *session,
		       struct ptah_window *window)
{
	struct ptah_stream_info info;

	for (size_t i = 0; i < ptah_session_streams(session); i++)
		if (input_wants(input, session, i) &&
		    ptah_session_stream_info(session, i, &info) >= 0 && info.cpu >= 0)
			return fail(command,
				    "--%s=@N counts the instructions of a thread, and this "
				    "recording has a stream for each CPU: give a time",
				    w->option);
	if (w->since.kind)
		window->first = w->since.value > w->half ? w->since.value - w->half : 0;
	if (w->until.kind)
		window->last = w->until.value + w->half;
	if (window->first > window->last)
		return fail(command, "--%s: the window ends before it begins", w->option);
	return EXIT_OK;
}

int window_set(const struct command *command, const struct input *input,
	       struct ptah_session *session)
{
	struct ptah_window window = {
	    .size = sizeof(window), .until = UINT64_MAX, .last = UINT64_MAX};
	struct wanted w = {.option = NULL};
	int status = window_is_wanted(input) ? read_options(command, input, &w) : EXIT_OK;

	if (!w.option && !status)
		set_usual(input, session);
	if (status || !w.option)
		return status;
	status = set_hit(command, session, &w);
	if (status)
		return status;
	status = w.since.kind == MOMENT_INSTRUCTION || w.until.kind == MOMENT_INSTRUCTION
		     ? set_numbers(command, input, &w, session, &window)
		     : set_times(command, input, &w, session, &window);
	if (!status && ptah_session_set_window(session, &window) < 0)
		status = fail(command, "--%s: invalid", w.option);
	return status;
}
