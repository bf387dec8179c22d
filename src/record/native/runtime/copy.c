/* SPDX-License-Identifier: MIT */
/* Copies instructions of the program to the cache: see copy.h. */
#include "record/native/runtime/copy.h"

#define MODRM_REG	 0x38
#define MODRM_RIP	 0x05 /* mod 0, rm 5 */
#define OPCODE_MOV_LOAD	 0x8b
#define OPCODE_LEA	 0x8d
#define PREFIX_OPERAND	 0x66
#define PREFIX_ADDRESS	 0x67
#define PREFIX_FS	 0x64
#define REX_W		 0x08
#define REX_X_B		 0x03
#define REX2		 0xd5
#define REX2_X_B	 0x33
#define NOT_X_B		 0x60 /* in the byte after C4, 62 and 8F: X and B, inverted */
#define EVEX_B4		 0x08 /* in the same byte */
#define EVEX_NOT_X4	 0x04 /* in the next one */
#define CONTEXT_SCRATCH	 CONTEXT_RAX
#define LITERAL_POSITIVE UINT64_C(0x7fffffff)

/* The address of a RIP-relative operand, without a segment's base. */
static uint64_t operand_address(const struct insn *insn, uint64_t address)
{
	return address + insn->code.size + (uint64_t)insn->offset;
}

/*
 * The displacement that leads to the same operand from an instruction of the same size at `at`.
 * With 32-bit addresses, everything is in reach: the sum is cut to 32 bits.
 */
static bool new_displacement(const struct insn *insn, const uint8_t *at, uint64_t target,
			     int32_t *displacement)
{
	uint64_t next = (uint64_t)(uintptr_t)at + insn->code.size;
	int64_t wide = (int64_t)(target - next);
	*displacement = (int32_t)(uint32_t)(uint64_t)wide;
	return insn->code.address_67 || wide == *displacement;
}

static void put_displaced(struct emitter *e, const struct x86_encoding *code, const uint8_t *bytes,
			  int32_t displacement)
{
	unsigned behind = code->displacement_at + 4u;
	emit_bytes(e, bytes, code->displacement_at);
	emit_value(e, (uint32_t)displacement, 4);
	emit_bytes(e, bytes + behind, code->size - behind);
}

/* With REX2 it may have a register that no constant can be put into as below. */
static bool is_lea(const struct x86_encoding *code)
{
	return code->kind == X86_LEGACY && code->map == 0 && code->opcode == OPCODE_LEA;
}

/* LEA of an address that is out of reach: a constant, cut to the operand's size. */
static void put_lea(struct emitter *e, const struct x86_encoding *code, uint64_t target)
{
	unsigned reg = x86_reg(code) | (code->extended & X86_EXTEND_R ? 8u : 0u);
	if (code->extended & X86_EXTEND_W) {
		emit_constant(e, reg, target);
	} else if (code->operand_66) {
		emit_8(e, PREFIX_OPERAND);
		if (reg >> 3)
			emit_8(e, 0x41);
		emit_8(e, 0xb8 | (reg & 7));
		emit_value(e, target, 2);
	} else {
		emit_constant(e, reg, (uint32_t)target);
	}
}

/* A register that can be a base without displacement and REX.B, and that is not used. */
static unsigned free_register(const struct insn *insn)
{
	static const uint8_t candidates[] = {EMIT_RAX, EMIT_RCX, EMIT_RDX,
					     EMIT_RBX, EMIT_RSI, EMIT_RDI};
	for (size_t i = 0; i < sizeof(candidates); i++) {
		if (!(insn->registers & 1u << candidates[i]))
			return candidates[i];
	}
	return COPY_NO_REGISTER;
}

/*
 * The byte at offset i of an instruction whose operand gets a base that no bits extend. Those that
 * would, and those of an index, which there is not, mean nothing with RIP, and may be set.
 */
static unsigned unextended(const struct x86_encoding *code, const uint8_t *bytes, unsigned i)
{
	const unsigned byte = bytes[i];

	switch (i - code->prefixes) { /* offset into REX, REX2, VEX, EVEX or XOP */
	case 0:
		return code->rex ? byte & ~(unsigned)REX_X_B : byte;
	case 1:
		if (code->kind == X86_REX2)
			return byte & ~(unsigned)REX2_X_B;
		if (code->kind == X86_EVEX)
			return (byte | NOT_X_B) & ~(unsigned)EVEX_B4;
		return code->kind >= X86_VEX3 ? byte | NOT_X_B : byte;
	case 2:
		return code->kind == X86_EVEX ? byte | EVEX_NOT_X4 : byte;
	default:
		return byte;
	}
}

