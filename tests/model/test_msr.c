/* SPDX-License-Identifier: MIT */
/*
 * Which MSR writes raise #GP, on every named processor and on many random ones.
 * The expectation is written down here bit by bit, as in the SDM's tables
 * ("IA32_RTIT_CTL MSR" and the following, "CPUID Leaf 14H Enumeration").
 */
#include "bare.h"

#define RANDOM_PROCESSORS 200

enum word {
	RESERVED,
	ALWAYS,
	EBX, /* of CPUID.14H.0 */
	ECX,
};

/* IA32_RTIT_CTL's single bits, each with the CPUID bit that announces it. Fields follow below. */
static const struct {
	unsigned bit;
	enum word word;
	unsigned enabler;
} ctl_bits[] = {
    {1, EBX, 1},     /* CYCEn */
    {2, ALWAYS, 0},  /* OS */
    {3, ALWAYS, 0},  /* User */
    {4, EBX, 5},     /* PwrEvtEn */
    {5, EBX, 4},     /* FUPonPTW */
    {6, ECX, 3},     /* FabricEn */
    {7, EBX, 0},     /* CR3Filter */
    {8, ECX, 0},     /* ToPA */
    {9, EBX, 3},     /* MTCEn */
    {10, ALWAYS, 0}, /* TSCEn */
    {11, ALWAYS, 0}, /* DisRETC */
    {12, EBX, 4},    /* PTWEn */
    {13, ALWAYS, 0}, /* BranchEn */
    {18, RESERVED, 0}, {23, RESERVED, 0}, {28, RESERVED, 0}, {29, RESERVED, 0},
    {30, RESERVED, 0}, {31, EBX, 7}, /* EventEn */
    {48, RESERVED, 0}, {49, RESERVED, 0}, {50, RESERVED, 0}, {51, RESERVED, 0},
    {52, RESERVED, 0}, {53, RESERVED, 0}, {54, RESERVED, 0}, {55, EBX, 8}, /* DisTNT */
    {56, EBX, 6}, /* InjectPsbPmiOnEnable */
    {57, RESERVED, 0}, {58, RESERVED, 0}, {59, RESERVED, 0}, {60, RESERVED, 0},
    {61, RESERVED, 0}, {62, RESERVED, 0}, {63, RESERVED, 0},
};

static void for_all(void (*test)(struct rig *rig))
{
	uint64_t seed = 0x9e3779b97f4a7c15;
	struct rig rig;

	for (size_t i = 0; ptah_model_named(i); i++) {
		rig_open(&rig, ptah_model_named(i), 1024);
		test(&rig);
		rig_close(&rig);
	}
	for (unsigned i = 0; i < RANDOM_PROCESSORS; i++) {
		const struct ptah_model_processor p = rig_random_processor(&seed);

		rig_open(&rig, &p, 1024);
		test(&rig);
		rig_close(&rig);
	}
}

static bool has(const struct rig *rig, enum word word, unsigned bit)
{
	return word == ALWAYS ||
	       (word != RESERVED && rig->m.is->leaf_14_0[word == EBX ? 1 : 2] >> bit & 1);
}

static uint32_t leaf_1(const struct rig *rig, unsigned reg)
{
	return rig->m.is->leaf_14_0[0] ? rig->m.is->leaf_14_1[reg] : 0;
}

/* Writes, and expects a fault or none; after a fault the register must be unchanged. */
static void expect(struct rig *rig, uint32_t msr, uint64_t value, bool allowed)
{
	const struct ptah_model before = rig->m;
	int status = ptah_model_wrmsr(&rig->m, msr, value);

	if (status != (allowed ? PTAH_OK : PTAH_E_UNSUPPORTED))
		fail_msg("%s: MSR %x, value %llx: %d", rig->m.is->name, msr,
			 (unsigned long long)value, status);
	if (!allowed)
		assert_memory_equal(&before, &rig->m, sizeof(before));
}

/* IA32_RTIT_CTL with TraceEn 0 */

static void ctl_single_bits(struct rig *rig)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ctl_bits); i++) {
		bool allowed = rig->m.is->pt && has(rig, ctl_bits[i].word, ctl_bits[i].enabler);

		/* Sets the bit with its field at 0, which must then be a valid encoding. */
		if (ctl_bits[i].bit == 1)
			allowed &= leaf_1(rig, 1) & 1;
		if (ctl_bits[i].bit == 9)
			allowed &= leaf_1(rig, 0) >> 16 & 1;
		expect(rig, PTAH_IA32_RTIT_CTL, UINT64_C(1) << ctl_bits[i].bit, allowed);
	}
}

