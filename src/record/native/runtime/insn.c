/* SPDX-License-Identifier: MIT */
/*
 * The tables of the instructions, and what settles the few that tables cannot say. Sources: Intel
 * SDM volume 2, appendix A, "Opcode Map", and AMD APM volume 3, appendix A.
 *
 * An opcode that no processor knows yet may be decoded: it faults where it is copied as it would
 * where it was. What must not happen is a wrong length, or a register that is missing.
 */
#include "record/native/runtime/insn.h"

/* What follows an opcode. */
enum {
	__ = 1 << 0, /* not valid in 64-bit mode */
	O_ = 0,	     /* nothing */
	M_ = 1 << 1, /* ModRM */
	B_ = 1 << 2, /* an immediate of 8 bits */
	W_ = 1 << 3, /* of 16 */
	Z_ = 1 << 4, /* of 32, or 16 with prefix 66 */
	V_ = 1 << 5, /* of 32, 16, or with REX.W 64 */
	A_ = 1 << 6, /* an address of 64 bits, or 32 with prefix 67 */
	R_ = 1 << 7, /* the opcode's low bits and REX.B are a register */
	MB = M_ | B_,
	MZ = M_ | Z_,
	RB = R_ | B_,
	RV = R_ | V_,
	WB = W_ | B_,
};

/* clang-format off */
static const uint8_t one_byte[256] = {
	M_, M_, M_, M_, B_, Z_, __, __, M_, M_, M_, M_, B_, Z_, __, __, /* 00: ADD, OR */
	M_, M_, M_, M_, B_, Z_, __, __, M_, M_, M_, M_, B_, Z_, __, __, /* 10: ADC, SBB */
	M_, M_, M_, M_, B_, Z_, __, __, M_, M_, M_, M_, B_, Z_, __, __, /* 20: AND, SUB */
	M_, M_, M_, M_, B_, Z_, __, __, M_, M_, M_, M_, B_, Z_, __, __, /* 30: XOR, CMP */
	__, __, __, __, __, __, __, __, __, __, __, __, __, __, __, __, /* 40: REX */
	R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, R_, /* 50: PUSH, POP */
	__, __, __, M_, __, __, __, __, Z_, MZ, B_, MB, O_, O_, O_, O_, /* 60 */
	B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, B_, /* 70: Jcc */
	MB, MZ, __, MB, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 80 */
	R_, R_, R_, R_, R_, R_, R_, R_, O_, O_, __, O_, O_, O_, O_, O_, /* 90 */
	A_, A_, A_, A_, O_, O_, O_, O_, B_, Z_, O_, O_, O_, O_, O_, O_, /* A0 */
	RB, RB, RB, RB, RB, RB, RB, RB, RV, RV, RV, RV, RV, RV, RV, RV, /* B0: MOV */
	MB, MB, W_, O_, __, __, MB, MZ, WB, O_, W_, O_, O_, B_, __, O_, /* C0 */
	M_, M_, M_, M_, __, __, __, O_, M_, M_, M_, M_, M_, M_, M_, M_, /* D0: shifts, x87 */
	B_, B_, B_, B_, B_, B_, B_, B_, Z_, Z_, __, B_, O_, O_, O_, O_, /* E0 */
	__, O_, __, __, O_, O_, M_, M_, O_, O_, O_, O_, O_, O_, M_, M_, /* F0 */
};

/* After 0F; of 78, two immediates are settled below. */
static const uint8_t two_bytes[256] = {
	M_, M_, M_, M_, __, O_, O_, O_, O_, O_, __, O_, __, M_, O_, MB, /* 00; 0F: 3DNow */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 10 */
	M_, M_, M_, M_, __, __, __, __, M_, M_, M_, M_, M_, M_, M_, M_, /* 20 */
	O_, O_, O_, O_, O_, O_, __, O_, __, __, __, __, __, __, __, __, /* 30 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 40: CMOVcc */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 50 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 60 */
	MB, MB, MB, MB, M_, M_, M_, O_, M_, M_, __, __, M_, M_, M_, M_, /* 70 */
	Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, Z_, /* 80: Jcc */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* 90: SETcc */
	O_, O_, O_, M_, MB, M_, __, __, O_, O_, O_, M_, MB, M_, M_, M_, /* A0 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, MB, M_, M_, M_, M_, M_, /* B0 */
	M_, M_, MB, M_, MB, MB, MB, M_, R_, R_, R_, R_, R_, R_, R_, R_, /* C0 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* D0 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* E0 */
	M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, M_, /* F0 */
};
/* clang-format on */

