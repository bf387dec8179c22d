/* SPDX-License-Identifier: MIT */
/*
 * The image transfers: runs each case of cases_64.S and cases_32.S with Intel PT on, and prints its
 * packets on the serial line, a line each, with addresses in hexadecimal. The trace itself goes to
 * QEMU's debug console. With the word "reset" on its command line it resets the machine while it is
 * traced, and prints the registers of Intel PT when it is started again. tests/record/transfers.sh
 * compares both with what the SDM demands.
 */
#include "port/bare/port.h"

#include <ptah/engine/rtit.h>
#include <ptah/packet.h>

#include <string.h>

#define PAGE	    4096u
#define EXIT_FINE   16u
#define LARGE_PAGES 2048u /* of 2 MB: all of 4 GB */

/* A row of the table that CASE in case.inc makes. */
struct test_case {
	void (*run)(void);
	const char *name;
	uint64_t mode; /* 1: LEGACY_MODE, 2: NOT_EXPORTED, 4: EVENTS */
};

extern const struct test_case cases_begin[]; /* link.ld */
extern const uint8_t cases_end[];

/* mode.S */
void call_long(void (*run)(void));
void call_legacy(void (*run)(void));

/* Multiboot specification, "Boot information format". */
struct multiboot_info {
	uint32_t flags; /* bit 2: `command_line` is valid */
	uint32_t others[3];
	uint32_t command_line;
};

void bare_main(const struct multiboot_info *info);

/*
 * Descriptors. The selectors are in case.inc.
 */

struct gate {
	uint16_t offset_low, selector;
	uint8_t stack, type;
	uint16_t offset_middle;
};

struct long_gate {
	struct gate low;
	uint32_t offset_high, reserved;
};

struct __attribute__((packed)) table_pointer {
	uint16_t limit;
	uint64_t base;
};

enum {
	CODE64 = 0x08,
	DATA = 0x10,
	CODE32 = 0x18,
	SYSENTER_CODE = 0x48,
	TASK_64 = 0x78,
	GATE64 = 0x88,
	GATE32 = 0x98,
	TASK_A = 0xa0,
	TASK_B = 0xa8,
};

uint64_t descriptors[24] = {
    [0x08 / 8] = 0x00af9b000000ffff, /* 64-bit code */
    [0x10 / 8] = 0x00cf93000000ffff, /* data */
    [0x18 / 8] = 0x00cf9b000000ffff, /* 32-bit code */
    [0x20 / 8] = 0x008f9b000000ffff, /* 16-bit code, without a limit of 64 KB */
    [0x28 / 8] = 0x000093000000ffff, /* data as in real mode */
    [0x30 / 8] = 0x00cffb000000ffff, /* ring 3: 32-bit code, data, 64-bit code */
    [0x38 / 8] = 0x00cff3000000ffff,
    [0x40 / 8] = 0x00affb000000ffff,
    [0x48 / 8] = 0x00af9b000000ffff, /* for SYSENTER and SYSEXIT */
    [0x50 / 8] = 0x00cf93000000ffff,
    [0x58 / 8] = 0x00cffb000000ffff,
    [0x60 / 8] = 0x00cff3000000ffff,
    [0x68 / 8] = 0x00affb000000ffff,
    [0x70 / 8] = 0x00cff3000000ffff,
    [0xb0 / 8] = 0x00cf9b001000ffff, /* 32-bit code whose base is 0x1000 */
    [0xb8 / 8] = 0x00009b001000ffff, /* 16-bit code, the same */
};

struct __attribute__((packed)) task_64 {
	uint32_t reserved;
	uint64_t stack[3];
	uint64_t others[8];
	uint32_t reserved_2[2];
	uint16_t reserved_3, io_map;
};

struct task_32 {
	uint32_t link, esp0, ss0, esp1, ss1, esp2, ss2, cr3, eip, eflags;
	uint32_t eax, ecx, edx, ebx, esp, ebp, esi, edi;
	uint32_t es, cs, ss, ds, fs, gs, ldt, io_map;
};

static struct task_64 task_64;
struct task_32 task_a, task_b; /* task_b.eip is set by the case */
static uint8_t interrupt_stack[PAGE], task_stack[PAGE];

static void set_task(unsigned selector, uint64_t base, uint32_t limit)
{
	descriptors[selector / 8] =
	    limit | (base & 0xffffff) << 16 | UINT64_C(0x89) << 40 | (base >> 24 & 0xff) << 56;
}

