/* SPDX-License-Identifier: MIT */
/*
 * The model-specific registers that the plugin adds to QEMU's: those of Intel PT, which the model
 * has, and those of performance monitoring. Without QEMU, so that it can be tested.
 */
#ifndef PTAH_RECORD_SYSTEM_REGISTERS_H
#define PTAH_RECORD_SYSTEM_REGISTERS_H

#include <ptah/model/model.h>

/* What became of an RDMSR, WRMSR or RDPMC. */
enum system_access {
	SYSTEM_NOT_OURS, /* QEMU carries it out */
	SYSTEM_DONE,
	SYSTEM_FAULTS, /* #GP */
};

#define SYSTEM_COUNTERS 8u /* the most general counters, and the most fixed ones */

/* What CPUID leaf 0AH says of the counters, and the registers. The counters stand still. */
struct system_registers {
	unsigned version, counters, fixed_counters, width;
	uint64_t counter[SYSTEM_COUNTERS], select[SYSTEM_COUNTERS], fixed[SYSTEM_COUNTERS];
	uint64_t offcore[2];
	uint64_t fixed_control, global_control, misc_enable;
};

void system_registers_init(struct system_registers *r, const struct ptah_model *m);
enum system_access system_rdmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t *value);
enum system_access system_wrmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t value);
enum system_access system_rdpmc(const struct system_registers *r, uint32_t index, uint64_t *value);

#endif
