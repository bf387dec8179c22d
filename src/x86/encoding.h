/* SPDX-License-Identifier: MIT */
/*
 * Finds the parts of one x86 instruction, and so its length, in all modes. This needs no mnemonic:
 * prefixes, REX2, VEX, EVEX or XOP, the opcode's map, ModRM, SIB, displacement and immediate say
 * it, so that instructions have a length which were defined after this was written.
 *
 * The opcode maps of one and two bytes are full, and Intel gives their free places a meaning seldom
 * (0F 00, 0F 01, hint NOPs): what is undefined there (#UD) is refused, and so is LOCK where it may
 * not be. In the other maps every opcode has a length, because new instructions come there.
 *
 * Freestanding: the recorder native's runtime uses it inside the recorded program.
 */
#ifndef PTAH_X86_ENCODING_H
#define PTAH_X86_ENCODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define X86_MAX_SIZE 15

enum x86_encoding_kind {
	X86_LEGACY = 0,
	X86_REX2,
	X86_VEX2,
	X86_VEX3,
	X86_EVEX,
	X86_XOP
};

/* Opcode maps. VEX, EVEX and XOP have others by number; with VEX and EVEX these are the same. */
enum x86_map {
	X86_MAP_ONE = 0,
	X86_MAP_0F,
	X86_MAP_0F38,
	X86_MAP_0F3A,
	X86_MAP_4 /* EVEX: instructions of the first three maps with the operands of APX */
};

/* x86_encoding.extended: REX, or the bits of REX2, VEX and EVEX with the same meaning. */
#define X86_EXTEND_B  0x01
#define X86_EXTEND_X  0x02
#define X86_EXTEND_R  0x04
#define X86_EXTEND_W  0x08
#define X86_EXTEND_B4 0x10 /* registers 16 to 31 */
#define X86_EXTEND_X4 0x20
#define X86_EXTEND_R4 0x40

struct x86_encoding {
	uint8_t size;	  /* 1..15 */
	uint8_t kind;	  /* enum x86_encoding_kind */
	uint8_t map;	  /* enum x86_map, or the number of another one */
	uint8_t opcode;	  /* its last byte */
	uint8_t prefixes; /* number of legacy prefix bytes before REX .. XOP, or the opcode */
	uint8_t rex;	  /* the REX byte that counts; 0: none */
	uint8_t extended; /* X86_EXTEND_... */
	uint8_t repeat;	  /* the last F2 or F3; 0: none */
	uint8_t modrm, sib;
	uint8_t vvvv; /* VEX, EVEX, XOP: not inverted, without EVEX.V4 */
	/* Offsets from the first byte; 0: the instruction has no such part. */
	uint8_t opcode_at, modrm_at;
	uint8_t displacement_at, displacement_size; /* of ModRM, or of MOV moffs */
	uint8_t immediate_at, immediate_size;	    /* all of them, and offsets of branches */
	bool operand_66;			    /* or EVEX.pp stands for it, in map 4 */
	bool address_67, lock;
	bool segment_fs, segment_gs; /* the override that counts in 64-bit mode */
	bool rip_relative;	     /* the displacement counts from the next instruction */
};

/*
 * Reads the instruction of which the first n bytes can be read, in a mode of enum ptah_exec_mode
 * that is known. Returns 0, PTAH_E_BAD_INSN, or PTAH_E_MORE: the n < 15 bytes are the beginning of
 * a longer one. On failure *e is unspecified.
 */
int x86_read_encoding(const uint8_t *bytes, size_t n, unsigned mode, struct x86_encoding *e);

/* Writes "0f 01 d5 at 0x401136": n bytes, of which at most X86_MAX_SIZE are shown (name.c). */
#define X86_NAME_MAX (3 * X86_MAX_SIZE + 5 + 16 + 1)
void x86_name(char name[X86_NAME_MAX], const uint8_t *bytes, size_t n, uint64_t ip);

/* Whether ModRM has an operand in memory. */
static inline bool x86_has_memory(const struct x86_encoding *e)
{
	return e->modrm_at && e->modrm < 0xc0;
}

/* ModRM.reg, without its extensions. */
static inline unsigned x86_reg(const struct x86_encoding *e)
{
	return e->modrm >> 3 & 7;
}

static inline bool x86_is_legacy(const struct x86_encoding *e)
{
	return e->kind <= X86_REX2;
}

/* INS, OUTS, MOVS, CMPS, STOS, LODS, SCAS: with F2 or F3 they are carried out again and again. */
static inline bool x86_is_string(const struct x86_encoding *e)
{
	return x86_is_legacy(e) && e->map == X86_MAP_ONE &&
	       ((e->opcode >= 0x6c && e->opcode <= 0x6f) ||
		(e->opcode >= 0xa4 && e->opcode <= 0xa7) ||
		(e->opcode >= 0xaa && e->opcode <= 0xaf));
}

/* The n bytes at `at` as a signed number. */
static inline int64_t x86_signed_value(const uint8_t *at, unsigned n)
{
	uint64_t v = 0;

	if (!n)
		return 0;
	for (unsigned i = 0; i < n; i++)
		v |= (uint64_t)at[i] << 8 * i;
	return n >= 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * n)) >> (64 - 8 * n);
}

#endif
