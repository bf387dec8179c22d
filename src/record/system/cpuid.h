/* SPDX-License-Identifier: MIT */
/*
 * What CPUID returns: QEMU's processor, changed where a driver for Intel PT looks. Without QEMU,
 * so that it can be tested.
 */
#ifndef PTAH_RECORD_SYSTEM_CPUID_H
#define PTAH_RECORD_SYSTEM_CPUID_H

#include <ptah/model/model.h>

/*
 * Makes `p`, a named processor, one that QEMU's can be: `sizes` is EAX of QEMU's CPUID leaf
 * 80000008H. QEMU has neither VMX nor XSAVES with TCG; `xsaves`: the plugin carries it out.
 */
void system_cpuid_fit(struct ptah_model_processor *p, uint32_t sizes, bool xsaves);

/* Changes what QEMU answers (r: EAX to EDX) into what the model's processor answers. */
void system_cpuid(const struct ptah_model *m, uint32_t leaf, uint32_t subleaf, uint32_t r[4]);

#endif
