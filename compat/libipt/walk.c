/* SPDX-License-Identifier: MIT */
#include "walk.h"

#include "error.h"
#include "position.h"

#include <stdlib.h>

const uint8_t walk_classes[PTAH_INSN_CLASS_MAX] = {
    [PTAH_INSN_OTHER] = ptic_other,
    [PTAH_INSN_COND] = ptic_cond_jump,
    [PTAH_INSN_JUMP] = ptic_jump,
    [PTAH_INSN_CALL] = ptic_call,
    [PTAH_INSN_JUMP_IND] = ptic_jump,
    [PTAH_INSN_CALL_IND] = ptic_call,
    [PTAH_INSN_RETURN] = ptic_return,
    [PTAH_INSN_FAR_CALL] = ptic_far_call,
    [PTAH_INSN_FAR_RETURN] = ptic_far_return,
    [PTAH_INSN_FAR_JUMP] = ptic_far_jump,
    [PTAH_INSN_PTWRITE] = ptic_ptwrite,
};

/* Sections */

static void forget_sections(struct walk *w)
{
	const struct walk_section none = {.first = 1};

	w->at = none;
	for (unsigned i = 0; i < WALK_SECTIONS; i++)
		w->sections[i] = none;
}

void walk_find_section(struct walk *w, uint64_t ip, uint32_t number)
{
	struct walk_section *known = &w->sections[(ip >> 12 ^ number) & (WALK_SECTIONS - 1)];
	struct ptah_space space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	struct ptah_section section;

	if (ip >= known->first && ip <= known->last && known->space == number) {
		w->at = *known;
		return;
	}
	ptah_flow_space(w->flow, number, &space);
	w->at = (struct walk_section){.first = ip, .last = ip, .space = number};
	if (ptah_image_find(image_ptah(w->image), ip, &space, &section) < 0)
		return;
	w->at.first = section.address;
	w->at.last = section.address + section.size - 1;
	w->at.section = section.id;
	w->at.isid = image_isid(w->image, section.id);
	*known = w->at;
}

/* Reading */

static struct ptah_item *first_item(struct walk *w)
{
	return w->items + 1;
}

/* Nothing is read, nothing known of what comes. */
static void forget_items(struct walk *w)
{
	w->next = w->end = first_item(w);
	w->block = w->block_end = w->blocks;
	w->quick = w->loaded = w->ahead = w->error_told = false;
	w->pos = w->ninsn = 0;
	w->raw = w->dropped = w->skip = w->ahead_told = 0;
	w->error = 0;
	w->eos_told = false;
	w->error_offset = UINT64_MAX;
}

static unsigned used_up(const struct walk *w)
{
	return w->ahead ? w->raw : w->dropped + (unsigned)(w->next - w->items) - 1;
}

static void keep_now(struct walk *w)
{
	if (!w->now)
		return;
	w->was = *w->now;
	w->was_at_last = false;
	w->now = NULL;
}

/* The batch is told: the next one, or the end. */
static void refill(struct walk *w)
{
	/* Memory behind a callback may change with every event: read no further. */
	const bool asks = image_has_callback(w->image);
	const size_t batch = asks ? 1 : w->by_insn || w->blocks_wait ? WALK_BATCH : WALK_FEW_ITEMS;
	int n;

	keep_now(w);
	if (w->next != first_item(w))
		w->items[0] = w->next[-1];
	if (asks && w->items[0].type != PTAH_ITEM_BLOCK)
		ptah_image_reader_changed(image_ptah(w->image));
	w->next = w->end = first_item(w);
	w->raw = w->dropped = 0;
	ptah_flow_mark(w->flow); /* without memory for it, an image that changes is seen late */
	n = ptah_flow_read(w->flow, first_item(w), batch);
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

	keep_now(w);
	if (!told)
		return;
	memmove(w->items, w->next - 1, (left + 1) * sizeof(*w->items));
	w->dropped += (unsigned)told;
	w->next = first_item(w);
	w->end = w->next + left;
}

/*
 * Is there an item here, or more of them to be read? They go behind the batch,
 * and its mark still counts for them. Moves *item with the array.
 */
static bool is_item(struct walk *w, const struct ptah_item **item)
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

