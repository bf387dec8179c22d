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
