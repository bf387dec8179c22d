/* SPDX-License-Identifier: MIT */
/*
 * What is packed into compressed records comes out again as whole records, wherever it was cut, and
 * what cannot be such a record is refused.
 */
#include "perfdata/build.h"
#include "perfdata/relayout.h"

#include "perfdata/unpacker.h"

#include <ptah/base.h>

/* A record of an unknown type of the kernel's; its bytes depend on n. */
static void add_record(struct perfdata_buffer *b, size_t size, unsigned n)
{
	layout_record(b, 60, size - 8);
	for (size_t i = 8; i < size; i++)
		perfdata_put(b, &(uint8_t){(uint8_t)(n + i / 7)}, 1);
}

/* Unpacks one compressed record, and appends what comes out. */
static int unpack(struct perfdata_unpacker *u, const uint8_t *record, size_t size,
		  struct perfdata_buffer *out)
{
	const uint8_t *records;
	size_t n;
	int status = perfdata_unpacker_begin(u, record, size);

	while (status >= 0 && (status = perfdata_unpacker_next(u, &records, &n)) > 0) {
		size_t at = 0;

		assert_true(n > 0);
		while (at < n)
			at += load_le16(records + at + 6);
		assert_int_equal(at, n); /* whole records */
		perfdata_put(out, records, n);
	}
	return status;
}

static int unpack_all(struct perfdata_unpacker *u, const struct perfdata_buffer *packed,
		      struct perfdata_buffer *out)
{
	int status = 0;

	for (size_t at = 0; at < packed->size && status >= 0;
	     at += load_le16(packed->bytes + at + 6)) {
		if (load_le32(packed->bytes + at) == PERFDATA_COMPRESSED2)
			assert_int_equal(load_le16(packed->bytes + at + 6) % 8, 0);
		status = unpack(u, packed->bytes + at, load_le16(packed->bytes + at + 6), out);
	}
	return status;
}

/*
 * A stream with a window that has room for all that is packed here, and no more: AddressSanitizer
 * takes long for megabytes.
 */
static ZSTD_CStream *new_stream(void)
{
	ZSTD_CStream *stream = ZSTD_createCStream();

	assert_non_null(stream);
	assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(stream, ZSTD_c_windowLog, 19)));
	assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(stream, ZSTD_c_compressionLevel, 3)));
	return stream;
}

/* Packs `in` in pieces: the first has `first` bytes, those that follow `piece`. */
static void pack(struct perfdata_buffer *packed, const struct perfdata_buffer *in, size_t first,
		 size_t piece, uint32_t type)
{
	struct layout_packer p = {packed, new_stream(), piece, type, {0}};

	perfdata_put(&p.waiting, in->bytes, in->size);
	layout_pack_piece(&p, first);
	while (p.waiting.size)
		layout_pack_piece(&p, p.waiting.size < piece ? p.waiting.size : piece);
	perfdata_buffer_free(&p.waiting);
	ZSTD_freeCStream(p.stream);
}

static void check_cut(const struct perfdata_buffer *in, size_t first, size_t piece, uint32_t type)
{
	struct perfdata_unpacker *u = perfdata_unpacker_new(0);
	struct perfdata_buffer packed = {0}, out = {0};

	assert_non_null(u);
	pack(&packed, in, first, piece, type);
	assert_int_equal(unpack_all(u, &packed, &out), 0);
	assert_false(perfdata_unpacker_is_cut(u));
	assert_int_equal(out.size, in->size);
	assert_memory_equal(out.bytes, in->bytes, in->size);
	perfdata_buffer_free(&packed);
	perfdata_buffer_free(&out);
	perfdata_unpacker_free(u);
}

