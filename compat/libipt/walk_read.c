/* SPDX-License-Identifier: MIT */
/* Reading: items and blocks of the flow, and the way back when the image changes. */
#include "walk_parts.h"

#include "pt_error.h"

void walk_forget_items(struct walk *w)
{
	w->next = w->end = walk_first_item(w);
	w->block = w->block_end = w->blocks;
	w->quick = w->loaded = w->ahead = w->error_told = false;
	w->pos = w->ninsn = 0;
	w->raw = w->dropped = w->skip = w->ahead_told = 0;
	w->error = 0;
	w->eos_told = false;
	w->error_offset = UINT64_MAX;
}

unsigned walk_used_up(const struct walk *w)
{
	return w->ahead ? w->raw : w->dropped + (unsigned)(w->next - w->items) - 1;
}

void walk_keep_now(struct walk *w)
{
	if (!w->now)
		return;
	w->was = *w->now;
	w->was_at_last = false;
	w->now = NULL;
}

void walk_refill(struct walk *w)
{
	/* Memory behind a callback may change with every event: read no further. */
	const bool asks = image_has_callback(w->image);
	const size_t batch = asks ? 1 : w->by_insn || w->blocks_wait ? WALK_BATCH : WALK_FEW_ITEMS;
	int n;

	walk_keep_now(w);
	if (w->next != walk_first_item(w))
		w->items[0] = w->next[-1];
	if (asks && w->items[0].type != PTAH_ITEM_BLOCK)
		ptah_image_reader_changed(image_ptah(w->image));
	w->next = w->end = walk_first_item(w);
	w->raw = w->dropped = 0;
	ptah_flow_mark(w->flow); /* without memory for it, an image that changes is seen late */
	n = ptah_flow_read(w->flow, walk_first_item(w), batch);
	if (n > 0) {
		w->end += n;
		return;
	}
	w->error = n < 0 ? error_from_ptah(n) : -pte_eos;
	w->eos_told = !n;
	if (ptah_flow_place(w->flow, &w->place) < 0)
		w->place = (struct ptah_place){0};
}

/* Takes what is told out of the array, to make room. */
static void compact(struct walk *w)
{
	const size_t told = (size_t)(w->next - w->items) - 1;
	const size_t left = (size_t)(w->end - w->next);

	walk_keep_now(w);
	if (!told)
		return;
	memmove(w->items, w->next - 1, (left + 1) * sizeof(*w->items));
	w->dropped += (unsigned)told;
	w->next = walk_first_item(w);
	w->end = w->next + left;
}

