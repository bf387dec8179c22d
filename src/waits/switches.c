/* SPDX-License-Identifier: MIT */
/* When threads did not run, and who woke them: context switches and wake-ups of the samples. */
#include "waits/waits.h"

#include "base/order.h"
#include "session/session.h"
#include "session/samples.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* What the samples of an event say. */
enum role {
	ROLE_NONE,
	ROLE_SWITCH,
	ROLE_WAKEUP
};

struct reading {
	struct ptah_waits *waits;
	uint8_t *roles;
	bool has_records; /* PERF_RECORD_SWITCH: tracepoints say the same again */
};

static int take_switch(struct reading *r, int32_t pid, int32_t tid, uint64_t time, bool out,
		       bool preempted)
{
	return absences_switch(&r->waits->absences, pid, tid, time, out, preempted);
}

static int64_t field_of(const struct reading *r, const struct ptah_sample *sample, const char *name)
{
	struct ptah_sample_field field = {.size = sizeof(field)};

	return sample_find_field(r->waits->session, sample, name, &field) < 0
		   ? -1
		   : (int64_t)field.number;
}

/* sched:sched_switch is of both threads. A task that could run on has the state 0. */
static int take_sched_switch(struct reading *r, const struct ptah_sample *sample)
{
	const int32_t prev = (int32_t)field_of(r, sample, "prev_pid");
	const int32_t next = (int32_t)field_of(r, sample, "next_pid");
	const bool preempted = !(field_of(r, sample, "prev_state") & 0xff);
	int status = take_switch(r, sample->pid, prev, sample->time, true, preempted);

	return status < 0 ? status : take_switch(r, -1, next, sample->time, false, false);
}

static int take_wakeup(struct reading *r, const struct ptah_sample *sample)
{
	struct ptah_waits *w = r->waits;

	if (!LIST_ROOM(w->wakeups, w->wakeup_count, w->wakeup_capacity))
		return PTAH_E_NOMEM;
	w->wakeups[w->wakeup_count++] = (struct wakeup){.tid = (int32_t)field_of(r, sample, "pid"),
							.waker_tid = sample->tid,
							.waker_pid = sample->pid,
							.time = sample->time};
	return 0;
}

static int list_roles(struct reading *r)
{
	const struct ptah_session *session = r->waits->session;
	const size_t n = session_events(session);
	struct ptah_sample_event event = {.size = sizeof(event)};

	r->roles = calloc(n + 1, 1);
	if (!r->roles)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++) {
		ptah_session_event(session, i, &event);
		if (!strcmp(event.name, "sched:sched_switch"))
			r->roles[i] = ROLE_SWITCH;
		else if (!strcmp(event.name, "sched:sched_wakeup") ||
			 !strcmp(event.name, "sched:sched_waking"))
			r->roles[i] = ROLE_WAKEUP;
	}
	return 0;
}

static int take_sample(struct reading *r, const struct ptah_sample *sample)
{
	const size_t events = session_events(r->waits->session);
	const uint8_t role = sample->event < events ? r->roles[sample->event] : ROLE_NONE;

	if (sample->kind != PTAH_SAMPLE_EVENT)
		return take_switch(r, sample->pid, sample->tid, sample->time,
				   sample->kind != PTAH_SAMPLE_SWITCH_IN,
				   sample->kind == PTAH_SAMPLE_SWITCH_PREEMPTED);
	if (role == ROLE_SWITCH && !r->has_records)
		return take_sched_switch(r, sample);
	return role == ROLE_WAKEUP ? take_wakeup(r, sample) : 0;
}

static int compare_wakeups(const void *a, const void *b)
{
	const struct wakeup *x = a, *y = b;

	return COMPARE_THEN(x->tid, y->tid, COMPARE(x->time, y->time));
}

int switches_read(struct ptah_waits *w)
{
	const size_t n = ptah_session_samples(w->session);
	struct ptah_sample sample = {.size = sizeof(sample)};
	struct reading r = {.waits = w};
	int status = list_roles(&r);

	w->last_time = ptah_session_time(w->session, w->session->end);
	for (size_t i = 0; i < n && status >= 0 && !r.has_records; i++) {
		ptah_session_sample(w->session, i, &sample);
		r.has_records = sample.kind != PTAH_SAMPLE_EVENT;
	}
	for (size_t i = 0; i < n && status >= 0; i++) {
		ptah_session_sample(w->session, i, &sample);
		status = take_sample(&r, &sample);
		w->last_time = sample.time > w->last_time ? sample.time : w->last_time;
	}
	/* Who has not come back was away until the end. */
	for (size_t i = 0; i < w->absences.count; i++) {
		const struct absences *t = &w->absences.threads[i];

		if (t->count && t->list[t->count - 1].to == UINT64_MAX)
			t->list[t->count - 1].to = w->last_time;
	}
	if (w->wakeup_count)
		qsort(w->wakeups, w->wakeup_count, sizeof(*w->wakeups), compare_wakeups);
	free(r.roles);
	return status;
}

const struct wakeup *switches_wakeup(const struct ptah_waits *w, int32_t tid, uint64_t from,
				     uint64_t to)
{
	size_t at;

	/* Finds the first that is later than `to`. */
	BISECT(at, 0, w->wakeup_count,
	       w->wakeups[at].tid < tid ||
		   (w->wakeups[at].tid == tid && w->wakeups[at].time <= to));
	if (!at || w->wakeups[at - 1].tid != tid || w->wakeups[at - 1].time <= from)
		return NULL;
	return &w->wakeups[at - 1];
}
