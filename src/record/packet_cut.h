/* SPDX-License-Identifier: MIT */
/* Where a stream of packets that arrives in pieces can be cut between two packets. */
#ifndef PTAH_RECORD_PACKET_CUT_H
#define PTAH_RECORD_PACKET_CUT_H

#include <ptah/packet.h>

#include <sys/uio.h>

/* All zeros at the beginning of a stream, and after a gap. */
struct packet_cut {
	bool synced;	/* it is known where packets begin */
	unsigned block; /* enum ptah_packet_block */
	uint8_t rest[PTAH_PACKET_MAX_SIZE];
	size_t rest_size;
};

/*
 * The next parts of the stream. Returns how many bytes at the end of what has arrived so far belong
 * to a packet that has not arrived whole, or may: less than PTAH_PACKET_MAX_SIZE, and they are in
 * `rest`.
 */
size_t packet_cut(struct packet_cut *cut, const struct iovec *parts, size_t count);

#endif