/* General registers as bits. */
#define RAX (1u << 0)
#define RCX (1u << 1)
#define RDX (1u << 2)
#define RBX (1u << 3)
#define RSP (1u << 4)
#define RBP (1u << 5)
#define RSI (1u << 6)
#define RDI (1u << 7)
#define R11 (1u << 11)

#define REX_W 8u
#define REX_R 4u
#define REX_X 2u
#define REX_B 1u

enum {
	MAP_ONE = 0,
	MAP_0F,
	MAP_0F38,
	MAP_0F3A
};

/* The instruction while it is being decoded. */
struct decode {
	const uint8_t *bytes;
	size_t n, at;
	struct insn *insn;
	uint8_t repeat;	   /* F3 or F2, the last one; 0: none */
	uint8_t extended;  /* REX.W, R, X, B in their places, also of VEX, EVEX and XOP */
	uint8_t mandatory; /* VEX and the like: pp */
	uint8_t modrm;
	bool has_modrm;
};

/* Takes a byte. False: there is none. */
static bool take(struct decode *d, uint8_t *byte)
{
	if (d->at >= d->n)
		return false;
	*byte = d->bytes[d->at++];
	return true;
}

static bool unknown(struct decode *d)
{
	*d->insn = (struct insn){.flow = INSN_UNKNOWN};
	return true;
}

/* Prefixes */

