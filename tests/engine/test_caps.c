/* SPDX-License-Identifier: MIT */
/*
 * Discovery on real processors, on processors that hide capabilities, and on
 * random ones. The expected result is computed here from the raw CPUID words,
 * by the SDM's rules (volume 2, "CPUID"; volume 3, "Enumeration of Intel PT").
 */
#include "random.h"
#include "test.h"

#include "cpuid_table.h"

TEST(skylake_has_what_its_words_say)
{
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
	assert_int_equal(c.size, sizeof(c));
	assert_int_equal(c.obstacle, PTAH_CAPS_NONE);
	assert_int_equal(c.cpu.family, 6);
	assert_int_equal(c.cpu.model, 0x5e);
	assert_int_equal(c.cpu.stepping, 3);
	assert_int_equal(c.physical_bits, 39);
	assert_int_equal(c.linear_bits, 48);
	assert_true(c.cr3_filter && c.psb_cyc && c.ip_filter && c.mtc);
	assert_false(c.ptwrite || c.power_events || c.psb_pmi_preserve || c.event_trace);
	assert_false(c.tnt_disable || c.trigger_tracing || c.fabric || c.lip || c.hypervisor);
	assert_true(c.topa && c.topa_multi && c.single_range);
	assert_int_equal(c.ranges, 2);
	assert_int_equal(c.mtc_periods, 0x249);
	assert_int_equal(c.cyc_thresholds, 0x3fff);
	assert_int_equal(c.psb_periods, 0x3f);
	/* 142 TSC ticks per crystal tick of 24 MHz: 3408 MHz, its TSC's frequency. */
	assert_int_equal(c.tsc_n, 284);
	assert_int_equal(c.tsc_d, 2);
	assert_int_equal(c.crystal_hz, 24000000);
	assert_int_equal(c.nominal_ratio, 34);
	assert_true(c.xsaves && c.vmx && c.vmx_pt);
	assert_true(c.lbr_exclusive);
	assert_false(c.branch_required || c.single_range_4k_only);
	assert_int_equal(c.leaf_14_1[1], 0x003f3fff);
	assert_int_equal(t.unannounced + t.writes, 0);
}

static unsigned obstacle_of(struct cpuid_table *t)
{
	struct ptah_caps c;
	int status = ptah_caps_discover(&cpuid_hal, t, &c);

	assert_int_equal(status, c.obstacle ? PTAH_E_UNSUPPORTED : PTAH_OK);
	assert_int_equal(t->unannounced + t->writes, 0);
	return c.obstacle;
}

TEST(each_obstacle_is_named)
{
	struct cpuid_table t;

	cpuid_skylake(&t);
	cpuid_put(&t, 0, 0, 0x16, 0x68747541, 0x444d4163, 0x69746e65);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NOT_INTEL);

	cpuid_skylake(&t);
	cpuid_put(&t, 7, 0, 0, 0x009c6fbf, 0, 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NO_PT);

	/*
	 * Leaf 7 is missing; the values of the highest leaf, 6, which are returned for it, look
	 * like a leaf 7.
	 */
	cpuid_skylake(&t);
	t.highest = 6;
	cpuid_put(&t, 0, 0, 6, 0x756e6547, 0x6c65746e, 0x49656e69);
	cpuid_put(&t, 6, 0, 0, 1 << 25, 0, 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NO_PT);

	cpuid_skylake(&t);
	t.highest = 0xd;
	cpuid_put(&t, 0, 0, 0xd, 0x756e6547, 0x6c65746e, 0x49656e69);
	cpuid_put(&t, 0xd, 0, 1, 0xf, 7, 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NO_LEAF);

	cpuid_skylake(&t);
	cpuid_put(&t, 0x14, 0, 1, 0xf, 8, 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NO_OUTPUT);

	cpuid_skylake(&t);
	t.gp_ctl = true;
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NO_MSR);

	cpuid_skylake(&t);
	t.ctl = 1;
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_IN_USE);
	t.ctl = ~UINT64_C(1); /* left over from before, without TraceEn */
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NONE);
}

TEST(vmx_operation_counts_where_it_excludes_pt)
{
	struct cpuid_table t;

	cpuid_skylake(&t);
	t.in_vmx = true;
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NONE);
	t.vmx_misc = 0;
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_VMX);
	t.in_vmx = false;
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NONE);

	/* No VMX, no IA32_VMX_MISC: it must not be read. */
	cpuid_put(&t, 1, 0, 0x000506e3, 0, 0x7ffafbbf & ~(1u << 5), 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NONE);
}

