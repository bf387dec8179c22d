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

/*
 * Calls `each` for every packet from the offset `from` on until it returns false. `sync`: the bytes
 * before the first PSB are not decoded, and are passed with the status PTAH_E_NO_SYNC.
 */
void packets_each(const struct ptah_session *session, size_t stream, uint64_t from, bool sync,
		  bool (*each)(void *context, const struct packet_place *place), void *context);

/* The same, but most packets are passed to `many`, in batches. None of these is in a PEBS block. */
void packets_batches(const struct ptah_session *session, size_t stream, uint64_t from, bool sync,
		     bool (*each)(void *context, const struct packet_place *place),
		     bool (*many)(void *context, const struct packet_batch *batch), void *context);

/*
 * Adds the number of packets of each type to `counts`, and returns how many bytes are no packets.
 * Ctrl-C ends it early.
 */
uint64_t packets_count(const struct ptah_session *session, size_t stream, uint64_t *counts);

#endif
