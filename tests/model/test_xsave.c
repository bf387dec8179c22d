/* SPDX-License-Identifier: MIT */
/*
 * XSAVES and XRSTORS of component 8. The tests read the image at the offsets
 * that the SDM gives (volume 1, "XSAVE Area" and "Compacted Format"; volume 3,
 * "Intel PT State Component"), not through the functions under test.
 */
#include "bare.h"

#include <stdalign.h>

#define PT     PTAH_XSTATE_PT
#define HEADER 512
#define STATE  576
#define CTL    (PTAH_RTIT_CTL_TRACE_EN | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_OS)

static alignas(64) uint8_t image[2048];

static uint64_t word(size_t at)
{
	return load_le64(image + at);
}

static void set_word(size_t at, uint64_t value)
{
	store_le64(image + at, value);
}

/* Opens a ring of one region with component 8 enabled, and fills the image with ones. */
static void open_xsave(struct rig *rig, const char *name)
{
	rig_open(rig, ptah_model_find(name), 1024);
	rig_entry(rig, RIG_BASE, 0, RIG_BASE + 4096);
	rig_entry(rig, RIG_BASE, 1, PTAH_TOPA_END | RIG_BASE);
	rig_write(rig, PTAH_IA32_XSS, PT);
	memset(image, 0xff, sizeof(image));
}

static void set_up(struct rig *rig)
{
	rig_write(rig, PTAH_IA32_RTIT_OUTPUT_BASE, RIG_BASE);
	rig_write(rig, PTAH_IA32_RTIT_CR3_MATCH, 0x1234000);
	for (uint32_t i = 0; i < 4; i++)
		rig_write(rig, PTAH_IA32_RTIT_ADDR0_A + i, 0x400000 + i);
	rig_write(rig, PTAH_IA32_RTIT_CTL, CTL);
}

/*
 * SDM: CTL is saved, TraceEn is cleared, then the rest is saved: the position
 * is that after the last byte.
 */
TEST(test_save)
{
	static const uint8_t bytes[100] = {1};
	struct rig rig;

	open_xsave(&rig, "skylake");
	set_up(&rig);
	rig_put(&rig, bytes, sizeof(bytes), 50);
	assert_int_equal(ptah_model_xsaves(&rig.m, image, PT), PTAH_OK);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL), CTL & ~PTAH_RTIT_CTL_TRACE_EN);
	assert_int_equal(word(HEADER), PT);
	assert_int_equal(word(HEADER + 8), UINT64_C(1) << 63 | PT);
	for (unsigned i = 16; i < 64; i += 8)
		assert_int_equal(word(HEADER + i), 0);
	assert_int_equal(word(STATE), CTL);
	assert_int_equal(word(STATE + 8), RIG_BASE);
	assert_int_equal(word(STATE + 16), UINT64_C(100) << 32 | 0x7f);
	assert_int_equal(word(STATE + 24), UINT64_C(100) << 32);
	assert_int_equal(word(STATE + 32), 0x1234000);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(word(STATE + 40 + 8 * i), 0x400000 + i);
	for (unsigned i = 72; i < 128; i += 8)
		assert_int_equal(word(STATE + i), 0);
	assert_int_equal(word(STATE + 128), UINT64_MAX);
	assert_int_equal(word(0), UINT64_MAX); /* the legacy area was not requested */
	rig_close(&rig);
}

/* The other components precede it in the image. */
TEST(test_offset)
{
	struct rig rig;

	open_xsave(&rig, "skylake");
	set_up(&rig);
	assert_int_equal(ptah_model_xsaves(&rig.m, image, PT | 7), PTAH_OK);
	assert_int_equal(word(HEADER + 8), UINT64_C(1) << 63 | PT | 7);
	assert_int_equal(word(STATE + 256), CTL);
	assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_OK);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL), CTL);
	rig_close(&rig);
}

/* Saved and restored any number of times: no byte is lost and none is written twice. */
TEST(test_switching)
{
	uint8_t bytes[4000];
	uint64_t seed = 5;
	struct rig rig;
	size_t at = 0;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random_next(&seed);
	open_xsave(&rig, "skylake");
	set_up(&rig);
	while (at < sizeof(bytes)) {
		size_t n = random_next(&seed) % 200;

		n = n < sizeof(bytes) - at ? n : sizeof(bytes) - at;
		rig_put(&rig, bytes + at, n, 96);
		at += n;
		assert_int_equal(ptah_model_xsaves(&rig.m, image, PT), PTAH_OK);
		/* Another tracer uses the registers meanwhile. */
		rig_write(&rig, PTAH_IA32_RTIT_OUTPUT_BASE, RIG_BASE + 8192);
		rig_write(&rig, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS, UINT64_C(77) << 32);
		assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_OK);
	}
	model_output_settle(&rig.m);
	assert_memory_equal(rig.memory + 4096, bytes, sizeof(bytes));
	rig_close(&rig);
}

