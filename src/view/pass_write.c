/* SPDX-License-Identifier: MIT */
/* Adds the calls and events of a thread to its log and its levels of detail. */
#include "view/bars.h"
#include "view/pass.h"

#include "base/compiler.h"
#include "support/list.h"

#include <ptah/session.h>

#include <string.h>

/* Time */

/* The thread's time is known from here on. */
static NOINLINE void learn_time(const struct view_model *m, struct view_thread *t, uint64_t tsc,
				const struct ptah_call_counts *counts, uint64_t time)
{
	t->timed = true;
	t->origin = tsc - counts->ticks;
	t->active = time - view_nanoseconds(m, tsc);
	t->now.time = t->now.active = time;
}

static NOINLINE void set_time(const struct view_model *m, struct view_thread *t, uint64_t tsc,
			      const struct ptah_call_counts *counts)
{
	const uint64_t ns = ptah_session_time(m->config.recordings[VIEW_SHOWN].session, tsc);
	const uint64_t time = ns > m->begin ? ns - m->begin : 0;

	t->tsc = tsc;
	t->ticks = counts->ticks;
	t->off_ticks = counts->off_ticks;
	if (!m->has_time || !tsc)
		return;
	if (!t->timed)
		learn_time(m, t, tsc, counts, time);
	t->now.time = time > t->now.time ? time : t->now.time;
	t->now.active = t->active + view_nanoseconds(m, t->origin + counts->ticks);
	t->now.off = view_nanoseconds(m, counts->off_ticks);
}

static ALWAYS_INLINE void set_now(const struct view_model *m, struct view_thread *t, uint64_t tsc,
				  const struct ptah_call_counts *counts)
{
	t->now.instructions = counts->instructions;
	t->now.cycles = counts->cycles;
	if (UNLIKELY(tsc != t->tsc || counts->ticks != t->ticks ||
		     counts->off_ticks != t->off_ticks))
		set_time(m, t, tsc, counts);
	if (UNLIKELY(!t->begun)) {
		t->begun = true;
		for (unsigned axis = 0; axis < LOG_AXES; axis++)
			t->begin[axis] = log_on(&t->now, axis);
	}
}

/* Events */

/* Adds an event at the present place. */
static int add_pass_event(struct view_thread *t, const struct view_event *like)
{
	struct view_event *last = t->event_count ? &t->events[t->event_count - 1] : NULL;
	struct view_event e = *like;

	for (unsigned axis = 0; axis < LOG_AXES; axis++)
		e.at[axis] = e.end[axis] = log_on(&t->now, axis);
	e.depth = (uint32_t)t->log.depth;
	e.count = 1;
	if (t->event_count >= VIEW_EVENTS && last->kind == e.kind) {
		memcpy(last->end, e.end, sizeof(e.end));
		last->count++;
		return 0;
	}
	if (!LIST_ROOM(t->events, t->event_count, t->event_capacity))
		return PTAH_E_NOMEM;
	t->events[t->event_count++] = e;
	return 0;
}

/* Tracing is on again: what stopped it lasted until now. */
static void end_stay(struct view_thread *t)
{
	struct view_event *e = t->event_count ? &t->events[t->event_count - 1] : NULL;

	if (!e || (e->kind != VIEW_EVENT_SYSCALL && e->kind != VIEW_EVENT_INTERRUPT) ||
	    !e->untraced)
		return;
	for (unsigned axis = 0; axis < LOG_AXES; axis++)
		e->end[axis] = log_on(&t->now, axis);
}

static int add_pass_item(struct view_thread *t, const struct ptah_item *item)
{
	struct view_event e = {.ip = item->ip, .offset = item->offset};

	switch (item->type) {
	case PTAH_ITEM_ERROR:
		e.kind = VIEW_EVENT_ERROR;
		e.status = item->status;
		t->errors++;
		break;
	case PTAH_ITEM_OVERFLOW:
		e.kind = VIEW_EVENT_OVERFLOW;
		t->losses++;
		break;
	case PTAH_ITEM_GAP:
		e.kind = VIEW_EVENT_GAP;
		t->losses++;
		break;
	case PTAH_ITEM_DISABLED:
		e.kind = VIEW_EVENT_SYSCALL;
		e.untraced = true;
		break;
	case PTAH_ITEM_ASYNC_DISABLED:
		e.kind = VIEW_EVENT_INTERRUPT;
		e.untraced = true;
		break;
	default:
		end_stay(t);
		return 0;
	}
	return add_pass_event(t, &e);
}

/* Calls */

/* What a beginning of this kind is beside a call. */
static NOINLINE int add_entry_event(const struct view_model *m, struct view_thread *t,
				    const struct step *step)
{
	struct view_event e = {.ip = view_functions_get_entry(m->functions, step->entry)->site};

	e.kind = step->how == PTAH_CALL_SIGNAL	  ? VIEW_EVENT_SIGNAL
		 : step->how == PTAH_CALL_SYSCALL ? VIEW_EVENT_SYSCALL
						  : VIEW_EVENT_INTERRUPT;
	return add_pass_event(t, &e);
}

