/* SPDX-License-Identifier: MIT */
/* The address space that code is looked up in. */
#ifndef PTAH_FLOW_ADDRESS_SPACE_H
#define PTAH_FLOW_ADDRESS_SPACE_H

#include "flow/flow_machine.h"

/* The space that PIP and VMCS packets have told is the one we look code up in. */
void flow_enter_space(struct ptah_flow *f, struct flow_output *out);

/*
 * PIP, VMCS. What comes without an address belongs to a MOV CR3 or VMPTRLD on
 * the way, or else to the branch that comes next (a task switch, a VM entry).
 */
bool flow_apply_space(struct ptah_flow *f, struct flow_output *out);

#endif
