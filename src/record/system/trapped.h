/* SPDX-License-Identifier: MIT */
/* The instructions that the plugin carries out itself. Without QEMU, so that it can be tested. */
#ifndef PTAH_RECORD_SYSTEM_TRAPPED_H
#define PTAH_RECORD_SYSTEM_TRAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum system_trap {
	TRAP_NONE = 0,
	TRAP_CPUID,
	TRAP_RDMSR,
	TRAP_WRMSR,
	TRAP_RDPMC,
	TRAP_PTWRITE,
	TRAP_XSAVES,
	TRAP_XSAVEC,
	TRAP_XRSTORS,
	TRAP_XRSTOR, /* is QEMU's unless the area is in the compacted format */
	TRAP_XSETBV, /* is QEMU's, but the plugin has to know the value */
};

/*
 * Which of them these n bytes are (enum system_trap), as QEMU has read them. `xsaves`: the
 * processor has XSAVES, and so the compacted format. `mode` is an enum
 * ptah_exec_mode.
 */
unsigned system_trap_of(const uint8_t *bytes, size_t n, unsigned mode, bool xsaves);

#endif
