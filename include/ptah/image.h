/* SPDX-License-Identifier: MIT */
/*
 * Images: the memory that ran.
 *
 * An image maps addresses to bytes. Its sections come from files, from caller
 * buffers, from page dumps, from a shared cache or from a callback. Files are
 * mapped, not read; buffers are copied.
 *
 * Each section belongs to an address space, or to any. Sections of different
 * spaces may lie at one address. Where several match the space that is asked
 * for, the one that was added last is seen; an add replaces what it overlaps in
 * the very same space, and shadows the rest.
 *
 * An image has a generation that changes when bytes that were visible change
 * or vanish (not when new ones appear), so that decoders know what code to
 * forget. Reading is safe from several threads as long as nobody changes it;
 * clones are independent and may live in different threads.
 */
#ifndef PTAH_IMAGE_H
#define PTAH_IMAGE_H

#include <ptah/api.h>
#include <ptah/error.h>

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

/* In all that follows a space of NULL is any. */

PTAH_API int ptah_image_new(struct ptah_image **image);
PTAH_API void ptah_image_free(struct ptah_image *image);

/* An independent copy that shares all there is until one of them changes it. */
PTAH_API int ptah_image_clone(const struct ptah_image *image, struct ptah_image **copy);

/* Maps file bytes [offset, offset+size) at `address`. Short files map what they have. */
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

/* The same of an ELF file in memory, such as a vDSO; it is copied. */
PTAH_API int ptah_image_add_elf_bytes(struct ptah_image *image, const void *bytes, size_t size,
				      uint64_t base, const struct ptah_space *space);

/* PREFIX.addr: little-endian u64 page addresses; PREFIX.dump: the 4 KiB pages in that order. */
PTAH_API int ptah_image_add_pages(struct ptah_image *image, const char *prefix,
				  const struct ptah_space *space);

/* A section of the cache, which lives on as long as an image uses it. */
PTAH_API int ptah_image_add_cached(struct ptah_image *image, struct ptah_cache *cache, uint32_t id,
				   const struct ptah_space *space);

/*
 * Forgets [address, address+size), the sections that came from a file, or all,
 * of the spaces that `space` matches: with NULL of all. What was added for any
 * space is not taken from one.
 */
PTAH_API int ptah_image_remove(struct ptah_image *image, uint64_t address, uint64_t size,
			       const struct ptah_space *space);
PTAH_API int ptah_image_remove_file(struct ptah_image *image, const char *path,
				    const struct ptah_space *space);
PTAH_API int ptah_image_remove_space(struct ptah_image *image, const struct ptah_space *space);

/*
 * Memory nobody added: `read` is asked for up to n bytes at `address` and
 * returns how many it gave (0: none). Must be repeatable, or see below, and
 * thread-safe if the image is shared.
 */
typedef size_t ptah_image_reader(void *context, const struct ptah_space *space, uint64_t address,
				 void *bytes, size_t n);
PTAH_API void ptah_image_set_reader(struct ptah_image *image, ptah_image_reader *read,
				    void *context);

/*
 * The reader may answer differently from now on: decoders forget the code that it
 * has given them, and no other. For readers that are not repeatable; next to nothing
 * for a decoder that has read none.
 */
PTAH_API void ptah_image_reader_changed(struct ptah_image *image);

/* Copies up to n bytes from `address`, over section borders. Returns how many; 0 when unmapped. */
PTAH_API size_t ptah_image_read(const struct ptah_image *image, uint64_t address, void *bytes,
				size_t n, const struct ptah_space *space);

/* What is seen at an address. */
struct ptah_section {
	uint32_t id;	      /* unique in the image and its clones, 1 or more */
	uint64_t address;     /* where this piece begins: a section that was cut is several */
	uint64_t size;	      /* of the piece */
	const char *path;     /* of the file; NULL: bytes. Lives as long as the section */
	uint64_t file_offset; /* of `address` */
	struct ptah_space space;
};

/* PTAH_E_NO_CODE where no section is. */
PTAH_API int ptah_image_find(const struct ptah_image *image, uint64_t address,
			     const struct ptah_space *space, struct ptah_section *section);

PTAH_API uint64_t ptah_image_generation(const struct ptah_image *image);

/*
 * The section cache: pieces of files that many images share, thread-safe.
 * Mapped are at most `limit` bytes (0: no limit); the least recently used go
 * first. A file that has changed since it was added is an error, and not other
 * bytes. Free it when you like: images keep what they use.
 */
PTAH_API int ptah_cache_new(uint64_t limit, struct ptah_cache **cache);
PTAH_API void ptah_cache_free(struct ptah_cache *cache);

/* From now on; what is mapped beyond it goes at once. */
PTAH_API void ptah_cache_set_limit(struct ptah_cache *cache, uint64_t limit);

/* The id of a piece; the same piece has the same id. */
PTAH_API int ptah_cache_add_file(struct ptah_cache *cache, const char *path, uint64_t offset,
				 uint64_t size, uint64_t address, uint32_t *id);

/*
 * Copies up to n bytes of a section from `address`. Returns how many;
 * PTAH_E_NO_CODE outside of it, PTAH_E_CHANGED, PTAH_E_MISSING, PTAH_E_SYSTEM.
 */
PTAH_API int ptah_cache_read(struct ptah_cache *cache, uint32_t id, uint64_t address, void *bytes,
			     size_t n);

/* Bytes mapped now. */
PTAH_API uint64_t ptah_cache_mapped(struct ptah_cache *cache);

PTAH_END_DECLS

#endif
