/* SPDX-License-Identifier: MIT */
/* The arguments of the plugin ptah-system.so: what they set, and what a wrong one is told. */
#include "record/system/arguments.h"

#include "test.h"

#include <string.h>

static struct system_arguments a;
static char error[1024];

static bool read_one(const char *text)
{
	char *values[] = {(char *)(uintptr_t)text};

	memset(error, 0, sizeof(error));
	return system_arguments(&a, 1, values, error, sizeof(error));
}

TEST(without_arguments_there_is_a_skylake)
{
	assert_true(system_arguments(&a, 0, NULL, error, sizeof(error)));
	assert_string_equal(a.processor->name, "skylake");
	assert_int_equal(a.tsc_mhz, 100);
	assert_null(a.truth);
	assert_false(a.xsaves);
	assert_false(a.verbose);
}

TEST(every_argument_is_read)
{
	char model[] = "model=tiger-lake", truth[] = "truth=a b.txt", tsc[] = "tsc=250",
	     xsaves[] = "xsaves=on", verbose[] = "verbose=on";
	char *values[] = {model, truth, tsc, xsaves, verbose};

	assert_true(system_arguments(&a, 5, values, error, sizeof(error)));
	assert_string_equal(a.processor->name, "tiger-lake");
	assert_string_equal(a.truth, "a b.txt");
	assert_int_equal(a.tsc_mhz, 250);
	assert_true(a.xsaves);
	assert_true(a.verbose);
	assert_true(read_one("tsc=host"));
	assert_int_equal(a.tsc_mhz, 0);
	assert_true(read_one("verbose=off"));
	assert_false(a.verbose);
}

/* Each error names the argument and what may be written instead. */
TEST(a_wrong_argument_is_refused_with_what_is_right)
{
	static const struct {
		const char *text, *is, *right;
	} wrong[] = {
	    {"model=486", "model=486", "broadwell"},
	    {"model=", "model=", "maximal"},
	    {"truth=", "truth=", "file"},
	    {"tsc=0", "tsc=0", "from 1 to 10000"},
	    {"tsc=-5", "tsc=-5", "MHz"},
	    {"tsc=10001", "tsc=10001", "10000"},
	    {"tsc=100MHz", "tsc=100MHz", "or host"},
	    {"tsc=99999999999999999999", "tsc=9", "10000"},
	    {"verbose=maybe", "verbose=maybe", "verbose=off"},
	    {"xsaves=1", "xsaves=1", "xsaves=off"},
	    {"speed=1", "speed=1", "model=NAME"},
	    {"model", "\"model\"", "model=NAME"},
	    {"", "\"\"", "truth=FILE"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(read_one(wrong[i].text));
		assert_non_null(strstr(error, wrong[i].is));
		assert_non_null(strstr(error, wrong[i].right));
	}
}
