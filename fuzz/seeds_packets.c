/* SPDX-License-Identifier: MIT */
/* Seeds of packets: events, paths, and what the drop-in and the calls make of them. */
#include "seeds.h"

#include "packet/table.h"

#include <ptah/event.h>

#include <string.h>

static void make_packets(struct buffer *b)
{
	struct ptah_packet_parser parser = {0};

	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++)
		put_example(b, &parser, type);
	for (unsigned ipc = 0; ipc < 7; ipc++)
		if (ipc != 5)
			PUT(b, TIP, .u.ip = {.ipc = (uint8_t)ipc, .ip = ipc ? 0x1000 : 0});
}

/* Each kind of packet group that the event layer reports as one event. */
static void make_events(struct buffer *b)
{
	put_psb(b, 0);
	IP(b, TIP_PGE, 0x401000);
	PUT(b, TNT_8, .u.tnt = {.count = 3, .bits = 5});
	IP(b, FUP, 0x401010); /* an interrupt */
	IP(b, TIP, 0x402000);
	PUT(b, MODE_TSX, .u.tsx.in_tx = true);
	IP(b, FUP, 0x401020);
	PUT(b, PTW, .u.ptw = {.size = 4, .ip = true, .payload = 7});
	IP(b, FUP, 0x401030);
	PUT(b, MODE_EXEC, .u.exec.mode = PTAH_EXEC_32);
	IP(b, TIP, 0x403000);
	PUT(b, OVF);
	IP(b, FUP, 0x401040);
	PUT(b, PIP, .u.pip.cr3 = 0x1000);
	PUT(b, EXSTOP, .u.exstop.ip = true);
	IP(b, FUP, 0x401050);
	PUT(b, MTC, .u.mtc.ctc = 3);
	PUT(b, CYC, .u.cyc.cycles = 9);
	put_psb(b, 0x401060);
	IP(b, FUP, 0x401070);
	PUT(b, TIP_PGD);
	put_psb(b, 0x401000); /* BDM70: a FUP although tracing is disabled */
	IP(b, TIP_PGE, 0x401000);
	PUT(b, TIP_PGD);
	PUT(b, STOP);
}

/* A loop, a call that returns (compressed and not), an indirect jump, an interrupt. */
static void make_flow(struct buffer *b)
{
	static const uint8_t code[] = {
	    0xb9, 5,	0, 0, 0, /* 401000: mov ecx, 5 */
	    0xff, 0xc9,		 /* 401005: dec ecx */
	    0x75, 0xfc,		 /* 401007: jnz 401005 */
	    0xe8, 3,	0, 0, 0, /* 401009: call 401011 */
	    0xff, 0xe0,		 /* 40100e: jmp rax */
	    0x90,		 /* 401010: nop */
	    0xc3,		 /* 401011: ret */
	    0xeb, 0xfe,		 /* 401012: jmp 401012 */
	    0x0f, 0x05,		 /* 401014: syscall */
	};
	const uint8_t head[3] = {0, sizeof(code), 0};

	put_bytes(b, head, sizeof(head));
	put_bytes(b, code, sizeof(code));
	put_psb(b, 0);
	IP(b, TIP_PGE, 0x401000);
	PUT(b, TNT_8, .u.tnt = {.count = 6, .bits = 0x3d}); /* TTTTN, then the return */
	IP(b, TIP, 0x401000);
	PUT(b, TNT_8, .u.tnt = {.count = 1, .bits = 0});
	IP(b, TIP, 0x40100e); /* the return, not compressed */
	put_psb(b, 0x40100e);
	IP(b, TIP, 0x401014);
	PUT(b, TIP_PGD); /* the system call */
	IP(b, TIP_PGE, 0x401005);
	PUT(b, TNT_8, .u.tnt = {.count = 2, .bits = 3});
	IP(b, FUP, 0x401007); /* an interrupt before the branch */
	IP(b, TIP, 0x401010);
	PUT(b, OVF);
	IP(b, FUP, 0x401012);
}

/* Two programs at one address; `byte` is the target's configuration, which says so. */
static void put_spaces(struct buffer *b, uint8_t byte, uint8_t high)
{
	static const uint8_t code[] = {
	    0x90, 0xff, 0xe0, /* CR3 0x1000, 401000: nop; jmp rax */
	    0xff, 0xe0, 0xcc, /* CR3 0x2000, 401000: jmp rax */
	    0xff, 0xd0, 0xcc, /* any, 401003: call rax */
	};
	const uint8_t head[3] = {byte, sizeof(code), high};

	put_bytes(b, head, sizeof(head));
	put_bytes(b, code, sizeof(code));
	put_psb(b, 0);
	PUT(b, PIP, .u.pip.cr3 = 0x1000);
	IP(b, TIP_PGE, 0x401000);
	IP(b, TIP, 0x401003);
	IP(b, TIP, 0x401001);
	PUT(b, PIP, .u.pip.cr3 = 0x2000);
	IP(b, TIP, 0x401000);
	IP(b, TIP, 0x401003);
	PUT(b, TIP_PGD);
}

