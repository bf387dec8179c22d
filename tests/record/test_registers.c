/* SPDX-License-Identifier: MIT */
/*
 * The model-specific registers of a virtual machine's processor: which exist, what can be written
 * to them and what raises #GP. The rules are those of SDM volume 3, "Architectural Performance
 * Monitoring" and "Intel Processor Trace", and of the table of registers in volume 4.
 */
#include "record/system/registers.h"

#include <ptah/engine/rtit.h>

#include "base/compiler.h"
#include "test.h"

#include <stdlib.h>

static struct system_registers r;
static struct ptah_model *m;

static void use(const char *name)
{
	const struct ptah_model_config config = {.size = sizeof(config),
						 .processor = ptah_model_find(name)};

	free(m);
	m = malloc(ptah_model_size());
	assert_int_equal(ptah_model_init(m, &config), PTAH_OK);
	system_registers_init(&r, m);
}

static int set_up(void **state)
{
	(void)state;
	use("skylake"); /* performance monitoring version 4, 4 counters of 48 bits, 3 fixed ones */
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	free(m);
	m = NULL;
	return 0;
}

static enum system_access write(uint32_t msr, uint64_t value)
{
	return system_wrmsr(&r, m, msr, value);
}

static enum system_access read(uint32_t msr)
{
	uint64_t value;

	return system_rdmsr(&r, m, msr, &value);
}

static uint64_t value(uint32_t msr)
{
	uint64_t value = 0;

	assert_int_equal(system_rdmsr(&r, m, msr, &value), SYSTEM_DONE);
	return value;
}

TEST_WITH(what_was_written_is_read, set_up, tear_down)
{
	static const struct {
		uint32_t msr;
		uint64_t all; /* the bits that can be written */
	} registers[] = {
	    {0x186, 0xffffffff},	 /* IA32_PERFEVTSEL0 */
	    {0x189, 0xffffffff},	 /* and 3 */
	    {0x1a6, UINT64_MAX},	 /* MSR_OFFCORE_RSP_0 */
	    {0x309, 0xffffffffffff},	 /* IA32_FIXED_CTR0 */
	    {0x30b, 0xffffffffffff},	 /* and 2 */
	    {0x38d, 0xfff},		 /* IA32_FIXED_CTR_CTRL: four bits for each of three */
	    {0x38f, 0x70000000f},	 /* IA32_PERF_GLOBAL_CTRL */
	    {0x4c1, 0xffffffffffff},	 /* IA32_A_PMC0 */
	    {0x4c4, 0xffffffffffff},	 /* and 3 */
	    {0x571, 0x1ffff00000030ull}, /* IA32_RTIT_STATUS */
	    {0x560, 0x7fffffff80},	 /* IA32_RTIT_OUTPUT_BASE, MAXPHYADDR 39 */
	};

	for (size_t i = 0; i < ARRAY_SIZE(registers); i++) {
		const uint32_t msr = registers[i].msr;
		const uint64_t all = registers[i].all;

		assert_int_equal(value(msr), 0);
		assert_int_equal(write(msr, all), SYSTEM_DONE);
		assert_int_equal(value(msr), all);
		for (unsigned bit = 0; bit < 64; bit++)
			if (!(all >> bit & 1) && !(msr == 0x571 && bit < 3)) /* ignored there */
				assert_int_equal(write(msr, UINT64_C(1) << bit), SYSTEM_FAULTS);
		assert_int_equal(value(msr), all);
	}
}

TEST_WITH(every_register_keeps_its_own_value, set_up, tear_down)
{
	static const uint32_t all[] = {0xc1,  0xc2,  0xc3,  0xc4,  0x186, 0x187, 0x188, 0x189,
				       0x1a6, 0x1a7, 0x309, 0x30a, 0x30b, 0x38d, 0x38f, 0x561,
				       0x572, 0x580, 0x581, 0x582, 0x583, 0x1d9};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		assert_int_equal(write(all[i], all[i] == 0x38f || all[i] == 0x1d9 ? i & 3 : i << 5),
				 SYSTEM_DONE);
	assert_int_equal(value(0x561), UINT64_C(15) << 5 | 0x7f);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] != 0x561)
			assert_int_equal(value(all[i]),
					 all[i] == 0x38f || all[i] == 0x1d9 ? i & 3 : i << 5);
}

