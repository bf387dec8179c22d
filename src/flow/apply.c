/* SPDX-License-Identifier: MIT */
/*
 * What an event does to the flow: where it takes it, and what it changes. Every function returns
 * true when the event is done, false when the caller's array is full and the event has to be
 * applied again, from where the flow stands by then.
 */
#include "flow/apply.h"

#include "flow/address_space.h"
#include "flow/emit_items.h"
#include "flow/flow_errata.h"
#include "flow/leave.h"
#include "flow/move.h"
#include "flow/search.h"
#include "flow/walk.h"

/* The event says whether we are in a transaction. */
static void set_speculative(struct ptah_flow *f)
{
	f->speculative = f->event.flags & PTAH_ITEM_SPECULATIVE;
	flow_set_head(f, f->tsc_error);
}

static bool apply_tip(struct ptah_flow *f, struct flow_output *out)
{
	struct code_node *node;

	switch (flow_walk_to_branch(f, out, &node)) {
	case WALK_FULL:
		return false;
	case WALK_ERROR:
		f->tip_lost = true;
		return true;
	default:
		break;
	}
	if (UNLIKELY(f->no_tnt) && flow_is_unseen(f, node))
		return flow_cross_gap(f, out, node, f->event.to) != WALK_FULL;
	if (node->insn_class == PTAH_INSN_COND) { /* it would need a TNT bit */
		flow_emit_error(f, out, PTAH_E_MISMATCH);
		f->tip_lost = true;
		return true;
	}
	flow_emit_block(f, out, node);
	flow_go_indirect(f, node, f->event.to);
	return true;
}

/*
 * A PTW without a FUP belongs to the next PTWRITE, which has retired. Without
 * outcomes we go behind it in any case: the next PTW may be of the next round.
 */
static bool apply_ptwrite(struct ptah_flow *f, struct flow_output *out)
{
	const bool told = !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);
	uint64_t ip, end;

	f->gap_told = true; /* had we come by the instruction before, there were a PTW */
	if (f->positioned && !f->placed && told &&
	    flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (f->positioned && !f->placed && flow_find_insn(f, flow_is_ptwrite, &ip, &end) &&
	    (!told || ip == f->event.ip)) {
		if (flow_walk_past(f, out, ip, end) == WALK_FULL)
			return false;
		f->event.ip = ip;
		f->event.flags &= (uint8_t)~PTAH_ITEM_IP_SUPPRESSED;
		f->placed = true;
	}
	if (flow_is_full(out))
		return false;
	flow_emit_event(f, out, &f->event);
	return true;
}

/*
 * Everything else: FUP + TIP.PGD, FUP + TIP and FUP + an event of its own, which
 * are at an address; and what has none or repeats what is known.
 */
static bool apply_at_ip(struct ptah_flow *f, struct flow_output *out)
{
	bool has_ip = f->event.type == PTAH_ITEM_ASYNC_DISABLED ||
		      !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);

	if (f->positioned && has_ip && !f->placed && !(f->event.flags & PTAH_ITEM_STATUS)) {
		if (flow_is_bdm64(f))
			flow_stand_at(f, f->event.ip);
		if (flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
			return false;
		if (f->positioned && flow_is_skd022(f))
			return flow_apply_skd022(f, out);
	}
	if (flow_is_full(out))
		return false;
	if (f->event.type == PTAH_ITEM_ASYNC_DISABLED)
		flow_lose_position(f);
	else if (f->event.type == PTAH_ITEM_ASYNC_BRANCH && f->positioned)
		flow_stand_at(f, f->event.to);
	else if (f->event.type == PTAH_ITEM_TSX)
		set_speculative(f);
	flow_emit_event(f, out, &f->event);
	return true;
}

/*
 * A PSB+ gives the address we should be at. If we cannot get there, what came
 * before was misread: say so, and go on from here, where the address is sure.
 */
