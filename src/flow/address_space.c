/* SPDX-License-Identifier: MIT */
/*
 * Changes the address space in which the flow looks up code. PIP and VMCS packets carry the new
 * one; it holds at once, after the MOV CR3 or VMPTRLD that loaded it, or after the next branch.
 */
#include "flow/address_space.h"

#include "flow/emit_items.h"
#include "flow/search.h"
#include "flow/walk.h"

int flow_set_space(struct ptah_flow *f, const struct ptah_space *space)
{
	f->space_fixed = true;
	f->space = *space;
	flow_forget_nodes(f);
	return code_set_space(&f->code, space);
}

void flow_enter_space(struct ptah_flow *f, struct flow_output *out)
{
	int status;

	f->space_waits = false;
	if (f->space.cr3 == f->code.spaces[f->code.space].cr3 &&
	    f->space.vmcs == f->code.spaces[f->code.space].vmcs)
		return;
	flow_forget_nodes(f);
	status = code_set_space(&f->code, &f->space);
	if (status < 0 && flow_is_full(out))
		flow_lose_position(f);
	else if (status < 0)
		flow_emit_error(f, out, status);
}

bool flow_apply_space(struct ptah_flow *f, struct flow_output *out)
{
	const bool vmcs = f->event.type == PTAH_ITEM_VMCS || f->event.type == PTAH_ITEM_ASYNC_VMCS;
	const bool ahead = f->positioned && f->event.flags & PTAH_ITEM_IP_SUPPRESSED &&
			   !(f->event.flags & PTAH_ITEM_STATUS);
	uint64_t *value = vmcs ? &f->space.vmcs : &f->space.cr3;
	uint64_t ip, end;

	if (ahead && !f->placed &&
	    flow_find_insn(f, vmcs ? flow_is_vmptrld : flow_is_mov_cr3, &ip, &end)) {
		if (flow_walk_past(f, out, ip, end) == WALK_FULL)
			return false;
		f->placed = true;
	}
	if (flow_is_full(out))
		return false;
	flow_emit_event(f, out, &f->event);
	if (f->space_fixed)
		return true;
	*value = f->event.value;
	f->space_waits = ahead && !f->placed;
	if (!f->space_waits)
		flow_enter_space(f, out);
	return true;
}

int ptah_flow_space(const struct ptah_flow *f, unsigned number, struct ptah_space *space)
{
	if (!f || !space || number >= f->code.space_count)
		return PTAH_E_INVAL;
	*space = f->code.spaces[number];
	return 0;
}
