/* SPDX-License-Identifier: MIT */
/*
 * Begins the walk at a PSB: the next, the previous, or one that the caller names. After an error it
 * can also continue between two PSBs.
 */
#include "walk_parts.h"

#include "position.h"

void walk_reset(struct walk *w)
{
	w->state.enabled = w->state.speculative = false;
	w->state.mode = ptem_unknown;
	w->state.ip = 0;
	w->state.cr3 = pt_asid_no_cr3;
	w->state.vmcs = pt_asid_no_vmcs;
	w->state.event_tsc = 0;
	w->state.ratio = 0;
	w->pending.first = w->pending.count = 0;
	w->pending.passed = w->pending.forced = w->pending.after_cut = w->position.backward = false;
	w->position.resynced = false;
	w->pending.refused = 0;
	w->pending.conversion = (struct event_state){0};
	w->position.was = (struct ptah_item){.type = PTAH_ITEM_PSB, .flags = PTAH_ITEM_STATUS};
	w->position.was_at_last = false;
	w->position.now = NULL;
	w->stop.place = (struct ptah_place){0};
	w->item_room[0] = w->position.was;
	w->config.callback_error = 0;
	walk_forget_items(w);
}

/* Whether a PSB+ right after this one reports that tracing is on after all. libipt accepts that. */
static bool is_corrected(struct walk *w, const struct ptah_item *item)
{
	uint64_t offset;

	item++;
	if (!walk_is_item(w, &item) || item->type != PTAH_ITEM_ERROR ||
	    item->status != PTAH_E_BAD_CONTEXT)
		return false;
	offset = item->offset;
	item++;
	return walk_is_item(w, &item) && item->type == PTAH_ITEM_PSB && item->offset == offset &&
	       !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
}

/* Takes from the first PSB+ whether tracing is on. Returns a status or what is wrong with it. */
static int begin(struct walk *w)
{
	bool on = false;
	int status;

	walk_refill(w);
	for (const struct ptah_item *item = w->items.next; walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_ERROR && item == w->items.next) {
			walk_meet_error(w);
			break;
		}
		/* An OVF also ends a PSB+; then the other packets have its FUP. */
		if (item->type != PTAH_ITEM_OVERFLOW)
			on = !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
		if (item->type != PTAH_ITEM_PSB && item->type != PTAH_ITEM_OVERFLOW)
			continue;
		w->state.enabled = on || is_corrected(w, item);
		status = walk_status(w);
		if (!(status & pts_eos))
			return status;
		break; /* nothing follows it */
	}
	status = w->stop.error ? w->stop.error : -pte_eos;
	walk_offset(w, &w->position.stop_offset);
	w->stop.error = -pte_no_enable;
	w->position.running = false;
	return status;
}

static int start(struct walk *w, uint64_t offset)
{
	walk_reset(w);
	w->position.sync = w->position.was.offset = offset;
	w->position.synced = w->position.running = true;
	ptah_flow_seek(w->flow, offset);
	ptah_flow_feed(w->flow, w->config.user.begin + offset,
		       config_size(&w->config) - (size_t)offset, true);
	return begin(w);
}

/* There is no PSB to begin at: keeps the position in the trace, and resets everything else. */
static int stop(struct walk *w, int code)
{
	const uint16_t ratio = w->state.ratio;
	struct ptah_item now;
	uint64_t offset = 0;
	bool at_last;

	walk_offset(w, &offset);
	now = *walk_find_now(w, &at_last);
	walk_reset(w);
	w->position.was = now;
	w->position.was_at_last = at_last;
	w->state.ratio = ratio;
	w->position.running = false;
	w->position.stop_offset = offset;
	w->stop.error = -pte_no_enable;
	return code;
}

int walk_sync_forward(struct walk *w)
{
	const uint8_t *begins = w->config.user.begin, *psb;
	uint64_t from = 0;

	if (walk_offset(w, &from) >= 0) {
		/*
		 * A PSB that lies wholly before `from` has been read and does not count. One of
		 * which only the first bytes do is found.
		 */
		from = from == w->position.sync ? from + PSB_SIZE : from;
		from -= from < PSB_SIZE ? from : PSB_SIZE - 1;
		from = from <= w->position.sync ? w->position.sync + 1 : from;
	}
	if (from > config_size(&w->config))
		return stop(w, -pte_eos);
	psb = ptah_packet_find_psb(begins + from, w->config.user.end);
	return psb ? start(w, (uint64_t)(psb - begins)) : stop(w, -pte_eos);
}

