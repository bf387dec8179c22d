/* SPDX-License-Identifier: MIT */
/*
 * Finds silent loops: loops whose branches are all jumps and calls to fixed addresses, infinite
 * recursion included. Intel PT has no packet for these branches, so when an interrupt ends such a
 * loop, no decoder can know how often it ran.
 */
#ifndef PTAH_FLOW_SILENT_LOOP_H
#define PTAH_FLOW_SILENT_LOOP_H

#include <ptah/image.h>

#include <stdbool.h>

#define SILENT_LOOP_RUNS 64

struct silent_loop {
	unsigned instructions; /* of one pass */
	/* The runs of one pass, from the address where it begins until that is reached again. */
	size_t run_count;
	struct {
		uint64_t start, end;
	} runs[SILENT_LOOP_RUNS];
};

/*
 * Whether execution that continues at `ip` returns there without a branch that has a packet.
 * mode: enum ptah_exec_mode. Loops of very many instructions or runs are not found.
 */
bool silent_loop_find(const struct ptah_image *image, const struct ptah_space *space, uint64_t ip,
		      unsigned mode, struct silent_loop *loop);

#endif
