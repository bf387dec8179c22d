/* SPDX-License-Identifier: MIT */
/* Where a section's bytes come from: a file mapping, a copy, or the cache. Shared, counted. */
#ifndef PTAH_IMAGE_BACKING_H
#define PTAH_IMAGE_BACKING_H

#include <ptah/image.h>

#include <stdbool.h>

struct backing {
	_Atomic unsigned references;
	const uint8_t *bytes; /* NULL: ask the cache */
	size_t size;
	bool mapped;
	char *path; /* NULL: no file */
	/* In the cache: */
	struct ptah_cache *cache;
	uint32_t cache_id;
	uint64_t address; /* there */
};

/* Takes `bytes` over: malloc()ed, or a mapping. NULL when memory is out (and they are freed). */
struct backing *backing_new(const uint8_t *bytes, size_t size, bool mapped);
void backing_put(struct backing *backing);

/* Maps a file whole, read-only. An empty file gives PTAH_E_EMPTY. */
int backing_map(const char *path, struct backing **backing);

/* Copies n bytes from `at`; how many there were. */
size_t backing_read(const struct backing *backing, uint64_t at, void *bytes, size_t n);

/* cache.c */
struct ptah_cache *cache_get(struct ptah_cache *cache);
int cache_describe(struct ptah_cache *cache, uint32_t id, uint64_t *address, uint64_t *size,
		   uint64_t *offset, char **path);

#endif
