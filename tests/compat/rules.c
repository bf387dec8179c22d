/* SPDX-License-Identifier: MIT */
/*
 * Where this library deliberately differs from Debian's libipt. Each rule is
 * counted and printed, so that nothing is hidden; what no rule explains is a
 * failure.
 */
#include "twin.h"

#include <string.h>

static bool is_packet_call(const struct twin_call *call)
{
	return call->decoder == TWIN_PACKET && call->op == TWIN_NEXT;
}

static bool both_packets(const struct twin_call *call, enum pt_packet_type type)
{
	return is_packet_call(call) && call->side[0].status >= 0 && call->side[1].status >= 0 &&
	       call->side[0].out.packet.type == type && call->side[1].out.packet.type == type;
}

static const uint8_t *bytes_at(const struct twin_input *input, const struct twin_seen *seen,
			       size_t size)
{
	if (seen->offset_status || seen->offset > input->size || input->size - seen->offset < size)
		return NULL;
	return input->bytes + seen->offset;
}

static bool pwre_hw(const struct twin_input *input, const struct twin_call *call)
{
	struct twin_call same = *call;

	(void)input;
	if (!both_packets(call, ppt_pwre))
		return false;
	same.side[1].out.packet.payload.pwre.hw = same.side[0].out.packet.payload.pwre.hw;
	return twin_equal(&same);
}

/* CFE, EVD, TRIG, and the PEBS packets BBP, BIP, BEP. */
static bool is_newer(const uint8_t *p)
{
	if (p[0] == 0xd9)
		return true;
	if ((p[0] & 7) == 4 && (p[0] >> 3 & 1)) /* BIP */
		return true;
	return p[0] == 0x02 && memchr("\x13\x53\x63\x33\xb3", p[1], 5);
}

static bool newer_packet(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 2);

	return !call->since_2_1 && call->side[1].status == -pte_bad_opc && p && is_newer(p);
}

static bool tma_reserved(const struct twin_input *input, const struct twin_call *call)
{
	const uint8_t *p = bytes_at(input, &call->side[1], 7);

	return call->side[1].status == -pte_bad_packet && p && p[0] == 0x02 && p[1] == 0x73;
}

static bool sync_at_end(const struct twin_input *input, const struct twin_call *call)
{
	return call->decoder == TWIN_PACKET && call->op == TWIN_SYNC_FORWARD &&
	       call->side[0].status == -pte_eos && call->side[1].status == -pte_internal &&
	       call->side[0].sync == input->size;
}

const struct twin_rule twin_rules[] = {
    {.name = "pwre-hw",
     .why = "SDM \"PWRE Packet Definition\": HW is bit 7 of the first payload byte, not bit 3",
     .applies = pwre_hw,
     .go_on = true},
    {.name = "newer-packet",
     .why = "SDM \"Event Trace\", \"Trigger Tracing\", \"PEBS via PT\": libipt 2.0 does not know "
	    "their packets",
     .applies = newer_packet},
    {.name = "tma-reserved",
     .why = "SDM \"TMA Packet Definition\": reserved bits are ignored",
     .applies = tma_reserved},
    {.name = "sync-at-end",
     .why = "the interface: -pte_eos where no PSB follows; libipt's own bounds check fails when "
	    "it was set to the trace's end",
     .applies = sync_at_end,
     .go_on = true},
};
const unsigned twin_rule_count = sizeof(twin_rules) / sizeof(*twin_rules);
