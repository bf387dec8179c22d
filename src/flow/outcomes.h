/* SPDX-License-Identifier: MIT */
/* Spends the outcomes of TNT packets. */
#ifndef PTAH_FLOW_OUTCOMES_H
#define PTAH_FLOW_OUTCOMES_H

#include "flow/flow_machine.h"

/*
 * Spends the TNT bits at hand. Returns with bits left when the output is full
 * or an indirect branch needs its (deferred) TIP, which is said in *wants_tip.
 */
void flow_run_tnt(struct ptah_flow *f, struct flow_output *out, bool *wants_tip);

#endif
