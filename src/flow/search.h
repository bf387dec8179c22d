/* SPDX-License-Identifier: MIT */
/*
 * Looks along the direct branches ahead of the flow, without moving it: for an address, or for an
 * instruction of some kind.
 */
#ifndef PTAH_FLOW_SEARCH_H
#define PTAH_FLOW_SEARCH_H

#include "flow/flow_machine.h"

/* Whether the flow can reach `ip` without a branch that needs trace. */
bool flow_can_reach(struct ptah_flow *f, uint64_t ip);
/* Whether a branch is ahead that can go to `ip`. */
bool flow_branches_to(struct ptah_flow *f, uint64_t ip);

/*
 * Whether direct branches from here lead to an unseen branch. Then that branch may have led here
 * before.
 */
bool flow_leads_to_unseen(struct ptah_flow *f);

/* Whether direct branches from here lead to an address without code, or to no valid instruction. */
bool flow_leads_to_hole(struct ptah_flow *f);

/* Finds the next instruction of a kind that the flow will reach: its address and where it ends. */
bool flow_find_insn(struct ptah_flow *f, bool (*is_it)(const struct ptah_insn *), uint64_t *ip,
		    uint64_t *end);

/*
 * Whether the flow will reach the instruction at `first` before the one at `second`. The flow can
 * reach `second`.
 */
bool flow_comes_first(struct ptah_flow *f, uint64_t first, uint64_t second);

/* How many direct calls the flow passes before `ip`, which it can reach. */
unsigned flow_calls_before(struct ptah_flow *f, uint64_t ip);

/* Kinds of instructions for flow_find_insn(). */
bool flow_is_mov_cr3(const struct ptah_insn *insn);
bool flow_is_vmptrld(const struct ptah_insn *insn);
bool flow_is_ptwrite(const struct ptah_insn *insn);

#endif
