/* SPDX-License-Identifier: MIT */
/* PSB+, after the SDM's "PSB Packet", and as real processors write it (BDM70). */
#include "story.h"

TEST(state_in_any_order)
{
	story_check(NULL,
		    "PSB; TSC 100; TMA ctc 1 fc 2; CBR ratio 8; PIP cr3 0x1000 nr; "
		    "MODE.TSX commit; MODE.Exec 32-bit; VMCS base 0x2000; MNT 7; FUP 0x401000; "
		    "PSBEND; TNT T",
		    "cbr value=8; mnt value=7; psb status ip=401000; "
		    "vmcs status ip=401000 value=2000; paging status nr ip=401000 value=1000; "
		    "tnt value=1 count=1; ");
	story_check(NULL, "PSB; FUP; PSBEND; TIP.PGE 0x401000", IS_OFF "enabled ip=401000; ");
}

TEST(wrong_headers)
{
	story_check(NULL, "PSB; TNT T; PSBEND; " ON, "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, "PSB; CFE type 1; PSBEND; " ON, "error BAD_CONTEXT; " IS_ON);
	/* A PSB+ without a PSBEND. */
	story_check(NULL, "PSB; FUP 0x402000; " ON "TNT T",
		    "error BAD_CONTEXT; " IS_ON "tnt value=1 count=1; ");
	/* No event may span a PSB+. */
	story_check(NULL, ON "FUP 0x401010; " ON, IS_ON "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, ON "PTW 1 ip; " ON,
		    IS_ON "error BAD_CONTEXT; ptwrite noip value=1 count=4; " IS_ON);
	/* Tracing was off, and no TIP.PGE has switched it on. */
	story_check(NULL, OFF ON "TNT T",
		    IS_OFF "error BAD_CONTEXT; " IS_ON "tnt value=1 count=1; ");
}

/* BDM70, which real traces show on processors that do not list it: the TIP.PGE decides. */
TEST(bdm70)
{
	const struct ptah_event_config strict = {.size = sizeof(strict), .no_bdm70 = true};
	const char *trace = OFF ON "TIP.PGE 0x401000; TNT T";

	story_check(NULL, trace, IS_OFF IS_OFF "enabled ip=401000; tnt value=1 count=1; ");
	story_check(&strict, trace,
		    IS_OFF "error BAD_CONTEXT; " IS_ON
			   "error BAD_CONTEXT; enabled ip=401000; tnt value=1 count=1; ");
	story_check(
	    NULL, ON "PAD; TSC 5; MTC 1; MODE.Exec 32-bit; PIP cr3 0x1000; TIP.PGE 0x402000",
	    IS_OFF "paging noip value=1000; enabled ip=402000; exec-mode 32-bit ip=402000; ");
}

/*
 * A MOV CR3 right after the first PSB+: the code up to it ran in the address space of the
 * PSB+. (The decoder holds the PIP back, and once reported it as the PSB+'s own.)
 */
TEST(state_behind_a_header_in_doubt)
{
	story_check(NULL, "PSB; PIP cr3 0x1000; FUP 0x401000; PSBEND; PIP cr3 0x2000; TNT T",
		    "psb status ip=401000; paging status ip=401000 value=1000; "
		    "paging noip value=2000; tnt value=1 count=1; ");
	story_check(NULL, ON "MODE.Exec 32-bit; TIP 0x8000",
		    IS_ON "tip to=8000; exec-mode 32-bit ip=8000; ");
	/* More packets than can be held back: the FUP is taken as the SDM defines it. */
	story_check(NULL,
		    ON "PIP cr3 0x20; PIP cr3 0x40; PIP cr3 0x60; VMCS base 0x1000; PIP cr3 0x80; "
		       "PIP cr3 0xa0; PIP cr3 0xc0; CBR ratio 8; MNT 5; PIP cr3 0xe0; TNT T",
		    IS_ON "paging noip value=20; paging noip value=40; paging noip value=60; "
			  "vmcs noip value=1000; paging noip value=80; paging noip value=a0; "
			  "paging noip value=c0; cbr value=8; mnt value=5; paging noip value=e0; "
			  "tnt value=1 count=1; ");
	story_check(NULL, ON "MNT 5; CBR ratio 8; TIP.PGE 0x402000",
		    IS_OFF "mnt value=5; cbr value=8; enabled ip=402000; ");
}

/* Packets that were held back are not lost when damage follows. */
TEST(damage_behind_a_header_in_doubt)
{
	story_check(NULL, ON "PIP cr3 0x20; .bytes c9; " ON,
		    IS_ON "paging noip value=20; error BAD_OPCODE; " IS_ON);
	story_check(NULL, ON "PIP cr3 0x20", IS_ON "paging noip value=20; ");
	story_check(NULL, ON "PIP cr3 0x20; .bytes 19 01",
		    IS_ON "paging noip value=20; error TRUNCATED; ");
	story_check(NULL, ON "OVF; FUP 0x402000", IS_ON "overflow ip=402000; ");
	story_check(NULL, ON ON, IS_ON IS_ON);
}
