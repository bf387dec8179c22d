/* SPDX-License-Identifier: MIT */
/*
 * Marks: saves the state of a flow and returns to it. The saved part is what the packets have
 * led to so far; code cache and paths are not saved and stay as they are.
 */
#include "flow/flow_machine.h"

#include <stdlib.h>

struct flow_mark {
	bool set;
	uint16_t space; /* the code cache's current one */
	uint64_t ip;	/* where `node` began, which may be forgotten when the flow returns */
	uint8_t kept[FLOW_KEPT_SIZE];
	struct ptah_event_decoder events;
};

void flow_drop_mark(struct ptah_flow *f)
{
	if (f->mark)
		f->mark->set = false;
}

int ptah_flow_mark(struct ptah_flow *f)
{
	struct flow_mark *mark;

	if (!f)
		return PTAH_E_INVAL;
	if (!f->mark)
		f->mark = malloc(sizeof(*f->mark));
	mark = f->mark;
	if (!mark)
		return PTAH_E_NOMEM;
	mark->set = true;
	mark->space = f->code.space;
	mark->ip = f->node ? f->node->ip : f->ip;
	memcpy(mark->kept, (const uint8_t *)f + FLOW_KEPT_FROM, FLOW_KEPT_SIZE);
	event_save(f->events, &mark->events);
	return 0;
}

int ptah_flow_rewind(struct ptah_flow *f)
{
	const struct flow_mark *mark;

	if (!f || !f->mark || !f->mark->set)
		return PTAH_E_INVAL;
	mark = f->mark;
	memcpy((uint8_t *)f + FLOW_KEPT_FROM, mark->kept, FLOW_KEPT_SIZE);
	event_restore(f->events, &mark->events);
	/* The nodes of that time may have been forgotten. */
	f->node = NULL;
	f->ip = mark->ip;
	flow_forget_nodes(f);
	f->code.space = mark->space;
	code_forget_refusals(&f->code);
	/* The time limit is the caller's setting: it is not restored. */
	f->paused = f->paused && f->event.tsc >= f->time_limit;
	return 0;
}
