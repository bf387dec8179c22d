/* SPDX-License-Identifier: MIT */
/* Puts what the watcher has seen into a thread's trace, as TSC packets between its packets. */
#ifndef PTAH_RECORD_NATIVE_LOOK_PACKETS_H
#define PTAH_RECORD_NATIVE_LOOK_PACKETS_H

#include "record/native/watch.h"

/* What is known from the parts of a chunk before. A chunk begins without it. */
struct look_state {
	bool off;      /* tracing is off */
	uint64_t last; /* the last time in the trace */
};

/* Room for the packets of a chunk with those that are put in. */
#define LOOK_ROOM (NATIVE_CHUNK + WATCH_LOOKS * 8)

/*
 * Copies packets, which are the bytes [from, to) of a chunk, to `out`, with a TSC packet
 * behind the packet that holds the last byte of each look. There is none where it would not be
 * between the times around it or could not be decoded: in PSB+, behind FUP and MODE, and while
 * tracing is off. `last`: nothing of the chunk follows, so that only what decides about the looks
 * is gone through. Returns how many bytes; 0: none was put in, and `out` has nothing. *walked: up to
 * there the bytes are whole packets.
 */
size_t look_packets_put(struct look_state *state, const uint8_t *chunk, size_t from, size_t to,
			bool last, const struct look *looks, size_t n, uint8_t *out,
			size_t *walked);

#endif
