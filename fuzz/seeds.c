/* SPDX-License-Identifier: MIT */
/*
 * Writes the seeds of the fuzzers:
 *
 * 	fuzz-seeds fuzz/corpus
 *
 * This output is checked in, and a test compares it. With another option it
 * writes what contains one packet of every type, the dictionary and a seed of
 * some fuzzers:
 *
 * 	fuzz-seeds --every-type build/fuzz/every-type
 *
 * Every build does that, so that a new packet in packets.def changes no file in
 * fuzz/.
 */
#include "packet/table.h"

#include <ptah/engine/crash_note.h>
#include <ptah/event.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
	uint8_t bytes[8192];
	size_t size;
};

static void put_bytes(struct buffer *b, const void *bytes, size_t n)
{
	memcpy(b->bytes + b->size, bytes, n);
	b->size += n;
}

static void put_packet(struct buffer *b, struct ptah_packet packet)
{
	int n = ptah_packet_encode(&packet, b->bytes + b->size, sizeof(b->bytes) - b->size);

	if (n < 0) {
		fprintf(stderr, "%s: %s\n", ptah_packet_name(packet.type), ptah_strerror(n));
		exit(1);
	}
	b->size += (size_t)n;
}

/* A packet by its type and the fields of its payload. */
#define PUT(b, name, ...)                                                                          \
	put_packet((b), (struct ptah_packet){.type = PTAH_PACKET_##name, ##__VA_ARGS__})
#define IP(b, name, address) PUT(b, name, .u.ip = {.ipc = PTAH_IPC_SEXT_48, .ip = (address)})

/* The example of a packet in packets.def. */
static void put_example(struct buffer *b, struct ptah_packet_parser *parser, unsigned type)
{
	char line[128];
	int n;

	snprintf(line, sizeof(line), "%s %s", packet_entries[type].name,
		 packet_entries[type].example);
	n = ptah_packet_parse(parser, line, b->bytes + b->size, sizeof(b->bytes) - b->size);
	if (n <= 0) {
		fprintf(stderr, "packets.def: \"%s\": expected %s\n", line, parser->expected);
		exit(1);
	}
	b->size += (size_t)n;
}

/* PSB+ as a processor writes it while packets are enabled. */
static void put_psb(struct buffer *b, uint64_t ip)
{
	PUT(b, PSB);
	PUT(b, TSC, .u.tsc.tsc = 0x1000);
	PUT(b, CBR, .u.cbr.ratio = 30);
	PUT(b, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
	if (ip)
		IP(b, FUP, ip);
	PUT(b, PSBEND);
}

static void write_file(const char *folder, const char *name, const struct buffer *b)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	if (!f || fwrite(b->bytes, 1, b->size, f) != b->size || fclose(f)) {
		perror(path);
		exit(1);
	}
}

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

static void make_pages(struct buffer *b)
{
	static const uint64_t addresses[] = {0x401000, 0x402000, 0x401000};
	const uint8_t head[2] = {sizeof(addresses), 0};

	/* The dump is cut short, to keep the seed small. */
	put_bytes(b, head, sizeof(head));
	put_bytes(b, addresses, sizeof(addresses));
	memset(b->bytes + b->size, 0xc3, 4096);
	b->size += 4096;
}

/* The smallest ELF file with code: a header, one segment. */
static void make_elf(struct buffer *b)
{
	static const uint8_t elf[] = {
	    0,	  0,	0x40, 0,   0,  0, 0,  0, /* load address of the target */
	    0x7f, 'E',	'L',  'F', 2,  1, 1,  0, 0,    0, 0,  0, 0, 0, 0, 0,
	    3,	  0,	62,   0,   1,  0, 0,  0, 0x78, 0, 0,  0, 0, 0, 0, 0, /* e_entry */
	    64,	  0,	0,    0,   0,  0, 0,  0,			     /* e_phoff */
	    0,	  0,	0,    0,   0,  0, 0,  0,			     /* e_shoff */
	    0,	  0,	0,    0,   64, 0, 56, 0, 1,    0, 64, 0, 0, 0, 0, 0,
	    1,	  0,	0,    0,   5,  0, 0,  0, /* PT_LOAD, read and execute */
	    0,	  0,	0,    0,   0,  0, 0,  0, /* p_offset */
	    0,	  0,	0,    0,   0,  0, 0,  0, /* p_vaddr */
	    0,	  0,	0,    0,   0,  0, 0,  0, /* p_paddr */
	    0x7a, 0,	0,    0,   0,  0, 0,  0, /* p_filesz */
	    0x7a, 0,	0,    0,   0,  0, 0,  0, /* p_memsz */
	    0,	  0x10, 0,    0,   0,  0, 0,  0, /* p_align */
	    0xeb, 0xfe,
	};

	put_bytes(b, elf, sizeof(elf));
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

/* A kernel that is moved by 16 MiB, with data, a weak alias and a module. */
static void make_kallsyms(struct buffer *b)
{
	static const uint8_t address[] = {0, 0, 0, 0x82, 0xff, 0xff, 0xff, 0xff};
	static const char lines[] = "0000000000000000 A fixed_percpu_data\n"
				    "ffffffff81000000 T _text\n"
				    "ffffffff81000000 T _stext\n"
				    "ffffffff81000040 t do_one_initcall\n"
				    "ffffffff81000080 W weak_one\n"
				    "ffffffff81000080 T strong_one\n"
				    "ffffffff82000000 D sys_call_table\n"
				    "ffffffffc0000000 t init_once\t[ext4]\n"
				    "ffffffffc0200000 T other\t[xfs]\n";

	put_bytes(b, address, sizeof(address));
	put_bytes(b, lines, sizeof(lines) - 1);
}

/* One line of each kind, with all of its words. */
static void make_trace_set(struct buffer *b)
{
	static const char lines[] =
	    "ptah-trace 1 # the version\n"
	    "processor 6/0x9e/10\n"
	    "timing mtc-period=3 cyc-threshold=1 tsc-n=168 tsc-d=2 nominal-ratio=24\n"
	    "clock shift=10 mult=31 zero=5\n"
	    "traced kernel no-tnt no-retcomp event-trace\n"
	    "filter from=0x401000 to=0x402000\n"
	    "stop from=0xffffffff80000000 to=0\n"
	    "filter-text \"filter 0x10/0x20@x,stop 1/2@/z\"\n"
	    "kernel kcore=kc kallsyms=/proc/kallsyms\n"
	    "root .\n"
	    "vdso 64=v64 32=v32 x32=vx\n"
	    "stream \"cpu 0.pt\" from=16 to=32 cpu=0 pid=5 tid=6 lost=7 gap\n"
	    "raw code.bin from=1 to=2 address=4096 cr3=0x1aa000 vmcs=0x2000\n"
	    "elf /bin/x base=0x400000 pid=5 tsc=99 recorded=/usr/x build-id=00ab12\n"
	    "pages /dd/dump\n"
	    "thread tid=6 pid=5 comm=\"a \\\"b\\\"\\x01\"\n"
	    "switch cpu=3 tsc=100 pid=5 tid=6\n"
	    "sideband records from=8 to=16 sample-type=3 cpu=1 pid=2 tid=3 tsc-offset=-4 "
	    "primary\n"
	    "event id=7 sample-type=0x10087\n"
	    "note \"one # two\\n\"\n";

	put_bytes(b, lines, sizeof(lines) - 1);
}

/* What fits the recording of fuzz_kernel.c: the notes, the modules. */
static void make_kernel_notes(struct buffer *b)
{
	static const char notes[] = "\0\4\0\0\0\4\0\0\0\3\0\0\0GNU\0abcd";

	put_bytes(b, notes, sizeof(notes) - 1);
}

static void make_kernel_modules(struct buffer *b)
{
	static const char modules[] = "\2m 4096 0 - Live 0xffffffffc0000000\n";

	put_bytes(b, modules, sizeof(modules) - 1);
}

/* ... and the kernel's memory: the smallest ELF file, at the kernel's address. */
static void make_kernel_core(struct buffer *b)
{
	static const uint8_t text[] = {0, 0, 0, 0x81, 0xff, 0xff, 0xff, 0xff};
	const size_t at = b->size;

	make_elf(b);
	memmove(b->bytes + at + 1, b->bytes + at + 8, b->size - at - 8);
	b->size -= 7;
	b->bytes[at] = 3;
	memcpy(b->bytes + at + 1 + 64 + 16, text, sizeof(text));
}

/*
 * A module's file: call inside; call missing; ret. Its sections: none, .text, relocations, symbols,
 * their names, which are those of the sections as well.
 */
static void put_words(struct buffer *b, const uint64_t *words, size_t n)
{
	put_bytes(b, words, 8 * n);
}

/* A dump of memory: pieces of three pages, with one page table that leads to itself. */
static void make_crash_dump(struct buffer *b)
{
	static const char info[] = "PTAH_CRASH=10000\nSYMBOL(swapper_pg_dir)=ffffffff80011000\n";
	enum {
		HEADS = 4,
		NOTES = 0x200,
		MEMORY = 0x300,
		LISTS = 0x500,
		TABLE = 0x600,
		TRACE = 0x1600
	};
	Elf64_Ehdr e = {.e_ident = ELFMAG "\2\1\1",
			.e_type = ET_CORE,
			.e_machine = EM_X86_64,
			.e_phoff = sizeof(e),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = HEADS};
	const Elf64_Phdr heads[HEADS] = {
	    {.p_type = PT_NOTE, .p_offset = NOTES, .p_filesz = 24 + sizeof(info)},
	    {.p_type = PT_LOAD, .p_offset = MEMORY, .p_paddr = 0x10000, .p_filesz = 0x300},
	    {.p_type = PT_LOAD, .p_offset = TABLE, .p_paddr = 0x11000, .p_filesz = 0x1000},
	    {.p_type = PT_LOAD, .p_offset = TRACE, .p_paddr = 0x20000, .p_filesz = 0x100},
	};
	const Elf64_Nhdr note = {sizeof("VMCOREINFO"), sizeof(info), 0};
	const struct ptah_crash_note engine = {PTAH_CRASH_MAGIC, PTAH_CRASH_VERSION, sizeof(engine),
					       0x10000, 0x10040};
	const struct ptah_crash_capture capture = {
	    .physical = 0x10040,
	    .size = sizeof(capture),
	    .family = 6,
	    .position_at = 0x1c0, /* what follows the list of blocks, at 0x10200 */
	    .floor_at = 0x1c8,
	    .fills_at = 0x1c8,
	    .ctl_at = 0x1c8,
	    .cr3_at = 0x1c8,
	    .owner_at = 0x1c8,
	    .cpu_at = 0x1c8,
	    .holder_at = 0x1c8,
	    .running_at = 0x1c8,
	    .policy_at = 0x1c8,
	    .blocks_at = 0x1d0,
	    .ranges_at = 0x1c8,
	    .buffer = 4096,
	    .region = 4096,
	    .regions = 1,
	    .block_step = 16,
	    .block_size = 8,
	    .blocks = 0x10200 + 0x20,
	};
	const uint64_t lists[] = {0x100, 0, 1, 0, 0x20000, 4096};

	e.e_version = 1;
	put_bytes(b, &e, sizeof(e));
	put_bytes(b, heads, sizeof(heads));
	b->size = NOTES;
	put_bytes(b, &note, sizeof(note));
	put_bytes(b, "VMCOREINFO\0", 12);
	put_bytes(b, info, sizeof(info));
	b->size = MEMORY;
	put_bytes(b, &engine, sizeof(engine));
	b->size = MEMORY + 0x40;
	put_bytes(b, &capture, sizeof(capture));
	b->size = LISTS;
	put_words(b, lists, sizeof(lists) / sizeof(*lists));
	b->size = TABLE;
	put_words(b, (const uint64_t[]){0x20001}, 1);
	b->size = TRACE - 8;
	put_words(b, (const uint64_t[]){0x11001}, 1);
	put_psb(b, 0x400000);
	PUT(b, PIP, .u.pip = {.cr3 = 0x11000});
	IP(b, TIP_PGE, 0x400000);
	b->size = TRACE + 0x100;
}

static void make_module(struct buffer *b)
{
	static const char names[] = "\0.text\0.rela\0f\0missing\0";
	static const uint8_t code[16] = {0xe8, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0xc3};
	const Elf64_Rela relas[] = {{1, ELF64_R_INFO(1, R_X86_64_PLT32), -4},
				    {6, ELF64_R_INFO(2, R_X86_64_PLT32), -4}};
	const Elf64_Sym symbols[] = {{0},
				     {13, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0, 1, 10, 1},
				     {15, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), 0, 0, 0, 0}};
	const uint64_t at[] = {64, 80, 80 + sizeof(relas), 80 + sizeof(relas) + sizeof(symbols)};
	const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_type = ET_REL,
				 .e_machine = EM_X86_64,
				 .e_version = 1,
				 .e_shoff = at[3] + sizeof(names),
				 .e_ehsize = sizeof(head),
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = 5,
				 .e_shstrndx = 4};
	const Elf64_Shdr sections[] = {
	    {0},
	    {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, at[0], sizeof(code), 0, 0, 16, 0},
	    {7, SHT_RELA, 0, 0, at[1], sizeof(relas), 3, 1, 8, sizeof(*relas)},
	    {7, SHT_SYMTAB, 0, 0, at[2], sizeof(symbols), 4, 1, 8, sizeof(*symbols)},
	    {7, SHT_STRTAB, 0, 0, at[3], sizeof(names), 0, 0, 1, 0}};

	put_bytes(b, "\0", 1);
	put_bytes(b, &head, sizeof(head));
	put_bytes(b, code, sizeof(code));
	put_bytes(b, relas, sizeof(relas));
	put_bytes(b, symbols, sizeof(symbols));
	put_bytes(b, names, sizeof(names));
	put_bytes(b, sections, sizeof(sections));
}

/* The same in a zstd frame (RFC 8878): one block, the last, that is not compressed. */
static void make_packed_module(struct buffer *b)
{
	static const uint8_t frame[] = {1, 0x28, 0xb5, 0x2f, 0xfd, 0, 0x58};
	struct buffer file = {.size = 0};
	uint8_t block[3] = {0};

	make_module(&file);
	block[0] = (uint8_t)((file.size - 1) << 3 | 1);
	block[1] = (uint8_t)((file.size - 1) >> 5);
	put_bytes(b, frame, sizeof(frame));
	put_bytes(b, block, sizeof(block));
	put_bytes(b, file.bytes + 1, file.size - 1);
}

/* A record of perf.data: type, misc, then u64 words. */
static void put_record(struct buffer *b, uint32_t type, uint16_t misc, const uint64_t *words,
		       size_t n)
{
	const uint16_t tail[] = {misc, (uint16_t)(8 + 8 * n)};

	put_bytes(b, &type, sizeof(type));
	put_bytes(b, tail, sizeof(tail));
	put_bytes(b, words, 8 * n);
}

#define RECORD(b, type, misc, ...)                                                                 \
	put_record((b), (type), (misc), (const uint64_t[]){__VA_ARGS__},                           \
		   sizeof((const uint64_t[]){__VA_ARGS__}) / 8)
#define PAIR(low, high) ((uint64_t)(uint32_t)(low) | (uint64_t)(high) << 32)
#define SAMPLE_ID(time) PAIR(7, 7), (time)

static void put_trace(struct buffer *b, uint64_t at, uint64_t tsc, bool first)
{
	struct buffer trace = {.size = 0};

	PUT(&trace, PSB);
	PUT(&trace, TSC, .u.tsc.tsc = tsc);
	PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
	if (!first)
		IP(&trace, FUP, 0x401000);
	PUT(&trace, PSBEND);
	if (first)
		IP(&trace, TIP_PGE, 0x401000);
	IP(&trace, TIP, 0x401000);
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	RECORD(b, 71, 0, trace.size, at, 1, PAIR(0, 7), PAIR(-1, 0));
	put_bytes(b, trace.bytes, trace.size);
}

/* A recording as `ptah record` writes it, of one thread whose code changes once. */
static void make_recording(struct buffer *b)
{
	/* Sizes of header and attribute; attributes, data: offset, size. */
	static const uint64_t head[] = {104, 136, 112, 136, 248};
	static const uint64_t ptah = PAIR(0x48415450, 1); /* "PTAH", version 1 */
	uint64_t size;

	put_bytes(b, "PERFILE2", 8);
	put_bytes(b, head, sizeof(head));
	b->size = 248;
	b->bytes[72] = 1 << 6;	 /* the architecture */
	b->bytes[112 + 4] = 120; /* attr: size, sample type, sample_id_all */
	b->bytes[112 + 24] = 2 | 4;
	b->bytes[112 + 42] = 1 << 2;
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0);
	RECORD(b, 3, 1 << 13, PAIR(7, 7), 0x676f7270, SAMPLE_ID(0));
	RECORD(b, 10, 2, PAIR(7, 7), 0x401000, 0x1000, 0, 0, 0, 0, PAIR(5, 2), 0x612f /* "/a" */,
	       SAMPLE_ID(0));
	RECORD(b, 10, 2 | 1 << 14, PAIR(7, 7), 0x500000, 0x1000, 0, PAIR(20, 0), 0, 0, PAIR(5, 2),
	       0x6e6f6e612f2f /* "//anon" */, SAMPLE_ID(0));
	RECORD(b, 7, 0, PAIR(8, 7), PAIR(8, 7), 1001, SAMPLE_ID(1001));
	RECORD(b, 12, 0, PAIR(7, 7), SAMPLE_ID(1001));
	RECORD(b, 65, 0, ptah, PAIR(2, 27), PAIR(7, 3), 0, 0x401000, 0xe0ff90);
	RECORD(b, 65, 0, ptah, PAIR(2, 26), PAIR(7, 2), 0x2000, 0x401000, 0xe0ff);
	put_trace(b, 0, 0x1000, true);
	put_trace(b, 48, 0x2000, false);
	put_trace(b, 4096, 0x3000, false); /* after a gap */
	RECORD(b, 11, 0, 0, 4096, 1, SAMPLE_ID(1002));
	RECORD(b, 2, 0, 0, 3, SAMPLE_ID(1002));
	RECORD(b, 65, 0, ptah, PAIR(1, 64), PAIR(0, 7), 7, 4, 0, 4, 0, 0x1234, 0);
	RECORD(b, 65, 0, ptah, PAIR(3, 4), 0x65746f6e);
	RECORD(b, 4, 0, PAIR(7, 7), PAIR(7, 7), 1003, SAMPLE_ID(1003));
	size = b->size - 248;
	memcpy(b->bytes + 48, &size, sizeof(size));
	size = b->size + 16;
	put_bytes(b, &size, sizeof(size));
	size = 12;
	put_bytes(b, &size, sizeof(size));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
}

