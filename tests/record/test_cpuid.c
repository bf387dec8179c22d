/* SPDX-License-Identifier: MIT */
/*
 * What CPUID returns in a virtual machine: QEMU's answers, changed where a driver for Intel PT
 * looks. What is expected is in SDM volume 2, "CPUID", and in the table of processors.
 */
#include "record/system/cpuid.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

static struct ptah_model *m;
static struct ptah_model_processor p;
static uint32_t r[4];

/* QEMU's physical addresses have 40 bits, its linear ones 48. */
static void use_with(const char *name, uint32_t sizes, bool xsaves)
{
	const struct ptah_model_config config = {.size = sizeof(config), .processor = &p};

	p = *ptah_model_find(name);
	system_cpuid_fit(&p, sizes, xsaves);
	free(m);
	m = malloc(ptah_model_size());
	assert_int_equal(ptah_model_init(m, &config), PTAH_OK);
}

static void use(const char *name)
{
	use_with(name, 0x3028, false);
}

static int tear_down(void **state)
{
	(void)state;
	free(m);
	m = NULL;
	return 0;
}

static void ask(uint32_t leaf, uint32_t subleaf, uint32_t eax, uint32_t ebx, uint32_t ecx,
		uint32_t edx)
{
	const uint32_t qemu[4] = {eax, ebx, ecx, edx};

	memcpy(r, qemu, sizeof(r));
	system_cpuid(m, leaf, subleaf, r);
}

TEST_WITH(the_vendor_is_intel_and_there_are_enough_leaves, NULL, tear_down)
{
	use("skylake");
	ask(0, 0, 0x0d, 0x68747541, 0x444d4163, 0x69746e65); /* AuthenticAMD */
	assert_int_equal(r[0], 0x15);
	assert_memory_equal(&r[1], "Genu", 4);
	assert_memory_equal(&r[3], "ineI", 4);
	assert_memory_equal(&r[2], "ntel", 4);
	ask(0, 0, 0x1f, 0, 0, 0);
	assert_int_equal(r[0], 0x1f);
	use("alder-lake-p");
	ask(0, 0, 0x0d, 0, 0, 0);
	assert_int_equal(r[0], 0x1a);
}

TEST_WITH(family_and_model_are_those_of_the_processor, NULL, tear_down)
{
	use("skylake");
	ask(1, 0, 0x00800f12, 0x11, 0x80002001, 0x0f8bfbff);
	assert_int_equal(r[0], 0x000506e3); /* family 6, model 5EH, stepping 3 */
	assert_int_equal(r[1], 0x11);
	assert_int_equal(r[2], 0x80002001 | 1 << 15); /* PDCM; QEMU's hypervisor bit stays */
	assert_int_equal(r[3], 0x0f8bfbff);
	use("sapphire-rapids");
	ask(1, 0, 0, 0, 0, 0);
	assert_int_equal(r[0], 0x000806f8);
}

TEST_WITH(intel_pt_is_there_where_the_processor_has_it, NULL, tear_down)
{
	use("skylake");
	ask(7, 0, 0, 0x219, 0, 0);
	assert_int_equal(r[1], 0x219 | 1 << 25);
	ask(7, 1, 0, 0x219, 0, 0); /* another sub-leaf */
	assert_int_equal(r[1], 0x219);
	ask(0x14, 0, 9, 9, 9, 9);
	assert_int_equal(r[0], 1);
	assert_int_equal(r[1], 0xf);
	assert_int_equal(r[2], 7);
	ask(0x14, 1, 9, 9, 9, 9);
	assert_int_equal(r[0], 0x02490002);
	ask(0x14, 2, 9, 9, 9, 9);
	assert_int_equal(r[0] | r[1] | r[2] | r[3], 0);
	use("none");
	ask(7, 0, 0, UINT32_C(1) << 25 | 1, 0, 0);
	assert_int_equal(r[1], 1);
	ask(0x14, 0, 9, 9, 9, 9);
	assert_int_equal(r[0] | r[1] | r[2] | r[3], 0);
}

TEST_WITH(performance_monitoring_is_the_processors, NULL, tear_down)
{
	use("skylake");
	ask(0x0a, 0, 0, 0, 0, 0);
	assert_int_equal(r[0], 0x07300404);
	assert_int_equal(r[3], 3 | 48 << 5);
}

/* QEMU's local APIC does not run at the frequency that a processor's crystal has. */
TEST_WITH(the_ratio_of_tsc_and_crystal_is_known_but_no_frequency, NULL, tear_down)
{
	use("tiger-lake");
	ask(0x15, 0, 1, 2, 3, 4);
	assert_int_equal(r[0], 2);
	assert_int_equal(r[1], 126);
	assert_int_equal(r[2], 0);
	ask(0x16, 0, 3400, 3400, 100, 0);
	assert_int_equal(r[0] | r[1] | r[2] | r[3], 0);
	use("broadwell"); /* its last leaf is 14H */
	ask(0x15, 0, 1, 2, 3, 4);
	assert_int_equal(r[0] | r[1] | r[2] | r[3], 0);
}

TEST_WITH(addresses_are_no_wider_than_qemus, NULL, tear_down)
{
	use("skylake"); /* 39 bits */
	assert_int_equal(p.physical_bits, 39);
	ask(0x80000008, 0, 0x3028, 5, 6, 7);
	assert_int_equal(r[0], 0x3027);
	assert_int_equal(r[1], 5);
	use("sapphire-rapids"); /* 46 and 57 bits */
	ask(0x80000008, 0, 0x3028, 0, 0, 0);
	assert_int_equal(r[0], 0x3028);
	assert_int_equal(p.linear_bits, 48);
	use_with("sapphire-rapids", 0x3934, false); /* QEMU with 52 and 57 */
	ask(0x80000008, 0, 0x3934, 0, 0, 0);
	assert_int_equal(r[0], 0x392e);
}

TEST_WITH(a_hybrid_part_has_its_core_type, NULL, tear_down)
{
	use("alder-lake-e");
	ask(7, 0, 0, 0, 0, 0);
	assert_int_equal(r[3], 1 << 15);
	ask(0x1a, 0, 0, 0, 0, 0);
	assert_int_equal(r[0], UINT32_C(0x20) << 24);
	use("skylake");
	ask(7, 0, 0, 0, 0, 1 << 15 | 4);
	assert_int_equal(r[3], 4);
}

TEST_WITH(vmx_and_xsaves_are_left_out_where_qemu_has_none, NULL, tear_down)
{
	use("skylake");
	assert_false(p.vmx);
	assert_false(p.xsaves);
	use_with("skylake", 0x3028, true);
	assert_true(p.xsaves);
	use_with("broadwell", 0x3028, true);
	assert_false(p.xsaves);
}

TEST_WITH(every_other_leaf_is_qemus, NULL, tear_down)
{
	static const uint32_t others[] = {
	    2, 4, 6, 0x0b, 0x12, 0x1f, 0x40000000, 0x80000000, 0x80000001, 0x80000007, 0xffffffff};

	use("maximal");
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		ask(others[i], 0, 11, 12, 13, 14);
		assert_int_equal(r[0], 11);
		assert_int_equal(r[1], 12);
		assert_int_equal(r[2], 13);
		assert_int_equal(r[3], 14);
	}
}
