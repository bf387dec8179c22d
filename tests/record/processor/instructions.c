/* SPDX-License-Identifier: MIT */
/* Instructions of the image processor that TCG does not have; and its time. */
#include "image.h"

#include <ptah/packet.h>

/* PTWRITE. SDM volume 2, "PTWRITE"; "PTW Packet". */

static const uint64_t operand[2] = {0, UINT64_C(0x1122334455667788)};

/* The payloads of the PTW packets in the output, in order; returns how many. */
static unsigned read_payloads(uint64_t *payloads, unsigned n)
{
	const size_t end = get_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32;
	struct ptah_packet packet;
	unsigned count = 0;
	int size;

	for (size_t at = 0; at < end && count < n; at += (size_t)size) {
		size = ptah_packet_decode(&packet, output + at, end - at, 0);
		if (size <= 0)
			break;
		if (packet.type == PTAH_PACKET_PTW)
			payloads[count++] = packet.u.ptw.payload;
	}
	return count;
}

static void write_four(void)
{
	register const uint64_t *r8 __asm__("r8") = operand;

	__asm__ volatile(".byte 0xf3, 0x0f, 0xae, 0xe0\n\t"	  /* ptwrite %eax */
			 ".byte 0xf3, 0x48, 0x0f, 0xae, 0xe0\n\t" /* ptwrite %rax */
			 "nop\n\t"
			 ".byte 0xf3, 0x41, 0x0f, 0xae, 0x60, 0x08\n\t" /* ptwritel 8(%%r8) */
			 ".byte 0xf3, 0x49, 0x0f, 0xae, 0x60, 0x08"	/* ptwriteq 8(%%r8) */
			 :
			 : "a"(UINT64_C(0x0123456789abcdef)), "r"(r8)
			 : "memory");
}

/* The instruction is carried out or raises an exception; returns how often that vector came. */
static unsigned write_at(uint64_t address, unsigned vector)
{
	const unsigned before = interrupts[vector];

	__asm__ volatile("movq $1f, %0\n\t.byte 0xf3, 0x0f, 0xae, 0x20\n1:\tmovq $0, %0"
			 : "+m"(resume) /* ptwritel (%rax) */
			 : "a"(address)
			 : "memory");
	return interrupts[vector] - before;
}

void test_ptwrite(void)
{
	static const uint64_t wanted[] = {0x89abcdef, UINT64_C(0x0123456789abcdef), 0x55667788,
					  UINT64_C(0x1122334455667788)};
	uint64_t payloads[8] = {0};

	begin_trace(4, 0, PTAH_RTIT_CTL_PTW_EN | PTAH_RTIT_CTL_FUP_ON_PTW);
	write_four();
	end_trace();
	check_equal(read_payloads(payloads, 8), 4, "PTWRITE: a packet each");
	for (unsigned i = 0; i < 4; i++)
		check_equal(payloads[i], wanted[i], "with the register or the memory");
	begin_trace(4, 0, 0);
	write_four();
	end_trace();
	check_equal(read_payloads(payloads, 8), 0, "none without PTWEn");
	check_equal(write_at(UINT64_C(0x800000000000), VECTOR_GP), 1,
		    "an address that is not canonical raises #GP");
	check_equal(write_at(UINT64_C(0x7fffffff0000), VECTOR_PF), 1,
		    "and one that is not mapped #PF");
	check_equal(write_at((uintptr_t)operand, VECTOR_UD), 0, "no #UD");
}

/* XSAVES and XRSTORS. SDM volume 1, "Operation of XSAVES"; "Intel PT and XSAVES/XRSTORS". */

#define CR4_OSFXSR  (UINT64_C(1) << 9)
#define CR4_OSXSAVE (UINT64_C(1) << 18)
#define XCR0	    UINT64_C(7) /* x87, SSE, AVX */
#define PT	    UINT64_C(0x100)
#define PT_AT	    832 /* after the legacy region, the header, AVX */

static uint64_t area[2 * PAGE / 8] __attribute__((aligned(64)));