/*
 * The encodings of a field: the SDM says that those in the bitmap are valid and
 * the others raise #GP. A field that is not in use can always be 0, or
 * IA32_RTIT_CTL could not be cleared.
 */
static void ctl_encodings(struct rig *rig)
{
	static const struct {
		unsigned field, enabler, reg, shift;
	} fields[] = {{14, 3, 0, 16}, {19, 1, 1, 0}, {24, 1, 1, 16}};

	for (unsigned i = 0; i < ARRAY_SIZE(fields); i++) {
		for (unsigned value = 0; value < 16; value++) {
			const bool valid =
			    leaf_1(rig, fields[i].reg) >> fields[i].shift >> value & 1;
			const bool there = has(rig, EBX, fields[i].enabler);

			expect(rig, PTAH_IA32_RTIT_CTL, (uint64_t)value << fields[i].field,
			       rig->m.is->pt && (!value || (there && valid)));
		}
	}
}

static void ctl_ranges(struct rig *rig)
{
	for (unsigned n = 0; n < 4; n++)
		for (unsigned value = 0; value < 16; value++)
			expect(rig, PTAH_IA32_RTIT_CTL, (uint64_t)value << (32 + 4 * n),
			       rig->m.is->pt &&
				   (!value || (value <= 2 && n < (leaf_1(rig, 0) & 7))));
}

TEST(test_ctl_bits)
{
	for_all(ctl_single_bits);
}

TEST(test_ctl_encodings)
{
	for_all(ctl_encodings);
}

TEST(test_ctl_ranges)
{
	for_all(ctl_ranges);
}

/* With TraceEn */

/* What TraceEn needs on this processor: an output that exists, encoding 0 valid, BranchEn. */
static uint64_t enable(const struct rig *rig)
{
	uint64_t ctl = PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_BRANCH_EN;

	for (unsigned value = 0; has(rig, EBX, 1) && value < 16; value++)
		if (leaf_1(rig, 1) >> 16 >> value & 1) {
			ctl |= (uint64_t)value << PTAH_RTIT_CTL_PSB_FREQ;
			break;
		}
	return ctl | (has(rig, ECX, 0) ? PTAH_RTIT_CTL_TOPA : 0);
}

static bool can_trace(const struct rig *rig)
{
	const bool psb = !has(rig, EBX, 1) || leaf_1(rig, 1) >> 16;

	return rig->m.is->pt && psb && (has(rig, ECX, 0) || has(rig, ECX, 2));
}

/* SDM "Trace Configuration MSRs": ToPA 0 needs single-range output; BDM106: BranchEn. */
static void ctl_trace_en(struct rig *rig)
{
	const uint64_t ctl = enable(rig) & ~PTAH_RTIT_CTL_TOPA;

	if (!can_trace(rig))
		return;
	expect(rig, PTAH_IA32_RTIT_CTL, enable(rig) & ~PTAH_RTIT_CTL_BRANCH_EN,
	       !rig->m.is->branch_required);
	expect(rig, PTAH_IA32_RTIT_CTL, 0, true);
	expect(rig, PTAH_IA32_RTIT_CTL, ctl, has(rig, ECX, 2));
	expect(rig, PTAH_IA32_RTIT_CTL, 0, true);
	expect(rig, PTAH_IA32_RTIT_CTL, ctl | PTAH_RTIT_CTL_FABRIC_EN, has(rig, ECX, 3));
	expect(rig, PTAH_IA32_RTIT_CTL, 0, true);
	if (has(rig, EBX, 1))
		expect(rig, PTAH_IA32_RTIT_CTL,
		       enable(rig) & ~(UINT64_C(15) << PTAH_RTIT_CTL_PSB_FREQ),
		       leaf_1(rig, 1) >> 16 & 1);
	expect(rig, PTAH_IA32_RTIT_CTL, 0, true);
}

