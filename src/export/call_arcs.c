/* SPDX-License-Identifier: MIT */
/* Adds up calls by their call site (call_costs.h). */
#include "export/call_costs.h"
#include "export/row_ids.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* An open call. */
struct frame {
	uint64_t function;
	int32_t space;
	size_t arc; /* its number + 1; 0: it is the outermost */
};

struct thread {
	struct frame *frames;
	size_t count, room;
	struct pair_ids running; /* how many calls of a function are open, + 1 */
};

struct call_arcs {
	struct text_ids ids;
	struct call_arc *list;
	size_t room;
	struct thread *threads; /* by number */
	size_t thread_count;
};

int call_arcs_new(struct call_arcs **arcs)
{
	*arcs = calloc(1, sizeof(**arcs));
	return *arcs ? 0 : PTAH_E_NOMEM;
}

void call_arcs_free(struct call_arcs *arcs)
{
	if (!arcs)
		return;
	for (size_t i = 0; i < arcs->thread_count; i++) {
		free(arcs->threads[i].frames);
		pair_ids_free(&arcs->threads[i].running);
	}
	text_ids_free(&arcs->ids);
	free(arcs->threads);
	free(arcs->list);
	free(arcs);
}

static struct thread *thread_of(struct call_arcs *arcs, size_t number)
{
	return LIST_REACH(arcs->threads, arcs->thread_count, number) ? &arcs->threads[number]
								     : NULL;
}

/* The number of an arc, from 1 on. 0: out of memory. */
static size_t arc_of(struct call_arcs *arcs, const struct frame *caller, const struct frame *callee,
		     uint64_t site)
{
	struct call_arc arc;
	int64_t number;
	bool added;

	memset(&arc, 0, sizeof(arc)); /* a key of bytes */
	arc.site = site;
	arc.caller = caller->function;
	arc.caller_space = caller->space;
	arc.callee = callee->function;
	arc.callee_space = callee->space;
	number = text_ids_of(&arcs->ids, &arc, sizeof(arc), &added);
	if (number <= 0)
		return 0;
	if (added && !LIST_ROOM(arcs->list, (size_t)number - 1, arcs->room))
		return 0;
	if (added)
		arcs->list[number - 1] = arc;
	return (size_t)number;
}

static int64_t *running_of(struct thread *t, const struct frame *f)
{
	int64_t *running = pair_ids_at(&t->running, f->function, (uint32_t)f->space);

	if (running && !*running)
		*running = 1;
	return running;
}

static int begin_call(struct call_arcs *arcs, struct thread *t,
		      const struct ptah_call_thread *thread, const struct ptah_call_mark *mark)
{
	struct frame frame = {.function = mark->function,
			      .space = ptah_call_thread_space(thread, mark->space)};
	int64_t *running;

	if (t->count) {
		frame.arc = arc_of(arcs, &t->frames[t->count - 1], &frame, mark->site);
		if (!frame.arc)
			return PTAH_E_NOMEM;
		if (mark->how != PTAH_CALL_RUNNING && mark->how != PTAH_CALL_RESUMED)
			arcs->list[frame.arc - 1].calls++;
	}
	if (!LIST_ROOM(t->frames, t->count, t->room))
		return PTAH_E_NOMEM;
	running = running_of(t, &frame);
	if (!running)
		return PTAH_E_NOMEM;
	++*running;
	t->frames[t->count++] = frame;
	return 0;
}

static int end_call(struct call_arcs *arcs, struct thread *t, const struct ptah_call_mark *mark)
{
	const struct frame *frame = &t->frames[--t->count];
	int64_t *running = running_of(t, frame);

	if (!running)
		return PTAH_E_NOMEM;
	--*running;
	if (frame->arc && *running == 1)
		arcs->list[frame->arc - 1].instructions += mark->total.instructions;
	return 0;
}

int call_arcs_add(struct call_arcs *arcs, const struct ptah_call_batch *batch)
{
	struct thread *t = thread_of(arcs, batch->thread->number);
	int status = t ? 0 : PTAH_E_NOMEM;

	for (size_t i = 0; i < batch->count && status >= 0; i++) {
		const struct ptah_call_mark *mark = &batch->marks[i];

		status =
		    mark->end ? end_call(arcs, t, mark) : begin_call(arcs, t, batch->thread, mark);
	}
	return status;
}

const struct call_arc *call_arcs_list(const struct call_arcs *arcs, size_t *n)
{
	*n = arcs->ids.count;
	return arcs->list;
}
