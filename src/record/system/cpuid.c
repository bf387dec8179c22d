/* SPDX-License-Identifier: MIT */
/*
 * What CPUID returns: QEMU's processor, changed where a driver for Intel PT looks. Without QEMU,
 * so that it can be tested.
 */
#include "record/system/system.h"

#define VERSION	    0x01u
#define FEATURES    0x07u
#define PERFORMANCE 0x0au
#define TRACE	    0x14u
#define CRYSTAL	    0x15u
#define PDCM	    (UINT32_C(1) << 15) /* IA32_PERF_CAPABILITIES exists */
#define INTEL_PT    (UINT32_C(1) << 25)

void system_cpuid(const struct ptah_model *m, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	uint32_t own[4];

	ptah_model_cpuid(m, leaf, subleaf, own);
	switch (leaf) {
	case 0: /* the vendor, and at least so many leaves */
		r[0] = r[0] < CRYSTAL ? CRYSTAL : r[0];
		memcpy(r + 1, own + 1, 3 * sizeof(*r));
		break;
	case VERSION: /* family, model, stepping */
		r[0] = own[0];
		r[2] |= PDCM;
		break;
	case FEATURES:
		if (subleaf == 0)
			r[1] = (r[1] & ~INTEL_PT) | (own[1] & INTEL_PT);
		break;
	case PERFORMANCE:
	case TRACE:
		memcpy(r, own, sizeof(own));
		break;
	case CRYSTAL: /* the ratio alone: QEMU's timers do not run at the crystal's frequency */
		memcpy(r, own, sizeof(own));
		r[2] = 0;
		break;
	default:
		break;
	}
}
