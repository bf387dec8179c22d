/* SPDX-License-Identifier: MIT */
/*
 * Reads blocks without time and offset between events, and goes back to items when something else
 * than the next block is asked for.
 */
#include "walk_parts.h"

bool walk_more_blocks(struct walk *w)
{
	const size_t left = (size_t)(w->blocks.end - w->blocks.next);
	size_t room = WALK_BLOCKS - 1 - left;
	int n;

	if (w->blocks.are_last || left > WALK_BLOCKS / 2)
		return false;
	if (!left && w->blocks.has_tail) {
		w->item_room[0] = w->position.was = w->blocks.tail;
		w->position.was_at_last = false;
		if (ptah_flow_mark(w->flow) < 0)
			return false;
		w->blocks.told = 0;
	} else {
		w->blocks.told += (unsigned)(w->blocks.next - w->block_room);
		memmove(w->block_room, w->blocks.next, left * sizeof(*w->block_room));
	}
	w->blocks.next = w->block_room;
	w->blocks.end = w->block_room + left;
	w->blocks.has_tail = false;
	n = ptah_flow_read_blocks(w->flow, w->block_room + left, room);
	if (n <= 0) {
		w->blocks.are_last = true;
		return false;
	}
	w->blocks.end += n;
	w->blocks.read += (unsigned)n;
	/*
	 * A mark after the last block must know its item. The flow has it, unless an event follows;
	 * else the next block is read as an item.
	 */
	if (ptah_flow_last_block(w->flow, &w->blocks.tail) &&
	    walk_needs_trace(w->blocks.tail.insn_class)) {
		w->blocks.has_tail = true;
		return true;
	}
	n = ptah_flow_read(w->flow, &w->blocks.tail, 1);
	if (n != 1 || w->blocks.tail.type != PTAH_ITEM_BLOCK) {
		w->blocks.are_last = true;
		return true;
	}
	w->block_room[w->blocks.end++ - w->block_room] =
	    (struct ptah_block){.ip = w->blocks.tail.ip,
				.size = (uint16_t)(w->blocks.tail.end - w->blocks.tail.ip),
				.space = (uint16_t)w->blocks.tail.code.space,
				.ninsn = (uint8_t)w->blocks.tail.ninsn,
				.insn_class = w->blocks.tail.insn_class,
				.last_size = w->blocks.tail.last_size,
				.mode = w->blocks.tail.mode,
				.flags = w->blocks.tail.flags};
	w->blocks.has_tail = walk_needs_trace(w->blocks.tail.insn_class);
	return true;
}

bool walk_enter_blocks(struct walk *w)
{
	if (w->blocks.wait) {
		w->blocks.wait--;
		return false;
	}
	if (w->ticks || image_has_callback(w->image))
		return false;
	walk_keep_now(w);
	w->item_room[0] = w->items.next[-1];
	w->items.next = w->items.end = walk_first_item(w);
	w->stop.used_up = w->items.dropped = 0;
	w->blocks.next = w->blocks.end = w->block_room;
	w->blocks.told = w->blocks.read = 0;
	w->blocks.are_last = w->blocks.has_tail = false;
	/* Without a mark the walk could not go back. */
	return ptah_flow_mark(w->flow) >= 0 && walk_more_blocks(w);
}

void walk_leave_blocks(struct walk *w)
{
	unsigned told = w->blocks.told + (unsigned)(w->blocks.next - w->block_room);

	const bool at_mark = w->blocks.end == w->block_room && !told;

	if (w->blocks.read < WALK_MANY_BLOCKS)
		w->blocks.wait = 8;
	walk_forget_items(w);
	if (at_mark)
		return;
	ptah_flow_rewind(w->flow);
	while (told) {
		const unsigned most = told < WALK_BATCH ? told : WALK_BATCH;
		const int n = ptah_flow_read(w->flow, walk_first_item(w), most);

		if (n <= 0) /* does not happen: the items were read before */
			break;
		for (const struct ptah_item *i = w->items.end; i < w->items.end + n; i++)
			if (walk_needs_trace(i->insn_class)) {
				w->position.was = *i;
				w->position.was_at_last = false;
			}
		w->item_room[0] = w->item_room[n];
		told -= (unsigned)n;
	}
	ptah_flow_mark(w->flow);
}
