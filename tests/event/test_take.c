/* SPDX-License-Identifier: MIT */
/* Branches, and changes of state that come with them: SDM "Packet Definitions", "PT Packet Flow".
 */
#include "story.h"

#include "base/compiler.h"

TEST(asynchronous_branches)
{
	story_check(NULL, ON "TNT TNT; FUP 0x401010; TIP 0x500000; TIP 0x500100; TIP.PGD 0x600000",
		    IS_ON "tnt value=5 count=3; async-branch ip=401010 to=500000; tip to=500100; "
			  "disabled to=600000; ");
	/* Tracing stops before an instruction has run. */
	story_check(NULL, OFF "TIP.PGE 0x401000; FUP 0x401000; TIP.PGD",
		    IS_OFF "enabled ip=401000; async-disabled noip ip=401000; ");
	story_check(NULL, ON "FUP 0x401010; TNT T; " ON, IS_ON "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, ON "FUP 0x401010; FUP 0x401020; " ON, IS_ON "error BAD_CONTEXT; " IS_ON);
}

/* Packets that need tracing to be on, and packets that need it to be off. */
TEST(wrong_places)
{
	story_check(NULL, OFF "TIP 0x401000; " ON, IS_OFF "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, OFF "TIP.PGD; " ON, IS_OFF "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, OFF "FUP 0x401000; " ON, IS_OFF "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, OFF "PSBEND; " ON, IS_OFF "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, ON "TIP; " ON, IS_ON "error NO_IP; " IS_ON);
	story_check(NULL, ON "FUP; " ON, IS_ON "error NO_IP; " IS_ON);
	story_check(NULL, OFF "TIP.PGE; " ON, IS_OFF "error NO_IP; " IS_ON);
	/* The address of a TIP.PGE is certain all the same. */
	story_check(NULL, OFF "TIP.PGE 0x401000; TIP.PGE 0x402000; TNT T",
		    IS_OFF "enabled ip=401000; error BAD_CONTEXT; enabled ip=402000; "
			   "tnt value=1 count=1; ");
}

/* SDM "MODE.TSX Packet": begin and commit have a FUP, an abort a FUP and a TIP. */
TEST(transactions)
{
	story_check(NULL,
		    ON "MODE.TSX begin; FUP 0x401010; TNT T; MODE.TSX commit; FUP 0x401020; TNT N",
		    IS_ON "tsx spec ip=401010; tnt spec value=1 count=1; tsx ip=401020; "
			  "tnt count=1; ");
	story_check(NULL,
		    ON "MODE.TSX begin; FUP 0x401010; MODE.TSX abort; FUP 0x401020; TIP 0x401100",
		    IS_ON "tsx spec ip=401010; tsx aborted ip=401020; "
			  "async-branch ip=401020 to=401100; ");
	/* The abort's handler is not traced. */
	story_check(NULL, ON "MODE.TSX abort; FUP 0x401020; TIP.PGD",
		    IS_ON "tsx aborted ip=401020; async-disabled noip ip=401020; ");
	/* An interrupt aborts: one FUP for both. */
	story_check(NULL, ON "MODE.TSX abort; CFE type 1 vector 32; FUP 0x401020; TIP 0x500000",
		    IS_ON "tsx aborted ip=401020; interrupt ip=401020 count=20; "
			  "async-branch ip=401020 to=500000; ");
	story_check(NULL, OFF "MODE.TSX begin; MODE.TSX abort; TIP.PGE 0x401000",
		    IS_OFF "tsx noip spec; tsx noip aborted; enabled ip=401000; ");
	story_check(NULL, "PSB; MODE.TSX begin; FUP 0x401000; PSBEND; TNT T",
		    "psb status spec ip=401000; tnt spec value=1 count=1; ");
}

/* SDM "PIP Packet", "VMCS Packet": alone, or as part of a branch that has a FUP. */
TEST(address_spaces)
{
	story_check(NULL, ON "PIP cr3 0x1000 nr; VMCS base 0x5000; TNT T",
		    IS_ON "paging noip nr value=1000; vmcs noip value=5000; "
			  "tnt value=1 count=1; ");
	story_check(NULL, ON "FUP 0x401010; PIP cr3 0x2000; VMCS base 0x6000; TIP 0x500000",
		    IS_ON "async-branch ip=401010 to=500000; async-vmcs ip=500000 value=6000; "
			  "async-paging ip=500000 value=2000; ");
	story_check(NULL, ON "FUP 0x401010; PIP cr3 0x2000; TIP.PGD",
		    IS_ON "async-disabled noip ip=401010; async-paging noip value=2000; ");
	story_check(NULL, OFF "PIP cr3 0x3000; VMCS base 0x7000; TIP.PGE 0x401000",
		    IS_OFF "paging noip value=3000; vmcs noip value=7000; enabled ip=401000; ");
	story_check(NULL, "PSB; VMCS base 0x7000; PIP cr3 0x1000; FUP 0x401000; PSBEND; TNT T",
		    "psb status ip=401000; vmcs status ip=401000 value=7000; "
		    "paging status ip=401000 value=1000; tnt value=1 count=1; ");
}

/* SDM "MODE.Exec Packet": right before the branch that changes the mode. */
TEST(code_sizes)
{
	story_check(NULL,
		    "PSB; MODE.Exec 64-bit; FUP 0x401000; PSBEND; MODE.Exec 32-bit; TIP 0x8000; "
		    "FUP 0x8010; MODE.Exec 64-bit; TIP 0x500000; MODE.Exec 64-bit; TIP 0x600000",
		    "psb status ip=401000; tip to=8000; exec-mode 32-bit ip=8000; "
		    "async-branch ip=8010 to=500000; exec-mode 64-bit ip=500000; tip to=600000; ");
	story_check(NULL, "PSB; MODE.Exec 64-bit; PSBEND; MODE.Exec 16-bit; TIP.PGE 0x7c00",
		    "psb noip status; enabled ip=7c00; exec-mode 16-bit ip=7c00; ");
	story_check(NULL, "PSB; MODE.Exec 64-bit; FUP 0x401000; PSBEND; MODE.Exec 32-bit; TIP.PGD",
		    "psb status ip=401000; disabled noip; exec-mode 32-bit noip; ");
}

/*
 * SDM "MODE.Exec Packet", with Event Trace: where CLI, STI, POPF... change IF, a FUP of its
 * own follows the packet.
 */
TEST(interrupt_flag)
{
	const struct ptah_event_config known = {.size = sizeof(known), .trace.event_trace = true};
	const struct ptah_event_config none = {.size = sizeof(none), .no_iflags = true};
	const struct ptah_event_config *const configs[] = {&known, NULL};
	const char *trace = "PSB; MODE.Exec 64-bit if; FUP 0x401000; PSBEND; "
			    "MODE.Exec 64-bit; FUP 0x401010; TNT T; "
			    "MODE.Exec 64-bit if; FUP 0x401020; TNT N; "
			    "FUP 0x401030; MODE.Exec 64-bit; TIP 0x500000; "
			    "MODE.Exec 64-bit; FUP 0x500010; FUP 0x500020; TIP 0x600000";

	/* What the processor was asked to trace need not be known: the trace has the flag. */
	for (size_t i = 0; i < ARRAY_SIZE(configs); i++)
		story_check(configs[i], trace,
			    "psb status ip=401000; iflags status ip=401000 value=1; "
			    "iflags ip=401010; tnt value=1 count=1; iflags ip=401020 value=1; "
			    "tnt count=1; async-branch ip=401030 to=500000; iflags ip=500000; "
			    "async-branch ip=500020 to=600000; ");
	story_check(&none, trace,
		    "psb status ip=401000; tnt value=1 count=1; tnt count=1; "
		    "async-branch ip=401030 to=500000; async-branch ip=500020 to=600000; ");
}

TEST(other_packets)
{
	story_check(NULL,
		    ON "TIP.PGD; TraceStop; MNT 0x1122; CBR ratio 8; CBR ratio 8; "
		       "CBR ratio 9; TIP.PGE 0x401000",
		    IS_ON "disabled noip; stop; mnt value=1122; cbr value=8; cbr value=9; "
			  "enabled ip=401000; ");
}

/* With `ticks`, every packet that moves the time is an item. */
TEST(ticks)
{
	const struct ptah_event_config config = {
	    .size = sizeof(config), .ticks = true, .nominal_ratio = 20};
	const char *trace = "PSB; TSC 1000; FUP 0x401000; PSBEND; TNT T; CYC 10; TNT N; CYC 5; "
			    "TSC 2000; TNT T";

	story_check(&config, trace,
		    IS_ON "tnt value=1 count=1; tick noip value=a; tnt count=1; "
			  "tick noip value=f; tick noip value=f; tnt value=1 count=1; ");
	story_check(NULL, trace, IS_ON "tnt value=1 count=1; tnt count=1; tnt value=1 count=1; ");
}

/* With `unchanged`, each packet of a PSB+ is reported, and packets that change nothing. */
TEST(unchanged_state)
{
	const struct ptah_event_config all = {
	    .size = sizeof(all), .unchanged = true, .no_iflags = true};
	const struct ptah_event_config flags = {
	    .size = sizeof(flags), .unchanged = true, .trace.event_trace = true};
	const char *trace = "PSB; CBR 20; PIP cr3 0x1000; MODE.Exec 64-bit if; MODE.TSX commit; "
			    "MNT 0x7; FUP 0x401000; VMCS base 0x7000; PSBEND; CBR 20; "
			    "MODE.Exec 64-bit if; TIP 0x500000";

	story_check(&all, trace,
		    "psb status ip=401000; cbr status ip=401000 value=14; "
		    "paging status ip=401000 value=1000; exec-mode 64-bit status ip=401000; "
		    "tsx status ip=401000; mnt status ip=401000 value=7; "
		    "vmcs status ip=401000 value=7000; cbr value=14; tip to=500000; "
		    "exec-mode 64-bit ip=500000; ");
	story_check(&flags, "PSB; MODE.Exec 64-bit if; PSBEND; PSB; MODE.Exec 64-bit if; PSBEND",
		    "psb noip status; exec-mode 64-bit noip status; iflags noip status value=1; "
		    "psb noip status; exec-mode 64-bit noip status; iflags noip status value=1; ");
	/* SDM "PSB": an OVF may cut it; what it said so far is true. */
	story_check(&all, ON "PSB; CBR 20; FUP 0x402000; PIP cr3 0x1000; OVF; FUP 0x403000",
		    IS_ON "cbr status ip=402000 value=14; paging status ip=402000 value=1000; "
			  "overflow ip=403000; ");
	story_check(&all,
		    "PSB; CBR 1; CBR 2; CBR 3; CBR 4; CBR 5; CBR 6; CBR 7; CBR 8; CBR 9; CBR 10; "
		    "CBR 11; CBR 12; CBR 13; CBR 14; CBR 15; CBR 16; CBR 17; " ON,
		    "error BAD_CONTEXT; " IS_ON);
}
