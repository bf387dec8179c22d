/* SPDX-License-Identifier: MIT */
/*
 * The table of deliberate differences between Ptah's and libipt's instruction and block decoders,
 * each with its reason and a function that recognises it. rules.c has those of all decoders.
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

static enum pt_exec_mode mode_of(const struct twin_call *call, unsigned side)
{
	const struct twin_seen *seen = &call->side[side];

	return call->decoder == TWIN_INSN ? seen->out.insn.mode : seen->out.block.mode;
}

static bool has_event(const struct twin_call *call, unsigned side)
{
	return call->side[side].status > 0 && call->side[side].status & pts_event_pending;
}

static bool is_time(unsigned type)
{
	return type == PTAH_PACKET_PAD || type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA ||
	       type == PTAH_PACKET_MTC || type == PTAH_PACKET_CYC || type == PTAH_PACKET_CBR;
}

static bool is_address(unsigned type)
{
	return type == PTAH_PACKET_FUP || type == PTAH_PACKET_TIP || type == PTAH_PACKET_TIP_PGE ||
	       type == PTAH_PACKET_TIP_PGD;
}

/* The last packet before the reference's position that is not about time. False: there is none. */
static bool last_packet(const struct twin_input *input, const struct twin_call *call,
			struct ptah_packet *last)
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
		if (!is_time(packet.type)) {
			*last = packet;
			is = true;
		}
		block = ptah_packet_block_state(&packet, block);
		at += (uint64_t)n;
	}
	return is;
}

/* Is a TIP.PGD without an address the last packet that the reference has read? */
static bool behind_disable(const struct twin_input *input, const struct twin_call *call)
{
	struct ptah_packet last;

	return last_packet(input, call, &last) && last.type == PTAH_PACKET_TIP_PGD &&
	       last.u.ip.ipc == PTAH_IPC_SUPPRESSED;
}

