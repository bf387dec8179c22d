/* SPDX-License-Identifier: MIT */
/* Keeps figures of functions while calls begin and end: see tally.h. */
#include "live/tally.h"

#include "support/index.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

void live_tally_free(struct live_tally *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->rows[i].times.buckets);
	free(t->rows);
	index_free(&t->index);
	free(t->stack);
	*t = (struct live_tally){0};
}

/* A switch takes longer: absences are not looked up where the trace was off for so few ticks. */
#define SHORT 1000

uint64_t live_waits_pass(struct live_waits *w, const struct ptah_call_mark *m)
{
	const uint64_t off = m->thread.off_ticks - w->off_ticks;
	uint64_t waited = off;

	if (!m->tsc)
		return w->sum;
	if (w->tsc && off >= SHORT) {
		if (!w->no_switches)
			waited = absences_waited(w->absences, w->tsc, m->tsc);
		w->sum += waited < off ? waited : off;
	}
	w->tsc = m->tsc;
	w->off_ticks = m->thread.off_ticks;
	return w->sum;
}

/* The number of a row; 0: the function has none. */
static uint32_t find_row(const struct live_tally *t, uint16_t space, uint64_t function)
{
	const uint32_t hash = index_hash(&t->index, space, function);
	uint32_t n;

	INDEX_FIND(n, &t->index, hash,
		   t->rows[n - 1].function == function && t->rows[n - 1].space == space);
	return n;
}

struct tally_row *live_tally_find(const struct live_tally *t, uint16_t space, uint64_t function)
{
	const uint32_t n = find_row(t, space, function);

	return n ? &t->rows[n - 1] : NULL;
}

/* The row of a function, made if there is none. SIZE_MAX: no memory. */
static size_t row_of(struct live_tally *t, uint16_t space, uint64_t function)
{
	const uint32_t known = find_row(t, space, function);

	if (known)
		return known - 1;
	if (t->count >= UINT32_MAX / 2 || !LIST_ROOM(t->rows, t->count, t->capacity) ||
	    !index_reserve(&t->index))
		return SIZE_MAX;
	t->rows[t->count] =
	    (struct tally_row){.function = function, .space = space, .times = {.min = UINT64_MAX}};
	index_add(&t->index, index_hash(&t->index, space, function), (uint32_t)t->count + 1);
	return t->count++;
}

int live_tally_reach(struct live_tally *t, uint64_t instructions)
{
	size_t row;

	if (instructions == t->seen)
		return 0;
	row = t->depth ? t->stack[t->depth - 1].row : row_of(t, 0, 0);
	if (row == SIZE_MAX)
		return PTAH_E_NOMEM;
	t->rows[row].instructions += instructions - t->seen;
	t->total += instructions - t->seen;
	t->seen = instructions;
	return 0;
}

static int push_tally_call(struct live_tally *t, uint32_t row)
{
	if (!LIST_ROOM(t->stack, t->depth, t->stack_capacity))
		return PTAH_E_NOMEM;
	t->stack[t->depth++] = (struct tally_call){.row = row, .waited = t->waits.sum};
	return 0;
}

static int begin_tally_call(struct live_tally *t, const struct ptah_call_mark *m)
{
	const size_t row = row_of(t, m->space, m->function);
	struct tally_row *r;

	if (row == SIZE_MAX)
		return PTAH_E_NOMEM;
	r = &t->rows[row];
	r->flags |= m->flags &
		    (PTAH_CALL_NO_BOUNDS | PTAH_CALL_STUB | PTAH_CALL_KERNEL | PTAH_CALL_RESTORER);
	if (m->how != PTAH_CALL_RUNNING && m->how != PTAH_CALL_RESUMED) {
		r->calls++;
		t->calls++;
	}
	r->open++;
	return push_tally_call(t, (uint32_t)row);
}

/* Flags of calls of which a part is not known. */
#define PARTIAL (PTAH_CALL_NO_BEGIN | PTAH_CALL_NO_END | PTAH_CALL_HAS_LOSS | PTAH_CALL_UNSURE)

static int end_tally_call(struct live_tally *t, const struct ptah_call_mark *m)
{
	struct tally_row *r;

	if (!t->depth)
		return 0;
	r = &t->rows[t->stack[--t->depth].row];
	r->open--;
	if (m->how == PTAH_CALL_END_SUSPENDED || m->flags & PARTIAL)
		return 0;
	r->ended++;
	r->total_instructions += m->total.instructions;
	if (m->total.instructions > r->max_instructions)
		r->max_instructions = m->total.instructions;
	if (!m->begin_tsc || !m->tsc)
		return 0;
	r->timed++;
	r->ticks += m->total.ticks;
	if (m->total.ticks > r->max_ticks)
		r->max_ticks = m->total.ticks;
	r->waited += t->waits.sum - t->stack[t->depth].waited;
	return histogram_add(&r->times, m->total.ticks, 1) ? 0 : PTAH_E_NOMEM;
}

int live_tally_add(struct live_tally *t, const struct ptah_call_mark *marks, size_t n)
{
	int status = 0;

	for (size_t i = 0; i < n && status >= 0; i++) {
		live_waits_pass(&t->waits, &marks[i]);
		status = live_tally_reach(t, marks[i].thread.instructions);
		if (status >= 0)
			status = marks[i].end ? end_tally_call(t, &marks[i])
					      : begin_tally_call(t, &marks[i]);
	}
	return status;
}

void live_tally_begin_again(struct live_tally *t)
{
	t->seen = 0;
	t->depth = 0;
	t->waits = (struct live_waits){0};
}

int live_tally_merge_row(struct live_tally *into, const struct tally_row *from, uint64_t function)
{
	const size_t i = row_of(into, from->space, function);
	struct tally_row *to;

	if (i == SIZE_MAX)
		return PTAH_E_NOMEM;
	to = &into->rows[i];
	to->flags |= from->flags;
	to->calls += from->calls;
	to->instructions += from->instructions;
	to->ended += from->ended;
	to->timed += from->timed;
	to->ticks += from->ticks;
	to->waited += from->waited;
	to->total_instructions += from->total_instructions;
	if (from->max_ticks > to->max_ticks)
		to->max_ticks = from->max_ticks;
	if (from->max_instructions > to->max_instructions)
		to->max_instructions = from->max_instructions;
	return !from->timed || histogram_merge(&to->times, &from->times) ? 0 : PTAH_E_NOMEM;
}

int live_tally_merge(struct live_tally *into, const struct live_tally *from)
{
	int status = 0;

	for (size_t i = 0; i < from->count && status >= 0; i++)
		status = live_tally_merge_row(into, &from->rows[i], from->rows[i].function);
	return status;
}