static bool is_prefix(struct decode *d, uint8_t byte)
{
	struct insn *i = d->insn;

	switch (byte) {
	case 0x66:
		i->operand_16 = true;
		return true;
	case 0x67:
		i->address_32 = true;
		return true;
	case 0xf2:
	case 0xf3:
		d->repeat = byte;
		return true;
	case 0xf0:
		i->lock = true;
		return true;
	case 0x64:
	case 0x65: /* the last one counts; those of other segments are ignored */
		i->segment_fs = byte == 0x64;
		i->segment_gs = byte == 0x65;
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

/* Takes the prefixes and the opcode's first byte. A REX that does not come last is ignored. */
static bool take_prefixes(struct decode *d, uint8_t *opcode)
{
	struct insn *i = d->insn;

	for (;;) {
		if (!take(d, opcode))
			return false;
		if ((*opcode & 0xf0) == 0x40)
			i->rex = *opcode;
		else if (is_prefix(d, *opcode))
			i->rex = 0;
		else
			break;
	}
	i->prefixes = (uint8_t)(d->at - 1 - (i->rex != 0));
	d->extended = i->rex & 0xf;
	return true;
}

/* Registers */

/*
 * A register that ModRM or SIB name. Where it may be one of 8 bits, without REX, 4 to 7 are AH, CH,
 * DH and BH; and it may be a vector register: what it could be is all noted.
 */
static void add_register(struct decode *d, unsigned number)
{
	d->insn->registers |= (uint16_t)(1u << number);
	if (d->insn->encoding == INSN_LEGACY && !d->insn->rex && number >= 4)
		d->insn->registers |= (uint16_t)(1u << (number - 4));
}

static unsigned extension(const struct decode *d, unsigned bit)
{
	return d->extended & bit ? 8 : 0;
}

/* Those that a one-byte opcode uses without naming them. */
static unsigned implicit_one_byte(const struct decode *d, unsigned opcode)
{
	const unsigned reg = d->modrm >> 3 & 7;

	if (opcode < 0x40)
		return (opcode & 7) == 4 || (opcode & 7) == 5 ? RAX : 0;
	switch (opcode) {
	case 0x50 ... 0x5f:
	case 0x68:
	case 0x6a:
	case 0x8f:
	case 0x9c:
	case 0x9d:
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
	case 0xe8:
		return RSP;
	case 0x6c ... 0x6f:
		return RDX | RSI | RDI | RCX;
	case 0x90 ... 0x97:
		return RAX;
	case 0x98:
	case 0x9e:
	case 0x9f:
	case 0xa0 ... 0xa3:
	case 0xa8:
	case 0xa9:
		return RAX;
	case 0x99:
		return RAX | RDX;
	case 0xa4 ... 0xa7:
	case 0xaa ... 0xaf:
		return RAX | RCX | RSI | RDI;
	case 0xc8:
	case 0xc9:
		return RSP | RBP;
	case 0xd2:
	case 0xd3:
	case 0xe0 ... 0xe3:
		return RCX;
	case 0xd7:
		return RAX | RBX;
	case 0xc6: /* XABORT */
	case 0xc7:
	case 0xdf: /* FNSTSW AX */
		return RAX;
	case 0xe4 ... 0xe7:
	case 0xec ... 0xef:
		return RAX | RDX;
	case 0xf6:
	case 0xf7:
		return reg >= 4 ? RAX | RDX : 0;
	case 0xff:
		return reg == 2 || reg == 3 || reg == 6 ? RSP : 0;
	default:
		return 0;
	}
}

/* ... and those of an opcode after 0F. */
static unsigned implicit_two_bytes(unsigned opcode)
{
	switch (opcode) {
	case 0x01: /* RDTSCP, XGETBV, MONITOR, CLZERO, RDPKRU ... */
	case 0x30:
	case 0x32:
	case 0x33:
	case 0xc7: /* CMPXCHG16B, XSAVEC */
	case 0xa2:
		return RAX | RBX | RCX | RDX;
	case 0x05:
	case 0x07:
	case 0x34:
	case 0x35:
	case 0x37:
		return RAX | RBX | RCX | RDX | RSP | R11;
	case 0x31:
	case 0xae: /* XSAVE, XRSTOR, UMWAIT */
		return RAX | RDX;
	case 0xa0:
	case 0xa1:
	case 0xa8:
	case 0xa9:
		return RSP;
	case 0xa5:
	case 0xad:
		return RCX;
	case 0xb0:
	case 0xb1:
		return RAX;
	case 0xf7:
		return RDI; /* MASKMOVQ, MASKMOVDQU */
	default:
		return 0;
	}
}

static void add_implicit(struct decode *d)
{
	struct insn *i = d->insn;
	const unsigned opcode = i->opcode;
	unsigned registers = 0;

	if (i->opcode_map == MAP_ONE)
		registers = implicit_one_byte(d, opcode);
	else if (i->opcode_map == MAP_0F)
		registers = i->encoding == INSN_LEGACY ? implicit_two_bytes(opcode)
			    : opcode == 0xf7	       ? RDI
						       : 0;
	else if (i->opcode_map == MAP_0F38)
		registers = opcode == 0xf6   ? RDX /* MULX */
			    : opcode == 0xdc ? RAX /* LOADIWKEY */
					     : 0;
	else if (i->opcode_map == MAP_0F3A)
		registers = opcode >= 0x60 && opcode <= 0x63 ? RAX | RCX | RDX /* PCMPxSTRx */
			    : opcode == 0xf0		     ? RAX
							     : 0;
	i->registers |= (uint16_t)registers;
}

/* Operands */

/* Takes ModRM, SIB and the displacement. */
static bool take_modrm(struct decode *d)
{
	struct insn *i = d->insn;
	unsigned mod, rm;
	uint8_t sib = 0;

	i->modrm_at = (uint8_t)d->at;
	if (!take(d, &d->modrm))
		return false;
	d->has_modrm = true;
	/* MOV to and from control and debug registers has no operand in memory. */
	mod = i->opcode_map == MAP_0F && i->opcode >= 0x20 && i->opcode <= 0x23 &&
		      i->encoding == INSN_LEGACY
		  ? 3
		  : d->modrm >> 6;
	rm = d->modrm & 7;
	add_register(d, (d->modrm >> 3 & 7) + extension(d, REX_R));
	if (mod == 3) {
		add_register(d, rm + extension(d, REX_B));
		return true;
	}
	if (rm == 4 && !take(d, &sib))
		return false;
	i->displacement_size = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (rm == 4) {
		const unsigned index = (sib >> 3 & 7) + extension(d, REX_X);

		if (index != 4)
			i->registers |= (uint16_t)(1u << index);
		if ((sib & 7) == 5 && !mod)
			i->displacement_size = 4; /* and no base */
		i->registers |= (uint16_t)(1u << ((sib & 7) + extension(d, REX_B)));
	} else if (rm == 5 && !mod) {
		i->displacement_size = 4;
		i->rip_relative = true;
	} else {
		i->registers |= (uint16_t)(1u << (rm + extension(d, REX_B)));
	}
	if (i->displacement_size)
		i->displacement_at = (uint8_t)d->at;
	d->at += i->displacement_size;
	return d->at <= d->n;
}

static int64_t signed_value(const uint8_t *bytes, unsigned size)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < size; i++)
		v |= (uint64_t)bytes[i] << 8 * i;
	return size >= 8 ? (int64_t)v : (int64_t)(v << (64 - 8 * size)) >> (64 - 8 * size);
}