TEST(faults_of_msrs_are_survived)
{
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	t.gp_platform_info = t.gp_vmx_misc = true;
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
	assert_int_equal(c.nominal_ratio, 0);
	assert_false(c.vmx_pt);
}

TEST(user_mode_needs_no_msrs)
{
	const struct ptah_hal hal = {.size = sizeof(hal), .cpuid = cpuid_get};
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	t.ctl = 1;
	assert_int_equal(ptah_caps_discover(&hal, &t, &c), PTAH_OK);
	assert_int_equal(c.ranges, 2);
	assert_int_equal(c.nominal_ratio, 0);
}

TEST(no_hal_is_refused)
{
	struct ptah_hal hal = cpuid_hal;
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	assert_int_equal(ptah_caps_discover(NULL, &t, &c), PTAH_E_INVAL);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, NULL), PTAH_E_INVAL);
	hal.size--;
	assert_int_equal(ptah_caps_discover(&hal, &t, &c), PTAH_E_INVAL);
	hal = cpuid_hal;
	hal.cpuid = NULL;
	assert_int_equal(ptah_caps_discover(&hal, &t, &c), PTAH_E_INVAL);
}

/* Broadwell has leaf 14H without sub-leaf 1: the values that CPUID returns for it are ignored. */
TEST(sub_leaf_1_counts_where_it_is_announced)
{
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	cpuid_put(&t, 0x14, 0, 0, 5, 1, 0);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
	assert_int_equal(c.ranges, 0);
	assert_int_equal(c.mtc_periods | c.cyc_thresholds | c.psb_periods, 0);
	assert_false(c.mtc || c.psb_cyc || c.topa_multi || c.single_range);
	assert_true(c.cr3_filter);
}

/* Each write of IA32_RTIT_CTL would raise #GP, because each checks the encodings. */
TEST(features_without_encodings_are_an_obstacle)
{
	static const uint32_t words[][3] = {{0xf, 0x00000002, 0x003f3fff},
					    {0xf, 0x02490002, 0x003f0000},
					    {0xf, 0x02490002, 0x00003fff},
					    {0xa, 0, 0}};
	struct cpuid_table t;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		cpuid_skylake(&t);
		cpuid_put(&t, 0x14, 0, 1, words[i][0], 7, 0);
		cpuid_put(&t, 0x14, 1, words[i][1], words[i][2], 0, 0);
		assert_int_equal(obstacle_of(&t), PTAH_CAPS_BAD_LEAF);
	}
	/* The same words in a leaf that is not announced. */
	cpuid_put(&t, 0x14, 0, 1, 5, 7, 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_NONE);
	/* Announced, but the sub-leaf does not exist. */
	cpuid_skylake(&t);
	cpuid_put(&t, 0x14, 0, 0, 0xf, 7, 0);
	assert_int_equal(obstacle_of(&t), PTAH_CAPS_BAD_LEAF);
}

TEST(ranges_are_those_there_is_room_for)
{
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	cpuid_put(&t, 0x14, 1, 0x02490007, 0x003f3fff, 0, 0);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
	assert_int_equal(c.ranges, 4); /* IA32_RTIT_CTL has four fields */
	cpuid_put(&t, 0x14, 0, 1, 0xb, 7, 0);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
	assert_int_equal(c.ranges, 0); /* no IP filtering, no ranges */
}

TEST(address_widths_are_kept_within_reason)
{
	static const struct {
		uint32_t eax;
		unsigned physical, linear;
	} cases[] = {{0x3027, 39, 48}, {0x392e, 46, 57}, {0x3934, 52, 57},
		     {0x30ff, 52, 48}, {0, 36, 48},	 {0xff40, 52, 57}};
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cpuid_put(&t, 0x80000008, 0, cases[i].eax, 0, 0, 0);
		assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
		assert_int_equal(c.physical_bits, cases[i].physical);
		assert_int_equal(c.linear_bits, cases[i].linear);
	}
	/* This leaf does not exist; the highest basic one, whose value is returned, has 0xd48. */
	t.highest_extended = 0x80000004;
	cpuid_put(&t, 0x80000000, 0, 0x80000004, 0, 0, 0);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
	assert_int_equal(c.physical_bits, 36);
	assert_int_equal(c.linear_bits, 48);
}

