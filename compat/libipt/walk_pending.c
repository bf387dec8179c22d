/* SPDX-License-Identifier: MIT */
/*
 * Returns pending events to the caller, and applies each to the processor's state that libipt
 * reports (tracing on, mode, address space). Also makes tick events, for branches at a new time.
 */
#include "walk_parts.h"

void walk_tick(struct walk *w, uint64_t ip)
{
	const struct ptah_item *behind = w->items.next;
	struct walk_event *e = walk_first_pending(w);

	if (w->pending.count || !w->position.now || w->position.now->type != PTAH_ITEM_BLOCK ||
	    w->position.now->tsc == w->state.event_tsc)
		return;
	*e = (struct walk_event){
	    .item = *w->position.now, .ratio = w->state.ratio, .place = WALK_HERE};
	/*
	 * A branch at which tracing ends needs no packet of its own; the event there carries the
	 * time.
	 */
	if (walk_is_item(w, &behind) &&
	    (behind->type == PTAH_ITEM_DISABLED ? behind->offset == e->item.offset
						: walk_is_of_branch(w, behind)))
		return;
	e->event.type = ptev_tick;
	e->event.has_tsc = 1;
	e->event.tsc = w->state.event_tsc = e->item.tsc;
	e->event.variant.tick.ip = ip;
	w->pending.count = 1;
}

/*
 * Applies an event to what libipt reports about the processor. An error: the event contradicts it.
 */
static int apply_event(struct walk *w, struct walk_event *e)
{
	struct pt_event *event = &e->event;

	switch (event->type) {
	case ptev_enabled:
		if (event->status_update || w->state.enabled)
			return -pte_bad_context;
		event->variant.enabled.resumed = event->variant.enabled.ip == w->state.ip;
		w->state.enabled = true;
		break;
	case ptev_disabled:
	case ptev_async_disabled:
		if (event->status_update || !w->state.enabled)
			return -pte_bad_context;
		w->state.enabled = false;
		w->state.ip = e->ip;
		break;
	case ptev_async_branch:
		return w->state.enabled ? 0 : -pte_bad_context;
	case ptev_paging:
	case ptev_async_paging:
		w->state.cr3 = event->variant.paging.cr3;
		break;
	case ptev_vmcs:
	case ptev_async_vmcs:
		w->state.vmcs = event->variant.vmcs.base;
		break;
	case ptev_overflow:
		w->state.enabled = !event->ip_suppressed;
		w->state.ip = 0;
		w->state.speculative = false;
		break;
	case ptev_exec_mode:
		if (event->status_update && w->state.enabled && w->state.mode != ptem_unknown &&
		    w->state.mode != event->variant.exec_mode.mode)
			return -pte_bad_status_update;
		w->state.mode = (uint8_t)event->variant.exec_mode.mode;
		break;
	case ptev_tsx:
		w->state.speculative = event->variant.tsx.speculative;
		break;
	case ptev_stop:
		return event->status_update || w->state.enabled ? -pte_bad_context : 0;
	default:
		break;
	}
	return 0;
}

/*
 * Sets the address of a trigger that counts instructions: the current one if all of them have run.
 * If they never will, the address is suppressed.
 */
static void place_trigger(struct walk *w, struct walk_event *e)
{
	e->event.ip_suppressed = e->count != 0;
	e->event.variant.trig.ip = e->count ? 0 : walk_ip(w);
	e->event.variant.trig.icnt = 0;
}

int walk_event(struct walk *w, struct pt_event *event, size_t size)
{
	struct walk_event *e = walk_first_pending(w);
	int status;

	if (!event)
		return -pte_invalid;
	if (!w->pending.count || walk_look(w) != WALK_EVENT)
		return -pte_bad_query;
	status = apply_event(w, e);
	w->pending.refused = status;
	if (status < 0)
		return status;
	w->position.resynced = false;
	if (e->place == WALK_BEHIND_COUNT)
		place_trigger(w, e);
	event_copy_out(event, size, &e->event);
	w->position.backward = w->position.backward && e->item.flags & PTAH_ITEM_STATUS;
	w->position.was = e->item;
	w->position.was_at_last = e->at_last;
	/*
	 * Whether the walk has passed the branch or the instruction that this event waited for.
	 * Then the events that wait for the same one are due as well.
	 */
	w->pending.passed = (e->place == WALK_BEHIND_BRANCH && e->event.type != ptev_paging &&
			     e->event.type != ptev_vmcs) ||
			    (e->place == WALK_BEHIND_IP && w->position.now &&
			     walk_is_behind(w->position.now, e->ip));
	w->position.now = NULL;
	w->pending.first = (w->pending.first + 1) % WALK_PENDING;
	w->pending.count--;
	if (w->pending.count) /* libipt reads the next one now */
		w->state.ratio = walk_first_pending(w)->ratio;
	w->pending.forced = false;
	return walk_status(w);
}
