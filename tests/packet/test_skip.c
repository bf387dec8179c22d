/* SPDX-License-Identifier: MIT */
/* Passing over packets of branches, against the decoder, packet by packet. */
#include "test.h"

#include "packet/skip.h"

#include <ptah/packet.h>

#include <stdlib.h>

static bool is_branch(const struct ptah_packet *p)
{
	return p->type == PTAH_PACKET_TNT_8 || p->type == PTAH_PACKET_TIP ||
	       p->type == PTAH_PACKET_TIP_PGE || p->type == PTAH_PACKET_TIP_PGD ||
	       p->type == PTAH_PACKET_PAD || p->type == PTAH_PACKET_FUP;
}

/* What the decoder says of the same bytes. */
static const uint8_t *pass(const uint8_t *p, const uint8_t *end, const uint8_t **last, int stop)
{
	struct ptah_packet packet;
	int size;

	while (p < end && (size = ptah_packet_decode(&packet, p, (size_t)(end - p), 0)) > 0 &&
	       is_branch(&packet) && (int)packet.type != stop) {
		if (packet.type != PTAH_PACKET_PAD)
			*last = p;
		p += size;
	}
	return p;
}

/* Bytes of which most begin a packet of a branch. */
static void fill(uint8_t *bytes, size_t n)
{
	static const uint8_t heads[] = {0x04, 0x2d, 0x6d, 0xcd, 0x0d, 0x71, 0x01, 0x7d, 0x00, 0x19};

	for (size_t i = 0; i < n; i++)
		bytes[i] =
		    rand() % 4 ? (uint8_t)(rand() & 0xfe) : heads[(size_t)rand() % sizeof(heads)];
}

TEST(same_as_decoder)
{
	uint8_t bytes[96];

	srand(1);
	for (int round = 0; round < 200000; round++) {
		const size_t n = (size_t)rand() % sizeof(bytes);
		const uint8_t *last = NULL, *wanted_last = NULL, *end = bytes + n;

		fill(bytes, n);
		assert_ptr_equal(packet_skip_branches(bytes, end, &last),
				 pass(bytes, end, &wanted_last, -1));
		assert_ptr_equal(last, wanted_last);
		last = wanted_last = NULL;
		assert_ptr_equal(packet_skip_until_fup(bytes, end, &last),
				 pass(bytes, end, &wanted_last, PTAH_PACKET_FUP));
		assert_ptr_equal(last, wanted_last);
		last = wanted_last = NULL;
		assert_ptr_equal(packet_skip_until_stop(bytes, end, &last),
				 pass(bytes, end, &wanted_last, PTAH_PACKET_TIP_PGD));
		assert_ptr_equal(last, wanted_last);
	}
}
