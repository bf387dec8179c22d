/* SPDX-License-Identifier: MIT */
/* PTWRITE, power, Event Trace, PEBS and triggers, after the SDM's "Packet Definitions". */
#include "story.h"

/* SDM "PTW Packet": four or eight bytes, with the PTWRITE's address or without. */
TEST(ptwrites)
{
	story_check(NULL, ON "PTW 0x12345678; PTW 0x123456789abcdef0; TNT T",
		    IS_ON "ptwrite noip value=12345678 count=4; "
			  "ptwrite noip value=123456789abcdef0 count=8; tnt value=1 count=1; ");
	story_check(NULL, ON "PTW 0x11223344 ip; FUP 0x401010; PTW 0x55667788 ip; FUP 0x401020",
		    IS_ON "ptwrite ip=401010 value=11223344 count=4; "
			  "ptwrite ip=401020 value=55667788 count=4; ");
	/* Timing packets may come between a PTW and its FUP; it needs no branch tracing. */
	story_check(NULL, OFF "PTW 0x11223344 ip; CYC 5; MTC 1; FUP 0x401010",
		    IS_OFF "ptwrite ip=401010 value=11223344 count=4; ");
	/* The FUP is missing. */
	story_check(NULL, ON "PTW 0x11223344 ip; TNT T; " ON "TNT N",
		    IS_ON "ptwrite noip value=11223344 count=4; error BAD_CONTEXT; " IS_ON
			  "tnt count=1; ");
	/* The FUP of the PTWRITE, then that of an interrupt. */
	story_check(NULL, ON "PTW 0x11223344 ip; FUP 0x401010; FUP 0x401014; TIP 0x500000",
		    IS_ON "ptwrite ip=401010 value=11223344 count=4; "
			  "async-branch ip=401014 to=500000; ");
}

/* SDM "MWAIT Packet", "EXSTOP Packet", "PWRE Packet", "PWRX Packet", in the order in which they
 * come. */
TEST(power)
{
	story_check(NULL,
		    ON "MWAIT hints 0x20 ext 1; EXSTOP ip; FUP 0x401010; PWRE state 3 sub 2; "
		       "PWRX last 2 deepest 6 interrupt; TNT T",
		    IS_ON "mwait ip=401010 value=100000020; exstop ip=401010; "
			  "pwre noip value=3 count=2; pwrx noip value=2 count=6 detail=1; "
			  "tnt value=1 count=1; ");
	story_check(NULL,
		    OFF "MWAIT hints 0x60 ext 0; EXSTOP; PWRE state 1 hw; "
			"PWRX last 1 deepest 1 store; PWRX last 0 deepest 15 autonomous",
		    IS_OFF "mwait noip value=60; exstop noip; pwre noip value=1 detail=1; "
			   "pwrx noip value=1 count=1 detail=2; pwrx noip count=f detail=4; ");
	/* Stopped by the hardware; and an MWAIT that did not stop it. */
	story_check(NULL, ON "EXSTOP ip; FUP 0x401010; MWAIT hints 0 ext 0; TNT T",
		    IS_ON "exstop ip=401010; mwait noip; tnt value=1 count=1; ");
	story_check(NULL, ON "MWAIT hints 0x10 ext 0", IS_ON "mwait noip value=10; ");
}

/* SDM "PEBS-via-PT": BBP, BIPs of its size, BEP with the instruction's address or without. */
TEST(pebs)
{
	story_check(NULL,
		    ON "BBP type 1 size 8; BIP id 0 0x1122334455667788; BIP id 31 1; BEP ip; "
		       "FUP 0x401010; TNT T",
		    IS_ON "pebs-begin noip value=1 count=8; "
			  "pebs-item noip value=1122334455667788 count=8; "
			  "pebs-item noip to=1f value=1 count=8; pebs-end ip=401010; "
			  "tnt value=1 count=1; ");
	/* The blocks of one record follow each other without a BEP between them. */
	story_check(NULL,
		    OFF "BBP type 4 size 8; BIP id 1 5; BBP type 16 size 4; BIP id 2 0xffffffff; "
			"BEP",
		    IS_OFF "pebs-begin noip value=4 count=8; pebs-item noip to=1 value=5 count=8; "
			   "pebs-begin noip value=10 count=4; "
			   "pebs-item noip to=2 value=ffffffff count=4; pebs-end noip; ");
}

TEST(triggers)
{
	story_check(NULL,
		    ON "TRIG trbv 5; TRIG trbv 1 icnt 3 mult; TRIG trbv 2 icnt 0 ip; "
		       "FUP 0x401010; TNT T",
		    IS_ON "trigger noip value=5; trigger noip value=1 count=3 detail=3; "
			  "trigger ip=401010 value=2 detail=1; tnt value=1 count=1; ");
}

static const struct {
	unsigned type;
	const char *name;
	const char *vector; /* the item's text for vector 0x2a */
	const char *detail;
	bool follows; /* while tracing is on, its address is in the FUP of its branch */
	bool nowhere; /* it has no address even then: its source is never traced */
} cfes[] = {
    {PTAH_CFE_INTR, "interrupt", " count=2a", "", true, false},
    {PTAH_CFE_IRET, "iret", "", "", false, false},
    {PTAH_CFE_SMI, "smi", "", "", true, false},
    {PTAH_CFE_RSM, "rsm", "", "", true, true},
    {PTAH_CFE_SIPI, "sipi", " count=2a", "", true, true},
    {PTAH_CFE_INIT, "init", "", "", true, false},
    {PTAH_CFE_VMENTRY, "vmentry", "", "", false, false},
    {PTAH_CFE_VMEXIT, "vmexit", "", "", true, false},
    {PTAH_CFE_VMEXIT_INTR, "vmexit", " count=2a", " detail=1", true, false},
    {PTAH_CFE_SHUTDOWN, "shutdown", "", "", false, false},
    {PTAH_CFE_UINTR, "uintr", " count=2a", "", true, false},
    {PTAH_CFE_UIRET, "uiret", "", "", false, false},
    {PTAH_CFE_SWINTR, "swintr", " count=2a", "", true, false},
    {PTAH_CFE_SYSCALL, "syscall", "", "", false, false},
};

