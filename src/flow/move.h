/* SPDX-License-Identifier: MIT */
/*
 * Moves the flow over one branch: along a link from node to node, pushing and popping return sites.
 * Inline, because the loops over packets consist of these functions.
 */
#ifndef PTAH_FLOW_MOVE_H
#define PTAH_FLOW_MOVE_H

#include "flow/flow_machine.h"

static inline void flow_stand_at(struct ptah_flow *f, uint64_t ip)
{
	f->positioned = true;
	f->has_proven = false;
	f->ip = ip;
	f->node = NULL;
}

/* The node at the flow's place, or NULL with the reason in *status. */
static ALWAYS_INLINE struct code_node *flow_here(struct ptah_flow *f, int *status)
{
	if (UNLIKELY(!f->node))
		f->node = code_find(&f->code, f->ip, f->mode, status);
	return f->node;
}

/*
 * Follows a link, filling it on first use. Unmapped code is an error only when the flow has to
 * leave it.
 */
static ALWAYS_INLINE void flow_follow(struct ptah_flow *f, struct code_node *node, unsigned which)
{
	struct code_node *next = code_next(node, which);

	if (UNLIKELY(!next)) {
		int status;

		f->ip = which ? node->target : node->end;
		next = node->next[which] = code_find(&f->code, f->ip, code_mode(node), &status);
	}
	f->node = next;
}

static ALWAYS_INLINE void flow_push_return(struct ptah_flow *f, struct code_node *call)
{
	struct return_site *site = &f->stack[f->stack_top++ % STACK_SIZE];

	site->ip = call->end;
	site->call = call;
	site->place = 0;
	if (f->stack_depth < STACK_SIZE)
		f->stack_depth++;
}

/* A near return pops its entry, compressed or not (SDM: "For near RETs, pop"). */
static ALWAYS_INLINE bool pop_return(struct ptah_flow *f, struct return_site *site)
{
	if (UNLIKELY(!f->stack_depth))
		return false;
	f->stack_depth--;
	*site = f->stack[--f->stack_top % STACK_SIZE];
	return true;
}

static ALWAYS_INLINE void flow_pass_direct(struct ptah_flow *f, struct code_node *node)
{
	if (flow_pushes(node)) {
		if (UNLIKELY(f->old_calls))
			f->old_calls--;
		else
			flow_push_return(f, node);
	}
	flow_follow(f, node, node->insn_class == PTAH_INSN_OTHER ? 0 : 1);
}

static ALWAYS_INLINE bool flow_chain_ok(struct ptah_flow *f, struct code_node *node)
{
	return LIKELY(node->chain_checked == f->code.chain) || flow_chain_ends(f, node);
}

static inline bool is_far(const struct code_node *node)
{
	return node->insn_class == PTAH_INSN_FAR_CALL || node->insn_class == PTAH_INSN_FAR_RETURN ||
	       node->insn_class == PTAH_INSN_FAR_JUMP;
}

/* Execution goes to `to` by a far transfer or an interrupt, and returns to `back` from there. */
static inline void flow_note_far(struct ptah_flow *f, uint64_t back, uint64_t to)
{
	f->far_known = true;
	f->far_space = f->code.space;
	f->far_to = to;
	f->far_back = back;
}

/*
 * Carries out an uncompressed indirect branch of `node` to `ip`. The node remembers its last
 * target.
 */
static ALWAYS_INLINE void flow_go_indirect(struct ptah_flow *f, struct code_node *node, uint64_t ip)
{
	struct return_site site;
	struct code_node *next = node->next[1];

	if (node->insn_class == PTAH_INSN_CALL_IND)
		flow_push_return(f, node);
	else if (node->insn_class == PTAH_INSN_RETURN)
		pop_return(f, &site);
	if (UNLIKELY(f->on_indirect))
		f->on_indirect(f->indirect_context, node, ip);
	if (LIKELY(next && next->ip == ip && next->head)) {
		f->node = next;
		return;
	}
	flow_stand_at(f, ip);
	if (is_far(node)) { /* it may change the mode: its target is looked up later */
		flow_note_far(f, node->end, ip);
	} else {
		int status;

		f->node = node->next[1] = code_find(&f->code, ip, f->mode, &status);
	}
}

static ALWAYS_INLINE bool flow_go_compressed_return(struct ptah_flow *f)
{
	struct return_site site;

	if (UNLIKELY(!pop_return(f, &site)))
		return false;
	if (UNLIKELY(f->on_indirect))
		f->on_indirect(f->indirect_context, f->node, site.ip);
	if (LIKELY(site.call && code_mode(site.call) == f->mode)) {
		flow_follow(f, site.call, 0);
	} else {
		f->ip = site.ip;
		f->node = NULL;
	}
	return true;
}

#endif