/* Known by family and model: erratum BDM106; LBRs; errata TGL052, ADL037, RPL017. */
TEST(what_cpuid_does_not_tell_goes_by_model)
{
	static const struct {
		uint32_t version;
		bool branch, lbr, single;
	} cases[] = {
	    {0x306d4, true, true, false},   {0x40671, true, true, false},
	    {0x406f1, true, true, false},   {0x50663, true, true, false},
	    {0x406e3, false, true, false},  {0x506e3, false, true, false},
	    {0x906ea, false, false, false}, {0x806c1, false, false, true},
	    {0x806d1, false, false, true},  {0x90672, false, false, true},
	    {0x906a3, false, false, true},  {0xb0671, false, false, true},
	    {0xb06a2, false, false, true},  {0xb06f2, false, false, true},
	    {0x806f4, false, false, false}, {0x00f4d, false, false, false},
	};
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cpuid_put(&t, 1, 0, cases[i].version, 0, 1 << 26, 0);
		assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
		assert_int_equal(c.branch_required, cases[i].branch);
		assert_int_equal(c.lbr_exclusive, cases[i].lbr);
		assert_int_equal(c.single_range_4k_only, cases[i].single);
	}
}

TEST(family_and_model_are_those_displayed)
{
	static const struct {
		uint32_t eax;
		unsigned family, model, stepping;
	} cases[] = {
	    {0x000906ea, 6, 0x9e, 10}, {0x00000f29, 15, 0x02, 9}, {0x00400f11, 19, 0x01, 1},
	    {0x00100f53, 16, 0x05, 3}, {0x00090543, 5, 0x04, 3},
	};
	struct cpuid_table t;
	struct ptah_caps c;

	cpuid_skylake(&t);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cpuid_put(&t, 1, 0, cases[i].eax, 0, 0, 0);
		assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
		assert_int_equal(c.cpu.family, cases[i].family);
		assert_int_equal(c.cpu.model, cases[i].model);
		assert_int_equal(c.cpu.stepping, cases[i].stepping);
	}
}

TEST(xsaves_needs_all_three_words)
{
	struct cpuid_table t;
	struct ptah_caps c;

	for (unsigned without = 0; without < 4; without++) {
		cpuid_skylake(&t);
		cpuid_put(&t, 1, 0, 0x506e3, 0, without == 1 ? 0 : 1 << 26, 0);
		cpuid_put(&t, 0xd, 1, without == 2 ? 7 : 8, 0, without == 3 ? 0xff : 0x100, 0);
		assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, &c), PTAH_OK);
		assert_int_equal(c.xsaves, without == 0);
	}
}

/* A processor with some words replaced by random ones. */
static void scramble(struct cpuid_table *t, uint64_t *seed)
{
	cpuid_skylake(t);
	for (size_t i = 0; i < t->count; i++)
		for (unsigned k = 0; k < 4; k++)
			if (t->rows[i].leaf != 0 && random_next(seed) % 4 == 0)
				t->rows[i].r[k] =
				    random_next(seed) % 3 ? (uint32_t)random_next(seed) : 0;
	if (random_next(seed) % 4 == 0)
		t->highest = (uint32_t)(random_next(seed) % 0x18);
	t->rows[0].r[0] = t->highest;
	t->highest_extended = 0x80000008;
	if (random_next(seed) % 4 == 0)
		t->highest_extended = 0x80000000 + (uint32_t)(random_next(seed) % 10);
	cpuid_put(t, 0x80000000, 0, t->highest_extended, 0, 0, 0);
	t->gp_platform_info = random_next(seed) % 4 == 0;
	t->gp_vmx_misc = random_next(seed) % 4 == 0;
	t->gp_ctl = random_next(seed) % 8 == 0;
	t->in_vmx = random_next(seed) % 2;
	t->vmx_misc = random_next(seed);
	t->ctl = random_next(seed) & ~UINT64_C(1);
	t->ctl |= random_next(seed) % 8 == 0;
}

/* The words of a leaf, 0 where it does not exist. */
static const uint32_t *words(struct cpuid_table *t, uint32_t leaf, uint32_t subleaf)
{
	static const uint32_t none[4];
	bool there = leaf < 0x80000000 ? leaf <= t->highest : leaf <= t->highest_extended;

	for (size_t i = 0; i < t->count; i++)
		if (there && t->rows[i].leaf == leaf && t->rows[i].subleaf == subleaf)
			return t->rows[i].r;
	return none;
}

static bool empty_encodings(struct cpuid_table *t)
{
	const uint32_t *main = words(t, 0x14, 0);
	const uint32_t *more = words(t, 0x14, main[0] ? 1 : 99);

	return (main[1] & 8 && !(more[0] >> 16)) ||
	       (main[1] & 2 && (!(more[1] & 0xffff) || !(more[1] >> 16)));
}

