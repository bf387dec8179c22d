/* SPDX-License-Identifier: MIT */
/* The control-flow class of an instruction, by its opcode, and the target of a direct branch. */
#include "x86/x86.h"

#include <ptah/base.h>

/* FF /2../5 (SDM Vol. 2, opcode extensions, group 5). */
static unsigned classify_group5(unsigned reg)
{
	static const uint8_t classes[8] = {
	    [2] = PTAH_INSN_CALL_IND,
	    [3] = PTAH_INSN_FAR_CALL,
	    [4] = PTAH_INSN_JUMP_IND,
	    [5] = PTAH_INSN_FAR_JUMP,
	};

	return classes[reg & 7];
}

/*
 * One-byte opcodes. INTO is no branch: it goes on, without a packet, or traps, and then a FUP with
 * its own address precedes the TIP, as for an exception.
 */
static unsigned classify_default(unsigned opcode, unsigned reg)
{
	if (opcode >= 0x70 && opcode <= 0x7f)
		return PTAH_INSN_COND;
	switch (opcode) {
	case 0xe0: /* LOOPNE */
	case 0xe1: /* LOOPE */
	case 0xe2: /* LOOP */
	case 0xe3: /* JrCXZ */
		return PTAH_INSN_COND;
	case 0xe9:
	case 0xeb:
		return PTAH_INSN_JUMP;
	case 0xe8:
		return PTAH_INSN_CALL;
	case 0xc2:
	case 0xc3:
		return PTAH_INSN_RETURN;
	case 0x9a: /* CALL ptr16:16/32 */
	case 0xcc: /* INT3 */
	case 0xcd: /* INT n */
	case 0xf1: /* INT1 */
		return PTAH_INSN_FAR_CALL;
	case 0xca:
	case 0xcb:
	case 0xcf: /* IRET */
		return PTAH_INSN_FAR_RETURN;
	case 0xea:
		return PTAH_INSN_FAR_JUMP;
	case 0xff:
		return classify_group5(reg);
	default:
		return PTAH_INSN_OTHER;
	}
}

/* 0F 01 with a register operand: VMX, FRED and user-interrupt returns. */
static unsigned classify_group7(unsigned modrm, unsigned prefix)
{
	switch (modrm) {
	case 0xc1: /* VMCALL */
		return PTAH_INSN_FAR_CALL;
	case 0xc2: /* VMLAUNCH */
	case 0xc3: /* VMRESUME */
		return PTAH_INSN_FAR_RETURN;
	case 0xca: /* ERETS (F2), ERETU (F3); CLAC without */
		return prefix ? PTAH_INSN_FAR_RETURN : PTAH_INSN_OTHER;
	case 0xec: /* UIRET (F3) */
		return prefix == 0xf3 ? PTAH_INSN_FAR_RETURN : PTAH_INSN_OTHER;
	default:
		return PTAH_INSN_OTHER;
	}
}

/* Two-byte opcodes, 0F xx. */
static unsigned classify_0f(unsigned opcode, unsigned modrm, unsigned prefix)
{
	if (opcode >= 0x80 && opcode <= 0x8f)
		return PTAH_INSN_COND;
	switch (opcode) {
	case 0x05: /* SYSCALL */
	case 0x34: /* SYSENTER */
		return PTAH_INSN_FAR_CALL;
	case 0x07: /* SYSRET */
	case 0x35: /* SYSEXIT */
	case 0xaa: /* RSM */
		return PTAH_INSN_FAR_RETURN;
	case 0x01:
		return classify_group7(modrm, prefix);
	case 0xae: /* group 15: PTWRITE is F3 /4 */
		return prefix == 0xf3 && (modrm >> 3 & 7) == 4 ? PTAH_INSN_PTWRITE
							       : PTAH_INSN_OTHER;
	default:
		return PTAH_INSN_OTHER;
	}
}

static unsigned classify(const struct x86_encoding *e)
{
	if (!x86_is_legacy(e))
		return PTAH_INSN_OTHER;
	if (e->map == X86_MAP_0F)
		return classify_0f(e->opcode, e->modrm, e->repeat);
	if (e->map != X86_MAP_ONE)
		return PTAH_INSN_OTHER;
	/* JMPABS: its target is taken from a TIP. */
	if (e->kind == X86_REX2 && e->opcode == 0xa1)
		return PTAH_INSN_JUMP_IND;
	return classify_default(e->opcode, x86_reg(e));
}

/*
 * Outside 64-bit mode linear addresses have 32 bits. A 16-bit EIP wraps before the segment base is
 * added; the base is in no trace, so that wrap is left out.
 */
static uint64_t target_of(const struct x86_encoding *e, const uint8_t *bytes, uint64_t ip,
			  unsigned mode)
{
	const int64_t offset = x86_signed_value(bytes + e->immediate_at, e->immediate_size);
	const uint64_t target = ip + e->size + (uint64_t)offset;

	return mode == PTAH_EXEC_64 ? target : target & 0xffffffff;
}

int x86_decode(const uint8_t *bytes, size_t n, uint64_t ip, unsigned mode, struct x86_insn *insn)
{
	struct x86_encoding e;
	int status;

	if (mode < PTAH_EXEC_16 || mode > PTAH_EXEC_64)
		return PTAH_E_INVAL;
	status = x86_read_encoding(bytes, n, mode, &e);
	if (status < 0)
		return status;
	*insn = (struct x86_insn){.size = e.size, .insn_class = (uint8_t)classify(&e)};
	insn->rep = e.repeat && x86_is_string(&e);
	insn->writes_cr3 =
	    x86_is_legacy(&e) && e.map == X86_MAP_0F && e.opcode == 0x22 && x86_reg(&e) == 3;
	if (insn->insn_class == PTAH_INSN_COND || insn->insn_class == PTAH_INSN_JUMP ||
	    insn->insn_class == PTAH_INSN_CALL)
		insn->target = target_of(&e, bytes, ip, mode);
	return 0;
}
