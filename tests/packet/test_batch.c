/* SPDX-License-Identifier: MIT */
/* Decoding in batches gives what decoding packet by packet gives: with any capacity, in any chunks,
 * and for damaged traces. */
#include "test.h"

#include "packet/batch.h"
#include "packet/record.h"
#include "stream.h"

#include <stdlib.h>

#define SIZE	   4096
#define GUARD_BYTE 0xa5

/* A copy of `n` bytes at the end of its memory, so that a sanitizer sees a read beyond it. */
static uint8_t *copy_of(const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	assert_non_null(copy);
	if (n)
		memcpy(copy, bytes, n);
	return copy;
}

/* The record that ptah_packet_decode() makes of the packet at `at`. */
static int plain(struct ptah_packet_record *record, const uint8_t *bytes, size_t at, size_t size,
		 unsigned *block)
{
	struct ptah_packet packet, unpacked;
	uint8_t a[PTAH_PACKET_MAX_SIZE], b[PTAH_PACKET_MAX_SIZE];
	int n = ptah_packet_decode(&packet, bytes + at, size - at, *block);

	if (n < 0)
		return n;
	*block = ptah_packet_block_state(&packet, *block);
	memset(record, 0, sizeof(*record));
	packet_pack(record, &packet);
	/* Nothing is lost in a record. */
	ptah_packet_unpack(&unpacked, record);
	assert_int_equal(unpacked.size, n);
	assert_int_equal(ptah_packet_encode(&packet, a, sizeof(a)), n);
	assert_int_equal(ptah_packet_encode(&unpacked, b, sizeof(b)), n);
	assert_memory_equal(a, b, (size_t)n);
	return n;
}

/*
 * Decodes `size` bytes, of which at first `chunk` are there and then `chunk`
 * more whenever more are asked for, and compares with plain decoding.
 */
static void check_way(const uint8_t *bytes, size_t size, size_t chunk, size_t capacity,
		      unsigned block, bool wide)
{
	struct ptah_packet_record *records = malloc((capacity + 1) * sizeof(*records)), expected;
	size_t have = chunk < size ? chunk : size, at = 0;
	unsigned expected_block = block;

	assert_non_null(records);
	memset(&records[capacity], GUARD_BYTE, sizeof(*records));
	for (;;) {
		uint8_t *copy = copy_of(bytes + at, have - at);
		struct ptah_packet_cursor cursor = {copy, copy + (have - at), block};
		int n = packet_decode_batch(&cursor, records, capacity, wide);
		size_t begin = at;

		assert_true(n <= (int)capacity);
		for (int i = 0; i < n; i++) {
			assert_true(plain(&expected, bytes, at, have, &expected_block) > 0);
			expected.offset = (uint32_t)(at - begin);
			assert_memory_equal(&records[i], &expected, sizeof(expected));
			at += expected.size;
		}
		if (n > 0) {
			assert_int_equal(cursor.next - copy, at - begin);
			assert_int_equal(cursor.block, expected_block);
			block = cursor.block;
		} else {
			assert_int_equal(n, plain(&expected, bytes, at, have, &expected_block));
			assert_ptr_equal(cursor.next, copy);
			if (n != PTAH_E_MORE)
				at++; /* malformed: continue at the next byte */
		}
		free(copy);
		if (n == PTAH_E_MORE && have == size)
			break;
		if (n == PTAH_E_MORE)
			have = size - have < chunk ? size : have + chunk;
		else if (at > have)
			break;
	}
	for (size_t i = 0; i < sizeof(*records); i++)
		assert_int_equal(((uint8_t *)&records[capacity])[i], GUARD_BYTE);
	free(records);
}

/* By the loop that every processor has, and by windows where this one has what they need. */
static void check(const uint8_t *bytes, size_t size, size_t chunk, size_t capacity, unsigned block)
{
	check_way(bytes, size, chunk, capacity, block, false);
	if (batch_can_wide())
		check_way(bytes, size, chunk, capacity, block, true);
}