static void while_tracing(struct rig *rig)
{
	static const uint32_t others[] = {0x560, 0x561, 0x571, 0x572, 0x580, 0x581,
					  0x582, 0x583, 0x584, 0x585, 0x586, 0x587};
	uint64_t value;

	if (!can_trace(rig))
		return;
	expect(rig, PTAH_IA32_RTIT_CTL, enable(rig), true);
	/* A write of the current value faults as well. */
	for (unsigned i = 0; i < ARRAY_SIZE(others); i++) {
		if (ptah_model_rdmsr(&rig->m, others[i], &value) < 0)
			value = 0;
		expect(rig, others[i], value, false);
	}
	expect(rig, PTAH_IA32_RTIT_CTL, enable(rig), true);
	for (unsigned bit = 1; bit < 64; bit++)
		expect(rig, PTAH_IA32_RTIT_CTL, enable(rig) ^ UINT64_C(1) << bit, false);
	/* The write that clears TraceEn may change other bits too, but not to reserved values. */
	expect(rig, PTAH_IA32_RTIT_CTL, UINT64_C(1) << 18, false);
	expect(rig, PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_TSC_EN, true);
	assert_int_equal(rig_read(rig, PTAH_IA32_RTIT_CTL),
			 PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_TSC_EN);
}

TEST(test_ctl_trace_en)
{
	for_all(ctl_trace_en);
}

TEST(test_while_tracing)
{
	for_all(while_tracing);
}

/* The other registers */

static void status_bits(struct rig *rig)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		bool allowed = bit <= 2 || bit == 4 || bit == 5;

		if (bit == 6 || bit == 7)
			allowed = has(rig, EBX, 6);
		if (bit >= 32 && bit <= 48)
			allowed = has(rig, EBX, 1);
		allowed &= rig->m.is->pt;
		expect(rig, PTAH_IA32_RTIT_STATUS, UINT64_C(1) << bit, allowed);
		if (allowed) /* FilterEn, ContextEn, TriggerEn: only the processor changes them */
			assert_int_equal(rig_read(rig, PTAH_IA32_RTIT_STATUS),
					 bit <= 2 ? 0 : UINT64_C(1) << bit);
	}
}

static void output_msrs(struct rig *rig)
{
	const bool there = rig->m.is->pt && (has(rig, ECX, 0) || has(rig, ECX, 2));
	uint64_t value;

	for (unsigned bit = 0; bit < 64; bit++) {
		expect(rig, PTAH_IA32_RTIT_OUTPUT_BASE, UINT64_C(1) << bit,
		       there && bit >= 7 && bit < rig->m.is->physical_bits);
		expect(rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, UINT64_C(1) << bit, there);
		if (there)
			assert_int_equal(rig_read(rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS),
					 UINT64_C(0x7f) | UINT64_C(1) << bit);
	}
	if (!there)
		assert_int_equal(ptah_model_rdmsr(&rig->m, PTAH_IA32_RTIT_OUTPUT_BASE, &value),
				 PTAH_E_UNSUPPORTED);
}

static void match_and_ranges(struct rig *rig)
{
	const bool cr3 = rig->m.is->pt && has(rig, EBX, 0);
	uint64_t value;

	for (unsigned bit = 0; bit < 64; bit++)
		expect(rig, PTAH_IA32_RTIT_CR3_MATCH, UINT64_C(1) << bit, cr3 && bit >= 5);
	assert_int_equal(ptah_model_rdmsr(&rig->m, PTAH_IA32_RTIT_CR3_MATCH, &value),
			 cr3 ? PTAH_OK : PTAH_E_UNSUPPORTED);
	for (uint32_t msr = 0x580; msr < 0x590; msr++) {
		const bool there =
		    rig->m.is->pt && msr < 0x588 && (msr - 0x580) / 2 < (leaf_1(rig, 0) & 7);
		const uint64_t top = UINT64_C(1) << (rig->m.is->linear_bits - 1);

		expect(rig, msr, top - 1, there);
		expect(rig, msr, top, false);
		expect(rig, msr, -top, there);
		expect(rig, msr, -top - 1, false);
		expect(rig, msr, UINT64_C(1) << 63, false);
		assert_int_equal(ptah_model_rdmsr(&rig->m, msr, &value),
				 there ? PTAH_OK : PTAH_E_UNSUPPORTED);
	}
}

TEST(test_status)
{
	for_all(status_bits);
}

TEST(test_output_msrs)
{
	for_all(output_msrs);
}

TEST(test_match_and_ranges)
{
	for_all(match_and_ranges);
}