/* The same, by a recorder that was killed while it wrote. */
static void make_killed_recording(struct buffer *b)
{
	make_recording(b);
	memset(b->bytes + 48, 0, 8);
	b->bytes[72] = 0;
	b->size -= 60;
}

/* Trace in a sample, whose buffer ID_INDEX names; and namespaces, and a control group. */
static void put_sampled_trace(struct buffer *b, const struct buffer *trace)
{
	const uint32_t type = 9;
	const uint16_t tail[] = {2, (uint16_t)(8 + 4 * 8 + trace->size)};
	const uint64_t body[] = {PAIR(7, 7), 9000, 0, trace->size};

	RECORD(b, 69, 0, 1, 0, 0, 0, -1);
	RECORD(b, 16, 0, PAIR(7, 7), 2, 4, 0xf0000075, 4, 0xeffffffe, PAIR(7, 7), 0, 0);
	RECORD(b, 19, 0, 1, '/', PAIR(7, 7), 0, 0);
	put_bytes(b, &type, sizeof(type));
	put_bytes(b, tail, sizeof(tail));
	put_bytes(b, body, sizeof(body));
	put_bytes(b, trace->bytes, trace->size);
}

/* Two processes on CPU 0, which switches between them while tracing is disabled. */
static void put_cpu_recording(struct buffer *b, bool sampled)
{
	static const uint64_t ptah = PAIR(0x48415450, 1);
	struct buffer one = {.size = 0}, trace = {.size = 0};
	uint64_t size;

	make_recording(&one);
	put_bytes(b, one.bytes, 248);
	b->bytes[112 + 24] = 2 | 4 | 128;	       /* tid, time, cpu */
	b->bytes[112 + 24 + 2] = sampled ? 1 << 4 : 0; /* trace */
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 3, 0, 1, 0, 0, 0, 0, 0, 20, 0);
	for (uint32_t pid = 7; pid < 9; pid++) {
		RECORD(b, 3, 1 << 13, PAIR(pid, pid), 0x676f7270, PAIR(pid, pid), 0, 0);
		RECORD(b, 10, 2, PAIR(pid, pid), 0x500000, 0x1000, 0, 0, 0, 0, PAIR(5, 2),
		       0x6e6f6e612f2f /* "//anon" */, PAIR(pid, pid), 0, 0);
		RECORD(b, 65, 0, ptah, PAIR(2, 27), PAIR(pid, 3), 0, 0x401000, 0xe0ff90);
	}
	RECORD(b, 15, 1 << 13, PAIR(8, 8), PAIR(7, 7), 1000 + 0x1800 / 4, 0);
	RECORD(b, 15, 0, PAIR(7, 7), PAIR(8, 8), 1000 + 0x1800 / 4, 0);
	RECORD(b, 14, 1 << 13, PAIR(8, 8), 1000 + 0x2800 / 4, 0);
	RECORD(b, 14, 0, PAIR(7, 7), 1000 + 0x2900 / 4, 0);
	for (uint64_t tsc = 0x1000; tsc <= 0x4000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, 0x401000);
		PUT(&trace, TSC, .u.tsc.tsc = tsc + 0x100);
		IP(&trace, TIP, 0x401000);
		IP(&trace, FUP, 0x401000);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	if (sampled) {
		put_sampled_trace(b, &trace);
	} else {
		RECORD(b, 71, 0, trace.size, 0, 1, PAIR(0, -1), PAIR(0, 0));
		put_bytes(b, trace.bytes, trace.size);
	}
	size = b->size - 248;
	memcpy(b->bytes + 48, &size, sizeof(size));
	size = b->size + 16;
	put_bytes(b, &size, sizeof(size));
	size = 12;
	put_bytes(b, &size, sizeof(size));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
}

