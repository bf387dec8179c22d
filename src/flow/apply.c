/* SPDX-License-Identifier: MIT */
/*
 * Applies events to the flow: reports the blocks that an event proves to have run, and changes the
 * flow's place and state. Every function returns true when the event is done. False means that the
 * caller's array is full: the event is applied again, from the place that the flow has reached by
 * then.
 */
#include "flow/apply.h"

#include "flow/address_space.h"
#include "flow/emit_items.h"
#include "flow/flow_errata.h"
#include "flow/leave.h"
#include "flow/move.h"
#include "flow/search.h"
#include "flow/walk.h"

/* The event says whether a transaction is running. */
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
	if (node->insn_class ==
	    PTAH_INSN_COND) { /* a conditional branch takes a TNT bit, not a TIP */
		flow_emit_error(f, out, PTAH_E_MISMATCH);
		f->tip_lost = true;
		return true;
	}
	flow_emit_block(f, out, node);
	flow_go_indirect(f, node, f->event.to);
	return true;
}

/*
 * A PTW without a FUP belongs to the next PTWRITE instruction, which has retired. In a trace
 * without TNT packets the flow always walks past that instruction, because the next PTW may come
 * from the next round of a loop.
 */
static bool apply_ptwrite(struct ptah_flow *f, struct flow_output *out)
{
	const bool has_ip = !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);
	uint64_t ip, end;

	f->gap_reported = true; /* otherwise there would have been a PTW for the PTWRITE */
	if (f->positioned && !f->placed && has_ip &&
	    flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (f->positioned && !f->placed && flow_find_insn(f, flow_is_ptwrite, &ip, &end) &&
	    (!has_ip || ip == f->event.ip)) {
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

static void interrupt(struct ptah_flow *f)
{
	flow_note_far(f, f->event.ip, f->event.to);
	flow_stand_at(f, f->event.to);
}

/*
 * Every other event: FUP + TIP.PGD, FUP + TIP, FUP + an event packet, all of which happen at an
 * address; and events without an address or with one that is known already.
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
		flow_stop_tracing(f);
	else if (f->event.type == PTAH_ITEM_ASYNC_BRANCH && f->positioned)
		interrupt(f);
	else if (f->event.type == PTAH_ITEM_TSX)
		set_speculative(f);
	flow_emit_event(f, out, &f->event);
	return true;
}

/* The flow cannot reach the address of a PSB+: reports why, and what has run. */
static void miss_psb(struct ptah_flow *f, struct flow_output *out, bool on)
{
	struct code_node *node;

	if (on && flow_leads_to_hole(f))
		flow_walk_to_branch(f, out, &node);
	else
		flow_emit_error(f, out, PTAH_E_MISMATCH);
}

/*
 * A PSB+ carries the address that the flow should have reached. If the flow cannot reach it, code
 * is missing or something before was misread: report an error and continue from the PSB+, whose
 * address is sure.
 */
static bool apply_psb(struct ptah_flow *f, struct flow_output *out)
{
	bool on = !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED);

	if (UNLIKELY(f->no_tnt) && f->positioned && on &&
	    flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (f->positioned && (!on || !flow_can_reach(f, f->event.ip))) {
		miss_psb(f, out, on);
		return false;
	}
	if (f->node &&
	    f->mode != f->event.mode) { /* the PSB+ is right about the mode: read the code again */
		f->ip = f->node->ip;
		f->node = NULL;
	}
	f->mode = f->event.mode;
	/*
	 * Blocks before a pause are reported over the image as it was before. Blocks before a
	 * transaction that this PSB+ is the first to mention are reported as outside of it.
	 */
	if ((f->event.tsc >= f->time_limit ||
	     (f->event.flags ^ f->speculative) & PTAH_ITEM_SPECULATIVE) &&
	    f->positioned && flow_walk_to_ip(f, out, f->event.ip) == WALK_FULL)
		return false;
	if (flow_is_full(out))
		return false;
	f->paused = f->event.tsc >= f->time_limit;
	if (!f->positioned && on && (!f->seeks_place || flow_is_place(f, f->event.ip)))
		flow_stand_at(f, f->event.ip);
	set_speculative(f);
	/*
	 * The processor's return address stack is empty after a PSB, so calls on the way to its
	 * address are not pushed either.
	 */
	f->stack_depth = 0;
	f->lost_return = 0;
	f->keeps_stack = f->far_known = false;
	f->old_calls = f->positioned && on ? flow_calls_before(f, f->event.ip) : 0;
	f->has_proven =
	    f->positioned && on && !f->no_tnt && (f->node ? f->node->ip : f->ip) != f->event.ip;
	f->proven = f->event;
	flow_emit_event(f, out, &f->event);
	return true;
}

/*
 * Whether the pending event leaves the place as it is. One that belongs to an instruction or a
 * branch still to be found does, too.
 */
static bool leaves_place(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_TICK:
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_PAGING:
	case PTAH_ITEM_ASYNC_VMCS:
		return true;
	default:
		return event->flags & PTAH_ITEM_STATUS && event->type != PTAH_ITEM_PSB;
	}
}

/* Whether the code leads to the branch that the pending packet belongs to. */
static bool leads_to_branch(struct ptah_flow *f)
{
	int status;
	struct code_node *node = flow_here(f, &status);

	return node && flow_chain_ok(f, node);
}

bool flow_settle_proven(struct ptah_flow *f, struct flow_output *out)
{
	const struct ptah_item *psb = &f->proven;
	const uint64_t tsc = f->tsc, offset = f->offset;
	const uint8_t tsc_error = f->tsc_error;
	const bool branch = f->tnt_count || (f->has_event && f->event.type == PTAH_ITEM_TIP);
	enum flow_walk walk;

	if (!branch && f->has_event && leaves_place(&f->event))
		return true;
	if (branch && leads_to_branch(f)) {
		f->has_proven = false;
		return true;
	}
	flow_set_now(f, psb->tsc, psb->tsc_error, psb->offset);
	walk = flow_walk_to_ip(f, out, psb->ip);
	flow_set_now(f, tsc, tsc_error, offset);
	return walk != WALK_FULL;
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
		/* The processor compresses nothing across this gap: all state begins again. */
		flow_lose_position(f);
		f->lost_return = 0;
		flow_stand_at(f, f->event.ip);
		break;
	case PTAH_ITEM_OVERFLOW:
		flow_lose_position(f);
		f->lost_return = 0;
		if (!(f->event.flags & PTAH_ITEM_IP_SUPPRESSED))
			flow_stand_at(f, f->event.ip);
		break;
	case PTAH_ITEM_EXEC_MODE:
		/*
		 * With a branch the flow is at the address already; with a FUP alone it has to walk
		 * there, and what comes at its end (a gap) comes in a second call, too.
		 */
		f->walks = f->walks || (f->node ? f->node->ip : f->ip) != f->event.ip;
		if (f->positioned &&
		    !(f->event.flags & (PTAH_ITEM_IP_SUPPRESSED | PTAH_ITEM_STATUS)) && f->walks &&
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
		/* Only a PSB is a safe place to continue now. */
		f->seeks_place = false;
		f->lost_return = 0;
		break;
	case PTAH_ITEM_TICK:
		/* The place that the trace has proven; instructions after it may have run. */
		if (f->positioned) {
			f->event.ip = f->node ? f->node->ip : f->ip;
			f->event.flags &= (uint8_t)~PTAH_ITEM_IP_SUPPRESSED;
		}
		break;
	case PTAH_ITEM_CBR: /* these have no place in the code */
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

/* Whether this is the branch that a pending change of the address space takes effect with. */
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
	bool done;

	/* Found once is enough: an event that is applied in two calls must not seek again. */
	if (UNLIKELY(f->seeks_place) && !f->positioned && flow_find_place(f))
		f->seeks_place = false;
	done = carry_out(f, out);
	if (f->positioned)
		f->seeks_place = false;
	if (UNLIKELY(f->space_waits) && done && ends_wait(&f->event))
		flow_enter_space(f, out);
	if (UNLIKELY(f->seeks_place) && done && flow_find_target(f))
		f->seeks_place = false;
	return done;
}
