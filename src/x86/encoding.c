/* SPDX-License-Identifier: MIT */
/*
 * The opcode maps (SDM Vol. 2, appendix A, "Opcode Map"; AMD APM Vol. 3, appendix A; Intel APX
 * Architecture Specification, chapter 3), and what settles the few forms that tables cannot say.
 * Tests compare every opcode, prefix and ModRM with Zydis.
 */
#include "x86/encoding.h"

#include <ptah/base.h>
#include <ptah/event.h>

/* With which prefixes an opcode is defined, and what follows it. 0: it is undefined. */
enum {
	NONE = 1 << 0, /* without 66, F2, F3, or where they do not select an instruction */
	P66 = 1 << 1,
	PF2 = 1 << 2,
	PF3 = 1 << 3,
	MODRM = 1 << 4,
	MEMORY = 1 << 5,   /* ModRM names no register */
	REGISTER = 1 << 6, /* ModRM names no memory */
	IMM8 = 1 << 7,
	IMM16 = 1 << 8,
	IMMZ = 1 << 9,	  /* of the operand size, at most 4 bytes */
	IMMV = 1 << 10,	  /* of the operand size */
	MOFFS = 1 << 11,  /* of the address size */
	OFFSET = 1 << 12, /* as IMMZ, but in 64-bit mode always 4 bytes: Intel ignores prefix 66 */
	NO_64 = 1 << 13,  /* undefined in 64-bit mode */
	GROUP = 1 << 14,  /* ModRM says more: check_group() */
	ESCAPE = 1 << 15, /* the opcode, or the next map, comes later: read_escape() */
	IMM32 = 1 << 16,  /* (in no table) */
	IMMEDIATE = IMM8 | IMM16 | IMM32 | IMMZ | IMMV | OFFSET,

	__ = 0,
	O_ = NONE | P66 | PF2 | PF3,
	O6 = O_ | NO_64,
	B_ = O_ | IMM8,
	B6 = B_ | NO_64,
	W_ = O_ | IMM16,
	WB = O_ | IMM16 | IMM8,
	Z_ = O_ | IMMZ,
	V_ = O_ | IMMV,
	A_ = O_ | MOFFS,
	J_ = O_ | OFFSET,
	F_ = O_ | NO_64 | IMM16 | IMMZ, /* far pointers */
	X_ = O_ | ESCAPE,
	M_ = O_ | MODRM,
	MM = M_ | MEMORY,
	MB = M_ | IMM8,
	M6 = MB | NO_64,
	MZ = M_ | IMMZ,
	G_ = M_ | GROUP,
	GB = MB | GROUP,
	GZ = MZ | GROUP,
	/* MMX and SSE: the prefix selects the instruction, in the order none, 66, F2, F3. */
	N_ = NONE,
	NM = NONE | MODRM | MEMORY,
	S_ = NONE | P66 | MODRM,
	SB = S_ | IMM8,
	SG = S_ | GROUP | IMM8 | REGISTER,
	SM = S_ | MEMORY,
	SR = S_ | REGISTER,
	ST = S_ | REGISTER | IMM8,
	S3 = S_ | PF3,
	SS = NONE | PF3 | MODRM,
	D_ = P66 | MODRM,
	DD = P66 | PF2 | MODRM,
	DA = P66 | PF2 | PF3 | MODRM,
	DG = DA | GROUP,
	EM = PF2 | MODRM | MEMORY,
	P3 = PF3 | MODRM,
	HG = NONE | P66 | PF3 | MODRM | GROUP,
	VG = NONE | P66 | PF2 | MODRM | GROUP,
};

