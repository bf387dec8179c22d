/* SPDX-License-Identifier: MIT */
/* Instructions decoded with Zydis, and their control-flow class by opcode. */
#include "x86/x86.h"

#include <Zydis/Decoder.h>

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
static unsigned classify_group7(unsigned modrm, ZyanU8 prefix)
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
static unsigned classify_0f(unsigned opcode, unsigned modrm, ZyanU8 prefix)
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

static bool is_string(unsigned opcode)
{
	return (opcode >= 0x6c && opcode <= 0x6f) || (opcode >= 0xa4 && opcode <= 0xa7) ||
	       (opcode >= 0xaa && opcode <= 0xaf);
}

/* The last F2 or F3 before the opcode, 0 without one. */
static ZyanU8 repeat_prefix(const ZydisDecodedInstruction *z)
{
	ZyanU8 prefix = 0;

	for (unsigned i = 0; i < z->raw.prefix_count; i++)
		if (z->raw.prefixes[i].value == 0xf2 || z->raw.prefixes[i].value == 0xf3)
			prefix = z->raw.prefixes[i].value;
	return prefix;
}

static void classify(const ZydisDecodedInstruction *z, uint64_t ip, unsigned mode,
		     struct x86_insn *insn)
{
	unsigned modrm =
	    (unsigned)(z->raw.modrm.mod << 6 | z->raw.modrm.reg << 3 | z->raw.modrm.rm);

	insn->rep = false;
	insn->writes_cr3 = false;
	insn->target = 0;
	insn->insn_class = PTAH_INSN_OTHER;
	if (z->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
		return;
	if (z->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
		insn->insn_class = (uint8_t)classify_default(z->opcode, z->raw.modrm.reg);
		insn->rep = is_string(z->opcode) && repeat_prefix(z);
	} else if (z->opcode_map == ZYDIS_OPCODE_MAP_0F) {
		insn->insn_class = (uint8_t)classify_0f(z->opcode, modrm, repeat_prefix(z));
		insn->writes_cr3 = z->opcode == 0x22 && z->raw.modrm.reg == 3;
	}
	if (insn->insn_class == PTAH_INSN_COND || insn->insn_class == PTAH_INSN_JUMP ||
	    insn->insn_class == PTAH_INSN_CALL) {
		uint64_t target = ip + z->length + (uint64_t)z->raw.imm[0].value.s;

		/* Outside 64-bit mode linear addresses have 32 bits. A 16-bit EIP wraps before the
		 * segment base is added; the base is in no trace, so that wrap is left out. */
		if (mode != PTAH_EXEC_64)
			target &= 0xffffffff;
		insn->target = target;
	}
}

/*
 * Branches of 64-bit mode that Zydis 4.0 does not know: ERETS and ERETU (F2 or F3, then
 * 0F 01 CA), and JMPABS (D5, a REX2 payload with neither M0 nor W, A1, and a 64-bit
 * address; without the prefixes 66, 67, F2 and F3). The target of JMPABS is taken from a
 * TIP, as libipt does.
 */
static int decode_newer(const uint8_t *bytes, size_t n, struct x86_insn *insn)
{
	unsigned at = 0, repeat = 0;
	bool plain = true;

	for (; at < n; at++) {
		const unsigned byte = bytes[at];

		if (byte == 0xf2 || byte == 0xf3)
			repeat = byte;
		else if (byte == 0x66 || byte == 0x67)
			plain = false;
		else if (byte >> 4 != 4 && byte != 0x2e && byte != 0x36 && byte != 0x3e &&
			 byte != 0x26 && byte != 0x64 && byte != 0x65)
			break;
	}
	*insn = (struct x86_insn){.insn_class = PTAH_INSN_FAR_RETURN};
	if (at < n && bytes[at] == 0xd5) {
		if (repeat || !plain || (at && bytes[at - 1] >> 4 == 4 /* REX */) ||
		    (n - at > 1 && bytes[at + 1] & 0x88) || (n - at > 2 && bytes[at + 2] != 0xa1))
			return PTAH_E_BAD_INSN;
		insn->insn_class = PTAH_INSN_JUMP_IND;
		insn->size = (uint8_t)(at + 11);
	} else {
		if (!repeat || n - at < 3 || bytes[at] != 0x0f || bytes[at + 1] != 0x01 ||
		    bytes[at + 2] != 0xca)
			return PTAH_E_BAD_INSN;
		insn->size = (uint8_t)(at + 3);
	}
	if (insn->size > n)
		return n < X86_MAX_SIZE ? PTAH_E_MORE : PTAH_E_BAD_INSN;
	return 0;
}

int x86_decode_any(const uint8_t *bytes, size_t n, uint64_t ip, unsigned mode,
		   struct x86_insn *insn)
{
	static const struct {
		ZydisMachineMode mode;
		ZydisStackWidth width;
	} modes[] = {
	    [PTAH_EXEC_16] = {ZYDIS_MACHINE_MODE_LEGACY_16, ZYDIS_STACK_WIDTH_16},
	    [PTAH_EXEC_32] = {ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32},
	    [PTAH_EXEC_64] = {ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64},
	};
	ZydisDecoder decoder;
	ZydisDecodedInstruction z;
	ZyanStatus status;

	if (mode < PTAH_EXEC_16 || mode > PTAH_EXEC_64)
		return PTAH_E_INVAL;
	if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, modes[mode].mode, modes[mode].width)) ||
	    !ZYAN_SUCCESS(ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE)))
		return PTAH_E_UNSUPPORTED;
	if (n > X86_MAX_SIZE)
		n = X86_MAX_SIZE;
	status = ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, n, &z);
	if (status == ZYDIS_STATUS_NO_MORE_DATA && n < X86_MAX_SIZE)
		return PTAH_E_MORE;
	if (!ZYAN_SUCCESS(status))
		return mode == PTAH_EXEC_64 ? decode_newer(bytes, n, insn) : PTAH_E_BAD_INSN;
	insn->size = z.length;
	classify(&z, ip, mode, insn);
	return 0;
}

int x86_decode(const uint8_t *bytes, size_t n, uint64_t ip, unsigned mode, struct x86_insn *insn)
{
	if (mode == PTAH_EXEC_64 && n >= X86_MAX_SIZE && x86_decode_common(bytes, ip, insn))
		return 0;
	return x86_decode_any(bytes, n, ip, mode, insn);
}
