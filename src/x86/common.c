/* SPDX-License-Identifier: MIT */
/*
 * The most frequent instructions of 64-bit mode, decoded by tables. That is faster than
 * Zydis, which finds out much more about each than is needed here. Instructions that are
 * not in the tables, or valid only in some forms, are left to Zydis; a test compares all
 * the others with it.
 */
#include "x86/x86.h"

#include "base/bits.h"

/* What follows an opcode, and which prefix it may have. */
enum {
	NONE = 1 << 0, /* without 66, F2, F3 */
	P66 = 1 << 1,
	PF2 = 1 << 2,
	PF3 = 1 << 3,
	MODRM = 1 << 4,
	IMM8 = 1 << 5,
	IMMZ = 1 << 6,	/* 4 bytes, or 2 with an operand size of 16 bits */
	OTHER = 1 << 7, /* a branch, or a group: see settle() */

	__ = 0, /* left to Zydis */
	Op = NONE | P66,
	M_ = NONE | P66 | MODRM,
	MB = NONE | P66 | MODRM | IMM8,
	MZ = NONE | P66 | MODRM | IMMZ,
	Ib = NONE | P66 | IMM8,
	Iz = NONE | P66 | IMMZ,
	Jb = NONE | IMM8 | OTHER,
	Jz = NONE | IMMZ | OTHER,
	Re = NONE | OTHER,
	Gr = NONE | MODRM | OTHER,
	Gb = NONE | P66 | MODRM | IMM8 | OTHER,
	Gz = NONE | P66 | MODRM | IMMZ | OTHER,
	O1 = NONE,
	M1 = NONE | MODRM,
	M2 = P66 | MODRM,
	M3 = PF3 | MODRM,
	Ms = PF2 | PF3 | MODRM, /* scalars */
	Mp = M_ | PF3,
	Ma = M_ | PF2 | PF3,
	M9 = M1 | PF3,
	Md = M1 | PF2 | PF3,
	Me = M2 | PF2 | PF3,
	Ba = MB | PF2 | PF3,
};

/* clang-format off */
static const uint8_t one_byte[256] = {
	M_, M_, M_, M_, Ib, Iz, __, __, M_, M_, M_, M_, Ib, Iz, __, __, /* ADD, OR */
	M_, M_, M_, M_, Ib, Iz, __, __, M_, M_, M_, M_, Ib, Iz, __, __, /* ADC, SBB */
	M_, M_, M_, M_, Ib, Iz, __, __, M_, M_, M_, M_, Ib, Iz, __, __, /* AND, SUB */
	M_, M_, M_, M_, Ib, Iz, __, __, M_, M_, M_, M_, Ib, Iz, __, __, /* XOR, CMP */
	__, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, /* REX */
	Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, /* PUSH, POP */
	__, __, __, M_, __, __, __, __, Iz, MZ, Ib, MB, __, __, __, __, /* 63 MOVSXD, IMUL */
	Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, Jb, /* Jcc */
	MB, MZ, __, MB, M_, M_, M_, M_, M_, M_, M_, M_, __, Gr, __, __, /* 8D LEA */
	Op, Op, Op, Op, Op, Op, Op, Op, Op, Op, __, __, __, __, __, __, /* XCHG, CBW, CWD */
	__, __, __, __, __, __, __, __, Ib, Iz, __, __, __, __, __, __, /* TEST */
	Ib, Ib, Ib, Ib, Ib, Ib, Ib, Ib, Iz, Iz, Iz, Iz, Iz, Iz, Iz, Iz, /* MOV */
	MB, MB, __, Re, __, __, Gb, Gz, __, Op, __, __, __, __, __, __, /* C3 RET, C9 LEAVE */
	M_, M_, M_, M_, __, __, __, __, __, __, __, __, __, __, __, __, /* shifts */
	__, __, __, __, __, __, __, __, Jz, Jz, __, Jb, __, __, __, __, /* CALL, JMP */
	__, __, __, __, __, __, Gb, Gz, __, __, __, __, __, __, Gr, Gr, /* groups 3, 4, 5 */
};

/* After 0F. */
static const uint8_t two_bytes[256] = {
	__, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __,
	Ma, Ma, Md, __, M_, M_, M9, __, __, __, __, __, __, __, M3, M_, /* 1E ENDBR, 1F NOP */
	__, __, __, __, __, __, __, __, M_, M_, Ms, __, Ms, Ms, M_, M_,
	__, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __,
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* CMOVcc */
	__, Ma, M9, M9, M_, M_, M_, M_, Ma, Ma, Ma, Mp, Ma, Ma, Ma, Ma,
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M2, M2, M_, Mp,
	Ba, __, __, __, M_, M_, M_, __, __, __, __, __, __, __, Mp, Mp,
	Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, Jz, /* Jcc */
	M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, M1, /* SETcc */
	__, __, __, M_, MB, M_, __, __, __, __, __, M_, MB, M_, __, M_, /* BT, SHLD, SHRD, IMUL */
	M_, M_, __, M_, __, __, M_, M_, M3, __, Gb, M_, Mp, Mp, M_, M_, /* MOVZX, MOVSX */
	M_, M_, Ba, __, __, __, MB, __, O1, O1, O1, O1, O1, O1, O1, O1, /* XADD, BSWAP */
	__, M_, M_, M_, M_, M_, M2, __, M_, M_, M_, M_, M_, M_, M_, M_,
	M_, M_, M_, M_, M_, M_, Me, __, M_, M_, M_, M_, M_, M_, M_, M_,
	__, M_, M_, M_, M_, M_, M_, __, M_, M_, M_, M_, M_, M_, M_, __,
};
/* clang-format on */

