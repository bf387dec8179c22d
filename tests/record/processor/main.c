/* SPDX-License-Identifier: MIT */
/*
 * The image processor: what a virtual machine's processor does besides control flow. Registers and
 * their #GP, CPUID, PMIs in every mode of the local APIC's entry, PTWRITE, XSAVES and XRSTORS,
 * time. A line "ok" or "FAILED" for each rule of the SDM; tests/record/processor.sh reads them.
 */
#include "image.h"

#define EXIT_FINE      16u
#define CODE	       8u
#define GATE_INTERRUPT 0x8eu

void bare_main(const void *info);

/* What was said */

static unsigned failures;

void check(bool right, const char *rule)
{
	bare_print(right ? "ok " : "FAILED ");
	bare_print(rule);
	bare_print("\n");
	failures += !right;
}

void check_equal(uint64_t is, uint64_t wanted, const char *rule)
{
	check(is == wanted, rule);
	if (is == wanted)
		return;
	bare_print("  ");
	bare_print_hex(is);
	bare_print(" instead of ");
	bare_print_hex(wanted);
	bare_print("\n");
}

/* Interrupts */

static struct {
	uint16_t offset_low, selector;
	uint8_t stack, type;
	uint16_t offset_middle;
	uint32_t offset_high, reserved;
} gates[VECTORS];

volatile unsigned interrupts[VECTORS];
volatile uint64_t resume;
volatile uint64_t error_code, fault_at;

void bare_interrupt(struct bare_frame *frame)
{
	interrupts[frame->vector]++;
	if (frame->vector == VECTOR_PMI)
		*apic(APIC_EOI) = 0;
	if (frame->vector == VECTOR_PMI || frame->vector == VECTOR_NMI)
		return;
	fault_at = frame->rip;
	error_code = frame->error_code;
	if (resume) {
		frame->rip = resume;
		return;
	}
	bare_print("FAILED: exception ");
	bare_print_number(frame->vector);
	bare_print(" at ");
	bare_print_hex(frame->rip);
	bare_print("\n");
	bare_exit(1);
}

static void set_interrupts(void)
{
	const struct __attribute__((packed)) {
		uint16_t limit;
		uint64_t base;
	} pointer = {sizeof(gates) - 1, (uintptr_t)gates};

	for (unsigned i = 0; i < VECTORS; i++) {
		const uint64_t entry = (uintptr_t)bare_vectors + BARE_ENTRY_BYTES * i;

		gates[i].offset_low = (uint16_t)entry;
		gates[i].selector = CODE;
		gates[i].type = GATE_INTERRUPT;
		gates[i].offset_middle = (uint16_t)(entry >> 16);
	}
	__asm__ volatile("lidt %0" : : "m"(pointer));
	*apic(APIC_SPURIOUS) = *apic(APIC_SPURIOUS) | 0x100;
	bare_out8(0x21, 0xff);
	bare_out8(0xa1, 0xff);
}

/* Registers */

bool write_msr(uint32_t msr, uint64_t value)
{
	const unsigned before = interrupts[VECTOR_GP];

	__asm__ volatile("movq $1f, %0\n\twrmsr\n1:\tmovq $0, %0"
			 : "+m"(resume)
			 : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32))
			 : "memory");
	return interrupts[VECTOR_GP] == before;
}

bool read_msr(uint32_t msr, uint64_t *value)
{
	const unsigned before = interrupts[VECTOR_GP];
	uint32_t low = 0, high = 0;

	__asm__ volatile("movq $1f, %0\n\trdmsr\n1:\tmovq $0, %0"
			 : "+m"(resume), "+a"(low), "+d"(high)
			 : "c"(msr)
			 : "memory");
	*value = low | (uint64_t)high << 32;
	return interrupts[VECTOR_GP] == before;
}

uint64_t get_msr(uint32_t msr)
{
	uint64_t value;

	read_msr(msr, &value);
	return value;
}

void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
			 : "a"(leaf), "c"(subleaf));
}

uint64_t rdtsc(void)
{
	uint32_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return low | (uint64_t)high << 32;
}

