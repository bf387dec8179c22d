/* SPDX-License-Identifier: MIT */
/* Finds the branch at which tracing stopped (TIP.PGD without a FUP). */
#ifndef PTAH_FLOW_LEAVE_H
#define PTAH_FLOW_LEAVE_H

#include "flow/flow_machine.h"

/* Whether the address filter excludes `ip`. (SDM "Filtering by IP") */
bool flow_leaves_filter(const struct ptah_flow *f, uint64_t ip);

/* Applies a TIP.PGD without a FUP. */
bool flow_apply_disabled(struct ptah_flow *f, struct flow_output *out);

#endif
