/* SPDX-License-Identifier: MIT */
/*
 * Images and the section cache. Decoders read code ahead of what they have
 * told; before an image changes, those that use it must forget what they read.
 */
#ifndef PTAH_LIBIPT_PT_IMAGE_H
#define PTAH_LIBIPT_PT_IMAGE_H

#include <ptah/image.h>

#include <intel-pt.h>

#include <stdbool.h>

/* A decoder that reads ahead; lives in the decoder. */
struct image_user {
	/* Called before the image changes: step back to what has been told. */
	void (*step_back)(struct image_user *user);
	/* Called when the image is freed while in use; NULL: nothing to do. */
	void (*gone)(struct image_user *user);
	struct image_user *next, **link; /* in the image's list */
};

/* The image that decoders read. It is the same as long as the pt_image lives. */
struct ptah_image *image_ptah(struct pt_image *image);

void image_add_user(struct pt_image *image, struct image_user *user);
void image_remove_user(struct image_user *user);

/* Has it a read callback? Its memory may change without a word. */
bool image_has_callback(const struct pt_image *image);

/*
 * Is the callback being called? A decoder is in the midst of reading then, and if the
 * callback changes the image what has been read of the old one stays.
 */
bool image_is_asking(const struct pt_image *image);

/*
 * Why there is no code at an address, for PTAH_E_NO_CODE: -pte_bad_image where a
 * section is, whose file has changed or gone; what the callback failed with;
 * otherwise -pte_nomap. Reads there once more.
 */
int image_missing(struct pt_image *image, uint64_t ip, const struct ptah_space *space);

/* The isid of an item's `section`: of the cache it came from, 0 otherwise. */
int image_isid(const struct pt_image *image, uint32_t section);

#endif
