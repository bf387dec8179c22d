/* SPDX-License-Identifier: MIT */
/* The answer "events": what is no call (gaps, overflows, errors, signals and so on), as columns. */
#include "view/answers.h"
#include "view/model_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An answer has at most so many: with more, neighbours of one kind are put together. */
#define MOST 20000

static const char *const kinds[VIEW_EVENT_KINDS] = {
    [VIEW_EVENT_GAP] = "gap",	      [VIEW_EVENT_OVERFLOW] = "overflow",
    [VIEW_EVENT_ERROR] = "error",     [VIEW_EVENT_SIGNAL] = "signal",
    [VIEW_EVENT_SYSCALL] = "syscall", [VIEW_EVENT_INTERRUPT] = "interrupt",
    [VIEW_EVENT_EXEC] = "exec",	      [VIEW_EVENT_BEGIN] = "begin",
    [VIEW_EVENT_END] = "end",
};

struct events {
	struct view_event *list;
	size_t count;
	bool complete;
};

/*
 * Copies the events in a window to `list`, those of a kind that begin in the same unit as one. 1:
 * more than MOST. With the thread's lock.
 */
static int collect(const struct view_thread *t, enum log_axis axis, uint64_t from, uint64_t to,
		   uint64_t unit, struct events *events)
{
	size_t last[VIEW_EVENT_KINDS];

	memset(last, 0xff, sizeof(last));
	events->count = 0;
	for (size_t i = 0; i < t->event_count; i++) {
		const struct view_event *e = &t->events[i];
		size_t *same = &last[e->kind];

		if (e->end[axis] < from || e->at[axis] > to)
			continue;
		if (*same != SIZE_MAX &&
		    events->list[*same].at[axis] / unit == e->at[axis] / unit) {
			events->list[*same].end[axis] = e->end[axis];
			events->list[*same].count += e->count;
			continue;
		}
		if (events->count == MOST)
			return 1;
		*same = events->count;
		events->list[events->count++] = *e;
	}
	return 0;
}

static int read_events(struct view_thread *t, enum log_axis axis, uint64_t from, uint64_t to,
		       uint64_t *unit, struct events *events)
{
	events->list = malloc(MOST * sizeof(*events->list));
	if (!events->list)
		return PTAH_E_NOMEM;
	view_lock_read(&t->lock);
	while (collect(t, axis, from, to, *unit, events))
		*unit *= 4;
	events->complete = t->ended;
	view_unlock_read(&t->lock);
	return 0;
}

static void put_event_text(struct json *j, const struct view_event *e)
{
	char text[256] = "";

	if (e->count > 1)
		snprintf(text, sizeof(text), "%" PRIu32 " of them", e->count);
	else if (e->kind == VIEW_EVENT_ERROR)
		snprintf(text, sizeof(text),
			 "%s, at 0x%" PRIx64 ", offset %" PRIu64 " of the trace",
			 ptah_strerror(e->status), e->ip, e->offset);
	else if (e->kind == VIEW_EVENT_OVERFLOW)
		snprintf(text, sizeof(text),
			 "packets were lost; execution goes on at 0x%" PRIx64 ", offset %" PRIu64
			 " of the trace",
			 e->ip, e->offset);
	else if (e->kind == VIEW_EVENT_GAP)
		snprintf(text, sizeof(text), "trace is missing before offset %" PRIu64, e->offset);
	else if (e->ip)
		snprintf(text, sizeof(text), "at 0x%" PRIx64, e->ip);
	json_string(j, NULL, text);
}

static void put_events(struct json *j, enum log_axis axis, uint64_t unit,
		       const struct events *events)
{
	const struct view_event *const list = events->list;

	json_object(j, NULL, true);
	json_number(j, "unit", unit);
	json_bool(j, "complete", events->complete);
	json_array(j, "kind");
	for (size_t i = 0; i < events->count; i++)
		json_string(j, NULL, kinds[list[i].kind]);
	json_end_array(j);
	json_array(j, "at");
	for (size_t i = 0; i < events->count; i++)
		json_number(j, NULL, list[i].at[axis]);
	json_end_array(j);
	json_array(j, "end");
	for (size_t i = 0; i < events->count; i++)
		json_number(j, NULL, list[i].end[axis]);
	json_end_array(j);
	json_array(j, "depth");
	for (size_t i = 0; i < events->count; i++)
		json_number(j, NULL, list[i].depth);
	json_end_array(j);
	json_array(j, "count");
	for (size_t i = 0; i < events->count; i++)
		json_number(j, NULL, list[i].count);
	json_end_array(j);
	json_array(j, "text");
	for (size_t i = 0; i < events->count; i++)
		put_event_text(j, &list[i]);
	json_end_array(j);
	json_end_object(j);
	json_finish(j);
}

int view_answer_events(struct view_model *m, const struct view_query *query,
		       struct view_reply *reply)
{
	struct events events = {0};
	struct view_thread *t;
	enum log_axis axis;
	uint64_t from, to, unit;
	double wanted = 1;
	int status = view_get_thread(m, query, reply, &t);

	if (!status)
		status = view_get_axis(m, query, reply, &axis);
	if (!status)
		status = view_get_window(query, reply, &from, &to);
	if (status)
		return status;
	if (view_query_text(query, "unit") &&
	    (!view_query_real(query, "unit", &wanted) || wanted < 0 || wanted > 9e15))
		return view_refuse(reply, 400, "unit is a length on the axis.");
	unit = wanted < 1 ? 1 : (uint64_t)wanted;
	status = read_events(t, axis, from, to, &unit, &events);
	if (!status)
		put_events(&reply->json, axis, unit, &events);
	free(events.list);
	return status;
}
