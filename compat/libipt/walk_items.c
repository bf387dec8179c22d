/* SPDX-License-Identifier: MIT */
/* Reads the flow's items in batches, and reads them again when the image changes. */
#include "walk_parts.h"

#include "pt_error.h"

void walk_forget_items(struct walk *w)
{
	w->items.next = w->items.end = walk_first_item(w);
	w->blocks.next = w->blocks.end = w->block_room;
	w->quick = w->insns.loaded = w->stop.ahead = w->stop.is_item = false;
	w->insns.pos = w->insns.count = 0;
	w->stop.used_up = w->items.dropped = w->items.skip = w->stop.ahead_told = 0;
	w->stop.error = 0;
	w->stop.eos_told = false;
	w->stop.offset = UINT64_MAX;
}

unsigned walk_used_up(const struct walk *w)
{
	return w->stop.ahead ? w->stop.used_up
			     : w->items.dropped + (unsigned)(w->items.next - w->item_room) - 1;
}

void walk_keep_now(struct walk *w)
{
	if (!w->position.now)
		return;
	w->position.was = *w->position.now;
	w->position.was_at_last = false;
	w->position.now = NULL;
}

void walk_refill(struct walk *w)
{
	/* A callback's memory may change at every event: read no further ahead. */
	const bool asks = image_has_callback(w->image);
	const size_t batch = asks ? 1 : w->by_insn || w->blocks.wait ? WALK_BATCH : WALK_FEW_ITEMS;
	int n;

	walk_keep_now(w);
	if (w->items.next != walk_first_item(w))
		w->item_room[0] = w->items.next[-1];
	if (asks && w->item_room[0].type != PTAH_ITEM_BLOCK)
		image_read_again(w->image);
	w->items.next = w->items.end = walk_first_item(w);
	w->stop.used_up = w->items.dropped = 0;
	ptah_flow_mark(
	    w->flow); /* without memory for a mark, a change of the image is noticed late */
	n = ptah_flow_read(w->flow, walk_first_item(w), batch);
	if (n > 0) {
		w->items.end += n;
		return;
	}
	w->stop.error = n < 0 ? error_from_ptah(n) : -pte_eos;
	w->stop.eos_told = !n;
	if (ptah_flow_place(w->flow, &w->stop.place) < 0)
		w->stop.place = (struct ptah_place){0};
}

/* Removes what was reported from the array, to make room. */
static void compact(struct walk *w)
{
	const size_t told = (size_t)(w->items.next - w->item_room) - 1;
	const size_t left = (size_t)(w->items.end - w->items.next);

	walk_keep_now(w);
	if (!told)
		return;
	memmove(w->item_room, w->items.next - 1, (left + 1) * sizeof(*w->item_room));
	w->items.dropped += (unsigned)told;
	w->items.next = walk_first_item(w);
	w->items.end = w->items.next + left;
}

bool walk_is_item(struct walk *w, const struct ptah_item **item)
{
	const ptrdiff_t at = *item - w->items.next;
	size_t room;
	int n;

	if (LIKELY(*item != w->items.end))
		return true;
	if (w->stop.ahead || (w->stop.error && !w->stop.is_item))
		return false;
	if (w->items.end == w->item_room + sizeof(w->item_room) / sizeof(*w->item_room))
		compact(w);
	*item = w->items.next + at;
	room = (size_t)(w->item_room + sizeof(w->item_room) / sizeof(*w->item_room) - w->items.end);
	room = room < WALK_ROOM ? room : WALK_ROOM;
	n = room ? ptah_flow_read(w->flow, w->item_room + (w->items.end - w->item_room), room) : 0;
	if (n > 0)
		w->items.end += n;
	return n > 0;
}

bool walk_lead(struct walk *w, unsigned items)
{
	while (items) {
		const unsigned most = items < WALK_BATCH ? items : WALK_BATCH;
		const int n = ptah_flow_read(w->flow, walk_first_item(w), most);

		if (n <= 0)
			return false;
		items -= (unsigned)n;
	}
	return true;
}

void walk_step_back(struct image_user *user)
{
	struct walk *w = (struct walk *)((char *)user - offsetof(struct walk, user));
	const unsigned raw = walk_used_up(w);
	unsigned skip = w->items.skip + (w->insns.loaded ? w->insns.pos : 0u) +
			(w->stop.ahead ? w->stop.ahead_told : 0u);

	walk_forget_sections(w);
	if (!w->position.running || image_is_asking(w->image))
		return;
	if (walk_has_blocks(w)) {
		walk_leave_blocks(w);
		return;
	}
	if (ptah_flow_rewind(w->flow) < 0)
		return;
	walk_keep_now(w);
	if (!w->stop.ahead && w->items.next != walk_first_item(w))
		w->item_room[0] = w->items.next[-1];
	walk_lead(w, raw);
	walk_forget_items(w);
	w->items.skip = skip;
	ptah_flow_mark(w->flow);
}

void walk_image_gone(struct image_user *user)
{
	struct walk *w = (struct walk *)((char *)user - offsetof(struct walk, user));

	w->image = NULL;
	walk_set_image(w, NULL);
}
