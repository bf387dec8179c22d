/* SPDX-License-Identifier: MIT */
/*
 * Model-specific registers (registers.h). SDM volume 4; volume 3, "Intel Processor Trace" and
 * "Architectural Performance Monitoring".
 */
#include "record/system/registers.h"

#include <string.h>

#define PMC0		  0xc1u
#define EVENT_SELECT0	  0x186u
#define MISC_ENABLE	  0x1a0u
#define OFFCORE0	  0x1a6u
#define FIXED0		  0x309u
#define PERF_CAPABILITIES 0x345u
#define FIXED_CONTROL	  0x38du
#define GLOBAL_CONTROL	  0x38fu
#define A_PMC0		  0x4c1u /* the general counters, of which all bits can be written */

/* IA32_MISC_ENABLE: fast strings, performance monitoring; neither BTS nor PEBS, which are read-only
 * bits as the one for performance monitoring is. */
#define MISC_READ_ONLY (UINT64_C(1) << 7 | UINT64_C(1) << 11 | UINT64_C(1) << 12)
#define MISC_INITIAL   (MISC_READ_ONLY | 1)
/* IA32_PERF_CAPABILITIES: A_PMC0 exists. No LBR, no PEBS, so no PEBS output to Intel PT either. */
#define FULL_WIDTH_WRITES (UINT64_C(1) << 13)
#define FIXED_RDPMC	  UINT32_C(0x40000000)

void system_registers_init(struct system_registers *r, const struct ptah_model *m)
{
	uint32_t leaf[4];

	memset(r, 0, sizeof(*r));
	ptah_model_cpuid(m, 0x0a, 0, leaf);
	r->version = leaf[0] & 0xff;
	r->counters = leaf[0] >> 8 & 0xff;
	r->width = leaf[0] >> 16 & 0xff;
	r->fixed_counters = r->version > 1 ? leaf[3] & 0x1f : 0;
	if (r->counters > SYSTEM_COUNTERS)
		r->counters = SYSTEM_COUNTERS;
	if (r->fixed_counters > SYSTEM_COUNTERS)
		r->fixed_counters = SYSTEM_COUNTERS;
	r->misc_enable = MISC_INITIAL;
}

static uint64_t low_bits(unsigned n)
{
	return n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;
}

/* 0 to n - 1: msr is one of n registers from `first` on; else a larger number. */
static uint32_t number(uint32_t msr, uint32_t first)
{
	return msr - first;
}

/* A register and the bits of it that can be written. NULL: not one of those here. */
static uint64_t *find_register(struct system_registers *r, uint32_t msr, uint64_t *bits)
{
	*bits = low_bits(r->width);
	if (number(msr, PMC0) < r->counters)
		return &r->counter[number(msr, PMC0)];
	if (number(msr, A_PMC0) < r->counters)
		return &r->counter[number(msr, A_PMC0)];
	if (number(msr, FIXED0) < r->fixed_counters)
		return &r->fixed[number(msr, FIXED0)];
	*bits = UINT32_MAX;
	if (number(msr, EVENT_SELECT0) < r->counters)
		return &r->select[number(msr, EVENT_SELECT0)];
	*bits = UINT64_MAX;
	if (number(msr, OFFCORE0) < 2)
		return &r->offcore[number(msr, OFFCORE0)];
	if (r->version < 2)
		return NULL;
	*bits = low_bits(4 * r->fixed_counters);
	if (msr == FIXED_CONTROL)
		return &r->fixed_control;
	*bits = low_bits(r->counters) | low_bits(r->fixed_counters) << 32;
	return msr == GLOBAL_CONTROL ? &r->global_control : NULL;
}

/* Numbers of counters and of their controls, whether or not this processor has them. */
static bool is_monitoring(uint32_t msr)
{
	return number(msr, PMC0) < SYSTEM_COUNTERS || number(msr, A_PMC0) < SYSTEM_COUNTERS ||
	       number(msr, FIXED0) < SYSTEM_COUNTERS ||
	       number(msr, EVENT_SELECT0) < SYSTEM_COUNTERS || msr == FIXED_CONTROL ||
	       msr == GLOBAL_CONTROL;
}

/* The registers that the model has, whether or not its processor has them. */
static bool is_model(const struct ptah_model *m, uint32_t msr)
{
	switch (msr) {
	case PTAH_IA32_PERF_GLOBAL_STATUS:
	case PTAH_IA32_PERF_GLOBAL_STATUS_RESET:
	case PTAH_IA32_PERF_GLOBAL_STATUS_SET:
	case PTAH_MSR_PLATFORM_INFO:
	case PTAH_IA32_DEBUGCTL:
		return true;
	case PTAH_IA32_XSS: /* without XSAVES it is QEMU's, which has no such register */
		return ptah_model_processor(m)->xsaves;
	case PTAH_IA32_VMX_MISC:
		return ptah_model_processor(m)->vmx;
	default: /* IA32_RTIT_OUTPUT_BASE to the last IA32_RTIT_ADDRn_B that is reserved */
		return msr >= PTAH_IA32_RTIT_OUTPUT_BASE && msr <= 0x587;
	}
}

enum system_access system_rdmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t *value)
{
	uint64_t bits;
	const uint64_t *word = find_register(r, msr, &bits);

	if (word) {
		*value = *word;
		return SYSTEM_DONE;
	}
	if (is_model(m, msr))
		return ptah_model_rdmsr(m, msr, value) < 0 ? SYSTEM_FAULTS : SYSTEM_DONE;
	if (is_monitoring(msr))
		return SYSTEM_FAULTS;
	if (msr != PERF_CAPABILITIES && msr != MISC_ENABLE)
		return SYSTEM_NOT_OURS;
	*value = msr == MISC_ENABLE ? r->misc_enable : FULL_WIDTH_WRITES;
	return SYSTEM_DONE;
}

enum system_access system_wrmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t value)
{
	uint64_t bits;
	uint64_t *word = find_register(r, msr, &bits);

	if (word) {
		/* By its old number, a counter takes 32 bits and extends their sign. */
		if (number(msr, PMC0) < r->counters)
			value = (uint64_t)(int64_t)(int32_t)value & bits;
		if (value & ~bits)
			return SYSTEM_FAULTS;
		*word = value;
		return SYSTEM_DONE;
	}
	if (is_model(m, msr))
		return ptah_model_wrmsr(m, msr, value) < 0 ? SYSTEM_FAULTS : SYSTEM_DONE;
	if (is_monitoring(msr) || msr == PERF_CAPABILITIES)
		return SYSTEM_FAULTS;
	if (msr == MISC_ENABLE) /* QEMU has some of its bits as well, with their effect */
		r->misc_enable = value | MISC_READ_ONLY;
	return SYSTEM_NOT_OURS;
}

/* SDM volume 2, "RDPMC": counter n, or fixed counter n with bit 30. */
enum system_access system_rdpmc(const struct system_registers *r, uint32_t index, uint64_t *value)
{
	if (index < r->counters)
		*value = r->counter[index];
	else if (number(index, FIXED_RDPMC) < r->fixed_counters)
		*value = r->fixed[number(index, FIXED_RDPMC)];
	else
		return SYSTEM_FAULTS;
	return SYSTEM_DONE;
}