static void set_gate(struct gate *gate, uint64_t offset, uint16_t selector, uint8_t type)
{
	*gate = (struct gate){.offset_low = (uint16_t)offset,
			      .selector = selector,
			      .type = type,
			      .offset_middle = (uint16_t)(offset >> 16)};
}

static void set_call_gates(void)
{
	extern const uint8_t target_64[] __asm__("call_gate.target"),
	    target_32[] __asm__("call_gate_32.target");

	set_gate((struct gate *)&descriptors[GATE64 / 8], (uintptr_t)target_64, CODE64, 0x8c);
	set_gate((struct gate *)&descriptors[GATE32 / 8], (uintptr_t)target_32, CODE32, 0xec);
}

/*
 * Interrupt tables: for the vectors that the cases use. The others have the entries of boot.S.
 */

struct long_gate long_gates[256];
static struct gate legacy_gates[256];
struct table_pointer long_table = {sizeof(long_gates) - 1, (uintptr_t)long_gates};
struct table_pointer legacy_table = {sizeof(legacy_gates) - 1, (uintptr_t)legacy_gates};

#define GATE_RING_0 0x8eu
#define GATE_RING_3 0xeeu

static void set_long(unsigned vector, const uint8_t *entry)
{
	set_gate(&long_gates[vector].low, (uintptr_t)entry, CODE64, GATE_RING_3);
}

static void set_legacy(unsigned vector, const uint8_t *entry)
{
	set_gate(&legacy_gates[vector], (uintptr_t)entry, CODE32, GATE_RING_3);
}

