/* SPDX-License-Identifier: MIT */
/* Keeps when threads were on no processor (absences.h). */
#include "session/absences.h"

#include "base/order.h"
#include "session/session.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* A session that grows keeps so many of a thread at least, for what is yet to be decoded. */
#define KEPT 4096

static uint64_t length_of(const struct absence *a)
{
	return a->to == UINT64_MAX || a->lost ? 0 : a->to - a->from;
}

/* The sums are those of all absences, also of those that are forgotten. */
static void forget_oldest(struct absences *t)
{
	if (t->count < 2 * KEPT)
		return;
	memmove(t->list, t->list + (t->count - KEPT), KEPT * sizeof(*t->list));
	t->count = KEPT;
}

static int add_absence(struct absences *t, const struct absence *new)
{
	struct absence *a;

	if (!LIST_ROOM(t->list, t->count, t->capacity))
		return PTAH_E_NOMEM;
	a = &t->list[t->count];
	*a = *new;
	if (t->count) {
		const uint64_t last = length_of(a - 1);

		a->before = a[-1].before + last;
		a->preempted_before = a[-1].preempted_before + (a[-1].preempted ? last : 0);
	}
	t->count++;
	return 0;
}

static struct absences *find_or_add(struct absence_lists *all, int32_t pid, int32_t tid)
{
	struct absences *t = absences_find(all, tid);

	if (t)
		return t;
	if (!LIST_ROOM(all->threads, all->count, all->capacity))
		return NULL;
	if (table_set(&all->by_tid, (uint32_t)tid, all->count) < 0)
		return NULL;
	all->threads[all->count] = (struct absences){.pid = pid, .tid = tid};
	return &all->threads[all->count++];
}

int absences_switch(struct absence_lists *lists, int32_t pid, int32_t tid, uint64_t time, bool out,
		    bool preempted)
{
	struct absences *t;
	struct absence *last;

	if (tid <= 0)
		return 0;
	t = find_or_add(lists, pid, tid);
	if (!t)
		return PTAH_E_NOMEM;
	if (pid >= 0)
		t->pid = pid;
	last = t->count ? &t->list[t->count - 1] : NULL;
	/* Switches come in the order of time; one that does not says nothing. */
	if (last && (time < last->from || (last->to != UINT64_MAX && time < last->to)))
		return 0;
	if (!out) {
		if (last && last->to == UINT64_MAX)
			last->to = time;
		else if (last && time - last->to > ABSENCES_NEAR)
			return add_absence(
			    t, &(struct absence){.from = last->to, .to = time, .lost = true});
		return 0;
	}
	if (last && last->to == UINT64_MAX) { /* it came back, and nothing says when */
		last->to = time;
		last->lost = true;
	}
	return add_absence(
	    t, &(struct absence){.from = time, .to = UINT64_MAX, .preempted = preempted});
}

struct absences *absences_find(const struct absence_lists *lists, int32_t tid)
{
	const size_t i = tid > 0 ? table_get(&lists->by_tid, (uint32_t)tid) : SIZE_MAX;

	return i != SIZE_MAX ? &lists->threads[i] : NULL;
}

size_t absences_after(const struct absences *t, uint64_t time)
{
	size_t at;

	BISECT(at, 0, t->count, t->list[at].to <= time);
	return at;
}

bool absences_lost(const struct absences *t, uint64_t from, uint64_t to)
{
	for (size_t i = absences_after(t, from); i < t->count && t->list[i].from < to; i++)
		if (t->list[i].lost)
			return true;
	return false;
}

void absences_free(struct absence_lists *lists)
{
	for (size_t i = 0; i < lists->count; i++)
		free(lists->threads[i].list);
	free(lists->threads);
	table_free(&lists->by_tid);
}

/* Sessions */

int absences_take(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct absences *t = s->growth ? absences_find(&s->absences, r->tid) : NULL;

	if (t)
		forget_oldest(t);
	return absences_switch(&s->absences, r->pid, r->tid, tsc, r->out, r->preempted);
}

/* How many of the absences begin before a time. */
static size_t begun_before(const struct absences *t, uint64_t tsc)
{
	size_t at;

	BISECT(at, 0, t->count, t->list[at].from < tsc);
	return at;
}

/* What of an absence is before a time; one that has no end may have ended at once. */
static uint64_t part_before(const struct absence *a, uint64_t tsc)
{
	return tsc >= a->to ? length_of(a) : a->to == UINT64_MAX || a->lost ? 0 : tsc - a->from;
}

uint64_t absences_before(const struct absences *t, uint64_t tsc)
{
	const size_t n = t ? begun_before(t, tsc) : 0;

	if (!n) /* what was forgotten */
		return t && t->count ? t->list[0].before : 0;
	return t->list[n - 1].before + part_before(&t->list[n - 1], tsc);
}

static uint64_t preempted_before(const struct absences *t, uint64_t tsc)
{
	const size_t n = begun_before(t, tsc);
	const struct absence *a = n ? &t->list[n - 1] : NULL;

	if (!a)
		return t->count ? t->list[0].preempted_before : 0;
	return a->preempted_before + (a->preempted ? part_before(a, tsc) : 0);
}

static uint64_t waited_before(const struct absences *t, uint64_t tsc)
{
	return absences_before(t, tsc) - preempted_before(t, tsc);
}

uint64_t absences_waited(const struct absences *t, uint64_t from, uint64_t to)
{
	return t && from < to ? waited_before(t, to) - waited_before(t, from) : 0;
}

uint64_t absences_when(const struct absences *t, uint64_t on, uint64_t *until)
{
	size_t at;

	/* Finds the absences before it. */
	BISECT(at, 0, t ? t->count : 0, t->list[at].from - t->list[at].before < on);
	*until = t && at < t->count ? t->list[at].from - t->list[at].before : UINT64_MAX;
	if (!at)
		return on + (t && t->count ? t->list[0].before : 0);
	return on + t->list[at - 1].before + length_of(&t->list[at - 1]);
}

const struct absences *absences_of(const struct ptah_session *s, int32_t tid)
{
	return absences_find(&s->absences, tid);
}

int ptah_session_time_off(const struct ptah_session *s, int32_t tid, uint64_t from, uint64_t to,
			  uint64_t *off, uint64_t *preempted)
{
	if (!s || from > to || !off || !preempted)
		return PTAH_E_INVAL;
	*off = *preempted = 0;
	if (!s->absences.count)
		return PTAH_E_MISSING;
	for (size_t i = 0; i < s->absences.count; i++) {
		const struct absences *t = &s->absences.threads[i];

		if (tid >= 0 && t->tid != tid)
			continue;
		*off += absences_before(t, to) - absences_before(t, from);
		*preempted += preempted_before(t, to) - preempted_before(t, from);
	}
	return 0;
}