static unsigned expected_obstacle(struct cpuid_table *t)
{
	bool vmx = words(t, 1, 0)[2] >> 5 & 1, vmx_pt = vmx && !t->gp_vmx_misc;

	vmx_pt = vmx_pt && (t->vmx_misc >> 14 & 1);
	if (!(words(t, 7, 0)[1] >> 25 & 1))
		return PTAH_CAPS_NO_PT;
	if (t->highest < 0x14)
		return PTAH_CAPS_NO_LEAF;
	if (empty_encodings(t))
		return PTAH_CAPS_BAD_LEAF;
	if (!(words(t, 0x14, 0)[2] & 5))
		return PTAH_CAPS_NO_OUTPUT;
	if (t->gp_ctl)
		return PTAH_CAPS_NO_MSR;
	if (t->in_vmx && !vmx_pt)
		return PTAH_CAPS_VMX;
	return t->ctl & 1 ? PTAH_CAPS_IN_USE : PTAH_CAPS_NONE;
}

TEST(random_processors_are_understood)
{
	unsigned seen[PTAH_CAPS_OBSTACLE_MAX] = {0};
	uint64_t seed = 20261121;

	for (unsigned i = 0; i < 20000; i++) {
		struct cpuid_table t;
		struct ptah_caps c;
		const uint32_t *main, *more;
		unsigned obstacle;

		scramble(&t, &seed);
		obstacle = expected_obstacle(&t);
		seen[obstacle]++;
		assert_int_equal(obstacle_of(&t), obstacle);
		ptah_caps_discover(&cpuid_hal, &t, &c);
		if (obstacle == PTAH_CAPS_NO_PT || obstacle == PTAH_CAPS_NO_LEAF)
			continue;
		main = words(&t, 0x14, 0);
		more = main[0] ? words(&t, 0x14, 1) : words(&t, 0x14, 99);
		assert_int_equal(c.cr3_filter, main[1] & 1);
		assert_int_equal(c.mtc, main[1] >> 3 & 1);
		assert_int_equal(c.psb_cyc, main[1] >> 1 & 1);
		assert_int_equal(c.mtc_periods, c.mtc ? more[0] >> 16 : 0);
		assert_int_equal(c.cyc_thresholds, c.psb_cyc ? more[1] & 0xffff : 0);
		assert_int_equal(c.psb_periods, c.psb_cyc ? more[1] >> 16 : 0);
		assert_true(c.ranges <= 4 && c.ranges <= (more[0] & 7));
		assert_int_equal(c.ptwrite, main[1] >> 4 & 1);
		assert_int_equal(c.power_events, main[1] >> 5 & 1);
		assert_int_equal(c.psb_pmi_preserve, main[1] >> 6 & 1);
		assert_int_equal(c.event_trace, main[1] >> 7 & 1);
		assert_int_equal(c.tnt_disable, main[1] >> 8 & 1);
		assert_int_equal(c.trigger_tracing, main[1] >> 9 & 1);
		assert_int_equal(c.triggers, c.trigger_tracing ? 4 * (more[0] >> 8 & 7) : 0);
		assert_int_equal(c.trigger_attribution, c.trigger_tracing && more[2] & 1);
		assert_int_equal(c.trigger_pause_resume, c.trigger_tracing && more[2] >> 1 & 1);
		assert_int_equal(c.trigger_dr_match, c.trigger_tracing && more[2] >> 15 & 1);
		assert_int_equal(c.lip, main[2] >> 31);
	}
	for (unsigned i = 0; i < PTAH_CAPS_OBSTACLE_MAX; i++)
		assert_true(i == PTAH_CAPS_NOT_INTEL || seen[i] > 50);
}

TEST(every_obstacle_has_name_and_advice)
{
	assert_string_equal(ptah_caps_obstacle_name(PTAH_CAPS_NO_PT), "NO_PT");
	for (unsigned i = 0; i <= PTAH_CAPS_OBSTACLE_MAX + 1; i++) {
		assert_non_null(ptah_caps_obstacle_name(i));
		assert_true(strlen(ptah_caps_advice(i)) > 20);
		for (unsigned k = 0; k < i; k++)
			assert_true(i >= PTAH_CAPS_OBSTACLE_MAX ||
				    strcmp(ptah_caps_advice(i), ptah_caps_advice(k)));
	}
}
