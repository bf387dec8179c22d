/* SPDX-License-Identifier: MIT */
/*
 * The ring of records: they come in order, and those that found no room are
 * still reported as one.
 */
#include "engine/record.h"
#include "test.h"

#include <string.h>

TEST(in_order)
{
	struct ptah_capture_record memory[8], out[8];
	struct record_ring ring = {0};
	uint64_t pushed = 0, popped = 0;
	unsigned round;

	record_init(&ring, memory, 8);
	/* The counters are 32 bits wide and wrap. */
	ring.head = ring.tail = UINT32_MAX - 20;
	for (round = 0; round < 100; round++) {
		unsigned n = round * 7 % 8, i;
		size_t k;

		for (i = 0; i < n; i++) {
			struct ptah_capture_record record = {.position = pushed++, .flags = 1};

			record_push(&ring, &record);
		}
		k = record_pop(&ring, out, 3);
		k += record_pop(&ring, out + k, 8 - k);
		assert_int_equal(k, n);
		for (i = 0; i < n; i++) {
			assert_int_equal(out[i].position, popped++);
			assert_int_equal(out[i].flags, 1);
		}
	}
	assert_int_equal(record_pop(&ring, out, 8), 0);
}

TEST(nothing_is_forgotten)
{
	struct ptah_capture_record memory[4], out[8];
	struct record_ring ring = {0};
	unsigned i;

	record_init(&ring, memory, 4);
	for (i = 0; i < 7; i++) {
		struct ptah_capture_record record = {
		    .position = i, .flags = 1u << i, .lost = 10 * i};

		record_push(&ring, &record);
	}
	assert_int_equal(record_pop(&ring, out, 4), 4);
	for (i = 0; i < 4; i++)
		assert_int_equal(out[i].flags, 1u << i);
	assert_int_equal(ring.dropped, 3);
	record_push(&ring,
		    &(struct ptah_capture_record){.position = 7, .flags = 1u << 7, .lost = 1});
	assert_int_equal(record_pop(&ring, out, 8), 1);
	assert_int_equal(out[0].position, 7);
	assert_int_equal(out[0].flags, 0xf0 | PTAH_CAPTURED_DROPPED);
	assert_int_equal(out[0].lost, 40 + 50 + 60 + 1);
	assert_int_equal(record_pop(&ring, out, 8), 0);
	record_push(&ring, &(struct ptah_capture_record){.position = 8, .flags = 1});
	assert_int_equal(record_pop(&ring, out, 8), 1);
	assert_int_equal(out[0].flags, 1);

	/* And no further record comes. */
	for (i = 0; i < 6; i++)
		record_push(&ring, &(struct ptah_capture_record){.position = i, .flags = 1u << i});
	assert_int_equal(record_pop(&ring, out, 8), 5);
	assert_int_equal(out[4].position, 5);
	assert_int_equal(out[4].flags, 0x30 | PTAH_CAPTURED_DROPPED);
	assert_int_equal(record_pop(&ring, out, 8), 0);
}
