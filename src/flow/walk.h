/* SPDX-License-Identifier: MIT */
/*
 * Walks over the code along direct branches, which need no trace, and reports every node passed: to
 * the next branch that needs trace, to an address, or across a gap in the trace.
 */
#ifndef PTAH_FLOW_WALK_H
#define PTAH_FLOW_WALK_H

#include "flow/flow_machine.h"

/* How a walk ended. */
enum flow_walk {
	WALK_FULL,    /* the output is full: walk again */
	WALK_ARRIVED, /* at its goal */
	WALK_ERROR,   /* an error is reported, and the place is lost */
};

/* Walks to the next deciding branch. `*deciding` is its node, which is not reported yet. */
enum flow_walk flow_walk_to_branch(struct ptah_flow *f, struct flow_output *out,
				   struct code_node **deciding);

/* A branch for which a trace without TNT packets has no packet. */
static inline bool flow_is_unseen(const struct ptah_flow *f, const struct code_node *node)
{
	return f->no_tnt && (node->insn_class == PTAH_INSN_COND ||
			     (node->insn_class == PTAH_INSN_RETURN && !f->no_retcomp));
}

/* Passes an unseen branch, which ran, and continues at `to`, which the trace gives. */
enum flow_walk flow_cross_gap(struct ptah_flow *f, struct flow_output *out,
			      const struct code_node *node, uint64_t to);

/* Walks to the instruction at `ip` along direct branches, reporting everything before it. */
enum flow_walk flow_walk_to_ip(struct ptah_flow *f, struct flow_output *out, uint64_t ip);

/*
 * Walks past the instruction [ip, end), which is ahead and has run. In a loop the address after it
 * may be reached before the instruction itself: then the flow goes round to it first. It remembers
 * that (f->around), because it cannot be seen again after a full output.
 */
enum flow_walk flow_walk_past(struct ptah_flow *f, struct flow_output *out, uint64_t ip,
			      uint64_t end);

#endif
