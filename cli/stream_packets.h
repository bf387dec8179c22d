/* SPDX-License-Identifier: MIT */
/* The packets of a stream one by one, with the bytes between them that are none. */
#ifndef PTAH_CLI_STREAM_PACKETS_H
#define PTAH_CLI_STREAM_PACKETS_H

#include "input.h"

struct packet_place {
	uint64_t offset;
	const uint8_t *bytes; /* as on the wire */
	size_t size;
	int status;   /* negative: bad bytes, skipped up to the next PSB */
	bool goes_on; /* more of the bad bytes before */
	bool has_ip;
	uint64_t ip; /* of IP packets, expanded */
	struct ptah_packet packet;
};

/*
 * Calls `each` for every packet until it returns false. `sync`: what stands
 * before the first PSB is no packet but bytes of status PTAH_E_NO_SYNC.
 */
void packets_each(const struct ptah_session *session, size_t stream, bool sync,
		  bool (*each)(void *context, const struct packet_place *place), void *context);

/* Adds them up by type, and returns how many bytes are none; ends early when interrupted. */
uint64_t packets_count(const struct ptah_session *session, size_t stream, uint64_t *counts);

#endif
