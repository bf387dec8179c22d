/* SPDX-License-Identifier: MIT */
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

/* Sections */

void walk_forget_sections(struct walk *w)
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

/* The instructions of *next. False: it is gone with what has been told of it. */
static bool load(struct walk *w)
{
	int n = ptah_flow_insns(w->flow, w->next, w->insns, WALK_INSNS);

	if (n <= 0) { /* no longer in the image */
		w->error = -pte_nomap;
		w->place = (struct ptah_place){.ip = w->next->ip}; /* and nothing ahead of it */
		w->next = w->end = walk_first_item(w);
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
		walk_refill(w);
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
		if (w->pending_count && walk_is_due(w))
			return WALK_EVENT;
		if (w->next == w->end) {
			if (w->error)
				return WALK_END;
			walk_refill(w);
			continue;
		}
		if (w->next->type == PTAH_ITEM_BLOCK)
			return WALK_BLOCK;
		if (w->next->type == PTAH_ITEM_ERROR) {
			if (w->error)
				return WALK_END;
			if (walk_is_believed(w))
				w->next++;
			else
				walk_meet_error(w);
			continue;
		}
		if (w->pending_count &&
		    (w->pending_count == WALK_PENDING || !walk_can_follow(w->next))) {
			w->forced = true;
			continue;
		}
		walk_take_item(w);
	}
}

/* No packet is wrong: what stops the walk may as well be the code, of which `status` speaks. */
static bool may_be_code(const struct walk *w, int status)
{
	return w->error == -pte_eos || (status != PTAH_E_NO_PROGRESS && w->error_told &&
					w->error_item.status == PTAH_E_MISMATCH);
}

/* What lies ahead of the trace's end or of an error becomes the items. */
static bool look_ahead(struct walk *w)
{
	int n;

	if (!w->ahead) {
		if (!w->enabled || !w->place.mode)
			return false;
		w->raw = walk_used_up(w);
		w->ahead = true;
		w->ahead_told = 0;
		walk_keep_now(w);
	}
	w->next = w->end = walk_first_item(w);
	n = ptah_flow_ahead(w->flow, &w->place, walk_first_item(w), WALK_BATCH);
	if (n > 0)
		w->end += n;
	else if (n < 0 && may_be_code(w, n))
		w->error =
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
		if (w->loaded || load(w))
			return WALK_BLOCK;
	}
}

/* The instruction at hand is one that the first pending event may wait for. */
static void pass_pending(struct walk *w)
{
	struct walk_event *e = walk_first_pending(w);

	if (e->place == WALK_BEHIND_IP && w->insns[w->pos].ip == e->ip)
		w->passed = true;
	else if (e->place == WALK_BEHIND_COUNT && e->count)
		e->count--;
}

void walk_pass_insn(struct walk *w)
{
	const struct ptah_item *item = w->next;

	w->backward = false;
	if (UNLIKELY(w->pending_count))
		pass_pending(w);
	if (++w->pos < w->ninsn)
		return;
	w->after_cut = item->flags & PTAH_ITEM_TRUNCATED;
	w->next++;
	w->loaded = false;
	if (w->ahead) {
		w->ahead_told += w->ninsn;
		return;
	}
	if (walk_needs_trace(item->insn_class)) {
		w->now = item;
		w->passed |= w->pending_count && walk_first_pending(w)->place == WALK_BEHIND_BRANCH;
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
	for (; walk_is_item(w, &item); item++) {
		if (item->type == PTAH_ITEM_BLOCK || !walk_can_follow(item))
			return item->ip;
	}
	return w->place.ip;
}

void walk_tick(struct walk *w, uint64_t ip)
{
	const struct ptah_item *behind = w->next;
	struct walk_event *e = walk_first_pending(w);

	if (w->pending_count || !w->now || w->now->type != PTAH_ITEM_BLOCK ||
	    w->now->tsc == w->event_tsc)
		return;
	*e = (struct walk_event){.item = *w->now, .ratio = w->ratio, .place = WALK_HERE};
	/* A branch that tracing ends at needs no packet of its own; events tell the time. */
	if (walk_is_item(w, &behind) &&
	    (behind->type == PTAH_ITEM_DISABLED ? behind->offset == e->item.offset
						: walk_is_of_branch(w, behind)))
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

/* The instructions that it counts are over: it is here; or they do not come. */
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
	if (!w->pending_count || walk_look(w) != WALK_EVENT)
		return -pte_bad_query;
	status = apply_event(w, e);
	if (status < 0)
		return status;
	if (e->place == WALK_BEHIND_COUNT)
		place_trigger(w, e);
	event_copy_out(event, size, &e->event);
	w->backward = w->backward && e->item.flags & PTAH_ITEM_STATUS;
	w->was = e->item;
	w->was_at_last = e->at_last;
	/* What else waits for the branch that this one waited for has it behind itself as well. */
	w->passed = (e->place == WALK_BEHIND_BRANCH && e->event.type != ptev_paging &&
		     e->event.type != ptev_vmcs) ||
		    (e->place == WALK_BEHIND_IP && w->now && walk_is_behind(w->now, e->ip));
	w->now = NULL;
	w->pending_first = (w->pending_first + 1) % WALK_PENDING;
	w->pending_count--;
	if (w->pending_count) /* libipt reads it now */
		w->ratio = walk_first_pending(w)->ratio;
	w->forced = false;
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
	walk_forget_sections(w);
	walk_reset(w);
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
