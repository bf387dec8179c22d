/* SPDX-License-Identifier: MIT */
/* What CPUID returns (cpuid.h). SDM volume 2, "CPUID". */
#include "record/system/cpuid.h"

#include <string.h>

#define VERSION	    0x01u
#define FEATURES    0x07u
#define PERFORMANCE 0x0au
#define TRACE	    0x14u
#define CRYSTAL	    0x15u
#define FREQUENCIES 0x16u
#define CORE_TYPE   0x1au
#define SIZES	    0x80000008u
#define PDCM	    (UINT32_C(1) << 15) /* leaf 01H, ECX: IA32_PERF_CAPABILITIES exists */
#define INTEL_PT    (UINT32_C(1) << 25) /* leaf 07H, EBX */
#define HYBRID	    (UINT32_C(1) << 15) /* leaf 07H, EDX */

enum {
	EAX,
	EBX,
	ECX,
	EDX
};

void system_cpuid_fit(struct ptah_model_processor *p, uint32_t sizes, bool xsaves)
{
	const uint8_t physical = sizes & 0xff, linear = sizes >> 8 & 0xff;

	if (physical >= 32 && physical < p->physical_bits)
		p->physical_bits = physical;
	p->linear_bits = linear == 57 ? 57 : 48;
	p->vmx = p->vmx_pt = false;
	p->xsaves = p->xsaves && xsaves;
}

/* At least so many leaves that a driver finds what follows. */
static uint32_t last_leaf(const struct ptah_model_processor *p)
{
	if (p->core_type)
		return CORE_TYPE;
	return p->pt ? CRYSTAL : PERFORMANCE;
}

static void replace(uint32_t *word, uint32_t by, uint32_t bits)
{
	*word = (*word & ~bits) | (by & bits);
}

void system_cpuid(const struct ptah_model *m, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	const struct ptah_model_processor *p = ptah_model_processor(m);
	uint32_t own[4] = {0};

	if (leaf <= p->max_leaf || leaf == SIZES)
		ptah_model_cpuid(m, leaf, subleaf, own);
	switch (leaf) {
	case 0: /* the vendor */
		r[EAX] = r[EAX] < last_leaf(p) ? last_leaf(p) : r[EAX];
		memcpy(r + EBX, own + EBX, 3 * sizeof(*r));
		break;
	case VERSION: /* family, model, stepping */
		r[EAX] = own[EAX];
		replace(&r[ECX], p->perfmon ? PDCM : 0, PDCM);
		break;
	case FEATURES:
		if (subleaf == 0) {
			replace(&r[EBX], own[EBX], INTEL_PT);
			replace(&r[EDX], own[EDX], HYBRID);
		}
		break;
	case PERFORMANCE:
	case TRACE:
	case CORE_TYPE:
		memcpy(r, own, sizeof(own));
		break;
	case CRYSTAL: /* the ratio alone: QEMU's timers do not run at the crystal's frequency */
		memcpy(r, own, sizeof(own));
		r[ECX] = 0;
		break;
	case FREQUENCIES:
		memset(r, 0, sizeof(own));
		break;
	case SIZES:
		replace(&r[EAX], own[EAX], 0xffff);
		break;
	default:
		break;
	}
}