/*
 * SDM "CFE Packet": with the IP bit the next FUP belongs to the event alone. Without it, and
 * while branches are traced, an event that interrupts has a FUP and a TIP, and that FUP is its
 * address.
 */
TEST(control_flow_events)
{
	char trace[256], expected[256];

	for (size_t i = 0; i < sizeof(cfes) / sizeof(*cfes); i++) {
		const char *name = cfes[i].name, *vector = cfes[i].vector;
		unsigned type = cfes[i].type;
		const char *ip = cfes[i].nowhere ? " noip" : " ip=401010";

		for (int on = 0; on < 2; on++) {
			snprintf(trace, sizeof(trace), "%sCFE type %u vector 0x2a ip; FUP 0x401010",
				 on ? ON : OFF, type);
			snprintf(expected, sizeof(expected), "%s%s%s%s%s; ", on ? IS_ON : IS_OFF,
				 name, ip, vector, cfes[i].detail);
			story_check(NULL, trace, expected);
		}
		snprintf(trace, sizeof(trace), OFF "CFE type %u vector 0x2a; TIP.PGE 0x401000",
			 type);
		snprintf(expected, sizeof(expected), IS_OFF "%s noip%s%s; enabled ip=401000; ",
			 name, vector, cfes[i].detail);
		story_check(NULL, trace, expected);
		snprintf(trace, sizeof(trace),
			 ON "CFE type %u vector 0x2a; FUP 0x401010; TIP 0x500000", type);
		snprintf(expected, sizeof(expected),
			 IS_ON "%s%s%s%s; async-branch ip=401010 to=500000; ", name,
			 cfes[i].follows ? ip : " noip", vector, cfes[i].detail);
		story_check(NULL, trace, expected);
		/* The same without any FUP. */
		snprintf(trace, sizeof(trace), ON "CFE type %u vector 0x2a; TIP 0x500000", type);
		snprintf(expected, sizeof(expected), IS_ON "%s noip%s%s; tip to=500000; ", name,
			 vector, cfes[i].detail);
		story_check(NULL, trace, expected);
	}
}

/* SDM "EVD Packet": the data of the CFE that follows. */
TEST(event_data)
{
	story_check(NULL,
		    ON "EVD type 0 0xdeadbeef; CFE type 1 vector 14; FUP 0x401010; "
		       "TIP 0x500000",
		    IS_ON "interrupt ip=401010 value=deadbeef count=e detail=2; "
			  "async-branch ip=401010 to=500000; ");
	story_check(NULL, OFF "EVD type 1 0x18; EVD type 2 48; CFE type 8",
		    IS_OFF "vmexit noip to=30 value=18 detail=6; ");
	story_check(NULL, ON "EVD type 2 1; EVD type 1 7; CFE type 9 vector 0x20 ip; FUP 0x401010",
		    IS_ON "vmexit ip=401010 to=1 value=7 count=20 detail=7; ");
	/* A page fault that led to a VM exit. */
	story_check(NULL, ON "EVD type 2 0; CFE type 9 vector 14; FUP 0x401010; TIP.PGD",
		    IS_ON "vmexit ip=401010 count=e detail=5; async-disabled noip ip=401010; ");
	/* Timing packets may come anywhere. */
	story_check(NULL, OFF "EVD type 0 1; TSC 100; CFE type 1 vector 14",
		    IS_OFF "interrupt noip value=1 count=e detail=2; ");
}

/* Data that belongs to no event is reported as an error; the event is reported all the same. */
TEST(event_data_unpaired)
{
	story_check(NULL, OFF "EVD type 0 1; CFE type 8; CFE type 2",
		    IS_OFF "error BAD_CONTEXT; vmexit noip; iret noip; ");
	story_check(NULL, OFF "EVD type 1 1; CFE type 1 vector 3; CFE type 2",
		    IS_OFF "error BAD_CONTEXT; interrupt noip count=3; iret noip; ");
	story_check(NULL, OFF "EVD type 0 1; EVD type 0 2; CFE type 1 vector 14",
		    IS_OFF "error BAD_CONTEXT; interrupt noip value=2 count=e detail=2; ");
	story_check(NULL, OFF "EVD type 0 1; EVD type 2 2; CFE type 8",
		    IS_OFF "error BAD_CONTEXT; vmexit noip to=2 detail=4; ");
	story_check(NULL, ON "EVD type 0 1; TNT T; " ON, IS_ON "error BAD_CONTEXT; " IS_ON);
	story_check(NULL, ON "EVD type 0 1; " ON, IS_ON "error BAD_CONTEXT; " IS_ON);
}

/* A CFE of a future type is left out, together with its own FUP. */
TEST(unknown_events)
{
	story_check(NULL, ON "CFE type 31; CFE type 30 ip; FUP 0x401010; EVD type 60 1; TNT T",
		    IS_ON "tnt value=1 count=1; ");
	story_check(NULL, OFF "EVD type 60 1; CFE type 2; CFE type 11 ip; FUP 0x401010",
		    IS_OFF "iret noip; ");
}
