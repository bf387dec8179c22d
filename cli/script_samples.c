/* SPDX-License-Identifier: MIT */
/*
 * Samples of other events and system calls between the rows of `ptah script`. Each thread has a
 * place in its samples, from which those that are earlier than the next row are printed. A system
 * call is printed where tracing goes off for it, so that its row stands after the instruction that
 * made it.
 */
#include "output/pretty.h"
#include "script_view.h"

#include "base/text.h"
#include "support/list.h"

#include <ptah/session.h>
#include <ptah/waits.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sample_cursor {
	int32_t tid;
	size_t next; /* SIZE_MAX: there are no more */
	bool begun;  /* a row of it has come */
};

struct script_samples {
	struct ptah_syscalls *calls;
	struct sample_cursor *cursors;
	size_t count;
	bool part;	 /* of a window or --last: what is before the first row is left out */
	bool only_calls; /* without --events */
	uint64_t until;	 /* nanoseconds; the end of the window. 0: it ends with an instruction */
	bool failed;	 /* out of memory */
};

bool script_wants_samples(const struct script *s, int format)
{
	return s->events || (!s->mode->take && format == FORMAT_TEXT);
}

int script_new_samples(struct script *s)
{
	struct script_samples *samples;
	struct ptah_window window = {.size = sizeof(window)};
	int status;

	if (!script_wants_samples(s, s->input->format) || !ptah_session_samples(s->session))
		return 0;
	samples = calloc(1, sizeof(*samples));
	if (!samples)
		return PTAH_E_NOMEM;
	s->samples = samples;
	samples->only_calls = !s->events;
	samples->part = ptah_session_get_window(s->session, &window) || s->last;
	samples->until = window.until < UINT64_MAX && samples->part
			     ? ptah_session_time(s->session, window.until)
			     : UINT64_MAX;
	if (samples->part && window.last < UINT64_MAX)
		samples->until = 0;
	status = ptah_syscalls_new(s->session, &samples->calls);
	if (status >= 0 && samples->only_calls && !ptah_syscalls_count(samples->calls))
		script_free_samples(s);
	return status;
}

void script_free_samples(struct script *s)
{
	if (!s->samples)
		return;
	ptah_syscalls_free(s->samples->calls);
	free(s->samples->cursors);
	free(s->samples);
	s->samples = NULL;
}

/* The place of the current thread. NULL: out of memory. */
static struct sample_cursor *find_cursor(struct script *s)
{
	struct script_samples *samples = s->samples;

	/* The one of the last row stands first. */
	for (size_t i = 0; i < samples->count; i++) {
		const struct sample_cursor found = samples->cursors[i];

		if (found.tid != s->info.tid)
			continue;
		samples->cursors[i] = samples->cursors[0];
		samples->cursors[0] = found;
		return samples->cursors;
	}
	if (!LIST_ADD(samples->cursors, samples->count))
		return NULL;
	samples->cursors[samples->count - 1] = samples->cursors[0];
	samples->cursors[0] = (struct sample_cursor){
	    .tid = s->info.tid,
	    .next = ptah_session_next_sample(s->session, s->info.tid, SIZE_MAX)};
	return samples->cursors;
}

/* Writes the fields of a sample: " prev_comm "bash" prev_pid 4711". */
static void put_field_text(struct script *s, const struct ptah_sample_field *field)
{
	char text[256];
	const size_t n = field->count < sizeof(text) - 1 ? field->count : sizeof(text) - 1;

	out_char(s->out, ' ');
	out_clean(s->out, field->name);
	out_char(s->out, ' ');
	switch (field->kind) {
	case PTAH_FIELD_SIGNED:
		out_format(s->out, "%" PRId64, (int64_t)field->number);
		break;
	case PTAH_FIELD_UNSIGNED:
		out_format(s->out, field->number > UINT32_MAX ? "0x%" PRIx64 : "%" PRIu64,
			   field->number);
		break;
	case PTAH_FIELD_TEXT:
		if (n)
			memcpy(text, field->bytes, n);
		text[n] = '\0';
		out_char(s->out, '"');
		out_clean(s->out, text);
		out_char(s->out, '"');
		break;
	default:
		for (size_t i = 0; i < field->count && i < 64; i++)
			out_format(s->out, "%02x", field->bytes[i]);
		break;
	}
}

