/* SPDX-License-Identifier: MIT */
/* The letters of --itrace, as perf-inject(1) describes them. */
#include "export/itrace.h"

#include "test.h"

static struct itrace parse(const char *text)
{
	struct ptah_message why = {""};
	struct itrace t;

	assert_int_equal(itrace_parse(text, &t, &why), 0);
	assert_string_equal(why.text, "");
	return t;
}

TEST(test_periods)
{
	static const struct {
		const char *text;
		uint64_t period;
		enum itrace_unit unit;
	} cases[] = {
	    {"i", 100000, ITRACE_NANOSECONDS},	     {"i100", 100, ITRACE_NANOSECONDS},
	    {"i0ns", 0, ITRACE_NANOSECONDS},	     {"i10us", 10000, ITRACE_NANOSECONDS},
	    {"i2ms", 2000000, ITRACE_NANOSECONDS},   {"i1i", 1, ITRACE_INSTRUCTIONS},
	    {"i1000ibe", 1000, ITRACE_INSTRUCTIONS}, {"bi7t", 7, ITRACE_TICKS},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct itrace t = parse(cases[i].text);

		assert_true(t.instructions);
		assert_int_equal(t.period, cases[i].period);
		assert_int_equal(t.unit, cases[i].unit);
	}
}

TEST(test_letters)
{
	struct itrace t = parse("");

	assert_true(t.instructions && t.branches && t.errors);
	assert_string_equal(t.left_out, "xwp");
	assert_int_equal(t.call_chain + t.branch_stack, 0);

	/* The example of perf-intel-pt(1): i100us, l, e. */
	t = parse("i100usle");
	assert_true(t.instructions && t.errors && !t.branches);
	assert_int_equal(t.period, 100000);
	assert_int_equal(t.branch_stack, 64);

	t = parse("cr");
	assert_true(t.calls && t.returns && !t.instructions && !t.branches);
	t = parse("i1ig32l1024s1000000");
	assert_int_equal(t.call_chain, 32);
	assert_int_equal(t.branch_stack, 1024);
	assert_int_equal(t.skip, 1000000);
	t = parse("ig e-o-l");
	assert_int_equal(t.call_chain, 16);
	assert_true(t.errors && t.no_overflows && t.no_losses);
	assert_false(parse("ie-o+o").no_overflows);
}

TEST(test_refused)
{
	static const char *const texts[] = {
	    "G",
	    "iL",
	    "q",
	    "y",
	    "A",
	    "Z",
	    "d",
	    "il0",
	    "ig1025",
	    "ig99999999999999999999",
	    "i99999999999999999999",
	    "i18446744073709551615ms",
	    "ie-x",
	    "is",
	    "g",
	    " ",
	    "i\x1b",
	};
	struct ptah_message why;
	struct itrace t;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		why.text[0] = '\0';
		assert_int_equal(itrace_parse(texts[i], &t, &why), PTAH_E_INVAL);
		assert_non_null(strstr(why.text, "--itrace"));
	}
}
