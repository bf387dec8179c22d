/* SPDX-License-Identifier: MIT */
/*
 * What an instruction does to general registers and to control, by its opcode. Sources: Intel SDM
 * volume 2, AMD APM volume 3.
 *
 * An opcode that no processor knows yet is decoded: it faults where it is copied as it would where
 * it was. What must not happen is a wrong length, or a register that is missing.
 */
#include "record/native/runtime/insn.h"

#include <ptah/base.h>
#include <ptah/event.h>

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

/* Registers */

/*
 * A register that ModRM or SIB name. Where it may be one of 8 bits, without REX, 4 to 7 are AH, CH,
 * DH and BH; and it may be a vector register: what it could be is all noted.
 */
static void add_register(struct insn *i, unsigned number)
{
	if (number > 15)
		return;
	i->registers |= (uint16_t)(1u << number);
	if (i->code.kind == X86_LEGACY && !i->code.rex && number >= 4)
		i->registers |= (uint16_t)(1u << (number - 4));
}

/* The part of a register's number that does not stand in ModRM, SIB or the opcode. */
static unsigned extension(const struct insn *i, unsigned bit, unsigned bit_4)
{
	return (i->code.extended & bit ? 8u : 0) + (i->code.extended & bit_4 ? 16u : 0);
}

static void add_memory(struct insn *i)
{
	const unsigned base = extension(i, X86_EXTEND_B, X86_EXTEND_B4), rm = i->code.modrm & 7;
	const unsigned index = (i->code.sib >> 3 & 7) + extension(i, X86_EXTEND_X, X86_EXTEND_X4);

	if (i->code.rip_relative)
		return;
	if (rm != 4) {
		add_register(i, rm + base);
		return;
	}
	if (index != 4)
		add_register(i, index);
	add_register(i, (i->code.sib & 7) + base); /* or none */
}

/* Those that ModRM, VEX and the opcode name. */
static void add_named(struct insn *i)
{
	const struct x86_encoding *e = &i->code;
	const unsigned low = (e->opcode & 7) + extension(i, X86_EXTEND_B, X86_EXTEND_B4);

	if (e->modrm_at) {
		add_register(i, x86_reg(e) + extension(i, X86_EXTEND_R, X86_EXTEND_R4));
		if (x86_has_memory(e))
			add_memory(i);
		else
			add_register(i, (e->modrm & 7) + extension(i, X86_EXTEND_B, X86_EXTEND_B4));
	}
	if (!x86_is_legacy(e))
		i->registers |= (uint16_t)(1u << e->vvvv);
	else if (e->map == X86_MAP_ONE && ((e->opcode >= 0x50 && e->opcode < 0x60) ||
					   (e->opcode >= 0x90 && e->opcode < 0x98) ||
					   (e->opcode >= 0xb0 && e->opcode < 0xc0)))
		add_register(i, low);
	else if (e->map == X86_MAP_0F && e->opcode >= 0xc8 && e->opcode < 0xd0)
		add_register(i, low);
}

/* Those that a one-byte opcode uses without naming them. */
static unsigned implicit_one_byte(const struct x86_encoding *e, unsigned opcode)
{
	const unsigned reg = x86_reg(e);

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
	case 0xa6: /* of VIA */
	case 0xa7:
		return RAX | RCX | RDX | RBX | RSI | RDI;
	case 0xf7:
		return RDI; /* MASKMOVQ, MASKMOVDQU */
	default:
		return 0;
	}
}

/* ... and those of instructions of both maps in their form of APX. */
static unsigned implicit_apx(const struct x86_encoding *e)
{
	switch (e->opcode) {
	case 0xa5: /* SHLD, SHRD by CL; other shifts */
	case 0xad:
	case 0xd2:
	case 0xd3:
		return RCX;
	case 0xf6:
	case 0xf7:
		return RAX | RDX;
	case 0x8f: /* POP2, PUSH2 */
	case 0xff:
		return RSP;
	default:
		return 0;
	}
}

static unsigned implicit_registers(const struct x86_encoding *e)
{
	const unsigned opcode = e->opcode;

	switch (e->map) {
	case X86_MAP_ONE:
		return implicit_one_byte(e, opcode);
	case X86_MAP_0F:
		if (x86_is_legacy(e))
			return implicit_two_bytes(opcode);
		return opcode == 0xf7 ? RDI : 0;
	case X86_MAP_0F38:
		return opcode == 0xf6 ? RDX /* MULX */ : opcode == 0xdc ? RAX /* LOADIWKEY */ : 0;
	case X86_MAP_0F3A: /* PCMPxSTRx */
		return opcode >= 0x60 && opcode <= 0x63 ? RAX | RCX | RDX
		       : opcode == 0xf0			? RAX
							: 0;
	case X86_MAP_4:
		return e->kind == X86_EVEX ? implicit_apx(e) : 0;
	default:
		return 0;
	}
}

/* Flow */

static bool touches_memory(const struct x86_encoding *e)
{
	return x86_has_memory(e) || e->displacement_size || x86_is_string(e) ||
	       (e->map == X86_MAP_ONE && e->opcode == 0xd7) ||
	       (e->map == X86_MAP_0F && e->opcode == 0xf7);
}

/* A near branch. With prefix 66 processors of Intel and of AMD disagree about it. */
static unsigned near(const struct x86_encoding *e, unsigned flow)
{
	return e->operand_66 && !(e->extended & X86_EXTEND_W) ? INSN_REFUSED : flow;
}

