/* SPDX-License-Identifier: MIT */
/* Recognizes the instructions that the plugin carries out itself (trapped.h). */
#include "record/system/trapped.h"

#include <ptah/event.h>

/* The prefixes before an opcode, and what is asked for. */
struct prefixes {
	bool operand, repeat, repeat_not, lock;
	bool xsaves;
};

static bool take_prefix(struct prefixes *p, uint8_t byte, unsigned mode)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64:
	case 0x65:
	case 0x67:
		return true;
	case 0x66:
		return p->operand = true;
	case 0xf0:
		return p->lock = true;
	case 0xf2:
		return p->repeat_not = true;
	case 0xf3:
		return p->repeat = true;
	default:
		return mode == PTAH_EXEC_64 && (byte & 0xf0) == 0x40;
	}
}

/* 0F xx with nothing after it. */
static unsigned plain(uint8_t opcode)
{
	switch (opcode) {
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

/* 0F xx with a ModRM byte, of which QEMU may have read no more. */
static unsigned with_modrm(uint8_t opcode, uint8_t modrm, const struct prefixes *p)
{
	const unsigned reg = modrm >> 3 & 7;
	const bool none = !p->operand && !p->repeat && !p->repeat_not;

	if (opcode == 0xae && reg == 4 && p->repeat && !p->operand && !p->repeat_not)
		return TRAP_PTWRITE;
	if (opcode == 0xae && reg == 5 && modrm < 0xc0 && none && p->xsaves)
		return TRAP_XRSTOR;
	if (opcode == 0x01 && modrm == 0xd1 && none)
		return TRAP_XSETBV;
	if (opcode != 0xc7 || modrm >= 0xc0 || !none)
		return TRAP_NONE;
	return reg == 3	  ? TRAP_XRSTORS
	       : reg == 4 ? TRAP_XSAVEC
	       : reg == 5 ? TRAP_XSAVES
			  : TRAP_NONE;
}

unsigned system_trap_of(const uint8_t *bytes, size_t n, unsigned mode, bool xsaves)
{
	struct prefixes p = {.xsaves = xsaves};

	while (n && take_prefix(&p, *bytes, mode)) {
		bytes++;
		n--;
	}
	if (n < 2 || bytes[0] != 0x0f || p.lock)
		return TRAP_NONE;
	return n == 2 ? plain(bytes[1]) : with_modrm(bytes[1], bytes[2], &p);
}
