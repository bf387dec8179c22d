/* SPDX-License-Identifier: MIT */
/*
 * Applies an event to the flow: reports the blocks that the event proves to have run, and changes
 * the flow's place and state.
 */
#ifndef PTAH_FLOW_APPLY_H
#define PTAH_FLOW_APPLY_H

#include "flow/flow_machine.h"

/*
 * Reports what is on the way to the address of f->proven, unless the packet being applied leaves
 * the place as it is or leads beyond that address anyway. False: `out` is full.
 */
bool flow_settle_proven(struct ptah_flow *f, struct flow_output *out);

/* Applies f->event. False: `out` is full, and the event has to be applied again. */
bool flow_apply_event(struct ptah_flow *f, struct flow_output *out);

#endif
