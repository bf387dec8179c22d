/* SPDX-License-Identifier: MIT */
/* What other layers use of an image besides <ptah/image.h>. */
#ifndef PTAH_IMAGE_IMAGE_ACCESS_H
#define PTAH_IMAGE_IMAGE_ACCESS_H

#include "image/backing.h"
#include "image/file_table.h"

/* Whether any section of any space holds a byte of [address, address+size). */
bool image_overlaps(const struct ptah_image *image, uint64_t address, uint64_t size);

/* The same for the sections of this space alone. */
bool image_overlaps_in(const struct ptah_image *image, uint64_t address, uint64_t size,
		       const struct ptah_space *space);

/* How many changes an image remembers. */
#define IMAGE_CHANGES 64

/* A range of addresses at which bytes changed, in some space. */
struct image_change {
	uint64_t first, last;
	bool reader; /* only bytes that the reader callback gave */
};

/*
 * Whether the reader callback gives any of these bytes, or would give them. The range is not empty.
 */
bool image_is_read(const struct ptah_image *image, uint64_t first, uint64_t last,
		   const struct ptah_space *space);

/* From now on the reader may return other bytes, but in this range alone. */
void image_reader_changed(struct ptah_image *image, uint64_t first, uint64_t last);

/*
 * The changes since a generation: how many, stored in *changes, which has room for IMAGE_CHANGES.
 * -1 when they were more than the image remembers.
 */
int image_changes(const struct ptah_image *image, uint64_t since, struct image_change *changes);

/*
 * The time of the changes that follow: what they add has been there since then. 0, as in a new
 * image: since the beginning.
 */
void image_set_time(struct ptah_image *image, uint64_t tsc);

/* Whether the image has bytes that were added at a time other than 0. */
bool image_has_times(const struct ptah_image *image);

/* Since when all bytes of [first, last] are what they are. */
uint64_t image_since(const struct ptah_image *image, uint64_t first, uint64_t last,
		     const struct ptah_space *space);

/* From now on the image, and what is cloned from it, shares files with others that use the table.
 */
void image_use_files(struct ptah_image *image, struct file_table *files);

/*
 * Adds a section of `size` bytes from `at` of the backing. Takes ownership of the reference, also
 * on failure.
 */
int image_add(struct ptah_image *image, uint64_t address, uint64_t size, uint64_t at,
	      struct backing *backing, const struct ptah_space *space);

/*
 * The executable sections of a PE file (a program, DLL or driver of Windows). `base` is the address
 * at which the file was loaded; 0: the one that its header prefers.
 */
int image_add_pe(struct ptah_image *image, const char *path, uint64_t base,
		 const struct ptah_space *space);

uint64_t image_generation(const struct ptah_image *image);

#endif
