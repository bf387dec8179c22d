/* SPDX-License-Identifier: MIT */
/*
 * Carries out PSB+, and what comes between a TIP.PGD and the next TIP.PGE, for callers that want no
 * items: the flow and its event decoder are left as if the packets had been read one by one. While
 * these functions run, the flow's place and its return address stack are the caller's.
 */
#ifndef PTAH_FLOW_PASS_GROUPS_H
#define PTAH_FLOW_PASS_GROUPS_H

#include "event/packet_group.h"
#include "flow/flow_machine.h"

/*
 * Whether the functions below may be used. False where the caller's configuration wants items of
 * them.
 */
bool flow_can_pass_groups(const struct ptah_flow *f);

/* Whether tracing is off, and nothing is pending. Then flow_pass_off() may be called. */
bool flow_is_off(const struct ptah_flow *f);

/* What a PSB+ and a TIP.PGE make the flow forget. */
static inline void flow_forget_far(struct ptah_flow *f)
{
	f->lost_return = 0;
	f->keeps_stack = f->far_known = false;
}

/* Tracing is off, as after a TIP.PGD. */
void flow_turn_off(struct ptah_flow *f);

/*
 * Passes packets while tracing is off, from *pos on, up to a TIP.PGE. True: it has been passed, and
 * the flow is at its address (f->ip), with an empty return address stack. False: the packet at
 * *pos, or a change that it makes, is left to the flow, which is to be turned off. *last_ip is kept
 * up to date.
 */
bool flow_pass_off(struct ptah_flow *f, const uint8_t **pos, const uint8_t *end, uint64_t *last_ip);

/*
 * Whether a PSB+ that comes while tracing is on leaves the mode and the address space of the flow
 * as they are. Its address is for the caller to check.
 */
bool flow_psb_fits(const struct ptah_flow *f, const struct packet_psb *psb);

/*
 * Passes a PSB+ that fits and whose address has been checked. The caller empties its return address
 * stack. False: nothing has changed, it is left to the flow.
 */
bool flow_pass_psb(struct ptah_flow *f, const struct packet_psb *psb);

#endif
