/* SPDX-License-Identifier: MIT */
/*
 * ptah script --last: the last rows of each thread, and what ended it. The trace is decoded from a
 * PSB near its end, twice: the first time rows are counted, and the second time the last ones are
 * printed. If there are too few, decoding begins at an earlier PSB.
 */
#include "script_view.h"
#include "support/list.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ptah/session.h>

/* How many bytes before its end a stream is decoded at first. */
#define FIRST_SPAN (UINT64_C(16) << 10)

/* A thread in the current stream. */
struct last_thread {
	int32_t pid, tid;
	uint64_t rows;	 /* how many there are */
	uint64_t passed; /* how many have come in the second pass */
};

struct script_last {
	uint64_t wanted;
	bool counting;
	const struct renderer *renderer; /* of the mode and the format */
	struct renderer filter;		 /* stands between */
	struct last_thread *threads;
	size_t count;
	bool full; /* out of memory */
};

static struct last_thread *thread_of(struct script *s)
{
	struct script_last *last = s->last;
	struct last_thread *t;

	for (size_t i = last->count; i-- > 0;)
		if (last->threads[i].pid == s->info.pid && last->threads[i].tid == s->info.tid)
			return &last->threads[i];
	if (!LIST_ADD(last->threads, last->count)) {
		last->full = true;
		return NULL;
	}
	t = &last->threads[last->count - 1];
	t->pid = s->info.pid;
	t->tid = s->info.tid;
	return t;
}

static void filter_row(void *view, const void *row)
{
	struct script *s = view;
	struct last_thread *t = thread_of(s);

	if (!t)
		return;
	if (s->last->counting) {
		t->rows++;
		return;
	}
	if (t->passed + s->last->wanted >= t->rows)
		s->last->renderer->row(view, row);
	t->passed++;
}

bool script_is_shown(struct script *s)
{
	const struct last_thread *t = !s->last || s->last->counting ? NULL : thread_of(s);

	return !s->last || (t && t->passed + s->last->wanted >= t->rows);
}

static void filter_event(void *view, const void *event)
{
	struct script *s = view;

	if (script_is_shown(s))
		s->last->renderer->event(view, event);
}

int script_new_last(struct script *s, uint64_t wanted)
{
	s->last = calloc(1, sizeof(*s->last));
	if (!s->last)
		return PTAH_E_NOMEM;
	s->last->wanted = wanted;
	s->last->renderer = s->renderer;
	s->last->filter = *s->renderer;
	s->last->filter.row = filter_row;
	s->last->filter.event = filter_event;
	s->renderer = &s->last->filter;
	return 0;
}

void script_free_last(struct script *s)
{
	if (!s->last)
		return;
	free(s->last->threads);
	free(s->last);
}

bool script_is_counting(const struct script *s)
{
	return s->last && s->last->counting;
}

/* Whether all threads that ran in the stream have rows enough: one more, for the first is cut. */
static bool has_enough(const struct script *s, size_t stream)
{
	const struct script_last *last = s->last;
	struct ptah_thread thread;
	size_t threads = 0;

	for (size_t i = 0; !ptah_session_stream_thread(s->session, stream, i, &thread); i++)
		threads += thread.tid > 0;
	for (size_t i = 0; i < last->count; i++)
		if (last->threads[i].rows <= last->wanted)
			return false;
	return last->count && last->count >= threads;
}

/* Decodes the last `span` bytes. */
static int read_end(struct script *s, size_t stream, uint64_t bytes, uint64_t span,
		    struct progress *progress)
{
	const struct ptah_window window = {.size = sizeof(window),
					   .until = UINT64_MAX,
					   .last = UINT64_MAX,
					   .offset = bytes > span ? bytes - span : 0};
	const int status = ptah_session_set_window(s->own_session, &window);

	if (status < 0)
		return status;
	return s->mode->take ? script_read_stream(s, stream, progress)
			     : script_read_calls(s, stream, progress);
}

