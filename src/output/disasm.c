/* SPDX-License-Identifier: MIT */
/* Disassembles one instruction with Zydis, of which only the text is taken. */
#include "output/disasm.h"

#include "x86/x86.h"

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
	struct x86_insn insn;

	return x86_decode(bytes, n, 0, mode, &insn) < 0 ? 0 : insn.size;
}

void disasm_flow(const uint8_t *bytes, size_t n, struct disasm_flow *flow)
{
	struct x86_encoding e;
	struct x86_insn insn;

	*flow = (struct disasm_flow){0};
	if (x86_decode(bytes, n, 0, PTAH_EXEC_64, &insn) < 0 ||
	    x86_read_encoding(bytes, n, PTAH_EXEC_64, &e) < 0)
		return;
	flow->size = insn.size;
	flow->insn_class = insn.insn_class;
	flow->condition = e.opcode & 15;
	flow->stops =
	    (e.map == X86_MAP_0F && e.opcode == 0x0b) || (e.map == X86_MAP_ONE && e.opcode == 0xf4);
	flow->has_target = insn.insn_class == PTAH_INSN_COND || insn.insn_class == PTAH_INSN_JUMP ||
			   insn.insn_class == PTAH_INSN_CALL;
	flow->displacement = flow->has_target ? (int64_t)(insn.target - insn.size) : 0;
}

/* An instruction that Zydis does not know. */
static void write_bytes(const struct ptah_insn *insn, char *text, size_t n)
{
	int k = snprintf(text, n, "(unknown)");

	for (unsigned i = 0; i < insn->size && (size_t)k + 4 <= n; i++)
		k += snprintf(text + k, n - (size_t)k, " %02x", insn->bytes[i]);
}

static bool format_insn(const struct ptah_insn *insn, bool att, char *text, size_t n)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction z;
	ZydisFormatter formatter;
	ZydisDecoder decoder;

	if (!init_decoder(&decoder, insn->mode) ||
	    !ZYAN_SUCCESS(ZydisFormatterInit(&formatter, att ? ZYDIS_FORMATTER_STYLE_ATT
							     : ZYDIS_FORMATTER_STYLE_INTEL)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, insn->bytes, insn->size, &z, operands)))
		return false;
	/* Addresses have the form of the other output: 0x401000, not 0x0000000000401000. */
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_DISP_PADDING,
				  ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&formatter, ZYDIS_FORMATTER_PROP_IMM_PADDING,
				  ZYDIS_PADDING_DISABLED);
	return ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
	    &formatter, &z, operands, z.operand_count_visible, text, n, insn->ip, NULL));
}

void disasm(const struct ptah_insn *insn, bool att, char *text, size_t n)
{
	if (format_insn(insn, att, text, n))
		return;
	if (disasm_size(insn->mode, insn->bytes, insn->size) == insn->size)
		write_bytes(insn, text, n);
	else
		snprintf(text, n, "(bad)");
}
