/* SPDX-License-Identifier: MIT */
/* ptah script --calls: the beginnings and ends of calls, from a call reader instead of items. */
#include "base/text.h"
#include "script_view.h"
#include "support/list.h"

#include <ptah/calls.h>

#include <stdlib.h>
#include <string.h>

/* Text is indented up to this depth. The depth itself is in the other formats. */
#define MAX_INDENT 64

struct call {
	int32_t tid;
	struct script_time time;
	const char *mark, *how;
	uint64_t depth, id, ip, site, self;
	bool has_site, has_self, has_notes;
	const char *notes; /* what is not certain of the call */
	const char *symbol, *line;
};

static const struct field call_fields[] = {
    FIELD(struct call, "tid", FIELD_SIGNED, tid),
    SCRIPT_TIME_FIELD(struct call),
    FIELD(struct call, "mark", FIELD_STRING, mark),
    FIELD(struct call, "how", FIELD_STRING, how),
    FIELD(struct call, "depth", FIELD_NUMBER, depth),
    FIELD(struct call, "call", FIELD_NUMBER, id),
    FIELD(struct call, "ip", FIELD_ADDRESS, ip),
    {"site", "site", FIELD_ADDRESS, offsetof(struct call, site), 0,
     offsetof(struct call, has_site)},
    {"self_instructions", "self_instructions", FIELD_NUMBER, offsetof(struct call, self), 0,
     offsetof(struct call, has_self)},
    {"notes", "notes", FIELD_STRING, offsetof(struct call, notes), 0,
     offsetof(struct call, has_notes)},
    FIELD_TSV(struct call, "symbol", FIELD_STRING, symbol),
    SCRIPT_SYMBOL_FIELD(struct call, "symbol", symbol),
    SCRIPT_LINE_FIELD(struct call),
    SCRIPT_KIND_FIELD(struct call),
};

static const struct row_type call_type = ROW_TYPE(call_fields);

static void put_call_text(void *view, const void *row)
{
	const struct call *c = row;
	struct script *s = view;

	script_put_prefix(s);
	out_format(s->out, "%-9s ", c->how);
	for (unsigned i = 0; i < c->depth && i < MAX_INDENT; i++)
		out_text(s->out, "  ");
	out_hex(s->out, c->ip);
	script_put_name(s, c->ip);
	if (c->has_notes)
		out_format(s->out, " [%s]", c->notes);
	script_end_row(s, c->line);
}

static void put_call_json(void *view, const void *row)
{
	struct call c = *(const struct call *)row;
	struct script *s = view;
	char text[NAMES_LABEL_MAX];

	c.symbol = script_symbol(s, c.ip, text, sizeof(text));
	fields_json(&s->json, &call_type, s->asked, &c);
}

static void put_call_tsv(void *view, const void *row)
{
	struct call c = *(const struct call *)row;
	struct script *s = view;
	char text[NAMES_LABEL_MAX];

	c.symbol = script_symbol(s, c.ip, text, sizeof(text));
	fields_tsv(s->out, &call_type, s->asked, &c);
}

/* What is not certain of a call, as words with commas. */
static void make_notes(char text[48], unsigned flags)
{
	static const struct {
		unsigned flag;
		const char *word;
	} words[] = {
	    {PTAH_CALL_HAS_LOSS, "loss"},
	    {PTAH_CALL_FOLDED, "folded"},
	    {PTAH_CALL_UNSURE, "unsure"},
	    {PTAH_CALL_NO_BOUNDS, "no-bounds"},
	};

	text[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!(flags & words[i].flag))
			continue;
		if (text[0])
			strcat(text, ",");
		strcat(text, words[i].word);
	}
}

/* Nothing happens at the end of the trace: calls that are open then are no rows of --last. */
static bool is_left_out(const struct script *s, const struct ptah_call_mark *mark)
{
	return s->last && mark->end && mark->how == PTAH_CALL_END_TRACE;
}

/*
 * Whether a mark is of a call of --function, or below one. With memory short all are shown; the
 * caller has no way to fail here.
 */
static bool is_inside(struct script *s, const struct ptah_call_mark *mark)
{
	uint64_t *inside;

	if (!s->function)
		return true;
	if (!LIST_REACH(s->inside, s->inside_count, s->thread))
		return true;
	inside = &s->inside[s->thread];
	if (!*inside && !mark->end && script_is_wanted(s, mark->function))
		*inside = mark->id;
	if (*inside != mark->id || !mark->end)
		return *inside;
	*inside = 0;
	return true;
}

