/* SPDX-License-Identifier: MIT */
/*
 * Configurations, judged by the SDM's rules for WRMSR. The rules are written
 * down here a second time, on the raw CPUID words and in the order of the
 * manual (volume 3, "IA32_RTIT_CTL MSR" to "IA32_RTIT_ADDRn MSRs"): what the
 * engine accepts must not raise #GP, and what it refuses as reserved must.
 */
#include "random.h"
#include "test.h"

#include "cpuid_table.h"

#define BIT(n) (UINT64_C(1) << (n))

/* A processor in the words of its CPUID leaves. */
struct words {
	uint32_t ebx, ecx;	     /* 14H.0 */
	uint32_t more_eax, more_ebx; /* 14H.1 */
	unsigned physical, linear;
	bool broadwell;
};

static void processor(const struct words *w, struct ptah_caps *caps)
{
	struct cpuid_table t;

	cpuid_skylake(&t);
	cpuid_put(&t, 1, 0, w->broadwell ? 0x306d4 : 0x806f4, 0, 1u << 26 | 1u << 5, 0);
	cpuid_put(&t, 0x14, 0, w->more_eax || w->more_ebx, w->ebx, w->ecx, 0);
	cpuid_put(&t, 0x14, 1, w->more_eax, w->more_ebx, 0, 0);
	cpuid_put(&t, 0x80000008, 0, w->linear << 8 | w->physical, 0, 0, 0);
	assert_int_equal(ptah_caps_discover(&cpuid_hal, &t, caps), PTAH_OK);
}

/* Every capability and every encoding. */
static const struct words rich = {0x3ff, 7, 0xffff0004, 0xffffffff, 46, 57, false};
/* Skylake, and Broadwell with its leaf 14H.0. */
static const struct words skylake = {0xf, 7, 0x02490002, 0x003f3fff, 39, 48, false};
static const struct words broadwell = {1, 1, 0, 0, 39, 48, true};

static bool canonical(uint64_t address, unsigned bits)
{
	uint64_t high = address >> (bits - 1);

	return !high || high == (UINT64_C(1) << (65 - bits)) - 1;
}

/* The register's value, from the SDM's table of its fields. */
static uint64_t ctl_of(const struct ptah_trace_config *c)
{
	return (uint64_t)c->cyc << 1 | (uint64_t)c->os << 2 | (uint64_t)c->user << 3 |
	       (uint64_t)c->power_events << 4 | (uint64_t)c->fup_on_ptwrite << 5 |
	       (uint64_t)c->cr3_filter << 7 | (uint64_t)c->mtc << 9 | (uint64_t)c->tsc << 10 |
	       (uint64_t)c->no_retcomp << 11 | (uint64_t)c->ptwrite << 12 |
	       (uint64_t)c->branch << 13 | (uint64_t)(c->mtc_period & 15) << 14 |
	       (uint64_t)(c->cyc_threshold & 15) << 19 | (uint64_t)(c->psb_period & 15) << 24 |
	       (uint64_t)c->event_trace << 31 | (uint64_t)(c->ranges[0].mode & 15) << 32 |
	       (uint64_t)(c->ranges[1].mode & 15) << 36 | (uint64_t)(c->ranges[2].mode & 15) << 40 |
	       (uint64_t)(c->ranges[3].mode & 15) << 44 | (uint64_t)c->no_tnt << 55 |
	       (uint64_t)c->psb_pmi_on_enable << 56;
}

