/* SPDX-License-Identifier: MIT */
/*
 * The entries of packets.def against the reference decoder, which is written from the SDM
 * alone. Also each packet's example, and text and bytes of random packets, which must agree.
 */
#include "test.h"

#include "reference/decoder_parts.h"
#include "stream.h"

#include <stdio.h>

/* Both decoders read the same packet at p. */
static void check_read(const uint8_t *p, size_t n, unsigned block)
{
	static const uint8_t item_sizes[] = {0, 4, 8};
	struct ptah_packet packet;
	struct packet expected;
	int size = ptah_packet_decode(&packet, p, n, block);
	int status = packet_read(&expected, p, n, item_sizes[block]);

	if (status < 0) {
		assert_int_equal(size, status);
		return;
	}
	assert_int_equal(size, expected.size);
	assert_int_equal(packet.type, expected.type);
	/* A packet that is cut does not decode. */
	for (size_t i = 0; i < expected.size; i++)
		assert_true(ptah_packet_decode(&packet, p, i, block) < 0);
}

static unsigned block_of(const struct ptah_packet *packet)
{
	if (packet->type != PTAH_PACKET_BIP)
		return PTAH_BLOCK_NONE;
	return packet->u.bip.item_size == 4 ? PTAH_BLOCK_ITEMS_4 : PTAH_BLOCK_ITEMS_8;
}

/* Random payloads of every type. */
TEST(every_type)
{
	struct stream s = {.seed = 1};

	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++) {
		for (unsigned i = 0; i < 2000; i++) {
			uint8_t bytes[PTAH_PACKET_MAX_SIZE], again[PTAH_PACKET_MAX_SIZE];
			struct ptah_packet_parser parser = {0};
			struct ptah_packet packet = {.type = (uint8_t)type};
			char text[128];
			int n;

			stream_fill(&s, &packet);
			n = ptah_packet_encode(&packet, bytes, sizeof(bytes));
			assert_in_range(n, 1, PTAH_PACKET_MAX_SIZE);
			check_read(bytes, (size_t)n, block_of(&packet));
			/* Its text makes the same bytes. */
			parser.block = block_of(&packet);
			packet.size = (uint8_t)n;
			ptah_packet_format_line(&packet, bytes, (size_t)n, text, sizeof(text));
			assert_int_equal(ptah_packet_parse(&parser, text, again, sizeof(again)), n);
			assert_memory_equal(bytes, again, (size_t)n);
		}
	}
}

/* Each first byte with each second one, in a block and outside. */
TEST(every_opcode)
{
	uint8_t bytes[PTAH_PACKET_MAX_SIZE] = {0};

	for (unsigned i = 0; i < 65536; i++) {
		bytes[0] = (uint8_t)i;
		bytes[1] = (uint8_t)(i >> 8);
		for (unsigned third = 0; third < 256; third += bytes[1] == 0xc3 ? 1 : 51) {
			bytes[2] = (uint8_t)third;
			for (unsigned block = PTAH_BLOCK_NONE; block <= PTAH_BLOCK_ITEMS_8; block++)
				check_read(bytes, sizeof(bytes), block);
		}
	}
}

TEST(examples)
{
	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++) {
		uint8_t bytes[PTAH_PACKET_MAX_SIZE];
		struct ptah_packet_parser parser = {0};
		struct ptah_packet packet;
		char line[128];
		int n;

		snprintf(line, sizeof(line), "%s %s", packet_entries[type].name,
			 packet_entries[type].example);
		n = ptah_packet_parse(&parser, line, bytes, sizeof(bytes));
		assert_true(n > 0);
		assert_int_equal(ptah_packet_decode(&packet, bytes, (size_t)n,
						    type == PTAH_PACKET_BIP ? PTAH_BLOCK_ITEMS_8
									    : PTAH_BLOCK_NONE),
				 n);
		assert_int_equal(packet.type, type);
	}
}
