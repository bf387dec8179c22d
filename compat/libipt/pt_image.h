/* SPDX-License-Identifier: MIT */
/*
 * Images and the section cache. Decoders read code ahead of what they have reported. Before an
 * image changes, the decoders that use it must discard what they read ahead.
 */
#ifndef PTAH_LIBIPT_PT_IMAGE_H
#define PTAH_LIBIPT_PT_IMAGE_H

#include <ptah/image.h>

#include <intel-pt.h>

#include <stdbool.h>

/* A decoder that reads ahead. The struct is part of the decoder. */
struct image_user {
	/* Called before the image changes: goes back to what has been reported. */
	void (*step_back)(struct image_user *user);
	/* Called when the image is freed while the decoder uses it; NULL: nothing to do. */
	void (*gone)(struct image_user *user);
	struct image_user *next, **link; /* in the image's list */
};

/* The image that Ptah's decoders read: one and the same as long as the pt_image lives. */
struct ptah_image *image_ptah(struct pt_image *image);

void image_add_user(struct pt_image *image, struct image_user *user);
void image_remove_user(struct image_user *user);

/* Whether the image has a read callback. Then its memory may change without notice. */
bool image_has_callback(const struct pt_image *image);

/* The callback may return other bytes from now on. */
void image_read_again(struct pt_image *image);

/*
 * Whether the callback is running. Then a decoder is in the middle of reading, and if the callback
 * changes the image, the decoder keeps what it has read of the old one.
 */
bool image_is_asking(const struct pt_image *image);

/*
 * Why there is no code at an address, for PTAH_E_NO_CODE: -pte_bad_image where there is a section
 * whose file was changed or removed; the callback's error; otherwise -pte_nomap. Reads there once
 * more to find out.
 */
int image_missing(struct pt_image *image, uint64_t ip, const struct ptah_space *space);

/* The isid of an item's `section`, if it came from a section cache; otherwise 0. */
int image_isid(const struct pt_image *image, uint32_t section);

#endif
