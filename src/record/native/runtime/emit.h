/* SPDX-License-Identifier: MIT */
/*
 * The machine code that the translator writes itself, one named function for each sequence: what
 * it copies of the program is in copy.h. None of these instructions changes a flag, none writes
 * below RSP, and none names a register that its caller did not choose, unless the comment says so.
 *
 * An emitter is a place in the cache and the end of the room there. What does not fit, or cannot
 * be reached with 32 bits, is not written and sets `failed`: the caller looks once, at the end.
 *
 *	struct emitter e = {at, end, false};
 *	emit_save(&e, EMIT_RCX, CONTEXT_RCX);
 *	uint8_t *skip = emit_jrcxz(&e);
 *	emit_jmp_context(&e, CONTEXT_GATE_INDIRECT);
 *	emit_land_8(&e, skip);
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_EMIT_H
#define PTAH_RECORD_NATIVE_RUNTIME_EMIT_H

#include "record/native/runtime/runtime.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emitter {
	uint8_t *at;
	uint8_t *end;
	bool failed;
};

/* The numbers of struct registers and struct insn. */
enum emit_register {
	EMIT_RAX = 0,
	EMIT_RCX,
	EMIT_RDX,
	EMIT_RBX,
	EMIT_RSP,
	EMIT_RBP,
	EMIT_RSI,
	EMIT_RDI,
	EMIT_R8,
	EMIT_R9,
	EMIT_R10,
	EMIT_R11,
	EMIT_R12,
	EMIT_R13,
	EMIT_R14,
	EMIT_R15
};
#define EMIT_LOG EMIT_R11 /* holds the log's pointer, see runtime.h */

/* A branch offset that is stored and patched in one access, wherever it is. */
struct emit_rel32 {
	int32_t value;
} __attribute__((packed, may_alias));

/* Parts of instructions: the rest of this file, and copy.c, are made of these. */

/* Of 64 bits that are stored and loaded wherever they are. */
struct emit_word {
	uint64_t value;
} __attribute__((packed, may_alias));

/* Few bytes are left: no instruction is written in part. */
static __attribute__((noinline, unused)) void emit_last_bytes(struct emitter *e, uint64_t value,
							      size_t n)
{
	if ((size_t)(e->end - e->at) < n) {
		e->failed = true;
		e->end = e->at; /* nothing shorter is written behind it */
		return;
	}
	for (size_t i = 0; i < n; i++)
		*e->at++ = (uint8_t)(value >> 8 * i);
}

/*
 * The n lowest bytes of a value, at most 8. All 8 are stored, because that is several times as fast
 * as n bytes one by one: what is behind them is written next, or is free.
 */
static inline void emit_value(struct emitter *e, uint64_t value, size_t n)
{
	if (__builtin_expect(e->end - e->at < 8, 0)) {
		emit_last_bytes(e, value, n);
		return;
	}
	((struct emit_word *)(void *)e->at)->value = value;
	e->at += n;
}

static inline void emit_8(struct emitter *e, unsigned byte)
{
	emit_value(e, byte, 1);
}

