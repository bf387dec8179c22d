/* SPDX-License-Identifier: MIT */
/* Where the walk is: its offset and time, and the PSBs it begins at. */
#include "walk_parts.h"

#include "pt_error.h"
#include "position.h"

/* Asked for */

/*
 * What libipt has read last: an event that comes before the next branch is read
 * before its place is reached; so is what comes with an indirect branch, which is
 * sent before it. *at_last: not all has been told of what its last packet brings.
 */
static const struct ptah_item *find_now(struct walk *w, bool *at_last)
{
	const struct ptah_item *item;

	if (walk_has_blocks(w)) {
		walk_leave_blocks(w);
		if (w->blocks_asked < 16)
			w->blocks_asked++;
		w->blocks_wait = 8u << w->blocks_asked;
	}
	if (w->pending_count) {
		*at_last = walk_first_pending(w)->at_last;
		return &walk_first_pending(w)->item;
	}
	for (item = w->next; !w->ahead && walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_ERROR) {
			if (!walk_find_missed(w, &item))
				break;
			*at_last = walk_is_tied(w, &item);
			return item;
		}
		if (item->type == PTAH_ITEM_PSB) /* no event of its own */
			continue;
		if (item->type != PTAH_ITEM_BLOCK) {
			*at_last = walk_is_tied(w, &item);
			return item;
		}
		if (!walk_needs_trace(item->insn_class))
			continue;
		item++;
		*at_last = true;
		if (!walk_is_item(w, &item))
			break;
		if (item->type == PTAH_ITEM_DISABLED) { /* the branch has no other packet */
			*at_last = walk_is_tied(w, &item);
			return item;
		}
		if (item[-1].insn_class != PTAH_INSN_COND && walk_is_of_branch(w, item))
			return item;
		break;
	}
	*at_last = !w->now && w->was_at_last;
	return w->now ? w->now : &w->was;
}

int walk_offset(struct walk *w, uint64_t *offset)
{
	const struct ptah_item *item;
	struct position position;
	bool at_last;

	if (!w->synced)
		return -pte_nosync;
	if (!w->running && !w->error_told) {
		*offset = w->stop_offset;
	} else if (w->error_told && w->error_offset != UINT64_MAX) {
		*offset = position_of_error(&w->config, w->error_offset);
	} else {
		item = find_now(w, &at_last);
		position = position_of(item);
		position.at_last = at_last;
		/* A PTWRITE that was found in the code has no FUP. SDM "PTWRITE Packet": the IP
		 * bit. */
		if (item->type == PTAH_ITEM_PTWRITE &&
		    !(w->config.user.begin[item->offset + 1] & 0x80))
			position.end = POSITION_PACKET;
		*offset = position_ahead(&w->config, position);
	}
	return 0;
}

int walk_sync_offset(const struct walk *w, uint64_t *offset)
{
	if (!w->synced)
		return -pte_nosync;
	*offset = w->sync;
	return 0;
}

int walk_time(struct walk *w, uint64_t *tsc, uint32_t *lost_mtc, uint32_t *lost_cyc)
{
	bool at_last;

	*tsc = w->synced ? find_now(w, &at_last)->tsc : 0;
	/* Nothing is lost: a packet that says the time is used as soon as it can be. */
	if (lost_mtc)
		*lost_mtc = 0;
	if (lost_cyc)
		*lost_cyc = 0;
	return *tsc ? 0 : -pte_no_time;
}

int walk_ratio(struct walk *w, uint32_t *ratio)
{
	if (!w->ratio)
		return -pte_no_cbr;
	*ratio = w->ratio;
	return 0;
}

int walk_asid(const struct walk *w, struct pt_asid *asid, size_t size)
{
	const struct pt_asid now = {
	    .size = size < sizeof(now) ? size : sizeof(now), .cr3 = w->cr3, .vmcs = w->vmcs};

	if (size < sizeof(now.size))
		return -pte_invalid;
	memcpy(asid, &now, now.size);
	return 0;
}

/* Beginning */

void walk_reset(struct walk *w)
{
	w->enabled = w->speculative = false;
	w->mode = ptem_unknown;
	w->ip = 0;
	w->cr3 = pt_asid_no_cr3;
	w->vmcs = pt_asid_no_vmcs;
	w->event_tsc = 0;
	w->ratio = 0;
	w->pending_first = w->pending_count = 0;
	w->passed = w->forced = w->after_cut = w->backward = false;
	w->events = (struct event_state){0};
	w->was = (struct ptah_item){.type = PTAH_ITEM_PSB, .flags = PTAH_ITEM_STATUS};
	w->was_at_last = false;
	w->now = NULL;
	w->place = (struct ptah_place){0};
	w->items[0] = w->was;
	w->config.callback_error = 0;
	walk_forget_items(w);
}

