/* SPDX-License-Identifier: MIT */
/*
 * Finds the branch at which tracing stopped (TIP.PGD without a FUP): by the packet's address, by
 * the address filter, or by the code that follows.
 */
#include "flow/leave.h"

#include "flow/emit_items.h"
#include "flow/move.h"
#include "flow/search.h"
#include "flow/walk.h"

bool flow_leaves_filter(const struct ptah_flow *f, uint64_t ip)
{
	bool limited = false, inside = false;

	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		const struct ptah_range *r = &f->ranges[i];
		bool here = ip >= r->first && ip <= r->last;

		if (r->mode == PTAH_RANGE_STOP && here)
			return true;
		limited |= r->mode == PTAH_RANGE_FILTER;
		inside |= r->mode == PTAH_RANGE_FILTER && here;
	}
	return limited && !inside;
}

/*
 * Whether the caller has configured address ranges. If so, a branch either leaves them or tracing
 * continues.
 */
static bool knows_filter(const struct ptah_flow *f)
{
	bool known = false;

	for (unsigned i = 0; i < PTAH_RANGES; i++)
		known |= f->ranges[i].mode != PTAH_RANGE_OFF;
	return known;
}

/*
 * Walks to the branch to `to` at which tracing stopped: a direct branch with that target, or the
 * first branch that needs trace. Where no branch leads there, execution came straight on (MOV CR3).
 */
static enum flow_walk walk_to_exit(struct ptah_flow *f, struct flow_output *out, uint64_t to)
{
	const bool branches = flow_branches_to(f, to);

	for (;;) {
		unsigned before, last_size;
		int status = 0;
		struct code_node *node;

		if (flow_is_full(out))
			return WALK_FULL;
		node = flow_here(f, &status);
		if (!node) {
			if (f->ip == to) /* execution ran straight out of the mapped code */
				return WALK_ARRIVED;
			flow_emit_error(f, out, status);
			return WALK_ERROR;
		}
		if (node->ip == to && !branches)
			return WALK_ARRIVED;
		if (!branches && to > node->ip && to < node->end &&
		    code_locate(&f->code, node, to, &before, &last_size)) {
			flow_emit_part(f, out, node, to, before, last_size);
			return WALK_ARRIVED;
		}
		if (flow_is_unseen(f, node))
			return flow_cross_gap(f, out, node, to);
		if (!flow_is_direct(node)) {
			if (node->insn_class == PTAH_INSN_COND && to != node->target &&
			    to != node->end) {
				flow_emit_error(f, out, PTAH_E_MISMATCH);
				return WALK_ERROR;
			}
			flow_emit_block(f, out, node)->flags |=
			    node->insn_class == PTAH_INSN_COND && to == node->target
				? PTAH_ITEM_TAKEN
				: 0;
			return WALK_ARRIVED;
		}
		if (!flow_chain_ok(f, node) && !flow_can_reach(f, to)) {
			flow_emit_error(f, out, PTAH_E_NO_PROGRESS);
			return WALK_ERROR;
		}
		flow_emit_block(f, out, node);
		flow_pass_direct(f, node);
		if (branches && node->insn_class != PTAH_INSN_OTHER && node->target == to)
			return WALK_ARRIVED;
	}
}

/*
 * A conditional branch that left the filter's range has no address in its TIP.PGD: SDM Table
 * "TIP.PGD Packet Definition". Only a taken branch leaves a range, so it went to its target. The
 * flow reports that only where it knows that the target lies outside.
 */
static enum flow_walk leave_by_conditional(struct ptah_flow *f, struct flow_output *out,
					   const struct code_node *node)
{
	if (knows_filter(f) && !flow_leaves_filter(f, node->target)) {
		flow_emit_error(f, out, PTAH_E_MISMATCH);
		return WALK_ERROR;
	}
	flow_emit_block(f, out, node)->flags |=
	    knows_filter(f) ? PTAH_ITEM_TAKEN : PTAH_ITEM_UNKNOWN;
	return WALK_ARRIVED;
}

/*
 * TIP.PGD with neither FUP nor address: tracing stopped at the next branch that needs trace (a
 * system call, an interrupt return, a branch whose target the filter hides) or at a MOV CR3 before
 * it. A MOV CR3 at which tracing did not stop has had a PIP (SDM Table "Packet Generation under
 * Different Enable Conditions", 5c and 5d), which moved the flow past it.
 */
static enum flow_walk walk_to_hidden_exit(struct ptah_flow *f, struct flow_output *out)
{
	struct code_node *node;
	uint64_t ip, end;
	enum flow_walk walk;

	if (flow_find_insn(f, flow_is_mov_cr3, &ip, &end))
		return flow_walk_past(f, out, ip, end);
	walk = flow_walk_to_branch(f, out, &node);
	if (walk != WALK_ARRIVED)
		return walk;
	if (flow_is_unseen(f, node))
		return flow_cross_gap(f, out, node, 0);
	if (node->insn_class == PTAH_INSN_COND)
		return leave_by_conditional(f, out, node);
	flow_emit_block(f, out, node);
	return WALK_ARRIVED;
}

bool flow_apply_disabled(struct ptah_flow *f, struct flow_output *out)
{
	enum flow_walk walk;

	if (f->positioned) {
		walk = f->event.flags & PTAH_ITEM_IP_SUPPRESSED ? walk_to_hidden_exit(f, out)
								: walk_to_exit(f, out, f->event.to);
		if (walk == WALK_FULL)
			return false;
	}
	flow_stop_tracing(f);
	if (flow_is_full(out))
		return false;
	f->event.ip = 0;
	flow_emit_event(f, out, &f->event);
	return true;
}
