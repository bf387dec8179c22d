/* SPDX-License-Identifier: MIT */
/*
 * Images: the memory that ran.
 *
 * An image maps addresses to bytes. Its sections come from files, from caller
 * buffers, from page dumps or from a callback. A later section replaces what it
 * overlaps. Files are mapped, not read; buffers are copied.
 *
 * An image has a generation that changes when bytes that were visible change
 * or vanish (not when new ones appear), so that decoders know when to forget
 * code. Reading is safe from several threads as long as nobody changes it.
 */
#ifndef PTAH_IMAGE_H
#define PTAH_IMAGE_H

#include <ptah/api.h>
#include <ptah/error.h>

#include <stddef.h>
#include <stdint.h>

struct ptah_image;

PTAH_API int ptah_image_new(struct ptah_image **image);
PTAH_API void ptah_image_free(struct ptah_image *image);

/* An independent copy that shares the file mappings and page buffers. */
PTAH_API int ptah_image_clone(const struct ptah_image *image, struct ptah_image **copy);

/* Maps file bytes [offset, offset+size) at `address`. Short files map what they have. */
PTAH_API int ptah_image_add_file(struct ptah_image *image, const char *path, uint64_t offset,
				 uint64_t size, uint64_t address);

/* Copies `bytes` to `address`. */
PTAH_API int ptah_image_add_bytes(struct ptah_image *image, const void *bytes, size_t size,
				  uint64_t address);

/*
 * The executable PT_LOAD segments of an ELF file. `base` is the load bias for
 * position-independent files (lowest PT_LOAD address becomes `base`); 0 keeps
 * the file's own addresses.
 */
PTAH_API int ptah_image_add_elf(struct ptah_image *image, const char *path, uint64_t base);

/* PREFIX.addr: little-endian u64 page addresses; PREFIX.dump: the 4 KiB pages in that order. */
PTAH_API int ptah_image_add_pages(struct ptah_image *image, const char *prefix);

/* Forgets [address, address+size). */
PTAH_API int ptah_image_remove(struct ptah_image *image, uint64_t address, uint64_t size);

/*
 * Memory nobody added: `read` is asked for up to n bytes at `address` and
 * returns how many it gave (0: none). Must be repeatable and thread-safe if
 * the image is shared.
 */
PTAH_API void ptah_image_set_reader(struct ptah_image *image,
				    size_t (*read)(void *context, uint64_t address, void *bytes,
						   size_t n),
				    void *context);

/* Copies up to n bytes from `address`, over section borders. Returns how many; 0 when unmapped. */
PTAH_API size_t ptah_image_read(const struct ptah_image *image, uint64_t address, void *bytes,
				size_t n);

PTAH_API uint64_t ptah_image_generation(const struct ptah_image *image);

#endif