/* Takes what the table says of the opcode. */
static bool take_operands(struct decode *d, unsigned form)
{
	struct insn *i = d->insn;
	const bool wide = d->extended & REX_W;
	unsigned size = 0;

	if (form & M_ && !take_modrm(d))
		return false;
	if (form & R_)
		add_register(d, (i->opcode & 7) + extension(d, REX_B));
	if (form & A_) {
		i->displacement_at = (uint8_t)d->at;
		i->displacement_size = i->address_32 ? 4 : 8;
		d->at += i->displacement_size;
	}
	/* TEST is the only one of its group with an immediate. */
	if (i->opcode_map == MAP_ONE && i->encoding == INSN_LEGACY && (i->opcode | 1) == 0xf7 &&
	    (d->modrm >> 3 & 7) < 2)
		form |= i->opcode == 0xf6 ? B_ : Z_;
	if (form & B_)
		size += 1;
	if (form & W_)
		size += 2;
	if (form & (Z_ | V_))
		size += form & V_ && wide ? 8 : i->operand_16 && !wide ? 2 : 4;
	if (size) {
		i->immediate_at = (uint8_t)d->at;
		i->immediate_size = (uint8_t)size;
		d->at += size;
	}
	if (d->at > d->n)
		return false;
	if (i->rip_relative)
		i->offset = signed_value(d->bytes + i->displacement_at, i->displacement_size);
	return true;
}

/* VEX, EVEX, XOP */

/* What follows an opcode of a map, in all three. */
static unsigned vector_form(const struct insn *i)
{
	const unsigned opcode = i->opcode;

	if (i->encoding == INSN_XOP)
		return i->opcode_map == 8 ? MB : i->opcode_map == 9 ? M_ : MZ;
	if (i->opcode_map == MAP_0F3A)
		return MB;
	if (i->opcode_map != MAP_0F)
		return M_;
	if (opcode == 0x77 && i->encoding != INSN_EVEX)
		return O_; /* VZEROUPPER */
	return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
		       (opcode >= 0xc4 && opcode <= 0xc6)
		   ? MB
		   : M_;
}

/* The three bits R, X and B are stored inverted, and so is the register vvvv. */
static bool take_vector(struct decode *d, uint8_t first)
{
	struct insn *i = d->insn;
	uint8_t p[3] = {0};
	const unsigned n = first == 0xc5 ? 1 : first == 0x62 ? 3 : 2;
	unsigned vvvv;

	for (unsigned k = 0; k < n; k++)
		if (!take(d, &p[k]))
			return false;
	if (i->operand_16 || i->lock || d->repeat || i->rex)
		return unknown(d);
	i->encoding = first == 0xc5   ? INSN_VEX2
		      : first == 0xc4 ? INSN_VEX3
		      : first == 0x62 ? INSN_EVEX
				      : INSN_XOP;
	i->opcode_map = first == 0xc5 ? 1 : p[0] & (first == 0x62 ? 7 : 31);
	d->extended = (uint8_t)(~p[0] >> 5 & (first == 0xc5 ? REX_R : 7));
	d->mandatory = p[n == 1 ? 0 : 1] & 3;
	vvvv = ~(unsigned)p[n == 1 ? 0 : 1] >> 3 & 15;
	if (n > 1 && p[1] & 0x80)
		d->extended |= REX_W;
	if (first == 0x8f   ? i->opcode_map > 10
	    : first == 0x62 ? !i->opcode_map || i->opcode_map == 4 || i->opcode_map > 6 ||
				  p[0] & 8 || !(p[1] & 4)
			    : !i->opcode_map || i->opcode_map > 3)
		return unknown(d); /* APX, and maps of later processors */
	i->opcode_at = (uint8_t)d->at;
	if (!take(d, &i->opcode))
		return false;
	i->registers |= (uint16_t)(1u << vvvv);
	if (!take_operands(d, vector_form(i)))
		return false;
	add_implicit(d);
	return true;
}

/* Flow */

static bool touches_memory(const struct decode *d)
{
	const struct insn *i = d->insn;
	const bool string = i->opcode_map == MAP_ONE && i->encoding == INSN_LEGACY &&
			    ((i->opcode >= 0xa4 && i->opcode <= 0xa7) ||
			     (i->opcode >= 0xaa && i->opcode <= 0xaf) || i->opcode == 0xd7);

	return (d->has_modrm && d->modrm < 0xc0) || i->displacement_size || string ||
	       (i->opcode_map == MAP_0F && i->opcode == 0xf7);
}

