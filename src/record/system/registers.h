/* SPDX-License-Identifier: MIT */
/*
 * The model-specific registers that the plugin adds to QEMU's: those of Intel PT, which the model
 * has, and those of performance monitoring. Without QEMU, so that it can be tested.
 */
#ifndef PTAH_RECORD_SYSTEM_REGISTERS_H
#define PTAH_RECORD_SYSTEM_REGISTERS_H

#include <ptah/model.h>

/* What became of an RDMSR or WRMSR. */
enum system_access {
	SYSTEM_NOT_OURS, /* QEMU carries it out */
	SYSTEM_DONE,
	SYSTEM_FAULTS, /* #GP */
};

/* The number of registers in registers.c's table. */
#define SYSTEM_STORED 32

struct system_registers {
	uint64_t stored[SYSTEM_STORED];
};

void system_registers_init(struct system_registers *r, const struct ptah_model *m);
enum system_access system_rdmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t *value);
enum system_access system_wrmsr(struct system_registers *r, struct ptah_model *m, uint32_t msr,
				uint64_t value);

#endif
