/* SPDX-License-Identifier: MIT */
/* The executable sections of a PE file, for an image and for the maps of a process. */
#ifndef PTAH_IMAGE_PE_H
#define PTAH_IMAGE_PE_H

#include "image/image_access.h"

#include <ptah/image.h>

struct pe_section {
	uint64_t address, size;
	uint64_t offset; /* in the file; it may have fewer bytes than `size` from there on */
};

/*
 * Lists them in *sections, which the caller frees. `base` as for image_add_pe(). Returns how
 * many there are, one at least, or an error.
 */
int pe_sections(const char *path, uint64_t base, struct pe_section **sections);

#endif
