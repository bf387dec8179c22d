/* SPDX-License-Identifier: MIT */
/*
 * Images: the memory that ran.
 *
 * An image maps addresses to bytes. Its sections come from files, from caller
 * buffers, from page dumps, from a shared cache or from a callback. Files are
 * mapped, not read; buffers are copied.
 *
 * Each section belongs to an address space, or to any. Sections of different
 * spaces may overlap. Where several sections match the space that is asked for,
 * the one added last is used. A new section replaces what it overlaps in the same
 * space, and hides what it overlaps in others.
 *
 * An image has a generation number. It changes when visible bytes change or
 * vanish (not when new ones appear), so that decoders know when to forget code.
 * Reading is safe from several threads as long as nobody changes it; clones are
 * independent and may live in different threads.
 */
#ifndef PTAH_IMAGE_H
#define PTAH_IMAGE_H

#include <ptah/base.h>

#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

struct ptah_image;
struct ptah_cache;

/* An address space: the values of CR3 and of the VMCS pointer, as PIP and VMCS packets have them.
 */
#define PTAH_SPACE_ANY UINT64_MAX

struct ptah_space {
	uint64_t cr3;  /* or PTAH_SPACE_ANY: matches every value, as section and as question */
	uint64_t vmcs; /* the same */
};

/* In all functions below, a `space` of NULL means any space. */

PTAH_API int ptah_image_new(struct ptah_image **image);
PTAH_API void ptah_image_free(struct ptah_image *image);

/* An independent copy; what the two have in common is shared until one of them changes it. */
PTAH_API int ptah_image_clone(const struct ptah_image *image, struct ptah_image **copy);

/* Maps the bytes [offset, offset+size) of a file at `address`. Of a shorter file, as many as it
 * has. */
PTAH_API int ptah_image_add_file(struct ptah_image *image, const char *path, uint64_t offset,
				 uint64_t size, uint64_t address, const struct ptah_space *space);

/* Copies `bytes` to `address`. */
PTAH_API int ptah_image_add_bytes(struct ptah_image *image, const void *bytes, size_t size,
				  uint64_t address, const struct ptah_space *space);

/*
 * The executable PT_LOAD segments of an ELF file. `base` is the load bias for
 * position-independent files (lowest PT_LOAD address becomes `base`); 0 keeps
 * the file's own addresses.
 */
PTAH_API int ptah_image_add_elf(struct ptah_image *image, const char *path, uint64_t base,
				const struct ptah_space *space);

/* PREFIX.addr: little-endian u64 page addresses; PREFIX.dump: the 4 KiB pages in that order. */
PTAH_API int ptah_image_add_pages(struct ptah_image *image, const char *prefix,
				  const struct ptah_space *space);

/* Adds a section of the cache; it exists as long as an image uses it. */
PTAH_API int ptah_image_add_cached(struct ptah_image *image, struct ptah_cache *cache, uint32_t id,
				   const struct ptah_space *space);

/*
 * Removes [address, address+size) from the spaces that `space` matches; NULL matches all. Removing
 * from one space leaves what was added for any space.
 */
PTAH_API int ptah_image_remove(struct ptah_image *image, uint64_t address, uint64_t size,
			       const struct ptah_space *space);

/*
 * For memory that was not added: `read` is called for up to n bytes at `address` and returns how many
 * it provided (0: none). It must be thread-safe if the image is shared, and return the same bytes
 * every time. A reader that from now on may return others is set again: decoders forget the code that
 * came from a reader, and only that; for a decoder that has read none of it the call costs next to
 * nothing.
 */
typedef size_t ptah_image_reader(void *context, const struct ptah_space *space, uint64_t address,
				 void *bytes, size_t n);
PTAH_API void ptah_image_set_reader(struct ptah_image *image, ptah_image_reader *read,
				    void *context);

/* Copies up to n bytes from `address`, across sections. Returns how many; 0 when unmapped. */
PTAH_API size_t ptah_image_read(const struct ptah_image *image, uint64_t address, void *bytes,
				size_t n, const struct ptah_space *space);

/* The section that is visible at an address. */
struct ptah_section {
	uint32_t id;	  /* unique in the image and its clones, 1 or more */
	uint64_t address; /* where this piece begins: a section may have been cut into several */
	uint64_t size;	  /* of the piece */
	const char *path; /* of the file; NULL: bytes. Lives as long as the section */
	uint64_t file_offset; /* of `address` */
	struct ptah_space space;
};

/* PTAH_E_NO_CODE where no section is. */
PTAH_API int ptah_image_find(const struct ptah_image *image, uint64_t address,
			     const struct ptah_space *space, struct ptah_section *section);

/*
 * The section cache: pieces of files that many images share, thread-safe. At most
 * `limit` bytes are mapped (0: no limit); the least recently used sections are
 * unmapped first. Reading a file that has changed since it was added is an error;
 * it does not return other bytes. The cache may be freed at any time: images keep
 * what they use.
 */
PTAH_API int ptah_cache_new(uint64_t limit, struct ptah_cache **cache);
PTAH_API void ptah_cache_free(struct ptah_cache *cache);

/* Sets the limit; what is mapped beyond it is unmapped at once. */
PTAH_API void ptah_cache_set_limit(struct ptah_cache *cache, uint64_t limit);

/* Adds a piece of a file and returns its id in *id; the same piece always has the same id. */
PTAH_API int ptah_cache_add_file(struct ptah_cache *cache, const char *path, uint64_t offset,
				 uint64_t size, uint64_t address, uint32_t *id);

/*
 * Copies up to n bytes of a section from `address`. Returns how many;
 * PTAH_E_NO_CODE outside of it, PTAH_E_CHANGED, PTAH_E_MISSING, PTAH_E_SYSTEM.
 */
PTAH_API int ptah_cache_read(struct ptah_cache *cache, uint32_t id, uint64_t address, void *bytes,
			     size_t n);

PTAH_END_DECLS

#endif
