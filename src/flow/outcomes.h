/* SPDX-License-Identifier: MIT */
/* Uses up the outcomes of TNT packets. */
#ifndef PTAH_FLOW_OUTCOMES_H
#define PTAH_FLOW_OUTCOMES_H

#include "flow/flow_machine.h"

/*
 * Uses up the available TNT bits. Returns with bits left when the output is full, or when an
 * indirect branch needs its (deferred) TIP: then *wants_tip is set.
 */
void flow_run_tnt(struct ptah_flow *f, struct flow_output *out, bool *wants_tip);

#endif
