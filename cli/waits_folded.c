/* SPDX-License-Identifier: MIT */
/*
 * ptah waits --folded: the stacks of waits, a line each with nanoseconds, for flamegraph.pl and
 * speedscope: a flame graph of the time in which threads did not run. What was waited for is the
 * innermost frame.
 */
#include "waits_view.h"

#include "base/text.h"
#include "support/list.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of deeper stacks the outermost functions are left out. */
#define FRAMES 256

struct stack_line {
	char *text;
	uint64_t ns;
};

struct text {
	char *bytes;
	size_t n, room;
	bool failed;
};

/* Appends a frame, without the characters that mean something to readers. */
static void append_frame(struct text *t, const char *name)
{
	const size_t n = strlen(name);

	if (!LIST_ROOM_FOR(t->bytes, t->n, n + 2, t->room)) {
		t->failed = true;
		return;
	}
	if (t->n)
		t->bytes[t->n++] = ';';
	for (size_t i = 0; i < n; i++)
		t->bytes[t->n + i] = (char)(name[i] == ';' ? ':' : name[i]);
	t->bytes[t->n + n] = '\0';
	text_clean(t->bytes + t->n);
	t->n += strlen(t->bytes + t->n);
}

static void write_stack(struct waits_view *v, const struct waits_entry *entry, struct text *t)
{
	struct ptah_wait_frame frames[FRAMES];
	struct ptah_wait wait = {.size = sizeof(wait)};
	size_t n =
	    ptah_waits_stack(v->names.waits, entry->wait, PTAH_WAIT_STACK_OWN, frames, FRAMES);
	char object[WAIT_TEXT], text[NAMES_LABEL_MAX];
	struct ptah_thread thread;

	t->n = 0;
	ptah_waits_get(v->names.waits, entry->wait, &wait);
	append_frame(t, ptah_session_space(v->session, wait.pid, &thread) >= 0 && *thread.comm
			    ? thread.comm
			    : "[unknown]");
	for (n = n < FRAMES ? n : FRAMES; n-- > 0;)
		append_frame(t, names_label(v->names.names, frames[n].space, frames[n].function,
					    text, sizeof(text)));
	wait_object_name(&v->names, entry->wait, &wait, object);
	snprintf(text, sizeof(text), "[%s%s%s]", entry->cause, *object ? " " : "", object);
	append_frame(t, text);
}

static int compare_lines(const void *a, const void *b)
{
	const struct stack_line *x = a, *y = b;

	return strcmp(x->text, y->text);
}

/* Adds to the line of this text. False: out of memory. */
static bool add_line(void **lines, const struct text *t, uint64_t ns)
{
	const struct stack_line key = {.text = t->bytes};
	struct stack_line **found = tfind(&key, lines, compare_lines), *line;

	if (found) {
		(*found)->ns += ns;
		return true;
	}
	line = malloc(sizeof(*line));
	if (!line)
		return false;
	*line = (struct stack_line){.text = strdup(t->bytes), .ns = ns};
	if (line->text && tsearch(line, lines, compare_lines))
		return true;
	free(line->text);
	free(line);
	return false;
}

int waits_put_folded(struct waits_view *v)
{
	struct text t = {0};
	void *lines = NULL;
	int status = 0;

	for (size_t i = 0; i < v->count && status >= 0; i++) {
		write_stack(v, &v->entries[i], &t);
		if (t.failed || !add_line(&lines, &t, v->entries[i].ns))
			status = PTAH_E_NOMEM;
	}
	while (lines) {
		struct stack_line *line = *(struct stack_line **)lines;

		if (status >= 0) {
			/* A stack may be longer than what out_format() takes. */
			out_text(v->out, line->text);
			out_format(v->out, " %" PRIu64 "\n", line->ns);
		}
		tdelete(line, &lines, compare_lines);
		free(line->text);
		free(line);
	}
	free(t.bytes);
	return status;
}