static void set_extended_state(void)
{
	uint64_t cr4;

	__asm__ volatile("mov %%cr4, %0" : "=r"(cr4));
	__asm__ volatile("mov %0, %%cr4" : : "r"(cr4 | CR4_OSFXSR | CR4_OSXSAVE));
	__asm__ volatile("xsetbv" : : "a"((uint32_t)XCR0), "d"(0), "c"(0));
}

/* These return how many exceptions of that vector they raise. */

static unsigned xsaves(void *to, uint64_t components, unsigned vector)
{
	const unsigned before = interrupts[vector];

	__asm__ volatile("movq $1f, %0\n\t.byte 0x48, 0x0f, 0xc7, 0x29\n1:\tmovq $0, %0"
			 : "+m"(resume) /* xsaves64 (%rcx) */
			 : "c"(to), "a"((uint32_t)components), "d"((uint32_t)(components >> 32))
			 : "memory");
	return interrupts[vector] - before;
}

static unsigned xrstors(const void *from, uint64_t components, unsigned vector)
{
	const unsigned before = interrupts[vector];

	__asm__ volatile("movq $1f, %0\n\t.byte 0x48, 0x0f, 0xc7, 0x19\n1:\tmovq $0, %0"
			 : "+m"(resume) /* xrstors64 (%rcx) */
			 : "c"(from), "a"((uint32_t)components), "d"((uint32_t)(components >> 32))
			 : "memory");
	return interrupts[vector] - before;
}

/* What ld.so does around a function that it looks up. */
static unsigned xsavec_and_xrstor(void *area, uint64_t components)
{
	const unsigned before = interrupts[VECTOR_GP];

	__asm__ volatile("movq $1f, %0\n\t.byte 0x48, 0x0f, 0xc7, 0x21\n\t" /* xsavec64 (%rcx) */
			 "xorps %%xmm3, %%xmm3\n\t.byte 0x48, 0x0f, 0xae, 0x29\n"
			 "1:\tmovq $0, %0" /* xrstor64 (%rcx) */
			 : "+m"(resume)
			 : "c"(area), "a"((uint32_t)components), "d"(0)
			 : "memory");
	return interrupts[VECTOR_GP] - before;
}

static void set_vectors(uint64_t value)
{
	__asm__ volatile("movq %0, %%xmm3\n\tvmovq %0, %%xmm4\n\tvinsertf128 $1, %%xmm4, "
			 "%%ymm4, %%ymm4"
			 :
			 : "r"(value));
}

static void get_vectors(uint64_t values[2])
{
	__asm__ volatile("movq %%xmm3, %0\n\tvextractf128 $1, %%ymm4, %%xmm4\n\tmovq %%xmm4, %1"
			 : "=r"(values[0]), "=r"(values[1]));
}

static void test_user_state(void)
{
	uint64_t values[2];

	set_vectors(0x1234);
	check_equal(xsaves(area, XCR0, VECTOR_UD), 0, "XSAVES is no #UD");
	check_equal(area[65], XCR0 | UINT64_C(1) << 63, "XCOMP_BV");
	check_equal(area[(160 + 16 * 3) / 8], 0x1234, "XMM3 is in the legacy region");
	check_equal(area[(576 + 16 * 4) / 8], 0x1234, "the upper half of YMM4 in the extended one");
	set_vectors(0x9999);
	check_equal(xrstors(area, XCR0, VECTOR_GP), 0, "XRSTORS takes it");
	get_vectors(values);
	check(values[0] == 0x1234 && values[1] == 0x1234, "and restores them");
	set_vectors(0x5678);
	check_equal(xsavec_and_xrstor(area, XCR0), 0, "XRSTOR takes what XSAVEC has saved");
	get_vectors(values);
	check(values[0] == 0x5678 && values[1] == 0x5678, "and restores it");
	area[64] &= ~UINT64_C(6);
	xrstors(area, 2, VECTOR_GP);
	get_vectors(values);
	check_equal(values[0], 0, "a component that is not in use gets its initial value");
	area[66] = 1;
	check_equal(xrstors(area, XCR0, VECTOR_GP), 1, "a reserved bit of the header raises #GP");
	area[66] = 0;
	check_equal(xsaves(area + 1, XCR0, VECTOR_GP), 1, "so does an area that is not aligned");
	check_equal(xsaves((void *)UINT64_C(0x7fffffff0000), XCR0, VECTOR_PF), 1,
		    "one that is not mapped raises #PF");
}