/* A near branch. With prefix 66 processors of Intel and of AMD disagree about it. */
static unsigned near(const struct decode *d, unsigned flow)
{
	return d->insn->operand_16 && !(d->extended & REX_W) ? INSN_REFUSED : flow;
}

static unsigned flow_of_group_5(const struct decode *d)
{
	switch (d->modrm >> 3 & 7) {
	case 2:
		return near(d, INSN_CALL_INDIRECT);
	case 4:
		return near(d, INSN_JMP_INDIRECT);
	case 3:
	case 5:
		return INSN_REFUSED;
	case 7:
		return INSN_TRAP;
	default:
		return INSN_NEXT;
	}
}

static unsigned flow_of_one_byte(const struct decode *d)
{
	const unsigned opcode = d->insn->opcode, reg = d->modrm >> 3 & 7;

	switch (opcode) {
	case 0x70 ... 0x7f:
		return near(d, INSN_JCC);
	case 0xe0 ... 0xe3:
		return near(d, INSN_LOOP);
	case 0xe8:
		return near(d, INSN_CALL);
	case 0xe9:
	case 0xeb:
		return near(d, INSN_JMP);
	case 0xc2:
	case 0xc3:
		return near(d, INSN_RET);
	case 0xff:
		return flow_of_group_5(d);
	case 0xca:
	case 0xcb:
	case 0xcf:
		return INSN_REFUSED;
	case 0xcd: /* INT 80H is a system call */
		return d->bytes[d->insn->immediate_at] == 0x80 ? INSN_REFUSED : INSN_TRAP;
	case 0x8e: /* MOV to FS, GS */
		return reg == 4 || reg == 5 ? INSN_REFUSED : INSN_NEXT;
	case 0xc6: /* XABORT, XBEGIN */
	case 0xc7:
		return reg == 7 ? INSN_REFUSED : INSN_NEXT;
	case 0x6c ... 0x6f:
	case 0xcc:
	case 0xe4 ... 0xe7:
	case 0xec ... 0xef:
	case 0xf1:
	case 0xf4:
	case 0xfa:
	case 0xfb:
		return INSN_TRAP;
	default:
		return INSN_NEXT;
	}
}

/* 0F 01: with registers, many instructions of their own. */
static unsigned flow_of_group_7(const struct decode *d)
{
	/* Shadow stacks, user interrupts. */
	if (d->repeat == 0xf3 && (d->modrm >> 3 & 7) == 5)
		return INSN_REFUSED;
	return d->modrm == 0xd5 ? INSN_REFUSED /* XEND */ : INSN_NEXT;
}

/* 0F AE with F3: bases of FS and GS, shadow stacks. */
static unsigned flow_of_group_15(const struct decode *d)
{
	const unsigned reg = d->modrm >> 3 & 7;

	if (d->repeat != 0xf3)
		return INSN_NEXT;
	if (d->modrm < 0xc0)
		return reg == 6 ? INSN_REFUSED : INSN_NEXT;
	return reg == 1 || reg == 3 || reg == 5 ? INSN_REFUSED : INSN_NEXT;
}

static unsigned flow_of_two_bytes(const struct decode *d)
{
	switch (d->insn->opcode) {
	case 0x01:
		return flow_of_group_7(d);
	case 0x05:
		return INSN_SYSCALL;
	case 0x07: /* SYSRET, SYSENTER, SYSEXIT */
	case 0x34:
	case 0x35:
	case 0xa1: /* POP FS, POP GS, LFS, LGS, RSM */
	case 0xa9:
	case 0xb4:
	case 0xb5:
	case 0xaa:
		return INSN_REFUSED;
	case 0xae:
		return flow_of_group_15(d);
	case 0xc7: /* SENDUIPI */
		return d->repeat == 0xf3 && d->modrm >= 0xf0 && d->modrm < 0xf8 ? INSN_REFUSED
										: INSN_NEXT;
	case 0x06:
	case 0x08:
	case 0x09:
	case 0x0b:
	case 0x30:
	case 0x32:
	case 0x37:
	case 0xb9:
	case 0xff:
		return INSN_TRAP;
	case 0x80 ... 0x8f:
		return near(d, INSN_JCC);
	default:
		return INSN_NEXT;
	}
}

