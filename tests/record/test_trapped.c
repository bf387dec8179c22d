/* SPDX-License-Identifier: MIT */
/* Which instructions of a guest the plugin ptah-system.so carries out: SDM volume 2, appendix A. */
#include "record/system/trapped.h"

#include <ptah/event.h>

#include "base/compiler.h"
#include "test.h"

TEST(the_instructions_are_recognized_in_every_mode)
{
	static const uint8_t modes[] = {PTAH_EXEC_16, PTAH_EXEC_32, PTAH_EXEC_64};
	static const struct {
		uint8_t bytes[6];
		uint8_t n, trap;
	} cases[] = {
	    {{0x0f, 0xa2}, 2, TRAP_CPUID},
	    {{0x0f, 0x32}, 2, TRAP_RDMSR},
	    {{0x0f, 0x30}, 2, TRAP_WRMSR},
	    {{0x0f, 0x33}, 2, TRAP_RDPMC},
	    {{0x66, 0x0f, 0xa2}, 3, TRAP_CPUID},
	    {{0xf3, 0x2e, 0x0f, 0x32}, 4, TRAP_RDMSR},
	    {{0xf0, 0x0f, 0xa2}, 3, TRAP_NONE}, /* LOCK: #UD */
	    {{0x0f, 0x31}, 2, TRAP_NONE},	/* RDTSC */
	    {{0x0f, 0xa2, 0x90}, 3, TRAP_NONE},
	    {{0xf3, 0x0f, 0xae, 0xe0}, 4, TRAP_PTWRITE}, /* of EAX */
	    {{0xf3, 0x0f, 0xae, 0x65}, 4, TRAP_PTWRITE}, /* of memory: QEMU reads no further */
	    {{0x0f, 0xae, 0xe0}, 3, TRAP_NONE},
	    {{0x66, 0xf3, 0x0f, 0xae, 0xe0}, 5, TRAP_NONE}, /* #UD */
	    {{0xf3, 0x0f, 0xae, 0xe8}, 4, TRAP_NONE},	    /* INCSSP */
	    {{0x0f, 0xc7, 0x2f}, 3, TRAP_XSAVES},
	    {{0x0f, 0xc7, 0x27}, 3, TRAP_XSAVEC},
	    {{0x0f, 0xc7, 0x1f}, 3, TRAP_XRSTORS},
	    {{0x0f, 0xc7, 0xef}, 3, TRAP_NONE}, /* a register */
	    {{0xf3, 0x0f, 0xc7, 0x2f}, 4, TRAP_NONE},
	    {{0x0f, 0xc7, 0x0f}, 3, TRAP_NONE}, /* CMPXCHG8B */
	    {{0x0f, 0xae, 0x28}, 3, TRAP_XRSTOR},
	    {{0x0f, 0xae, 0xe8}, 3, TRAP_NONE}, /* LFENCE */
	    {{0x0f, 0x01, 0xd1}, 3, TRAP_XSETBV},
	    {{0x0f, 0x01, 0xd0}, 3, TRAP_NONE}, /* XGETBV */
	    {{0x0f}, 1, TRAP_NONE},
	    {{0x66, 0x66}, 2, TRAP_NONE},
	    {{0}, 0, TRAP_NONE},
	};

	for (size_t mode = 0; mode < ARRAY_SIZE(modes); mode++)
		for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
			assert_int_equal(
			    system_trap_of(cases[i].bytes, cases[i].n, modes[mode], true),
			    cases[i].trap);
}

/* Without it, 48 0F A2 is DEC EAX and CPUID, which QEMU passes as two instructions. */
TEST(rex_is_a_prefix_in_64_bit_mode_alone)
{
	static const uint8_t bytes[] = {0x48, 0x0f, 0xa2};

	assert_int_equal(system_trap_of(bytes, 3, PTAH_EXEC_64, false), TRAP_CPUID);
	assert_int_equal(system_trap_of(bytes, 3, PTAH_EXEC_32, false), TRAP_NONE);
}

TEST(xrstor_is_qemus_without_the_compacted_format)
{
	static const uint8_t bytes[] = {0x0f, 0xae, 0x28};

	assert_int_equal(system_trap_of(bytes, 3, PTAH_EXEC_64, false), TRAP_NONE);
	assert_int_equal(system_trap_of(bytes, 3, PTAH_EXEC_64, true), TRAP_XRSTOR);
}
