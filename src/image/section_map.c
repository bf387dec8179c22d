/* SPDX-License-Identifier: MIT */
/* The sections of one address space, in an array sorted by address. */
#include "image/section_map.h"

#include "base/order.h"

#include <stdlib.h>
#include <string.h>

struct map *map_new(void)
{
	struct map *map = calloc(1, sizeof(*map));

	if (map)
		map->references = 1;
	return map;
}

void map_put(struct map *map)
{
	if (!map || --map->references)
		return;
	for (size_t i = 0; i < map->count; i++)
		backing_put(map->sections[i].backing);
	free(map->sections);
	free(map);
}

size_t map_first_from(const struct map *map, uint64_t address)
{
	size_t at;

	BISECT(at, 0, map->count, section_last(&map->sections[at]) < address);
	return at;
}

bool map_overlaps(const struct map *map, uint64_t first, uint64_t last)
{
	size_t i = map_first_from(map, first);

	return i < map->count && map->sections[i].address <= last;
}

static int copy_section_map(struct map **map, size_t capacity)
{
	struct map *own = map_new(), *shared = *map;

	if (!own)
		return PTAH_E_NOMEM;
	own->sections = malloc(capacity * sizeof(*own->sections));
	if (!own->sections) {
		free(own);
		return PTAH_E_NOMEM;
	}
	own->capacity = capacity;
	own->count = shared->count;
	for (size_t i = 0; i < shared->count; i++) {
		own->sections[i] = shared->sections[i];
		own->sections[i].backing->references++;
	}
	map_put(shared);
	*map = own;
	return 0;
}

int map_own(struct map **map, size_t more)
{
	struct map *m = *map;
	size_t capacity = m->capacity ? m->capacity : 16;
	struct section *sections;

	while (capacity < m->count + more)
		capacity *= 2;
	if (m->references > 1)
		return copy_section_map(map, capacity);
	if (capacity == m->capacity)
		return 0;
	sections = realloc(m->sections, capacity * sizeof(*sections));
	if (!sections)
		return PTAH_E_NOMEM;
	m->sections = sections;
	m->capacity = capacity;
	return 0;
}

static void insert_at(struct map *map, size_t at, const struct section *section)
{
	memmove(map->sections + at + 1, map->sections + at,
		(map->count - at) * sizeof(*map->sections));
	map->sections[at] = *section;
	map->count++;
}

void map_insert(struct map *map, const struct section *section)
{
	insert_at(map, map_first_from(map, section->address), section);
}

void map_erase(struct map *map, size_t at)
{
	backing_put(map->sections[at].backing);
	map->count--;
	memmove(map->sections + at, map->sections + at + 1,
		(map->count - at) * sizeof(*map->sections));
}

/* Removes the part of a section before `address`. */
static void cut_front(struct section *s, uint64_t address)
{
	s->at += address - s->address;
	s->size = section_last(s) - address + 1;
	s->address = address;
}

void map_cut(struct map *map, uint64_t first, uint64_t last)
{
	size_t i = map_first_from(map, first);

	while (i < map->count && map->sections[i].address <= last) {
		struct section *s = &map->sections[i];
		uint64_t s_last = section_last(s);

		if (s->address >= first && s_last <= last) {
			map_erase(map, i);
			continue;
		}
		if (s->address < first && s_last > last) {
			struct section tail = *s;

			cut_front(&tail, last + 1);
			tail.backing->references++;
			s->size = first - s->address;
			insert_at(map, i + 1, &tail);
			return;
		}
		if (s->address < first) {
			s->size = first - s->address;
			i++;
		} else {
			cut_front(s, last + 1);
			return;
		}
	}
}