static void make_cpu_recording(struct buffer *b)
{
	put_cpu_recording(b, false);
}

/* A virtual machine's processor 0, which runs one page in two address spaces. */
static void make_guest_recording(struct buffer *b)
{
	static const uint64_t ptah = PAIR(0x48415450, 1);
	struct buffer one = {.size = 0}, trace = {.size = 0};
	uint64_t page[3 + 4096 / 8] = {ptah, PAIR(5, 8 + 4096), PAIR(9, 4096), 0xe0ff90};
	uint64_t size;

	make_recording(&one);
	put_bytes(b, one.bytes, 248);
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 0, 0, 1, 0, 0, 0, 0, 0, 20, 0);
	put_record(b, 65, 0, page, sizeof(page) / sizeof(*page));
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(0, 9), 0, 0x401000, 0x5000);
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(0, 9), 0x2000, 0x401000, 0x5000);
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(0, 9), 0, 0x401000, -1);
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(1, 8), 0, 0x401000, 0x6000);
	RECORD(b, 65, 0, ptah, PAIR(7, 32), 0x5000, 0x1000, 0x74696e69, 0);
	for (uint64_t tsc = 0x1000; tsc <= 0x3000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, PIP, .u.pip.cr3 = tsc < 0x3000 ? 0x5000 : 0x6000);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, 0x401000);
		IP(&trace, TIP, 0x401000);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	RECORD(b, 71, 0, trace.size, 0, 1, PAIR(0, -1), PAIR(0, 0));
	put_bytes(b, trace.bytes, trace.size);
	RECORD(b, 65, 0, ptah, PAIR(1, 64), PAIR(0, -1), (uint32_t)-1, 9, 0, 6, 0, 0x1234, 0);
	size = b->size - 248;
	memcpy(b->bytes + 48, &size, sizeof(size));
	size = b->size + 16;
	put_bytes(b, &size, sizeof(size));
	size = 12;
	put_bytes(b, &size, sizeof(size));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
}

