/* SPDX-License-Identifier: MIT */
/* What `ptah stat` counts beside the trace: samples of other events, and system calls by name. */
#include "stat_view.h"

#include "base/order.h"
#include "output/pretty.h"
#include "support/list.h"

#include <ptah/session.h>
#include <ptah/waits.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct call_count {
	int64_t number;
	uint64_t calls, errors, ns, longest;
};

struct call_counts {
	struct call_count *counts;
	size_t count, room;
};

static struct call_count *count_of(struct call_counts *c, int64_t number)
{
	size_t i = 0;

	while (i < c->count && c->counts[i].number != number)
		i++;
	if (i < c->count)
		return &c->counts[i];
	if (!LIST_ROOM(c->counts, c->count, c->room))
		return NULL;
	c->counts[c->count] = (struct call_count){.number = number};
	return &c->counts[c->count++];
}

/* The longest together first. */
static int compare_counts(const void *a, const void *b)
{
	const struct call_count *x = a, *y = b;

	return COMPARE_THEN(y->ns, x->ns, COMPARE(x->number, y->number));
}

/* Numbers that no kernel has are counted as one, so that a recording cannot make the list long. */
#define OTHER_CALLS (-1)

/* Whether the call began in the session's window. */
static bool is_inside(const struct ptah_session *session, const struct ptah_window *window,
		      const struct ptah_syscall *call)
{
	const uint64_t time = call->begin ? call->begin : call->end;

	return (!window->since || time >= ptah_session_time(session, window->since)) &&
	       (window->until == UINT64_MAX || time <= ptah_session_time(session, window->until));
}

static int count_calls(const struct ptah_session *session, struct call_counts *c)
{
	struct ptah_window window = {.size = sizeof(window)};
	struct ptah_syscall call = {.size = sizeof(call)};
	struct ptah_syscalls *calls;
	int status = ptah_syscalls_new(session, &calls);

	if (status < 0)
		return status;
	ptah_session_get_window(session, &window);
	for (size_t i = 0; ptah_syscalls_get(calls, i, &call) >= 0; i++) {
		const bool timed = call.flags == (PTAH_SYSCALL_ENTERED | PTAH_SYSCALL_RETURNED) &&
				   call.end >= call.begin;
		const uint64_t ns = timed ? call.end - call.begin : 0;
		struct call_count *count;

		if (!is_inside(session, &window, &call))
			continue;
		count = count_of(c, ptah_syscall_name(call.number) ? call.number : OTHER_CALLS);
		if (!count) {
			status = PTAH_E_NOMEM;
			break;
		}
		count->calls++;
		count->ns += ns;
		count->longest = ns > count->longest ? ns : count->longest;
		count->errors +=
		    call.flags & PTAH_SYSCALL_RETURNED && call.result < 0 && call.result >= -4095;
	}
	ptah_syscalls_free(calls);
	if (c->count)
		qsort(c->counts, c->count, sizeof(*c->counts), compare_counts);
	return status;
}

static const char *name_of(const struct call_count *count)
{
	return count->number == OTHER_CALLS ? "others" : ptah_syscall_name(count->number);
}

void stat_put_samples_text(struct out *out, const struct ptah_session *session)
{
	struct ptah_sample_event event = {.size = sizeof(event)};
	struct call_counts c = {0};
	char number[PRETTY_NUMBER];
	bool any = false;

	for (size_t i = 0; ptah_session_event(session, i, &event) >= 0; i++) {
		if (!event.samples)
			continue;
		if (!any)
			out_text(out, "  samples of other events\n");
		any = true;
		out_format(out, "    %39s  ", pretty_number(event.samples, number));
		out_clean(out, event.name);
		out_char(out, '\n');
	}
	if (any && count_calls(session, &c) >= 0 && c.count) {
		out_format(out, "  %-24s %16s %10s %14s %14s\n", "system calls", "calls", "errors",
			   "total, ms", "longest, ms");
		for (size_t i = 0; i < c.count; i++)
			out_format(out, "    %-22s %16s %10" PRIu64 " %14.3f %14.3f\n",
				   name_of(&c.counts[i]), pretty_number(c.counts[i].calls, number),
				   c.counts[i].errors, (double)c.counts[i].ns / 1e6,
				   (double)c.counts[i].longest / 1e6);
	}
	free(c.counts);
}

void stat_put_samples_json(struct json *j, const struct ptah_session *session)
{
	struct ptah_sample_event event = {.size = sizeof(event)};
	struct call_counts c = {0};

	json_array(j, "events");
	for (size_t i = 0; ptah_session_event(session, i, &event) >= 0; i++) {
		json_object(j, NULL, true);
		json_string(j, "name", event.name);
		json_number(j, "samples", event.samples);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "system_calls");
	count_calls(session, &c);
	for (size_t i = 0; i < c.count; i++) {
		json_object(j, NULL, true);
		json_string(j, "name", name_of(&c.counts[i]));
		json_number(j, "calls", c.counts[i].calls);
		json_number(j, "errors", c.counts[i].errors);
		json_number(j, "total_ns", c.counts[i].ns);
		json_number(j, "longest_ns", c.counts[i].longest);
		json_end_object(j);
	}
	json_end_array(j);
	free(c.counts);
}
