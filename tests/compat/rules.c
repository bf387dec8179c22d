/* SPDX-License-Identifier: MIT */
/*
 * Where this library deliberately differs from Debian's libipt. Each rule is
 * counted and printed, so that nothing is hidden; what no rule explains is a
 * failure.
 */
#include "twin.h"

#include <string.h>

/* Both answered the packet call with a packet. */
static bool both_packets(const struct twin_call *call)
{
	return call->decoder == TWIN_PACKET && call->op == TWIN_NEXT && call->side[0].status >= 0 &&
	       call->side[1].status >= 0;
}

static bool pwre_hw(const struct twin_input *input, const struct twin_call *call)
{
	(void)input;
	return both_packets(call) && call->side[0].out.packet.type == ppt_pwre &&
	       call->side[1].out.packet.type == ppt_pwre;
}

const struct twin_rule twin_rules[] = {
    {.name = "pwre-hw",
     .why = "SDM \"PWRE Packet Definition\": HW is bit 7 of the first payload byte, not bit 3",
     .applies = pwre_hw,
     .go_on = true},
};
const unsigned twin_rule_count = sizeof(twin_rules) / sizeof(*twin_rules);
