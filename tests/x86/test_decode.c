/* SPDX-License-Identifier: MIT */
/* Length and class by the opcode map of SDM Vol. 2. */
#include "test.h"

#include "x86/x86.h"

#include <string.h>

struct example {
	uint8_t mode, insn_class, size;
	uint8_t bytes[15];
	uint64_t target;
};

#define IP 0x1000

static const struct example examples[] = {
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 1, {0x90}, 0},
    {PTAH_EXEC_64, PTAH_INSN_COND, 2, {0x75, 0xfe}, IP},
    {PTAH_EXEC_64, PTAH_INSN_COND, 6, {0x0f, 0x84, 0x00, 0x01}, IP + 6 + 0x100},
    {PTAH_EXEC_64, PTAH_INSN_COND, 2, {0xe3, 0x05}, IP + 7},
    {PTAH_EXEC_64, PTAH_INSN_COND, 2, {0xe2, 0xfe}, IP},
    {PTAH_EXEC_64, PTAH_INSN_JUMP, 2, {0xeb, 0xfe}, IP},
    {PTAH_EXEC_64, PTAH_INSN_JUMP, 5, {0xe9, 0xfb, 0xff, 0xff, 0xff}, IP},
    {PTAH_EXEC_64, PTAH_INSN_CALL, 5, {0xe8}, IP + 5},
    {PTAH_EXEC_64, PTAH_INSN_JUMP_IND, 2, {0xff, 0xe0}, 0},
    {PTAH_EXEC_64, PTAH_INSN_JUMP_IND, 3, {0x3e, 0xff, 0xe0}, 0},
    {PTAH_EXEC_64, PTAH_INSN_CALL_IND, 4, {0x41, 0xff, 0x14, 0x24}, 0},
    {PTAH_EXEC_64, PTAH_INSN_RETURN, 1, {0xc3}, 0},
    {PTAH_EXEC_64, PTAH_INSN_RETURN, 2, {0xf3, 0xc3}, 0},
    {PTAH_EXEC_64, PTAH_INSN_RETURN, 3, {0xc2, 0x08}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_CALL, 2, {0x0f, 0x05}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_CALL, 2, {0x0f, 0x34}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_CALL, 1, {0xcc}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_CALL, 2, {0xcd, 0x80}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_CALL, 3, {0x0f, 0x01, 0xc1}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_CALL, 3, {0x48, 0xff, 0x18}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_JUMP, 3, {0x48, 0xff, 0x28}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 2, {0x48, 0xcf}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 2, {0x48, 0xcb}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 3, {0x48, 0x0f, 0x07}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 3, {0x0f, 0x01, 0xc2}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 4, {0xf3, 0x0f, 0x01, 0xec}, 0},
    /* ERETS, ERETU, JMPABS: FRED's and APX's encodings, as Intel's XED has them. */
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 4, {0xf2, 0x0f, 0x01, 0xca}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 4, {0xf3, 0x0f, 0x01, 0xca}, 0},
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 3, {0x0f, 0x01, 0xca}, 0}, /* CLAC */
    {PTAH_EXEC_64, PTAH_INSN_JUMP_IND, 11, {0xd5, 0x00, 0xa1, 0x0d, 0x10}, 0},
    {PTAH_EXEC_64, PTAH_INSN_JUMP_IND, 12, {0x2e, 0xd5, 0x00, 0xa1, 0x0d, 0x10}, 0},
    {PTAH_EXEC_64, PTAH_INSN_JUMP_IND, 11, {0xd5, 0x62, 0xa1, 0x0d, 0x10}, 0}, /* R, X, B */
    /* REX before another prefix means nothing. */
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 5, {0x40, 0xf2, 0x0f, 0x01, 0xca}, 0},
    {PTAH_EXEC_64, PTAH_INSN_FAR_RETURN, 5, {0xf2, 0x40, 0x0f, 0x01, 0xca}, 0},
    {PTAH_EXEC_64, PTAH_INSN_JUMP_IND, 13, {0x48, 0x2e, 0xd5, 0x00, 0xa1, 0x0d}, 0},
    {PTAH_EXEC_64, PTAH_INSN_PTWRITE, 5, {0xf3, 0x48, 0x0f, 0xae, 0x20}, 0},
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 3, {0x0f, 0xae, 0xf0}, 0}, /* MFENCE */
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 6, {0xc7, 0xf8}, 0},       /* XBEGIN falls through */
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 2, {0x0f, 0x0b}, 0},       /* UD2 */
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 3, {0xc5, 0xf8, 0x77}, 0}, /* VEX */
    {PTAH_EXEC_64, PTAH_INSN_OTHER, 6, {0x62, 0xf1, 0x7c, 0x48, 0x28, 0xc0}, 0}, /* EVEX */
    {PTAH_EXEC_64,
     PTAH_INSN_OTHER,
     10,
     {0x48, 0xb8, 0xe9, 0xe9, 0xe9, 0xe9, 0xe9, 0xe9, 0xe9, 0xe9},
     0},
    {PTAH_EXEC_32, PTAH_INSN_FAR_CALL, 7, {0x9a}, 0},
    {PTAH_EXEC_32, PTAH_INSN_FAR_JUMP, 7, {0xea}, 0},
    {PTAH_EXEC_32, PTAH_INSN_OTHER, 1, {0x48}, 0}, /* DEC EAX: no REX here */
    {PTAH_EXEC_32, PTAH_INSN_CALL, 5, {0xe8, 0x00, 0x00, 0x00, 0xf0}, 0xf0001005},
    {PTAH_EXEC_16, PTAH_INSN_JUMP, 3, {0xe9, 0x10, 0x00}, IP + 0x13},
    {PTAH_EXEC_16, PTAH_INSN_COND, 4, {0x0f, 0x84, 0x00, 0x01}, IP + 0x104},
};

