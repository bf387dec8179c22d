/* SPDX-License-Identifier: MIT */
/*
 * Processors and their errata.
 *
 * A decoder works around an erratum when its bit is set in
 * struct ptah_event_config.errata; which bits a processor needs is said by
 * ptah_cpu_errata(). With no processor known none is set.
 *
 * Source: Intel's specification updates; SDM "CPUID", leaf 01H, for the numbers.
 */
#ifndef PTAH_CPU_H
#define PTAH_CPU_H

#include <ptah/api.h>
#include <ptah/error.h>

#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

/* Family and model as displayed (CPUID.01H, with the extended fields added). 0/0/0: not known. */
struct ptah_cpu {
	uint16_t family;
	uint8_t model;
	uint8_t stepping;
};

enum ptah_erratum {
#define PTAH_ERRATUM(name, text, symptom, handling) PTAH_ERRATUM_##name,
#include <ptah/errata.def>
#undef PTAH_ERRATUM
	PTAH_ERRATUM_MAX
};

/*
 * Reads "6/158/10", "6/158", or perf's "GenuineIntel,6,158,10". The numbers are
 * decimal, or hexadecimal with 0x. PTAH_E_INVAL when it is none of these;
 * PTAH_E_FOREIGN when perf names another vendor.
 */
PTAH_API int ptah_cpu_parse(const char *text, struct ptah_cpu *cpu);

/* The errata that are known of a processor, 1 << enum ptah_erratum each; 0 when it is not known. */
PTAH_API uint32_t ptah_cpu_errata(const struct ptah_cpu *cpu);

/* Intel's name, the symptom, and what a decoder does about it. NULL when out of range. */
PTAH_API const char *ptah_erratum_name(unsigned erratum);
PTAH_API const char *ptah_erratum_symptom(unsigned erratum);
PTAH_API const char *ptah_erratum_handling(unsigned erratum);

/* "skd007,SKL168", "all", "none" as bits. PTAH_E_INVAL with an unknown name. */
PTAH_API int ptah_errata_parse(const char *text, uint32_t *errata);

PTAH_END_DECLS

#endif
