/* SPDX-License-Identifier: MIT */
/* Messages byte by byte: most are the examples of "Encoding" in the documentation of protocol
 * buffers. */
#include "export/protobuf.h"

#include "test.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

static void expect(struct protobuf *p, const char *bytes, size_t n)
{
	assert_false(p->failed);
	assert_int_equal(p->n, n);
	assert_memory_equal(p->bytes, bytes, n);
	p->n = 0;
}

TEST(test_fields)
{
	struct protobuf p = {0};
	size_t inner;

	protobuf_number(&p, 1, 150);
	expect(&p, "\x08\x96\x01", 3);
	protobuf_text(&p, 2, "testing");
	expect(&p, "\x12\x07testing", 9);
	protobuf_text(&p, 2, "");
	expect(&p, "\x12\x00", 2);
	inner = protobuf_begin(&p, 3);
	protobuf_number(&p, 1, 150);
	protobuf_end(&p, inner);
	expect(&p, "\x1a\x03\x08\x96\x01", 5);
	inner = protobuf_begin(&p, 6);
	protobuf_packed(&p, 3);
	protobuf_packed(&p, 270);
	protobuf_packed(&p, 86942);
	protobuf_end(&p, inner);
	expect(&p, "\x32\x06\x03\x8e\x02\x9e\xa7\x05", 8);
	/* -2 as int64 */
	protobuf_number(&p, 1, (uint64_t)-2);
	expect(&p, "\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
	protobuf_number(&p, 16, 0);
	expect(&p, "\x80\x01\x00", 3);
	protobuf_fixed64(&p, 1, UINT64_C(0x0102030405060708));
	expect(&p, "\x09\x08\x07\x06\x05\x04\x03\x02\x01", 9);
	protobuf_free(&p);
}

/* The lengths of both messages need more than the one byte that was kept for them. */
TEST(test_long_messages_in_messages)
{
	static char text[20000], bytes[20020];
	struct protobuf p = {0};
	size_t outer, inner;

	memset(text, 'x', sizeof(text) - 1);
	outer = protobuf_begin(&p, 1);
	inner = protobuf_begin(&p, 2);
	protobuf_text(&p, 3, text);
	protobuf_end(&p, inner);
	protobuf_end(&p, outer);
	/* 19999 = 1 * 16384 + 28 * 128 + 31; each level adds 4 bytes */
	memcpy(bytes, "\x0a\xa7\x9c\x01\x12\xa3\x9c\x01\x1a\x9f\x9c\x01", 12);
	memcpy(bytes + 12, text, 19999);
	expect(&p, bytes, 12 + 19999);
	protobuf_free(&p);
}

TEST(test_flush)
{
	struct protobuf p = {0};
	struct out *out;
	char *bytes;
	size_t n;

	assert_int_equal(out_open_memory(&out), 0);
	protobuf_number(&p, 1, 1);
	assert_int_equal(protobuf_flush(&p, out), 0);
	assert_int_equal(protobuf_flush(&p, out), 0);
	protobuf_number(&p, 1, 2);
	assert_int_equal(protobuf_flush(&p, out), 0);
	bytes = out_take(out, &n);
	assert_non_null(bytes);
	assert_int_equal(n, 4);
	assert_memory_equal(bytes, "\x08\x01\x08\x02", 4);
	free(bytes);
	p.failed = true;
	assert_int_equal(protobuf_flush(&p, out), PTAH_E_NOMEM);
	protobuf_free(&p);
}