/* Whether WRMSR of IA32_RTIT_CTL with TraceEn and ToPA raises #GP. */
static bool ctl_faults(const struct words *w, uint64_t ctl)
{
	uint64_t reserved = BIT(18) | BIT(23) | BIT(28) | BIT(29) | BIT(30);

	for (unsigned n = 48; n < 64; n++)
		if (n != 55 && n != 56)
			reserved |= BIT(n);
	if (!(w->ebx & 1))
		reserved |= BIT(7);
	if (!(w->ebx & 2))
		reserved |= BIT(1) | UINT64_C(0xf) << 19 | UINT64_C(0xf) << 24;
	if (!(w->ebx & 8))
		reserved |= BIT(9) | UINT64_C(0xf) << 14;
	if (!(w->ebx & 0x10))
		reserved |= BIT(12) | BIT(5);
	if (!(w->ebx & 0x20))
		reserved |= BIT(4);
	if (!(w->ebx & 0x40))
		reserved |= BIT(56);
	if (!(w->ebx & 0x80))
		reserved |= BIT(31);
	if (!(w->ebx & 0x100))
		reserved |= BIT(55);
	if (!(w->ecx & 1))
		reserved |= BIT(8);
	if (!(w->ecx & 8))
		reserved |= BIT(6);
	if (ctl & reserved)
		return true;
	if ((w->ebx & 8) && !(w->more_eax >> (16 + (ctl >> 14 & 15)) & 1))
		return true;
	if ((w->ebx & 2) && !(w->more_ebx >> (ctl >> 19 & 15) & 1))
		return true;
	if ((w->ebx & 2) && !(w->more_ebx >> (16 + (ctl >> 24 & 15)) & 1))
		return true;
	for (unsigned n = 0; n < 4; n++) {
		unsigned mode = ctl >> (32 + 4 * n) & 15;

		if (mode > 2 || (mode && n >= (w->ebx & 4 ? w->more_eax & 7 : 0)))
			return true;
	}
	if (!(ctl & BIT(8)) && !(w->ecx & 4))
		return true;
	return w->broadwell && !(ctl & BIT(13));
}

/* Whether WRMSR of one of the registers before it raises #GP. */
static bool others_fault(const struct words *w, const struct ptah_trace_config *c)
{
	if (c->cr3_filter && (!(w->ebx & 1) || (c->cr3 & 0x1f)))
		return true;
	for (unsigned n = 0; n < 4; n++)
		if (c->ranges[n].mode && (n >= (w->ebx & 4 ? w->more_eax & 7 : 0) ||
					  !canonical(c->ranges[n].first, w->linear) ||
					  !canonical(c->ranges[n].last, w->linear)))
			return true;
	return false;
}

static bool faults(const struct words *w, const struct ptah_trace_config *c)
{
	bool wide = c->mtc_period > 15 || c->cyc_threshold > 15 || c->psb_period > 15;

	for (unsigned n = 0; n < 4; n++)
		wide |= c->ranges[n].mode > 15;
	return wide || others_fault(w, c) ||
	       ctl_faults(w, ctl_of(c) | BIT(0) | (w->ecx & 1 ? BIT(8) : 0));
}

TEST(the_default_is_accepted)
{
	const struct words *all[] = {&rich, &skylake, &broadwell};

	for (unsigned i = 0; i < 3; i++) {
		struct ptah_trace_config c;
		struct ptah_trace_problem p;
		struct ptah_caps caps;

		processor(all[i], &caps);
		ptah_trace_config_default(&caps, &c);
		assert_int_equal(c.size, sizeof(c));
		assert_true(c.os && c.user && c.branch && c.tsc);
		assert_false(c.mtc || c.cyc || c.cr3_filter || c.no_tnt || c.force_psb);
		assert_int_equal(ptah_trace_config_check(&caps, &c, false, &p), PTAH_OK);
		assert_int_equal(p.kind, PTAH_PROBLEM_NONE);
		assert_int_equal(ptah_trace_config_check(&caps, &c, true, NULL), PTAH_OK);
		assert_false(faults(all[i], &c));
		/* OS, User, TSCEn, BranchEn */
		assert_int_equal(ptah_trace_config_ctl(&c), 0x240c);
	}
}

/* Encoding 0 is valid on all known processors, but the SDM does not guarantee it. */
TEST(the_default_has_valid_encodings)
{
	const struct words odd = {0xf, 7, 0x02480002, 0x00383ff0, 39, 48, false};
	struct ptah_trace_config c;
	struct ptah_caps caps;

	processor(&odd, &caps);
	ptah_trace_config_default(&caps, &c);
	assert_int_equal(c.mtc_period, 3);
	assert_int_equal(c.cyc_threshold, 4);
	assert_int_equal(c.psb_period, 3);
	assert_int_equal(ptah_trace_config_check(&caps, &c, false, NULL), PTAH_OK);
	assert_false(faults(&odd, &c));
	c.mtc_period = 0;
	assert_int_equal(ptah_trace_config_check(&caps, &c, false, NULL), PTAH_E_INVAL);
}

