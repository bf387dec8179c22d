/* SPDX-License-Identifier: MIT */
/* Which characters must not reach a terminal: ECMA-48's controls, and Unicode's Bidi_Control. */
#include "../test.h"

#include "base/text.h"

#include <stdio.h>

static void expect_clean(const char *text, const char *expected)
{
	char copy[64];

	snprintf(copy, sizeof(copy), "%s", text);
	assert_int_equal(text_is_clean(text), !strcmp(text, expected));
	assert_int_equal(text_clean(copy), strcmp(text, expected) != 0);
	assert_string_equal(copy, expected);
}

TEST(ordinary_text_is_kept)
{
	expect_clean("", "");
	expect_clean("main+0x10 (~a!)", "main+0x10 (~a!)");
	/* The last byte of U+011B is 0x9b; Hebrew, Arabic and emoji need no marks. */
	expect_clean("\xc4\x9b", "\xc4\x9b");
	expect_clean("\xd7\xa9\xd8\xb4\xf0\x9f\x98\x80", "\xd7\xa9\xd8\xb4\xf0\x9f\x98\x80");
	expect_clean("\xc2\xa0\xef\xbf\xbf\xf4\x8f\xbf\xbf",
		     "\xc2\xa0\xef\xbf\xbf\xf4\x8f\xbf\xbf");
}

TEST(controls_are_replaced)
{
	expect_clean("a\033[2Jb\t\n\x7f", "a?[2Jb???");
	/* C1, as UTF-8 and as bytes of 8-bit text: U+009B is ESC [, U+009D is ESC ]. */
	expect_clean("\xc2\x9b"
		     "31m\xc2\x80\xc2\x9d\xc2\x9f",
		     "?31m???");
	expect_clean("a\x9b"
		     "31m",
		     "a?31m");
	expect_clean("\xff\xc4", "??");
	/* An overlong ESC, a surrogate, beyond Unicode */
	expect_clean("\xc0\x9b", "??");
	expect_clean("\xed\xa0\x80", "???");
	expect_clean("\xf4\x90\x80\x80", "????");
}

/* All characters with the property Bidi_Control, and the separators of lines and paragraphs. */
TEST(marks_of_direction_are_replaced)
{
	static const char *const marks[] = {
	    "\xd8\x9c",	    "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9",
	    "\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae",
	    "\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9"};
	char text[16];

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		snprintf(text, sizeof(text), "a%sb", marks[i]);
		expect_clean(text, "a?b");
	}
	expect_clean("\xe2\x80\xaf\xe2\x80\x8d", "\xe2\x80\xaf\xe2\x80\x8d");
}
