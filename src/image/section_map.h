/* SPDX-License-Identifier: MIT */
/*
 * The sections of one address space: sorted, not overlapping, shared by clones of an image until
 * one of them changes.
 */
#ifndef PTAH_IMAGE_SECTION_MAP_H
#define PTAH_IMAGE_SECTION_MAP_H

#include "image/backing.h"

/* The addresses [address, address+size) have the backing's bytes from `at` on. */
struct section {
	uint64_t address;
	uint64_t size;
	uint64_t at;
	uint64_t order; /* increases with each section that is added */
	uint64_t since; /* the image's time when it was added: image_set_time() */
	struct backing *backing;
	uint32_t id;
};

struct map {
	_Atomic unsigned references;
	size_t count, capacity;
	struct section *sections;
};

static inline uint64_t section_last(const struct section *s)
{
	return s->address + (s->size - 1);
}

struct map *map_new(void);
void map_put(struct map *map);

/* The index of the first section that ends at `address` or later. */
size_t map_first_from(const struct map *map, uint64_t address);

/* Whether any section holds a byte of [first, last]. */
bool map_overlaps(const struct map *map, uint64_t first, uint64_t last);

/*
 * Makes *map the caller's own copy, with room for `more` sections. On PTAH_E_NOMEM it is unchanged.
 */
int map_own(struct map **map, size_t more);

/*
 * Removes all bytes of [first, last]. This can split a section: call map_own() for one more before.
 */
void map_cut(struct map *map, uint64_t first, uint64_t last);

/*
 * Inserts a section where there is none. Takes ownership of the backing's reference. Call map_own()
 * for one more before.
 */
void map_insert(struct map *map, const struct section *section);

void map_erase(struct map *map, size_t at);

/* Bytes mapped now. */
uint64_t cache_mapped(struct ptah_cache *cache);

#endif
