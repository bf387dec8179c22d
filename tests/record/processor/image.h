/* SPDX-License-Identifier: MIT */
/* What the files of the image processor share. */
#ifndef PTAH_TESTS_RECORD_PROCESSOR_IMAGE_H
#define PTAH_TESTS_RECORD_PROCESSOR_IMAGE_H

#include "port/bare/port.h"

#include <ptah/engine/rtit.h>

#include <string.h>

#define PAGE	   4096u
#define VECTOR_NMI 2u
#define VECTOR_UD  6u
#define VECTOR_NM  7u
#define VECTOR_GP  13u
#define VECTOR_PF  14u
#define VECTOR_PMI 31u /* boot.S takes it for one without an error code */
#define VECTORS	   32u

#define APIC_EOI      0xb0u
#define APIC_SPURIOUS 0xf0u
#define APIC_LVTPC    0x340u
#define MASKED	      0x10000u
#define TOPA_PMI      (UINT64_C(1) << 55)

/* main.c */
/* Says whether a rule is kept. */
void check(bool right, const char *rule);
void check_equal(uint64_t is, uint64_t wanted, const char *rule);

/* How often each interrupt and exception came. */
extern volatile unsigned interrupts[VECTORS];
extern volatile uint64_t resume; /* where code continues that raises an exception; 0: nowhere */
extern volatile uint64_t error_code, fault_at;

static inline volatile uint32_t *apic(unsigned at)
{
	return (volatile uint32_t *)(UINT64_C(0xfee00000) + at);
}

/* Both return whether there was no #GP. */
bool write_msr(uint32_t msr, uint64_t value);
bool read_msr(uint32_t msr, uint64_t *value);
uint64_t get_msr(uint32_t msr);
void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t r[4]);
uint64_t rdtsc(void);

#define OUTPUT_PAGES 16u
extern uint8_t output[OUTPUT_PAGES * PAGE];

/* Traces into a ring of n pages, of which the first `with_int` have INT. */
void begin_trace(unsigned n, unsigned with_int, uint64_t ctl);
void end_trace(void);
/* So many rounds of two TIP packets of at least 3 bytes. */
void burn(unsigned rounds);

/* pmi.c, instructions.c */
void test_pmi(void);
void test_ptwrite(void);
void test_xsaves(void);
void test_time(void);

#endif
