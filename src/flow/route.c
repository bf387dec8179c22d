/* SPDX-License-Identifier: MIT */
/* Follows the outcomes of one packet from node to node (route.h). */
#include "flow/route.h"

static void visit(const struct route *r, bool taken, const uint64_t *to)
{
	if (r->visit)
		r->visit(r->context, r->node, taken, to);
}

static bool push_route_entry(struct route *r)
{
	if (r->no_stack)
		return true;
	if (r->pushes == ROUTE_PUSHES)
		return false;
	r->calls[r->pushes++] = r->node;
	r->reach = r->pushes > r->reach ? r->pushes : r->reach;
	return true;
}

struct code_node *route_here(struct route *r)
{
	int status;

	if (!r->node)
		r->node = code_find(&r->flow->code, r->ip, r->mode, &status);
	return r->node;
}

bool route_pass_chain(struct route *r)
{
	if (!route_here(r))
		return false;
	while (flow_is_direct(r->node)) {
		if (r->node->chain_checked != r->flow->code.chain &&
		    !flow_chain_ends(r->flow, r->node))
			return false;
		if (flow_pushes(r->node) && !push_route_entry(r))
			return false;
		visit(r, false, NULL);
		r->ip = r->node->insn_class == PTAH_INSN_OTHER ? r->node->end : r->node->target;
		r->node = flow_chain_next(r->flow, r->node);
		if (!r->node)
			return false;
	}
	return true;
}

/* The target may be unmapped: that is an error only when execution has to leave it. */
static void step_to(struct route *r, uint64_t ip)
{
	r->ip = ip;
	r->node = NULL;
	route_here(r);
}

static void step_over(struct route *r, bool taken)
{
	struct code_node *node = r->node;

	if (!code_next(node, taken)) {
		step_to(r, taken ? node->target : node->end);
		node->next[taken] = r->node;
		return;
	}
	r->node = node->next[taken];
	r->ip = r->node->ip;
}

/* Returns to the instruction after a call. */
static void step_back(struct route *r, struct code_node *call)
{
	if (!code_next(call, 0)) {
		step_to(r, call->end);
		call->next[0] = r->node;
		return;
	}
	r->node = call->next[0];
	r->ip = call->end;
}

enum route_stop route_spend(struct route *r, unsigned payload)
{
	for (r->left = highest_bit(payload); r->left;) {
		const bool taken = payload >> (r->left - 1) & 1;

		if (!route_pass_chain(r))
			return ROUTE_LOST;
		switch (r->node->insn_class) {
		case PTAH_INSN_COND:
			visit(r, taken, NULL);
			step_over(r, taken);
			break;
		case PTAH_INSN_RETURN:
			if (!taken || r->no_stack)
				return ROUTE_LOST;
			if (!r->pushes)
				return ROUTE_RETURN;
			r->pushes--;
			visit(r, false, &r->calls[r->pushes]->end);
			step_back(r, r->calls[r->pushes]);
			break;
		default:
			return ROUTE_BRANCH;
		}
		r->left--;
	}
	return ROUTE_SPENT;
}

bool route_take_tip(struct route *r, bool *pops)
{
	*pops = false;
	if (!route_pass_chain(r) || r->node->insn_class == PTAH_INSN_COND)
		return false;
	if (r->node->insn_class == PTAH_INSN_CALL_IND)
		return push_route_entry(r);
	if (r->node->insn_class == PTAH_INSN_RETURN && !r->no_stack) {
		*pops = !r->pushes;
		r->pushes -= !*pops;
	}
	return true;
}