struct refusal {
	const struct words *words;
	void (*spoil)(struct ptah_trace_config *c);
	bool threaded;
	const char *field;
	enum ptah_trace_problem_kind kind;
	uint64_t value, valid;
};

#define SPOIL(name, ...)                                                                           \
	static void name(struct ptah_trace_config *c)                                              \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
SPOIL(mtc, c->mtc = true)
SPOIL(mtc_1, c->mtc = true; c->mtc_period = 1)
SPOIL(mtc_off_1, c->mtc_period = 1)
SPOIL(mtc_16, c->mtc_period = 16)
SPOIL(cyc, c->cyc = true)
SPOIL(cyc_15, c->cyc = true; c->cyc_threshold = 15)
SPOIL(psb_6, c->psb_period = 6)
SPOIL(ptwrite, c->ptwrite = true)
SPOIL(fup_only, c->fup_on_ptwrite = true)
SPOIL(power, c->power_events = true)
SPOIL(events, c->event_trace = true)
SPOIL(no_tnt, c->no_tnt = true)
SPOIL(inject, c->psb_pmi_on_enable = true)
SPOIL(no_branch, c->branch = false)
SPOIL(no_packets, c->branch = c->tsc = false)
SPOIL(nobody, c->os = c->user = false)
SPOIL(cr3_pcid, c->cr3_filter = true; c->cr3 = 0x1003)
SPOIL(cr3_high, c->cr3_filter = true; c->cr3 = BIT(39) | 0x1000)
SPOIL(cr3_noflush, c->cr3_filter = true; c->cr3 = BIT(63) | 0x1000)
SPOIL(range_0, c->ranges[0].mode = 1)
SPOIL(range_2, c->ranges[2].mode = 1)
SPOIL(range_mode, c->ranges[1].mode = 3)
SPOIL(range_first, c->ranges[0] = (struct ptah_range){BIT(47), 1, 1})
SPOIL(range_last, c->ranges[0] = (struct ptah_range){1, 0xffff7fffffffffff, 2})
SPOIL(range_last_57, c->ranges[0] = (struct ptah_range){1, BIT(56), 2})
SPOIL(range_back, c->ranges[1] = (struct ptah_range){0x2000, 0x1fff, 1})
SPOIL(range_stopped, c->ranges[0] = (struct ptah_range){0x2000, 0x2fff, 1};
      c->ranges[1] = (struct ptah_range){0x1000, 0x2fff, 2})
SPOIL(old_size, c->size--)

static const struct refusal refusals[] = {
    {&broadwell, mtc, false, "mtc", PTAH_PROBLEM_FLAG, 1, 0},
    {&broadwell, mtc_off_1, false, "mtc_period", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, mtc_1, false, "mtc_period", PTAH_PROBLEM_BITMAP, 1, 0x249},
    {&skylake, mtc_off_1, false, "mtc_period", PTAH_PROBLEM_BITMAP, 1, 0x249},
    {&rich, mtc_16, false, "mtc_period", PTAH_PROBLEM_BITMAP, 16, 0xffff},
    {&broadwell, cyc, false, "cyc", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, cyc_15, false, "cyc_threshold", PTAH_PROBLEM_BITMAP, 15, 0x3fff},
    {&skylake, psb_6, false, "psb_period", PTAH_PROBLEM_BITMAP, 6, 0x3f},
    {&broadwell, psb_6, false, "psb_period", PTAH_PROBLEM_FLAG, 6, 0},
    {&skylake, ptwrite, false, "ptwrite", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, fup_only, false, "fup_on_ptwrite", PTAH_PROBLEM_FLAG, 1, 0},
    {&rich, fup_only, false, "fup_on_ptwrite", PTAH_PROBLEM_NEEDS, 1, 0},
    {&skylake, power, false, "power_events", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, events, false, "event_trace", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, no_tnt, false, "no_tnt", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, inject, false, "psb_pmi_on_enable", PTAH_PROBLEM_FLAG, 1, 0},
    {&broadwell, no_branch, false, "branch", PTAH_PROBLEM_REQUIRED, 0, 1},
    {&rich, no_packets, false, "branch", PTAH_PROBLEM_NOTHING, 0, 1},
    {&rich, nobody, false, "os", PTAH_PROBLEM_NOTHING, 0, 1},
    {&skylake, cr3_pcid, false, "cr3", PTAH_PROBLEM_MASK, 0x1003, BIT(39) - 32},
    {&skylake, cr3_high, false, "cr3", PTAH_PROBLEM_MASK, BIT(39) | 0x1000, BIT(39) - 32},
    {&skylake, cr3_noflush, false, "cr3", PTAH_PROBLEM_MASK, BIT(63) | 0x1000, BIT(39) - 32},
    {&broadwell, range_0, false, "ranges[0].mode", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, range_2, false, "ranges[2].mode", PTAH_PROBLEM_FLAG, 1, 0},
    {&rich, range_2, true, "ranges[2].mode", PTAH_PROBLEM_FLAG, 1, 0},
    {&skylake, range_mode, false, "ranges[1].mode", PTAH_PROBLEM_MAX, 3, 2},
    {&skylake, range_first, false, "ranges[0].first", PTAH_PROBLEM_CANONICAL, BIT(47), 48},
    {&skylake, range_last, false, "ranges[0].last", PTAH_PROBLEM_CANONICAL, 0xffff7fffffffffff, 48},
    {&rich, range_last_57, false, "ranges[0].last", PTAH_PROBLEM_CANONICAL, BIT(56), 57},
    {&skylake, range_back, false, "ranges[1].last", PTAH_PROBLEM_MIN, 0x1fff, 0x2000},
    {&skylake, range_stopped, false, "ranges[0].mode", PTAH_PROBLEM_NOTHING, 1, 0},
    {&skylake, old_size, false, "size", PTAH_PROBLEM_MIN, sizeof(struct ptah_trace_config) - 1,
     sizeof(struct ptah_trace_config)},
};