/* As perf record --aux-sample makes it. */
static void make_sampled_recording(struct buffer *b)
{
	put_cpu_recording(b, true);
}

/* The feature BPF_PROG_INFO: program 5 with `nop; jmp *%rax` at JIT_ADDRESS. */
#define JIT_ADDRESS 0xffffffffc0100000

static void put_programs(struct buffer *b)
{
	const uint64_t head[] = {PAIR(128, 24), 1 | 8 | 16};
	const uint64_t info[16] = {PAIR(0, 5), 0, 3, 0, 0, 0,	       0, 0,
				   0,	       0, 0, 0, 0, PAIR(1, 1), 8, 16};

	put_bytes(b, "\1\0\0\0", 4);
	put_bytes(b, head, sizeof(head));
	put_bytes(b, info, sizeof(info));
	put_bytes(b, (const uint64_t[]){0xe0ff90, JIT_ADDRESS, 3}, 24);
}

/* The kernel's code, which comes from BPF and is poked at last. */
static void make_kernel_recording(struct buffer *b)
{
	struct buffer one = {.size = 0}, trace = {.size = 0}, programs = {.size = 0};
	uint64_t sizes[4];

	make_recording(&one);
	put_bytes(b, one.bytes, 248);
	b->bytes[72 + 3] = 1 << 1; /* the programs */
	b->bytes[112] = 8;	   /* attr: type */
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0);
	RECORD(b, 3, 0, PAIR(7, 7), 0x676f7270, SAMPLE_ID(0));
	RECORD(b, 1, 1, PAIR(-1, 0), 0xffffffff81000000, 0x1000, 0xffffffff81000000,
	       0x6c656e72656b5b /* "[kernel" */ | UINT64_C(0x2e) << 56, 0x736d79736c6c616b,
	       0x747865745f5d /* "]_text" */, SAMPLE_ID(0));
	RECORD(b, 17, 1, JIT_ADDRESS, PAIR(3, 1), 0x616263, SAMPLE_ID(0));
	RECORD(b, 18, 1, PAIR(1, 5), 0, SAMPLE_ID(0));
	RECORD(b, 20, 1, JIT_ADDRESS, PAIR(1 | 1 << 16, 0x6690), SAMPLE_ID(1000 + 0x1800 / 4));
	RECORD(b, 18, 1, PAIR(2, 5), 0, SAMPLE_ID(1000 + 0x2800 / 4));
	RECORD(b, 17, 1, JIT_ADDRESS, PAIR(3, 1 | 1 << 16), 0x616263, SAMPLE_ID(1000 + 0x2800 / 4));
	for (uint64_t tsc = 0x1000; tsc <= 0x3000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, JIT_ADDRESS & 0xffffffffffff);
		IP(&trace, TIP, JIT_ADDRESS & 0xffffffffffff);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	RECORD(b, 71, 0, trace.size, 0, 1, PAIR(0, 7), PAIR(-1, 0));
	put_bytes(b, trace.bytes, trace.size);
	sizes[0] = b->size - 248;
	memcpy(b->bytes + 48, sizes, 8);
	put_programs(&programs);
	sizes[0] = b->size + 32;
	sizes[1] = 12;
	sizes[2] = sizes[0] + 12;
	sizes[3] = programs.size;
	put_bytes(b, sizes, sizeof(sizes));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
	put_bytes(b, programs.bytes, programs.size);
}

