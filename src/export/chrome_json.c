/* SPDX-License-Identifier: MIT */
/*
 * The trace events of Chrome, as JSON: an object for each event on a line of its own. Times are
 * microseconds, with three digits after the point.
 */
#include "export/formats.h"

#include "output/json.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

struct chrome {
	struct out *out;
	bool begun; /* an event has been written */
};

static int chrome_begin(struct out *out, const struct timeline_recording *recording, void **writer)
{
	struct chrome *c = calloc(1, sizeof(*c));

	*writer = c;
	if (!c)
		return PTAH_E_NOMEM;
	c->out = out;
	out_text(out,
		 "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"producer\":\"ptah\",\"clock\":");
	out_text(out, recording->instructions ? "\"instructions\"" : "\"perf\"");
	if (recording->times) {
		out_text(out, ",\"times\":");
		json_text(out, recording->times);
	}
	if (recording->command) {
		out_text(out, ",\"command\":");
		json_text(out, recording->command);
	}
	out_text(out, "},\"traceEvents\":[");
	return 0;
}

/* Begins an object with what all have. */
static void begin_object(struct chrome *c, char phase, const struct timeline_thread *thread)
{
	out_text(c->out, c->begun ? ",\n{\"ph\":\"" : "\n{\"ph\":\"");
	c->begun = true;
	out_char(c->out, phase);
	out_text(c->out, "\",\"pid\":");
	out_signed(c->out, thread->pid);
	out_text(c->out, ",\"tid\":");
	out_signed(c->out, thread->tid);
}

static void put_name(struct chrome *c, const char *key, char phase,
		     const struct timeline_thread *thread)
{
	begin_object(c, phase, thread);
	out_text(c->out, ",\"name\":\"");
	out_text(c->out, key);
	out_text(c->out, "\",\"args\":{\"name\":");
	json_text(c->out, thread->comm);
	out_text(c->out, "}}");
}

static int chrome_thread(void *writer, const struct timeline_thread *thread)
{
	struct chrome *c = writer;

	if (thread->tid == thread->pid)
		put_name(c, "process_name", 'M', thread);
	put_name(c, "thread_name", 'M', thread);
	return 0;
}

static void put_time(struct chrome *c, uint64_t ns)
{
	const unsigned rest = (unsigned)(ns % 1000);
	const char digits[] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
			       (char)('0' + rest % 10)};

	out_text(c->out, ",\"ts\":");
	out_decimal(c->out, ns / 1000);
	out_bytes(c->out, digits, sizeof(digits));
}

/* Ends an object. `function`: a further detail, or NULL. */
static void end_object(struct chrome *c, const struct timeline_event *e, const char *function)
{
	out_text(c->out, ",\"args\":{");
	if (function) {
		out_text(c->out, "\"function\":");
		json_text(c->out, function);
	}
	for (size_t i = 0; i < e->detail_count; i++) {
		if (i || function)
			out_char(c->out, ',');
		json_text(c->out, e->details[i].name);
		out_char(c->out, ':');
		if (e->details[i].text)
			json_text(c->out, e->details[i].text);
		else
			out_decimal(c->out, e->details[i].number);
	}
	out_text(c->out, "}}");
}

static void put_instant(struct chrome *c, const struct timeline_event *e, const char *name,
			const char *function)
{
	begin_object(c, 'i', e->thread);
	put_time(c, e->at);
	out_text(c->out, ",\"name\":");
	json_text(c->out, name);
	out_text(c->out, ",\"cat\":\"event\",\"s\":\"t\""); /* it is of the thread */
	end_object(c, e, function);
}

/*
 * Calls have no details here. speedscope makes them a part of the name, and looks for the beginning
 * of an end by the name.
 */
static void put_call(struct chrome *c, const struct timeline_event *e)
{
	begin_object(c, e->kind == TIMELINE_BEGIN ? 'B' : 'E', e->thread);
	put_time(c, e->at);
	out_text(c->out, ",\"name\":");
	json_text(c->out, e->function ? e->function->name : e->name);
	if (e->kind == TIMELINE_BEGIN) {
		out_text(c->out, ",\"cat\":");
		json_text(c->out, e->function ? e->function->object : "event");
	}
	out_char(c->out, '}');
}

static int chrome_event(void *writer, const struct timeline_event *e)
{
	struct chrome *c = writer;

	if (e->kind == TIMELINE_INSTANT) {
		put_instant(c, e, e->name, NULL);
		return 0;
	}
	/* Inside of the call. */
	if (e->kind == TIMELINE_END && e->noted)
		put_instant(c, e, "incomplete call", e->function->name);
	put_call(c, e);
	if (e->kind == TIMELINE_BEGIN && e->noted)
		put_instant(c, e, "incomplete call", e->function->name);
	return 0;
}

static int chrome_end(void *writer)
{
	struct chrome *c = writer;

	out_text(c->out, "\n]}\n");
	return 0;
}

const struct timeline_format export_chrome_json = {
    .max_depth = TIMELINE_PERFETTO_DEPTH,
    .begin = chrome_begin,
    .thread = chrome_thread,
    .event = chrome_event,
    .end = chrome_end,
    .free = free,
};