static void make_flow_spaces(struct buffer *b)
{
	put_spaces(b, 0, 0x20);
}

static void make_reference_spaces(struct buffer *b)
{
	put_spaces(b, 16, 0);
}

/* The program of make_flow(), without TNT packets. */
static void make_blind(struct buffer *b)
{
	make_flow(b);
	b->bytes[2] = 0x40;
	b->size = 3 + b->bytes[1];
	put_psb(b, 0);
	IP(b, TIP_PGE, 0x401000);
	IP(b, TIP, 0x401000);
	IP(b, FUP, 0x401009); /* an interrupt after the loop */
	IP(b, TIP, 0x40100e);
	put_psb(b, 0x40100e);
	IP(b, TIP, 0x401005);
	PUT(b, TIP_PGD);
}

/*
 * The code that the groups of make_events() belong to: a sequence of
 * instructions, then PTWRITE in a loop, and a call that is filtered out.
 */
static void make_reference(struct buffer *b)
{
	static const uint8_t code[] = {
	    0xf3, 0x0f, 0xae, 0xe0,    /* 401080: ptwrite eax */
	    0xeb, 0xfa,		       /* 401084: jmp 401080 */
	    0xe8, 0x05, 0,    0,    0, /* 401086: call 401090 */
	    0xcd, 0x80,		       /* 40108b: int 80 */
	    0xcf,		       /* 40108d: iret */
	    0x90, 0x90,		       /* 40108e */
	    0x0f, 0x22, 0xd8,	       /* 401090: mov cr3, rax */
	    0xc3,		       /* 401093: ret */
	};
	const uint8_t head[3] = {0, 0x80 + sizeof(code), 0};

	put_bytes(b, head, sizeof(head));
	memset(b->bytes + b->size, 0x90, 0x80);
	b->size += 0x80;
	put_bytes(b, code, sizeof(code));
	make_events(b);
	IP(b, TIP_PGE, 0x401080);
	PUT(b, PTW, .u.ptw = {.size = 4, .payload = 1});
	PUT(b, PTW, .u.ptw = {.size = 8, .payload = 2});
	put_psb(b, 0x401084);
	IP(b, FUP, 0x401080); /* a page fault, reported by Event Trace */
	PUT(b, EVD, .u.evd = {.type = PTAH_EVD_CR2, .payload = 0x1000});
	PUT(b, CFE, .u.cfe = {.type = PTAH_CFE_INTR, .vector = 14});
	PUT(b, TIP_PGD);
	IP(b, TIP_PGE, 0x401086);
	IP(b, TIP_PGD, 0x401090); /* the filter hides the called code */
	IP(b, TIP_PGE, 0x40108b);
	PUT(b, PIP, .u.pip.cr3 = 0x3000);
	PUT(b, MODE_EXEC, .u.exec.mode = PTAH_EXEC_32);
	IP(b, TIP, 0x40108d);
	PUT(b, CFE, .u.cfe = {.type = PTAH_CFE_IRET, .ip = true});
	IP(b, FUP, 0x40108d);
	IP(b, TIP, 0x401086);
	PUT(b, TNT_64, .u.tnt = {.count = 1, .bits = 1});
	PUT(b, MWAIT, .u.mwait.hints = 1);
	PUT(b, EXSTOP, .u.exstop.ip = true);
	IP(b, FUP, 0x40108b);
	PUT(b, PWRE, .u.pwre = {.state = 2});
	PUT(b, PWRX, .u.pwrx = {.last = 2, .deepest = 2});
	PUT(b, OVF);
	PUT(b, MODE_TSX, .u.tsx.in_tx = true);
	IP(b, TIP_PGE, 0x401000);
	PUT(b, MODE_TSX, .u.tsx.aborted = true);
	IP(b, FUP, 0x401003);
	IP(b, TIP, 0x401010);
	PUT(b, STOP);
}

/* Every packet while tracing is enabled: alone, then followed by a FUP and a TIP. */
static void make_reference_every_type(struct buffer *b)
{
	const uint8_t head[3] = {8, 16, 0};
	struct ptah_packet_parser parser = {.whole_ip = true};

	put_bytes(b, head, sizeof(head));
	memset(b->bytes + b->size, 0x90, 16);
	b->size += 16;
	for (unsigned i = 0; i < 2 * PTAH_PACKET_TYPE_MAX; i++) {
		put_psb(b, 0x401000);
		put_example(b, &parser, i / 2);
		if (i % 2) {
			IP(b, FUP, 0x401004);
			IP(b, TIP, 0x401008);
		}
	}
}

/*
 * Items of a thread: calls and a tail call, a signal and its end, an exception, another stack, an
 * overflow. Four bytes each, as fuzz_calls.c reads them.
 */