/* clang-format off */
static const uint16_t one_byte[256] = {
	M_, M_, M_, M_, B_, Z_, O6, O6, M_, M_, M_, M_, B_, Z_, O6, X_, /* 00: ADD, OR */
	M_, M_, M_, M_, B_, Z_, O6, O6, M_, M_, M_, M_, B_, Z_, O6, O6, /* 10: ADC, SBB */
	M_, M_, M_, M_, B_, Z_, __, O6, M_, M_, M_, M_, B_, Z_, __, O6, /* 20: AND, SUB */
	M_, M_, M_, M_, B_, Z_, __, O6, M_, M_, M_, M_, B_, Z_, __, O6, /* 30: XOR, CMP */
	O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, O6, /* 40: INC, DEC; REX */
	O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, /* 50: PUSH, POP */
	O6, O6, X_, M_, __, __, __, __, Z_, MZ, B_, MB, O_, O_, O_, O_, /* 60; 62: BOUND, EVEX */
	B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, /* 70: Jcc */
	MB, MZ, M6, MB, M_, M_, M_, M_, M_, M_, M_, M_, G_, MM, G_, X_, /* 80; 8F: POP, XOP */
	O_, O_, O_, O_, O_, O_, O_, O_, O_, O_, F_, O_, O_, O_, O_, O_, /* 90 */
	A_, A_, A_, A_, O_, O_, O_, O_, B_, Z_, O_, O_, O_, O_, O_, O_, /* A0 */
	B_, B_, B_, B_, B_, B_, B_, B_, V_, V_, V_, V_, V_, V_, V_, V_, /* B0: MOV */
	MB, MB, W_, O_, X_, X_, GB, GZ, WB, O_, W_, O_, O_, B_, O6, O_, /* C0; C4, C5: LES, LDS, VEX */
	M_, M_, M_, M_, B6, X_, O_, O_, G_, G_, G_, G_, G_, G_, G_, G_, /* D0; D5: AAD, REX2; x87 */
	B_, B_, B_, B_, B_, B_, B_, B_, J_, J_, F_, B_, O_, O_, O_, O_, /* E0 */
	__, O_, __, __, O_, O_, G_, G_, O_, O_, O_, O_, O_, O_, G_, G_, /* F0 */
};

/* After 0F. */
static const uint16_t two_bytes[256] = {
	G_, G_, M_, M_, __, O_, O_, O_, O_, O_, __, O_, __, M_, O_, MB, /* 00; 0F: 3DNow */
	M_, M_, G_, SM, S_, S_, HG, SM, M_, M_, M_, M_, M_, M_, M_, M_, /* 10; 18: hint NOPs */
	G_, G_, G_, G_, __, __, __, __, S_, S_, M_, MM, M_, M_, S_, S_, /* 20 */
	O_, O_, O_, O_, O_, O_, __, N_, X_, __, X_, __, __, __, __, __, /* 30 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 40: CMOVcc */
	SR, M_, SS, SS, S_, S_, S_, S_, M_, M_, M_, S3, M_, M_, M_, M_, /* 50 */
	S_, S_, S_, S_, S_, S_, S_, S_, S_, S_, S_, S_, D_, D_, S_, S3, /* 60 */
	MB, SG, SG, SG, S_, S_, S_, N_, VG, VG, __, __, DD, DD, S3, S3, /* 70 */
	J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, J_, /* 80: Jcc */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 90: SETcc */
	O_, O_, O_, M_, MB, M_, G_, G_, O_, O_, O_, M_, MB, M_, G_, M_, /* A0 */
	M_, M_, MM, M_, MM, MM, M_, M_, P3, M_, GB, M_, M_, M_, M_, M_, /* B0 */
	M_, M_, MB, NM, SB, ST, SB, G_, O_, O_, O_, O_, O_, O_, O_, O_, /* C0; C8: BSWAP */
	DD, S_, S_, S_, S_, S_, DG, SR, S_, S_, S_, S_, S_, S_, S_, S_, /* D0 */
	S_, S_, S_, S_, S_, S_, DA, SM, S_, S_, S_, S_, S_, S_, S_, S_, /* E0 */
	EM, S_, S_, S_, S_, S_, S_, SR, S_, S_, S_, S_, S_, S_, S_, M_, /* F0 */
};
/* clang-format on */

/* The instruction while it is being read. */
struct reading {
	const uint8_t *bytes;
	unsigned n, at;
	unsigned mode;
	struct x86_encoding *e;
};

/* Takes a byte. False: there is none. */
static bool take_byte(struct reading *r, uint8_t *byte)
{
	if (r->at >= r->n)
		return false;
	*byte = r->bytes[r->at++];
	return true;
}

static bool is_long(const struct reading *r)
{
	return r->mode == PTAH_EXEC_64;
}

/* Prefixes */