TEST(each_refusal_names_field_and_reason)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const struct refusal *r = &refusals[i];
		struct ptah_trace_config c;
		struct ptah_trace_problem p;
		struct ptah_caps caps;

		processor(r->words, &caps);
		ptah_trace_config_default(&caps, &c);
		r->spoil(&c);
		assert_int_equal(ptah_trace_config_check(&caps, &c, r->threaded, &p), PTAH_E_INVAL);
		assert_string_equal(p.field, r->field);
		assert_int_equal(p.kind, r->kind);
		assert_true(p.value == r->value && p.valid == r->valid);
		assert_true(strlen(p.reason) > 20);
		assert_int_equal(ptah_trace_config_check(&caps, &c, r->threaded, NULL),
				 PTAH_E_INVAL);
	}
}

SPOIL(many_options, c->mtc = c->cyc = c->ptwrite = c->fup_on_ptwrite = c->power_events = true;
      c->event_trace = c->no_tnt = c->psb_pmi_on_enable = c->no_retcomp = true;
      c->cr3_filter = c->force_psb = true; c->cr3 = BIT(45) | 0x1fe0; c->mtc_period = 15;
      c->cyc_threshold = 14; c->psb_period = 13)
SPOIL(mtc_alone, c->mtc = true; c->tsc = false)
SPOIL(ptwrite_alone, c->branch = c->tsc = false; c->ptwrite = true)
SPOIL(two_ranges, c->ranges[0] = (struct ptah_range){0x400000, 0x400000, 1};
      c->ranges[1] = (struct ptah_range){0x7fffffffffff, 0xffff800000000000, 2})
SPOIL(stop_inside, c->ranges[0] = (struct ptah_range){0x1000, 0x3fff, 1};
      c->ranges[1] = (struct ptah_range){0x2000, 0x2fff, 2})
SPOIL(range_57, c->ranges[3] = (struct ptah_range){BIT(56) - 1, 0xff00000000000000, 1})
SPOIL(off_is_not_looked_at, c->ranges[3] = (struct ptah_range){BIT(60), 3, 0}; c->cr3 = 7)

