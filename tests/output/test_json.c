/* SPDX-License-Identifier: MIT */
/* JSON strings and documents, byte for byte as RFC 8259 and RFC 3629 specify. */
#include "../test.h"

#include "output/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/ptah-json-XXXXXX";
static struct out *out;

static void begin(struct json *json)
{
	struct ptah_message why;

	assert_int_equal(out_open(path, &out, &why), 0);
	json_init(json, out);
}

static const char *end(void)
{
	static char text[4096];
	struct ptah_message why;
	FILE *f;
	size_t n;

	assert_int_equal(out_close(out, &why), 0);
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	return text;
}

static void expect_text(const char *value, const char *expected)
{
	struct json json;

	begin(&json);
	json_string(&json, NULL, value);
	assert_string_equal(end(), expected);
}

TEST(what_json_reserves_is_escaped)
{
	expect_text("", "\"\"");
	expect_text("a\"b\\c/", "\"a\\\"b\\\\c/\"");
	expect_text("\n\t\x01\x1f", "\"\\u000a\\u0009\\u0001\\u001f\"");
	expect_text(NULL, "null");
}

TEST(utf8_passes_and_the_rest_is_replaced)
{
	/* The first and last character of each length. */
	expect_text("\xc2\xa0\xdf\xbf", "\"\xc2\xa0\xdf\xbf\"");
	expect_text("\xe0\xa0\x80\xef\xbf\xbf", "\"\xe0\xa0\x80\xef\xbf\xbf\"");
	expect_text("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"");
	/* A continuation byte alone, a cut sequence, an overlong one, a surrogate, beyond U+10FFFF.
	 */
	expect_text("\x80|", "\"\\ufffd|\"");
	expect_text("\xc3", "\"\\ufffd\"");
	expect_text("\xe2\x82", "\"\\ufffd\\ufffd\"");
	expect_text("\xc0\xaf", "\"\\ufffd\\ufffd\"");
	expect_text("\xe0\x9f\xbf", "\"\\ufffd\\ufffd\\ufffd\"");
	expect_text("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");
	expect_text("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
	expect_text("\xff", "\"\\ufffd\"");
}

/* RFC 8259 allows an escape for every character. Documents are also read on terminals. */
TEST(what_a_terminal_obeys_is_escaped)
{
	expect_text("\x7f", "\"\\u007f\"");
	expect_text("\xc2\x80\xc2\x9b\xc2\x9f", "\"\\u0080\\u009b\\u009f\"");
	expect_text("a\xe2\x80\xae", "\"a\\u202e\"");
	expect_text("\xd8\x9c\xe2\x81\xa6", "\"\\u061c\\u2066\"");
}

TEST(numbers_are_exact)
{
	struct json json;

	begin(&json);
	json_object(&json, NULL, true);
	json_number(&json, "most", UINT64_MAX);
	json_signed(&json, "least", INT64_MIN);
	json_address(&json, "ip", 0x7fff00401000);
	json_real(&json, "half", 0.5);
	json_seconds(&json, "s", 12000000345);
	json_real(&json, "none", NAN);
	json_real(&json, "endless", INFINITY);
	json_bool(&json, "yes", true);
	json_end_object(&json);
	assert_string_equal(
	    end(), "{\"most\": 18446744073709551615, "
		   "\"least\": -9223372036854775808, \"ip\": \"0x7fff00401000\", "
		   "\"half\": 0.500, \"s\": 12.000000345, \"none\": null, \"endless\": null, "
		   "\"yes\": true}");
}

TEST(lists_have_a_line_for_each_row)
{
	struct json json;

	begin(&json);
	json_object(&json, NULL, false);
	json_array(&json, "rows");
	for (unsigned i = 0; i < 2; i++) {
		json_object(&json, NULL, true);
		json_number(&json, "i", i);
		json_end_object(&json);
	}
	json_end_array(&json);
	json_array(&json, "none");
	json_end_array(&json);
	json_end_object(&json);
	json_finish(&json);
	assert_string_equal(end(), "{\n  \"rows\": [\n    {\"i\": 0},\n    {\"i\": 1}\n  ],\n"
				   "  \"none\": []\n}\n");
}

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 || close(fd) ? -1 : 0;
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

TEST_GROUP(make_file, remove_file)