static void check_all(const uint8_t *bytes, size_t size)
{
	static const size_t chunks[] = {1, 7, 64, SIZE}, capacities[] = {1, 7, 8, 9, 31, 1024};

	for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++)
		for (size_t k = 0; k < sizeof(capacities) / sizeof(*capacities); k++)
			check(bytes, size, chunks[i], capacities[k], PTAH_BLOCK_NONE);
	check(bytes, size, size, 64, PTAH_BLOCK_ITEMS_4);
	check(bytes, size, size, 64, PTAH_BLOCK_ITEMS_8);
}

/* Packets of every type, and mixes of those that the fast loop decodes. */
static const uint64_t mixes[] = {
    UINT64_MAX,
    UINT64_C(1) << PTAH_PACKET_TNT_8 | UINT64_C(1) << PTAH_PACKET_PAD,
    UINT64_C(1) << PTAH_PACKET_TNT_8 | UINT64_C(1) << PTAH_PACKET_TIP |
	UINT64_C(1) << PTAH_PACKET_TIP_PGE | UINT64_C(1) << PTAH_PACKET_TIP_PGD |
	UINT64_C(1) << PTAH_PACKET_FUP | UINT64_C(1) << PTAH_PACKET_PAD,
    UINT64_C(1) << PTAH_PACKET_CYC | UINT64_C(1) << PTAH_PACKET_MTC |
	UINT64_C(1) << PTAH_PACKET_TNT_8 | UINT64_C(1) << PTAH_PACKET_TIP,
};

TEST(streams)
{
	uint8_t bytes[SIZE];
	struct stream s = {.seed = 1, .bytes = bytes, .capacity = sizeof(bytes)};

	for (unsigned i = 0; i < 40; i++) {
		s.types = mixes[i % 4];
		stream_make(&s);
		check_all(bytes, s.size);
	}
}

TEST(damaged_streams)
{
	uint8_t bytes[SIZE];
	struct stream s = {.seed = 2, .bytes = bytes, .capacity = sizeof(bytes)};

	for (unsigned i = 0; i < 20; i++) {
		s.types = mixes[i % 4];
		stream_make(&s);
		for (unsigned k = 0; k < 64; k++)
			bytes[stream_random(&s) % s.size] = (uint8_t)stream_random(&s);
		check_all(bytes, s.size);
	}
}

TEST(random_bytes)
{
	uint8_t bytes[1024];
	struct stream s = {.seed = 3};

	for (unsigned i = 0; i < 20; i++) {
		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)stream_random(&s);
		check_all(bytes, sizeof(bytes));
	}
}

/* Each first byte with some second bytes, in the middle of what the fast loop decodes. */
TEST(every_first_byte)
{
	static const uint8_t seconds[] = {0x00, 0x01, 0x02, 0x03, 0x06, 0x21, 0xfe, 0xff};
	uint8_t bytes[160];

	for (unsigned at = 0; at < 80; at += at < 10 ? 1 : 7) {
		for (unsigned b = 0; b < 256; b++) {
			for (size_t k = 0; k < sizeof(seconds); k++) {
				memset(bytes, 0x06, sizeof(bytes));
				bytes[at] = (uint8_t)b;
				bytes[at + 1] = seconds[k];
				check(bytes, sizeof(bytes), sizeof(bytes), 128, PTAH_BLOCK_NONE);
			}
		}
	}
}

TEST(nothing)
{
	uint8_t byte = 0;
	struct ptah_packet_record record;
	struct ptah_packet_cursor cursor = {&byte, &byte, PTAH_BLOCK_NONE};

	assert_int_equal(ptah_packet_decode_batch(&cursor, &record, 1), PTAH_E_MORE);
	cursor.end = &byte + 1;
	assert_int_equal(ptah_packet_decode_batch(&cursor, &record, 0), 0);
	assert_int_equal(ptah_packet_decode_batch(&cursor, &record, 1), 1);
	assert_int_equal(record.type, PTAH_PACKET_PAD);
}
