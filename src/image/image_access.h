/* SPDX-License-Identifier: MIT */
/* What the image offers to other layers besides <ptah/image.h>. */
#ifndef PTAH_IMAGE_IMAGE_ACCESS_H
#define PTAH_IMAGE_IMAGE_ACCESS_H

#include "image/backing.h"

/* Does any section of any space hold a byte of [address, address+size)? */
bool image_overlaps(const struct ptah_image *image, uint64_t address, uint64_t size);

/* Changes that are remembered. */
#define IMAGE_CHANGES 64

/* Addresses at which other bytes are seen than before, in some space. */
struct image_change {
	uint64_t first, last;
	bool reader; /* only those that the reader gives */
};

/* Does the reader give any of these bytes, or would it? They are not empty. */
bool image_is_read(const struct ptah_image *image, uint64_t first, uint64_t last,
		   const struct ptah_space *space);

/*
 * What has changed since a generation: how many places, in *changes, which has
 * room for IMAGE_CHANGES; -1 when they are too many to be remembered.
 */
int image_changes(const struct ptah_image *image, uint64_t since, struct image_change *changes);

/* A section of `size` bytes from `at` of the backing, whose reference it takes over, also on
 * failure. */
int image_add(struct ptah_image *image, uint64_t address, uint64_t size, uint64_t at,
	      struct backing *backing, const struct ptah_space *space);

#endif
