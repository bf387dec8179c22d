/* SPDX-License-Identifier: MIT */
/* The packets of a stream one by one, with the bytes between them that are no packets. */
#ifndef PTAH_CLI_STREAM_PACKETS_H
#define PTAH_CLI_STREAM_PACKETS_H

#include "input.h"

struct packet_place {
	uint64_t offset;
	const uint8_t *bytes; /* as they are in the trace */
	size_t size;
	int status;   /* negative: bad bytes, skipped up to the next PSB */
	bool goes_on; /* these bytes continue the bad bytes of the last call */
	bool has_ip;
	uint64_t ip; /* of packets with an IP: the full address */
	struct ptah_packet packet;
};

/* Packets that are whole in one piece of the stream, as ptah_packet_decode_batch() has them. */
struct packet_batch {
	uint64_t offset;
	const uint8_t *bytes;
	const struct ptah_packet_record *records;
	size_t count;
	uint64_t *last_ip; /* for ptah_packet_ip(); the function keeps it up to date */
};

/* Where a walk over the packets of a stream is, and what it knows there. */
struct packet_walk {
	uint64_t offset, last_ip;
	unsigned block; /* enum ptah_packet_block */
	int lost; /* why bytes are skipped up to the next PSB, PTAH_E_NO_SYNC; 0: they are not */
	bool goes_on; /* some were skipped already */
};

/*
 * Calls `each` for every packet that begins before `end`, until a function returns false: then it
 * returns false as well. Unless `many` is NULL, most packets are passed to it instead, in batches;
 * none of these is in a PEBS block.
 */
bool packets_walk(const struct ptah_session *session, size_t stream, struct packet_walk *walk,
		  uint64_t end, bool (*each)(void *context, const struct packet_place *place),
		  bool (*many)(void *context, const struct packet_batch *batch), void *context);

/* The first PSB that begins in [from, end) and is not cut by the end of a piece; or UINT64_MAX. */
uint64_t packets_find_psb(const struct ptah_session *session, size_t stream, uint64_t from,
			  uint64_t end);

/*
 * Adds the number of packets of each type to `counts`, and returns how many bytes are no packets.
 * Ctrl-C ends it early.
 */
uint64_t packets_count(const struct ptah_session *session, size_t stream, uint64_t *counts);

#endif
