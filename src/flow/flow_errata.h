/* SPDX-License-Identifier: MIT */
/* The errata that need the code to be seen. */
#ifndef PTAH_FLOW_FLOW_ERRATA_H
#define PTAH_FLOW_FLOW_ERRATA_H

#include "flow/flow_machine.h"

/* SKL014: the TIP.PGD of a direct branch that leaves the filter has no IP. */
bool flow_is_skl014(const struct ptah_flow *f, const struct code_node *node);

/* BDM64: the branch right before an abort has a wrong target; the abort's own address is right. */
bool flow_is_bdm64(struct ptah_flow *f);

/* SKD022: the VM entry we stand at has run, although a FUP says that tracing stopped before it. */
bool flow_is_skd022(struct ptah_flow *f);

/* Standing at the VM entry: it is the last thing that ran. */
bool flow_apply_skd022(struct ptah_flow *f, struct flow_output *out);

#endif