static ALWAYS_INLINE int begin_pass_call(struct view_model *m, struct view_thread *t,
					 const struct step *step)
{
	int status = 0;

	if (!LIST_ROOM(t->calling, t->log.depth, t->calling_capacity))
		return PTAH_E_NOMEM;
	t->calling[t->log.depth] =
	    (struct view_open){.function = step->function, .flags = step->flags, .how = step->how};
	t->calls += step->how < PTAH_CALL_RESUMED;
	if (UNLIKELY(step->how >= PTAH_CALL_SIGNAL && step->how <= PTAH_CALL_SYSCALL))
		status = add_entry_event(m, t, step);
	if (status >= 0)
		status = call_log_begin(&t->log, &t->now, step->entry, step->function);
	if (UNLIKELY(t->log.depth > t->most_depth))
		t->most_depth = t->log.depth;
	return status;
}

uint32_t view_bar_flags(unsigned flags, unsigned how)
{
	uint32_t bar = 0;

	if (flags & PTAH_CALL_NO_BEGIN)
		bar |= BAR_NO_BEGIN;
	if (flags & PTAH_CALL_NO_END)
		bar |= BAR_NO_END;
	if (flags & PTAH_CALL_HAS_LOSS)
		bar |= BAR_LOSS;
	switch (how) {
	case PTAH_CALL_TAIL:
		return bar | BAR_TAIL;
	case PTAH_CALL_SIGNAL:
		return bar | BAR_SIGNAL;
	case PTAH_CALL_INTERRUPT:
		return bar | BAR_INTERRUPT;
	case PTAH_CALL_SYSCALL:
		return bar | BAR_SYSCALL;
	default:
		return bar;
	}
}

static ALWAYS_INLINE int end_call(struct view_model *m, struct view_thread *t,
				  const struct step *step)
{
	const size_t depth = t->log.depth - 1;
	const struct log_frame *frame;
	const struct view_open *call;
	struct bar bar = {.calls = 1};
	int status = 0;

	if (UNLIKELY(!t->log.depth))
		return 0;
	frame = &t->log.frames[depth];
	call = &t->calling[depth];
	bar.function = call->function;
	bar.flags = view_bar_flags(call->flags | step->flags, call->how);
	if (UNLIKELY(step->how == PTAH_CALL_END_EXEC && !depth))
		status = add_pass_event(t, &(struct view_event){.kind = VIEW_EVENT_EXEC});
	for (unsigned axis = m->has_time ? 0 : LOG_INSTRUCTIONS; axis < LOG_AXES && status >= 0;
	     axis++) {
		bar.begin = log_on(&frame->begin, axis);
		bar.end = log_on(&t->now, axis);
		bar.longest = bar.end - bar.begin;
		status = levels_add(&t->levels[axis], depth, &bar);
	}
	/* Flags that the beginning had are in the entry. */
	return status < 0 ? status
			  : call_log_end(&t->log, &t->now, step->how, step->flags & ~call->flags);
}

static int end_thread(struct view_model *m, struct view_thread *t)
{
	int status = add_pass_event(t, &(struct view_event){.kind = VIEW_EVENT_END});

	t->ended = true;
	for (unsigned axis = 0; axis < LOG_AXES && status >= 0; axis++)
		status = levels_finish(&t->levels[axis]);
	pthread_mutex_lock(&m->lock);
	for (unsigned axis = 0; axis < LOG_AXES; axis++)
		if (log_on(&t->now, axis) > m->length[axis])
			m->length[axis] = log_on(&t->now, axis);
	pthread_mutex_unlock(&m->lock);
	return status;
}

static int write_steps(struct view_model *m, struct view_thread *t, const struct chunk *c)
{
	int status = 0;

	for (size_t i = 0; i < c->count && status >= 0; i++) {
		const struct step *step = &c->steps[i];

		set_now(m, t, step->tsc, &step->counts);
		status = step->end ? end_call(m, t, step) : begin_pass_call(m, t, step);
	}
	return status;
}

/* Goes to where a chunk begins. */
static int begin_pass_chunk(struct view_model *m, struct view_thread *t, const struct chunk *c)
{
	const bool first = !t->begun;

	if (!c->count && !c->has_item)
		return 0;
	set_now(m, t, c->count ? c->steps[0].tsc : c->item.tsc,
		c->count ? &c->steps[0].counts : &c->counts);
	return first ? add_pass_event(t, &(struct view_event){.kind = VIEW_EVENT_BEGIN}) : 0;
}

int view_write_chunk(struct view_model *m, const struct chunk *c)
{
	struct view_thread *t = c->thread;
	uint64_t from, to;
	int status;

	view_lock_write(&t->lock);
	status = begin_pass_chunk(m, t, c);
	from = t->now.time;
	if (status >= 0)
		status = write_steps(m, t, c);
	if (status >= 0 && c->has_item) {
		set_now(m, t, c->item.tsc, &c->counts);
		status = add_pass_item(t, &c->item);
	}
	if (status >= 0 && c->ended)
		status = end_thread(m, t);
	if (t->now.cycles)
		m->has_cycles = true;
	to = t->now.time;
	view_unlock_write(&t->lock);
	if (status >= 0 && c->cpu >= 0 && (c->count || c->has_item))
		status = view_cpu_add(m, c->cpu, t->info.number, from, to);
	return status;
}
