/* SPDX-License-Identifier: MIT */
/* The address space that code is looked up in. */
#ifndef PTAH_FLOW_ADDRESS_SPACE_H
#define PTAH_FLOW_ADDRESS_SPACE_H

#include "flow/flow_machine.h"

/* From now on code is looked up in the address space that PIP and VMCS packets have named. */
void flow_enter_space(struct ptah_flow *f, struct flow_output *out);

/*
 * Applies a PIP or VMCS event. One without an address belongs to a MOV CR3 or VMPTRLD ahead, or
 * else to the next branch that needs trace (a task switch, a VM entry).
 */
bool flow_apply_space(struct ptah_flow *f, struct flow_output *out);

#endif