/*
 * SDM: with TraceEn set nothing is restored; and every check of WRMSR is made
 * before anything changes.
 */
TEST(test_faults)
{
	static const struct {
		unsigned at;
		uint64_t bad;
	} bad[] = {
	    {STATE, UINT64_C(1) << 18},
	    {STATE, UINT64_C(3) << 32},
	    {STATE, UINT64_C(1) << 40},
	    {STATE + 8, 0x7f},
	    {STATE + 8, UINT64_C(1) << 39},
	    {STATE + 24, UINT64_C(1) << 3},
	    {STATE + 32, 1},
	    {STATE + 40, UINT64_C(1) << 47},
	    {STATE + 64, UINT64_C(1) << 60},
	    {HEADER + 16, 1},
	    {HEADER + 56, 1},
	    {HEADER, UINT64_C(1) << 9},
	    {HEADER + 8, PT},
	    {HEADER + 8, UINT64_C(1) << 63 | PT | 1 << 9},
	};
	struct ptah_model before;
	struct rig rig;

	open_xsave(&rig, "skylake");
	set_up(&rig);
	assert_int_equal(ptah_model_xsaves(&rig.m, image, PT), PTAH_OK);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		const uint64_t good = word(bad[i].at);

		set_word(bad[i].at, bad[i].bad);
		before = rig.m;
		assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_E_UNSUPPORTED);
		assert_memory_equal(&before, &rig.m, sizeof(before));
		set_word(bad[i].at, good);
	}
	assert_int_equal(ptah_model_xrstors(&rig.m, image + 8, PT), PTAH_E_UNSUPPORTED);
	assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_OK);
	before = rig.m;
	assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_E_UNSUPPORTED);
	assert_memory_equal(&before, &rig.m, sizeof(before));
	/* When component 8 is not requested, TraceEn does not matter. */
	assert_int_equal(ptah_model_xrstors(&rig.m, image, 3), PTAH_OK);
	rig_close(&rig);
}

/*
 * The initial configuration: XSTATE_BV[8] = 0 sets all nine registers to 0, and
 * all 0 is saved in that way.
 */
TEST(test_initial)
{
	struct rig rig;

	open_xsave(&rig, "skylake");
	assert_int_equal(ptah_model_xsaves(&rig.m, image, PT), PTAH_OK);
	assert_int_equal(word(HEADER), 0);
	set_up(&rig);
	assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_E_UNSUPPORTED); /* TraceEn */
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL), CTL);
	rig_write(&rig, PTAH_IA32_RTIT_CTL, 0);
	assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_OK);
	for (uint32_t msr = 0x560; msr < 0x584; msr++) {
		uint64_t value;

		if (ptah_model_rdmsr(&rig.m, msr, &value) == PTAH_OK)
			assert_int_equal(value, msr == 0x561 ? 0x7f : 0);
	}
	rig_close(&rig);
}

/*
 * Without IA32_XSS[8], component 8 is not touched; a processor without XSAVES
 * does not know the instruction.
 */
TEST(test_not_enabled)
{
	struct rig rig;

	open_xsave(&rig, "skylake");
	set_up(&rig);
	rig_write(&rig, PTAH_IA32_XSS, 0);
	assert_int_equal(ptah_model_xsaves(&rig.m, image, PT), PTAH_OK);
	assert_int_equal(word(HEADER), 0);
	assert_int_equal(word(HEADER + 8), UINT64_C(1) << 63);
	assert_int_equal(rig_read(&rig, PTAH_IA32_RTIT_CTL), CTL);
	/* And an image that contains component 8 is refused. */
	set_word(HEADER + 8, UINT64_C(1) << 63 | PT);
	assert_int_equal(ptah_model_xrstors(&rig.m, image, PT), PTAH_E_UNSUPPORTED);
	rig_close(&rig);
	rig_open(&rig, ptah_model_find("broadwell"), 1024);
	assert_int_equal(ptah_model_xsaves(&rig.m, image, PT), PTAH_E_UNSUPPORTED);
	rig_close(&rig);
}