/* Does a PSB+ directly behind this one say that tracing is on after all? It is believed. */
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

/* Whether tracing is on, out of the first PSB+; or what is wrong with it. */
static int begin(struct walk *w)
{
	bool on = false;
	int status;

	walk_refill(w);
	for (const struct ptah_item *item = w->next; walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_ERROR && item == w->next) {
			walk_meet_error(w);
			break;
		}
		/* An OVF ends a PSB+ as well, whose FUP its other packets have. */
		if (item->type != PTAH_ITEM_OVERFLOW)
			on = !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
		if (item->type != PTAH_ITEM_PSB && item->type != PTAH_ITEM_OVERFLOW)
			continue;
		w->enabled = on || is_corrected(w, item);
		status = walk_status(w);
		if (!(status & pts_eos))
			return status;
		break; /* there is nothing behind it */
	}
	status = w->error ? w->error : -pte_eos;
	walk_offset(w, &w->stop_offset);
	w->error = -pte_no_enable;
	w->running = false;
	return status;
}

static int start(struct walk *w, uint64_t offset)
{
	walk_reset(w);
	w->sync = w->was.offset = offset;
	w->synced = w->running = true;
	ptah_flow_seek(w->flow, offset);
	ptah_flow_feed(w->flow, w->config.user.begin + offset,
		       config_size(&w->config) - (size_t)offset, true);
	return begin(w);
}

/* No PSB to begin at: the position in the trace stays, and nothing else. */
static int stop(struct walk *w, int code)
{
	const uint16_t ratio = w->ratio;
	struct ptah_item now;
	uint64_t offset = 0;
	bool at_last;

	walk_offset(w, &offset);
	now = *find_now(w, &at_last);
	walk_reset(w);
	w->was = now;
	w->was_at_last = at_last;
	w->ratio = ratio;
	w->running = false;
	w->stop_offset = offset;
	w->error = -pte_no_enable;
	return code;
}

int walk_sync_forward(struct walk *w)
{
	const uint8_t *begins = w->config.user.begin, *psb;
	uint64_t from = 0;

	if (walk_offset(w, &from) >= 0) {
		/* The rest of one that has been read over does not count, its front does. */
		from = from == w->sync ? from + PSB_SIZE : from;
		from -= from < PSB_SIZE ? from : PSB_SIZE - 1;
		from = from <= w->sync ? w->sync + 1 : from;
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
	/* Reading ahead may have passed other PSBs, which are no way back. */
	before = w->backward ? w->sync : from;
	do {
		psb = ptah_packet_find_last_psb(begins, begins + before);
		if (!psb) {
			const bool backward = w->backward;

			status = stop(w, -pte_eos);
			w->backward = backward;
			return status;
		}
		before = (uint64_t)(psb - begins);
		status = start(w, before);
		position.offset = before;
		position.at_last =
		    w->pending_count && walk_first_pending(w)->item.flags & PTAH_ITEM_STATUS;
		/* One that is not whole cannot be begun at; nor is it a step to where we were. */
	} while (status == -pte_eos ||
		 (status >= 0 && position_ahead(&w->config, position) == from));
	w->backward = true;
	return status;
}

int walk_sync_set(struct walk *w, uint64_t offset)
{
	const int status = config_check_psb(&w->config, offset);

	return status < 0 ? stop(w, status) : start(w, offset);
}

/* Is tracing on where an item is that comes first? */
static bool begins_enabled(const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_ENABLED:
		return false;
	case PTAH_ITEM_OVERFLOW: /* it says so itself, where it is told */
	case PTAH_ITEM_BLOCK:
	case PTAH_ITEM_ASYNC_BRANCH:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_DISABLED:
		return true;
	default:
		return !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
	}
}

int walk_resync(struct walk *w)
{
	if (!w->synced || !w->running)
		return -pte_nosync;
	if (!w->error)
		return walk_status(w);
	if (!w->error_told)
		return w->error;
	walk_keep_now(w);
	if (ptah_flow_rewind(w->flow) < 0 || !walk_lead(w, w->raw + 1) ||
	    ptah_flow_resync(w->flow) < 0)
		return w->error;
	walk_forget_items(w);
	w->items[0] = w->was;
	if (w->pending_count) /* gone, but read */
		w->ratio =
		    w->pending[(w->pending_first + w->pending_count - 1) % WALK_PENDING].ratio;
	w->pending_count = 0;
	w->after_cut = false;
	walk_refill(w);
	if (w->next == w->end)
		return w->error;
	w->ip = 0;
	if (w->next->type == PTAH_ITEM_DISABLED) { /* the status says so, and no event */
		w->enabled = false;
		w->now = w->next++;
	} else {
		w->enabled = begins_enabled(w->next);
	}
	return walk_status(w);
}
