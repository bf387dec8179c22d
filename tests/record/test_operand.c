/* SPDX-License-Identifier: MIT */
/*
 * Operands of instructions that the plugin ptah-system.so carries out. The bytes are what GNU as
 * makes of the text beside them; addresses follow SDM volume 1, "Specifying an Offset".
 */
#include "record/system/operand.h"

#include <ptah/event.h>

#include "base/compiler.h"
#include "test.h"

enum {
	AX,
	CX,
	DX,
	BX,
	SP,
	BP,
	SI,
	DI
};

/* RAX is 0x1000000010, RCX 0x2000000020, and so on. */
static uint64_t general[16];

static int set_up(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 16; i++)
		general[i] = (i + 1) * UINT64_C(0x1000000010);
	return 0;
}

TEST_WITH(registers, set_up, NULL)
{
	static const struct {
		uint8_t bytes[6];
		uint8_t n, mode, number, size;
	} cases[] = {
	    {{0xf3, 0x0f, 0xae, 0xe1}, 4, PTAH_EXEC_64, CX, 4},	      /* ptwrite %ecx */
	    {{0xf3, 0x48, 0x0f, 0xae, 0xe4}, 5, PTAH_EXEC_64, SP, 8}, /* ptwrite %rsp */
	    {{0xf3, 0x49, 0x0f, 0xae, 0xe7}, 5, PTAH_EXEC_64, 15, 8}, /* ptwrite %r15 */
	    {{0xf3, 0x0f, 0xae, 0xe7}, 4, PTAH_EXEC_32, DI, 4},	      /* ptwrite %edi */
	    {{0xf3, 0x0f, 0xae, 0xe5}, 4, PTAH_EXEC_16, BP, 4},	      /* ptwrite %ebp */
	};
	struct system_operand o;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(system_operand(&o, cases[i].bytes, cases[i].n, cases[i].mode));
		assert_int_equal(o.number, cases[i].number);
		assert_int_equal(o.size, cases[i].size);
		assert_int_equal(o.length, cases[i].n);
	}
}

#define NEXT UINT64_C(0x401000)

TEST_WITH(memory, set_up, NULL)
{
	static const struct {
		uint8_t bytes[10];
		uint8_t n, mode, size, segment;
		uint64_t offset;
	} cases[] = {
	    /* ptwrite (%rax) */
	    {{0xf3, 0x0f, 0xae, 0x20}, 4, PTAH_EXEC_64, 4, SYSTEM_DS, 0x1000000010},
	    /* ptwriteq 0x12345678(%rip) */
	    {{0xf3, 0x48, 0x0f, 0xae, 0x25, 0x78, 0x56, 0x34, 0x12},
	     9,
	     PTAH_EXEC_64,
	     8,
	     SYSTEM_DS,
	     NEXT + 0x12345678},
	    /* ptwriteq -8(%rbp) */
	    {{0xf3, 0x48, 0x0f, 0xae, 0x65, 0xf8}, 6, PTAH_EXEC_64, 8, SYSTEM_SS, 0x6000000058},
	    /* ptwrite %fs:(%rcx,%r9,4) */
	    {{0x64, 0xf3, 0x42, 0x0f, 0xae, 0x24, 0x89},
	     7,
	     PTAH_EXEC_64,
	     4,
	     SYSTEM_FS,
	     0x2000000020 + 4 * 0xa0000000a0},
	    /* ptwrite (%eax): an address of 32 bits */
	    {{0x67, 0xf3, 0x0f, 0xae, 0x20}, 5, PTAH_EXEC_64, 4, SYSTEM_DS, 0x10},
	    /* ptwrite %gs:0xffffffffffffff80 */
	    {{0x65, 0xf3, 0x0f, 0xae, 0x24, 0x25, 0x80, 0xff, 0xff, 0xff},
	     10,
	     PTAH_EXEC_64,
	     4,
	     SYSTEM_GS,
	     UINT64_C(0xffffffffffffff80)},
	    /* xsaves64 0x40(%rdi) */
	    {{0x48, 0x0f, 0xc7, 0x6f, 0x40}, 5, PTAH_EXEC_64, 0, SYSTEM_DS, 0x80000000c0},
	    /* ptwrite -1(%eax): 32-bit code wraps at 4 GB */
	    {{0xf3, 0x0f, 0xae, 0x60, 0xef}, 5, PTAH_EXEC_32, 4, SYSTEM_DS, 0xffffffff},
	    /* ptwrite (%bx,%si) */
	    {{0xf3, 0x0f, 0xae, 0x20}, 4, PTAH_EXEC_16, 4, SYSTEM_DS, 0xb0},
	};
	struct system_operand o;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_true(system_operand(&o, cases[i].bytes, cases[i].n, cases[i].mode));
		assert_int_equal(o.number, SYSTEM_NO_REGISTER);
		assert_int_equal(o.length, cases[i].n);
		assert_int_equal(o.segment, cases[i].segment);
		if (cases[i].size)
			assert_int_equal(o.size, cases[i].size);
		assert_int_equal(system_operand_offset(&o, general, NEXT), cases[i].offset);
	}
}

TEST_WITH(what_is_not_whole_is_no_operand, set_up, NULL)
{
	static const uint8_t bytes[] = {0xf3, 0x48, 0x0f, 0xae, 0x25, 0x78, 0x56, 0x34, 0x12};
	struct system_operand o;

	for (size_t n = 0; n < sizeof(bytes); n++)
		assert_false(system_operand(&o, bytes, n, PTAH_EXEC_64));
	assert_true(system_operand(&o, bytes, sizeof(bytes), PTAH_EXEC_64));
}
