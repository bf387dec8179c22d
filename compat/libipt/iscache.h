/* SPDX-License-Identifier: MIT */
/* The section cache as images use it: the shared store, and the file and address of an isid. */
#ifndef PTAH_LIBIPT_ISCACHE_H
#define PTAH_LIBIPT_ISCACHE_H

#include <ptah/image.h>

#include <intel-pt.h>

/* A ptah_cache, shared by a pt_image_section_cache and the sections of images. */
struct store {
	_Atomic unsigned references;
	struct ptah_cache *cache;
};

/* A store with one reference. NULL when out of memory. */
struct store *store_new(void);
struct store *store_get(struct store *store);
void store_put(struct store *store);

/* A piece of a file at an address. */
struct piece {
	char *filename; /* owned by whoever holds the piece: see each use */
	uint64_t offset, size, vaddr;
	uint32_t id; /* in its store; 0: the piece is empty */
};

/*
 * Limits the piece's size to what the file has and adds it to the store. -pte_invalid: no such
 * file, or nothing at that offset.
 */
int piece_add(struct piece *piece, struct store *store);

/*
 * Finds the piece of an isid, with copies of its name and a reference to its store. -pte_bad_image
 * when there is none.
 */
int iscache_lookup(struct pt_image_section_cache *iscache, int isid, struct piece *piece,
		   struct store **store);

#endif