static void test_trace_state(void)
{
	const uint64_t ranges = UINT64_C(0x123456789000);
	uint64_t ctl;

	check(write_msr(PTAH_IA32_XSS, PT), "IA32_XSS[8] can be set");
	write_msr(PTAH_IA32_RTIT_ADDR0_A, ranges);
	begin_trace(4, 0, 0);
	ctl = get_msr(PTAH_IA32_RTIT_CTL);
	memset(area, 0, sizeof(area));
	check_equal(xsaves(area, XCR0 | PT, VECTOR_GP), 0, "XSAVES with component 8");
	check_equal(get_msr(PTAH_IA32_RTIT_CTL), ctl & ~UINT64_C(1), "clears TraceEn");
	check_equal(area[PT_AT / 8], ctl, "which the image has");
	check_equal(area[PT_AT / 8 + 1], (uintptr_t)get_msr(PTAH_IA32_RTIT_OUTPUT_BASE),
		    "with the base");
	check_equal(area[PT_AT / 8 + 2], get_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS),
		    "the exact position");
	check_equal(area[PT_AT / 8 + 5], ranges, "the ranges");
	check_equal(area[64], XCR0 | PT, "XSTATE_BV");
	write_msr(PTAH_IA32_RTIT_CTL, 0);
	write_msr(PTAH_IA32_RTIT_ADDR0_A, 0);
	check_equal(xrstors(area, XCR0 | PT, VECTOR_GP), 0, "XRSTORS with component 8");
	check_equal(get_msr(PTAH_IA32_RTIT_CTL), ctl, "sets TraceEn again");
	check_equal(get_msr(PTAH_IA32_RTIT_ADDR0_A), ranges, "and the ranges");
	check_equal(xrstors(area, PT, VECTOR_GP), 1, "while TraceEn is 1 it raises #GP");
	end_trace();
	area[PT_AT / 8] |= UINT64_C(1) << 63;
	check_equal(xrstors(area, PT, VECTOR_GP), 1, "as a reserved bit in the image does");
	write_msr(PTAH_IA32_XSS, 0);
	area[64] = area[65] = 0;
}

void test_xsaves(void)
{
	uint32_t r[4];

	cpuid(0x0d, 1, r);
	check_equal(r[0] & 0xa, 0xa, "CPUID: XSAVEC and XSAVES");
	check_equal(r[2], PT, "IA32_XSS has component 8");
	cpuid(0x0d, 8, r);
	check(r[0] == 128 && r[1] == 0 && r[2] == 1, "of 128 bytes");
	set_extended_state();
	test_user_state();
	test_trace_state();
	cpuid(0x0d, 1, r);
	check_equal(r[1], 832, "the size of an area follows XCR0 and IA32_XSS");
}

/* Time. "TSC Packet" */

/* The first TSC packet in the output; 0: none. */
static uint64_t traced_time(void)
{
	const size_t end = get_msr(PTAH_IA32_RTIT_OUTPUT_MASK_PTRS) >> 32;
	struct ptah_packet packet;
	int size;

	for (size_t at = 0; at < end; at += (size_t)size) {
		size = ptah_packet_decode(&packet, output + at, end - at, 0);
		if (size <= 0)
			return 0;
		if (packet.type == PTAH_PACKET_TSC)
			return packet.u.tsc.tsc;
	}
	return 0;
}

void test_time(void)
{
	uint64_t before = rdtsc(), after, traced;

	check(rdtsc() >= before, "the TSC does not go back");
	check(get_msr(0x10) >= before && get_msr(0x10) <= rdtsc(), "RDMSR of it is RDTSC");
	before = rdtsc();
	begin_trace(4, 0, PTAH_RTIT_CTL_TSC_EN);
	end_trace();
	after = rdtsc();
	traced = traced_time();
	check(traced >= before && traced <= after, "the packets have the same time");
}
