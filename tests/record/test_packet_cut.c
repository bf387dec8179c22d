/* SPDX-License-Identifier: MIT */
/* A stream in pieces of any size is cut between two packets, and no bytes are held back for long.
 */
#include "test.h"

#include "record/packet_cut.h"

#include <stdlib.h>

/* PSB+, TNT, TIP, CYC and long packets: where each begins is known from how they are built. */
#define COUNT 4000

static uint8_t trace[COUNT * PTAH_PACKET_MAX_SIZE];
static bool is_begin[sizeof(trace) + 1];
static size_t size;
static uint64_t seed = 1;

static size_t below(size_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (size_t)(seed >> 33) % n;
}

static void build(size_t psb_every)
{
	/* SDM "Packet Definitions": PSB, TSC, TNT-8, TIP with 6 bytes, CYC of two bytes, PTW of 8.
	 */
	static const struct {
		uint8_t size, bytes[16];
	} packets[] = {
	    {16, {2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82}},
	    {8, {0x19, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x00}},
	    {1, {0x1a}},
	    {7, {0x6d, 0x02, 0x82, 0x02, 0x82, 0x02, 0x02}},
	    {2, {0xff, 0x02}},
	    {10, {0x02, 0x32, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x32}},
	};

	size = 0;
	memset(is_begin, 0, sizeof(is_begin));
	for (size_t i = 0; i < COUNT; i++) {
		size_t k = i % psb_every ? 1 + below(5) : 0;

		is_begin[size] = true;
		memcpy(trace + size, packets[k].bytes, packets[k].size);
		size += packets[k].size;
	}
	is_begin[size] = true;
}

/* Feeds the bytes from `from` on in random pieces, of which each call gets several. */
static void feed(size_t from, size_t most)
{
	struct packet_cut cut = {0};
	size_t at = from, synced = 0;

	while (at < size) {
		struct iovec parts[3];
		size_t rest;

		for (size_t i = 0; i < 3; i++) {
			size_t n = below(most);

			n = n < size - at ? n : size - at;
			parts[i] = (struct iovec){trace + at, n};
			at += n;
		}
		rest = packet_cut(&cut, parts, 3);
		assert_true(rest < PTAH_PACKET_MAX_SIZE && rest <= at - from);
		assert_memory_equal(cut.rest, trace + at - rest, rest);
		/* Once there was a PSB, the cut is between two packets. */
		synced += cut.synced;
		if (cut.synced)
			assert_true(is_begin[at - rest]);
	}
	assert_true(synced);
}

TEST(cuts_between_packets)
{
	for (unsigned i = 0; i < 60; i++) {
		build(i % 2 ? 300 : 1500);
		feed(0, 2 + i);
		feed(below(size / 4), 2 + 37 * i);
		feed(below(size / 4), 2 + 1000 * i);
	}
}

/* What is no packet is not held back, and the next PSB is found. */
TEST(what_is_no_packet_passes)
{
	static const uint8_t bad[] = {0x02, 0x00, 0x02, 0x00};
	struct packet_cut cut = {0};
	struct iovec part = {trace, 0};

	build(300);
	part.iov_len = 16;
	assert_int_equal(packet_cut(&cut, &part, 1), 0);
	assert_true(cut.synced);
	part = (struct iovec){(void *)(uintptr_t)bad, sizeof(bad)};
	assert_true(packet_cut(&cut, &part, 1) < sizeof(bad) + 1);
	assert_false(cut.synced);
	part = (struct iovec){trace, 9}; /* a part of a PSB may be one */
	assert_int_equal(packet_cut(&cut, &part, 1), sizeof(bad) - 1 + 9);
	part = (struct iovec){trace + 9, 7};
	assert_int_equal(packet_cut(&cut, &part, 1), 0);
	assert_true(cut.synced);
}

/* A TIP whose last bytes look like the beginning of the PSB after it. */
TEST(payload_before_a_psb)
{
	static const uint8_t bytes[] = {0x6d, 2, 0x82, 2,    0x82, 2,	 0x82, 2,    0x82, 2,
					0x82, 2, 0x82, 2,    0x82, 2,	 0x82, 2,    0x82, 2,
					0x82, 2, 0x82, 0x02, 0x23, 0x6d, 0x02, 0x82, 0x02};
	const struct iovec part = {(void *)(uintptr_t)bytes, sizeof(bytes)};
	struct packet_cut cut = {0};

	assert_int_equal(packet_cut(&cut, &part, 1), 4);
	assert_true(cut.synced);
}
