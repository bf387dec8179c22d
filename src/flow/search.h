/* SPDX-License-Identifier: MIT */
/*
 * Looks along the direct branches that lie ahead of the flow, without moving it: for an address,
 * or for an instruction of some kind.
 */
#ifndef PTAH_FLOW_SEARCH_H
#define PTAH_FLOW_SEARCH_H

#include "flow/flow_machine.h"

/* Is `ip` on the way, before any branch that needs trace? */
bool flow_can_reach(struct ptah_flow *f, uint64_t ip);

/* Does the way from here lead to an unseen branch? Then it may have led here before. */
bool flow_leads_to_unseen(struct ptah_flow *f);

/* The next instruction of a kind on the way: where it is and where it ends. */
bool flow_find_insn(struct ptah_flow *f, bool (*is_it)(const struct ptah_insn *), uint64_t *ip,
		    uint64_t *end);

/* Do we get to the instruction at `first` before that at `second`, which is on the way? */
bool flow_comes_first(struct ptah_flow *f, uint64_t first, uint64_t second);

/* How many direct calls stand between here and `ip`, which is on the way. */
unsigned flow_calls_before(struct ptah_flow *f, uint64_t ip);

/* Kinds of instructions, for flow_find_insn(). */
bool flow_is_mov_cr3(const struct ptah_insn *insn);
bool flow_is_vmptrld(const struct ptah_insn *insn);
bool flow_is_ptwrite(const struct ptah_insn *insn);

#endif