TEST(what_is_legal_is_accepted)
{
	static const struct {
		const struct words *words;
		void (*change)(struct ptah_trace_config *c);
		bool threaded;
	} cases[] = {
	    {&rich, many_options, true},	 {&skylake, mtc_alone, false},
	    {&rich, ptwrite_alone, false},	 {&skylake, two_ranges, true},
	    {&skylake, stop_inside, true},	 {&rich, range_57, false},
	    {&rich, off_is_not_looked_at, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptah_trace_config c;
		struct ptah_caps caps;

		processor(cases[i].words, &caps);
		ptah_trace_config_default(&caps, &c);
		cases[i].change(&c);
		assert_int_equal(ptah_trace_config_check(&caps, &c, cases[i].threaded, NULL),
				 PTAH_OK);
		assert_false(faults(cases[i].words, &c));
		assert_true(ptah_trace_config_ctl(&c) == ctl_of(&c));
	}
}

TEST(a_processor_with_an_obstacle_accepts_nothing)
{
	struct ptah_trace_config c;
	struct ptah_trace_problem p;
	struct ptah_caps caps;

	processor(&rich, &caps);
	ptah_trace_config_default(&caps, &c);
	for (unsigned i = 1; i < PTAH_CAPS_OBSTACLE_MAX; i++) {
		caps.obstacle = (uint8_t)i;
		assert_int_equal(ptah_trace_config_check(&caps, &c, false, &p), PTAH_E_UNSUPPORTED);
		assert_string_equal(p.field, "caps");
		assert_int_equal(p.kind, PTAH_PROBLEM_CAPS);
		assert_string_equal(p.reason, ptah_caps_advice(i));
	}
	assert_int_equal(ptah_trace_config_check(NULL, &c, false, &p), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_config_check(&caps, NULL, false, &p), PTAH_E_INVAL);
}

static uint64_t seed = 14;

static bool one_in(unsigned n)
{
	return random_next(&seed) % n == 0;
}

static uint32_t random_word(void)
{
	return (uint32_t)random_next(&seed);
}

/* Bitmaps that are used are not empty, and some lack encoding 0. */
static void random_processor(struct words *w)
{
	*w = (struct words){.ebx = random_word(), .ecx = random_word() | 1u << (2 * one_in(2))};
	w->ebx |= one_in(2) ? 0xff : 0;
	w->physical = 36 + random_word() % 17;
	w->linear = one_in(2) ? 57 : 48;
	w->more_eax = random_word() | 1u << (16 + random_word() % 16);
	w->more_eax = (w->more_eax & ~UINT32_C(7)) | random_word() % 5;
	w->more_ebx = random_word() | 1u << random_word() % 16 | 1u << (16 + random_word() % 16);
	if (one_in(2)) {
		w->more_eax |= 1u << 16;
		w->more_ebx |= 0x10001;
	}
	w->broadwell = one_in(8);
}

/* Near the ends of the canonical halves, inside and outside. */
static uint64_t random_address(void)
{
	static const uint64_t corners[] = {0, BIT(47), 0 - BIT(47), BIT(56), 0 - BIT(56), BIT(63)};
	uint64_t base = corners[random_next(&seed) % 6];

	return one_in(3) ? random_next(&seed) : base + random_next(&seed) % 0x2000 - 0x1000;
}

/* Sets up to five fields at random. */
static void spoil(struct ptah_trace_config *c)
{
	bool *flags[] = {&c->os,
			 &c->user,
			 &c->branch,
			 &c->tsc,
			 &c->mtc,
			 &c->cyc,
			 &c->no_retcomp,
			 &c->ptwrite,
			 &c->no_tnt,
			 &c->event_trace,
			 &c->fup_on_ptwrite,
			 &c->power_events,
			 &c->psb_pmi_on_enable};
	uint8_t *numbers[] = {&c->mtc_period, &c->cyc_threshold, &c->psb_period};

	for (unsigned k = random_word() % 6; k; k--) {
		struct ptah_range *r = &c->ranges[random_word() % 4];

		switch (random_word() % 8) {
		case 0:
			*numbers[random_word() % 3] =
			    one_in(4) ? (uint8_t)random_word() : random_word() % 16;
			break;
		case 1:
			c->cr3_filter = true;
			c->cr3 = random_next(&seed) >> random_word() % 64;
			c->cr3 &= one_in(4) ? ~UINT64_C(0) : ~UINT64_C(0xfff);
			break;
		case 2:
		case 3:
			r->mode = one_in(16) ? (uint8_t)random_word() : random_word() % 3;
			r->first = random_address();
			r->last = one_in(2) ? random_address() : r->first;
			break;
		default:
			*flags[random_word() % 13] ^= true;
		}
	}
}

/* What the reason of a refusal claims about the hardware. */
static bool claims_fault(const struct ptah_trace_problem *p, const struct ptah_trace_config *c)
{
	switch (p->kind) {
	case PTAH_PROBLEM_MASK:
		return c->cr3 & 0x1f;
	case PTAH_PROBLEM_NEEDS:
	case PTAH_PROBLEM_MIN:
	case PTAH_PROBLEM_NOTHING:
		return false;
	default:
		return true;
	}
}

TEST(random_configurations_on_random_processors)
{
	unsigned accepted = 0, refused[PTAH_PROBLEM_KIND_MAX] = {0};

	for (unsigned i = 0; i < 200000; i++) {
		struct ptah_trace_config c;
		struct ptah_trace_problem p;
		struct ptah_caps caps;
		struct words w;
		int status;

		random_processor(&w);
		processor(&w, &caps);
		ptah_trace_config_default(&caps, &c);
		spoil(&c);
		assert_true((ptah_trace_config_ctl(&c) ^ ctl_of(&c)) == 0);
		status = ptah_trace_config_check(&caps, &c, false, &p);
		if (status == PTAH_OK) {
			accepted++;
			assert_false(faults(&w, &c));
			continue;
		}
		assert_int_equal(status, PTAH_E_INVAL);
		assert_true(p.kind && p.kind < PTAH_PROBLEM_KIND_MAX);
		refused[p.kind]++;
		if (claims_fault(&p, &c))
			assert_true(faults(&w, &c));
	}
	assert_true(accepted > 20000);
	for (unsigned i = 1; i < PTAH_PROBLEM_KIND_MAX; i++)
		assert_true(i == PTAH_PROBLEM_CAPS || refused[i] > 100);
}

/* A request that the hardware would take is refused only if it would trace nothing. */
TEST(nothing_legal_is_refused_without_need)
{
	unsigned legal = 0;

	for (unsigned i = 0; i < 100000; i++) {
		struct ptah_trace_config c;
		struct ptah_trace_problem p;
		struct ptah_caps caps;
		struct words w;

		random_processor(&w);
		processor(&w, &caps);
		ptah_trace_config_default(&caps, &c);
		spoil(&c);
		if (faults(&w, &c) || ptah_trace_config_check(&caps, &c, false, &p) == PTAH_OK)
			continue;
		legal++;
		assert_false(claims_fault(&p, &c));
	}
	assert_true(legal > 1000);
}

/* What a register's value asks for, and which bit cannot be had. */
TEST(a_register_becomes_a_configuration)
{
	static const struct {
		uint64_t ctl;
		const char *field;
	} cases[] = {
	    {BIT(0) | BIT(2) | BIT(3) | BIT(8) | BIT(10) | BIT(13), NULL},
	    {BIT(2) | BIT(9) | UINT64_C(3) << 14 | BIT(32) | UINT64_C(2) << 36, NULL},
	    {BIT(2) | BIT(9) | UINT64_C(2) << 14, "mtc_period"},
	    {BIT(2) | BIT(6), "FabricEn"},
	    {BIT(2) | BIT(18), "reserved"},
	    {BIT(2) | BIT(63), "reserved"},
	    {BIT(2) | BIT(55), "no_tnt"},
	    {BIT(2) | BIT(12), "ptwrite"},
	    {BIT(2) | UINT64_C(3) << 32, "ranges[0].mode"},
	    {BIT(2) | BIT(40), "ranges[2].mode"},
	};
	struct ptah_trace_problem p;
	struct ptah_trace_config c;
	struct ptah_caps caps;

	processor(&skylake, &caps);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = ptah_trace_config_from_ctl(&caps, cases[i].ctl, &c, &p);

		assert_int_equal(status, cases[i].field ? PTAH_E_INVAL : PTAH_OK);
		if (cases[i].field)
			assert_string_equal(p.field, cases[i].field);
		else
			assert_int_equal(ptah_trace_config_ctl(&c),
					 cases[i].ctl & ~UINT64_C(0x101));
	}
	assert_int_equal(ptah_trace_config_from_ctl(&caps, BIT(18), &c, &p), PTAH_E_INVAL);
	assert_int_equal(p.value, BIT(18));
	assert_int_equal(ptah_trace_config_from_ctl(NULL, 0, &c, NULL), PTAH_E_INVAL);
	assert_int_equal(ptah_trace_config_from_ctl(&caps, 0, NULL, NULL), PTAH_E_INVAL);
	caps.obstacle = PTAH_CAPS_VMX;
	assert_int_equal(ptah_trace_config_from_ctl(&caps, 0, &c, NULL), PTAH_E_UNSUPPORTED);
}

