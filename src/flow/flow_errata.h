/* SPDX-License-Identifier: MIT */
/* Errata that show only when the code is known, each with a function that recognises it. */
#ifndef PTAH_FLOW_FLOW_ERRATA_H
#define PTAH_FLOW_FLOW_ERRATA_H

#include "flow/flow_machine.h"

/* SKL014: the TIP.PGD of a direct branch that leaves the filter has no IP. */
bool flow_is_skl014(const struct ptah_flow *f, const struct code_node *node);

/*
 * BDM64: the branch right before an abort carries a wrong target; the abort's own address is right.
 */
bool flow_is_bdm64(struct ptah_flow *f);

/*
 * SKD022: the VM entry at the flow's place has run, although a FUP says that tracing stopped before
 * it.
 */
bool flow_is_skd022(struct ptah_flow *f);

/* Applies the event of SKD022 at the VM entry, which is the last instruction that ran. */
bool flow_apply_skd022(struct ptah_flow *f, struct flow_output *out);

#endif