static void test_registers(void)
{
	uint64_t value;
	uint32_t low, high;

	check(!write_msr(PTAH_IA32_RTIT_CTL, UINT64_C(1) << 63), "CTL: reserved bits raise #GP");
	check_equal(error_code, 0, "its error code is 0");
	check(*(const uint16_t *)fault_at == 0x300f, "the fault is at the WRMSR");
	check_equal(get_msr(PTAH_IA32_RTIT_CTL), 0, "and nothing has changed");
	check(!write_msr(PTAH_IA32_RTIT_OUTPUT_BASE, 1), "OUTPUT_BASE: bits 6:0 raise #GP");
	check(!read_msr(0x56f, &value), "a register that does not exist raises #GP");
	write_msr(0x4c1, UINT64_C(0x123456789abc));
	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(0));
	check_equal(low | (uint64_t)high << 32, UINT64_C(0x123456789abc),
		    "RDPMC reads what was written to IA32_A_PMC0");
	check_equal(get_msr(0x50740000) & UINT32_MAX, 0x68617450, "the registers of the truth");
}

static void test_cpuid(void)
{
	uint32_t r[4];

	cpuid(0, 0, r);
	check(r[0] >= 0x15 && r[1] == 0x756e6547 && r[2] == 0x6c65746e && r[3] == 0x49656e69,
	      "CPUID: GenuineIntel, up to leaf 15H");
	cpuid(7, 0, r);
	check(r[1] >> 25 & 1, "Intel PT");
	/* 16-bit prefixes do not hide CPUID. */
	__asm__ volatile(".byte 0x66, 0x0f, 0xa2"
			 : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
			 : "a"(0x14), "c"(0));
	check_equal(r[0], 1, "leaf 14H, with a prefix");
}

/* Tracing */

static uint64_t topa[PAGE / 8] __attribute__((aligned(PAGE)));
uint8_t output[OUTPUT_PAGES * PAGE] __attribute__((aligned(PAGE)));

#define CTL                                                                                        \
	(PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_DIS_RETC | \
	 PTAH_RTIT_CTL_BRANCH_EN)
#define TOPA_INT UINT64_C(4)
#define TOPA_END UINT64_C(1)

void begin_trace(unsigned n, unsigned with_int, uint64_t ctl)
{
	for (unsigned i = 0; i < n; i++)
		topa[i] = (uintptr_t)(output + i * PAGE) | (i < with_int ? TOPA_INT : 0);
	topa[n] = (uintptr_t)topa | TOPA_END;
	write_msr(PTAH_IA32_PERF_GLOBAL_STATUS_RESET, TOPA_PMI);
	write_msr(PTAH_IA32_RTIT_STATUS, 0);
	write_msr(PTAH_IA32_RTIT_OUTPUT_BASE, (uintptr_t)topa);
	write_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0x7f);
	write_msr(PTAH_IA32_RTIT_CTL, CTL | ctl);
}

void end_trace(void)
{
	write_msr(PTAH_IA32_RTIT_CTL, 0);
}

void burn(unsigned rounds)
{
	__asm__ volatile("lea 2f(%%rip), %%rax\n"
			 "1:\tcall *%%rax\n\tdec %0\n\tjnz 1b\n\tjmp 3f\n"
			 "2:\tret\n"
			 "3:"
			 : "+r"(rounds)
			 :
			 : "rax", "cc", "memory");
}

/* What is not RAM takes no trace; the machine lives on. */
static void test_devices(void)
{
	static const uint64_t places[] = {0xfee00000, 0xfec00000, 0xfffff000, 0xa0000,
					  0x7ffffff000};

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		topa[0] = places[i];
		topa[1] = (uintptr_t)topa | TOPA_END;
		write_msr(PTAH_IA32_RTIT_OUTPUT_BASE, (uintptr_t)topa);
		write_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0x7f);
		write_msr(PTAH_IA32_RTIT_CTL, CTL);
		burn(3000);
		end_trace();
		write_msr(PTAH_IA32_RTIT_STATUS, 0);
		/* A table there, too. */
		write_msr(PTAH_IA32_RTIT_OUTPUT_BASE, places[i]);
		write_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, 0x7f);
		write_msr(PTAH_IA32_RTIT_CTL, CTL);
		burn(100);
		end_trace();
		write_msr(PTAH_IA32_RTIT_STATUS, 0);
	}
	begin_trace(4, 0, 0);
	burn(10);
	end_trace();
	check((get_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32) > 20,
	      "after output to devices and ROM, output to memory works");
}

void bare_main(const void *info)
{
	(void)info;
	bare_serial_begin();
	set_interrupts();
	test_registers();
	test_cpuid();
	test_time();
	test_pmi();
	test_devices();
	test_ptwrite();
	test_xsaves();
	bare_print(failures ? "FAILED\n" : "done\n");
	bare_exit(failures ? 1 : EXIT_FINE);
}
