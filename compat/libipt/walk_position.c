/* SPDX-License-Identifier: MIT */
/*
 * What a caller can ask about the walk's position: offset and time as libipt would report them, the
 * core's ratio, the address space.
 */
#include "walk_parts.h"

#include "position.h"

const struct ptah_item *walk_find_now(struct walk *w, bool *at_last)
{
	const struct ptah_item *item;

	if (walk_has_blocks(w)) {
		walk_leave_blocks(w);
		if (w->blocks.asked < 16)
			w->blocks.asked++;
		w->blocks.wait = 8u << w->blocks.asked;
	}
	if (w->pending.count) {
		*at_last = walk_first_pending(w)->at_last;
		return &walk_first_pending(w)->item;
	}
	for (item = w->items.next; !w->stop.ahead && walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_ERROR) {
			if (!walk_find_missed(w, &item))
				break;
			*at_last = walk_is_tied(w, &item);
			return item;
		}
		if (item->type == PTAH_ITEM_PSB) /* libipt has no event for it */
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
	*at_last = !w->position.now && w->position.was_at_last;
	return w->position.now ? w->position.now : &w->position.was;
}

int walk_offset(struct walk *w, uint64_t *offset)
{
	const struct ptah_item *item;
	struct position position;
	bool at_last;

	if (!w->position.synced)
		return -pte_nosync;
	if (!w->position.running && !w->stop.is_item) {
		*offset = w->position.stop_offset;
	} else if (w->stop.is_item && w->stop.offset != UINT64_MAX) {
		*offset = position_of_error(&w->config, w->stop.offset);
	} else {
		item = walk_find_now(w, &at_last);
		position = position_of(item);
		position.at_last = at_last;
		/*
		 * A PTWRITE that was found in the code has no FUP. SDM "PTWRITE Packet": the IP
		 * bit.
		 */
		if (item->type == PTAH_ITEM_PTWRITE &&
		    !(w->config.user.begin[item->offset + 1] & 0x80))
			position.end = POSITION_PACKET;
		*offset = position_ahead(&w->config, position);
	}
	return 0;
}

int walk_sync_offset(const struct walk *w, uint64_t *offset)
{
	if (!w->position.synced)
		return -pte_nosync;
	*offset = w->position.sync;
	return 0;
}

int walk_time(struct walk *w, uint64_t *tsc, uint32_t *lost_mtc, uint32_t *lost_cyc)
{
	bool at_last;

	*tsc = w->position.synced ? walk_find_now(w, &at_last)->tsc : 0;
	/* Nothing is lost: the decoder uses every packet with a time as soon as it can. */
	if (lost_mtc)
		*lost_mtc = 0;
	if (lost_cyc)
		*lost_cyc = 0;
	return *tsc ? 0 : -pte_no_time;
}

int walk_ratio(struct walk *w, uint32_t *ratio)
{
	if (!w->state.ratio)
		return -pte_no_cbr;
	*ratio = w->state.ratio;
	return 0;
}

int walk_asid(const struct walk *w, struct pt_asid *asid, size_t size)
{
	const struct pt_asid now = {.size = size < sizeof(now) ? size : sizeof(now),
				    .cr3 = w->state.cr3,
				    .vmcs = w->state.vmcs};

	if (size < sizeof(now.size))
		return -pte_invalid;
	memcpy(asid, &now, now.size);
	return 0;
}