TEST(records_cut_at_every_byte)
{
	static const size_t sizes[] = {8, 9, 16, 257, 8};
	struct perfdata_buffer in = {0};

	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++)
		add_record(&in, sizes[i], i);
	for (size_t n = 0; n < in.size; n++) {
		check_cut(&in, n, in.size, PERFDATA_COMPRESSED);
		check_cut(&in, n, in.size, PERFDATA_COMPRESSED2);
	}
	for (size_t piece = 1; piece < 20; piece++) {
		check_cut(&in, 0, piece, PERFDATA_COMPRESSED);
		check_cut(&in, 0, piece, PERFDATA_COMPRESSED2);
	}
	perfdata_buffer_free(&in);
}

/* Records as large as can be, in pieces of more than one step of zstd, cut just before their end.
 */
TEST(large_records)
{
	struct perfdata_buffer in = {0};

	for (unsigned i = 0; i < 8; i++)
		add_record(&in, UINT16_MAX, i);
	check_cut(&in, UINT16_MAX - 1, 1000, PERFDATA_COMPRESSED);
	check_cut(&in, UINT16_MAX - 1, UINT16_MAX, PERFDATA_COMPRESSED2);
	check_cut(&in, in.size, 1, PERFDATA_COMPRESSED);
	check_cut(&in, in.size - 1, 1, PERFDATA_COMPRESSED2);
	perfdata_buffer_free(&in);
}

/* A record around these bytes, which says in the newer form that it has `size` of them. */
static void wrap(struct perfdata_buffer *b, uint32_t type, uint64_t size, const void *bytes,
		 size_t n)
{
	b->size = 0;
	layout_record(b, type, n + (type == PERFDATA_COMPRESSED2 ? 8 : 0));
	if (type == PERFDATA_COMPRESSED2)
		perfdata_put64(b, size);
	perfdata_put(b, bytes, n);
}

/* A record around these bytes, packed. */
static void wrap_packed(struct perfdata_buffer *b, const void *bytes, size_t n)
{
	uint8_t *packed = malloc(UINT16_MAX);
	const size_t size = ZSTD_compress(packed, UINT16_MAX - 8, bytes, n, 3);

	assert_false(ZSTD_isError(size));
	wrap(b, PERFDATA_COMPRESSED, 0, packed, size);
	free(packed);
}

/* Unpacks a record. If that fails, *fault says why. */
static int try(uint32_t most, const struct perfdata_buffer *b, struct perfdata_buffer *out,
	       enum perfdata_unpack_fault *fault)
{
	struct perfdata_unpacker *u = perfdata_unpacker_new(most);
	int status;

	assert_non_null(u);
	out->size = 0;
	status = unpack(u, b->bytes, b->size, out);
	if (status < 0)
		*fault = perfdata_unpacker_fault(u);
	perfdata_unpacker_free(u);
	return status;
}

static void assert_fault(uint32_t most, const struct perfdata_buffer *b,
			 enum perfdata_unpack_fault expected)
{
	struct perfdata_buffer out = {0};
	enum perfdata_unpack_fault fault;

	assert_int_equal(try(most, b, &out, &fault), PTAH_E_BAD_FILE);
	assert_int_equal(fault, expected);
	perfdata_buffer_free(&out);
}

/* The size in a record of the newer form is at most what follows it, and what pads it is not read.
 */
TEST(sizes_without_padding)
{
	static const uint64_t sizes[] = {1 << 16,    1ull << 32,     INT64_MAX,
					 1ull << 63, UINT64_MAX - 7, UINT64_MAX};
	struct perfdata_buffer in = {0}, b = {0}, out = {0};
	enum perfdata_unpack_fault fault;
	uint8_t packed[64];
	size_t n;

	add_record(&in, 16, 0);
	n = ZSTD_compress(packed, sizeof(packed), in.bytes, in.size, 3);
	assert_false(ZSTD_isError(n));
	memset(packed + n, 0xff, sizeof(packed) - n);
	for (size_t padding = 0; padding < 8; padding++) {
		wrap(&b, PERFDATA_COMPRESSED2, n, packed, n + padding);
		assert_int_equal(try(0, &b, &out, &fault), 0);
		assert_int_equal(out.size, in.size);
		assert_memory_equal(out.bytes, in.bytes, in.size);
	}
	for (size_t more = 1; more < 20; more++) {
		wrap(&b, PERFDATA_COMPRESSED2, n + more, packed, n);
		assert_fault(0, &b, PERFDATA_UNPACK_SHORT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		wrap(&b, PERFDATA_COMPRESSED2, sizes[i], packed, n);
		assert_fault(0, &b, PERFDATA_UNPACK_SHORT);
	}
	for (size_t room = 0; room < 8; room++) { /* not even room for the size */
		wrap(&b, PERFDATA_COMPRESSED, 0, packed, room);
		store_le32(b.bytes, PERFDATA_COMPRESSED2);
		assert_fault(0, &b, PERFDATA_UNPACK_SHORT);
	}
	perfdata_buffer_free(&in);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&out);
}