static void put_pipe_head(struct buffer *b, const struct buffer *file)
{
	static const uint64_t head[] = {16};

	put_bytes(b, "PERFILE2", 8);
	put_bytes(b, head, sizeof(head));
	put_record(b, 64, 0, (const uint64_t *)(file->bytes + 112), 15);
	RECORD(b, 80, 0, 6, PAIR(8, 0x5f363878), 0x3436); /* the architecture */
	RECORD(b, 80, 0, 27, PAIR(1, 1), PAIR(3, 1), 4096);
	RECORD(b, 66, 0, 3);
	put_bytes(b, "abc\0\0\0\0\0", 8);
}

/* `perf record -o -` */
static void make_pipe(struct buffer *b)
{
	struct buffer file = {.size = 0};

	make_cpu_recording(&file);
	put_pipe_head(b, &file);
	put_bytes(b, file.bytes + 248, file.size - 248 - 28);
	RECORD(b, 68, 0, 0);
}

/* Part of a zstd frame (RFC 8878): a block that is not compressed. */
static void put_piece(struct buffer *b, struct buffer *waiting, size_t n, bool first, uint32_t type)
{
	static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x58}, padding[7];
	const uint8_t block[] = {(uint8_t)(n << 3), (uint8_t)(n >> 5), 0};
	const uint64_t size = (first ? sizeof(frame) : 0) + sizeof(block) + n;
	const bool padded = type == 83;
	const uint16_t tail[] = {0, (uint16_t)(8 + size + (padded ? 8 + (-size & 7) : 0))};

	put_bytes(b, &type, sizeof(type));
	put_bytes(b, tail, sizeof(tail));
	put_bytes(b, &size, padded ? sizeof(size) : 0);
	put_bytes(b, frame, first ? sizeof(frame) : 0);
	put_bytes(b, block, sizeof(block));
	put_bytes(b, waiting->bytes, n);
	put_bytes(b, padding, padded ? -size & 7 : 0);
	memmove(waiting->bytes, waiting->bytes + n, waiting->size - n);
	waiting->size -= n;
}

/* `perf record -z -o -`: the last bytes of a record are in the next part. */
static void put_packed_pipe(struct buffer *b, uint32_t type)
{
	struct buffer file = {.size = 0}, waiting = {.size = 0};
	bool first = true;

	make_cpu_recording(&file);
	put_pipe_head(b, &file);
	for (size_t at = 248; at < file.size - 28;) {
		const uint8_t *record = file.bytes + at;
		const bool kernel = record[0] < 64;
		size_t size = (size_t)(record[6] | record[7] << 8);

		if (record[0] == 71)
			size += record[8] | (size_t)record[9] << 8;
		if (kernel)
			put_bytes(&waiting, record, size);
		if (waiting.size) {
			put_piece(b, &waiting, waiting.size - (kernel ? 5 : 0), first, type);
			first = false;
		}
		if (!kernel)
			put_bytes(b, record, size);
		at += size;
	}
}

static void make_packed_pipe(struct buffer *b)
{
	put_packed_pipe(b, 81);
}

/* As perf 6.16 writes it: the parts are padded to 8 bytes, and begin with their size. */
static void make_padded_pipe(struct buffer *b)
{
	put_packed_pipe(b, 83);
}

/* The records of a recording as they were in perf's buffer. */
static void make_bare_records(struct buffer *b)
{
	struct buffer file = {.size = 0};

	make_cpu_recording(&file);
	/* tid, time and CPU; the event 7 has no CPU. */
	put_bytes(b, (const uint64_t[]){0x86, 7, 6}, 24);
	put_bytes(b, "\200", 1);
	put_bytes(b, file.bytes + 248, file.size - 28 - 248);
}

/*
 * A text and a file: CPU 0's trace in two pieces, the loop that ran, in two processes or two
 * address spaces, and perf's records.
 */
