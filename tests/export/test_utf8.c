/* SPDX-License-Identifier: MIT */
/* Names become valid UTF-8, and are cut between characters. */
#include "export/utf8.h"

#include "test.h"

#include "base/compiler.h"

#include <stdlib.h>
#include <string.h>

#define R "\xef\xbf\xbd"

TEST(test_copy)
{
	static const struct {
		const char *text, *copy;
	} cases[] = {
	    {"", ""},
	    {"main", "main"},
	    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
	     "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
	    {"\xff", R},
	    {"a\xc3", "a" R},
	    {"\xe2\x82", R R},
	    {"\xc0\xaf", R R},			/* "/" in too many bytes */
	    {"\xed\xa0\x80", R R R},		/* half of a surrogate pair */
	    {"\xf4\x90\x80\x80x", R R R R "x"}, /* after the last code point */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *copy = utf8_copy(cases[i].text);

		assert_string_equal(copy, cases[i].copy);
		free(copy);
	}
}

TEST(test_cut)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac";
	static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6};

	for (size_t most = 0; most < ARRAY_SIZE(whole); most++)
		assert_int_equal(utf8_cut(text, strlen(text), most), whole[most]);
}