TEST(records_without_data)
{
	struct perfdata_buffer b = {0}, out = {0};
	enum perfdata_unpack_fault fault;

	wrap(&b, PERFDATA_COMPRESSED, 0, NULL, 0);
	assert_int_equal(try(0, &b, &out, &fault), 0);
	assert_int_equal(out.size, 0);
	wrap(&b, PERFDATA_COMPRESSED2, 0, NULL, 0);
	assert_int_equal(try(0, &b, &out, &fault), 0);
	assert_int_equal(out.size, 0);
	perfdata_buffer_free(&b);
	perfdata_buffer_free(&out);
}

TEST(what_zstd_does_not_understand)
{
	struct perfdata_buffer b = {0};

	wrap(&b, PERFDATA_COMPRESSED, 0, "nothing", 7);
	assert_fault(0, &b, PERFDATA_UNPACK_DAMAGED);
	wrap(&b, PERFDATA_COMPRESSED2, 7, "nothing\0", 8);
	assert_fault(0, &b, PERFDATA_UNPACK_DAMAGED);
	perfdata_buffer_free(&b);
}

/* What precedes a record smaller than its header comes out, and then the fault. */
TEST(records_smaller_than_their_header)
{
	for (uint8_t size = 0; size < 8; size++) {
		struct perfdata_buffer in = {0}, b = {0}, out = {0};
		enum perfdata_unpack_fault fault;
		const uint8_t small[8] = {60, 0, 0, 0, 0, 0, size};

		wrap_packed(&b, small, sizeof(small));
		assert_int_equal(try(0, &b, &out, &fault), PTAH_E_BAD_FILE);
		assert_int_equal(fault, PERFDATA_UNPACK_NO_RECORDS);
		assert_int_equal(out.size, 0);
		add_record(&in, 24, size);
		perfdata_put(&in, small, sizeof(small));
		wrap_packed(&b, in.bytes, in.size);
		assert_int_equal(try(0, &b, &out, &fault), PTAH_E_BAD_FILE);
		assert_int_equal(fault, PERFDATA_UNPACK_NO_RECORDS);
		assert_int_equal(out.size, 24);
		assert_memory_equal(out.bytes, in.bytes, 24);
		perfdata_buffer_free(&in);
		perfdata_buffer_free(&b);
		perfdata_buffer_free(&out);
	}
}

/* Each compressed record may become `most` bytes large, and not one more. */
TEST(a_limit_for_each_record)
{
	struct perfdata_unpacker *u = perfdata_unpacker_new(256);
	struct perfdata_buffer in = {0}, packed = {0}, out = {0};

	assert_non_null(u);
	for (unsigned i = 0; i < 4; i++)
		add_record(&in, 128, i);
	pack(&packed, &in, 256, 256, PERFDATA_COMPRESSED);
	assert_int_equal(unpack_all(u, &packed, &out), 0);
	assert_int_equal(out.size, 512);
	packed.size = out.size = 0;
	perfdata_unpacker_restart(u);
	pack(&packed, &in, 255, 257, PERFDATA_COMPRESSED);
	assert_int_equal(unpack_all(u, &packed, &out), PTAH_E_BAD_FILE);
	assert_int_equal(perfdata_unpacker_fault(u), PERFDATA_UNPACK_TOO_BIG);
	assert_int_equal(out.size, 128); /* of the first piece, 255 bytes */
	perfdata_unpacker_free(u);
	perfdata_buffer_free(&in);
	perfdata_buffer_free(&packed);
	perfdata_buffer_free(&out);
}

