/* SPDX-License-Identifier: MIT */
/*
 * The reference decoder: what a trace means, by the SDM's chapter "Intel Processor Trace" and
 * nothing else. It has the whole trace in memory and makes one pass, without caches or tricks. It
 * has its own packets, IP reconstruction, return address stack and walk over the code; of the
 * library it uses only the instruction decoder and the names of things. Where it and the library
 * differ, one of them is wrong.
 *
 * reference_packet.c: bytes to packets. decoder.c: packets to events. reference_walk.c: events to
 * instructions. Time is left out, and so are errata except BDM70, which the library works around on
 * every processor.
 */
#ifndef PTAH_TESTS_REFERENCE_DECODER_H
#define PTAH_TESTS_REFERENCE_DECODER_H

#include <ptah/flow.h>

struct reference_config {
	/* Copies up to n bytes from `address` of an address space; returns how many. */
	size_t (*read)(void *context, const struct ptah_space *space, uint64_t address, void *bytes,
		       size_t n);
	void *context;
	bool no_bdm70, iflags; /* as in struct ptah_event_config */
	bool resync;	       /* as in struct ptah_flow_config */
	struct ptah_range ranges[PTAH_RANGES];
	size_t limit; /* entries at most; 0: no limit */
};

/*
 * The result, in order. An instruction is an item of type BLOCK with one instruction: ip, end,
 * last_size, class, mode, TAKEN, SPECULATIVE, and the offset of the packet that proves it.
 * Everything else is as the flow reports it; `tsc` and `tsc_error` are 0.
 */
struct reference {
	struct ptah_item *items;
	size_t count, capacity, limit;
	bool cut; /* stopped at the limit: the rest is missing */
};

void reference_decode(const uint8_t *trace, size_t size, const struct reference_config *config,
		      struct reference *result);
void reference_free(struct reference *result);

#endif
