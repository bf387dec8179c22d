/* SPDX-License-Identifier: MIT */
/*
 * A processor made of a CPUID table and a few MSRs: the part of a HAL that
 * discovery needs. It counts reads that should not happen. Above the highest
 * basic leaf it returns that leaf's values, as Intel's processors do (SDM
 * volume 2, "CPUID"), so that a test notices when they are believed.
 */
#ifndef PTAH_TESTS_ENGINE_CPUID_TABLE_H
#define PTAH_TESTS_ENGINE_CPUID_TABLE_H

#include <ptah/engine/caps.h>

#include <string.h>

#define CPUID_ROWS 16

struct cpuid_table {
	struct {
		uint32_t leaf, subleaf, r[4];
	} rows[CPUID_ROWS];
	size_t count;
	uint32_t highest, highest_extended;
	bool gp_platform_info, gp_vmx_misc, gp_ctl;
	bool in_vmx;
	uint64_t platform_info, vmx_misc, ctl;
	unsigned unannounced; /* reads of MSRs that CPUID does not announce */
	unsigned writes;
};

static inline void cpuid_put(struct cpuid_table *t, uint32_t leaf, uint32_t subleaf, uint32_t eax,
			     uint32_t ebx, uint32_t ecx, uint32_t edx)
{
	size_t i = 0;

	while (i < t->count && (t->rows[i].leaf != leaf || t->rows[i].subleaf != subleaf))
		i++;
	t->count += i == t->count;
	t->rows[i].leaf = leaf;
	t->rows[i].subleaf = subleaf;
	t->rows[i].r[0] = eax;
	t->rows[i].r[1] = ebx;
	t->rows[i].r[2] = ecx;
	t->rows[i].r[3] = edx;
}

static inline void cpuid_get(void *port, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	const struct cpuid_table *t = port;

	memset(r, 0, 16);
	if (leaf < 0x80000000 ? leaf > t->highest : leaf > t->highest_extended)
		leaf = t->highest;
	for (size_t i = 0; i < t->count; i++)
		if (t->rows[i].leaf == leaf && t->rows[i].subleaf == subleaf)
			memcpy(r, t->rows[i].r, 16);
}

static inline int msr_get(void *port, uint32_t msr, uint64_t *value)
{
	struct cpuid_table *t = port;
	uint32_t one[4], seven[4];
	bool gp = true;

	cpuid_get(t, 1, 0, one);
	cpuid_get(t, 7, 0, seven);
	switch (msr) {
	case 0xce:
		gp = t->gp_platform_info;
		*value = t->platform_info;
		break;
	case 0x485:
		t->unannounced += !(one[2] & 1 << 5);
		gp = t->gp_vmx_misc;
		*value = t->vmx_misc;
		break;
	case 0x570:
		t->unannounced += !(seven[1] & 1 << 25) || t->highest < 7;
		gp = t->gp_ctl;
		*value = t->ctl;
		break;
	default:
		t->unannounced++;
	}
	return gp ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static inline int msr_put(void *port, uint32_t msr, uint64_t value)
{
	(void)msr;
	(void)value;
	((struct cpuid_table *)port)->writes++;
	return PTAH_OK;
}

static inline bool vmx_get(void *port)
{
	return ((const struct cpuid_table *)port)->in_vmx;
}

/* The callbacks that discovery may use; the others crash. */
static const struct ptah_hal cpuid_hal = {
    .size = sizeof(cpuid_hal),
    .rdmsr = msr_get,
    .wrmsr = msr_put,
    .cpuid = cpuid_get,
    .in_vmx = vmx_get,
};

/* Skylake client, 06_5EH: CPUID as recorded on such a processor. */
static inline void cpuid_skylake(struct cpuid_table *t)
{
	memset(t, 0, sizeof(*t));
	t->highest = 0x16;
	t->highest_extended = 0x80000008;
	cpuid_put(t, 0, 0, 0x16, 0x756e6547, 0x6c65746e, 0x49656e69);
	cpuid_put(t, 1, 0, 0x000506e3, 0x00100800, 0x7ffafbbf, 0xbfebfbff);
	cpuid_put(t, 7, 0, 0, 0x029c6fbf, 0, 0);
	cpuid_put(t, 0xd, 1, 0xf, 0, 0x100, 0);
	cpuid_put(t, 0x14, 0, 1, 0xf, 7, 0);
	cpuid_put(t, 0x14, 1, 0x02490002, 0x003f3fff, 0, 0);
	cpuid_put(t, 0x15, 0, 2, 0x11c, 0, 0);
	cpuid_put(t, 0x16, 0, 0xd48, 0xfa0, 0x64, 0);
	cpuid_put(t, 0x80000000, 0, 0x80000008, 0, 0, 0);
	cpuid_put(t, 0x80000008, 0, 0x3027, 0, 0, 0);
	t->platform_info = 0x2200;
	t->vmx_misc = 1 << 14;
}

#endif
