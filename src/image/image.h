/* SPDX-License-Identifier: MIT */
/* What the image offers to the session besides <ptah/image.h>. */
#ifndef PTAH_IMAGE_IMAGE_H
#define PTAH_IMAGE_IMAGE_H

#include <ptah/image.h>

#include <stdbool.h>

/* Does any section hold a byte of [address, address+size)? */
bool image_overlaps(const struct ptah_image *image, uint64_t address, uint64_t size);

#endif
