/* SPDX-License-Identifier: MIT */
/* perf's text of address filters, as perf-record(1) describes it under --filter. */
#include "test.h"

#include <ptah/session.h>

#include <string.h>

static struct ptah_filter filter;

static int parse(const char *text, const char **rest)
{
	const char *problem = NULL;
	int status;

	*rest = text;
	status = ptah_filter_parse(rest, &filter, &problem);
	assert_true(status == 0 ? !problem : problem && *problem);
	return status;
}

TEST(test_numbers)
{
	const char *rest;

	assert_int_equal(parse("filter 0x1149/0x2a@/bin/x", &rest), 0);
	assert_int_equal(filter.mode, PTAH_RANGE_FILTER);
	assert_string_equal(filter.start.name, "");
	assert_int_equal(filter.start.number, 0x1149);
	assert_true(filter.has_end);
	assert_int_equal(filter.end.number, 0x2a);
	assert_string_equal(filter.file, "/bin/x");
	assert_string_equal(rest, "");
	assert_int_equal(parse("  tracestop 16 / 010 @ 'a b' , filter main", &rest), 0);
	assert_int_equal(filter.mode, PTAH_RANGE_STOP);
	assert_int_equal(filter.start.number, 16);
	assert_int_equal(filter.end.number, 8);
	assert_string_equal(filter.file, "a b");
	assert_string_equal(rest, " , filter main");
}

TEST(test_names)
{
	const char *rest;

	assert_int_equal(parse("filter main @ ./prog", &rest), 0);
	assert_string_equal(filter.start.name, "main");
	assert_int_equal(filter.start.number, 0);
	assert_false(filter.has_end);
	assert_string_equal(filter.file, "./prog");
	assert_int_equal(parse("stop f#2 / g#1,filter x", &rest), 0);
	assert_string_equal(filter.start.name, "f");
	assert_int_equal(filter.start.number, 2);
	assert_string_equal(filter.end.name, "g");
	assert_int_equal(filter.end.number, 1);
	assert_string_equal(filter.file, "");
	assert_string_equal(rest, ",filter x");
	assert_int_equal(parse("filter *@/bin/x", &rest), 0);
	assert_string_equal(filter.start.name, "*");
}

/* Malformed texts are refused, and the place is reported. */
TEST(test_malformed)
{
	static const struct {
		const char *text, *at;
	} cases[] = {
	    {"", ""},
	    {"start main", "start main"},
	    {"trace main", "trace main"},
	    {"filter", ""},
	    {"filter /0x10", "/0x10"},
	    {"filter 0x10/", ""},
	    {"filter 0x", ""},
	    {"filter 12q/3", "/3"},
	    {"filter 0x12345678901234567/1", "/1"},
	    {"filter f#0", ""},
	    {"filter f#x", ""},
	    {"filter \"f", ""},
	    {"filter f@", ""},
	    {"filter f@,", ","},
	};
	const char *rest;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(parse(cases[i].text, &rest), PTAH_E_INVAL);
		assert_string_equal(rest, cases[i].at);
	}
	rest = NULL;
	assert_int_equal(ptah_filter_parse(&rest, &filter, NULL), PTAH_E_INVAL);
}

/* A name as long as there is room for is taken, a longer one is refused. */
TEST(test_long_names)
{
	char text[PTAH_FILTER_NAME_MAX + 16] = "filter ";
	const char *rest;

	memset(text + 7, 'f', PTAH_FILTER_NAME_MAX - 1);
	assert_int_equal(parse(text, &rest), 0);
	assert_int_equal(strlen(filter.start.name), PTAH_FILTER_NAME_MAX - 1);
	strcat(text, "f");
	assert_int_equal(parse(text, &rest), PTAH_E_INVAL);
}
