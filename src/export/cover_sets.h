/* SPDX-License-Identifier: MIT */
/*
 * Sets of processes: blocks that the same processes reached share one, so that a relation of a
 * million blocks and a thousand processes has as many rows as there are different sets, not as
 * there are pairs. The sets are found exactly, by splitting them process by process.
 */
#ifndef PTAH_EXPORT_COVER_SETS_H
#define PTAH_EXPORT_COVER_SETS_H

#include "export/cover_code.h"

struct cover_sets {
	uint32_t block_count;
	uint32_t *set_of; /* by the number of a block: its set. 0: no process reached it */
	uint32_t *size;	  /* by set: how many blocks it has */
	uint32_t *split;  /* by set: what its blocks become that the process reached; 0: no split */
	uint32_t *touched, *unused;
	size_t set_count, touched_count, unused_count;
};

/* 0 or PTAH_E_NOMEM. */
int cover_sets_init(struct cover_sets *sets, uint32_t block_count);
void cover_sets_free(struct cover_sets *sets);

/* The next process reached these blocks, each once. */
void cover_sets_add(struct cover_sets *sets, const struct cover_reached *reached, size_t n);

/* All were added: numbers the sets by their first blocks, from 1 on. */
void cover_sets_finish(struct cover_sets *sets);

/*
 * After that: the sets of a process that was added, given with what it reached. They are in
 * sets->touched[0..touched_count).
 */
void cover_sets_of(struct cover_sets *sets, const struct cover_reached *reached, size_t n);

#endif
