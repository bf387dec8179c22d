/* SPDX-License-Identifier: MIT */
/* What tests that compare decoders with Zydis share: bytes of code, and what is not compared. */
#ifndef PTAH_TESTS_X86_CODE_BYTES_H
#define PTAH_TESTS_X86_CODE_BYTES_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <string.h>

#define CODE_BYTES 15 /* the longest instruction */

static uint64_t random_state = 1;

static inline uint8_t random_byte(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint8_t)(random_state >> 32);
}

static inline void fill(uint8_t *bytes, size_t from)
{
	for (size_t i = from; i < CODE_BYTES; i++)
		bytes[i] = random_byte();
}

/* The i-th of 65,536: each opcode with each ModRM, after n bytes; random bytes follow. */
static inline void fill_opcode(uint8_t *bytes, const uint8_t *before, size_t n, unsigned i)
{
	memcpy(bytes, before, n);
	bytes[n] = (uint8_t)(i >> 8);
	bytes[n + 1] = (uint8_t)i;
	fill(bytes, n + 2);
}

/*
 * Whether it is an instruction of Knights Corner, which never had Intel PT: its encodings mean
 * something else today.
 */
static inline bool is_knc(const ZydisDecodedInstruction *z)
{
	return z->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
	       z->meta.isa_ext == ZYDIS_ISA_EXT_KNC || z->meta.isa_ext == ZYDIS_ISA_EXT_KNCE ||
	       z->meta.isa_ext == ZYDIS_ISA_EXT_KNCV;
}

#endif
