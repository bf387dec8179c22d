/* SPDX-License-Identifier: MIT */
/* Disassembles one instruction with Zydis. */
#include "output/disasm.h"

#include <Zydis/Zydis.h>
#include <stdio.h>

static bool init_decoder(ZydisDecoder *decoder, unsigned mode)
{
	static const ZydisMachineMode modes[] = {
	    [PTAH_EXEC_16] = ZYDIS_MACHINE_MODE_LEGACY_16,
	    [PTAH_EXEC_32] = ZYDIS_MACHINE_MODE_LEGACY_32,
	    [PTAH_EXEC_64] = ZYDIS_MACHINE_MODE_LONG_64,
	};
	static const ZydisStackWidth widths[] = {
	    [PTAH_EXEC_16] = ZYDIS_STACK_WIDTH_16,
	    [PTAH_EXEC_32] = ZYDIS_STACK_WIDTH_32,
	    [PTAH_EXEC_64] = ZYDIS_STACK_WIDTH_64,
	};

	return mode >= PTAH_EXEC_16 && mode <= PTAH_EXEC_64 &&
	       ZYAN_SUCCESS(ZydisDecoderInit(decoder, modes[mode], widths[mode]));
}

unsigned disasm_size(enum ptah_exec_mode mode, const uint8_t *bytes, size_t n)
{
	ZydisDecodedInstruction z;
	ZydisDecoder decoder;

	if (!init_decoder(&decoder, mode) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, n, &z)))
		return 0;
	return z.length;
}

static enum ptah_insn_class class_of(const ZydisDecodedInstruction *z, bool relative)
{
	const bool is_far = z->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR;

	switch (z->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return relative && z->mnemonic != ZYDIS_MNEMONIC_XBEGIN ? PTAH_INSN_COND
									: PTAH_INSN_OTHER;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return is_far ? PTAH_INSN_FAR_JUMP : relative ? PTAH_INSN_JUMP : PTAH_INSN_JUMP_IND;
	case ZYDIS_CATEGORY_CALL:
		return is_far ? PTAH_INSN_FAR_CALL : relative ? PTAH_INSN_CALL : PTAH_INSN_CALL_IND;
	case ZYDIS_CATEGORY_RET:
		return z->mnemonic == ZYDIS_MNEMONIC_RET && !is_far ? PTAH_INSN_RETURN
								    : PTAH_INSN_FAR_RETURN;
	case ZYDIS_CATEGORY_SYSRET:
		return PTAH_INSN_FAR_RETURN;
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_INTERRUPT:
		return PTAH_INSN_FAR_CALL;
	default:
		return PTAH_INSN_OTHER;
	}
}

void disasm_flow(const uint8_t *bytes, size_t n, struct disasm_flow *flow)
{
	ZydisDecodedInstruction z;
	ZydisDecoder decoder;

	*flow = (struct disasm_flow){0};
	if (!init_decoder(&decoder, PTAH_EXEC_64) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, n, &z)))
		return;
	flow->size = z.length;
	flow->insn_class = (uint8_t)class_of(&z, z.raw.imm[0].is_relative);
	flow->condition = z.opcode & 15;
	flow->stops = z.mnemonic == ZYDIS_MNEMONIC_UD2 || z.mnemonic == ZYDIS_MNEMONIC_HLT;
	flow->has_target = z.raw.imm[0].is_relative && flow->insn_class != PTAH_INSN_OTHER;
	flow->displacement = flow->has_target ? z.raw.imm[0].value.s : 0;
}

void disasm(const struct ptah_insn *insn, bool att, char *text, size_t n)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	ZydisFormatter formatter;
	ZydisDecoder decoder;

	snprintf(text, n, "(bad)");
	if (!init_decoder(&decoder, insn->mode) ||
	    !ZYAN_SUCCESS(ZydisFormatterInit(&formatter, att ? ZYDIS_FORMATTER_STYLE_ATT
							     : ZYDIS_FORMATTER_STYLE_INTEL)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, insn->bytes, insn->size, &z, operands)))
		return;
	/* Addresses have the form of the other output: 0x401000, not 0x0000000000401000. */
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_DISP_PADDING,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_IMM_PADDING,
				  ZYDIS_PADDING_DISABLED);
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
		&formatter, &z, operands, z.operand_count_visible, text, n, insn->ip, NULL)))
		snprintf(text, n, "(bad)");
}