/* With what the other registers have. */
#define PLAIN (BIT(2) | BIT(13)) /* OS, BranchEn */

TEST(from_registers)
{
	static const struct {
		struct ptah_trace_registers r;
		const char *field; /* NULL: it is accepted */
	} cases[] = {
	    {{.ctl = PLAIN}, NULL},
	    {{.ctl = PLAIN, .cr3 = 3}, NULL}, /* nobody asks for it */
	    {{.ctl = PLAIN | BIT(7), .cr3 = 0x1000}, NULL},
	    {{.ctl = PLAIN | BIT(7), .cr3 = 3}, "cr3"},
	    {{.ctl = PLAIN, .ranges = {{1, 2}}, .given = 1}, NULL},
	    {{.ctl = PLAIN | UINT64_C(2) << 36, .ranges = {{0}, {1, 2}}, .given = 2}, NULL},
	    {{.ctl = PLAIN | UINT64_C(2) << 36, .ranges = {{1, 2}}, .given = 1}, "ranges[1].mode"},
	    {{.ctl = PLAIN | BIT(32)}, "ranges[0].mode"},
	    {{.ctl = PLAIN, .ranges = {{2, 1}}, .given = 1}, "ranges[0].last"},
	    {{.ctl = PLAIN, .ranges = {{0}, {0}, {1, 2}}, .given = 4}, "ranges[2].mode"},
	    {{.ctl = PLAIN | BIT(18)}, "reserved"},
	    {{.ctl = BIT(13)}, "os"},
	};
	struct ptah_trace_config c;
	struct ptah_trace_problem p;
	struct ptah_caps caps;

	processor(&skylake, &caps);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ptah_trace_registers *r = &cases[i].r;
		int status = ptah_trace_config_from_registers(&caps, r, false, &c, &p);

		assert_int_equal(status, cases[i].field ? PTAH_E_INVAL : PTAH_OK);
		if (cases[i].field) {
			assert_string_equal(p.field, cases[i].field);
			continue;
		}
		assert_int_equal(c.cr3, r->ctl & BIT(7) ? r->cr3 : 0);
		for (unsigned n = 0; n < 2; n++) {
			const unsigned mode = r->ctl >> (32 + 4 * n) & 15;

			assert_int_equal(c.ranges[n].mode, r->given >> n & 1 && !mode ? 1 : mode);
			assert_int_equal(c.ranges[n].first, r->ranges[n].first);
			assert_int_equal(c.ranges[n].last, r->ranges[n].last);
		}
	}
	assert_int_equal(ptah_trace_config_from_registers(NULL, &cases[0].r, false, &c, NULL),
			 PTAH_E_INVAL);
}

