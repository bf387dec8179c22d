/* SPDX-License-Identifier: MIT */
/* Keeps when threads were on no processor (absences.h). */
#include "session/absences.h"

#include <stdlib.h>
#include <string.h>

/* Of a session that grows, so many at least are kept of a thread, for what is yet to be decoded. */
#define KEPT 4096

static uint64_t length_of(const struct absence *a)
{
	return a->to == UINT64_MAX ? 0 : a->to - a->from;
}

/* The sums are those of all absences, also of those that are forgotten. */
static void forget_oldest(struct absences *t)
{
	if (t->count < 2 * KEPT)
		return;
	memmove(t->list, t->list + (t->count - KEPT), KEPT * sizeof(*t->list));
	t->count = KEPT;
}

static int leave(struct absences *t, uint64_t tsc, bool preempted)
{
	struct absence *list = session_grow(t->list, t->count, &t->capacity, sizeof(*list));
	struct absence *a;

	if (!list)
		return PTAH_E_NOMEM;
	t->list = list;
	a = &list[t->count];
	*a = (struct absence){.from = tsc, .to = UINT64_MAX, .preempted = preempted};
	if (t->count) {
		const uint64_t last = length_of(a - 1);

		a->before = a[-1].before + last;
		a->preempted_before = a[-1].preempted_before + (a[-1].preempted ? last : 0);
	}
	t->count++;
	return 0;
}

static struct absences *find_or_add(struct ptah_session *s, int32_t tid)
{
	const size_t i = table_get(&s->absences_by_tid, (uint32_t)tid);
	struct absences *all;

	if (i != SESSION_NONE)
		return &s->absences[i];
	all = session_grow(s->absences, s->absences_count, &s->absences_capacity, sizeof(*all));
	if (!all)
		return NULL;
	s->absences = all;
	if (table_set(&s->absences_by_tid, (uint32_t)tid, s->absences_count) < 0)
		return NULL;
	all[s->absences_count] = (struct absences){.tid = tid};
	return &all[s->absences_count++];
}

int absences_take(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct absences *t;
	struct absence *last;

	if (r->tid <= 0)
		return 0;
	t = find_or_add(s, r->tid);
	if (!t)
		return PTAH_E_NOMEM;
	last = t->count ? &t->list[t->count - 1] : NULL;
	/* Records come in the order of time; one that does not says nothing. */
	if (last && (tsc < last->from || (last->to != UINT64_MAX && tsc < last->to)))
		return 0;
	if (!r->out) {
		if (last && last->to == UINT64_MAX)
			last->to = tsc;
		return 0;
	}
	if (last && last->to == UINT64_MAX)
		last->to = last->from; /* it came back, and nothing says when */
	if (s->growth)
		forget_oldest(t);
	return leave(t, tsc, r->preempted);
}

/* How many of the absences begin before a time. */
static size_t begun_before(const struct absences *t, uint64_t tsc)
{
	size_t low = 0, high = t->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (t->list[middle].from < tsc)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What of an absence is before a time; one that has no end may have ended at once. */
static uint64_t part_before(const struct absence *a, uint64_t tsc)
{
	return tsc >= a->to ? length_of(a) : a->to == UINT64_MAX ? 0 : tsc - a->from;
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
	size_t low = 0, high = t ? t->count : 0;

	while (low < high) { /* the absences before it */
		const size_t middle = low + (high - low) / 2;
		const struct absence *a = &t->list[middle];

		if (a->from - a->before < on)
			low = middle + 1;
		else
			high = middle;
	}
	*until = t && low < t->count ? t->list[low].from - t->list[low].before : UINT64_MAX;
	if (!low)
		return on + (t && t->count ? t->list[0].before : 0);
	return on + t->list[low - 1].before + length_of(&t->list[low - 1]);
}

const struct absences *absences_of(const struct ptah_session *s, int32_t tid)
{
	const size_t i = tid > 0 ? table_get(&s->absences_by_tid, (uint32_t)tid) : SESSION_NONE;

	return i != SESSION_NONE ? &s->absences[i] : NULL;
}

void absences_free(struct ptah_session *s)
{
	for (size_t i = 0; i < s->absences_count; i++)
		free(s->absences[i].list);
	free(s->absences);
	table_free(&s->absences_by_tid);
}

int ptah_session_time_off(const struct ptah_session *s, int32_t tid, uint64_t from, uint64_t to,
			  uint64_t *off, uint64_t *preempted)
{
	if (!s || from > to || !off || !preempted)
		return PTAH_E_INVAL;
	*off = *preempted = 0;
	if (!s->absences_count)
		return PTAH_E_MISSING;
	for (size_t i = 0; i < s->absences_count; i++) {
		const struct absences *t = &s->absences[i];

		if (tid >= 0 && t->tid != tid)
			continue;
		*off += absences_before(t, to) - absences_before(t, from);
		*preempted += preempted_before(t, to) - preempted_before(t, from);
	}
	return 0;
}