static void other_msrs(struct rig *rig)
{
	const struct ptah_model_processor *p = rig->m.is;
	const uint64_t bit = UINT64_C(1) << 55;
	const bool topa = p->pt && has(rig, ECX, 0);
	uint64_t value;

	expect(rig, 0x38e, 0, false); /* read-only */
	expect(rig, 0x390, bit, p->perfmon >= 2 && topa);
	expect(rig, 0x391, bit, p->perfmon >= 4 && topa);
	if (p->perfmon >= 4 && topa) {
		assert_int_equal(rig_read(rig, 0x38e), bit);
		rig_write(rig, 0x390, bit);
		assert_int_equal(rig_read(rig, 0x38e), 0);
	}
	expect(rig, PTAH_IA32_XSS, 0x100, p->xsaves && p->pt);
	expect(rig, PTAH_IA32_XSS, 0x200, false);
	expect(rig, PTAH_IA32_VMX_MISC, 0, false);
	assert_int_equal(ptah_model_rdmsr(&rig->m, PTAH_IA32_VMX_MISC, &value),
			 p->vmx ? PTAH_OK : PTAH_E_UNSUPPORTED);
	assert_int_equal(value >> 14 & 1, p->vmx && p->vmx_pt);
	assert_int_equal(ptah_model_rdmsr(&rig->m, 0x12345, &value), PTAH_E_UNSUPPORTED);
	rig->m.faults.ack_needs_topa = true;
	expect(rig, 0x390, bit, false);
}

TEST(test_other_msrs)
{
	for_all(other_msrs);
}

/* After a cold reset all are 0, except the low bits of OUTPUT_MASK_PTRS, which are always set. */
static void reset_values(struct rig *rig)
{
	uint64_t value;

	for (uint32_t msr = 0x560; msr < 0x588; msr++)
		if (ptah_model_rdmsr(&rig->m, msr, &value) == PTAH_OK)
			assert_int_equal(value, msr == 0x561 ? 0x7f : 0);
	if (!rig->m.is->pt)
		for (uint32_t msr = 0x560; msr < 0x588; msr++)
			assert_int_equal(ptah_model_rdmsr(&rig->m, msr, &value),
					 PTAH_E_UNSUPPORTED);
}

TEST(test_reset_values)
{
	for_all(reset_values);
}

/* CPUID returns the table's values at the leaves that a driver reads. */
static void cpuid_leaves(struct rig *rig)
{
	const struct ptah_model_processor *p = rig->m.is;
	uint32_t r[4], highest[4];

	ptah_model_cpuid(&rig->m, 0, 0, r);
	assert_int_equal(r[0], p->max_leaf);
	assert_int_equal(r[1], 0x756e6547);
	ptah_model_cpuid(&rig->m, 1, 0, r);
	assert_int_equal((r[0] >> 4 & 15) | (r[0] >> 12 & 0xf0), p->cpu.model);
	assert_int_equal((r[0] >> 8 & 15) + ((r[0] >> 8 & 15) == 15 ? r[0] >> 20 & 255 : 0),
			 p->cpu.family);
	assert_int_equal(r[2] >> 5 & 1, p->vmx);
	ptah_model_cpuid(&rig->m, 7, 0, r);
	assert_int_equal(r[1] >> 25 & 1, p->pt);
	ptah_model_cpuid(&rig->m, 0xd, 1, r);
	assert_int_equal(r[0] >> 3 & 1, p->xsaves);
	assert_int_equal(r[2], p->xsaves && p->pt ? 0x100 : 0);
	ptah_model_cpuid(&rig->m, 0x80000008, 0, r);
	assert_int_equal(r[0] & 255, p->physical_bits);
	ptah_model_cpuid(&rig->m, 0x14, 0, r);
	if (p->pt)
		assert_memory_equal(r, p->leaf_14_0, sizeof(r));
	ptah_model_cpuid(&rig->m, 0x14, 2, r);
	if (p->max_leaf >= 0x14)
		assert_int_equal(r[0] | r[1] | r[2] | r[3], 0);
	/*
	 * Above the highest basic leaf, CPUID returns that leaf's values (SDM volume 2,
	 * "CPUID").
	 */
	ptah_model_cpuid(&rig->m, p->max_leaf + 1u, 0, r);
	ptah_model_cpuid(&rig->m, p->max_leaf, 0, highest);
	assert_memory_equal(r, highest, sizeof(r));
}

TEST(test_cpuid)
{
	for_all(cpuid_leaves);
}

TEST(test_names)
{
	static const char *const names[] = {"broadwell",     "skylake",	     "goldmont",
					    "goldmont-plus", "ice-lake",     "tremont",
					    "alder-lake-p",  "alder-lake-e", "sapphire-rapids",
					    "minimal",	     "maximal",	     "none"};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		assert_non_null(ptah_model_find(names[i]));
		assert_string_equal(ptah_model_find(names[i])->name, names[i]);
	}
	assert_null(ptah_model_find("sky"));
	assert_null(ptah_model_find("skylake-x"));
	assert_null(ptah_model_find(NULL));
}