/* Random values on random processors: none that raises #GP is accepted, none is changed. */
TEST(random_registers_on_random_processors)
{
	unsigned accepted = 0;

	for (unsigned i = 0; i < 100000; i++) {
		uint64_t ctl = BIT(2);
		struct ptah_trace_config c;
		struct ptah_caps caps;
		uint64_t engine = BIT(0); /* TraceEn and ToPA */
		struct words w;

		random_processor(&w);
		processor(&w, &caps);
		engine |= w.ecx & 1 ? BIT(8) : 0;
		for (unsigned bits = random_word() % 6; bits; bits--)
			ctl |= BIT(random_word() % 64);
		if (ptah_trace_config_from_ctl(&caps, ctl, &c, NULL) < 0) {
			/* Legal, but there is no buffer, or no PTWRITE to put an FUP on. */
			assert_true(ctl_faults(&w, (ctl & ~UINT64_C(0x101)) | engine) ||
				    ctl & BIT(6) || (ctl & (BIT(5) | BIT(12))) == BIT(5));
			continue;
		}
		accepted++;
		assert_false(ctl_faults(&w, (ctl & ~UINT64_C(0x101)) | engine));
		assert_int_equal(ctl_of(&c), ctl & ~UINT64_C(0x101));
	}
	assert_true(accepted > 1000);
}