static bool note_prefix(const struct reading *r, unsigned byte)
{
	struct x86_encoding *e = r->e;

	if ((byte & 0xf0) == 0x40 && is_long(r)) {
		e->rex = (uint8_t)byte;
		return true;
	}
	e->rex = 0;
	switch (byte) {
	case 0x66:
		e->operand_66 = true;
		return true;
	case 0x67:
		e->address_67 = true;
		return true;
	case 0xf2:
	case 0xf3:
		e->repeat = (uint8_t)byte;
		return true;
	case 0xf0:
		e->lock = true;
		return true;
	case 0x64:
	case 0x65: /* the last one counts; those of other segments are ignored */
		e->segment_fs = byte == 0x64;
		e->segment_gs = byte == 0x65;
		return true;
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x26:
		return true;
	default:
		return false;
	}
}

/* Whether this byte can only be an opcode: all prefixes but REX are undefined as opcodes. */
static bool is_opcode(const struct reading *r, unsigned byte)
{
	return one_byte[byte] && !((byte & 0xf0) == 0x40 && is_long(r));
}

/* Takes the prefixes and the byte after them. A REX that does not come last is ignored. */
static bool take_prefixes(struct reading *r, uint8_t *byte)
{
	struct x86_encoding *e = r->e;

	while (take_byte(r, byte)) {
		if (is_opcode(r, *byte) || !note_prefix(r, *byte)) {
			e->prefixes = (uint8_t)(r->at - 1 - (e->rex != 0));
			e->extended = e->rex & 0xf;
			return true;
		}
	}
	return false;
}

/* Operands */

static unsigned address_size(const struct reading *r)
{
	if (is_long(r))
		return r->e->address_67 ? 4 : 8;
	return (r->mode == PTAH_EXEC_32) != r->e->address_67 ? 4 : 2;
}

static unsigned operand_size(const struct reading *r)
{
	if (r->e->extended & X86_EXTEND_W)
		return 8;
	return (r->mode == PTAH_EXEC_16) != r->e->operand_66 ? 2 : 4;
}

static unsigned displacement_16(unsigned mod, unsigned rm)
{
	return mod == 0 ? (rm == 6 ? 2 : 0) : mod;
}

/* Takes ModRM and SIB, and sees how long the displacement is. */
static bool take_modrm(struct reading *r)
{
	struct x86_encoding *e = r->e;
	unsigned mod, rm;

	e->modrm_at = (uint8_t)r->at;
	if (!take_byte(r, &e->modrm))
		return false;
	/* MOV to and from control and debug registers has no operand in memory. */
	if (e->map == X86_MAP_0F && x86_is_legacy(e) && e->opcode >= 0x20 && e->opcode <= 0x23)
		e->modrm |= 0xc0;
	mod = e->modrm >> 6;
	rm = e->modrm & 7;
	if (mod == 3)
		return true;
	if (address_size(r) == 2) {
		e->displacement_size = (uint8_t)displacement_16(mod, rm);
		return true;
	}
	if (rm == 4 && !take_byte(r, &e->sib))
		return false;
	if (mod)
		e->displacement_size = mod == 1 ? 1 : 4;
	else if ((rm == 4 ? e->sib & 7 : rm) == 5)
		e->displacement_size = 4;
	e->rip_relative = is_long(r) && !mod && rm == 5;
	return true;
}

static unsigned immediate_size(const struct reading *r, unsigned form)
{
	unsigned size = (form & IMM8 ? 1 : 0) + (form & IMM16 ? 2 : 0);

	if (form & IMM32)
		size += 4;
	if (form & IMMZ)
		size += operand_size(r) == 2 ? 2 : 4;
	if (form & IMMV)
		size += operand_size(r);
	if (form & OFFSET)
		size += is_long(r) || operand_size(r) != 2 ? 4 : 2;
	return size;
}

/* Takes displacement and immediate, and closes the instruction. */
static int read_operand_bytes(struct reading *r, unsigned form)
{
	struct x86_encoding *e = r->e;

	if (form & MOFFS)
		e->displacement_size = (uint8_t)address_size(r);
	if (e->displacement_size)
		e->displacement_at = (uint8_t)r->at;
	r->at += e->displacement_size;
	if (form & IMMEDIATE) {
		e->immediate_at = (uint8_t)r->at;
		e->immediate_size = (uint8_t)immediate_size(r, form);
		r->at += e->immediate_size;
	}
	if (r->at > X86_MAX_SIZE)
		return PTAH_E_BAD_INSN;
	e->size = (uint8_t)r->at;
	return r->at > r->n ? PTAH_E_MORE : 0;
}

