/* SPDX-License-Identifier: MIT */
/* Seeds of files that describe code and machines: ELF, kernels, modules, dumps of memory. */
#include "seeds.h"

#include <ptah/engine/crash_note.h>

#include <elf.h>
#include <string.h>

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

/*
 * A module's file: call inside; call missing; ret. Its sections: none, .text, relocations, symbols,
 * their names, which are those of the sections as well.
 */
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

static const struct seed seeds[] = {
    {"pages/three", make_pages},
    {"elf/smallest", make_elf},
    {"kallsyms/moved", make_kallsyms},
    {"trace_set/every-line", make_trace_set},
    {"crash_dump/ring", make_crash_dump},
    {"module/file", make_module},
    {"module/packed", make_packed_module},
    {"kernel/notes", make_kernel_notes},
    {"kernel/modules", make_kernel_modules},
    {"kernel/core", make_kernel_core},
};

const struct seeds seeds_of_files = {seeds, sizeof(seeds) / sizeof(*seeds)};