static void make_thread(struct buffer *b)
{
	enum {
		OFF = 0xe1 - 0xe1 % 12 + 1,
		ON = OFF - 1,
		ASYNC = OFF + 1,
		OVERFLOW = OFF + 3
	};
	static const uint8_t items[][4] = {
	    {0},
	    {PTAH_INSN_CALL, 0, 0, 0x80},
	    {PTAH_INSN_CALL, 1, 0, 0x80},
	    {PTAH_INSN_JUMP, 2, 0, 0x80},
	    {PTAH_INSN_CALL_IND, 8, 0, 0x80},
	    {PTAH_INSN_RETURN, 9, 0, 0x80},
	    {PTAH_INSN_OTHER, 8, 1, 0x80},
	    {ASYNC, 8, 2, 0x80},
	    {ON, 10, 0, 0x80},
	    {PTAH_INSN_RETURN, 10, 0, 0x80},
	    {PTAH_INSN_FAR_CALL, 11, 0, 0x80},
	    {OFF, 0, 0, 0x81},
	    {ON, 8, 2, 0x80},
	    {PTAH_INSN_RETURN, 8, 2, 0x80},
	    {PTAH_INSN_CALL, 1, 1, 0x80},
	    {PTAH_INSN_JUMP_IND, 4, 0, 0x80},
	    {PTAH_INSN_CALL, 16, 0, 0x80},
	    {PTAH_INSN_JUMP_IND, 4, 0, 0x80},
	    {PTAH_INSN_CALL, 1, 2, 0x80},
	    {PTAH_INSN_JUMP_IND, 4, 0, 0x80},
	    {PTAH_INSN_OTHER, 16, 1, 0x80},
	    {OVERFLOW, 0, 5, 0x80},
	    {PTAH_INSN_OTHER, 0, 5, 0x80},
	};

	put_bytes(b, items[0], 1);
	put_bytes(b, items[1], sizeof(items) - sizeof(items[0]));
}

/* The same machine over what a flow finds. */
static void make_thread_of_flow(struct buffer *b)
{
	static const uint8_t configuration = 1;

	put_bytes(b, &configuration, 1);
	make_flow(b);
}

/* fuzz_event's first byte: the configuration. */
static void make_plain_packets(struct buffer *b)
{
	put_bytes(b, "", 1);
	make_packets(b);
}

static void make_plain_events(struct buffer *b)
{
	put_bytes(b, "", 1);
	make_events(b);
}

static void make_events_with_everything(struct buffer *b)
{
	put_bytes(b, "\x1f", 1);
	make_events(b);
}

/* fuzz_libipt_query's first bytes: the configuration, and the seed of the calls. */
static void make_queries(struct buffer *b)
{
	put_bytes(b, "\x0f\x01", 2);
	make_events(b);
}

static void make_plain_queries(struct buffer *b)
{
	put_bytes(b, "\0\x02", 2);
	make_packets(b);
}

/* fuzz_libipt_walk's first bytes: the configuration, the seed of the calls, the code's size. */
static void make_walk(struct buffer *b, uint8_t bits, uint8_t seed)
{
	make_flow(b);
	b->bytes[2] = b->bytes[1];
	b->bytes[0] = bits;
	b->bytes[1] = seed;
}

static void make_walk_over_files(struct buffer *b)
{
	make_walk(b, 0, 1);
}

static void make_walk_over_callbacks(struct buffer *b)
{
	make_walk(b, 0x80, 2);
}

static void make_walk_with_everything(struct buffer *b)
{
	make_walk(b, 0x3f, 3);
}

static const struct seed seeds[] = {
    {"packet/groups", make_events},
    {"libipt_query/groups", make_queries},
    {"libipt_walk/files", make_walk_over_files},
    {"libipt_walk/callbacks", make_walk_over_callbacks},
    {"libipt_walk/everything", make_walk_with_everything},
    {"event/groups", make_plain_events},
    {"event/with-everything", make_events_with_everything},
    {"flow/program", make_flow},
    {"flow/spaces", make_flow_spaces},
    {"flow/blind", make_blind},
    {"profile/program", make_flow},
    {"profile/spaces", make_flow_spaces},
    {"profile/groups", make_reference},
    {"coverage/program", make_flow},
    {"coverage/spaces", make_flow_spaces},
    {"coverage/groups", make_reference},
    {"reference/program", make_flow},
    {"reference/spaces", make_reference_spaces},
    {"reference/groups", make_reference},
    {"calls/items", make_thread},
    {"calls/flow", make_thread_of_flow},
};

const struct seeds seeds_of_packets = {seeds, sizeof(seeds) / sizeof(*seeds)};

static const struct seed every_type[] = {
    {"packet", make_packets},
    {"event", make_plain_packets},
    {"libipt_query", make_plain_queries},
    {"reference", make_reference_every_type},
};

const struct seeds seeds_of_every_type = {every_type, sizeof(every_type) / sizeof(*every_type)};
