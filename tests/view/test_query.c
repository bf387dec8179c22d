/* SPDX-License-Identifier: MIT */
/* Questions of the page: what RFC 3986 says of %XX, and that nothing else gets through. */
#include "../test.h"

#include "view/query.h"

#include <stdlib.h>
#include <string.h>

static struct view_query query;

TEST(parameters_are_decoded)
{
	assert_int_equal(
	    view_query_parse(&query, "diff/functions?a=1&b%3D=%41%c3%BC%26&c&=&&d=x=y+z"), 0);
	assert_string_equal(query.path, "diff/functions");
	assert_string_equal(view_query_text(&query, "a"), "1");
	assert_string_equal(view_query_text(&query, "b="), "A\xc3\xbc&");
	assert_string_equal(view_query_text(&query, "c"), "");
	assert_string_equal(view_query_text(&query, "d"), "x=y+z");
	assert_null(view_query_text(&query, "e"));
}

TEST(paths_are_decoded_after_they_are_cut_off)
{
	assert_int_equal(view_query_parse(&query, "a%3fb%2F?c=1"), 0);
	assert_string_equal(query.path, "a?b/");
	assert_int_equal(view_query_parse(&query, ""), 0);
	assert_string_equal(query.path, "");
	assert_int_equal(query.count, 0);
}

TEST(what_is_malformed_is_refused)
{
	static const char *const texts[] = {"a?b=%",	 "a?b=%4",     "a?%zz=1", "a?b=%0",
					    "a?b=%00",	 "a?b=%g1",    "%",	  "%00",
					    "a?b=1&b=2", "a?b=1&%62=2"};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(view_query_parse(&query, texts[i]), PTAH_E_INVAL);
}

TEST(lengths_and_counts_are_limited)
{
	char text[VIEW_QUERY_SIZE + 1];
	size_t n;

	memset(text, 'x', sizeof(text));
	text[VIEW_QUERY_SIZE - 1] = '\0';
	assert_int_equal(view_query_parse(&query, text), 0);
	assert_int_equal(strlen(query.path), VIEW_QUERY_SIZE - 1);
	text[VIEW_QUERY_SIZE - 1] = 'x';
	text[VIEW_QUERY_SIZE] = '\0';
	assert_int_equal(view_query_parse(&query, text), PTAH_E_INVAL);

	strcpy(text, "a?");
	n = 2;
	for (char c = 'a'; c < 'a' + VIEW_QUERY_PARAMETERS; c++, n += 2) {
		text[n] = c;
		text[n + 1] = '&';
	}
	text[n] = '\0';
	assert_int_equal(view_query_parse(&query, text), 0);
	assert_int_equal(query.count, VIEW_QUERY_PARAMETERS);
	strcpy(text + n, "zz");
	assert_int_equal(view_query_parse(&query, text), PTAH_E_INVAL);
}

TEST(numbers_are_nothing_but_numbers)
{
	uint64_t number = 0;
	double real = 0;

	assert_int_equal(view_query_parse(&query,
					  "x?a=18446744073709551615&b=18446744073709551616&"
					  "c=-1&d=%201&e=0x10&f=1e3&g=12.5&h=inf&i=1e999&j=-.5&k="),
			 0);
	assert_true(view_query_number(&query, "a", UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
	assert_false(view_query_number(&query, "a", UINT64_MAX - 1, &number));
	for (const char *name = "bcdefghijkl"; *name; name++)
		assert_false(view_query_number(&query, (char[]){*name, 0}, UINT64_MAX, &number));
	assert_true(view_query_real(&query, "f", &real));
	assert_true(real == 1000.0);
	assert_true(view_query_real(&query, "g", &real));
	assert_true(real == 12.5);
	assert_true(view_query_real(&query, "j", &real));
	assert_true(real == -0.5);
	for (const char *name = "dehikl"; *name; name++)
		assert_false(view_query_real(&query, (char[]){*name, 0}, &real));
}

TEST(refusals_are_sentences)
{
	struct view_answer answer;

	assert_int_equal(view_answer_refuse(&answer, 404, "there is no thread 7"), 0);
	assert_int_equal(answer.status, 404);
	assert_int_equal(answer.size, 20);
	assert_memory_equal(answer.bytes, "there is no thread 7", 20);
	free(answer.bytes);
}