/* Without such a limit, all records together may become 64 MB, and 1024 times their size. */
TEST(a_limit_for_all_records)
{
	const size_t n = 16 * (size_t)(4 << 10);
	struct perfdata_unpacker *u = perfdata_unpacker_new(0);
	struct perfdata_buffer b = {0};
	uint8_t *same = calloc(16, n), *packed = malloc(60000);
	uint64_t in = 0, out = 0;
	size_t size;
	int status = 0;

	assert_non_null(u);
	/* A MB of records of 32 KB that are zeros but for their headers. */
	for (size_t at = 0; at < 16 * n; at += 32768) {
		store_le32(same + at, 60);
		store_le16(same + at + 6, 32768);
	}
	size = ZSTD_compress(packed, 60000, same, 16 * n, 19);
	assert_true(size * 4096 < 16 * n);
	wrap(&b, PERFDATA_COMPRESSED, 0, packed, size);
	while (status >= 0 && out < UINT64_C(128) << 20) {
		const uint8_t *records;
		size_t more;

		in += size;
		status = perfdata_unpacker_begin(u, b.bytes, b.size);
		while (status >= 0 && (status = perfdata_unpacker_next(u, &records, &more)) > 0)
			out += more;
	}
	assert_int_equal(status, PTAH_E_BAD_FILE);
	assert_int_equal(perfdata_unpacker_fault(u), PERFDATA_UNPACK_TOO_BIG);
	assert_true(out > UINT64_C(64) << 20);
	assert_true(out <= (UINT64_C(64) << 20) + 1024 * in);
	perfdata_unpacker_free(u);
	perfdata_buffer_free(&b);
	free(same);
	free(packed);
}

/* The last record is not complete, or cannot be one; after a restart, nothing of it is left. */
TEST(a_stream_that_ends_inside_a_record)
{
	struct perfdata_unpacker *u = perfdata_unpacker_new(0);
	struct perfdata_buffer in = {0}, packed = {0}, out = {0};
	static const uint8_t small[8] = {60, 0, 0, 0, 0, 0, 7};

	assert_false(perfdata_unpacker_is_cut(NULL));
	assert_non_null(u);
	assert_false(perfdata_unpacker_is_cut(u));
	add_record(&in, 40, 0);
	add_record(&in, 48, 1);
	pack(&packed, &in, 87, 87, PERFDATA_COMPRESSED);
	packed.size = load_le16(packed.bytes + 6); /* without the last byte */
	assert_int_equal(unpack_all(u, &packed, &out), 0);
	assert_int_equal(out.size, 40);
	assert_true(perfdata_unpacker_is_cut(u));
	perfdata_unpacker_restart(u);
	assert_false(perfdata_unpacker_is_cut(u));
	wrap_packed(&packed, small, sizeof(small));
	assert_int_equal(unpack_all(u, &packed, &out), PTAH_E_BAD_FILE);
	perfdata_unpacker_restart(u);
	packed.size = out.size = 0;
	pack(&packed, &in, 41, 50, PERFDATA_COMPRESSED2);
	assert_int_equal(unpack_all(u, &packed, &out), 0);
	assert_int_equal(out.size, in.size);
	assert_memory_equal(out.bytes, in.bytes, in.size);
	assert_false(perfdata_unpacker_is_cut(u));
	perfdata_unpacker_free(u);
	perfdata_unpacker_free(NULL);
	perfdata_buffer_free(&in);
	perfdata_buffer_free(&packed);
	perfdata_buffer_free(&out);
}
