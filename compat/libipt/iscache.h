/* SPDX-License-Identifier: MIT */
/* What images need of the section cache. */
#ifndef PTAH_LIBIPT_ISCACHE_H
#define PTAH_LIBIPT_ISCACHE_H

#include <ptah/image.h>

#include <intel-pt.h>

/* A cache that a pt_image_section_cache and the sections of images share. */
struct store {
	_Atomic unsigned references;
	struct ptah_cache *cache;
};

/* With one reference; NULL: no memory. */
struct store *store_new(void);
struct store *store_get(struct store *store);
void store_put(struct store *store);

/* A piece of a file at an address. */
struct piece {
	char *filename; /* whose it is says where it is used */
	uint64_t offset, size, vaddr;
	uint32_t id; /* in its store; 0: there is nothing to read, its size is 0 */
};

/*
 * Cuts the size to what the file has and adds the piece to the store.
 * -pte_invalid: no file, or nothing at that offset.
 */
int piece_add(struct piece *piece, struct store *store);

/* The piece of an isid, with a copy of its name and its store; -pte_bad_image. */
int iscache_lookup(struct pt_image_section_cache *iscache, int isid, struct piece *piece,
		   struct store **store);

#endif