/* With --calls the items have not been read: finds what ended the thread. */
static int read_ending(struct script *s, size_t stream)
{
	struct ptah_item items[256], end = {0};
	int n = ptah_reader_new(s->session, stream, NULL, &s->reader);

	if (n < 0)
		return n;
	while ((n = ptah_reader_read(s->reader, items, ARRAY_SIZE(items))) > 0)
		end = items[n - 1];
	script_put_ending(s, &end);
	ptah_reader_free(s->reader);
	return n;
}

int script_last_of_stream(struct script *s, size_t stream, struct progress *progress)
{
	struct script_last *last = s->last;
	const uint64_t errors = s->errors;
	struct ptah_stream_info info;
	uint64_t span = FIRST_SPAN;
	int status = ptah_session_stream_info(s->session, stream, &info);

	last->counting = true;
	while (status >= 0) {
		last->count = 0;
		status = read_end(s, stream, info.bytes, span, progress);
		if (span >= info.bytes || has_enough(s, stream))
			break;
		span *= 8;
	}
	last->counting = false;
	s->errors = errors;
	if (status >= 0)
		status = read_end(s, stream, info.bytes, span, progress);
	if (status >= 0 && !s->mode->take)
		status = read_ending(s, stream);
	return status < 0 ? status : last->full ? PTAH_E_NOMEM : 0;
}

/* What ended the thread */

/* Reads the note "SIGSEGV ended process 12 (a) in its thread 13 at 0x401000". */
static bool read_last_note(const char *note, int32_t tid, struct script_ending *ending)
{
	const char *at = strstr(note, " ended process "), *in, *place;
	int32_t pid;

	if (!at || strncmp(note, "SIG", 3) != 0 || at - note >= (ptrdiff_t)sizeof(ending->signal))
		return false;
	ending->pid = pid = (int32_t)strtol(at + 15, NULL, 10);
	in = strstr(at, " in its thread ");
	if ((in ? (int32_t)strtol(in + 15, NULL, 10) : pid) != tid)
		return false;
	snprintf(ending->signal, sizeof(ending->signal), "%.*s", (int)(at - note), note);
	place = strstr(in ? in : at, " at 0x");
	ending->ip_known = place;
	ending->ip = place ? strtoull(place + 6, NULL, 16) : 0;
	return true;
}

static bool find_ending(const struct script *s, struct script_ending *ending)
{
	const char *note;

	*ending = (struct script_ending){.pid = s->info.pid};
	for (size_t i = 0; (note = ptah_session_note(s->session, i)); i++)
		if (read_last_note(note, s->info.tid, ending))
			return true;
	return false;
}

/* The instruction at an address, as the last read had it. False: there is no code. */
static bool find_insn(const struct script *s, const struct ptah_item *at, uint64_t ip,
		      struct ptah_insn *insn)
{
	const struct ptah_item block = {.type = PTAH_ITEM_BLOCK,
					.ip = ip,
					.end = ip + 1,
					.ninsn = 1,
					.mode = at->mode,
					.code.space = s->space == UINT_MAX ? 0 : s->space};

	return ptah_reader_insns(s->reader, &block, insn, 1) == 1;
}

/*
 * The last item of a thread's trace was an asynchronous event: a signal that ended it, or something
 * else that the trace does not name.
 */
void script_put_ending(struct script *s, const struct ptah_item *item)
{
	struct script_ending ending;
	struct ptah_insn insn;

	if (!s->last || s->last->counting || s->info.tid < 0)
		return;
	if (!find_ending(s, &ending) && item->type != PTAH_ITEM_ASYNC_DISABLED)
		return;
	if (!ending.ip_known && item->type == PTAH_ITEM_ASYNC_DISABLED) {
		ending.ip = item->ip;
		ending.ip_known = true;
	}
	ending.insn = ending.ip_known && find_insn(s, item, ending.ip, &insn) ? &insn : NULL;
	script_ending(s, &ending);
}