/* Reads this many items again. */
static bool lead(struct walk *w, unsigned items)
{
	while (items) {
		const unsigned most = items < WALK_BATCH ? items : WALK_BATCH;
		const int n = ptah_flow_read(w->flow, first_item(w), most);

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
	/* One with all that a mark behind it must know. */
	n = ptah_flow_read(w->flow, &w->tail, 1);
	if (n != 1 || w->tail.type != PTAH_ITEM_BLOCK) {
		w->blocks_last = true;
		return true;
	}
	w->blocks[w->block_end++ - w->blocks] =
	    (struct ptah_block){.ip = w->tail.ip,
				.size = (uint16_t)(w->tail.end - w->tail.ip),
				.space = (uint16_t)w->tail.space,
				.ninsn = (uint8_t)w->tail.ninsn,
				.class = w->tail.class,
				.last_size = w->tail.last_size,
				.mode = w->tail.mode,
				.flags = w->tail.flags};
	w->has_tail = walk_needs_trace(w->tail.class);
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
	keep_now(w);
	w->items[0] = w->next[-1];
	w->next = w->end = first_item(w);
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

	if (w->blocks_read < WALK_MANY_BLOCKS)
		w->blocks_wait = 8;
	forget_items(w);
	ptah_flow_rewind(w->flow);
	while (told) {
		const unsigned most = told < WALK_BATCH ? told : WALK_BATCH;
		const int n = ptah_flow_read(w->flow, first_item(w), most);

		if (n <= 0) /* it was read before */
			break;
		for (const struct ptah_item *i = w->end; i < w->end + n; i++)
			if (walk_needs_trace(i->class)) {
				w->was = *i;
				w->was_at_last = false;
			}
		w->items[0] = w->items[n];
		told -= (unsigned)n;
	}
	ptah_flow_mark(w->flow);
}

/*
 * The image is about to change: what was read of the old one and not told goes.
 * The flow goes back to the mark and is led again to where we are.
 */
static void walk_step_back(struct image_user *user)
{
	struct walk *w = (struct walk *)((char *)user - offsetof(struct walk, user));
	const unsigned raw = used_up(w);
	unsigned skip = w->skip + (w->loaded ? w->pos : 0u) + (w->ahead ? w->ahead_told : 0u);

	forget_sections(w);
	if (image_is_asking(w->image))
		return;
	if (walk_has_blocks(w)) {
		walk_leave_blocks(w);
		return;
	}
	if (!w->running || ptah_flow_rewind(w->flow) < 0)
		return;
	keep_now(w);
	if (!w->ahead && w->next != first_item(w))
		w->items[0] = w->next[-1];
	lead(w, raw);
	forget_items(w);
	w->skip = skip;
	ptah_flow_mark(w->flow);
}

static void image_gone(struct image_user *user)
{
	struct walk *w = (struct walk *)((char *)user - offsetof(struct walk, user));

	w->image = NULL;
	walk_set_image(w, NULL);
}

/* Events */

static struct walk_event *first_pending(struct walk *w)
{
	return &w->pending[w->pending_first];
}

/* The address that a status update or the like is told at; false: it has none. */
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

/* Where libipt tells the event, if not here. */
static void place_event(const struct walk *w, struct walk_event *e, const struct ptah_item *item)
{
	const bool told = !(item->flags & PTAH_ITEM_IP_SUPPRESSED);

	e->place = WALK_HERE;
	switch (item->type) {
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
		/* Behind MOV CR3 or VMPTRLD, if Ptah has found one, else behind the far branch. */
		if (!(item->flags & PTAH_ITEM_STATUS) && !told && w->enabled && !w->after_cut)
			e->place = WALK_BEHIND_BRANCH;
		break;
	case PTAH_ITEM_PTWRITE:
		if (told && w->enabled) {
			e->place = WALK_BEHIND_IP;
			e->ip = item->ip;
		}
		break;
	default:
		break;
	}
	if (item->flags & PTAH_ITEM_STATUS && status_ip(&e->event, &e->ip))
		e->place = WALK_AT_IP;
}

/* Does an instruction end at the place that the item is at, with the address of its event? */
static bool is_behind(const struct ptah_item *before, uint64_t ip)
{
	return before->type == PTAH_ITEM_BLOCK && before->end - before->last_size == ip;
}

/* Where tracing is expected to resume, when the next event is taken and switches it off. */
static uint64_t resume_ip(const struct walk *w, const struct ptah_item *item)
{
	const struct ptah_item *before = item - 1;

	if (item->type == PTAH_ITEM_ASYNC_DISABLED)
		return item->ip;
	if (item->type != PTAH_ITEM_DISABLED || before->type != PTAH_ITEM_BLOCK)
		return 0;
	switch (before->class) {
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

/* Does this event come of the same branch as one of those right before it? */
static bool is_of_branch(const struct walk *w, const struct ptah_item *item)
{
	const struct ptah_item *branch = item - 1;

	if (item->type != PTAH_ITEM_EXEC_MODE && item->type != PTAH_ITEM_IFLAGS &&
	    item->type != PTAH_ITEM_ASYNC_PAGING && item->type != PTAH_ITEM_ASYNC_VMCS)
		return false;
	for (; branch > w->items; branch--) {
		switch (branch->type) {
		case PTAH_ITEM_ASYNC_BRANCH:
		case PTAH_ITEM_ASYNC_DISABLED:
			return true;
		case PTAH_ITEM_ENABLED:
		case PTAH_ITEM_DISABLED:
		case PTAH_ITEM_BLOCK:
			/* MODE.Exec is sent before its branch. SDM "MODE.Exec Packet". */
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

/*
 * Is there more to tell of the last packet of this event? Of a PSB+ libipt tells
 * one event after another at its end, and so it does at a branch.
 */
static bool is_tied(struct walk *w, const struct ptah_item **item)
{
	const struct ptah_item *behind = *item + 1;

	if (!is_item(w, &behind))
		return false;
	*item = behind - 1;
	if ((*item)->flags & PTAH_ITEM_STATUS && (*item)->type != PTAH_ITEM_PSB)
		return behind->flags & PTAH_ITEM_STATUS && behind->type != PTAH_ITEM_PSB &&
		       behind->type != PTAH_ITEM_BLOCK;
	if ((*item)->type == PTAH_ITEM_MWAIT && behind->type == PTAH_ITEM_EXSTOP)
		return !(behind->flags & PTAH_ITEM_IP_SUPPRESSED); /* of one FUP */
	return is_of_branch(w, behind);
}

/* The ratio that is known once libipt has read this item: a PSB+ is read as a whole. */
static void take_ratio(struct walk *w, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_CBR)
		w->ratio = (uint16_t)item->value;
	if (!(item->flags & PTAH_ITEM_STATUS))
		return;
	while (item++, is_item(w, &item)) {
		if (!(item->flags & PTAH_ITEM_STATUS) || item->type == PTAH_ITEM_PSB)
			break;
		if (item->type == PTAH_ITEM_CBR)
			w->ratio = (uint16_t)item->value;
	}
}

/* The item at hand, which is no block and no error, becomes an event or nothing. */
static void take_item(struct walk *w)
{
	struct walk_event *e = &w->pending[(w->pending_first + w->pending_count) % WALK_PENDING];
	const struct ptah_item *item = w->next;

	e->at_last = is_tied(w, &item);
	take_ratio(w, item);
	item = w->next++;
	if (!event_make(&e->event, &w->events, item)) {
		w->after_cut = false;
		w->now = item;
		return;
	}
	e->item = *item;
	place_event(w, e, item);
	if (e->place == WALK_BEHIND_IP && is_behind(item - 1, e->ip))
		e->place = WALK_HERE;
	if (item->type == PTAH_ITEM_DISABLED || item->type == PTAH_ITEM_ASYNC_DISABLED)
		e->ip = resume_ip(w, item);
	if (item->type != PTAH_ITEM_PAGING && item->type != PTAH_ITEM_VMCS)
		w->after_cut = false;
	if (e->event.has_tsc)
		w->event_tsc = e->event.tsc;
	if (!w->pending_count++)
		w->passed = w->forced = false;
}

/* May the event of this item wait behind one that waits for its place? */
static bool can_follow(const struct ptah_item *item)
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
		return true;
	default:
		return item->flags & PTAH_ITEM_STATUS;
	}
}

/* Does what comes next begin at `ip`, whatever events come before it? */
static bool is_at(struct walk *w, uint64_t ip)
{
	const struct ptah_item *item = w->next;

	if (w->loaded)
		return w->insns[w->pos].ip == ip;
	for (; is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_BLOCK)
			return !w->skip && item->ip == ip;
		if (item->type == PTAH_ITEM_ERROR)
			return item->ip == ip;
		if (!can_follow(item))
			return true; /* nothing runs before it */
	}
	return w->error && w->place.mode && w->place.ip == ip;
}

/* Is the first pending event at its place? */
static bool is_due(struct walk *w)
{
	const struct walk_event *e = first_pending(w);

	if (e->place == WALK_HERE || w->forced)
		return true;
	return e->place == WALK_AT_IP ? is_at(w, e->ip) : w->passed;
}

/* An error of Ptah's that is none of libipt 2.0's: it believes what comes behind it. */
static bool is_believed(struct walk *w)
{
	const struct ptah_item *behind = w->next + 1;

	return w->next->status == PTAH_E_BAD_CONTEXT && is_item(w, &behind) &&
	       (behind->type == PTAH_ITEM_ENABLED || behind->type == PTAH_ITEM_PSB) &&
	       behind->offset == w->next->offset;
}

/* Is it about the code at the place, and not about a packet? */
static bool is_of_code(int status)
{
	return status <= PTAH_E_NO_CODE || status == PTAH_E_INVAL; /* the mode is unknown */
}

/* Has the packet of this error been used up by the query that failed? */
static bool is_used(int status)
{
	return status == PTAH_E_BAD_RETCOMP || status == PTAH_E_NO_IP;
}

/*
 * libipt's word for code that cannot be read, or `partly` where some of an
 * instruction can. Asks for a whole one, as there are callbacks that give all or nothing.
 */
static int code_error(struct walk *w, int partly)
{
	struct ptah_space space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	uint8_t bytes[pt_max_insn_size];

	ptah_flow_space(w->flow, w->place.space, &space);
	if (ptah_image_read(image_ptah(w->image), w->place.ip, bytes, sizeof(bytes), &space))
		return partly;
	return image_missing(w->image, w->place.ip, &space);
}

/* The event whose place could not be reached, which is what the error is about. */
static bool find_missed(struct walk *w, const struct ptah_item **item)
{
	const uint64_t offset = (*item)->offset;

	if (!is_of_code((*item)->status))
		return false;
	++*item;
	if (!is_item(w, item) || (*item)->type == PTAH_ITEM_BLOCK || (*item)->offset != offset)
		return false;
	if ((*item)->type != PTAH_ITEM_PSB)
		return true;
	++*item; /* the first event of its PSB+ */
	return is_item(w, item) && (*item)->flags & PTAH_ITEM_STATUS &&
	       (*item)->type != PTAH_ITEM_PSB && (*item)->type != PTAH_ITEM_BLOCK;
}

static void meet_error(struct walk *w)
{
	const struct ptah_item *item = w->next;
	const int status = item->status;

	w->place =
	    (struct ptah_place){.ip = item->ip, .mode = item->mode, .space = (uint16_t)item->space};
	w->raw = used_up(w);
	w->error_told = true;
	w->error_offset = is_of_code(status) || is_used(status) ? UINT64_MAX : item->offset;
	switch (status) {
	case PTAH_E_NO_CODE:
		w->error = code_error(w, -pte_bad_insn);
		break;
	case PTAH_E_MISMATCH:
		w->error = code_error(w, -pte_bad_query);
		break;
	case PTAH_E_INVAL:
		w->error = -pte_bad_insn;
		break;
	case PTAH_E_BAD_RETCOMP:
		w->error = item->flags & PTAH_ITEM_TAKEN ? -pte_retstack_empty : -pte_bad_retcomp;
		break;
	default:
		w->error = config_error(&w->config, status);
		break;
	}
	w->eos_told =
	    w->error == -pte_eos && position_kind(&w->config, item->offset) == POSITION_READ_OVER;
	w->error_item = *item;
	if (find_missed(w, &item)) {
		w->was_at_last = is_tied(w, &item);
		w->was = *item;
		w->now = NULL;
	}
}

int walk_refuse(struct walk *w, unsigned class)
{
	/* Where an outcome is wanted, any address is the wrong packet. */
	if (class == PTAH_INSN_COND && w->error_told && w->error_item.status > PTAH_E_NO_CODE &&
	    position_kind(&w->config, w->error_item.offset) == POSITION_ADDRESS)
		return -pte_bad_query;
	return walk_fail(w);
}

int walk_fail(struct walk *w)
{
	/* A branch while tracing is off is never asked for. */
	if (!w->enabled && w->error_told && w->error_offset != UINT64_MAX) {
		const enum position_kind kind = position_kind(&w->config, w->error_offset);

		if (kind == POSITION_OUTCOMES || kind == POSITION_ADDRESS)
			return -pte_no_enable;
	}
	if (w->error_told && is_used(w->error_item.status)) {
		w->was = w->error_item;
		w->was_at_last = false;
		w->now = NULL;
	}
	return w->error;
}

/* The instructions of *next. False: it is gone with what has been told of it. */
static bool load(struct walk *w)
{
	int n = ptah_flow_insns(w->flow, w->next, w->insns, WALK_INSNS);

	if (n <= 0) { /* no longer in the image */
		w->error = -pte_nomap;
		w->place = (struct ptah_place){.ip = w->next->ip}; /* and nothing ahead of it */
		w->next = w->end = first_item(w);
		w->quick = false;
		return false;
	}
	w->ninsn = (uint16_t)n;
	w->pos = (uint16_t)(w->skip < w->ninsn ? w->skip : w->ninsn);
	w->skip -= w->pos;
	w->loaded = true;
	if (w->pos < w->ninsn)
		return true;
	w->loaded = false;
	w->next++;
	return false;
}

/* Past the instructions that were told before the image changed. True when there may be more. */
static bool skip_told(struct walk *w)
{
	if (!w->skip || w->loaded || (w->next == w->end && w->error))
		return false;
	if (w->next == w->end)
		refill(w);
	else if (w->next->type == PTAH_ITEM_BLOCK)
		load(w);
	else
		return false;
	return true;
}

enum walk_next walk_look(struct walk *w)
{
	if (UNLIKELY(walk_has_blocks(w)))
		walk_leave_blocks(w);
	for (;;) {
		if (UNLIKELY(skip_told(w)))
			continue;
		if (w->pending_count && is_due(w))
			return WALK_EVENT;
		if (w->next == w->end) {
			if (w->error)
				return WALK_END;
			refill(w);
			continue;
		}
		if (w->next->type == PTAH_ITEM_BLOCK)
			return WALK_BLOCK;
		if (w->next->type == PTAH_ITEM_ERROR) {
			if (w->error)
				return WALK_END;
			if (is_believed(w))
				w->next++;
			else
				meet_error(w);
			continue;
		}
		if (w->pending_count &&
		    (w->pending_count == WALK_PENDING || !can_follow(w->next))) {
			w->forced = true;
			continue;
		}
		take_item(w);
	}
}

/* What lies ahead of the trace's end or of an error becomes the items. */
static bool look_ahead(struct walk *w)
{
	int n;

	if (!w->ahead) {
		if (!w->enabled || !w->place.mode)
			return false;
		w->raw = used_up(w);
		w->ahead = true;
		w->ahead_told = 0;
		keep_now(w);
	}
	w->next = w->end = first_item(w);
	n = ptah_flow_ahead(w->flow, &w->place, first_item(w), WALK_BATCH);
	if (n > 0)
		w->end += n;
	else if (n < 0 && w->error == -pte_eos)
		w->error = n == PTAH_E_NO_CODE ? code_error(w, -pte_bad_insn) : error_from_ptah(n);
	return n > 0;
}

enum walk_next walk_load(struct walk *w)
{
	for (;;) {
		const enum walk_next next = walk_look(w);

		if (next == WALK_EVENT)
			return next;
		if (next == WALK_END) {
			if (!look_ahead(w))
				return next;
			continue;
		}
		if (w->loaded || load(w))
			return WALK_BLOCK;
	}
}

void walk_pass_insn(struct walk *w)
{
	const struct ptah_item *item = w->next;

	w->backward = false;
	if (w->pending_count && first_pending(w)->place == WALK_BEHIND_IP &&
	    w->insns[w->pos].ip == first_pending(w)->ip)
		w->passed = true;
	if (++w->pos < w->ninsn)
		return;
	w->after_cut = item->flags & PTAH_ITEM_TRUNCATED;
	w->next++;
	w->loaded = false;
	if (w->ahead) {
		w->ahead_told += w->ninsn;
		return;
	}
	if (walk_needs_trace(item->class)) {
		w->now = item;
		w->passed |= w->pending_count && first_pending(w)->place == WALK_BEHIND_BRANCH;
	}
}

int walk_status(struct walk *w)
{
	const enum walk_next next = walk_look(w);
	const int off = w->enabled ? 0 : pts_ip_suppressed;

	switch (next) {
	case WALK_EVENT:
		w->quick = false;
		return off | pts_event_pending;
	case WALK_BLOCK:
		w->quick = !off && !w->pending_count && !w->skip && !w->ahead && !w->ticks &&
			   !w->backward &&
			   (!w->loaded || (w->by_insn && walk_in_section(w, w->next)));
		return off | (w->ahead && w->eos_told ? pts_eos : 0);
	default:
		w->quick = false;
		return off | (w->eos_told && !w->pending_count ? pts_eos : 0);
	}
}

uint64_t walk_ip(struct walk *w)
{
	const struct ptah_item *item = w->next;

	if (!w->enabled)
		return w->ip;
	if (w->loaded)
		return w->insns[w->pos].ip;
	for (; is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_BLOCK || !can_follow(item))
			return item->ip;
	}
	return w->place.ip;
}

void walk_tick(struct walk *w, uint64_t ip)
{
	const struct ptah_item *behind = w->next;
	struct walk_event *e = first_pending(w);

	if (w->pending_count || !w->now || w->now->type != PTAH_ITEM_BLOCK ||
	    w->now->tsc == w->event_tsc)
		return;
	*e = (struct walk_event){.item = *w->now, .place = WALK_HERE};
	/* A branch that tracing ends at needs no packet of its own; events tell the time. */
	if (is_item(w, &behind) &&
	    (behind->type == PTAH_ITEM_DISABLED ? behind->offset == e->item.offset
						: is_of_branch(w, behind)))
		return;
	e->event.type = ptev_tick;
	e->event.has_tsc = 1;
	e->event.tsc = w->event_tsc = e->item.tsc;
	e->event.variant.tick.ip = ip;
	w->pending_count = 1;
}

/* What an event does to libipt's state of things. An error: it does not fit. */
static int apply_event(struct walk *w, struct walk_event *e)
{
	struct pt_event *event = &e->event;

	switch (event->type) {
	case ptev_enabled:
		if (event->status_update || w->enabled)
			return -pte_bad_context;
		event->variant.enabled.resumed = event->variant.enabled.ip == w->ip;
		w->enabled = true;
		break;
	case ptev_disabled:
	case ptev_async_disabled:
		if (event->status_update || !w->enabled)
			return -pte_bad_context;
		w->enabled = false;
		w->ip = e->ip;
		break;
	case ptev_async_branch:
		return w->enabled ? 0 : -pte_bad_context;
	case ptev_paging:
	case ptev_async_paging:
		w->cr3 = event->variant.paging.cr3;
		break;
	case ptev_vmcs:
	case ptev_async_vmcs:
		w->vmcs = event->variant.vmcs.base;
		break;
	case ptev_overflow:
		w->enabled = !event->ip_suppressed;
		w->ip = 0;
		w->speculative = false;
		break;
	case ptev_exec_mode:
		if (event->status_update && w->enabled && w->mode != ptem_unknown &&
		    w->mode != event->variant.exec_mode.mode)
			return -pte_bad_status_update;
		w->mode = (uint8_t)event->variant.exec_mode.mode;
		break;
	case ptev_tsx:
		w->speculative = event->variant.tsx.speculative;
		break;
	case ptev_stop:
		return event->status_update || w->enabled ? -pte_bad_context : 0;
	default:
		break;
	}
	return 0;
}

int walk_event(struct walk *w, struct pt_event *event, size_t size)
{
	struct walk_event *e = first_pending(w);
	int status;

	if (!event)
		return -pte_invalid;
	if (!w->pending_count || walk_look(w) != WALK_EVENT)
		return -pte_bad_query;
	status = apply_event(w, e);
	if (status < 0)
		return status;
	event_copy_out(event, size, &e->event);
	w->backward = w->backward && e->item.flags & PTAH_ITEM_STATUS;
	w->was = e->item;
	w->was_at_last = e->at_last;
	w->now = NULL;
	w->pending_first = (w->pending_first + 1) % WALK_PENDING;
	w->pending_count--;
	w->passed = w->forced = false;
	return walk_status(w);
}

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
		*at_last = first_pending(w)->at_last;
		return &first_pending(w)->item;
	}
	for (item = w->next; !w->ahead && is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_ERROR) {
			if (!find_missed(w, &item))
				break;
			*at_last = is_tied(w, &item);
			return item;
		}
		if (item->type == PTAH_ITEM_PSB) /* no event of its own */
			continue;
		if (item->type != PTAH_ITEM_BLOCK) {
			*at_last = is_tied(w, &item);
			return item;
		}
		if (!walk_needs_trace(item->class))
			continue;
		item++;
		*at_last = true;
		if (!is_item(w, &item))
			break;
		if (item->type == PTAH_ITEM_DISABLED) { /* the branch has no other packet */
			*at_last = is_tied(w, &item);
			return item;
		}
		if (item[-1].class != PTAH_INSN_COND && is_of_branch(w, item))
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
		/* A PTWRITE that was found in the code has no FUP. SDM "PTW Packet": the IP bit. */
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

