/* SPDX-License-Identifier: MIT */
/* Output that is kept in memory: the bytes that were written, whatever their number. */
#include "../test.h"

#include "output/out.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

TEST(what_was_written_is_returned)
{
	struct out *out;
	char *text;
	size_t n;

	assert_int_equal(out_open_memory(&out), 0);
	out_text(out, "count ");
	out_decimal(out, UINT64_MAX);
	out_flush(out);
	out_bytes(out, "\0end", 4);
	text = out_take(out, &n);
	assert_non_null(text);
	assert_int_equal(n, 30);
	assert_memory_equal(text, "count 18446744073709551615\0end", n + 1);
	free(text);
}

TEST(nothing_written_is_an_empty_text)
{
	struct out *out;
	char *text;
	size_t n = 1;

	assert_int_equal(out_open_memory(&out), 0);
	text = out_take(out, &n);
	assert_non_null(text);
	assert_int_equal(n, 0);
	assert_string_equal(text, "");
	free(text);
}

/* More than the buffer holds, in pieces that do not divide it. */
TEST(megabytes_keep_their_order)
{
	enum {
		PIECE = 1009,
		PIECES = 1200
	};
	char piece[PIECE], *text;
	struct out *out;
	size_t n;

	assert_int_equal(out_open_memory(&out), 0);
	for (int i = 0; i < PIECES; i++) {
		memset(piece, 'a' + i % 26, sizeof(piece));
		out_bytes(out, piece, sizeof(piece));
	}
	text = out_take(out, &n);
	assert_non_null(text);
	assert_int_equal(n, (size_t)PIECE * PIECES);
	for (int i = 0; i < PIECES; i++) {
		memset(piece, 'a' + i % 26, sizeof(piece));
		assert_memory_equal(text + (size_t)i * PIECE, piece, sizeof(piece));
	}
	free(text);
}

TEST(a_caller_writes_into_the_room)
{
	struct out *out;
	const char *text;
	char *at;
	size_t n;

	assert_int_equal(out_open_memory(&out), 0);
	for (int i = 0; i < 5; i++) { /* five times half a buffer: it is emptied in between */
		at = out_room(out, OUT_ROOM);
		memset(at, 'a' + i, OUT_ROOM);
		out_advance(out, at + OUT_ROOM - 1);
		out_char(out, '\n');
	}
	text = out_written(out, &n);
	assert_int_equal(n, 5 * (size_t)OUT_ROOM);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(text[i * (size_t)OUT_ROOM], 'a' + i);
		assert_int_equal(text[(i + 1) * (size_t)OUT_ROOM - 1], '\n');
	}
	out_clear(out);
	out_text(out, "new");
	text = out_written(out, &n);
	assert_int_equal(n, 3);
	assert_memory_equal(text, "new", 3);
	out_abort(out);
}

TEST(seconds_have_nine_decimals)
{
	static const struct {
		uint64_t nanoseconds;
		const char *text;
	} cases[] = {
	    {0, "0.000000000"},
	    {1, "0.000000001"},
	    {12000000345, "12.000000345"},
	    {UINT64_MAX, "18446744073.709551615"},
	};
	char text[32];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		*text_seconds(text, cases[i].nanoseconds) = '\0';
		assert_string_equal(text, cases[i].text);
	}
}

TEST(addresses_have_sixteen_digits)
{
	static const uint64_t values[] = {
	    0, 1, 0x9a, 0xa9f0, 0x0123456789abcdef, 0xfedcba9876543210, UINT64_MAX};
	char text[17] = "", wanted[17];

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		assert_ptr_equal(text_hex(text, values[i]), text + 16);
		snprintf(wanted, sizeof(wanted), "%016" PRIx64, values[i]);
		assert_string_equal(text, wanted);
	}
}

TEST(nothing_is_left_after_an_abort)
{
	struct out *out;

	assert_int_equal(out_open_memory(&out), 0);
	out_text(out, "text");
	out_flush(out);
	out_text(out, "more");
	out_abort(out); /* LeakSanitizer sees what is not freed */
}