static void make_trace_session(struct buffer *b, bool by_cr3)
{
	struct buffer trace = {.size = 0}, records = {.size = 0};
	const char *const processes = "raw 100 from=%zu to=%zu address=0x401000 pid=7\n"
				      "raw 100 from=%zu to=%zu address=0x401000 pid=8 tsc=5\n"
				      "switch cpu=0 tsc=0 pid=7 tid=7\n"
				      "switch cpu=0 tsc=0x1800 pid=8 tid=8\n"
				      "thread tid=8 pid=8 comm=eight\n";
	const char *const spaces = "raw 100 from=%zu to=%zu address=0x401000 cr3=0x1000\n"
				   "raw 100 from=%zu to=%zu address=0x401000 cr3=0x2000\n";
	size_t half, size;
	int n;

	for (uint64_t tsc = 0x1000; tsc <= 0x4000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		if (by_cr3)
			PUT(&trace, PIP, .u.pip.cr3 = tsc & 0x3000);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, 0x401000);
		PUT(&trace, TSC, .u.tsc.tsc = tsc + 0x100);
		IP(&trace, TIP, 0x401000);
		IP(&trace, FUP, 0x401000);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	size = trace.size;
	half = size / 2 + 3;
	n = snprintf((char *)b->bytes, sizeof(b->bytes),
		     "ptah-trace 1\nclock shift=3 mult=2 zero=1000\n"
		     "stream 100 to=%zu cpu=0\nstream 100 from=%zu to=%zu cpu=0\n"
		     "sideband 100 from=%zu sample-type=0x86 cpu=0\n",
		     half, half, size, size + 3);
	b->size = (size_t)n;
	n = snprintf((char *)b->bytes + b->size, sizeof(b->bytes) - b->size,
		     by_cr3 ? spaces : processes, size, size + 3, size, size + 3);
	b->size += (size_t)n + 1; /* with its NUL */
	put_bytes(b, trace.bytes, size);
	put_bytes(b, "\x90\xff\xe0", 3);
	make_bare_records(&records);
	if (!by_cr3)
		put_bytes(b, records.bytes + 25, records.size - 25);
}

static void make_session_of_processes(struct buffer *b)
{
	make_trace_session(b, false);
}

static void make_session_of_spaces(struct buffer *b)
{
	make_trace_session(b, true);
}

#define WORDS(b, ...)                                                                              \
	put_words((b), (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

static void put_size_and_checksum(struct buffer *b)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 32; i < b->size; i++)
		hash = (hash ^ b->bytes[i]) * UINT64_C(0x100000001b3);
	memcpy(b->bytes + 16, &b->size, 8);
	memcpy(b->bytes + 24, &hash, 8);
}