TEST(classes)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		const struct example *e = &examples[i];
		struct x86_insn insn;

		assert_int_equal(x86_decode(e->bytes, 15, IP, e->mode, &insn), 0);
		assert_int_equal(insn.size, e->size);
		assert_int_equal(insn.insn_class, e->insn_class);
		assert_true(insn.target == e->target);
		/* A part of an instruction is never one. */
		for (size_t n = 0; n < e->size; n++)
			assert_int_equal(x86_decode(e->bytes, n, IP, e->mode, &insn), PTAH_E_MORE);
	}
}

TEST(properties)
{
	static const uint8_t rep_movs[] = {0xf3, 0x48, 0xa5}, movs[] = {0x48, 0xa5};
	static const uint8_t mov_cr3[] = {0x0f, 0x22, 0xd8}, mov_cr4[] = {0x0f, 0x22, 0xe0};
	static const uint8_t rex_d5[15] = {0x48, 0xd5, 0x00, 0xa1},
			     rex2_w[15] = {0xd5, 0x08, 0xa1}; /* as XED, no JMPABS */
	static const uint8_t bad[15] = {0x0f, 0xff, 0x06},
			     prefixes[15] = {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
					     0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66};
	struct x86_insn insn;

	assert_int_equal(x86_decode(rep_movs, 3, 0, PTAH_EXEC_64, &insn), 0);
	assert_true(insn.rep);
	assert_int_equal(x86_decode(movs, 2, 0, PTAH_EXEC_64, &insn), 0);
	assert_false(insn.rep);
	assert_int_equal(x86_decode(mov_cr3, 3, 0, PTAH_EXEC_64, &insn), 0);
	assert_true(insn.writes_cr3);
	assert_int_equal(x86_decode(mov_cr4, 3, 0, PTAH_EXEC_64, &insn), 0);
	assert_false(insn.writes_cr3);
	assert_int_equal(x86_decode(prefixes, 15, 0, PTAH_EXEC_64, &insn), PTAH_E_BAD_INSN);
	assert_int_equal(x86_decode(rex_d5, 15, 0, PTAH_EXEC_64, &insn), PTAH_E_BAD_INSN);
	assert_int_equal(x86_decode(rex2_w, 15, 0, PTAH_EXEC_64, &insn), PTAH_E_BAD_INSN);
	assert_int_equal(x86_decode(bad, 15, 0, PTAH_EXEC_UNKNOWN, &insn), PTAH_E_INVAL);
}
