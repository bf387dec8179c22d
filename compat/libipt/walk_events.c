/* SPDX-License-Identifier: MIT */
/* Converts the flow's items to libipt's events, and finds the place where libipt reports each. */
#include "walk_parts.h"

/* The address at which libipt reports a status update or the like. False: it has none. */
static bool status_ip(const struct pt_event *event, uint64_t *ip)
{
	switch (event->type) {
	case ptev_exec_mode:
		*ip = event->variant.exec_mode.ip;
		break;
	case ptev_tsx:
		*ip = event->variant.tsx.ip;
		break;
	case ptev_async_paging:
		*ip = event->variant.async_paging.ip;
		break;
	case ptev_async_vmcs:
		*ip = event->variant.async_vmcs.ip;
		break;
	case ptev_iflags:
		*ip = event->variant.iflags.ip;
		break;
	default:
		return false;
	}
	return !event->ip_suppressed;
}

/*
 * Whether TRIG can count instructions from this item's packet. libipt 2.3 counts from any packet
 * with an address.
 */
static bool is_anchor(const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_PSB:
	case PTAH_ITEM_MWAIT:
	case PTAH_ITEM_PWRE:
	case PTAH_ITEM_PWRX:
	case PTAH_ITEM_SIPI:
	case PTAH_ITEM_TICK:
		return false;
	case PTAH_ITEM_PTWRITE: /* the packet need not carry an address */
		return !walk_is_behind(item - 1, item->ip);
	default:
		return !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
	}
}

/* How many instructions ran between the packet that the TRIG counts from and its item. */
static unsigned count_since_anchor(const struct walk *w, const struct ptah_item *trig)
{
	unsigned count = 0;

	for (const struct ptah_item *item = trig - 1; item > w->item_room; item--) {
		if (item->type == PTAH_ITEM_BLOCK) {
			if (walk_needs_trace(item->insn_class))
				break;
			count += item->ninsn;
		} else if (is_anchor(item)) {
			break;
		}
	}
	return count;
}

/* Sets where libipt reports the event. */
static void place_event(const struct walk *w, struct walk_event *e, const struct ptah_item *item)
{
	const bool told = !(item->flags & PTAH_ITEM_IP_SUPPRESSED);

	e->place = WALK_HERE;
	switch (item->type) {
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
		/*
		 * Ptah's item is after a MOV CR3 or VMPTRLD, if Ptah has found one; if not, libipt
		 * reports the event after the far branch that follows.
		 */
		if (!(item->flags & PTAH_ITEM_STATUS) && !told && w->state.enabled &&
		    !w->pending.after_cut)
			e->place = WALK_BEHIND_BRANCH;
		break;
	case PTAH_ITEM_PTWRITE:
		if (told && w->state.enabled) {
			e->place = WALK_BEHIND_IP;
			e->ip = item->ip;
		}
		break;
	case PTAH_ITEM_IRET:
	case PTAH_ITEM_UIRET:
	case PTAH_ITEM_VMENTRY:
		/*
		 * libipt reports the effect of an instruction after it, and this instruction is a
		 * branch.
		 */
		if (w->state.enabled) {
			e->place = told ? WALK_BEHIND_IP : WALK_BEHIND_BRANCH;
			e->ip = item->ip;
		}
		break;
	case PTAH_ITEM_TRIGGER:
		if (!told && item->detail & PTAH_DETAIL_ICNT && w->state.enabled) {
			const unsigned since = count_since_anchor(w, item);

			e->place = WALK_BEHIND_COUNT;
			e->count = item->count > since ? item->count - since : 0;
		}
		break;
	default:
		break;
	}
	if (item->flags & PTAH_ITEM_STATUS && status_ip(&e->event, &e->ip))
		e->place = WALK_AT_IP;
}

/* Where tracing is expected to resume after an event that turns it off. */
static uint64_t resume_ip(const struct walk *w, const struct ptah_item *item)
{
	const struct ptah_item *before = item - 1;

	if (item->type == PTAH_ITEM_ASYNC_DISABLED)
		return item->ip;
	if (item->type != PTAH_ITEM_DISABLED || before->type != PTAH_ITEM_BLOCK)
		return 0;
	switch (before->insn_class) {
	case PTAH_INSN_CALL_IND:
	case PTAH_INSN_FAR_CALL:
		return before->end;
	case PTAH_INSN_JUMP:
	case PTAH_INSN_CALL:
		if (item->flags & PTAH_ITEM_IP_SUPPRESSED)
			return w->by_insn ? 0 : before->end - before->last_size;
		return item->to;
	case PTAH_INSN_OTHER: /* MOV CR3 */
		if (!(item->flags & PTAH_ITEM_IP_SUPPRESSED))
			return item->to;
		return w->by_insn ? before->end : before->end - before->last_size;
	default:
		return 0;
	}
}

bool walk_is_of_branch(const struct walk *w, const struct ptah_item *item)
{
	const struct ptah_item *branch = item - 1;

	if (item->type != PTAH_ITEM_EXEC_MODE && item->type != PTAH_ITEM_IFLAGS &&
	    item->type != PTAH_ITEM_ASYNC_PAGING && item->type != PTAH_ITEM_ASYNC_VMCS)
		return false;
	for (; branch > w->item_room; branch--) {
		switch (branch->type) {
		case PTAH_ITEM_ASYNC_BRANCH:
		case PTAH_ITEM_ASYNC_DISABLED:
			return true;
		case PTAH_ITEM_ENABLED:
		case PTAH_ITEM_DISABLED:
		case PTAH_ITEM_BLOCK:
			/* MODE.Exec precedes its branch. SDM "MODE.Exec Packet". */
			return item->type == PTAH_ITEM_ASYNC_PAGING ||
			       item->type == PTAH_ITEM_ASYNC_VMCS || item->offset < branch->offset;
		case PTAH_ITEM_EXEC_MODE:
		case PTAH_ITEM_IFLAGS:
		case PTAH_ITEM_ASYNC_PAGING:
		case PTAH_ITEM_ASYNC_VMCS:
			break;
		default:
			return false;
		}
	}
	return false;
}