static void reset(struct walk *w)
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
	forget_items(w);
}

/* Whether tracing is on, out of the first PSB+; or what is wrong with it. */
static int begin(struct walk *w)
{
	int status;

	refill(w);
	for (const struct ptah_item *item = w->next; is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_ERROR && item == w->next) {
			meet_error(w);
			break;
		}
		/* An OVF ends a PSB+ as well. */
		if (item->type != PTAH_ITEM_PSB && item->type != PTAH_ITEM_OVERFLOW)
			continue;
		w->enabled =
		    item->type == PTAH_ITEM_PSB && !(item->flags & PTAH_ITEM_IP_SUPPRESSED);
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
	reset(w);
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
	reset(w);
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
		    w->pending_count && first_pending(w)->item.flags & PTAH_ITEM_STATUS;
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
	if (!w->synced)
		return -pte_nosync;
	if (!w->error)
		return walk_status(w);
	if (!w->error_told)
		return w->error;
	keep_now(w);
	if (ptah_flow_rewind(w->flow) < 0 || !lead(w, w->raw + 1) || ptah_flow_resync(w->flow) < 0)
		return w->error;
	forget_items(w);
	w->items[0] = w->was;
	w->pending_count = 0;
	w->after_cut = false;
	refill(w);
	if (w->next == w->end)
		return w->error;
	w->enabled = begins_enabled(w->next);
	w->ip = 0;
	return walk_status(w);
}

