/* SPDX-License-Identifier: MIT */
/*
 * Proves of the decoder of instructions (src/x86/): an instruction has the size that Zydis says, if
 * Zydis knows it; its parts lie within it; a part of it is not all of it, and what comes after it
 * does not matter.
 *
 * Input: a byte that selects the mode, and bytes of code.
 */
#include "fuzz.h"

#include "x86/x86.h"

#include <Zydis/Decoder.h>

static void init_decoder(ZydisDecoder *decoder, unsigned mode)
{
	const ZydisMachineMode machine = mode == PTAH_EXEC_64	? ZYDIS_MACHINE_MODE_LONG_64
					 : mode == PTAH_EXEC_32 ? ZYDIS_MACHINE_MODE_LEGACY_32
								: ZYDIS_MACHINE_MODE_LEGACY_16;

	CHECK(ZYAN_SUCCESS(ZydisDecoderInit(decoder, machine,
					    mode == PTAH_EXEC_64   ? ZYDIS_STACK_WIDTH_64
					    : mode == PTAH_EXEC_32 ? ZYDIS_STACK_WIDTH_32
								   : ZYDIS_STACK_WIDTH_16)));
}

static void check_parts(const struct x86_encoding *e)
{
	CHECK(e->size && e->size <= X86_MAX_SIZE && e->opcode_at < e->size);
	CHECK(e->modrm_at < e->size && e->prefixes < e->size);
	CHECK(e->displacement_at + e->displacement_size <= e->size);
	CHECK(e->immediate_at + e->immediate_size <= e->size);
}

/* Knights Corner, which never had Intel PT, has encodings that mean something else today. */
static bool is_knc(const ZydisDecodedInstruction *z)
{
	return z->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
	       z->meta.isa_ext == ZYDIS_ISA_EXT_KNC || z->meta.isa_ext == ZYDIS_ISA_EXT_KNCE ||
	       z->meta.isa_ext == ZYDIS_ISA_EXT_KNCV;
}

static void check_insn(const uint8_t bytes[X86_MAX_SIZE], unsigned mode)
{
	uint8_t other[X86_MAX_SIZE];
	ZydisDecodedInstruction z;
	struct x86_encoding e;
	struct x86_insn insn;
	ZydisDecoder decoder;
	int status = x86_read_encoding(bytes, X86_MAX_SIZE, mode, &e);
	bool known;

	init_decoder(&decoder, mode);
	known =
	    ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, X86_MAX_SIZE, &z)) &&
	    !is_knc(&z);
	CHECK(!status || (status == PTAH_E_BAD_INSN && !known));
	CHECK(x86_decode(bytes, X86_MAX_SIZE, 0, mode, &insn) == status);
	if (status)
		return;
	check_parts(&e);
	CHECK(insn.size == e.size && insn.insn_class < PTAH_INSN_CLASS_MAX);
	CHECK(!known || e.size == z.length);
	for (size_t n = 0; n < insn.size; n++)
		CHECK(x86_decode(bytes, n, 0, mode, &insn) == PTAH_E_MORE);
	memset(other, 0xff, sizeof(other));
	memcpy(other, bytes, e.size);
	CHECK(!x86_decode(other, X86_MAX_SIZE, 0, mode, &insn) && insn.size == e.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[X86_MAX_SIZE] = {0};

	if (!size)
		return 0;
	memcpy(bytes, data + 1, size - 1 < sizeof(bytes) ? size - 1 : sizeof(bytes));
	check_insn(bytes, PTAH_EXEC_16 + data[0] % 3);
	return 0;
}