/* n bytes, fewer than 8. */
static inline uint64_t emit_read_bytes(const uint8_t *bytes, size_t n)
{
	uint64_t value = 0;

	for (size_t i = 0; i < n; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

static inline void emit_bytes(struct emitter *e, const uint8_t *bytes, size_t n)
{
	if ((size_t)(e->end - e->at) < n) {
		e->failed = true;
		e->end = e->at;
		return;
	}
	for (; n >= 8; bytes += 8, n -= 8)
		emit_value(e, ((const struct emit_word *)(const void *)bytes)->value, 8);
	emit_value(e, emit_read_bytes(bytes, n), n);
}

/*
 * REX, a one-byte opcode, ModRM (and SIB) for [base + displacement]. wide: REX.W. The
 * displacement has one byte where that suffices.
 */
static inline void emit_operand(struct emitter *e, bool wide, unsigned opcode, unsigned reg,
				unsigned base, int32_t displacement)
{
	const unsigned rex = 0x40 | (wide ? 8u : 0u) | (reg >> 3) << 2 | base >> 3;
	const bool byte = displacement >= -128 && displacement <= 127;
	uint64_t value = opcode | ((byte ? 0x40u : 0x80u) | (reg & 7) << 3 | (base & 7)) << 8;
	unsigned n = 2;

	if ((base & 7) == EMIT_RSP) { /* SIB: no index */
		value |= 0x240000;
		n++;
	}
	if (rex != 0x40) {
		value = value << 8 | rex;
		n++;
	}
	emit_value(e, value | (uint64_t)(uint32_t)displacement << 8 * n, n + (byte ? 1 : 4));
}

/* GS prefix, REX, opcode, ModRM and SIB for gs:[offset]. offset: of struct context. */
static inline void emit_context(struct emitter *e, bool wide, unsigned opcode, unsigned reg,
				uint32_t offset)
{
	const unsigned rex = 0x40 | (wide ? 8u : 0u) | (reg >> 3) << 2;
	/* SIB: neither base nor index */
	const uint64_t value = opcode | (0x04 | (reg & 7) << 3) << 8 | 0x250000;

	if (rex != 0x40)
		emit_value(e, 0x65 | rex << 8 | value << 16, 5);
	else
		emit_value(e, 0x65 | value << 8, 4);
	emit_value(e, offset, 4);
}

/*
 * The 32 bits that lead from the end of a field to the target; `behind`: bytes of the instruction
 * that follow the field.
 */
static inline bool emit_distance(const uint8_t *field, size_t behind, uint64_t target, int32_t *d)
{
	int64_t wide = (int64_t)(target - ((uint64_t)(uintptr_t)field + 4 + behind));
	*d = (int32_t)wide;
	return wide == *d;
}

static inline void emit_rel32(struct emitter *e, uint64_t target)
{
	int32_t d;
	if (!emit_distance(e->at, 0, target, &d))
		e->failed = true;
	emit_value(e, (uint32_t)d, 4);
}

/* Writes a branch offset of 32 bits whose target is not known yet: returns its place. */
static inline uint8_t *emit_hole(struct emitter *e)
{
	uint8_t *field = e->at;
	emit_value(e, 0, 4);
	return field;
}

/*
 * Lets the branch (or PUSH) whose 32-bit field is at `field` lead to the target; also for code
 * that runs: the field is written in one access. False: the target is out of reach, and nothing
 * was written.
 */
static inline bool emit_link(uint8_t *field, uint64_t target)
{
	int32_t d;
	if (!emit_distance(field, 0, target, &d))
		return false;
	((volatile struct emit_rel32 *)field)->value = d;
	return true;
}

/* Lets a branch whose 32-bit field is at `field` lead to here. */
static inline void emit_land(struct emitter *e, uint8_t *field)
{
	if (!e->failed && !emit_link(field, (uint64_t)(uintptr_t)e->at))
		e->failed = true;
}

/* The same for a field of 8 bits. */
static inline void emit_land_8(struct emitter *e, uint8_t *field)
{
	int64_t d = e->at - (field + 1);
	if (d > 127)
		e->failed = true;
	if (!e->failed)
		*field = (uint8_t)d;
}

/* Lets a branch whose 8-bit field is at `field` lead back to `target`. */
static inline void emit_back_8(struct emitter *e, uint8_t *field, const uint8_t *target)
{
	int64_t d = target - (field + 1);
	if (d < -128)
		e->failed = true;
	if (!e->failed)
		*field = (uint8_t)d;
}

/* Registers and the context. */

/* mov gs:[offset], reg */
static inline void emit_save(struct emitter *e, unsigned reg, uint32_t offset)
{
	emit_context(e, true, 0x89, reg, offset);
}

/* mov reg, gs:[offset] */
static inline void emit_load(struct emitter *e, unsigned reg, uint32_t offset)
{
	emit_context(e, true, 0x8b, reg, offset);
}

/* mov gs:[offset], r32 */
static inline void emit_save_low(struct emitter *e, unsigned reg, uint32_t offset)
{
	emit_context(e, false, 0x89, reg, offset);
}

/* mov r32, gs:[offset] */
static inline void emit_load_low(struct emitter *e, unsigned reg, uint32_t offset)
{
	emit_context(e, false, 0x8b, reg, offset);
}

/*
 * GS prefix, REX, opcode and ModRM for gs:[base + offset]. base: neither RSP nor R12; both
 * registers are below R8.
 */
static inline void emit_context_at(struct emitter *e, bool wide, unsigned opcode, unsigned reg,
				   unsigned base, uint32_t offset)
{
	emit_8(e, 0x65);
	if (wide)
		emit_8(e, 0x48);
	emit_8(e, opcode);
	emit_8(e, 0x80 | (reg & 7) << 3 | (base & 7));
	emit_value(e, offset, 4);
}

/* mov dword gs:[offset], value */
static inline void emit_save_32(struct emitter *e, uint32_t offset, uint32_t value)
{
	emit_context(e, false, 0xc7, 0, offset);
	emit_value(e, value, 4);
}

/* mov byte gs:[offset], value */
static inline void emit_save_8(struct emitter *e, uint32_t offset, uint8_t value)
{
	emit_context(e, false, 0xc6, 0, offset);
	emit_8(e, value);
}

/* mov reg, value: the shorter of mov r32, imm32 and movabs */
static inline void emit_constant(struct emitter *e, unsigned reg, uint64_t value)
{
	bool wide = value >> 32 != 0;
	unsigned rex = 0x40 | (wide ? 8u : 0u) | reg >> 3;
	if (rex != 0x40)
		emit_8(e, rex);
	emit_8(e, 0xb8 | (reg & 7));
	emit_value(e, value, wide ? 8 : 4);
}

/* movabs reg, value, always of EMIT_CONSTANT_64 bytes; the value is its last 8 bytes */
#define EMIT_CONSTANT_64 10
static inline void emit_constant_64(struct emitter *e, unsigned reg, uint64_t value)
{
	emit_value(e, 0x48 | reg >> 3 | (0xb8 | (reg & 7)) << 8, 2);
	emit_value(e, value, 8);
}

/* lea reg, [base + displacement] */
static inline void emit_add(struct emitter *e, unsigned reg, unsigned base, int32_t displacement)
{
	emit_operand(e, true, 0x8d, reg, base, displacement);
}

/* The same with 32 bits: the result's upper half is 0. lea r32, [base + displacement] */
static inline void emit_add_32(struct emitter *e, unsigned reg, unsigned base, int32_t displacement)
{
	emit_operand(e, false, 0x8d, reg, base, displacement);
}

/* lea reg, [base + index]; index: not RSP; base: not RBP, not R13 */
static inline void emit_sum(struct emitter *e, unsigned reg, unsigned base, unsigned index)
{
	const unsigned rex = 0x48 | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3;

	emit_value(
	    e, rex | 0x8d00 | (0x04 | (reg & 7) << 3) << 16 | ((index & 7) << 3 | (base & 7)) << 24,
	    4);
}

/* rorx reg, reg, 32 (BMI2): exchanges the halves */
static inline void emit_rotate_32(struct emitter *e, unsigned reg)
{
	emit_8(e, 0xc4);
	emit_8(e, 0x43 | (reg >> 3 ? 0u : 0xa0u)); /* R, X and B are inverted */
	emit_8(e, 0xfb);
	emit_8(e, 0xf0);
	emit_8(e, 0xc0 | (reg & 7) << 3 | (reg & 7));
	emit_8(e, 32);
}

/* movzx to32, from16 */
static inline void emit_low_16(struct emitter *e, unsigned to, unsigned from)
{
	unsigned rex = 0x40 | (to >> 3) << 2 | from >> 3;
	if (rex != 0x40)
		emit_8(e, rex);
	emit_8(e, 0x0f);
	emit_8(e, 0xb7);
	emit_8(e, 0xc0 | (to & 7) << 3 | (from & 7));
}

/* movzx to32, from8; below RSP */
static inline void emit_low_8(struct emitter *e, unsigned to, unsigned from)
{
	emit_8(e, 0x0f);
	emit_8(e, 0xb6);
	emit_8(e, 0xc0 | (to & 7) << 3 | (from & 7));
}

/* mov reg, [base + displacement] */
static inline void emit_read(struct emitter *e, unsigned reg, unsigned base, int32_t displacement)
{
	emit_operand(e, true, 0x8b, reg, base, displacement);
}

/* Reads 1, 2, 4 or 8 bytes; the rest is 0. movzx, mov reg, [base] */
static inline void emit_read_sized(struct emitter *e, unsigned reg, unsigned base, unsigned size)
{
	if (size < 4)
		emit_8(e, 0x0f);
	if (size < 4)
		emit_value(e, (size == 1 ? 0xb6u : 0xb7u) | (reg & 7) << 11 | (base & 7) << 8, 2);
	else
		emit_operand(e, size == 8, 0x8b, reg, base, 0);
}

/* mov [base + displacement], reg */
static inline void emit_write(struct emitter *e, unsigned reg, unsigned base, int32_t displacement)
{
	emit_operand(e, true, 0x89, reg, base, displacement);
}

/* pop reg */
static inline void emit_pop(struct emitter *e, unsigned reg)
{
	if (reg >> 3)
		emit_8(e, 0x41);
	emit_8(e, 0x58 | (reg & 7));
}

/* The log. */

/* A unit that has the program's R11 in R11 goes over to the log's pointer ... */
static inline void emit_log_take(struct emitter *e)
{
	emit_save(e, EMIT_LOG, CONTEXT_R11);
	emit_load(e, EMIT_LOG, CONTEXT_LOG);
}

/* ... and one that has the log's pointer there to the program's R11. */
static inline void emit_log_give(struct emitter *e)
{
	emit_save(e, EMIT_LOG, CONTEXT_LOG);
	emit_load(e, EMIT_LOG, CONTEXT_R11);
}

/* mov byte/word/dword [r11 + offset], value; n: 1, 2 or 4 */
static inline void emit_log_value(struct emitter *e, int32_t offset, uint32_t value, size_t n)
{
	if (n == 2)
		emit_8(e, 0x66);
	emit_operand(e, false, n == 1 ? 0xc6 : 0xc7, 0, EMIT_LOG, offset);
	emit_value(e, value, n);
}

/* mov qword [r11 + offset], value; the value is one that 32 bits with a sign can express */
static inline void emit_log_value_64(struct emitter *e, int32_t offset, int32_t value)
{
	emit_operand(e, true, 0xc7, 0, EMIT_LOG, offset);
	emit_value(e, (uint32_t)value, 4);
}

/*
 * Stores n bytes from [r11 + offset] on, with as few instructions as possible. Three bytes are
 * stored as four, of which the last is 0: behind the log's pointer is nothing that counts.
 */
static inline void emit_log_bytes(struct emitter *e, int32_t offset, const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t left = n - i, take = left >= 3 ? 4 : left;
		uint64_t value = 0;
		for (size_t k = 0; k < 8 && k < left; k++)
			value |= (uint64_t)bytes[i + k] << 8 * k;
		if (left >= 7 && (int64_t)value == (int32_t)value) {
			emit_log_value_64(e, offset + (int32_t)i, (int32_t)value);
			take = 8;
		} else {
			emit_log_value(e, offset + (int32_t)i, (uint32_t)value, take);
		}
		i += take;
	}
}

/* mov [r11 + offset], reg */
static inline void emit_log_register(struct emitter *e, int32_t offset, unsigned reg)
{
	emit_write(e, reg, EMIT_LOG, offset);
}

/* lea r11, [r11 + n]: the last of an exit's stores */
static inline void emit_log_advance(struct emitter *e, int32_t n)
{
	emit_add(e, EMIT_LOG, EMIT_LOG, n);
}

/*
 * mov byte [r11], 0: stores nothing that counts, but faults if the pointer is poisoned or at the
 * end of its chunk.
 */
static inline void emit_log_touch(struct emitter *e)
{
	emit_log_value(e, 0, 0, 1);
}

/* Appends a number to the log of exits. Changes `scratch`, which is not RSP. */
static inline void emit_exit_number(struct emitter *e, unsigned scratch, uint32_t number)
{
	emit_load(e, scratch, CONTEXT_EXITS_LOG);
	emit_operand(e, false, 0xc7, 0, scratch, 0);
	emit_value(e, number, 4);
	emit_add(e, scratch, scratch, 4);
	emit_save(e, scratch, CONTEXT_EXITS_LOG);
}

/* n bytes that do nothing: the forms that the SDM recommends (Vol. 2, NOP) */
static inline void emit_nothing(struct emitter *e, size_t n)
{
	static const uint8_t forms[][9] = {
	    {0x90},
	    {0x66, 0x90},
	    {0x0f, 0x1f, 0x00},
	    {0x0f, 0x1f, 0x40},
	    {0x0f, 0x1f, 0x44},
	    {0x66, 0x0f, 0x1f, 0x44},
	    {0x0f, 0x1f, 0x80},
	    {0x0f, 0x1f, 0x84},
	    {0x66, 0x0f, 0x1f, 0x84},
	};
	while (n) {
		size_t take = n < sizeof(forms[0]) ? n : sizeof(forms[0]);
		emit_bytes(e, forms[take - 1], take);
		n -= take;
	}
}

/* The stack of return addresses (struct context). Scratch registers are below RSP. */

/* Moves on by one entry, to the next or (back) to the one before; it is at gs:[reg + ...] then. */
static inline void emit_returns_step(struct emitter *e, unsigned reg, bool back)
{
	emit_load_low(e, reg, CONTEXT_RETURNS_AT);
	emit_add_32(e, reg, reg, back ? -8 : 8);
	emit_low_8(e, reg, reg);
	emit_save_low(e, reg, CONTEXT_RETURNS_AT);
}

/*
 * A call: `code` leads to the unit of the return address. Changes both registers. Each value is
 * stored at once: a load of eight bytes waits for long behind two stores of four.
 */
static inline void emit_returns_push(struct emitter *e, unsigned index, unsigned value,
				     uint64_t address, uint64_t code)
{
	emit_returns_step(e, index, false);
	emit_constant(e, value, -address);
	emit_context_at(e, true, 0x89, value, index, CONTEXT_RETURNS);
	emit_constant(e, value, code);
	emit_context_at(e, true, 0x89, value, index, CONTEXT_RETURN_CODE);
}

/* mov qword gs:[reg + CONTEXT_RETURNS], RETURNS_NONE */
static inline void emit_returns_end(struct emitter *e, unsigned reg)
{
	emit_context_at(e, true, 0xc7, 0, reg, CONTEXT_RETURNS);
	emit_value(e, RETURNS_NONE, 4);
}

/* A return with a TIP. Changes `scratch`. */
static inline void emit_returns_forget(struct emitter *e, unsigned scratch)
{
	emit_returns_step(e, scratch, false);
	emit_returns_end(e, scratch);
}

/* Adds the negated return address on top to RCX, which is 0 then if it was the same. Changes RAX.
 */
static inline void emit_returns_compare(struct emitter *e)
{
	emit_load_low(e, EMIT_RAX, CONTEXT_RETURNS_AT);
	emit_context_at(e, true, 0x8b, EMIT_RAX, EMIT_RAX, CONTEXT_RETURNS);
	emit_sum(e, EMIT_RCX, EMIT_RCX, EMIT_RAX);
}

/* Takes what is on top away; CONTEXT_TARGET leads to its unit. Changes RAX and RCX. */
static inline void emit_returns_pop(struct emitter *e)
{
	emit_load_low(e, EMIT_RCX, CONTEXT_RETURNS_AT);
	emit_returns_end(e, EMIT_RCX);
	emit_context_at(e, true, 0x8b, EMIT_RAX, EMIT_RCX, CONTEXT_RETURN_CODE);
	emit_save(e, EMIT_RAX, CONTEXT_TARGET);
	emit_returns_step(e, EMIT_RCX, true);
}

/* Branches. Those that return a place lead nowhere until emit_land() or emit_link(). */

/* jmp target */
static inline void emit_jmp(struct emitter *e, uint64_t target)
{
	emit_8(e, 0xe9);
	emit_rel32(e, target);
}

static inline uint8_t *emit_jmp_hole(struct emitter *e)
{
	emit_8(e, 0xe9);
	return emit_hole(e);
}

/* condition: the low half of the opcode */
static inline uint8_t *emit_jcc_hole(struct emitter *e, unsigned condition)
{
	emit_8(e, 0x0f);
	emit_8(e, 0x80 | condition);
	return emit_hole(e);
}

/* jcc, whose field is aligned like that of emit_jmp_linkable(). Returns the field. */
static inline uint8_t *emit_jcc_linkable(struct emitter *e, unsigned condition)
{
	emit_nothing(e, (-(uintptr_t)e->at - 2) & 3);
	return emit_jcc_hole(e, condition);
}

/* jrcxz with 8 bits: with emit_add() or emit_sum(), a comparison that leaves the flags alone */
static inline uint8_t *emit_jrcxz(struct emitter *e)
{
	emit_8(e, 0xe3);
	emit_8(e, 0);
	return e->at - 1;
}

/*
 * LOOPNE, LOOPE, LOOP or JRCXZ (opcode e0 to e3; address_32: with ECX) with a reach of 32 bits:
 * the place leads to where the branch goes when it is taken, behind it the other way begins.
 */
static inline uint8_t *emit_loop_hole(struct emitter *e, unsigned opcode, bool address_32)
{
	if (address_32)
		emit_8(e, 0x67);
	emit_8(e, opcode);
	emit_8(e, 2); /* over the short jump */
	emit_8(e, 0xeb);
	emit_8(e, 5); /* over the long one */
	return emit_jmp_hole(e);
}

/* jmp gs:[offset] */
static inline void emit_jmp_context(struct emitter *e, uint32_t offset)
{
	emit_context(e, false, 0xff, 4, offset);
}

/* jmp gs:[index * 8 + offset]; index: not RSP */
static inline void emit_jmp_table(struct emitter *e, unsigned index, uint32_t offset)
{
	emit_8(e, 0x65);
	if (index >> 3)
		emit_8(e, 0x42);
	emit_8(e, 0xff);
	emit_8(e, 0x24);
	emit_8(e, 0xc5 | (index & 7) << 3);
	emit_value(e, offset, 4);
}

/* jmp [rip + 0], and the target's 8 bytes: reaches everything. EMIT_JMP_FAR bytes. */
#define EMIT_JMP_FAR 14
static inline void emit_jmp_far(struct emitter *e, uint64_t target)
{
	emit_8(e, 0xff);
	emit_8(e, 0x25);
	emit_value(e, 0, 4);
	emit_value(e, target, 8);
}

/* push qword [rip + ...]: returns the field, which leads to a literal's 8 bytes. */
static inline uint8_t *emit_push_literal(struct emitter *e)
{
	emit_8(e, 0xff);
	emit_8(e, 0x35);
	return emit_hole(e);
}

/* push value, which 32 bits with a sign can express: return addresses below 2 GB. */
static inline void emit_push_32(struct emitter *e, int32_t value)
{
	emit_8(e, 0x68);
	emit_value(e, (uint32_t)value, 4);
}

/* Memory near the cache: counters. */

/* mov r32, [rip + ...] */
static inline void emit_read_32(struct emitter *e, unsigned reg, uint64_t address)
{
	if (reg >> 3)
		emit_8(e, 0x44);
	emit_8(e, 0x8b);
	emit_8(e, 0x05 | (reg & 7) << 3);
	emit_rel32(e, address);
}

/* mov [rip + ...], r32 */
static inline void emit_write_32(struct emitter *e, unsigned reg, uint64_t address)
{
	if (reg >> 3)
		emit_8(e, 0x44);
	emit_8(e, 0x89);
	emit_8(e, 0x05 | (reg & 7) << 3);
	emit_rel32(e, address);
}

/*
 * Counts the 32 bits at an address down, leaves the new value in RCX, and writes a JRCXZ, whose
 * place is returned: it branches when 0 is reached. RCX is the caller's to save before.
 */
static inline uint8_t *emit_count_down(struct emitter *e, uint64_t address)
{
	emit_read_32(e, EMIT_RCX, address);
	emit_add_32(e, EMIT_RCX, EMIT_RCX, -1);
	emit_write_32(e, EMIT_RCX, address);
	return emit_jrcxz(e);
}

/* Does nothing up to the next multiple of `alignment`, a power of two. */
static inline void emit_align(struct emitter *e, size_t alignment)
{
	emit_nothing(e, -(uintptr_t)e->at & (alignment - 1));
}

/*
 * jmp, whose field is aligned, so that emit_link() changes it at once for all threads that run
 * through it. Returns the field.
 */
static inline uint8_t *emit_jmp_linkable(struct emitter *e)
{
	emit_nothing(e, (-(uintptr_t)e->at - 1) & 3);
	return emit_jmp_hole(e);
}

#endif
