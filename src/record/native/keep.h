/* SPDX-License-Identifier: MIT */
/*
 * What is kept of a thread's trace where not all of it is to be: the end (PTAH_RECORD_SNAPSHOT), or
 * the beginning (PTAH_RECORD_STOP_WHEN_FULL). It is kept here, in the recorder: the runtime writes
 * all of the trace.
 */
#ifndef PTAH_RECORD_NATIVE_KEEP_H
#define PTAH_RECORD_NATIVE_KEEP_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The end of a thread's trace; begins as zeros. */
struct native_end {
	uint8_t *ring;	/* the last bytes; NULL: none have arrived */
	uint64_t total; /* so many bytes have arrived */
};

/* Adds n bytes, of which the last `size` are kept. False: there is no memory. */
bool native_end_add(struct native_end *end, uint64_t size, const uint8_t *bytes, size_t n);
/*
 * Copies what is kept, from the first PSB on if it is not all that has arrived. `bytes` has room
 * for `size`. Returns how many bytes it is.
 */
size_t native_end_get(const struct native_end *end, uint64_t size, uint8_t *bytes);
void native_end_free(struct native_end *end);

/*
 * How many of n bytes of trace, which begin with a packet, are whole packets that fit into `room`.
 */
size_t native_fits(const uint8_t *bytes, size_t n, uint64_t room);

#endif
