/* SPDX-License-Identifier: MIT */
/*
 * What was on the stacks of threads that waited, woke others, or held a lock. All calls of the
 * recording are read once, and each thread's stack is kept at the moments that are asked for. Stacks
 * are trees of calls, so that a caller that waits often is kept once.
 */
#include "waits/waits.h"

#include "base/order.h"
#include "session/session.h"
#include "support/list.h"

#include <ptah/calls.h>
#include <ptah/session.h>

#include <stdlib.h>

/*
 * A stack that is asked for: as it is before the first mark at or after this time. UINT64_MAX: when
 * the thread's trace ends.
 */
struct moment {
	int32_t tid;
	uint32_t wait;
	uint8_t which; /* enum ptah_wait_stack */
	uint64_t time;
};

struct open_call {
	uint64_t function, id, tsc;
	int32_t space;
	uint32_t node; /* 0: there is none yet */
};

struct thread_stack {
	struct open_call *calls;
	size_t count, room;
	bool is_known, has_ended;
};

struct stacks {
	struct ptah_waits *waits;
	struct moment *moments; /* by thread, then by time */
	size_t count, room;
	struct table next;	      /* of each tid, its next moment */
	struct table ended;	      /* of each tid, the node with which its trace ended */
	struct thread_stack *threads; /* by the number of the thread */
	size_t thread_count;
};

static int add_moment(struct stacks *s, const struct moment *moment)
{
	if (!LIST_ROOM(s->moments, s->count, s->room))
		return PTAH_E_NOMEM;
	s->moments[s->count++] = *moment;
	return 0;
}

/* In a system call: what is on the stack until it returns, at a time that the trace has exactly. */
static struct moment moment_of_call(const struct ptah_waits *w, uint32_t call)
{
	const struct system_call *c = &w->calls->calls[call];

	return (struct moment){.tid = c->tid,
			       .time = c->flags & PTAH_SYSCALL_RETURNED ? c->end
				       : call_is_cut(c)			? c->begin + 1
									: UINT64_MAX};
}

static int list_moments(struct stacks *s)
{
	const struct ptah_waits *w = s->waits;
	int status = 0;

	for (size_t i = 0; i < w->count && status >= 0; i++) {
		const struct wait *wait = &w->waits[i];
		struct moment m = {.tid = wait->tid, .time = wait->begin + 1};

		if (wait->call != WAITS_NONE)
			m = moment_of_call(w, wait->call);
		m.wait = (uint32_t)i;
		m.which = PTAH_WAIT_STACK_OWN;
		status = add_moment(s, &m);
		if (status >= 0 && wait->waker_call != WAITS_NONE) {
			m = moment_of_call(w, wait->waker_call);
			m.wait = (uint32_t)i;
			m.which = PTAH_WAIT_STACK_WAKER;
			status = add_moment(s, &m);
		}
		if (status >= 0 && wait->holder) {
			m = (struct moment){.tid = wait->holder,
					    .wait = (uint32_t)i,
					    .which = PTAH_WAIT_STACK_HOLDER,
					    .time = wait->begin + 1};
			status = add_moment(s, &m);
		}
	}
	return status;
}

static int compare_moments(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	return COMPARE_THEN(x->tid, y->tid, COMPARE(x->time, y->time));
}

static int index_moments(struct stacks *s)
{
	int status = 0;

	if (s->count)
		qsort(s->moments, s->count, sizeof(*s->moments), compare_moments);
	for (size_t i = s->count; i-- > 0 && status >= 0;)
		status = table_set(&s->next, (uint32_t)s->moments[i].tid, i);
	return status;
}

static struct thread_stack *stack_of(struct stacks *s, size_t number)
{
	return LIST_REACH(s->threads, s->thread_count, number) ? &s->threads[number] : NULL;
}

/* The node of the innermost call; 0: nothing is on the stack, or out of memory. */
static uint32_t node_of(struct ptah_waits *w, struct thread_stack *t)
{
	size_t first = t->count;
	uint32_t parent;

	while (first && !t->calls[first - 1].node)
		first--;
	parent = first ? t->calls[first - 1].node : 0;
	for (size_t i = first; i < t->count; i++) {
		struct open_call *c = &t->calls[i];

		if (w->node_count >= UINT32_MAX ||
		    !LIST_ROOM(w->nodes, w->node_count, w->node_capacity))
			return 0;
		w->nodes[w->node_count] = (struct stack_node){.parent = parent,
							      .depth = w->nodes[parent].depth + 1,
							      .space = c->space,
							      .function = c->function,
							      .call = c->id,
							      .tsc = c->tsc};
		parent = c->node = (uint32_t)w->node_count++;
	}
	return parent;
}

/* The thread's next mark is of this time: what is asked for before is as it is now. */
static int pass_moments(struct stacks *s, const struct ptah_call_thread *thread,
			struct thread_stack *t, uint64_t time)
{
	const size_t first = table_get(&s->next, (uint32_t)thread->tid);
	size_t i = first;