/* SDM "Full-Width Writes to Performance Counter Registers" */
TEST_WITH(a_counter_is_written_with_32_bits_or_with_all, set_up, tear_down)
{
	assert_int_equal(write(0xc2, UINT64_C(0x1234567880000001)), SYSTEM_DONE);
	assert_int_equal(value(0xc2), UINT64_C(0xffff80000001));
	assert_int_equal(value(0x4c2), UINT64_C(0xffff80000001));
	assert_int_equal(write(0x4c2, UINT64_C(0x123456789abc)), SYSTEM_DONE);
	assert_int_equal(value(0xc2), UINT64_C(0x123456789abc));
	assert_int_equal(write(0x4c2, UINT64_C(1) << 48), SYSTEM_FAULTS);
	assert_int_equal(value(0x345) >> 13 & 1, 1);
}

TEST_WITH(what_cpuid_does_not_count_does_not_exist, set_up, tear_down)
{
	static const uint32_t missing[] = {0xc5,  0xc8,	 0x18a, 0x18d, 0x30c, 0x4c5,
					   0x4c8, 0x562, 0x56f, 0x573, 0x584, 0x587};

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		assert_int_equal(read(missing[i]), SYSTEM_FAULTS);
		assert_int_equal(write(missing[i], 0), SYSTEM_FAULTS);
	}
	use("broadwell"); /* version 3, no ranges */
	assert_int_equal(write(0x391, 0), SYSTEM_FAULTS);
	assert_int_equal(read(0x580), SYSTEM_FAULTS);
	assert_int_equal(write(0x390, 0), SYSTEM_DONE);
	use("none");
	for (uint32_t msr = 0x560; msr <= 0x587; msr++) {
		assert_int_equal(read(msr), SYSTEM_FAULTS);
		assert_int_equal(write(msr, 0), SYSTEM_FAULTS);
	}
}

TEST_WITH(read_only_registers_cannot_be_written, set_up, tear_down)
{
	static const uint32_t fixed[] = {0x345, 0x38e, 0xce};

	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
		assert_int_equal(read(fixed[i]), SYSTEM_DONE);
		assert_int_equal(write(fixed[i], value(fixed[i])), SYSTEM_FAULTS);
	}
	assert_int_equal(value(0xce) >> 8 & 0xff, 34);
	/* No PEBS format, no LBR format, no PEBS output to Intel PT (bit 16). */
	assert_int_equal(value(0x345) & ~(UINT64_C(1) << 13), 0);
}

/* IA32_PERF_GLOBAL_STATUS bit 55 by _SET and _RESET */
TEST_WITH(the_status_is_set_and_reset, set_up, tear_down)
{
	const uint64_t bit = UINT64_C(1) << 55;

	assert_int_equal(write(0x391, bit), SYSTEM_DONE);
	assert_int_equal(value(0x38e), bit);
	assert_int_equal(write(0x390, bit), SYSTEM_DONE);
	assert_int_equal(value(0x38e), 0);
	assert_int_equal(write(0x390, UINT64_C(1) << 56), SYSTEM_FAULTS);
}

/* SDM "IA32_MISC_ENABLE": bits 7, 11 and 12 are read-only. QEMU gets the write, too. */
TEST_WITH(misc_enable_has_neither_bts_nor_pebs, set_up, tear_down)
{
	assert_int_equal(value(0x1a0), 0x1881);
	assert_int_equal(write(0x1a0, 0x400000), SYSTEM_NOT_OURS);
	assert_int_equal(value(0x1a0), 0x401880);
}

TEST_WITH(other_registers_are_qemus, set_up, tear_down)
{
	static const uint32_t others[] = {0x10,	 0x1b,	     0x3a,	 0x8b,	     0x17a,
					  0x277, 0x2ff,	     0x3f1,	 0x600,	     0xda0,
					  0x485, 0xc0000080, 0xc0000100, 0xffffffff, 0};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		const bool of_model = others[i] == 0xda0 || others[i] == 0x485;

		/* Skylake has XSAVES and VMX; a machine's processor is fit to QEMU's first. */
		assert_int_equal(read(others[i]), of_model ? SYSTEM_DONE : SYSTEM_NOT_OURS);
	}
	use("minimal");
	assert_int_equal(read(0xda0), SYSTEM_NOT_OURS);
	assert_int_equal(read(0x485), SYSTEM_NOT_OURS);
}

/* SDM volume 2, "RDPMC" */
TEST_WITH(rdpmc_reads_counters, set_up, tear_down)
{
	static const uint32_t wrong[] = {4, 8, 0x40000003, 0x3fffffff, 0x80000000, UINT32_MAX};
	uint64_t v = 0;

	write(0x4c4, 77);
	write(0x30b, 88);
	assert_int_equal(system_rdpmc(&r, 3, &v), SYSTEM_DONE);
	assert_int_equal(v, 77);
	assert_int_equal(system_rdpmc(&r, 0x40000002, &v), SYSTEM_DONE);
	assert_int_equal(v, 88);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(system_rdpmc(&r, wrong[i], &v), SYSTEM_FAULTS);
}