/* Life */

int walk_set_image(struct walk *w, struct pt_image *image)
{
	if (!image)
		image = w->own_image;
	if (image == w->image)
		return 0;
	if (w->image) {
		walk_step_back(&w->user);
		image_remove_user(&w->user);
	}
	w->image = image;
	image_add_user(image, &w->user);
	forget_sections(w);
	return error_from_ptah(ptah_flow_set_image(w->flow, image_ptah(image)));
}

int walk_init(struct walk *w, const struct pt_config *config, bool by_insn)
{
	struct ptah_flow_config flow;
	int status = config_copy(&w->config, config);

	if (status < 0)
		return status;
	w->by_insn = by_insn;
	w->user.step_back = walk_step_back;
	w->user.gone = image_gone;
	w->own_image = pt_image_alloc(NULL);
	if (!w->own_image)
		return -pte_nomem;
	config_to_flow(&flow, &w->config);
	flow.events.unchanged = true;
	if (by_insn) {
		w->ticks = w->config.user.flags.variant.insn.enable_tick_events;
		flow.events.iflags = w->config.user.flags.variant.insn.enable_iflags_events;
	} else {
		w->ticks = w->config.user.flags.variant.block.enable_tick_events;
		flow.events.iflags = w->config.user.flags.variant.block.enable_iflags_events;
	}
	status = ptah_flow_new(image_ptah(w->own_image), &flow, &w->flow);
	if (status < 0)
		return error_from_ptah(status);
	w->image = w->own_image;
	image_add_user(w->image, &w->user);
	forget_sections(w);
	reset(w);
	w->error = -pte_no_enable;
	return 0;
}

void walk_fini(struct walk *w)
{
	if (w->image)
		image_remove_user(&w->user);
	ptah_flow_free(w->flow);
	pt_image_free(w->own_image);
}