/* What is undefined */

/* Bit n: an operand in memory with ModRM.reg = n; bit 8 + n: one in a register. */
#define FORMS(memory, registers) ((memory) | (registers) << 8)

/* x87: also of which registers. */
static bool is_x87_defined(const struct x86_encoding *e)
{
	static const uint8_t memory[8] = {0xff, 0xfd, 0xff, 0xaf, 0xff, 0xdf, 0xff, 0xff};
	static const uint64_t registers[8] = {
	    UINT64_C(0xffffffffffffffff), UINT64_C(0xffff7f33ff01ffff),
	    UINT64_C(0x00000200ffffffff), UINT64_C(0x00ffff1fffffffff),
	    UINT64_C(0xffffffffffffffff), UINT64_C(0x0000ffffffffffff),
	    UINT64_C(0xffffffff02ffffff), UINT64_C(0x00ffff01ffffffff),
	};

	return x86_has_memory(e) ? memory[e->opcode & 7] >> x86_reg(e) & 1
				 : registers[e->opcode & 7] >> (e->modrm & 0x3f) & 1;
}

static unsigned forms_of_one_byte(const struct x86_encoding *e)
{
	switch (e->opcode) {
	case 0x8c:
		return FORMS(0x3f, 0x3f);
	case 0x8e: /* MOV to CS */
		return FORMS(0x3d, 0x3d);
	case 0x8f:
		return FORMS(0x01, 0x01);
	case 0xc6: /* XABORT, XBEGIN */
	case 0xc7:
		return FORMS(0x01, e->modrm == 0xf8 ? 0x81 : 0x01);
	case 0xfe:
		return FORMS(0x03, 0x03);
	case 0xff: /* far branches have their target in memory */
		return FORMS(0x7f, 0x57);
	default:
		return is_x87_defined(e) ? FORMS(0xff, 0xff) : 0;
	}
}

/* 0F AE: states of the processor, fences, PTWRITE, shadow stacks. */
static unsigned forms_of_group_15(const struct x86_encoding *e)
{
	if (e->repeat == 0xf2)
		return FORMS(0x00, 0x40);
	if (e->repeat)
		return FORMS(0x50, 0x7f);
	if (e->operand_66)
		return FORMS(0xc0, 0x40);
	return FORMS(e->kind == X86_REX2 ? 0x8f : 0xff, 0xe0);
}

/* VMREAD, VMWRITE; with a prefix EXTRQ and INSERTQ of AMD. */
static unsigned forms_of_vmread(const struct x86_encoding *e)
{
	if (!e->repeat && !e->operand_66)
		return FORMS(0xff, 0xff);
	return FORMS(0x00, e->opcode == 0x78 && !e->repeat ? 0x01 : 0xff);
}

static unsigned forms_of_two_bytes(const struct x86_encoding *e)
{
	switch (e->opcode) {
	case 0x00: /* LKGS */
		return e->repeat == 0xf2 ? FORMS(0x7f, 0x7f) : FORMS(0x3f, 0x3f);
	case 0x01: /* RSTORSSP */
		return FORMS(e->repeat == 0xf3 ? 0xff : 0xdf, 0xff);
	case 0x12:
	case 0x16:
		return FORMS(0xff, e->operand_66 && !e->repeat ? 0x00 : 0xff);
	case 0x20: /* CR0, 2, 3, 4, 8 */
	case 0x22:
		return FORMS(0, e->extended & X86_EXTEND_R4  ? 0x00
				: e->extended & X86_EXTEND_R ? 0x01
							     : 0x1d);
	case 0x21: /* DR0 to DR7 */
	case 0x23:
		return FORMS(0, e->extended & (X86_EXTEND_R | X86_EXTEND_R4) ? 0x00 : 0xff);
	case 0x71:
	case 0x72:
		return FORMS(0x00, 0x54);
	case 0x73:
		return FORMS(0x00, e->operand_66 ? 0xcc : 0x44);
	case 0x78:
	case 0x79:
		return forms_of_vmread(e);
	case 0xa6: /* of VIA */
	case 0xa7:
		return FORMS(0x00, e->modrm & 7 ? 0x00 : e->opcode == 0xa6 ? 0x07 : 0x3f);
	case 0xae:
		return forms_of_group_15(e);
	case 0xba:
		return FORMS(0xf0, 0xf0);
	case 0xc7:
		return FORMS(e->kind == X86_REX2 ? 0xc2 : 0xfa, 0xc0);
	default: /* D6: MOVQ2DQ, MOVDQ2Q */
		return FORMS(e->repeat ? 0x00 : 0xff, 0xff);
	}
}

