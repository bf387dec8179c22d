/* SPDX-License-Identifier: MIT */
/*
 * Where a section's bytes come from: a mapped file, a copy, or the cache. Backings are shared by
 * sections and counted.
 */
#ifndef PTAH_IMAGE_BACKING_H
#define PTAH_IMAGE_BACKING_H

#include <ptah/image.h>

#include <stdbool.h>
#include <sys/stat.h>

struct backing {
	_Atomic unsigned references;
	const uint8_t *bytes; /* NULL: the cache has them */
	size_t size;
	bool mapped;
	char *path; /* NULL: no file */
	/* For a backing in the cache: */
	struct ptah_cache *cache;
	uint32_t cache_id;
	uint64_t address; /* the address of its first byte there */
};

/*
 * Takes ownership of `bytes`: malloc()ed memory or a mapping. NULL when out of memory; then the
 * bytes are freed.
 */
struct backing *backing_new(const uint8_t *bytes, size_t size, bool mapped);
void backing_put(struct backing *backing);

/* Maps a whole file, read-only, which *st describes then. An empty file gives PTAH_E_EMPTY. */
int backing_map(const char *path, struct stat *st, struct backing **backing);

/* Copies up to n bytes from `at`. Returns how many there were. */
size_t backing_read(const struct backing *backing, uint64_t at, void *bytes, size_t n);

/* section_cache.c */
struct ptah_cache *cache_get(struct ptah_cache *cache);
int cache_describe(struct ptah_cache *cache, uint32_t id, uint64_t *address, uint64_t *size,
		   uint64_t *offset, char **path);

#endif
