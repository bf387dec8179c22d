/* SPDX-License-Identifier: MIT */
/* Recognizes the instructions that the plugin carries out itself (trapped.h). */
#include "record/system/trapped.h"

#include <ptah/event.h>

#include <stdbool.h>

/* A prefix that changes nothing of these instructions. LOCK makes them undefined. */
static bool is_prefix(uint8_t byte, unsigned mode)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x66:
	case 0x67:
	case 0xf2:
	case 0xf3:
		return true;
	default:
		return mode == PTAH_EXEC_64 && (byte & 0xf0) == 0x40;
	}
}

unsigned system_trap_of(const uint8_t *bytes, size_t n, unsigned mode)
{
	while (n > 2 && is_prefix(*bytes, mode)) {
		bytes++;
		n--;
	}
	if (n != 2 || bytes[0] != 0x0f)
		return TRAP_NONE;
	switch (bytes[1]) {
	case 0x30:
		return TRAP_WRMSR;
	case 0x32:
		return TRAP_RDMSR;
	case 0x33:
		return TRAP_RDPMC;
	case 0xa2:
		return TRAP_CPUID;
	default:
		return TRAP_NONE;
	}
}
