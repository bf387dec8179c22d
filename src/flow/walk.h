/* SPDX-License-Identifier: MIT */
/*
 * Walks over the code along direct branches, which need no trace, and reports every node on the
 * way: to the next branch that needs trace, to an address, or across a gap in the trace.
 */
#ifndef PTAH_FLOW_WALK_H
#define PTAH_FLOW_WALK_H

#include "flow/flow_machine.h"

/* What a walk ended with. */
enum flow_walk {
	WALK_FULL,    /* the output is full: call again */
	WALK_ARRIVED, /* at what was asked for */
	WALK_ERROR,   /* reported, position lost */
};

/* To the next branch that decides: `*deciding` is its node, not yet reported. */
enum flow_walk flow_walk_to_branch(struct ptah_flow *f, struct flow_output *out,
				   struct code_node **deciding);

/* A branch that leaves no packet in a trace without TNT packets. */
static inline bool flow_is_unseen(const struct ptah_flow *f, const struct code_node *node)
{
	return f->no_tnt && (node->insn_class == PTAH_INSN_COND ||
			     (node->insn_class == PTAH_INSN_RETURN && !f->no_retcomp));
}

/* Past an unseen branch, which ran, to where the trace says that we got. */
enum flow_walk flow_cross_gap(struct ptah_flow *f, struct flow_output *out,
			      const struct code_node *node, uint64_t to);

/* To the instruction at `ip`, along direct branches; everything before it is reported. */
enum flow_walk flow_walk_to_ip(struct ptah_flow *f, struct flow_output *out, uint64_t ip);

/*
 * Behind the instruction [ip, end), which is on the way and has run. In a loop
 * the address behind it may come before it. That is no longer seen when the
 * output was full on the way: the blocks are the same.
 */
enum flow_walk flow_walk_past(struct ptah_flow *f, struct flow_output *out, uint64_t ip,
			      uint64_t end);

#endif