/* What a sample of the event did to the trace; NULL: nothing. */
static const char *action_of(const struct ptah_sample_event *event)
{
	return event->aux_action & 2 ? "pause" : event->aux_action & 4 ? "resume" : NULL;
}

static void put_sample_words(struct script *s, const void *event)
{
	const struct ptah_sample *sample = event;
	struct ptah_sample_event info = {.size = sizeof(info)};
	struct ptah_sample_field field = {.size = sizeof(field)};
	size_t i = 0;

	ptah_session_event(s->session, sample->event, &info);
	out_text(s->out, "# ");
	out_clean(s->out, info.name);
	if (action_of(&info))
		out_format(s->out, " (%ss the trace)", action_of(&info));
	if (sample->cpu >= 0)
		out_format(s->out, " cpu %d", sample->cpu);
	if (sample->ip && !info.fields)
		out_format(s->out, " ip 0x%" PRIx64, sample->ip);
	if (sample->address)
		out_format(s->out, " address 0x%" PRIx64, sample->address);
	if (sample->period > 1)
		out_format(s->out, " period %" PRIu64, sample->period);
	while (ptah_sample_field(s->session, sample, i++, &field) >= 0)
		put_field_text(s, &field);
}

static void put_field_json(struct script *s, const struct ptah_sample_field *field)
{
	char text[1024];
	size_t n = field->count;

	switch (field->kind) {
	case PTAH_FIELD_SIGNED:
		json_signed(&s->json, field->name, (int64_t)field->number);
		break;
	case PTAH_FIELD_UNSIGNED:
		json_number(&s->json, field->name, field->number);
		break;
	case PTAH_FIELD_TEXT:
		n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
		if (n)
			memcpy(text, field->bytes, n);
		text[n] = '\0';
		json_string(&s->json, field->name, text);
		break;
	default:
		text[0] = '\0';
		for (size_t i = 0; i < n && i < sizeof(text) / 2 - 1; i++)
			snprintf(text + 2 * i, 3, "%02x", field->bytes[i]);
		json_string(&s->json, field->name, text);
		break;
	}
}

static void begin_script_sample_json(struct script *s, const char *event)
{
	json_object(&s->json, NULL, true);
	json_signed(&s->json, "tid", s->info.tid);
	if (s->now.known)
		json_seconds(&s->json, "time_s", s->now.ns);
	json_string(&s->json, "event", event);
}

static void put_sample_json(struct script *s, const struct ptah_sample *sample)
{
	struct ptah_sample_event info = {.size = sizeof(info)};
	struct ptah_sample_field field = {.size = sizeof(field)};
	size_t i = 0;

	ptah_session_event(s->session, sample->event, &info);
	begin_script_sample_json(s, info.name);
	if (sample->cpu >= 0)
		json_signed(&s->json, "cpu", sample->cpu);
	if (sample->ip)
		json_address(&s->json, "ip", sample->ip);
	if (sample->address)
		json_address(&s->json, "address", sample->address);
	json_number(&s->json, "period", sample->period);
	if (action_of(&info))
		json_string(&s->json, "aux_action", action_of(&info));
	json_object(&s->json, "fields", true);
	while (ptah_sample_field(s->session, sample, i++, &field) >= 0)
		put_field_json(s, &field);
	json_end_object(&s->json);
	json_end_object(&s->json);
}

/* Text is short enough for a screen; paths may have 4,096 bytes. */
static void put_call_words(struct script *s, const void *event)
{
	char text[1024];

	out_text(s->out, "# ");
	out_clean(s->out,
		  ptah_syscall_text(s->samples->calls, *(const size_t *)event, text, sizeof(text)));
}