/* Whether the instruction may have LOCK: it reads, changes and writes memory. */
static bool may_be_locked(const struct x86_encoding *e)
{
	const unsigned opcode = e->opcode, reg = x86_reg(e);

	if (!x86_has_memory(e))
		return false;
	if (e->map == X86_MAP_0F)
		return opcode == 0xab || opcode == 0xb3 || opcode == 0xbb || opcode == 0xb0 ||
		       opcode == 0xb1 || opcode == 0xc0 || opcode == 0xc1 ||
		       (opcode == 0xba && reg >= 5) || (opcode == 0xc7 && reg == 1);
	if (e->map != X86_MAP_ONE)
		return false;
	if (opcode < 0x38)
		return (opcode & 7) < 2;
	switch (opcode) {
	case 0x80 ... 0x83:
		return reg != 7;
	case 0x86:
	case 0x87:
		return true;
	case 0xf6:
	case 0xf7:
		return reg == 2 || reg == 3;
	case 0xfe:
	case 0xff:
		return reg < 2;
	default:
		return false;
	}
}

/* The bit of a table's entry for the prefix that selects the instruction. */
static unsigned prefix_bit(const struct x86_encoding *e)
{
	if (e->repeat)
		return e->repeat == 0xf2 ? PF2 : PF3;
	return e->operand_66 ? P66 : NONE;
}

/* F6, F7: TEST alone of its group has an immediate. */
static unsigned form_of_test(const struct x86_encoding *e, unsigned form)
{
	return x86_reg(e) > 1 ? form : form | (e->opcode == 0xf6 ? IMM8 : IMMZ);
}

/* What ModRM says of an opcode's form. 0: this one is undefined. */
static unsigned check_group(const struct x86_encoding *e, unsigned form)
{
	const unsigned bit = x86_reg(e) + (x86_has_memory(e) ? 0 : 8);

	if ((e->map == X86_MAP_ONE || e->map == X86_MAP_4) && (e->opcode | 1) == 0xf7)
		return form_of_test(e, form);
	if (!((e->map == X86_MAP_ONE ? forms_of_one_byte(e) : forms_of_two_bytes(e)) >> bit & 1))
		return 0;
	if (e->map == X86_MAP_0F && e->opcode == 0x78 && (e->repeat || e->operand_66))
		return form | IMM16; /* two of 8 bits */
	return form;
}

/* Escapes */

static int read_0f(struct reading *r, unsigned *form)
{
	struct x86_encoding *e = r->e;

	e->map = X86_MAP_0F;
	if (!take_byte(r, &e->opcode))
		return PTAH_E_MORE;
	*form = two_bytes[e->opcode];
	if (*form & ESCAPE) {
		e->map = e->opcode == 0x38 ? X86_MAP_0F38 : X86_MAP_0F3A;
		*form = e->map == X86_MAP_0F38 ? M_ : MB;
		if (!take_byte(r, &e->opcode))
			return PTAH_E_MORE;
	}
	return 0;
}

/*
 * JMPABS has neither REX2.W nor the prefixes 66, 67, F2 and F3. Otherwise no REX2 stands before
 * the rows of the maps in which extended registers have no use, 3DNow and opcodes that are escapes.
 * XSAVE, XRSTOR and their kin have none, either: see the groups.
 */
