/* SPDX-License-Identifier: MIT */
/*
 * The code of a process as a decoder of the recording knows it: the bytes of mapped
 * files, and the bytes that the recorder has written into the recording itself. A
 * recorder compares the code that is about to run with its shadow:
 *
 *	bytes at addresses not in the shadow		are written into the recording
 *	bytes that differ from the shadow's		have changed: they are written
 *							with a time of their own, at which
 *							the decoder replaces the old ones
 *
 * and then calls code_shadow_keep(), so that the shadow has them too.
 */
#ifndef PTAH_RECORD_SIMULATED_CODE_SHADOW_H
#define PTAH_RECORD_SIMULATED_CODE_SHADOW_H

#include "record/simulated/code_map.h"

#include <stddef.h>

struct code_page;

/* An empty shadow is all zero but `buckets`, which the owner sets. */
struct code_shadow {
	size_t buckets;		  /* of the hash table; about the number of pages to expect */
	struct code_page **pages; /* NULL before the first page */
};

struct code_difference {
	bool fresh;	 /* some bytes are at addresses that were not in the shadow */
	bool changed;	 /* some bytes are not those of the shadow */
	uint64_t change; /* time of the last change of these pages; 0: none */
};

/*
 * Compares n bytes at `address` with the shadow. `map` is the mapping that holds the
 * first of them; a page of it that the shadow does not have is read from map->path. A
 * mapping that took the place of another (map->change) is read again.
 */
struct code_difference code_shadow_compare(struct code_shadow *shadow, uint64_t address,
					   const uint8_t *bytes, size_t n,
					   const struct code_map *map);

/*
 * Notes that the recording has these bytes now. change: the time at which they replace others; 0:
 * they replace none.
 */
void code_shadow_keep(struct code_shadow *shadow, uint64_t address, const uint8_t *bytes, size_t n,
		      const struct code_map *map, uint64_t change);

/* Forgets all pages that overlap [start, end). */
void code_shadow_drop(struct code_shadow *shadow, uint64_t start, uint64_t end);

/* Copies `from` into the empty shadow `to`. Pages that there is no memory for are left out. */
void code_shadow_copy(struct code_shadow *to, const struct code_shadow *from);

/* Empties the shadow; it can be used again. */
void code_shadow_clear(struct code_shadow *shadow);

#endif
