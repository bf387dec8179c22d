/* SPDX-License-Identifier: MIT */
/*
 * Where the instruction and the block decoder deliberately differ from Debian's,
 * beyond what rules.c has for all decoders.
 */
#include "twin.h"

#include <ptah/packet.h>

#include <string.h>

static bool is_walker(const struct twin_call *call)
{
	return call->decoder >= TWIN_INSN;
}

static bool is_next(const struct twin_call *call)
{
	return is_walker(call) && call->op == TWIN_NEXT;
}

static enum pt_insn_class class_of(const struct twin_call *call, unsigned side)
{
	const struct twin_seen *seen = &call->side[side];

	return call->decoder == TWIN_INSN ? seen->out.insn.iclass : seen->out.block.iclass;
}

static bool has_event(const struct twin_call *call, unsigned side)
{
	return call->side[side].status > 0 && call->side[side].status & pts_event_pending;
}

/* Was a TIP.PGD without an address the last packet about branches before where the judge stands? */
static bool behind_disable(const struct twin_input *input, const struct twin_call *call)
{
	const struct twin_seen *seen = &call->side[1];
	struct ptah_packet packet;
	uint64_t at = seen->sync;
	unsigned block = 0;
	bool is = false;

	if (seen->offset_status || seen->sync_status)
		return false;
	while (at < seen->offset) {
		int n = ptah_packet_decode(&packet, input->bytes + at, input->size - at, block);

		if (n <= 0)
			return false;
		if (packet.type == PTAH_PACKET_TNT_8 || packet.type == PTAH_PACKET_TNT_64 ||
		    packet.type == PTAH_PACKET_TIP || packet.type == PTAH_PACKET_TIP_PGE ||
		    packet.type == PTAH_PACKET_TIP_PGD || packet.type == PTAH_PACKET_FUP)
			is = packet.type == PTAH_PACKET_TIP_PGD &&
			     packet.u.ip.ipc == PTAH_IPC_SUPPRESSED;
		block = ptah_packet_block_state(&packet, block);
		at += (uint64_t)n;
	}
	return is;
}

static bool left_by_branch(const struct twin_input *input, const struct twin_call *call)
{
	if (call->decoder != TWIN_INSN || !is_next(call) || !has_event(call, 0) ||
	    call->side[1].status >= 0)
		return false;
	switch (class_of(call, 0)) {
	case ptic_call:
	case ptic_return:
	case ptic_jump:
	case ptic_cond_jump:
		return behind_disable(input, call);
	default:
		return false;
	}
}

static bool left_by_mov_cr3(const struct twin_input *input, const struct twin_call *call)
{
	return is_walker(call) && call->op == TWIN_EVENT && call->side[0].status >= 0 &&
	       !has_event(call, 0) && has_event(call, 1) &&
	       call->side[0].out.event.type == ptev_paging &&
	       call->side[1].out.event.type == ptev_paging && behind_disable(input, call);
}

static bool left_for_nowhere(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_next(call) && call->side[0].status == -pte_bad_query && has_event(call, 1) &&
	       class_of(call, 0) == ptic_cond_jump;
}

static bool return_stack(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_next(call) && call->side[1].status >= 0 && class_of(call, 0) == ptic_return &&
	       call->side[0].status == -pte_retstack_empty;
}

static uint64_t ip_of(const struct twin_call *call, unsigned side)
{
	const struct twin_seen *seen = &call->side[side];

	return call->decoder == TWIN_INSN ? seen->out.insn.ip : seen->out.block.ip;
}

static bool return_pops(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_next(call) && call->last_class == ptic_return && ip_of(call, 0) != ip_of(call, 1);
}

static bool no_instruction(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_next(call) && call->side[0].status == -pte_bad_insn && call->side[1].status >= 0;
}

static bool error_ahead(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_walker(call) && call->op >= TWIN_NEXT && call->side[0].status >= 0 &&
	       call->side[1].status < 0 && call->side[1].status != -pte_no_enable;
}

static bool another_error(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	if (!is_next(call) || call->side[1].status != -pte_bad_query)
		return false;
	switch (call->side[0].status) {
	case -pte_bad_packet:
	case -pte_bad_opc:
	case -pte_noip:
	case -pte_eos:
		return true;
	default:
		return false;
	}
}

static bool event_at_far_branch(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	(void)input;
	if (call->decoder != TWIN_BLOCK || call->op != TWIN_EVENT || call->side[0].status < 0 ||
	    call->side[1].offset > call->side[0].offset)
		return false;
	if (call->side[0].out.event.type != ptev_paging &&
	    call->side[0].out.event.type != ptev_vmcs)
		return false;
	same.blind = true;
	return twin_equal(&same);
}

const struct twin_rule twin_walk_rules[] = {
    {.name = "left-by-branch",
     .why = "SDM \"TIP.PGD Packet Definition\": a near branch may leave without an address, too; "
	    "libipt 2.0's block decoder sees it, its instruction decoder does not",
     .applies = left_by_branch},
    {.name = "left-by-mov-cr3",
     .why = "libipt takes TIP.PGD without an address for the MOV CR3's that a PIP came from; "
	    "SDM \"TIP.PGD Packet Definition\": any branch may be its",
     .applies = left_by_mov_cr3},
    {.name = "left-for-nowhere",
     .why = "SDM \"TIP.PGD Packet Definition\": its address is that of the next instruction, "
	    "which a conditional branch to elsewhere does not have",
     .applies = left_for_nowhere},
    {.name = "return-stack",
     .why = "SDM \"Indirect Transfer Compression for Returns\": the stack is emptied at PSB, "
	    "OVF and TIP.PGE; libipt 2.0 keeps it",
     .applies = return_stack},
    {.name = "return-pops",
     .why = "SDM \"Indirect Transfer Compression for Returns\": an uncompressed return takes its "
	    "entry off the stack; libipt 2.0 leaves it there",
     .applies = return_pops},
    {.name = "no-instruction",
     .why =
	 "SDM volume 2, \"Opcode Map\": the bytes are no instruction; libipt knows lengths alone",
     .applies = no_instruction},
    {.name = "error-ahead",
     .why = "libipt 2.0 reads ahead, and throws away what comes before an error; Ptah tells it, "
	    "and then an error",
     .applies = error_ahead,
     .to_error = true},
    {.name = "another-error",
     .why = "libipt does not look into a packet that is no answer; both fail",
     .applies = another_error,
     .go_on = true},
    {.name = "event-at-far-branch",
     .why = "libipt 2.0's block decoder reads on later than its instruction decoder behind an "
	    "event that is bound to a far branch",
     .applies = event_at_far_branch,
     .go_on = true},
};
const unsigned twin_walk_rule_count = sizeof(twin_walk_rules) / sizeof(*twin_walk_rules);