/* The instruction with [base] instead of its RIP-relative operand. */
static void put_with_base(struct emitter *e, const struct x86_encoding *code, const uint8_t *bytes,
			  unsigned base)
{
	unsigned behind = code->displacement_at + 4u;

	for (unsigned i = 0; i < code->modrm_at; i++)
		emit_8(e, i < code->opcode_at ? unextended(code, bytes, i) : bytes[i]);
	emit_8(e, (code->modrm & MODRM_REG) | base);
	emit_bytes(e, bytes + behind, code->size - behind);
}

/* The operand is out of reach: its address is put into a register. */
static void put_far(struct emitter *e, const struct insn *insn, const uint8_t *bytes,
		    uint64_t target, unsigned scratch, struct copy *copy)
{
	const uint8_t *begin = e->at;
	emit_save(e, scratch, CONTEXT_SCRATCH);
	copy->scratch = (uint8_t)scratch;
	copy->saved = (uint8_t)(e->at - begin);
	emit_constant(e, scratch, target);
	put_with_base(e, &insn->code, bytes, scratch);
	copy->restore = (uint8_t)(e->at - begin);
	emit_load(e, scratch, CONTEXT_SCRATCH);
}

bool copy_insn(struct emitter *e, const struct insn *insn, const uint8_t *bytes, uint64_t address,
	       struct copy *copy)
{
	const uint8_t *begin = e->at;
	int32_t displacement;

	*copy = (struct copy){.scratch = COPY_NO_REGISTER};
	if ((insn->flow != INSN_NEXT && insn->flow != INSN_TRAP) || insn->code.segment_gs)
		return false;
	uint64_t target = operand_address(insn, address);
	if (!insn->code.rip_relative) {
		emit_bytes(e, bytes, insn->code.size);
	} else if (new_displacement(insn, begin, target, &displacement)) {
		put_displaced(e, &insn->code, bytes, displacement);
	} else if (is_lea(&insn->code)) {
		put_lea(e, &insn->code, target);
	} else {
		unsigned scratch = free_register(insn);
		if (scratch == COPY_NO_REGISTER)
			return false;
		put_far(e, insn, bytes, target, scratch, copy);
	}
	copy->size = (uint8_t)(e->at - begin);
	return true;
}

uint8_t *copy_call(struct emitter *e, uint64_t return_address)
{
	if (return_address > LITERAL_POSITIVE)
		return emit_push_literal(e);
	emit_push_32(e, (int32_t)return_address);
	return NULL;
}

/* The prefixes of a load of RCX from the branch's operand. */
static void put_load_prefixes(struct emitter *e, const struct insn *insn)
{
	if (insn->code.segment_fs)
		emit_8(e, PREFIX_FS);
	if (insn->code.address_67)
		emit_8(e, PREFIX_ADDRESS);
}

/* mov rcx, [rip + ...]; where that does not reach, RCX holds the address first. */
static void put_load_from(struct emitter *e, const struct insn *insn, uint64_t target)
{
	static const uint8_t load[] = {0x40 | REX_W, OPCODE_MOV_LOAD, EMIT_RCX << 3 | MODRM_RIP};
	unsigned prefixes = (insn->code.segment_fs ? 1u : 0u) + (insn->code.address_67 ? 1u : 0u);
	int32_t displacement;

	if (emit_distance(e->at + prefixes + sizeof(load), 0, target, &displacement) ||
	    insn->code.address_67) {
		put_load_prefixes(e, insn);
		emit_bytes(e, load, sizeof(load));
		emit_value(e, (uint32_t)displacement, 4);
	} else {
		emit_constant(e, EMIT_RCX, target);
		put_load_prefixes(e, insn);
		emit_read(e, EMIT_RCX, EMIT_RCX, 0);
	}
}

/* MOV RCX, r/m: the branch's own ModRM, SIB and displacement. */
static void put_load_of(struct emitter *e, const struct insn *insn, const uint8_t *bytes)
{
	const struct x86_encoding *code = &insn->code;

	put_load_prefixes(e, insn);
	if (code->kind == X86_REX2) {
		emit_8(e, REX2);
		emit_8(e, REX_W | (code->extended & REX2_X_B));
	} else {
		emit_8(e, 0x40u | REX_W | (code->rex & REX_X_B));
	}
	emit_8(e, OPCODE_MOV_LOAD);
	emit_8(e, (code->modrm & ~(unsigned)MODRM_REG) | EMIT_RCX << 3);
	emit_bytes(e, bytes + code->modrm_at + 1, code->size - code->modrm_at - 1u);
}

bool copy_target(struct emitter *e, const struct insn *insn, const uint8_t *bytes, uint64_t address)
{
	const struct x86_encoding *code = &insn->code;

	/* Processors differ in what 66 means for a near branch; LOCK makes it invalid. */
	if ((insn->flow != INSN_JMP_INDIRECT && insn->flow != INSN_CALL_INDIRECT) ||
	    code->operand_66 || code->lock || code->segment_gs)
		return false;
	if (code->rip_relative)
		put_load_from(e, insn, operand_address(insn, address));
	else
		put_load_of(e, insn, bytes);
	return true;
}
