/* SPDX-License-Identifier: MIT */
/* Prints events, errors and losses between the lines of `ptah script`. */
#include "output/items.h"
#include "output/pretty.h"
#include "script_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool script_is_loss(const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_ERROR || item->type == PTAH_ITEM_OVERFLOW ||
	       item->type == PTAH_ITEM_GAP;
}

/* An address of 0 means that there is none, but not where the program was interrupted: at 0, too.
 */
static bool has_ip(const struct ptah_item *item)
{
	return item->ip || item->type == PTAH_ITEM_ASYNC_DISABLED ||
	       item->type == PTAH_ITEM_ASYNC_BRANCH;
}

void script_event_text(void *view, const void *event)
{
	struct script *s = view;
	const struct ptah_item *item = event;

	script_put_prefix(s);
	pretty_style(s->out, script_is_loss(item) ? PRETTY_BAD : PRETTY_FAINT);
	out_format(s->out, "# %s", ptah_item_name(item->type));
	if (item->type == PTAH_ITEM_ERROR && item->flags & PTAH_ITEM_IP_SUPPRESSED)
		out_format(s->out, ": %s; last at an unknown address", ptah_strerror(item->status));
	else if (item->type == PTAH_ITEM_ERROR)
		out_format(s->out, ": %s; last at 0x%" PRIx64, ptah_strerror(item->status),
			   item->ip);
	else if (has_ip(item))
		out_format(s->out, " 0x%" PRIx64, item->ip);
	item_fields_text(s->out, item);
	if (item->tsc)
		out_format(s->out, " tsc %" PRIu64, item->tsc);
	out_format(s->out, " offset 0x%" PRIx64, item->offset);
	pretty_style(s->out, PRETTY_PLAIN);
	out_char(s->out, '\n');
}

void script_event_json(void *view, const void *event)
{
	struct script *s = view;
	const struct ptah_item *item = event;

	json_object(&s->json, NULL, true);
	json_signed(&s->json, "tid", s->info.tid);
	if (s->now.known)
		json_seconds(&s->json, "time_s", s->now.ns);
	json_string(&s->json, "event", ptah_item_name(item->type));
	json_number(&s->json, "offset", item->offset);
	if (item->type == PTAH_ITEM_ERROR)
		json_string(&s->json, "error", ptah_error_name(item->status));
	if (has_ip(item))
		json_address(&s->json, "ip", item->ip);
	item_fields_json(&s->json, item);
	if (item->tsc)
		json_number(&s->json, "tsc", item->tsc);
	json_end_object(&s->json);
}

static void put_script_event_words(struct script *s, const void *event)
{
	const struct ptah_item *item = event;

	out_format(s->out, "# %s", ptah_item_name(item->type));
	if (item->type == PTAH_ITEM_ERROR)
		out_format(s->out, " %s", ptah_error_name(item->status));
	item_fields_text(s->out, item);
}

void script_put_event_tsv(struct script *s, uint64_t ip,
			  void (*put)(struct script *s, const void *event), const void *event)
{
	const struct row_type *type = s->mode->type;

	for (size_t i = 0; i < type->count; i++) {
		const char *column = type->fields[i].tsv;

		if (!fields_has_column(&type->fields[i], s->asked))
			continue;
		if (i)
			out_char(s->out, '\t');
		if (!strcmp(column, "tid"))
			out_signed(s->out, s->info.tid);
		else if (!strcmp(column, "time_s") && s->now.known)
			out_seconds(s->out, s->now.ns);
		else if (!strcmp(column, "times") && s->now.kind)
			out_text(s->out, s->now.kind);
		else if (!strcmp(column, s->mode->event_ip))
			out_format(s->out, "0x%" PRIx64, ip);
		else if (!strcmp(column, s->mode->event_words))
			put(s, event);
	}
	out_char(s->out, '\n');
}

void script_event_tsv(void *view, const void *event)
{
	struct script *s = view;
	const struct ptah_item *item = event;

	/* programs get rows of another kind only on request */
	if (s->events)
		script_put_event_tsv(s, item->ip, put_script_event_words, item);
}

static void put_hit(struct script *s, const struct ptah_hit *hit)
{
	if (s->input->format == FORMAT_TEXT) {
		script_put_prefix(s);
		pretty_style(s->out, PRETTY_BAD);
		out_text(s->out, "# hit: ");
		out_clean(s->out, hit->text);
		if (hit->time)
			out_text(s->out, ", at ");
		if (hit->time)
			out_seconds(s->out, hit->time);
		pretty_style(s->out, PRETTY_PLAIN);
		out_char(s->out, '\n');
	} else if (s->input->format == FORMAT_JSON) {
		json_object(&s->json, NULL, true);
		json_signed(&s->json, "tid", s->info.tid);
		json_string(&s->json, "event", "hit");
		json_string(&s->json, "text", hit->text);
		if (hit->time)
			json_seconds(&s->json, "time_s", hit->time);
		json_end_object(&s->json);
	}
}

void script_put_hits(struct script *s)
{
	struct ptah_hit hit = {.size = sizeof(hit)};

	for (size_t i = 0; ptah_session_hit(s->session, i, &hit) >= 0; i++) {
		const int32_t tid = hit.tid > 0 ? hit.tid : hit.pid;

		if (tid <= 0 || tid == s->info.tid)
			put_hit(s, &hit);
	}
}

static void put_ending_text(struct script *s, const struct script_ending *e)
{
	const struct script_line *line = e->insn ? script_find_line(s, e->insn) : NULL;

	script_put_prefix(s);
	if (*e->signal)
		out_format(s->out, "# %s ended process %d", e->signal, e->pid);
	else
		out_text(s->out, "# the trace ends by an asynchronous event");
	if (e->ip_known)
		out_text(s->out, " at ");
	if (line) {
		out_bytes(s->out, s->pool + line->text, line->length - 1);
	} else if (e->ip_known) {
		out_hex(s->out, e->ip);
		script_put_name(s, e->ip);
	}
	script_end_row(s, e->ip_known ? script_source_line(s, e->ip) : NULL);
}

static void put_ending_json(struct script *s, const struct script_ending *e)
{
	const struct script_line *line = e->insn ? script_find_line(s, e->insn) : NULL;
	char text[512];

	json_object(&s->json, NULL, true);
	json_signed(&s->json, "tid", s->info.tid);
	json_string(&s->json, "event", "end");
	if (*e->signal)
		json_string(&s->json, "signal", e->signal);
	if (e->ip_known) {
		json_address(&s->json, "ip", e->ip);
		json_string(&s->json, "symbol", script_symbol(s, e->ip, text, sizeof(text)));
		json_string(&s->json, "line", script_source_line(s, e->ip));
	}
	if (line) {
		snprintf(text, sizeof(text), "%.*s", (int)(line->length - line->code - 1),
			 s->pool + line->text + line->code);
		json_string(&s->json, "instruction", text);
	}
	json_end_object(&s->json);
}

void script_ending(struct script *s, const struct script_ending *ending)
{
	if (s->input->format == FORMAT_TEXT)
		put_ending_text(s, ending);
	else if (s->input->format == FORMAT_JSON)
		put_ending_json(s, ending);
}