static unsigned form_with_rex2(const struct x86_encoding *e)
{
	const unsigned row = e->opcode >> 4;

	if (e->map == X86_MAP_0F)
		return row == 3 || row == 8 || e->opcode == 0x0f ? 0 : two_bytes[e->opcode];
	if (e->opcode == 0xa1 && !(e->extended & X86_EXTEND_W) && !e->repeat && !e->operand_66 &&
	    !e->address_67)
		return O_ | MOFFS;
	if (row == 4 || row == 7 || row == 0xa || row == 0xe)
		return 0;
	return e->opcode == 0x8f ? G_ : one_byte[e->opcode] & ESCAPE ? 0 : one_byte[e->opcode];
}

static int read_rex2(struct reading *r, unsigned *form)
{
	struct x86_encoding *e = r->e;
	uint8_t payload;

	if (e->rex)
		return PTAH_E_BAD_INSN;
	if (!take_byte(r, &payload) || !take_byte(r, &e->opcode))
		return PTAH_E_MORE;
	e->kind = X86_REX2;
	e->map = payload & 0x80 ? X86_MAP_0F : X86_MAP_ONE;
	e->extended = payload & 0x7f;
	*form = form_with_rex2(e);
	return 0;
}

/* What follows an opcode of the first map of VEX and EVEX. */
static unsigned form_of_vector_0f(unsigned opcode)
{
	return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
		       (opcode >= 0xc4 && opcode <= 0xc6)
		   ? MB
		   : M_;
}

/* ... of the maps whose opcodes all have the same form. 0: there is no such map. */
static unsigned form_of_map(const struct reading *r)
{
	switch (r->e->map) {
	case X86_MAP_0F38:
	case 5:
	case 6:
		return M_;
	case X86_MAP_0F3A:
		return MB;
	case 7: /* URDMSR, UWRMSR: the number of the register */
		return is_long(r) ? M_ | IMM32 : 0;
	default:
		return 0;
	}
}

/*
 * The first map of VEX is as full as the map after 0F: what is undefined there has no form. Row by
 * row, bit n is the opcode's low half.
 */
static unsigned form_with_vex(const struct reading *r)
{
	static const uint16_t defined[16] = {0, 0x00ff, 0xff00, 0, 0x0cf6, 0xffff, 0xffff, 0xf0ff,
					     0, 0x030f, 0x4000, 0, 0x0074, 0xffff, 0xffff, 0x7fff};
	const unsigned opcode = r->e->opcode;

	if (r->e->map != X86_MAP_0F)
		return form_of_map(r);
	if (opcode == 0x77) /* VZEROUPPER */
		return O_;
	return defined[opcode >> 4] >> (opcode & 15) & 1 ? form_of_vector_0f(opcode) : 0;
}

/* APX: the instructions of the legacy maps. */
static unsigned form_with_evex_4(const struct x86_encoding *e)
{
	switch (e->opcode) {
	case 0x24: /* SHLD, SHRD */
	case 0x2c:
	case 0x6b: /* IMUL */
	case 0x80: /* ADD .. XOR, CCMP */
	case 0x83:
	case 0xc0: /* shifts */
	case 0xc1:
	case 0xd4: /* SHA1RNDS4 */
		return MB;
	case 0x69: /* IMUL */
	case 0x81: /* ADD .. XOR, CCMP */
		return MZ;
	case 0xf6: /* TEST, CTEST */
	case 0xf7:
		return G_;
	default:
		return M_;
	}
}

static unsigned form_with_evex(const struct reading *r)
{
	const struct x86_encoding *e = r->e;

	if (e->map == X86_MAP_0F)
		return form_of_vector_0f(e->opcode);
	if (e->map == X86_MAP_4)
		return is_long(r) ? form_with_evex_4(e) : 0;
	return form_of_map(r);
}

static unsigned form_with_xop(const struct x86_encoding *e)
{
	return e->map == 8 ? MB : e->map == 9 ? M_ : e->map == 10 ? M_ | IMM32 : 0;
}

static unsigned vector_form(const struct reading *r)
{
	if (r->e->kind == X86_EVEX)
		return form_with_evex(r);
	return r->e->kind == X86_XOP ? form_with_xop(r->e) : form_with_vex(r);
}