static bool apply_psb(struct ptah_flow *f, struct flow_output *out)
{
	bool on = !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);

	if (UNLIKELY(f->no_tnt) && f->positioned && on &&
	    flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (f->positioned && (!on || !flow_can_reach(f, f->event.ip))) {
		flow_emit_error(f, out, PTAH_E_MISMATCH);
		return false;
	}
	if (f->node && f->mode != f->event.mode) { /* the PSB+ is sure: read the code anew */
		f->ip = f->node->ip;
		f->node = NULL;
	}
	f->mode = f->event.mode;
	/* What comes before the pause ran over the image of before; what comes before a transaction
	 * that the PSB+ is the first to tell of, outside of it. */
	if ((f->event.tsc >= f->time_limit ||
	     (f->event.flags ^ f->speculative) & PTAH_ITEM_SPECULATIVE) &&
	    f->positioned && flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (flow_is_full(out))
		return false;
	f->paused = f->event.tsc >= f->time_limit;
	if (!f->positioned && on)
		flow_stand_at(f, f->event.ip);
	set_speculative(f);
	/* Calls that were on the way to here have been forgotten, too. */
	f->stack_depth = 0;
	f->old_calls = f->positioned && on ? flow_calls_before(f, f->event.ip) : 0;
	flow_emit_event(f, out, &f->event);
	return true;
}

static bool carry_out(struct ptah_flow *f, struct flow_output *out)
{
	switch (f->event.type) {
	case PTAH_ITEM_TIP:
		return f->positioned ? apply_tip(f, out) : true;
	case PTAH_ITEM_DISABLED:
		return flow_apply_disabled(f, out);
	case PTAH_ITEM_PSB:
		return apply_psb(f, out);
	case PTAH_ITEM_ENABLED:
		/* Nothing is compressed across the gap: a safe point for all state. */
		flow_lose_position(f);
		flow_stand_at(f, f->event.ip);
		break;
	case PTAH_ITEM_OVERFLOW:
		flow_lose_position(f);
		if (!(f->event.flags & PTAH_ITEM_IP_SUPPRESSED))
			flow_stand_at(f, f->event.ip);
		break;
	case PTAH_ITEM_EXEC_MODE:
		/* With a branch it is where we are; with a FUP alone we have to get there. */
		if (f->positioned &&
		    !(f->event.flags & (PTAH_ITEM_IP_SUPPRESSED | PTAH_ITEM_STATUS)) &&
		    (f->node ? f->node->ip : f->ip) != f->event.ip &&
		    flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
			return false;
		if (flow_is_full(out))
			return false;
		f->mode = f->event.mode;
		f->ip = f->node ? f->node->ip : f->ip;
		f->node = NULL;
		break;
	case PTAH_ITEM_ERROR:
		flow_put_place(f, &f->event);
		flow_lose_position(f);
		f->seeks_place = false; /* now only a PSB is sure */
		break;
	case PTAH_ITEM_TICK:
		/* As far as the trace has proven; what comes next may have begun. */
		if (f->positioned) {
			f->event.ip = f->node ? f->node->ip : f->ip;
			f->event.flags &= (uint8_t)~PTAH_ITEM_IP_SUPPRESSED;
		}
		break;
	case PTAH_ITEM_CBR: /* no place in the code */
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
		return flow_apply_space(f, out);
	case PTAH_ITEM_PTWRITE:
		return f->no_tnt || f->event.flags & PTAH_ITEM_IP_SUPPRESSED ? apply_ptwrite(f, out)
									     : apply_at_ip(f, out);
	default:
		return apply_at_ip(f, out);
	}
	flow_emit_event(f, out, &f->event);
	return true;
}

/* Is this the branch that a change of the address space has been waiting for? */
static bool ends_wait(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_TIP:
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_DISABLED:
	case PTAH_ITEM_ASYNC_DISABLED:
	case PTAH_ITEM_ASYNC_BRANCH:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_PSB:
	case PTAH_ITEM_ERROR:
		return true;
	default:
		return false;
	}
}

bool flow_apply_event(struct ptah_flow *f, struct flow_output *out)
{
	const bool found = UNLIKELY(f->seeks_place) && !f->positioned && flow_find_place(f);
	/* A TIP is told by where it leads. */
	const bool done = (found && f->event.type == PTAH_ITEM_TIP) || carry_out(f, out);

	f->seeks_place = f->seeks_place && !f->positioned;
	if (UNLIKELY(f->space_waits) && done && ends_wait(&f->event))
		flow_enter_space(f, out);
	return done;
}
