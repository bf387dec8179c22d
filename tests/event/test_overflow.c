/* SPDX-License-Identifier: MIT */
/* OVF and how tracing continues after it: SDM "Buffer Overflow", "OVF Packet". */
#include "story.h"

TEST(resumes)
{
	story_check(NULL, ON "OVF; FUP 0x402000; TNT T",
		    IS_ON "overflow ip=402000; tnt value=1 count=1; ");
	story_check(NULL, ON "OVF; TSC 5; CBR ratio 0; MTC 1; PAD; FUP 0x402000; TNT T",
		    IS_ON "overflow ip=402000; tnt value=1 count=1; ");
	story_check(NULL, ON "OVF; TIP.PGE 0x402000; TNT T",
		    IS_ON "overflow noip; enabled ip=402000; tnt value=1 count=1; ");
	story_check(NULL, ON "OVF; PIP cr3 0x1000; TIP.PGE 0x402000",
		    IS_ON "overflow noip; paging noip value=1000; enabled ip=402000; ");
	story_check(NULL, ON "OVF; TraceStop", IS_ON "overflow noip; stop; ");
	story_check(NULL, ON "OVF; OVF; FUP 0x402000", IS_ON "overflow ip=402000; ");
	story_check(NULL, ON "OVF", IS_ON "overflow noip; ");
	story_check(NULL, OFF "OVF; TIP.PGE 0x401000", IS_OFF "overflow noip; enabled ip=401000; ");
	/* The code's size may have changed meanwhile. */
	story_check(NULL, ON "OVF; MODE.Exec 32-bit; FUP 0x8000; TNT T",
		    IS_ON "overflow ip=8000; exec-mode 32-bit ip=8000; tnt value=1 count=1; ");
}

TEST(with_psb)
{
	/* The PSB+ has the address at which execution continues. */
	story_check(NULL, ON "OVF; PSB; PIP cr3 0x1000; FUP 0x402000; PSBEND; TNT T",
		    IS_ON "overflow ip=402000; psb status ip=402000; "
			  "paging status ip=402000 value=1000; tnt value=1 count=1; ");
	/* The PSB+ has no address: execution continues untraced. */
	story_check(NULL, ON "OVF; PSB; PIP cr3 0x1000; PSBEND; TIP.PGE 0x402000",
		    IS_ON "overflow noip; psb noip status; paging noip status value=1000; "
			  "enabled ip=402000; ");
	/* SDM "PSB": an OVF may come in place of the PSBEND; the state before it is true. */
	story_check(NULL, "PSB; PIP cr3 0x1000; OVF; FUP 0x402000; TNT T",
		    "paging noip status value=1000; overflow ip=402000; tnt value=1 count=1; ");
}

/* Events that waited for an address did happen. */
TEST(with_events_pending)
{
	story_check(NULL, ON "PTW 5 ip; OVF; FUP 0x402000",
		    IS_ON "ptwrite noip value=5 count=4; overflow ip=402000; ");
	story_check(NULL, ON "CFE type 1 vector 3; OVF; FUP 0x402000",
		    IS_ON "interrupt noip count=3; overflow ip=402000; ");
	story_check(NULL, ON "MWAIT hints 1 ext 0; OVF; FUP 0x402000",
		    IS_ON "mwait noip value=1; overflow ip=402000; ");
	story_check(NULL, ON "FUP 0x401010; PIP cr3 0x1000; OVF; FUP 0x402000",
		    IS_ON "async-paging noip value=1000; overflow ip=402000; ");
	story_check(NULL, ON "MODE.TSX begin; OVF; FUP 0x402000",
		    IS_ON "tsx noip spec; overflow spec ip=402000; ");
}

/* Damage after an OVF does not hide the loss of packets before it. */
TEST(with_damage)
{
	story_check(NULL, ON "OVF; .bytes c9; " ON,
		    IS_ON "overflow noip; error BAD_OPCODE; " IS_ON);
	story_check(NULL, ON "OVF; FUP; " ON, IS_ON "overflow noip; error NO_IP; " IS_ON);
	story_check(NULL, ON "OVF; TNT T; " ON, IS_ON "overflow noip; error BAD_CONTEXT; " IS_ON);
	story_check(NULL, ON "OVF; PSB; .bytes c9; " ON,
		    IS_ON "overflow noip; error BAD_OPCODE; " IS_ON);
	story_check(NULL, ON "OVF; PSB; PSB; FUP 0x402000; PSBEND",
		    IS_ON "error BAD_CONTEXT; overflow ip=402000; psb status ip=402000; ");
	story_check(NULL, ON "OVF; PSB; FUP 0x402000", IS_ON "overflow noip; ");
	story_check(NULL, ON "OVF; .bytes 19 01", IS_ON "overflow noip; error TRUNCATED; ");
}
