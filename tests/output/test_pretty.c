/* SPDX-License-Identifier: MIT */
/* Text for people: numbers with units, widths of characters, names that are cut and cleaned. */
#include "test.h"

#include "output/pretty.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Runs `write` with an output of this look, and returns what it wrote. */
static const char *written(const struct out_look *look,
			   void (*write)(struct out *out, const char *name, unsigned columns),
			   const char *name, unsigned columns)
{
	static char text[512];
	char path[] = "/tmp/ptah-pretty-XXXXXX";
	struct ptah_message why;
	struct out *out;
	int fd = mkstemp(path);
	ssize_t n;

	assert_true(fd >= 0);
	assert_int_equal(out_open(path, &out, &why), 0);
	out_set_look(out, look);
	write(out, name, columns);
	assert_int_equal(out_close(out, &why), 0);
	close(fd);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	n = (ssize_t)fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	unlink(path);
	text[n] = '\0';
	return text;
}

static const struct out_look plain = {0}, coloured = {.color = true, .columns = 80};

static void put_name(struct out *out, const char *name, unsigned columns)
{
	pretty_name(out, name, columns);
}

static void put_heat(struct out *out, const char *name, unsigned columns)
{
	(void)name;
	pretty_percent(out, columns, 10000);
}

TEST(test_numbers)
{
	char text[PRETTY_NUMBER];

	assert_string_equal(pretty_number(0, text), "0");
	assert_string_equal(pretty_number(999, text), "999");
	assert_string_equal(pretty_number(1000, text), "1,000");
	assert_string_equal(pretty_number(UINT64_MAX, text), "18,446,744,073,709,551,615");
	assert_string_equal(pretty_time(0, text), "0 ns");
	assert_string_equal(pretty_time(999, text), "999 ns");
	assert_string_equal(pretty_time(1234, text), "1.23 us");
	assert_string_equal(pretty_time(12345, text), "12.3 us");
	assert_string_equal(pretty_time(9996, text), "10.0 us");
	assert_string_equal(pretty_time(99960, text), "100 us");
	assert_string_equal(pretty_time(999600, text), "1.00 ms");
	assert_string_equal(pretty_time(123456789, text), "123 ms");
	assert_string_equal(pretty_time(UINT64_C(1234567890123), text), "1235 s");
	assert_string_equal(pretty_bytes(12300000, text), "12.3 MB");
	assert_string_equal(pretty_bytes(1, text), "1 B");
	assert_string_equal(pretty_bytes(UINT64_MAX, text), "18446744 TB");
}

TEST(test_columns)
{
	assert_int_equal(pretty_columns(""), 0);
	assert_int_equal(pretty_columns("main"), 4);
	assert_int_equal(pretty_columns("gr\xc3\xbc\xc3\x9f"), 4);	 /* two bytes, one column */
	assert_int_equal(pretty_columns("gru\xcc\x88n"), 4);		 /* a combining diaeresis */
	assert_int_equal(pretty_columns("\xe6\xbc\xa2\xe5\xad\x97"), 4); /* two wide characters */
	assert_int_equal(pretty_columns("a\033b\x9b"), 4);		 /* what becomes "?" */
}

TEST(test_cut)
{
	assert_string_equal(written(&plain, put_name, "abcdefghij", 0), "abcdefghij");
	assert_string_equal(written(&plain, put_name, "abcdefghij", 10), "abcdefghij");
	assert_string_equal(written(&plain, put_name, "abcdefghijk", 10), "abc...hijk");
	/* A wide character that does not fit whole is left out. */
	assert_string_equal(written(&plain, put_name,
				    "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2",
				    8),
			    "\xe6\xbc\xa2...\xe6\xbc\xa2");
}

/* C0, DEL, C1 and marks that change the direction of text; valid UTF-8 stays. */
TEST(test_clean)
{
	assert_string_equal(written(&plain, put_name, "a\033[31mb\x7f\n", 0), "a?[31mb??");
	assert_string_equal(written(&plain, put_name,
				    "a\xc2\x9b"
				    "31mb",
				    0),
			    "a?31mb");
	assert_string_equal(written(&plain, put_name,
				    "a\xe2\x80\xae"
				    "b",
				    0),
			    "a?b");
	assert_string_equal(written(&plain, put_name, "\xe6\xbc\xa2", 0), "\xe6\xbc\xa2");
	assert_string_equal(written(&plain, put_name, "0123456789\033\033\0330123456789", 16),
			    "012345...3456789");
	assert_string_equal(written(&plain, put_name,
				    "\033"
				    "123456789\033123456789\033",
				    16),
			    "?12345...456789?");
}

/* The limits of perf (MIN_RED 5.0, MIN_GREEN 0.5), and nothing without colours. */
TEST(test_heat)
{
	assert_string_equal(written(&coloured, put_heat, "", 500), "\033[1;31m  5.00%\033[m");
	assert_string_equal(written(&coloured, put_heat, "", 50), "\033[32m  0.50%\033[m");
	assert_string_equal(written(&coloured, put_heat, "", 49), "  0.49%");
	assert_string_equal(written(&plain, put_heat, "", 500), "  5.00%");
}
