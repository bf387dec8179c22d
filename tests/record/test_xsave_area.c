/* SPDX-License-Identifier: MIT */
/*
 * The compacted format of XSAVES, as SDM volume 1, "Compacted Format of Extended Region" and
 * "Operation of XRSTORS" define it: offsets by hand, what is copied and what is not, the headers
 * that raise #GP.
 */
#include "record/system/xsave_area.h"

#include "base/bits.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define AVX (UINT64_C(1) << 2)
#define KEY (UINT64_C(1) << 9) /* PKRU */
#define ODD (UINT64_C(1) << 5)
#define ALL (XSAVE_X87 | XSAVE_SSE | AVX | ODD | KEY)

/* AVX and PKRU as Skylake has them, and a component that is aligned. */
static const struct xsave_layout layout = {.user = ALL,
					   .supervisor = XSAVE_PT,
					   .component = {[2] = {256, 576, false},
							 [5] = {64, 1088, true},
							 [8] = {128, 0, false},
							 [9] = {8, 2688, false}}};

static uint8_t standard[XSAVE_AREA_MAX], compacted[XSAVE_AREA_MAX], other[XSAVE_AREA_MAX];

static int set_up(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(standard); i++)
		standard[i] = (uint8_t)(i * 7 + i / 256 + 1);
	store_le32(standard + 24, 0x1f80);
	memset(compacted, 0xee, sizeof(compacted));
	memset(other, 0xdd, sizeof(other));
	return 0;
}

TEST_WITH(offsets_follow_the_components_that_are_there, set_up, NULL)
{
	assert_int_equal(xsave_size(&layout, 0), 576);
	assert_int_equal(xsave_size(&layout, 3), 576);
	assert_int_equal(xsave_size(&layout, XSAVE_PT), 704);
	assert_int_equal(xsave_offset(&layout, XSAVE_PT, 8), 576);
	assert_int_equal(xsave_offset(&layout, AVX | XSAVE_PT, 8), 832);
	assert_int_equal(xsave_offset(&layout, AVX | XSAVE_PT | KEY, 9), 960);
	assert_int_equal(xsave_size(&layout, AVX | XSAVE_PT | KEY), 968);
	assert_int_equal(xsave_offset(&layout, KEY | XSAVE_PT | ODD, 5), 576);
	assert_int_equal(xsave_offset(&layout, AVX | ODD, 5), 832);
	/* The aligned one alone is moved up. */
	{
		struct xsave_layout l = layout;

		l.component[2].size = 8;
		assert_int_equal(xsave_offset(&l, AVX | ODD, 5), 640);
		l.component[5].aligned = false;
		assert_int_equal(xsave_offset(&l, AVX | ODD, 5), 584);
	}
}

TEST_WITH(only_what_is_saved_is_written, set_up, NULL)
{
	xsave_compact(&layout, compacted, XSAVE_SSE | KEY | XSAVE_PT, XSAVE_SSE | KEY,
		      XSAVE_SSE | KEY, standard);
	for (size_t i = 0; i < 24; i++) /* x87 */
		assert_int_equal(compacted[i], 0xee);
	assert_memory_equal(compacted + 24, standard + 24, 8);
	assert_int_equal(compacted[32], 0xee);
	assert_int_equal(compacted[159], 0xee);
	assert_memory_equal(compacted + 160, standard + 160, 256);
	assert_int_equal(compacted[416], 0xee);
	assert_int_equal(compacted[511], 0xee);
	assert_int_equal(load_le64(compacted + 512), XSAVE_SSE | KEY);
	assert_int_equal(load_le64(compacted + 520),
			 XSAVE_SSE | KEY | XSAVE_PT | UINT64_C(1) << 63);
	for (size_t i = 528; i < 576; i++)
		assert_int_equal(compacted[i], 0);
	for (size_t i = 576; i < 704; i++) /* Intel PT: by the caller */
		assert_int_equal(compacted[i], 0xee);
	assert_memory_equal(compacted + 704, standard + 2688, 8);
	assert_int_equal(compacted[712], 0xee);
}

TEST_WITH(what_was_saved_is_restored, set_up, NULL)
{
	xsave_compact(&layout, compacted, ALL, ALL, ALL, standard);
	assert_false(xsave_faults(compacted, ALL, ALL));
	xsave_expand(&layout, other, ALL, compacted);
	assert_memory_equal(other, standard, 416);
	assert_memory_equal(other + 576, standard + 576, 256);
	assert_memory_equal(other + 1088, standard + 1088, 64);
	assert_memory_equal(other + 2688, standard + 2688, 8);
	assert_int_equal(other[832], 0xdd);
	assert_int_equal(other[512], 0xdd);
}

TEST_WITH(what_is_not_in_use_gets_its_initial_value, set_up, NULL)
{
	xsave_compact(&layout, compacted, ALL, ALL, XSAVE_X87, standard);
	xsave_expand(&layout, other, ALL & ~KEY, compacted);
	assert_memory_equal(other, standard, 24);
	assert_int_equal(load_le32(other + 24), 0x1f80);
	assert_int_equal(other[160], 0);
	assert_int_equal(other[576], 0);
	assert_int_equal(other[831], 0);
	assert_int_equal(other[2688], 0xdd); /* not restored at all */
	xsave_compact(&layout, compacted, ALL, ALL, 0, standard);
	xsave_expand(&layout, other, XSAVE_X87, compacted);
	assert_int_equal(load_le16(other), 0x37f);
	assert_int_equal(load_le16(other + 2), 0);
	assert_int_equal(other[32], 0);
}

TEST_WITH(a_wrong_header_raises_gp, set_up, NULL)
{
	static const struct {
		uint64_t in_use, bits;
		bool faults;
	} cases[] = {
	    {3, XSAVE_COMPACTED | 3, false},
	    {0, XSAVE_COMPACTED, false},
	    {3, 3, true},				  /* not compacted */
	    {7, XSAVE_COMPACTED | 3, true},		  /* in use, but not there */
	    {3, XSAVE_COMPACTED | 3 | XSAVE_PT, true},	  /* not enabled */
	    {XSAVE_COMPACTED, XSAVE_COMPACTED | 3, true}, /* bit 63 of XSTATE_BV */
	};

	memset(compacted, 0, sizeof(compacted));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		store_le64(compacted + 512, cases[i].in_use);
		store_le64(compacted + 520, cases[i].bits);
		assert_int_equal(xsave_faults(compacted, ALL, 3), cases[i].faults);
	}
	store_le64(compacted + 512, 3);
	store_le64(compacted + 520, XSAVE_COMPACTED | 3);
	for (size_t i = 528; i < 576; i++) {
		compacted[i] = 1;
		assert_true(xsave_faults(compacted, ALL, 3));
		compacted[i] = 0;
	}
	store_le32(compacted + 24, 0x10000); /* a reserved bit of MXCSR */
	assert_true(xsave_faults(compacted, ALL, 3));
	assert_false(xsave_faults(compacted, ALL, 1));
}
