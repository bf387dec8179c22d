/* SPDX-License-Identifier: MIT */
/*
 * Walks over the code along direct branches, which need no trace, and reports every node passed: to
 * the next branch that needs trace, to an address, or across a gap in the trace.
 */
#include "flow/walk.h"

#include "flow/emit_items.h"
#include "flow/flow_errata.h"
#include "flow/move.h"
#include "flow/search.h"

enum flow_walk flow_walk_to_branch(struct ptah_flow *f, struct flow_output *out,
				   struct code_node **deciding)
{
	for (;;) {
		int status = 0;
		struct code_node *node;

		if (flow_is_full(out))
			return WALK_FULL;
		node = flow_here(f, &status);
		if (!node) {
			flow_emit_error(f, out, status);
			return WALK_ERROR;
		}
		if (!flow_is_direct(node) || flow_is_skl014(f, node)) {
			*deciding = node;
			return WALK_ARRIVED;
		}
		if (!flow_chain_ok(f, node)) {
			flow_emit_error(f, out, PTAH_E_NO_PROGRESS);
			return WALK_ERROR;
		}
		flow_emit_block(f, out, node);
		flow_pass_direct(f, node);
	}
}

enum flow_walk flow_cross_gap(struct ptah_flow *f, struct flow_output *out,
			      const struct code_node *node, uint64_t to)
{
	if (flow_is_full(out))
		return WALK_FULL;
	if (!f->gap_begun)
		flow_emit_block(f, out, node)->flags |= PTAH_ITEM_UNKNOWN;
	f->gap_begun = true;
	if (flow_is_full(out))
		return WALK_FULL;
	flow_emit_gap(f, out, node->end - code_last_size(node), to);
	f->gap_begun = false;
	flow_stand_at(f, to);
	return WALK_ARRIVED;
}

/* The flow is at `ip`, as the trace says. */
static enum flow_walk arrive(struct ptah_flow *f, struct flow_output *out, uint64_t ip)
{
	flow_stand_at(f, ip);
	if (LIKELY(!f->no_tnt) || f->gap_reported || !flow_leads_to_unseen(f))
		return WALK_ARRIVED;
	if (flow_is_full(out))
		return WALK_FULL;
	flow_emit_gap(f, out, ip, ip);
	return WALK_ARRIVED;
}

/*
 * The instruction at `ip` cannot be reached along direct branches: is it after an unseen branch, or
 * after missing code? Everything up to there has run.
 */
static enum flow_walk walk_beyond(struct ptah_flow *f, struct flow_output *out, uint64_t ip)
{
	struct code_node *node = NULL;
	enum flow_walk walk = WALK_ARRIVED;

	if (f->no_tnt || flow_leads_to_hole(f))
		walk = flow_walk_to_branch(f, out, &node);
	if (walk != WALK_ARRIVED)
		return walk;
	if (node && flow_is_unseen(f, node))
		return flow_cross_gap(f, out, node, ip);
	flow_emit_error(f, out, PTAH_E_MISMATCH);
	return WALK_ERROR;
}

enum flow_walk flow_walk_to_ip(struct ptah_flow *f, struct flow_output *out, uint64_t ip)
{
	if (!flow_can_reach(f, ip))
		return walk_beyond(f, out, ip);
	for (;;) {
		unsigned before, last_size;
		int status = 0;
		struct code_node *node = flow_here(f, &status);

		if (!node || node->ip == ip)
			return arrive(f, out, ip);
		if (flow_is_full(out))
			return WALK_FULL;
		if (ip > node->ip && ip < node->end &&
		    code_locate(&f->code, node, ip, &before, &last_size)) {
			flow_emit_part(f, out, node, ip, before, last_size);
			return arrive(f, out, ip);
		}
		flow_emit_block(f, out, node);
		flow_pass_direct(f, node);
	}
}

enum flow_walk flow_walk_past(struct ptah_flow *f, struct flow_output *out, uint64_t ip,
			      uint64_t end)
{
	f->gap_reported = true; /* otherwise there would have been a packet */
	f->around = f->around || flow_comes_first(f, end, ip);
	if (f->around && flow_walk_to_ip(f, out, ip) == WALK_FULL)
		return WALK_FULL;
	return flow_walk_to_ip(f, out, end);
}