static void put_script_sample_call_json(struct script *s, size_t i)
{
	struct ptah_syscall call = {.size = sizeof(call)};
	char text[5120];

	ptah_syscalls_get(s->samples->calls, i, &call);
	begin_script_sample_json(s, "system call");
	json_signed(&s->json, "number", call.number);
	json_string(&s->json, "name", ptah_syscall_name(call.number));
	if (call.flags & PTAH_SYSCALL_ENTERED) {
		json_array(&s->json, "arguments");
		for (unsigned k = 0; k < 6; k++)
			json_address(&s->json, NULL, call.args[k]);
		json_end_array(&s->json);
	}
	if (call.flags & PTAH_SYSCALL_RETURNED)
		json_signed(&s->json, "result", call.result);
	if (call.flags == (PTAH_SYSCALL_ENTERED | PTAH_SYSCALL_RETURNED))
		json_number(&s->json, "ns", call.end - call.begin);
	json_string(&s->json, "text", ptah_syscall_text(s->samples->calls, i, text, sizeof(text)));
	json_end_object(&s->json);
}

static void put_script_sample_entry(struct script *s, uint64_t ip,
				    void (*put)(struct script *s, const void *event),
				    const void *event)
{
	if (s->input->format == FORMAT_TSV) {
		script_put_event_tsv(s, ip, put, event);
		return;
	}
	script_put_prefix(s);
	pretty_style(s->out, PRETTY_FAINT);
	put(s, event);
	pretty_style(s->out, PRETTY_PLAIN);
	out_char(s->out, '\n');
}

static void put_sample(struct script *s, size_t i, const struct ptah_sample *sample)
{
	bool part;
	const size_t call = ptah_syscalls_find(s->samples->calls, i, &part);

	if (!script_is_shown(s))
		return;
	if (call != SIZE_MAX) {
		script_set_time(s, sample->tsc);
		if (s->input->format == FORMAT_JSON)
			put_script_sample_call_json(s, call);
		else
			put_script_sample_entry(s, sample->ip, put_call_words, &call);
	} else if (!s->samples->only_calls && sample->kind == PTAH_SAMPLE_EVENT && !part) {
		script_set_time(s, sample->tsc);
		if (s->input->format == FORMAT_JSON)
			put_sample_json(s, sample);
		else
			put_script_sample_entry(s, sample->ip, put_sample_words, sample);
	}
}

/* Prints, or with `skip` leaves out, those before a time; with `equal` also those at it. */
static void advance(struct script *s, struct sample_cursor *cursor, uint64_t time, bool equal,
		    bool skip)
{
	struct ptah_sample sample = {.size = sizeof(sample)};

	while (cursor->next != SIZE_MAX) {
		ptah_session_sample(s->session, cursor->next, &sample);
		if (sample.time > time || (sample.time == time && !equal))
			return;
		if (!skip)
			put_sample(s, cursor->next, &sample);
		cursor->next = ptah_session_next_sample(s->session, cursor->tid, cursor->next);
	}
}

void script_put_samples(struct script *s, uint64_t tsc, bool off)
{
	struct sample_cursor *cursor;
	uint64_t time;

	if (!s->samples || !tsc)
		return;
	time = ptah_session_time(s->session, tsc);
	cursor = find_cursor(s);
	if (!time || !cursor)
		return;
	advance(s, cursor, time, off, s->samples->part && !cursor->begun);
	cursor->begun = true;
}

/* Whether a later stream is of the same thread, which executed another program. */
static bool continues(const struct script *s, size_t stream)
{
	struct ptah_stream_info info;

	for (size_t i = stream + 1; ptah_session_stream_info(s->session, i, &info) >= 0; i++)
		if (info.tid == s->info.tid)
			return true;
	return false;
}

void script_end_samples(struct script *s, size_t stream)
{
	struct sample_cursor *cursor = s->samples ? find_cursor(s) : NULL;

	if (!cursor || (stream != SIZE_MAX && continues(s, stream)) ||
	    (s->samples->part && !cursor->begun))
		return;
	advance(s, cursor, s->samples->until, true, false);
}
