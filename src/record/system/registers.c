/* SPDX-License-Identifier: MIT */
/*
 * Model-specific registers (registers.h). SDM volume 4; volume 3, "Intel Processor Trace" and
 * "Architectural Performance Monitoring".
 */
#include "record/system/registers.h"

#include <string.h>

#define PERF_CAPABILITIES 0x345u
#define FULL_WIDTH_WRITES (UINT64_C(1) << 13)
#define PMC0		  0xc1u
#define A_PMC0		  0x4c1u /* the same counters, of which all bits can be written */
#define COUNTERS	  8u

/* Registers without effect: they contain what was written last. The counters stand still. */
static const struct range {
	uint32_t first, last;
} stored[] = {
    {0xc1, 0xc8},   /* IA32_PMC0 to 7 */
    {0x186, 0x18d}, /* IA32_PERFEVTSEL0 to 7 */
    {0x1a6, 0x1a7}, /* MSR_OFFCORE_RSP_0 and 1 */
    {0x309, 0x30b}, /* IA32_FIXED_CTR0 to 2 */
    {0x38d, 0x38d}, /* IA32_FIXED_CTR_CTRL */
    {0x38f, 0x38f}, /* IA32_PERF_GLOBAL_CTRL */
};

static uint64_t *find_stored(struct system_registers *r, uint32_t msr)
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof(stored) / sizeof(stored[0]); i++) {
		if (msr >= stored[i].first && msr <= stored[i].last)
			return &r->stored[n + msr - stored[i].first];
		n += stored[i].last - stored[i].first + 1;
	}
	return NULL;
}

/* The registers that the model has, whether or not its processor has them. */
static bool is_model(uint32_t msr)
{
	switch (msr) {
	case PTAH_IA32_PERF_GLOBAL_STATUS:
	case PTAH_IA32_PERF_GLOBAL_STATUS_RESET:
	case PTAH_IA32_PERF_GLOBAL_STATUS_SET:
	case PTAH_MSR_PLATFORM_INFO:
	case PTAH_IA32_VMX_MISC:
		return true;
	default: /* IA32_RTIT_OUTPUT_BASE to the last IA32_RTIT_ADDRn_B that is reserved */
		return msr >= PTAH_IA32_RTIT_OUTPUT_BASE && msr <= 0x587;
	}
}

static uint32_t other_name(uint32_t msr)
{
	return msr >= A_PMC0 && msr < A_PMC0 + COUNTERS ? msr - A_PMC0 + PMC0 : msr;
}

void system_registers_init(struct system_registers *r, const struct ptah_model *m)
{
	(void)m;
	memset(r, 0, sizeof(*r));
}

enum system_access system_rdmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t *value)
{
	const uint64_t *word = find_stored(r, other_name(msr));

	if (word) {
		*value = *word;
		return SYSTEM_DONE;
	}
	if (is_model(msr))
		return ptah_model_rdmsr(m, msr, value) < 0 ? SYSTEM_FAULTS : SYSTEM_DONE;
	if (msr != PERF_CAPABILITIES)
		return SYSTEM_NOT_OURS;
	*value = FULL_WIDTH_WRITES;
	return SYSTEM_DONE;
}

enum system_access system_wrmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t value)
{
	uint64_t *word = find_stored(r, other_name(msr));

	if (word) {
		*word = value;
		return SYSTEM_DONE;
	}
	if (is_model(msr))
		return ptah_model_wrmsr(m, msr, value) < 0 ? SYSTEM_FAULTS : SYSTEM_DONE;
	return msr == PERF_CAPABILITIES ? SYSTEM_FAULTS : SYSTEM_NOT_OURS;
}
