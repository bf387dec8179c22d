/* SPDX-License-Identifier: MIT */
/* What an event does to the flow: which blocks it proves to have run, and what it changes. */
#ifndef PTAH_FLOW_APPLY_H
#define PTAH_FLOW_APPLY_H

#include "flow/flow_machine.h"

/* Applies f->event. False: `out` is full, and the event has to be applied again. */
bool flow_apply_event(struct ptah_flow *f, struct flow_output *out);

#endif