int walk_sync_backward(struct walk *w)
{
	const uint8_t *begins = w->config.user.begin, *psb;
	struct position position = {.end = POSITION_PSBEND};
	uint64_t from = config_size(&w->config), before;
	int status;

	walk_offset(w, &from);
	/* PSBs that only reading ahead has passed do not count. */
	before = w->position.backward ? w->position.sync : from;
	do {
		psb = ptah_packet_find_last_psb(begins, begins + before);
		if (!psb) {
			const bool backward = w->position.backward;

			status = stop(w, -pte_eos);
			w->position.backward = backward;
			return status;
		}
		before = (uint64_t)(psb - begins);
		status = start(w, before);
		position.offset = before;
		position.at_last =
		    w->pending.count && walk_first_pending(w)->item.flags & PTAH_ITEM_STATUS;
		/*
		 * A PSB+ that is incomplete is no place to begin, nor is one at which the walk
		 * already is.
		 */
	} while (status == -pte_eos ||
		 (status >= 0 && position_ahead(&w->config, position) == from));
	w->position.backward = true;
	return status;
}

int walk_sync_set(struct walk *w, uint64_t offset)
{
	const int status = config_check_psb(&w->config, offset);

	return status < 0 ? stop(w, status) : start(w, offset);
}

/*
 * Whether tracing is on after an error, at which it was. The first item that depends on it decides.
 * Events without an address do not: a PTW without a FUP, for example, is sent while tracing is on.
 */
static bool begins_enabled(struct walk *w)
{
	for (const struct ptah_item *item = w->items.next; walk_is_item(w, &item); item++) {
		switch (item->type) {
		case PTAH_ITEM_ENABLED:
			return false;
		case PTAH_ITEM_PSB:
			return !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
		case PTAH_ITEM_OVERFLOW: /* reports it itself */
		case PTAH_ITEM_BLOCK:
		case PTAH_ITEM_ASYNC_BRANCH:
		case PTAH_ITEM_ASYNC_DISABLED:
		case PTAH_ITEM_DISABLED:
		case PTAH_ITEM_ERROR:
			return true;
		default:
			break;
		}
	}
	return true;
}

/*
 * The caller could not read the pending event, because it contradicts the state. Like libipt 2.3,
 * this believes the event where it says whether tracing is on, and then the caller can read it. A
 * PSB+ with another state is an error again.
 */
static int believe_event(struct walk *w)
{
	const struct pt_event *event = &walk_first_pending(w)->event;

	if (event->status_update)
		return w->pending.refused;
	w->state.enabled = event->type != ptev_enabled && event->type != ptev_stop;
	w->pending.refused = 0;
	w->position.resynced = true;
	return walk_status(w);
}

/*
 * Each call that succeeds has moved: it has passed an error of the trace, it has made an event
 * readable that was not, or something has been reported since the last one that succeeded. A
 * caller that calls it after every error therefore reaches the end.
 */
int walk_resync(struct walk *w)
{
	if (!w->position.synced || !w->position.running)
		return -pte_nosync;
	if (!w->stop.error) {
		if (w->pending.count && w->pending.refused)
			return believe_event(w);
		if (w->position.resynced)
			return -pte_nosync;
		w->position.resynced = true;
		return walk_status(w);
	}
	if (!w->stop.is_item)
		return w->stop.error;
	walk_keep_now(w);
	if (ptah_flow_rewind(w->flow) < 0 || !walk_lead(w, w->stop.used_up + 1) ||
	    ptah_flow_resync(w->flow) < 0)
		return w->stop.error;
	walk_forget_items(w);
	w->item_room[0] = w->position.was;
	if (w->pending.count) /* discarded, but libipt has read it */
		w->state.ratio =
		    w->pending.events[(w->pending.first + w->pending.count - 1) % WALK_PENDING]
			.ratio;
	w->pending.count = 0;
	w->pending.refused = 0;
	w->pending.after_cut = false;
	walk_refill(w);
	if (w->items.next == w->items.end)
		return w->stop.error;
	w->state.ip = 0;
	w->state.enabled = begins_enabled(w);
	if (w->items.next->type ==
	    PTAH_ITEM_DISABLED) { /* reported by the status, not by an event */
		w->state.enabled = false;
		w->position.now = w->items.next++;
	}
	w->position.resynced = true;
	return walk_status(w);
}
