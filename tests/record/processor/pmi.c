/* SPDX-License-Identifier: MIT */
/* PMIs of the image processor: SDM "ToPA PMI", and volume 3, "Local Vector Table". */
#include "image.h"

#define AS_NMI 0x400u

static unsigned since(unsigned vector, unsigned before)
{
	return interrupts[vector] - before;
}

#define FILLS_A_PAGE 1000u

static void enable_interrupts(bool on)
{
	if (on)
		__asm__ volatile("sti\n\tnop" : : : "memory");
	else
		__asm__ volatile("cli" : : : "memory");
}

/* Long enough for a pending interrupt, and for the plugin's look at a masked entry. */
static void wait(void)
{
	for (volatile unsigned i = 0; i < 5000; i++)
		;
}

void test_pmi(void)
{
	unsigned before;

	enable_interrupts(true);
	*apic(APIC_LVTPC) = VECTOR_PMI;
	before = interrupts[VECTOR_PMI];
	begin_trace(4, 1, 0);
	burn(FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_PMI, before), 1, "PMI: an interrupt with its vector");
	check(*apic(APIC_LVTPC) & MASKED, "which masks the entry");
	check(get_msr(PTAH_IA32_PERF_GLOBAL_STATUS) & TOPA_PMI, "and sets Trace_ToPA_PMI");
	end_trace();

	*apic(APIC_LVTPC) = VECTOR_PMI;
	before = interrupts[VECTOR_PMI];
	enable_interrupts(false);
	begin_trace(4, 1, 0);
	burn(FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_PMI, before), 0, "RFLAGS.IF = 0 holds it");
	enable_interrupts(true);
	wait();
	check_equal(since(VECTOR_PMI, before), 1, "until STI");
	end_trace();

	*apic(APIC_LVTPC) = VECTOR_PMI | MASKED;
	before = interrupts[VECTOR_PMI];
	begin_trace(4, 1, 0);
	burn(FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_PMI, before), 0, "a masked entry holds it");
	*apic(APIC_LVTPC) = VECTOR_PMI;
	wait();
	check_equal(since(VECTOR_PMI, before), 1, "until it is unmasked");
	end_trace();

	*apic(APIC_LVTPC) = VECTOR_PMI | MASKED;
	before = interrupts[VECTOR_PMI];
	begin_trace(4, 1, 0);
	burn(FILLS_A_PAGE);
	end_trace();
	wait();
	check_equal(since(VECTOR_PMI, before), 0, "also after tracing has ended");
	*apic(APIC_LVTPC) = VECTOR_PMI;
	wait();
	check_equal(since(VECTOR_PMI, before), 1, "when it still comes");

	*apic(APIC_LVTPC) = VECTOR_PMI;
	before = interrupts[VECTOR_PMI];
	begin_trace(4, 3, 0);
	burn(3 * FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_PMI, before), 1,
		    "regions that are full before the first is acknowledged raise no other");
	write_msr(PTAH_IA32_PERF_GLOBAL_STATUS_RESET, TOPA_PMI);
	*apic(APIC_LVTPC) = VECTOR_PMI;
	burn(4 * FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_PMI, before), 2, "after that there is the next");
	end_trace();

	enable_interrupts(false);
	*apic(APIC_LVTPC) = AS_NMI;
	before = interrupts[VECTOR_NMI];
	begin_trace(4, 1, 0);
	burn(FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_NMI, before), 1, "an NMI comes whatever RFLAGS.IF is");
	end_trace();

	*apic(APIC_SPURIOUS) = *apic(APIC_SPURIOUS) & ~0x100u;
	*apic(APIC_LVTPC) = AS_NMI;
	before = interrupts[VECTOR_NMI];
	begin_trace(4, 1, 0);
	burn(FILLS_A_PAGE);
	wait();
	check_equal(since(VECTOR_NMI, before), 0, "an APIC that software has disabled holds it");
	end_trace();
	*apic(APIC_SPURIOUS) = *apic(APIC_SPURIOUS) | 0x100;
	*apic(APIC_LVTPC) = MASKED;
}