/* The instruction as far as it is known. */
struct parse {
	const uint8_t *modrm; /* or whatever follows the opcode */
	unsigned opcode;      /* + 100H after 0F */
	unsigned shape;	      /* what follows it */
};

/* Bytes of ModRM, SIB and displacement. */
static unsigned modrm_size(const uint8_t *p)
{
	const unsigned mod = p[0] >> 6, rm = p[0] & 7;
	const unsigned base = rm == 4 ? p[1] & 7 : rm;
	const unsigned size = 1 + (rm == 4);

	if (mod == 3)
		return 1;
	if (mod == 1)
		return size + 1;
	return size + (mod == 2 || base == 5 ? 4 : 0);
}

/* Group 5: FF. */
static bool settle_group5(struct parse *in, struct x86_insn *insn)
{
	switch (in->modrm[0] >> 3 & 7) {
	case 0:
	case 1:
	case 6:
		return true;
	case 2:
		insn->insn_class = PTAH_INSN_CALL_IND;
		return true;
	case 4:
		insn->insn_class = PTAH_INSN_JUMP_IND;
		return true;
	default:
		return false;
	}
}

/* Completes what the opcode alone does not say. False when it is left to Zydis. */
static bool settle(struct parse *in, struct x86_insn *insn)
{
	const unsigned reg = in->modrm[0] >> 3 & 7;

	switch (in->opcode) {
	case 0x8d:
		return in->modrm[0] < 0xc0;
	case 0xc3:
		insn->insn_class = PTAH_INSN_RETURN;
		return true;
	case 0xc6:
	case 0xc7:
		return reg == 0;
	case 0xe8:
		insn->insn_class = PTAH_INSN_CALL;
		return true;
	case 0xe9:
	case 0xeb:
		insn->insn_class = PTAH_INSN_JUMP;
		return true;
	case 0xf6:
	case 0xf7:
		if (reg > 1) /* only TEST has an immediate */
			in->shape &= ~(unsigned)(IMM8 | IMMZ);
		return reg != 1;
	case 0xfe:
		return reg < 2;
	case 0xff:
		return settle_group5(in, insn);
	case 0x1ba:
		return reg >= 4;
	default:
		insn->insn_class = PTAH_INSN_COND;
		return true;
	}
}

/* The bit of a table's entry that allows this prefix; NONE when the byte is no prefix. */
static unsigned prefix_bit(unsigned byte)
{
	switch (byte) {
	case 0x66:
		return P66;
	case 0xf2:
		return PF2;
	case 0xf3:
		return PF3;
	default:
		return NONE;
	}
}

static bool is_branch(unsigned insn_class)
{
	return insn_class == PTAH_INSN_COND || insn_class == PTAH_INSN_JUMP ||
	       insn_class == PTAH_INSN_CALL;
}

bool x86_decode_common(const uint8_t *bytes, uint64_t ip, struct x86_insn *insn)
{
	const uint8_t *p = bytes;
	unsigned prefix, rex = 0, imm;
	struct parse in = {.modrm = bytes};

	if (*p == 0x64 || *p == 0x65) /* FS, GS */
		p++;
	prefix = prefix_bit(*p);
	p += prefix != NONE;
	if (*p >> 4 == 4)
		rex = *p++;
	in.opcode = *p == 0x0f ? 0x100u | *++p : *p;
	in.shape = in.opcode & 0x100 ? two_bytes[in.opcode & 0xff] : one_byte[in.opcode];
	if (!(in.shape & prefix))
		return false;
	in.modrm = ++p;
	*insn = (struct x86_insn){.insn_class = PTAH_INSN_OTHER};
	if (in.shape & OTHER && !settle(&in, insn))
		return false;
	if (in.shape & MODRM)
		p += modrm_size(p);
	imm = in.shape & IMM8 ? 1 : in.shape & IMMZ ? (prefix == P66 && !(rex & 8) ? 2 : 4) : 0;
	if (in.opcode >> 3 == 0xb8 >> 3 && rex & 8)
		imm = 8;
	insn->size = (uint8_t)(p - bytes + imm);
	if (is_branch(insn->insn_class))
		insn->target =
		    ip + insn->size +
		    (imm == 1 ? (uint64_t)(int8_t)*p : (uint64_t)(int64_t)(int32_t)load_le32(p));
	return true;
}
