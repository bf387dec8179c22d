/* SPDX-License-Identifier: MIT */
/*
 * Errata that show only when the code is known: SKL014, BDM64 and SKD022. Those that show in the
 * packets alone are in the event layer (event/errata.c).
 */
#include "flow/flow_errata.h"

#include "flow/emit_items.h"
#include "flow/leave.h"
#include "flow/move.h"
#include "flow/search.h"

static bool has_erratum(const struct ptah_flow *f, enum ptah_erratum erratum)
{
	return event_has_erratum(f->events, erratum);
}

bool flow_is_skl014(const struct ptah_flow *f, const struct code_node *node)
{
	return f->event.type == PTAH_ITEM_DISABLED && has_erratum(f, PTAH_ERRATUM_SKL014) &&
	       (node->insn_class == PTAH_INSN_JUMP || node->insn_class == PTAH_INSN_CALL) &&
	       flow_leaves_filter(f, node->target);
}

bool flow_is_bdm64(struct ptah_flow *f)
{
	return has_erratum(f, PTAH_ERRATUM_BDM64) && f->event.type == PTAH_ITEM_TSX &&
	       f->event.flags & PTAH_ITEM_ABORTED && !(f->event.flags & PTAH_ITEM_IP_SUPPRESSED) &&
	       !flow_can_reach(f, f->event.ip);
}

bool flow_is_skd022(struct ptah_flow *f)
{
	uint8_t bytes[3];

	return has_erratum(f, PTAH_ERRATUM_SKD022) && f->event.type == PTAH_ITEM_ASYNC_DISABLED &&
	       ptah_image_read(f->code.image, f->event.ip, bytes, 3, NULL) == 3 &&
	       bytes[0] == 0x0f && bytes[1] == 0x01 &&
	       (bytes[2] == 0xc2 || bytes[2] == 0xc3); /* VMLAUNCH, VMRESUME */
}

bool flow_apply_skd022(struct ptah_flow *f, struct flow_output *out)
{
	int status = 0;
	struct code_node *node;

	if (flow_is_full(out))
		return false;
	node = flow_here(f, &status);
	if (node)
		flow_emit_block(f, out, node);
	flow_lose_position(f);
	f->event.type = PTAH_ITEM_DISABLED;
	return flow_apply_disabled(f, out);
}