/* The event of a PTW without an address: libipt reports it where it has found its instruction. */
static bool ptwrite_unbound(const struct twin_input *input, const struct twin_call *call)
{
	struct ptah_packet last;

	return is_walker(call) && has_event(call, 0) && !has_event(call, 1) &&
	       call->side[1].status >= 0 && last_packet(input, call, &last) &&
	       last.type == PTAH_PACKET_PTW && !last.u.ptw.ip;
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

/* Whether the reference continues where this library returns the code. */
static bool goes_on(const struct twin_call *call, int code)
{
	if (!is_next(call) || call->side[0].status != code)
		return false;
	return call->side[1].status >= 0 ||
	       (call->decoder == TWIN_BLOCK &&
		call->side[1].out.block.ninsn > call->side[0].out.block.ninsn);
}

static bool return_stack(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return goes_on(call, -pte_retstack_empty) && class_of(call, 0) == ptic_return;
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
	return goes_on(call, -pte_bad_insn);
}

/* In 16- and 32-bit code, addresses that do not fit. */
static bool wraps(const struct twin_input *input, const struct twin_call *call)
{
	const struct twin_seen *theirs = &call->side[1];
	enum pt_exec_mode mode;

	(void)input;
	if (!is_next(call))
		return false;
	mode = call->decoder == TWIN_INSN ? theirs->out.insn.mode : theirs->out.block.mode;
	if (mode == ptem_64bit)
		return false;
	/* A block does not give the next address: it is the unmapped one. */
	return ip_of(call, 1) >> 32 ||
	       (call->decoder == TWIN_BLOCK && theirs->status == -pte_nomap &&
		(theirs->out.block.iclass == ptic_jump || theirs->out.block.iclass == ptic_call));
}

/* Ptah has found that no packet ends the loop; libipt repeats it until its caller stops. */
static bool endless_loop(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	if (!is_next(call) || call->side[0].status != -pte_bad_query ||
	    (call->side[1].status & ~pts_eos))
		return false;
	switch (class_of(call, 1)) {
	case ptic_other:
	case ptic_jump:
	case ptic_call:
		return true;
	default:
		return call->decoder == TWIN_BLOCK;
	}
}

static bool error_ahead(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	if (!is_walker(call) || call->op < TWIN_NEXT || call->side[1].status >= 0 ||
	    call->side[1].status == -pte_no_enable)
		return false;
	return call->side[0].status >= 0 ||
	       (call->decoder == TWIN_BLOCK && call->op == TWIN_NEXT &&
		call->side[0].out.block.ninsn > call->side[1].out.block.ninsn);
}

static bool another_error(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	/* Which of two errors is first: that the mode is unknown, or that the trace ends. */
	if (is_next(call) && call->side[0].status == -pte_eos &&
	    call->side[1].status == -pte_bad_insn && mode_of(call, 1) == ptem_unknown)
		return true;
	if (!is_next(call) ||
	    (call->side[1].status != -pte_bad_query && call->side[1].status != -pte_nomap))
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

/* The address of the last FUP before this library's position. False: there is none. */
static bool last_fup(const struct twin_input *input, const struct twin_call *call, uint64_t *ip)
{
	const struct twin_seen *seen = &call->side[0];
	struct ptah_packet packet;
	uint64_t at = seen->sync, last_ip = 0;
	unsigned block = 0;
	bool is = false;

	if (seen->offset_status || seen->sync_status)
		return false;
	while (at < seen->offset) {
		int n = ptah_packet_decode(&packet, input->bytes + at, input->size - at, block);
		uint64_t to;

		if (n <= 0)
			return is;
		if (packet.type == PTAH_PACKET_PSB)
			last_ip = 0;
		if (is_address(packet.type) &&
		    ptah_packet_ip(&last_ip, packet.u.ip.ipc, packet.u.ip.ip, &to) &&
		    packet.type == PTAH_PACKET_FUP) {
			*ip = to;
			is = true;
		}
		block = ptah_packet_block_state(&packet, block);
		at += (uint64_t)n;
	}
	return is;
}

/* An event precedes the branch's packet, and its address is not this one. */
static bool event_in_the_way(const struct twin_input *input, const struct twin_call *call)
{
	uint64_t ip;

	return is_next(call) && call->side[0].status == -pte_bad_query &&
	       last_fup(input, call, &ip) && ip != ip_of(call, 0) &&
	       call->side[0].offset <= call->side[1].offset;
}

/* A change that belongs to a far branch, but has another packet than the branch. */
static bool event_of_far_branch(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_next(call) && call->side[0].status == -pte_bad_query && has_event(call, 1) &&
	       class_of(call, 0) >= ptic_far_call && class_of(call, 0) <= ptic_far_jump;
}

static bool change_unbound(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	same.side[0].status &= ~pts_event_pending;
	same.blind = true;
	return is_walker(call) && call->op >= TWIN_NEXT && has_event(call, 0) &&
	       !has_event(call, 1) && call->side[1].status >= 0 && twin_equal(&same);
}

/*
 * A struct that is cut short does not have the number of instructions by which blocks are joined.
 */
static bool block_cut_short(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return is_next(call) && call->decoder == TWIN_BLOCK &&
	       call->argument < sizeof(struct pt_block) && call->side[0].status >= 0 &&
	       call->side[1].status >= 0;
}

static bool event_at_far_branch(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

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

/* In blocks, because libipt's block decoder has its own code for this. */
static bool jump_of_skl014(const struct twin_input *input, const struct twin_call *call)
{
	return input->config.errata.skl014 && call->decoder == TWIN_BLOCK && is_next(call) &&
	       class_of(call, 0) == ptic_jump && !has_event(call, 0) && has_event(call, 1);
}

static bool only_truncated(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	(void)input;
	if (call->decoder != TWIN_INSN || !is_next(call) || call->side[0].out.insn.truncated)
		return false;
	same.side[1].out.insn.truncated = 0;
	return twin_equal(&same);
}

static bool skd022_unread(const struct twin_input *input, const struct twin_call *call)
{
	return input->config.errata.skd022 && is_walker(call) && call->op == TWIN_EVENT &&
	       call->side[0].status >= 0 && call->side[1].status >= 0 &&
	       call->side[0].out.event.type == ptev_disabled &&
	       call->side[1].out.event.type == ptev_async_disabled;
}

/* Whether this is the code at the end of the last block or instruction. */
static bool is_code(const struct twin_input *input, const struct twin_call *call,
		    const uint8_t *code, size_t size)
{
	const struct twin_seen *seen = &call->side[0];
	const uint64_t ip = call->decoder == TWIN_INSN ? seen->out.insn.ip : seen->out.block.end_ip;

	for (size_t i = 0; i < input->nsections; i++) {
		const struct twin_section *s = &input->sections[i];

		if (ip >= s->address && ip - s->address < s->size &&
		    s->size - (ip - s->address) >= size &&
		    !memcmp(s->bytes + (ip - s->address), code, size))
			return true;
	}
	return false;
}

static bool rsm(const struct twin_input *input, const struct twin_call *call)
{
	return is_next(call) && class_of(call, 0) == ptic_far_return &&
	       is_code(input, call, (const uint8_t *)"\x0f\xaa", 2);
}

/* A MODE.Exec whose branch goes to the place where the walk is already. */
static bool mode_at_target(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);
	struct ptah_packet last;

	same.side[1].status &= ~pts_event_pending;
	same.blind = true;
	return is_walker(call) && !has_event(call, 0) && has_event(call, 1) && twin_equal(&same) &&
	       last_packet(input, call, &last) && last.type == PTAH_PACKET_MODE_EXEC;
}

/* After an overflow inside a transaction. */
static bool speculative(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(input, call);

	if (!is_next(call) || !twin_is_lost_in_tx(input, call->side[0].sync, call->side[0].offset))
		return false;
	if (call->decoder == TWIN_INSN)
		same.side[1].out.insn.speculative = same.side[0].out.insn.speculative;
	else
		same.side[1].out.block.speculative = same.side[0].out.block.speculative;
	return twin_equal(&same);
}

/* Golden cases, each about one difference. */
static const struct {
	const char *name, *why;
} cases[] = {
    {"no-tnt-ptwrite-needs-no-gap.txt",
     "SDM \"IA32_RTIT_CTL MSR\", DisTNT: libipt does not know of traces without outcomes"},
    {"code-32-bit-into-",
     "SDM \"Flow Update Packet\": a software interrupt has a FUP, so that INTO without one did not "
     "trap; libipt takes each for a far call"},
    {"psb-in-another-mode-while-tracing.txt",
     "libipt's block cache keeps the mode in which an address was decoded first"},
};

static bool golden_case(const struct twin_input *input, const struct twin_call *call)
{
	const char *name = strrchr(input->name, '/');

	name = name ? name + 1 : input->name;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (is_walker(call) && !strncmp(name, cases[i].name, strlen(cases[i].name)))
			return true;
	return false;
}

const struct twin_rule twin_walk_rules[] = {
    {.name = "left-by-branch",
     .why = "SDM \"Packet Generation Disable (TIP.PGD)\": a near branch may leave without an "
	    "address, too; "
	    "libipt 2.0's block decoder sees it, its instruction decoder does not",
     .applies = left_by_branch},
    {.name = "left-by-mov-cr3",
     .why = "libipt takes TIP.PGD without an address for the MOV CR3's that a PIP came from; "
	    "SDM \"Packet Generation Disable (TIP.PGD)\": any branch may be its",
     .applies = left_by_mov_cr3},
    {.name = "left-for-nowhere",
     .why = "SDM \"Packet Generation Disable (TIP.PGD)\": its address is that of the next "
	    "instruction, "
	    "which a conditional branch to elsewhere does not have",
     .applies = left_for_nowhere},
    {.name = "return-stack",
     .why = "SDM \"Indirect Transfer Compression for Returns (RET)\": the stack is emptied at PSB, "
	    "OVF and TIP.PGE; libipt 2.0 keeps it",
     .applies = return_stack},
    {.name = "return-pops",
     .why = "SDM \"Indirect Transfer Compression for Returns (RET)\": an uncompressed return takes "
	    "its "
	    "entry off the stack; libipt 2.0 leaves it there",
     .applies = return_pops},
    {.name = "ptwrite-unbound",
     .why =
	 "SDM \"PTWRITE Packet\": without its address it has run all the same; libipt 2.0 tells it "
	 "where it finds a PTWRITE",
     .applies = ptwrite_unbound},
    {.name = "address-wraps",
     .why = "SDM volume 1, \"Instruction Pointer\": EIP has 32 bits; libipt 2.0 counts on",
     .applies = wraps},
    {.name = "endless-loop",
     .why = "no packet comes of a loop of direct branches: Ptah says so, libipt 2.0 goes around, "
	    "or recurses until its stack is gone",
     .applies = endless_loop},
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
    {.name = "event-in-the-way",
     .why = "an event at an address that is not reached stands before the branch's packet; libipt "
	    "2.0's instruction decoder takes packets behind it",
     .applies = event_in_the_way},
    {.name = "event-of-far-branch",
     .why = "libipt tells a PIP or VMCS where the far branch is, and then that it has no packet",
     .applies = event_of_far_branch,
     .judge_to_error = true},
    {.name = "change-unbound",
     .why = "a PIP or VMCS whose instruction does not come has happened all the same; libipt 2.0 "
	    "waits for the instruction and fails",
     .applies = change_unbound,
     .judge_to_error = true},
    {.name = "block-cut-short",
     .why = "as block-cut: libipt's blocks end where its cache happened to",
     .applies = block_cut_short},
    {.name = "skl014-jump",
     .why = "libipt 2.0's block decoder leaves at a jump that stays in the region where blocks end "
	    "at jumps; its instruction decoder does not",
     .applies = jump_of_skl014},
    {.name = "skd022-unread",
     .why = "erratum SKD022: libipt asks for 15 bytes at once to see whether it applies, and takes "
	    "a callback's refusal for no",
     .applies = skd022_unread},
    {.name = "truncated",
     .why = "libipt takes the parts that a callback gives for sections",
     .applies = only_truncated,
     .go_on = true},
    {.name = "rsm",
     .why = "SDM volume 2, \"RSM\": it returns to the program; libipt has no class for it",
     .applies = rsm},
    {.name = "mode-at-target",
     .why = "SDM \"MODE.Exec Packet\": applies to the TIP's address, once the branch has run; "
	    "libipt 2.0 tells it wherever that address is",
     .applies = mode_at_target},
    {.name = "speculative",
     .why = "SDM \"MODE.TSX Packet\": says when a transaction ends; libipt 2.0 ends it at an OVF",
     .applies = speculative,
     .go_on = true},
    {.name = "golden-case", .why = "see the table", .applies = golden_case},
};
const unsigned twin_walk_rule_count = sizeof(twin_walk_rules) / sizeof(*twin_walk_rules);
