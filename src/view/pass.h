/* SPDX-License-Identifier: MIT */
/*
 * Between the two threads of pass.c: what the one that decodes hands to the one that writes, and
 * what the latter makes of it (pass_write.c).
 */
#ifndef PTAH_VIEW_PASS_H
#define PTAH_VIEW_PASS_H

#include "view/model_internal.h"

/* A beginning or an end of a call that is no stub. */
struct step {
	uint32_t entry, function; /* of a beginning */
	uint16_t flags;
	uint8_t end, how;
	uint64_t tsc;
	struct ptah_call_counts counts;
};

#define CHUNK_STEPS 1024

/* Steps of a thread, and what follows them. */
struct chunk {
	struct view_thread *thread;
	int32_t cpu; /* that it ran on; -1: not known */
	size_t count;
	bool ended, has_item;
	struct ptah_item item;
	struct ptah_call_counts counts; /* where the item is */
	struct step steps[CHUNK_STEPS];
};

/* Adds a chunk to its thread's log, levels and events, and to its CPU's turns. 0 or an error. */
int view_write_chunk(struct view_model *model, const struct chunk *chunk);

#endif