/* WRSS, WRUSS write to shadow stacks: 0F 38 F6 without a prefix, F5 with 66. */
static unsigned flow_of_0f38(const struct decode *d)
{
	const struct insn *i = d->insn;

	return (i->opcode == 0xf6 && !i->operand_16 && !d->repeat) || i->opcode == 0xf5
		   ? INSN_REFUSED
		   : INSN_NEXT;
}

static void settle_flow(struct decode *d)
{
	struct insn *i = d->insn;

	i->flow = INSN_NEXT;
	if (i->encoding == INSN_LEGACY)
		i->flow = (uint8_t)(i->opcode_map == MAP_ONE	? flow_of_one_byte(d)
				    : i->opcode_map == MAP_0F	? flow_of_two_bytes(d)
				    : i->opcode_map == MAP_0F38 ? flow_of_0f38(d)
								: INSN_NEXT);
	if (i->segment_gs && touches_memory(d))
		i->flow = INSN_REFUSED;
	switch (i->flow) {
	case INSN_JCC:
		i->condition = i->opcode & 15;
		break;
	case INSN_LOOP:
		i->condition = i->opcode;
		break;
	case INSN_RET:
		if (i->immediate_size)
			i->pops = (uint16_t)signed_value(d->bytes + i->immediate_at, 2);
		return;
	case INSN_JMP:
	case INSN_CALL:
		break;
	default:
		return;
	}
	i->offset = signed_value(d->bytes + i->immediate_at, i->immediate_size);
}

/* All */

/* Takes what comes after the opcode's escapes. Returns what follows the opcode. */
static bool take_opcode(struct decode *d, uint8_t opcode, unsigned *form)
{
	struct insn *i = d->insn;

	if (opcode == 0x0f) {
		i->opcode_map = MAP_0F;
		if (!take(d, &opcode))
			return false;
		if (opcode == 0x38 || opcode == 0x3a) {
			i->opcode_map = opcode == 0x38 ? MAP_0F38 : MAP_0F3A;
			if (!take(d, &opcode))
				return false;
		}
	}
	i->opcode = opcode;
	i->opcode_at = (uint8_t)(d->at - 1);
	*form = i->opcode_map == MAP_ONE    ? one_byte[opcode]
		: i->opcode_map == MAP_0F   ? two_bytes[opcode]
		: i->opcode_map == MAP_0F38 ? M_
					    : MB;
	/* EXTRQ and INSERTQ have two immediates where VMREAD has none. */
	if (i->opcode_map == MAP_0F && opcode == 0x78 && (i->operand_16 || d->repeat == 0xf2))
		*form = M_ | W_;
	return true;
}

static bool is_string(const struct insn *i)
{
	return i->opcode_map == MAP_ONE && ((i->opcode >= 0xa4 && i->opcode <= 0xa7) ||
					    (i->opcode >= 0xaa && i->opcode <= 0xaf) ||
					    (i->opcode >= 0x6c && i->opcode <= 0x6f));
}

static bool decode(struct decode *d)
{
	struct insn *i = d->insn;
	uint8_t opcode;
	unsigned form;

	if (!take_prefixes(d, &opcode))
		return false;
	if (opcode == 0xc4 || opcode == 0xc5 || opcode == 0x62)
		return take_vector(d, opcode);
	/* 8F is POP where the next byte is a ModRM of it. */
	if (opcode == 0x8f && d->at >= d->n)
		return false;
	if (opcode == 0x8f && (d->bytes[d->at] & 0x1f) >= 8)
		return take_vector(d, opcode);
	if (!take_opcode(d, opcode, &form))
		return false;
	if (form & __)
		return unknown(d);
	if (!take_operands(d, form))
		return false;
	i->rep = d->repeat && is_string(i);
	add_implicit(d);
	return true;
}

bool insn_decode(const uint8_t *bytes, size_t n, struct insn *insn)
{
	struct decode d = {
	    .bytes = bytes, .n = n < INSN_MAX_SIZE ? n : INSN_MAX_SIZE, .insn = insn};

	*insn = (struct insn){0};
	if (!decode(&d)) {
		if (n < INSN_MAX_SIZE)
			return false;
		return unknown(&d); /* longer than any instruction */
	}
	if (insn->flow == INSN_UNKNOWN)
		return true;
	insn->size = (uint8_t)d.at;
	settle_flow(&d);
	return true;
}
