/* SPDX-License-Identifier: MIT */
/*
 * Which processor: its family, model and stepping. Freestanding.
 *
 * Source: SDM volume 2, "CPUID", leaf 01H.
 */
#ifndef PTAH_CPU_H
#define PTAH_CPU_H

#include <ptah/api.h>
#include <ptah/error.h>

#include <stdint.h>

PTAH_BEGIN_DECLS

/* Family and model as displayed (CPUID.01H, with the extended fields added). 0/0/0: not known. */
struct ptah_cpu {
	uint16_t family;
	uint8_t model;
	uint8_t stepping;
};

/*
 * Reads "6/158/10", "6/158", or perf's "GenuineIntel,6,158,10". The numbers are
 * decimal, or hexadecimal with 0x. PTAH_E_INVAL when the text is none of these;
 * PTAH_E_FOREIGN when perf names another vendor.
 */
PTAH_API int ptah_cpu_parse(const char *text, struct ptah_cpu *cpu);

PTAH_END_DECLS

#endif
