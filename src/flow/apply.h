/* SPDX-License-Identifier: MIT */
/* What an event does to the flow. */
#ifndef PTAH_FLOW_APPLY_H
#define PTAH_FLOW_APPLY_H

#include "flow/flow_machine.h"

/* Carries out f->event. False: `out` is full, and it is to be applied again. */
bool flow_apply_event(struct ptah_flow *f, struct flow_output *out);

#endif