static void put_call_mark(struct script *s, const struct ptah_call_mark *mark)
{
	char notes[48];
	const struct call c = {
	    .tid = s->info.tid,
	    .time = s->now,
	    .mark = mark->end ? "end" : "begin",
	    .how = ptah_call_how_name(mark->end, mark->how),
	    .depth = mark->depth,
	    .id = mark->id,
	    .ip = mark->function,
	    .site = mark->site,
	    .has_site = mark->site,
	    .self = mark->self.instructions,
	    .has_self = mark->end,
	    .notes = notes,
	    .has_notes = mark->flags & (PTAH_CALL_HAS_LOSS | PTAH_CALL_FOLDED | PTAH_CALL_UNSURE |
					PTAH_CALL_NO_BOUNDS),
	    /* Where it was called, and where it was left. */
	    .line = script_source_line(s, mark->site ? mark->site : mark->function),
	};

	make_notes(notes, mark->flags);
	s->renderer->row(s, &c);
}

static void follow_call_thread(struct script *s, const struct ptah_call_thread *thread)
{
	struct ptah_stream_info info = {
	    .pid = thread->pid, .tid = thread->tid, .space = thread->space};

	if (s->has_thread && s->thread == thread->number && s->info.tid == thread->tid)
		return;
	s->has_thread = true;
	s->thread = thread->number;
	memcpy(info.comm, thread->comm, sizeof(info.comm));
	text_clean(info.comm);
	script_begin_thread(s, &info);
	if (thread->number >= s->appeared)
		script_put_hits(s);
	if (thread->number >= s->appeared)
		s->appeared = thread->number + 1;
}

static void take_call_batch(struct script *s, const struct ptah_call_batch *batch)
{
	follow_call_thread(s, batch->thread);
	for (size_t i = 0; i < batch->count; i++) {
		const struct ptah_call_mark *mark = &batch->marks[i];

		s->info.space = ptah_call_thread_space(batch->thread, mark->space);
		script_put_samples(s, mark->tsc, false);
		script_set_time(s, mark->tsc);
		if (is_inside(s, mark) && !is_left_out(s, mark))
			put_call_mark(s, mark);
	}
	if (batch->event) {
		script_put_samples(s, batch->event->tsc, false);
		script_set_time(s, batch->event->tsc);
		script_take_event(s, batch->event);
		if (batch->event->type == PTAH_ITEM_DISABLED)
			script_put_samples(s, batch->event->tsc, true);
	}
	if (batch->ended)
		script_end_samples(s, SIZE_MAX);
}

struct context {
	const struct script *script;
	size_t only; /* the stream to read; SIZE_MAX: all that are chosen */
};

static bool wants_call_stream(void *context, size_t stream)
{
	const struct context *c = context;

	return (c->only == SIZE_MAX || stream == c->only) &&
	       input_wants(c->script->input, c->script->session, stream);
}

static int read_call_batches(struct script *s, struct ptah_call_reader *reader,
			     struct progress *progress)
{
	const struct ptah_call_batch *batch;
	int status = 0;

	while (!interrupted() && !out_failed(s->out) &&
	       (status = ptah_call_reader_next(reader, &batch)) > 0) {
		take_call_batch(s, batch);
		progress_at(progress, ptah_call_reader_offset(reader));
	}
	return status < 0 ? status : 0;
}

int script_read_calls(struct script *s, size_t stream, struct progress *progress)
{
	struct context context = {.script = s, .only = stream};
	const struct ptah_call_reader_config config = {
	    .size = sizeof(config),
	    .wants = wants_call_stream,
	    .context = &context,
	    .events = s->events,
	    .jobs = input_jobs(s->input, 1),
	    .workers = s->workers,
	};
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(s->session, &config, &reader);

	if (status >= 0) {
		status = read_call_batches(s, reader, progress);
		ptah_call_reader_free(reader);
	}
	return status;
}

const struct script_mode script_calls = {
    .option = "--calls",
    .array = "calls",
    .type = &call_type,
    .event_ip = "ip",
    .event_words = "symbol",
    .renderers = {[FORMAT_TEXT] = {.row = put_call_text,
				   .event = script_event_text,
				   .offered = true},
		  [FORMAT_JSON] = {.row = put_call_json, SCRIPT_SHARED_JSON},
		  [FORMAT_TSV] = {.row = put_call_tsv, SCRIPT_SHARED_TSV}},
};