bool walk_is_item(struct walk *w, const struct ptah_item **item)
{
	const ptrdiff_t at = *item - w->next;
	size_t room;
	int n;

	if (LIKELY(*item != w->end))
		return true;
	if (w->ahead || (w->error && !w->error_told))
		return false;
	if (w->end == w->items + sizeof(w->items) / sizeof(*w->items))
		compact(w);
	*item = w->next + at;
	room = (size_t)(w->items + sizeof(w->items) / sizeof(*w->items) - w->end);
	room = room < WALK_ROOM ? room : WALK_ROOM;
	n = room ? ptah_flow_read(w->flow, w->items + (w->end - w->items), room) : 0;
	if (n > 0)
		w->end += n;
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

/* Blocks */

bool walk_more_blocks(struct walk *w)
{
	const size_t left = (size_t)(w->block_end - w->block);
	size_t room = WALK_BLOCKS - 1 - left;
	int n;

	if (w->blocks_last || left > WALK_BLOCKS / 2)
		return false;
	if (!left && w->has_tail) {
		w->items[0] = w->was = w->tail;
		w->was_at_last = false;
		if (ptah_flow_mark(w->flow) < 0)
			return false;
		w->blocks_told = 0;
	} else {
		w->blocks_told += (unsigned)(w->block - w->blocks);
		memmove(w->blocks, w->block, left * sizeof(*w->blocks));
	}
	w->block = w->blocks;
	w->block_end = w->blocks + left;
	w->has_tail = false;
	n = ptah_flow_read_blocks(w->flow, w->blocks + left, room);
	if (n <= 0) {
		w->blocks_last = true;
		return false;
	}
	w->block_end += n;
	w->blocks_read += (unsigned)n;
	/* One with all that a mark behind it must know: at an event the last has it, or it may. */
	if (ptah_flow_last_block(w->flow, &w->tail) && walk_needs_trace(w->tail.insn_class)) {
		w->has_tail = true;
		return true;
	}
	n = ptah_flow_read(w->flow, &w->tail, 1);
	if (n != 1 || w->tail.type != PTAH_ITEM_BLOCK) {
		w->blocks_last = true;
		return true;
	}
	w->blocks[w->block_end++ - w->blocks] =
	    (struct ptah_block){.ip = w->tail.ip,
				.size = (uint16_t)(w->tail.end - w->tail.ip),
				.space = (uint16_t)w->tail.code.space,
				.ninsn = (uint8_t)w->tail.ninsn,
				.insn_class = w->tail.insn_class,
				.last_size = w->tail.last_size,
				.mode = w->tail.mode,
				.flags = w->tail.flags};
	w->has_tail = walk_needs_trace(w->tail.insn_class);
	return true;
}

bool walk_enter_blocks(struct walk *w)
{
	if (w->blocks_wait) {
		w->blocks_wait--;
		return false;
	}
	if (w->ticks || image_has_callback(w->image))
		return false;
	walk_keep_now(w);
	w->items[0] = w->next[-1];
	w->next = w->end = walk_first_item(w);
	w->raw = w->dropped = 0;
	w->block = w->block_end = w->blocks;
	w->blocks_told = w->blocks_read = 0;
	w->blocks_last = w->has_tail = false;
	/* Without a mark there is no way back. */
	return ptah_flow_mark(w->flow) >= 0 && walk_more_blocks(w);
}

void walk_leave_blocks(struct walk *w)
{
	unsigned told = w->blocks_told + (unsigned)(w->block - w->blocks);

	const bool at_mark = w->block_end == w->blocks && !told;

	if (w->blocks_read < WALK_MANY_BLOCKS)
		w->blocks_wait = 8;
	walk_forget_items(w);
	if (at_mark)
		return;
	ptah_flow_rewind(w->flow);
	while (told) {
		const unsigned most = told < WALK_BATCH ? told : WALK_BATCH;
		const int n = ptah_flow_read(w->flow, walk_first_item(w), most);

		if (n <= 0) /* it was read before */
			break;
		for (const struct ptah_item *i = w->end; i < w->end + n; i++)
			if (walk_needs_trace(i->insn_class)) {
				w->was = *i;
				w->was_at_last = false;
			}
		w->items[0] = w->items[n];
		told -= (unsigned)n;
	}
	ptah_flow_mark(w->flow);
}

void walk_step_back(struct image_user *user)
{
	struct walk *w = (struct walk *)((char *)user - offsetof(struct walk, user));
	const unsigned raw = walk_used_up(w);
	unsigned skip = w->skip + (w->loaded ? w->pos : 0u) + (w->ahead ? w->ahead_told : 0u);

	walk_forget_sections(w);
	if (!w->running || image_is_asking(w->image))
		return;
	if (walk_has_blocks(w)) {
		walk_leave_blocks(w);
		return;
	}
	if (ptah_flow_rewind(w->flow) < 0)
		return;
	walk_keep_now(w);
	if (!w->ahead && w->next != walk_first_item(w))
		w->items[0] = w->next[-1];
	walk_lead(w, raw);
	walk_forget_items(w);
	w->skip = skip;
	ptah_flow_mark(w->flow);
}

void walk_image_gone(struct image_user *user)
{
	struct walk *w = (struct walk *)((char *)user - offsetof(struct walk, user));

	w->image = NULL;
	walk_set_image(w, NULL);
}