static void set_interrupts(void)
{
#define LONG(n)                                                                                    \
	do {                                                                                       \
		extern const uint8_t vector_##n[];                                                 \
		set_long(n, vector_##n);                                                           \
	} while (0)
#define LEGACY(n)                                                                                  \
	do {                                                                                       \
		extern const uint8_t vector_32_##n[];                                              \
		set_legacy(n, vector_32_##n);                                                      \
	} while (0)
	for (unsigned n = 0; n < 32; n++)
		set_long(n, bare_vectors + BARE_ENTRY_BYTES * n);
	LONG(0);
	LONG(1);
	LONG(2);
	LONG(3);
	LONG(6);
	LONG(11);
	LONG(13);
	LONG(14);
	LONG(48);
	LONG(49);
	LONG(50);
	LONG(128);
	LEGACY(3);
	LEGACY(4);
	LEGACY(6);
	LEGACY(13);
	LEGACY(48);
	LEGACY(128);
	__asm__ volatile("lidt %0" : : "m"(long_table));
}

/* An exception that no case expects. */
void bare_interrupt(struct bare_frame *frame)
{
	bare_print("exception ");
	bare_print_number(frame->vector);
	bare_print(" at ");
	bare_print_hex(frame->rip);
	bare_print("\n");
	bare_exit(1);
}

/*
 * Paging: 4 GB mapped to themselves, for user mode too, in pages of 2 MB but for the first 2 MB.
 * For 32-bit paging, two directories of 4 MB pages.
 */

#define PAGE_ALL   7u /* present, writable, user */
#define PAGE_LARGE 0x80u

uint64_t low_pages[512] __attribute__((aligned(4096)));
static uint64_t top[512] __attribute__((aligned(4096)));
uint64_t top_2[512] __attribute__((aligned(4096))); /* the same with another address */
static uint64_t pointers[512] __attribute__((aligned(4096)));
static uint64_t directories[LARGE_PAGES] __attribute__((aligned(4096)));
uint32_t directory_a[1024] __attribute__((aligned(4096)));
static uint32_t directory_b[1024] __attribute__((aligned(4096)));

static void set_paging(void)
{
	extern uint64_t pae_cr3[4];

	for (uint64_t i = 0; i < LARGE_PAGES; i++)
		directories[i] = i << 21 | PAGE_LARGE | PAGE_ALL;
	directories[0] = (uintptr_t)low_pages | PAGE_ALL;
	for (uint64_t i = 0; i < 512; i++)
		low_pages[i] = i << 12 | PAGE_ALL;
	for (uint64_t i = 0; i < 4; i++)
		pointers[i] = (uintptr_t)&directories[512 * i] | PAGE_ALL;
	for (uint64_t i = 0; i < 4; i++)
		pae_cr3[i] = (uintptr_t)&directories[512 * i] | 1;
	top[0] = top_2[0] = (uintptr_t)pointers | PAGE_ALL;
	for (uint32_t i = 0; i < 1024; i++)
		directory_a[i] = directory_b[i] = i << 22 | PAGE_LARGE | PAGE_ALL;
	__asm__ volatile("mov %0, %%cr3" : : "r"(top) : "memory");
}

/* The pages on which cases expect a page fault. */
static void hide_pages(void)
{
	extern uint8_t missing_code[], missing_data[];
	uint8_t *const hidden[] = {missing_code, missing_data};

	for (int i = 0; i < 2; i++) {
		low_pages[(uintptr_t)hidden[i] / PAGE] &= ~UINT64_C(1);
		__asm__ volatile("invlpg (%0)" : : "r"(hidden[i]) : "memory");
	}
}

/*
 * Tasks. Task B begins where the case says; task A is saved when the case leaves it.
 */

static void set_tasks(void)
{
	task_64.stack[0] = (uintptr_t)interrupt_stack + PAGE;
	task_64.io_map = sizeof(task_64);
	set_task(TASK_64, (uintptr_t)&task_64, sizeof(task_64) - 1);
	set_task(TASK_A, (uintptr_t)&task_a, sizeof(task_a) - 1);
	set_task(TASK_B, (uintptr_t)&task_b, sizeof(task_b) - 1);
}

static void reset_tasks(void)
{
	memset(&task_a, 0, sizeof(task_a));
	task_a.ss0 = DATA;
	task_a.esp0 = (uint32_t)(uintptr_t)interrupt_stack + PAGE;
	task_a.cr3 = (uint32_t)(uintptr_t)directory_a;
	task_a.io_map = sizeof(task_a) << 16;
	task_b = task_a;
	task_b.cr3 = (uint32_t)(uintptr_t)directory_b;
	task_b.eflags = 2;
	task_b.esp = (uint32_t)(uintptr_t)task_stack + PAGE;
	task_b.cs = CODE32;
	task_b.es = task_b.ss = task_b.ds = task_b.fs = task_b.gs = DATA;
}

/*
 * Intel PT, without the engine: one page of single-range output for each case.
 */

uint8_t output[PAGE] __attribute__((aligned(4096)));

uint32_t other_bytes; /* that another processor has written there */

static void write_msr(uint32_t msr, uint64_t value)
{
	__asm__ volatile("wrmsr"
			 :
			 : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
}

static uint64_t read_msr(uint32_t msr)
{
	uint32_t low, high;

	__asm__ volatile("rdmsr" : "=a"(low), "=d"(high) : "c"(msr));
	return (uint64_t)high << 32 | low;
}

static void prepare_output(void)
{
	extern const uint8_t range_begin[], range_end[];

	memset(output, 0, sizeof(output));
	write_msr(PTAH_IA32_RTIT_OUTPUT_BASE, (uintptr_t)output);
	write_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, PAGE - 1);
	write_msr(PTAH_IA32_RTIT_STATUS, 0);
	/* For the cases that use them. */
	write_msr(PTAH_IA32_RTIT_CR3_MATCH, (uintptr_t)top_2);
	write_msr(PTAH_IA32_RTIT_ADDR(0), (uintptr_t)range_begin);
	write_msr(PTAH_IA32_RTIT_ADDR(0) + 1, (uintptr_t)range_end - 1);
}

/* Returns whether the line ends with this packet's payload. */
static void print_packet(const struct ptah_packet *packet, uint64_t *last_ip)
{
	char payload[64];
	uint64_t ip;

	bare_print(ptah_packet_name(packet->type));
	bare_print(" ");
	switch (packet->type) {
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		if (ptah_packet_ip(last_ip, packet->u.ip.ipc, packet->u.ip.ip, &ip))
			bare_print_hex(ip);
		else
			bare_print("-");
		break;
	default:
		ptah_packet_format(packet, payload, sizeof(payload));
		bare_print(payload);
		break;
	}
	bare_print("\n");
}

static void print_output(size_t n)
{
	const uint8_t *at = output, *end = output + n;
	struct ptah_packet packet;
	uint64_t last_ip = 0;

	while (at < end) {
		int size = ptah_packet_decode(&packet, at, (size_t)(end - at), PTAH_BLOCK_NONE);

		if (size < 0) {
			bare_print("no packet\n");
			return;
		}
		at += size;
		if (packet.type == PTAH_PACKET_PSB)
			last_ip = 0;
		print_packet(&packet, &last_ip);
	}
}

static void run(const struct test_case *c)
{
	size_t n;

	hide_pages();
	reset_tasks();
	prepare_output();
	bare_print("case ");
	bare_print(c->name);
	bare_print("\n");
	(c->mode & 1 ? call_legacy : call_long)(c->run);
	n = read_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32;
	if (other_bytes)
		n = other_bytes;
	print_output(n);
	if (!(c->mode & 2))
		bare_export(output, n);
}

static void set_system_calls(void)
{
	extern const uint8_t on_syscall[];

	write_msr(0xc0000080, read_msr(0xc0000080) | 1);		      /* EFER.SCE */
	write_msr(0xc0000081, UINT64_C(0x30) << 48 | (uint64_t)CODE64 << 32); /* STAR */
	write_msr(0xc0000082, (uintptr_t)on_syscall);			      /* LSTAR */
	write_msr(0x174, SYSENTER_CODE);				      /* IA32_SYSENTER_CS */
	write_msr(0x175, (uintptr_t)interrupt_stack + PAGE);		      /* _ESP */
}

static void set_apic(void)
{
	volatile uint32_t *spurious = (volatile uint32_t *)(uintptr_t)0xfee000f0;

	*spurious = *spurious | 0x100;
	/* The old interrupt controllers are quiet. */
	bare_out8(0x21, 0xff);
	bare_out8(0xa1, 0xff);
}

/* Memory keeps its content, and what is here shows that the machine was reset. */
#define MARK_AT	     0x3000000u
#define MARK	     UINT64_C(0x7461687020707476)
#define EXIT_UNKNOWN 17u

/* Whether the command line ends with this word. */
static bool is_asked(const struct multiboot_info *info, const char *word)
{
	const char *text = info->flags & 4 ? (const char *)(uintptr_t)info->command_line : "";
	size_t length = 0, n = 0;

	while (text[length])
		length++;
	while (word[n])
		n++;
	if (length < n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (text[length - n + i] != word[i])
			return false;
	return true;
}

/* An exception without a table of interrupts: shutdown, which resets the machine. */
static _Noreturn void reset_while_traced(void)
{
	const struct table_pointer none = {0, 0};

	prepare_output();
	write_msr(PTAH_IA32_RTIT_CR3_MATCH, 0x123000);
	write_msr(PTAH_IA32_RTIT_ADDR(0), 0x100000);
	write_msr(PTAH_IA32_RTIT_ADDR(0) + 1, 0xffffff);
	write_msr(PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_OS |
					  PTAH_RTIT_CTL_BRANCH_EN |
					  UINT64_C(1) << PTAH_RTIT_CTL_ADDR_CFG(0));
	__asm__ volatile("lidt %0\n\tint3" : : "m"(none));
	bare_exit(EXIT_UNKNOWN);
}

static _Noreturn void show_reset(void)
{
	bare_print("after the reset: ctl ");
	bare_print_hex(read_msr(PTAH_IA32_RTIT_CTL));
	bare_print(", cr3_match ");
	bare_print_hex(read_msr(PTAH_IA32_RTIT_CR3_MATCH));
	bare_print(", addr0 ");
	bare_print_hex(read_msr(PTAH_IA32_RTIT_ADDR(0)));
	bare_print(" ");
	bare_print_hex(read_msr(PTAH_IA32_RTIT_ADDR(0) + 1));
	bare_print("\n");
	bare_exit(EXIT_FINE);
}

static void reset_or_go_on(const struct multiboot_info *info)
{
	volatile uint64_t *mark = (volatile uint64_t *)(uintptr_t)MARK_AT;

	if (!is_asked(info, "reset"))
		return;
	if (*mark == MARK)
		show_reset();
	*mark = MARK;
	reset_while_traced();
}

void bare_main(const struct multiboot_info *info)
{
	extern uint8_t low_from[], low_begin[], low_end[]; /* link.ld */
	const struct table_pointer table = {sizeof(descriptors) - 1, (uintptr_t)descriptors};
	const size_t n = ((uintptr_t)cases_end - (uintptr_t)cases_begin) / sizeof(*cases_begin);

	bare_serial_begin();
	reset_or_go_on(info);
	memcpy(low_begin, low_from, (uintptr_t)low_end - (uintptr_t)low_begin);
	set_tasks();
	set_call_gates();
	__asm__ volatile("lgdt %0\n\tltr %w1" : : "m"(table), "r"(TASK_64));
	set_interrupts();
	set_paging();
	set_system_calls();
	set_apic();
	for (size_t i = 0; i < n; i++)
		if (!(cases_begin[i].mode & 4) == !is_asked(info, "events"))
			run(&cases_begin[i]);
	bare_print("done\n");
	bare_exit(EXIT_FINE);
}