static unsigned flow_of_group_5(const struct x86_encoding *e)
{
	switch (x86_reg(e)) {
	case 2:
		return near(e, INSN_CALL_INDIRECT);
	case 4:
		return near(e, INSN_JMP_INDIRECT);
	case 3:
	case 5:
		return INSN_REFUSED;
	default:
		return INSN_NEXT;
	}
}

static unsigned flow_of_one_byte(const struct x86_encoding *e, const uint8_t *bytes)
{
	const unsigned opcode = e->opcode, reg = x86_reg(e);

	switch (opcode) {
	case 0x70 ... 0x7f:
		return near(e, INSN_JCC);
	case 0xe0 ... 0xe3:
		return near(e, INSN_LOOP);
	case 0xe8:
		return near(e, INSN_CALL);
	case 0xe9:
	case 0xeb:
		return near(e, INSN_JMP);
	case 0xc2:
	case 0xc3:
		return near(e, INSN_RET);
	case 0xff:
		return flow_of_group_5(e);
	case 0xca:
	case 0xcb:
	case 0xcf:
		return INSN_REFUSED;
	case 0xcd: /* INT 80H is a system call */
		return bytes[e->immediate_at] == 0x80 ? INSN_REFUSED : INSN_TRAP;
	case 0x8e: /* MOV to FS, GS */
		return reg == 4 || reg == 5 ? INSN_REFUSED : INSN_NEXT;
	case 0xc7: /* XBEGIN: without it, XABORT does nothing, and XEND faults */
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
static unsigned flow_of_group_7(const struct x86_encoding *e)
{
	/* Shadow stacks, user interrupts. */
	if (e->repeat == 0xf3 && (x86_reg(e)) == 5)
		return INSN_REFUSED;
	return e->modrm == 0xd5 ? INSN_TRAP /* XEND */ : INSN_NEXT;
}

/* 0F AE with F3: bases of FS and GS, shadow stacks. */
static unsigned flow_of_group_15(const struct x86_encoding *e)
{
	const unsigned reg = x86_reg(e);

	if (e->repeat != 0xf3)
		return INSN_NEXT;
	if (e->modrm < 0xc0)
		return reg == 6 ? INSN_REFUSED : INSN_NEXT;
	return reg == 1 || reg == 3 || reg == 5 ? INSN_REFUSED : INSN_NEXT;
}

static unsigned flow_of_two_bytes(const struct x86_encoding *e)
{
	switch (e->opcode) {
	case 0x01:
		return flow_of_group_7(e);
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
		return flow_of_group_15(e);
	case 0xc7: /* SENDUIPI */
		return e->repeat == 0xf3 && e->modrm >= 0xf0 && e->modrm < 0xf8 ? INSN_REFUSED
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
		return near(e, INSN_JCC);
	default:
		return INSN_NEXT;
	}
}

/*
 * WRSS, WRUSS write to shadow stacks: 0F 38 F6 without a prefix, F5 with 66; with EVEX 66 and 65 of
 * map 4.
 */
static unsigned flow_of_shadow_stack(const struct x86_encoding *e, unsigned wrss, unsigned wruss)
{
	return (e->opcode == wrss && !e->operand_66 && !e->repeat) || e->opcode == wruss
		   ? INSN_REFUSED
		   : INSN_NEXT;
}

static unsigned flow_of(const struct x86_encoding *e, const uint8_t *bytes)
{
	if (e->segment_gs && touches_memory(e))
		return INSN_REFUSED;
	if (!x86_is_legacy(e))
		return e->map == X86_MAP_4 ? flow_of_shadow_stack(e, 0x66, 0x65) : INSN_NEXT;
	if (e->kind == X86_REX2 && e->map == X86_MAP_ONE && e->opcode == 0xa1)
		return INSN_STEPPED; /* JMPABS */
	switch (e->map) {
	case X86_MAP_ONE:
		return flow_of_one_byte(e, bytes);
	case X86_MAP_0F:
		return flow_of_two_bytes(e);
	case X86_MAP_0F38:
		return flow_of_shadow_stack(e, 0xf6, 0xf5);
	default:
		return INSN_NEXT;
	}
}

static void settle_flow(struct insn *i, const uint8_t *bytes)
{
	const struct x86_encoding *e = &i->code;

	i->flow = (uint8_t)flow_of(e, bytes);
	switch (i->flow) {
	case INSN_JCC:
		i->condition = e->opcode & 15;
		break;
	case INSN_LOOP:
		i->condition = e->opcode;
		break;
	case INSN_RET:
		i->pops = (uint16_t)x86_signed_value(bytes + e->immediate_at, e->immediate_size);
		return;
	case INSN_JMP:
	case INSN_CALL:
		break;
	default:
		return;
	}
	i->offset = x86_signed_value(bytes + e->immediate_at, e->immediate_size);
}

bool insn_decode(const uint8_t *bytes, size_t n, struct insn *insn)
{
	const struct x86_encoding *e = &insn->code;
	int status;

	*insn = (struct insn){0};
	status = x86_read_encoding(bytes, n, PTAH_EXEC_64, &insn->code);
	if (status == PTAH_E_MORE)
		return false;
	if (status < 0) {
		*insn = (struct insn){.flow = INSN_UNKNOWN};
		return true;
	}
	add_named(insn);
	insn->registers |= (uint16_t)implicit_registers(e);
	insn->rep = e->repeat && x86_is_string(e);
	if (e->rip_relative)
		insn->offset = x86_signed_value(bytes + e->displacement_at, e->displacement_size);
	settle_flow(insn, bytes);
	return true;
}
