/* SPDX-License-Identifier: MIT */
/* The sections of one address space: sorted, not overlapping, shared between clones until changed.
 */
#ifndef PTAH_IMAGE_SECTION_MAP_H
#define PTAH_IMAGE_SECTION_MAP_H

#include "image/backing.h"

/* Addresses [address, address+size) hold the backing's bytes from `at` on. */
struct section {
	uint64_t address;
	uint64_t size;
	uint64_t at;
	uint64_t order; /* a later add has a higher one */
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

/* Index of the first section that ends at or behind `address`. */
size_t map_behind(const struct map *map, uint64_t address);

/* Does any section hold a byte of [first, last]? */
bool map_overlaps(const struct map *map, uint64_t first, uint64_t last);

/* Makes *map its owner's alone, with room for `more` sections. PTAH_E_NOMEM: nothing has changed.
 */
int map_own(struct map **map, size_t more);

/* Makes [first, last] free. At most one section more than before; own it with room for one. */
void map_cut(struct map *map, uint64_t first, uint64_t last);

/* Where nothing is. Takes the reference to its backing over. Own it with room for one. */
void map_insert(struct map *map, const struct section *section);

void map_erase(struct map *map, size_t at);

#endif
