/* SPDX-License-Identifier: MIT */
/*
 * The errata of processors that a decoder can work around.
 *
 * A decoder works around an erratum when its bit is set in
 * struct ptah_event_config.errata. ptah_cpu_errata() says which bits a
 * processor needs. Without a known processor none is set.
 *
 * Source: Intel's specification updates.
 */
#ifndef PTAH_ERRATA_H
#define PTAH_ERRATA_H

#include <ptah/cpu.h>

PTAH_BEGIN_DECLS

enum ptah_erratum {
#define PTAH_ERRATUM(name, text, symptom, handling) PTAH_ERRATUM_##name,
#include <ptah/errata.def>
#undef PTAH_ERRATUM
	PTAH_ERRATUM_MAX
};

/* The errata of a processor, 1 << enum ptah_erratum each; 0 when the processor is not known. */
PTAH_API uint32_t ptah_cpu_errata(const struct ptah_cpu *cpu);

/* Intel's name, the symptom, and what a decoder does about it. NULL when out of range. */
PTAH_API const char *ptah_erratum_name(unsigned erratum);
PTAH_API const char *ptah_erratum_symptom(unsigned erratum);
PTAH_API const char *ptah_erratum_handling(unsigned erratum);

/* "skd007,SKL168", "all", "none" as bits. PTAH_E_INVAL with an unknown name. */
PTAH_API int ptah_errata_parse(const char *text, uint32_t *errata);

PTAH_END_DECLS

#endif