	if (i == SIZE_MAX)
		return 0;
	while (i < s->count && s->moments[i].tid == thread->tid && s->moments[i].time <= time) {
		const struct moment *m = &s->moments[i++];

		s->waits->waits[m->wait].stacks[m->which] = node_of(s->waits, t);
	}
	return i == first ? 0 : table_set(&s->next, (uint32_t)thread->tid, i);
}

static int begin_call(struct thread_stack *t, const struct ptah_call_thread *thread,
		      const struct ptah_call_mark *mark)
{
	if (mark->depth < t->count)
		t->count = mark->depth;
	if (!LIST_ROOM(t->calls, t->count, t->room))
		return PTAH_E_NOMEM;
	t->calls[t->count++] =
	    (struct open_call){.function = mark->function,
			       .id = mark->id,
			       .tsc = mark->flags & PTAH_CALL_NO_BEGIN ? 0 : mark->tsc,
			       .space = ptah_call_thread_space(thread, mark->space)};
	return 0;
}

/* A tid may be that of several threads, one after the other: only the last one's end counts. */
static int begin_thread(struct stacks *s, const struct ptah_call_thread *thread,
			struct thread_stack *t)
{
	if (t->is_known)
		return 0;
	t->is_known = true;
	return table_set(&s->ended, (uint32_t)thread->tid, 0);
}

/* The first call that ends with the trace: until then the stack was whole. */
static int end_thread(struct stacks *s, const struct ptah_call_thread *thread,
		      struct thread_stack *t)
{
	if (t->has_ended)
		return 0;
	t->has_ended = true;
	return table_set(&s->ended, (uint32_t)thread->tid, node_of(s->waits, t));
}

static int take_batch(struct stacks *s, const struct ptah_call_batch *batch)
{
	const struct ptah_session *session = s->waits->session;
	struct thread_stack *t = stack_of(s, batch->thread->number);
	int status = t ? begin_thread(s, batch->thread, t) : PTAH_E_NOMEM;

	for (size_t i = 0; i < batch->count && status >= 0; i++) {
		const struct ptah_call_mark *mark = &batch->marks[i];

		if (mark->tsc)
			status = pass_moments(s, batch->thread, t,
					      ptah_session_time(session, mark->tsc));
		if (status >= 0 && mark->end && mark->how == PTAH_CALL_END_TRACE)
			status = end_thread(s, batch->thread, t);
		if (mark->end)
			t->count = mark->depth < t->count ? mark->depth : t->count;
		else if (status >= 0)
			status = begin_call(t, batch->thread, mark);
	}
	return status;
}

/* What is asked for later than the last mark is as the trace ended. */
static void pass_rest(struct stacks *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct moment *m = &s->moments[i];
		const size_t node = table_get(&s->ended, (uint32_t)m->tid);

		if (i >= table_get(&s->next, (uint32_t)m->tid) && node != SIZE_MAX)
			s->waits->waits[m->wait].stacks[m->which] = (uint32_t)node;
	}
}

static int read_calls(struct stacks *s, const struct ptah_waits_config *config)
{
	const struct ptah_call_reader_config reading = {.size = sizeof(reading),
							.jobs = config->jobs};
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(s->waits->session, &reading, &reader);

	if (status < 0)
		return status;
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		status = take_batch(s, batch);
		if (status < 0)
			break;
		if (config->progress &&
		    !config->progress(config->context, ptah_call_reader_offset(reader)))
			break;
	}
	ptah_call_reader_free(reader);
	return status < 0 ? status : 0;
}

int stacks_read(struct ptah_waits *w, const struct ptah_waits_config *config)
{
	struct stacks s = {.waits = w};
	int status;

	/* Number 0 is that of no stack. */
	if (!LIST_ROOM(w->nodes, 0, w->node_capacity))
		return PTAH_E_NOMEM;
	w->nodes[0] = (struct stack_node){0};
	w->node_count = 1;
	status = list_moments(&s);
	if (status >= 0)
		status = index_moments(&s);
	if (status >= 0 && s.count)
		status = read_calls(&s, config);
	if (status >= 0)
		pass_rest(&s);
	for (size_t i = 0; i < s.thread_count; i++)
		free(s.threads[i].calls);
	free(s.threads);
	free(s.moments);
	table_free(&s.next);
	table_free(&s.ended);
	return status;
}

size_t ptah_waits_stack(const struct ptah_waits *w, size_t i, enum ptah_wait_stack which,
			struct ptah_wait_frame *frames, size_t room)
{
	uint32_t at;

	if (!w || i >= w->count || (unsigned)which >= PTAH_WAIT_STACK_MAX || !w->node_count)
		return 0;
	at = w->waits[i].stacks[which];
	for (size_t n = 0; at && n < room; at = w->nodes[at].parent, n++)
		frames[n] = (struct ptah_wait_frame){.function = w->nodes[at].function,
						     .space = w->nodes[at].space,
						     .call = w->nodes[at].call,
						     .tsc = w->nodes[at].tsc};
	return w->nodes[w->waits[i].stacks[which]].depth;
}