/* Saved counts as in docs/profile-file.md: two processes, the second without counts. */
static void make_counts(struct buffer *b)
{
	put_bytes(b, "PTAHCNTS", 8);
	WORDS(b, PAIR(2, 0), 0, 0, 2);
	/* pid; spaces, files, blocks, edges; errors, overflows, gaps; the first error; the name */
	WORDS(b, PAIR(-1, 0), 2, 2, 3, 1, 1, 2, 3, 1, 0x401000, 0, 0, 0x1234, 99);
	put_bytes(b, "program\0\0\0\0\0\0\0\0", 16);
	WORDS(b, 0x1000, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	WORDS(b, 0x401000, 0x1000, 0, PAIR(2, 4), 0x12345678, 0, 0, 0x612f); /* /a */
	WORDS(b, 0x402000, 0x2000, 0x1000, PAIR(9, 0), 0, 0, 0);
	put_bytes(b, "/lib/c.so\0\0\0\0\0\0", 16);
	/* ip, end, target, count, taken, unknown; space, instructions, mode, class; last size */
	WORDS(b, 0x401000, 0x401009, 0x401005, 5, 3, 1, PAIR(0, 0x01030003), 2);
	WORDS(b, 0x401000, 0x401009, 0x401005, 2, 0, 0, PAIR(1, 0x01030003), 2);
	WORDS(b, 0x401009, 0x40100b, 0, 7, 0, 0, PAIR(1, 0x04030001), 0x102);
	WORDS(b, 0x401009, 0x402000, 7, PAIR(1, 0x0403));
	WORDS(b, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	put_size_and_checksum(b);
}

/* What a process reached, as a table of coverage has it (src/export/cover_blob.h): blocks 1, 4, 132
 * and 133. The frame of Zstandard has one block, which is not compressed. */
static void make_reached(struct buffer *b)
{
	static const char pairs[] = "\x01\x05\x03\x01\x80\x01\xff\x7f\x01\x02";

	put_bytes(b, "\x28\xb5\x2f\xfd\x20", 5);
	put_bytes(b, "\x0a\x51\x00\x00", 4); /* sizes: 10; 10, and it is the last block */
	put_bytes(b, pairs, sizeof(pairs) - 1);
}

/* Which of 64 blocks each of five processes reached. */
static void make_reached_sets(struct buffer *b)
{
	WORDS(b, 0xff, 0x0f, UINT64_MAX, 0x8000000000000001, 0);
}

static void put_buffer(struct buffer *b, void (*make)(struct buffer *b))
{
	static struct buffer part;

	memset(&part, 0, sizeof(part));
	make(&part);
	WORDS(b, part.size);
	put_bytes(b, part.bytes, part.size);
}

/* A shard as in docs/profile-file.md: part 2 of 3, with a recording and one that was not read. */
static void make_shard(struct buffer *b)
{
	put_bytes(b, "PTAHSHRD", 8);
	WORDS(b, PAIR(1, 0), 0, 0, 0x1234, PAIR(3, 3), 2, 2);
	WORDS(b, PAIR(0, 0), 0x5678, 2, 6); /* number, flags; digest, ranges, length of the name */
	put_bytes(b, "a.data\0\0", 8);
	/* stream, from, to, digests, process and flags, the first error */
	WORDS(b, 0, 0, 4096, 0, 77, PAIR(-1, 1), 1, 0x401000, 0, 0, 0, 99);
	WORDS(b, 0, 4096, UINT64_MAX, 77, 0, PAIR(-1, 2), 0, 0, 0, 0, 0, 0);
	put_buffer(b, make_counts);
	WORDS(b, PAIR(-1, 3), 0, 0, 0, 0x401000, 0x1000, 0x400000, 0x10000);
	WORDS(b, PAIR(8, 0), 1, 0x1000, UINT64_MAX);
	put_buffer(b, make_counts);
	WORDS(b, PAIR(-1, 2), 0, 0, 0, 0x401000, 0x1000, 0x402000, 0x2000);
	WORDS(b, PAIR(8, 0), 1, 0x1000, UINT64_MAX);
	WORDS(b, PAIR(1, 1), 0, 0, 1); /* was not read */
	put_bytes(b, "b\0\0\0\0\0\0", 8);
	put_size_and_checksum(b);
}

/*
 * Calls without other counts: main calls f twice, and f calls itself once; then calls of g in f
 * were folded. Instructions: main 10, f 4 and 2, what was folded 3.
 */
static void make_saved_calls(struct buffer *b)
{
	put_bytes(b, "PTAHCNTS", 8);
	WORDS(b, PAIR(3, 0), 0, 0, 1);
	WORDS(b, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1);
	/* functions, paths, pairs, folded paths; what ran outside of calls */
	WORDS(b, 4, 4, 1, 2, 1, 0, 0);
	/* address; space and flags, histograms; partial; least, greatest, buckets */
	WORDS(b, 0, 0, 0);
	WORDS(b, 0x1000, 0, 1);
	WORDS(b, 0x2000, 0, 0);
	WORDS(b, 0x3000, PAIR(0, 1), 0, 1, 3, 0x010001);
	/* caller and function; flags; count; inclusive figures */
	WORDS(b, PAIR(0, 1), 1 << 6, 0, 19, 0, 0);
	WORDS(b, PAIR(1, 2), 1, 2, 9, 0, 0);
	WORDS(b, PAIR(2, 2), 1, 1, 2, 0, 0);
	WORDS(b, PAIR(2, 0), 1 << 15 | 1, 2, 3, 0, 0);
	/* caller and callee; count; inclusive, self */
	WORDS(b, PAIR(2, 3), 2, 3, 0, 0, 3, 0, 0);
	put_size_and_checksum(b);
}

static void make_no_counts(struct buffer *b)
{
	put_bytes(b, "PTAHCNTS", 8);
	WORDS(b, PAIR(2, 0), 0, 0, 0);
	put_size_and_checksum(b);
}

static void write_dictionary(const char *folder)
{
	struct ptah_packet_parser parser = {0};
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/packets.dict", folder);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(1);
	}
	fprintf(f, "# Made by fuzz/seeds.c: one packet of every type.\n");
	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++) {
		struct buffer b = {.size = 0};

		put_example(&b, &parser, type);
		fprintf(f, "# %s\n\"", ptah_packet_name(type));
		for (size_t i = 0; i < b.size; i++)
			fprintf(f, "\\x%02x", b.bytes[i]);
		fprintf(f, "\"\n");
	}
	fclose(f);
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

/* fuzz_engine's input: the processor, the faults, and random calls of three bytes. */
static void make_play(struct buffer *b, uint32_t processor, unsigned calls)
{
	uint32_t state = 0x9e3779b9u * (processor + 1);
	const uint8_t head[] = {(uint8_t)processor, (uint8_t)(processor * 37), 20, 30};
	unsigned i;

	put_bytes(b, head, sizeof(head));
	for (i = 0; i < 3 * calls; i++) {
		uint8_t byte;

		state = state * 1664525u + 1013904223u;
		byte = (uint8_t)(state >> 24);
		/* First, three captures are created. */
		if (i < 9 && i % 3 == 0)
			byte = (uint8_t)(14 * 4 + i / 3);
		put_bytes(b, &byte, 1);
	}
}

static void make_play_of_threads(struct buffer *b)
{
	make_play(b, 0, 250);
}

static void make_play_by_msr(struct buffer *b)
{
	make_play(b, 1, 250);
}

static void make_play_of_everything(struct buffer *b)
{
	make_play(b, 2, 350);
}

static void make_play_without_vmx(struct buffer *b)
{
	make_play(b, 0x40 + 7, 250);
}

static void make_play_of_one_region(struct buffer *b)
{
	make_play(b, 3, 250);
}

static void make_play_of_a_range(struct buffer *b)
{
	make_play(b, 0x80 + 4, 250);
}

/* fuzz_capture_page's input: the processor, the capture, and random actions of four bytes. */
static void make_page_play(struct buffer *b, uint8_t processor, uint8_t capture, uint8_t sizes)
{
	const uint8_t head[] = {processor, capture, sizes, 6, 0, 0, 0, 10, 1, 0, 0};
	uint32_t state = 0x9e3779b9u * (processor + capture + 1u);
	unsigned i;

	put_bytes(b, head, sizeof(head));
	for (i = 0; i < 4 * 200; i++) {
		uint8_t byte;

		state = state * 1664525u + 1013904223u;
		byte = (uint8_t)(state >> 24);
		put_bytes(b, &byte, 1);
	}
}

static void make_page_that_wraps(struct buffer *b)
{
	make_page_play(b, 0, 0, 0x68);
}

static void make_page_of_a_thread(struct buffer *b)
{
	make_page_play(b, 0, 5, 0x6b);
}

static void make_page_of_one_entry(struct buffer *b)
{
	make_page_play(b, 1, 4, 0x18);
}

static void make_page_that_stops(struct buffer *b)
{
	make_page_play(b, 2, 2, 0x7a);
}

static void make_page_without_pmis(struct buffer *b)
{
	make_page_play(b, 3, 0x44, 0x38);
}

/* Records of the kernel: AUX, LOST, LOST_SAMPLES, and then one with names. */
static void make_ring(struct buffer *b)
{
	static const uint64_t records[] = {
	    11 | UINT64_C(32) << 48,
	    0,
	    4096,
	    15, /* every flag */
	    2 | UINT64_C(24) << 48,
	    1,
	    5,
	    13 | UINT64_C(16) << 48,
	    7,
	    3 | UINT64_C(24) << 48,
	    0x200000001,
	    0x656d616e,
	};
	/* Across the end of the ring. */
	const uint8_t start[2] = {124, 0};

	put_bytes(b, start, sizeof(start));
	put_bytes(b, records, sizeof(records));
}

static void make_ring_of_nothing(struct buffer *b)
{
	make_ring(b);
	put_bytes(b, "\3\0\0\0\0\0\0\0", 8); /* of size 0 */
}

static void make_maps(struct buffer *b)
{
	static const char text[] =
	    "\005name\n"
	    "00401000-00403000 r-xp 00001000 fe:00 99 /opt/pro\\012gram (deleted)\n"
	    "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
	    "7f0000002000-7f0000003000 r--s 00000000 fe:00 7 /etc/passwd\n"
	    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";

	put_bytes(b, text, sizeof(text) - 1);
}

struct seed {
	const char *name;
	void (*make)(struct buffer *b);
};

/*
 * Calls of the public writer: fuzz_recording.c describes them. Numbers below 32 are a byte each,
 * and a string is its size and its characters.
 */
static void put_call(struct buffer *b, unsigned which, const char *text, const uint8_t *numbers,
		     size_t n)
{
	const uint8_t head[] = {(uint8_t)which, text ? (uint8_t)strlen(text) : 0};

	put_bytes(b, head, text ? 2 : 1);
	if (text)
		put_bytes(b, text, strlen(text));
	put_bytes(b, numbers, n);
}

#define CALL(b, which, text, ...)                                                                  \
	put_call(b, which, text, (const uint8_t[]){__VA_ARGS__},                                   \
		 sizeof((const uint8_t[]){__VA_ARGS__}))

static void make_calls(struct buffer *b, uint8_t options)
{
	static const uint8_t psb[] = {18,   2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2,
				      0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23};

	CALL(b, options, NULL, 0x40);		 /* TSC packets */
	CALL(b, 0, NULL, 3, 7, 8, 0);		 /* stream: CPU 3, or thread 8 of process 7 */
	CALL(b, 11, NULL, 3, 7, 8, 0);		 /* CPU 3 runs that thread */
	CALL(b, 6, "name", 7, 8, 0);		 /* its name */
	CALL(b, 4, "/bin/x", 7, 0, 9, 31, 0, 4); /* a map, with a build id of 4 bytes */
	CALL(b, 5, "code", 0, 0x25, 1, 0x26);	 /* the kernel's, and without a name */
	for (uint8_t i = 0; i < 3; i++) {
		static const uint8_t tnt[] = {2, 0x1a, 0x1a};

		CALL(b, 1, NULL, 0, (uint8_t)(i * (i + 9))); /* at 0, 10, 22 */
		put_bytes(b, i ? tnt : psb, i ? sizeof(tnt) : sizeof(psb));
		put_bytes(b, tnt, sizeof(tnt));
		CALL(b, 0, NULL, 7, 0, 30, 0, 0); /* no third piece, and a record */
	}
	CALL(b, 11, NULL, 3, 9, 9, 20); /* another thread */
	CALL(b, 12, NULL, 9, 9, 7, 8, 1);
	CALL(b, 22, "exec", 9, 9, 25);
	CALL(b, 8, NULL, 0); /* truth */
	CALL(b, 9, "a note", 10, 13, 9, 9, 0, 0, 29);
}

static void make_calls_on_processors(struct buffer *b)
{
	make_calls(b, 8);
}

static void make_calls_on_threads(struct buffer *b)
{
	make_calls(b, 1);
}

static void make_calls_of_snapshots(struct buffer *b)
{
	make_calls(b, 2 | 8);
}

static void make_calls_through_a_pipe(struct buffer *b)
{
	make_calls(b, 4 | 8);
}

static void write_seeds(const char *folder, const struct seed *seeds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		static struct buffer b;

		memset(&b, 0, sizeof(b));
		seeds[i].make(&b);
		write_file(folder, seeds[i].name, &b);
	}
}