/* The three bits R, X and B are stored inverted, and so are R4, X4 and the register vvvv. */
static int read_vector(struct reading *r, unsigned kind, unsigned *form)
{
	struct x86_encoding *e = r->e;
	static const uint8_t repeats[4] = {0, 0, 0xf3, 0xf2}; /* that EVEX.pp stands for */
	uint8_t p[3] = {0};
	const unsigned n = kind == X86_VEX2 ? 1 : kind == X86_EVEX ? 3 : 2, last = n == 1 ? 0 : 1;

	if (e->operand_66 || e->lock || e->repeat || e->rex)
		return PTAH_E_BAD_INSN;
	for (unsigned i = 0; i < n; i++)
		if (!take_byte(r, &p[i]))
			return PTAH_E_MORE;
	if (!take_byte(r, &e->opcode))
		return PTAH_E_MORE;
	e->kind = (uint8_t)kind;
	e->map = n == 1 ? X86_MAP_0F : p[0] & (n == 3 ? 7 : 31);
	e->extended = (uint8_t)(~p[0] >> 5 & (n == 1 ? X86_EXTEND_R : 7));
	e->vvvv = ~p[last] >> 3 & 15;
	if (n > 1 && p[1] & 0x80)
		e->extended |= X86_EXTEND_W;
	if (n == 3)
		e->extended |=
		    (uint8_t)((p[0] & 8 ? X86_EXTEND_B4 : 0) | (p[0] & 0x10 ? 0 : X86_EXTEND_R4) |
			      (p[1] & 4 ? 0 : X86_EXTEND_X4));
	if (n == 3 && e->map == X86_MAP_4) {
		e->operand_66 = (p[1] & 3) == 1;
		e->repeat = repeats[p[1] & 3];
	}
	*form = vector_form(r);
	return 0;
}

/* A byte that has several meanings, which the mode and the next byte tell apart. */
static int read_escape(struct reading *r, unsigned *form)
{
	const unsigned byte = r->e->opcode;
	uint8_t next;

	if (byte == 0x0f)
		return read_0f(r, form);
	if (r->at >= r->n)
		return PTAH_E_MORE;
	next = r->bytes[r->at];
	if (byte == 0xd5 && is_long(r))
		return read_rex2(r, form);
	if (byte == 0x8f && (next & 0x1f) >= 8)
		return read_vector(r, X86_XOP, form);
	if (byte != 0xd5 && byte != 0x8f && (is_long(r) || next >= 0xc0))
		return read_vector(r,
				   byte == 0x62	  ? X86_EVEX
				   : byte == 0xc4 ? X86_VEX3
						  : X86_VEX2,
				   form);
	*form = byte == 0xd5 ? B_ : byte == 0x8f ? G_ : MM; /* AAD; POP; BOUND, LES, LDS */
	return 0;
}

/* Reads what comes after the opcode. */
static int read_rest(struct reading *r, unsigned form)
{
	struct x86_encoding *e = r->e;

	if (!(form & prefix_bit(e)) || (form & NO_64 && is_long(r)))
		return PTAH_E_BAD_INSN;
	if (form & MODRM) {
		if (!take_modrm(r))
			return PTAH_E_MORE;
		if (form & (x86_has_memory(e) ? REGISTER : MEMORY))
			return PTAH_E_BAD_INSN;
		if (form & GROUP)
			form = check_group(e, form);
		if (!form)
			return PTAH_E_BAD_INSN;
	}
	if (e->lock && !may_be_locked(e))
		return PTAH_E_BAD_INSN;
	return read_operand_bytes(r, form);
}

static int read_insn(struct reading *r)
{
	struct x86_encoding *e = r->e;
	unsigned form;
	int status;

	if (!take_prefixes(r, &e->opcode))
		return PTAH_E_MORE;
	form = one_byte[e->opcode];
	if (form & ESCAPE) {
		status = read_escape(r, &form);
		if (status < 0)
			return status;
	}
	e->opcode_at = (uint8_t)(r->at - 1);
	return read_rest(r, form);
}

int x86_read_encoding(const uint8_t *bytes, size_t n, unsigned mode, struct x86_encoding *e)
{
	struct reading r = {.bytes = bytes,
			    .n = (unsigned)(n < X86_MAX_SIZE ? n : X86_MAX_SIZE),
			    .mode = mode,
			    .e = e};
	int status;

	*e = (struct x86_encoding){0};
	status = read_insn(&r);
	return status == PTAH_E_MORE && n >= X86_MAX_SIZE ? PTAH_E_BAD_INSN : status;
}