bool walk_is_tied(struct walk *w, const struct ptah_item **item)
{
	const struct ptah_item *behind = *item + 1;

	if (!walk_is_item(w, &behind))
		return false;
	*item = behind - 1;
	if ((*item)->flags & PTAH_ITEM_STATUS && (*item)->type != PTAH_ITEM_PSB)
		return behind->flags & PTAH_ITEM_STATUS && behind->type != PTAH_ITEM_PSB &&
		       behind->type != PTAH_ITEM_BLOCK;
	if ((*item)->type == PTAH_ITEM_MWAIT && behind->type == PTAH_ITEM_EXSTOP)
		return !(behind->flags & PTAH_ITEM_IP_SUPPRESSED); /* of the same FUP */
	return walk_is_of_branch(w, behind);
}

/* The ratio of the last pending event. */
static uint16_t *last_ratio(struct walk *w)
{
	const unsigned last = (w->pending.first + w->pending.count - 1) % WALK_PENDING;

	return w->pending.count ? &w->pending.events[last].ratio : &w->state.ratio;
}

/* The ratio that libipt knows once it has read this item; it reads a PSB+ as a whole. */
static uint16_t find_ratio(struct walk *w, const struct ptah_item *item)
{
	uint16_t ratio = *last_ratio(w);

	if (item->type == PTAH_ITEM_CBR)
		ratio = (uint16_t)item->ratio;
	if (!(item->flags & PTAH_ITEM_STATUS))
		return ratio;
	while (item++, walk_is_item(w, &item)) {
		if (!(item->flags & PTAH_ITEM_STATUS) || item->type == PTAH_ITEM_PSB)
			break;
		if (item->type == PTAH_ITEM_CBR)
			ratio = (uint16_t)item->ratio;
	}
	return ratio;
}

void walk_take_item(struct walk *w)
{
	struct walk_event *e =
	    &w->pending.events[(w->pending.first + w->pending.count) % WALK_PENDING];
	const struct ptah_item *item = w->items.next;

	e->at_last = walk_is_tied(w, &item);
	e->ratio = find_ratio(w, item);
	if (!w->pending.count)
		w->state.ratio = e->ratio;
	item = w->items.next++;
	if (!event_make(&e->event, &w->pending.conversion, item)) {
		*last_ratio(w) = e->ratio;
		w->pending.after_cut = false;
		w->position.now = item;
		return;
	}
	e->item = *item;
	place_event(w, e, item);
	if (e->place == WALK_BEHIND_IP && walk_is_behind(item - 1, e->ip))
		e->place = WALK_HERE;
	if (item->type == PTAH_ITEM_DISABLED || item->type == PTAH_ITEM_ASYNC_DISABLED)
		e->ip = resume_ip(w, item);
	w->pending.after_cut = false;
	if (e->event.has_tsc)
		w->state.event_tsc = e->event.tsc;
	if (!w->pending.count++)
		w->pending.passed = w->pending.forced = false;
}

unsigned walk_count_in_loss(struct walk *w)
{
	const struct ptah_item *item = w->items.next;
	unsigned n = 0;

	for (; item->type == PTAH_ITEM_CBR || item->type == PTAH_ITEM_MNT; n++) {
		item++;
		if (n + 2 > WALK_PENDING || !walk_is_item(w, &item))
			return 0;
	}
	/* With a FUP libipt reads on before it reports the overflow, as Ptah does. */
	if (item->type != PTAH_ITEM_OVERFLOW || !(item->flags & PTAH_ITEM_IP_SUPPRESSED))
		return 0;
	return n && item->offset < item[-1].offset ? n : 0;
}

void walk_take_loss(struct walk *w, unsigned in_loss)
{
	struct ptah_item *first = w->item_room + (w->items.next - w->item_room);
	struct ptah_item overflow = first[in_loss];

	overflow.tsc = overflow.packet_tsc; /* the time before what followed the OVF */
	memmove(first + 1, first, in_loss * sizeof(*first));
	*first = overflow;
	for (unsigned i = 0; i <= in_loss; i++)
		walk_take_item(w);
}

bool walk_can_follow(const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
	case PTAH_ITEM_TICK:
	case PTAH_ITEM_PWRE:
	case PTAH_ITEM_PWRX:
	case PTAH_ITEM_TRIGGER:
		return true;
	default:
		return item->flags & PTAH_ITEM_STATUS;
	}
}

/* Whether the next instruction begins at `ip`, whatever events precede it. */
static bool is_at(struct walk *w, uint64_t ip)
{
	const struct ptah_item *item = w->items.next;

	if (w->insns.loaded)
		return w->insn_room[w->insns.pos].ip == ip;
	for (; walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_BLOCK)
			return !w->items.skip && item->ip == ip;
		if (item->type == PTAH_ITEM_ERROR)
			return item->ip == ip;
		if (!walk_can_follow(item))
			return true; /* no instruction runs before this event */
	}
	return w->stop.error && w->stop.place.mode && w->stop.place.ip == ip;
}

bool walk_is_due(struct walk *w)
{
	const struct walk_event *e = walk_first_pending(w);

	if (e->place == WALK_HERE || w->pending.forced)
		return true;
	if (e->place == WALK_BEHIND_COUNT)
		return !e->count;
	return e->place == WALK_AT_IP ? is_at(w, e->ip) : w->pending.passed;
}
