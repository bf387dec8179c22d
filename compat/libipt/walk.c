/* SPDX-License-Identifier: MIT */
/* The walk: what comes next, moving past it, and the life cycle. */
#include "walk_parts.h"

#include "pt_error.h"

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

/* Decodes the instructions of *items.next. False: there are none left to report. */
static bool load(struct walk *w)
{
	int n = ptah_flow_insns(w->flow, w->items.next, w->insn_room, WALK_INSNS);

	if (n <= 0) { /* its code was removed from the image */
		w->stop.error = -pte_nomap;
		w->stop.place = (struct ptah_place){
		    .ip = w->items.next->ip}; /* so that nothing is looked up ahead of it */
		w->items.next = w->items.end = walk_first_item(w);
		w->quick = false;
		return false;
	}
	w->insns.count = (uint16_t)n;
	w->insns.pos = (uint16_t)(w->items.skip < w->insns.count ? w->items.skip : w->insns.count);
	w->items.skip -= w->insns.pos;
	w->insns.loaded = true;
	if (w->insns.pos < w->insns.count)
		return true;
	w->insns.loaded = false;
	w->items.next++;
	return false;
}

/*
 * Skips instructions that were reported before the image changed. True when there may be more to
 * skip.
 */
static bool skip_told(struct walk *w)
{
	if (!w->items.skip || w->insns.loaded || (w->items.next == w->items.end && w->stop.error))
		return false;
	if (w->items.next == w->items.end)
		walk_refill(w);
	else if (w->items.next->type == PTAH_ITEM_BLOCK)
		load(w);
	else
		return false;
	return true;
}

enum walk_next walk_look(struct walk *w)
{
	unsigned in_loss;

	if (UNLIKELY(walk_has_blocks(w)))
		walk_leave_blocks(w);
	for (;;) {
		if (UNLIKELY(skip_told(w)))
			continue;
		if (w->pending.count && walk_is_due(w))
			return WALK_EVENT;
		if (w->items.next == w->items.end) {
			if (w->stop.error)
				return WALK_END;
			walk_refill(w);
			continue;
		}
		if (w->items.next->type == PTAH_ITEM_BLOCK)
			return WALK_BLOCK;
		if (w->items.next->type == PTAH_ITEM_ERROR) {
			if (w->stop.error)
				return WALK_END;
			if (walk_is_believed(w))
				w->items.next++;
			else
				walk_meet_error(w);
			continue;
		}
		in_loss = walk_count_in_loss(w);
		if (w->pending.count && (w->pending.count == WALK_PENDING || in_loss ||
					 !walk_can_follow(w->items.next))) {
			w->pending.forced = true;
			continue;
		}
		if (in_loss)
			walk_take_loss(w, in_loss);
		else
			walk_take_item(w);
	}
}

/*
 * No packet is malformed: could the code be the reason that the walk stops? `status` is the code's.
 */
static bool may_be_code(const struct walk *w, int status)
{
	return w->stop.error == -pte_eos || (status != PTAH_E_NO_PROGRESS && w->stop.is_item &&
					     w->stop.item.status == PTAH_E_MISMATCH);
}

/* Makes items of the code after the end of the trace or after an error. */
static bool look_ahead(struct walk *w)
{
	int n;

	if (!w->stop.ahead) {
		if (!w->state.enabled || !w->stop.place.mode)
			return false;
		w->stop.used_up = walk_used_up(w);
		w->stop.ahead = true;
		w->stop.ahead_told = 0;
		walk_keep_now(w);
	}
	w->items.next = w->items.end = walk_first_item(w);
	n = ptah_flow_ahead(w->flow, &w->stop.place, walk_first_item(w), WALK_BATCH);
	if (n > 0)
		w->items.end += n;
	else if (n < 0 && may_be_code(w, n))
		w->stop.error =
		    n == PTAH_E_NO_CODE ? walk_code_error(w, -pte_bad_insn) : error_from_ptah(n);
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
		if (w->insns.loaded || load(w))
			return WALK_BLOCK;
	}
}

/* Updates the first pending event, which may wait for the current instruction. */
static void pass_pending(struct walk *w)
{
	struct walk_event *e = walk_first_pending(w);

	if (e->place == WALK_BEHIND_IP && w->insn_room[w->insns.pos].ip == e->ip)
		w->pending.passed = true;
	else if (e->place == WALK_BEHIND_COUNT && e->count)
		e->count--;
}

void walk_pass_insn(struct walk *w)
{
	const struct ptah_item *item = w->items.next;

	w->position.backward = w->position.resynced = false;
	if (UNLIKELY(w->pending.count))
		pass_pending(w);
	if (++w->insns.pos < w->insns.count)
		return;
	w->pending.after_cut = item->flags & PTAH_ITEM_TRUNCATED;
	w->items.next++;
	w->insns.loaded = false;
	if (w->stop.ahead) {
		w->stop.ahead_told += w->insns.count;
		return;
	}
	if (walk_needs_trace(item->insn_class)) {
		w->position.now = item;
		w->pending.passed |=
		    w->pending.count && walk_first_pending(w)->place == WALK_BEHIND_BRANCH;
	}
}

int walk_status(struct walk *w)
{
	const enum walk_next next = walk_look(w);
	const int off = w->state.enabled ? 0 : pts_ip_suppressed;

	switch (next) {
	case WALK_EVENT:
		w->quick = false;
		return off | pts_event_pending;
	case WALK_BLOCK:
		w->quick = !off && !w->pending.count && !w->items.skip && !w->stop.ahead &&
			   !w->ticks && !w->position.backward && !w->position.resynced &&
			   (!w->insns.loaded || (w->by_insn && walk_in_section(w, w->items.next)));
		return off | (w->stop.ahead && w->stop.eos_told && !w->pending.count ? pts_eos : 0);
	default:
		w->quick = false;
		return off | (w->stop.eos_told && !w->pending.count ? pts_eos : 0);
	}
}

uint64_t walk_ip(struct walk *w)
{
	const struct ptah_item *item = w->items.next;

	if (!w->state.enabled)
		return w->state.ip;
	if (w->insns.loaded)
		return w->insn_room[w->insns.pos].ip;
	for (; walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_BLOCK || !walk_can_follow(item))
			return item->ip;
	}
	return w->stop.place.ip;
}

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
	walk_forget_sections(w);
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
	w->user.gone = walk_image_gone;
	w->own_image = pt_image_alloc(NULL);
	if (!w->own_image)
		return -pte_nomem;
	config_to_flow(&flow, &w->config);
	flow.events.unchanged = true;
	if (by_insn) {
		w->ticks = w->config.user.flags.variant.insn.enable_tick_events;
		flow.events.trace.event_trace =
		    w->config.user.flags.variant.insn.enable_iflags_events;
	} else {
		w->ticks = w->config.user.flags.variant.block.enable_tick_events;
		flow.events.trace.event_trace =
		    w->config.user.flags.variant.block.enable_iflags_events;
	}
	flow.events.no_iflags = !flow.events.trace.event_trace;
	status = ptah_flow_new(image_ptah(w->own_image), &flow, &w->flow);
	if (status < 0)
		return error_from_ptah(status);
	w->image = w->own_image;
	image_add_user(w->image, &w->user);
	walk_forget_sections(w);
	walk_reset(w);
	w->stop.error = -pte_no_enable;
	return 0;
}

void walk_fini(struct walk *w)
{
	if (w->image)
		image_remove_user(&w->user);
	ptah_flow_free(w->flow);
	pt_image_free(w->own_image);
}