int main(int argc, char **argv)
{
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
	    {"pages/three", make_pages},
	    {"elf/smallest", make_elf},
	    {"kallsyms/moved", make_kallsyms},
	    {"calls/items", make_thread},
	    {"calls/flow", make_thread_of_flow},
	    {"trace_set/every-line", make_trace_set},
	    {"trace_session/processes", make_session_of_processes},
	    {"trace_session/spaces", make_session_of_spaces},
	    {"crash_dump/ring", make_crash_dump},
	    {"module/file", make_module},
	    {"module/packed", make_packed_module},
	    {"kernel/notes", make_kernel_notes},
	    {"kernel/modules", make_kernel_modules},
	    {"kernel/core", make_kernel_core},
	    {"perfdata/recording", make_recording},
	    {"perfdata/killed", make_killed_recording},
	    {"perfdata/cpu", make_cpu_recording},
	    {"perfdata/guest", make_guest_recording},
	    {"perfdata/samples", make_sampled_recording},
	    {"perfdata/kernel", make_kernel_recording},
	    {"perfdata/pipe", make_pipe},
	    {"perfdata/packed-pipe", make_packed_pipe},
	    {"perfdata/padded-pipe", make_padded_pipe},
	    {"records/cpu", make_bare_records},
	    {"counts/two-processes", make_counts},
	    {"counts/none", make_no_counts},
	    {"counts/calls", make_saved_calls},
	    {"cover/reached", make_reached},
	    {"cover/sets", make_reached_sets},
	    {"shard/part", make_shard},
	    {"engine/threads", make_play_of_threads},
	    {"engine/by-msr", make_play_by_msr},
	    {"engine/everything", make_play_of_everything},
	    {"engine/no-vmx", make_play_without_vmx},
	    {"engine/one-region", make_play_of_one_region},
	    {"engine/range", make_play_of_a_range},
	    {"capture_page/wrap", make_page_that_wraps},
	    {"capture_page/thread", make_page_of_a_thread},
	    {"capture_page/one-entry", make_page_of_one_entry},
	    {"capture_page/stop", make_page_that_stops},
	    {"capture_page/no-pmi", make_page_without_pmis},
	    {"ring/losses", make_ring},
	    {"ring/nothing", make_ring_of_nothing},
	    {"proc/maps", make_maps},
	    {"recording/processors", make_calls_on_processors},
	    {"recording/threads", make_calls_on_threads},
	    {"recording/snapshots", make_calls_of_snapshots},
	    {"recording/pipe", make_calls_through_a_pipe},
	};
	static const struct seed every_type[] = {
	    {"packet", make_packets},
	    {"event", make_plain_packets},
	    {"libipt_query", make_plain_queries},
	    {"reference", make_reference_every_type},
	};

	if (argc == 2) {
		write_seeds(argv[1], seeds, sizeof(seeds) / sizeof(*seeds));
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "--every-type")) {
		write_seeds(argv[2], every_type, sizeof(every_type) / sizeof(*every_type));
		write_dictionary(argv[2]);
		return 0;
	}
	fprintf(stderr, "usage: %s CORPUS | --every-type FOLDER\n", argv[0]);
	return 2;
}
