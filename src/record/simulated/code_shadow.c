/* SPDX-License-Identifier: MIT */
/* The shadow of code_shadow.h as a hash table of 4 KiB pages. */
#include "record/simulated/code_shadow.h"

#include "base/hash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

struct code_page {
	uint64_t address;
	uint64_t change; /* time of the last change of its bytes; 0: none */
	struct code_page *next;
	uint8_t known[4096 / 8]; /* a bit for each byte */
	uint8_t bytes[4096];
};

static struct code_page **bucket_of(const struct code_shadow *shadow, uint64_t address)
{
	return &shadow->pages[(hash_number(address) >> 32) % shadow->buckets];
}

static void fill_from_file(struct code_page *page, const struct code_map *map)
{
	uint64_t offset = map->offset + (page->address - map->start);
	/* Non-blocking, because the path of a mapped file may be a fifo by now. */
	int fd = open(map->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return;
	n = pread(fd, page->bytes, sizeof(page->bytes), (off_t)offset);
	close(fd);
	for (ssize_t i = 0; i < n; i++)
		page->known[i / 8] |= (uint8_t)(1 << i % 8);
}

/* NULL: out of memory. */
static struct code_page *add_code_shadow_page(struct code_shadow *shadow, uint64_t address)
{
	struct code_page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->address = address;
	page->next = *bucket_of(shadow, address);
	*bucket_of(shadow, address) = page;
	return page;
}

/*
 * The page at `address`. A new page, and one that is older than the mapping, is filled from the
 * mapping's file. NULL: out of memory.
 */
static struct code_page *page_at(struct code_shadow *shadow, uint64_t address,
				 const struct code_map *map)
{
	struct code_page *page;

	if (!shadow->pages)
		shadow->pages = calloc(shadow->buckets, sizeof(struct code_page *));
	if (!shadow->pages)
		return NULL;
	for (page = *bucket_of(shadow, address); page; page = page->next)
		if (page->address == address)
			break;
	if (page && page->change >= map->change)
		return page;
	if (!page)
		page = add_code_shadow_page(shadow, address);
	if (!page)
		return NULL;
	page->change = map->change;
	if (map->path && map->path[0] == '/' && map->start <= address && address < map->end)
		fill_from_file(page, map);
	return page;
}

struct code_difference code_shadow_compare(struct code_shadow *shadow, uint64_t address,
					   const uint8_t *bytes, size_t n,
					   const struct code_map *map)
{
	struct code_difference d = {.change = map->change};

	for (size_t i = 0; i < n;) {
		struct code_page *page = page_at(shadow, (address + i) & ~(PAGE - 1), map);

		if (page && page->change > d.change)
			d.change = page->change;
		do {
			size_t at = (address + i) % PAGE;

			if (!page || !(page->known[at / 8] >> at % 8 & 1))
				d.fresh = true;
			else if (page->bytes[at] != bytes[i])
				d.changed = true;
			i++;
		} while (i < n && (address + i) % PAGE);
	}
	return d;
}

void code_shadow_keep(struct code_shadow *shadow, uint64_t address, const uint8_t *bytes, size_t n,
		      const struct code_map *map, uint64_t change)
{
	for (size_t i = 0; i < n;) {
		struct code_page *page = page_at(shadow, (address + i) & ~(PAGE - 1), map);

		if (!page)
			return;
		if (change)
			page->change = change;
		do {
			size_t at = (address + i) % PAGE;

			page->bytes[at] = bytes[i];
			page->known[at / 8] |= (uint8_t)(1 << at % 8);
			i++;
		} while (i < n && (address + i) % PAGE);
	}
}

void code_shadow_drop(struct code_shadow *shadow, uint64_t start, uint64_t end)
{
	for (size_t i = 0; shadow->pages && i < shadow->buckets; i++) {
		struct code_page **link = &shadow->pages[i];

		while (*link) {
			struct code_page *page = *link;

			if (page->address + PAGE <= start || page->address >= end) {
				link = &page->next;
				continue;
			}
			*link = page->next;
			free(page);
		}
	}
}

void code_shadow_copy(struct code_shadow *to, const struct code_shadow *from)
{
	to->pages = from->pages ? calloc(to->buckets, sizeof(struct code_page *)) : NULL;
	for (size_t i = 0; to->pages && i < from->buckets; i++) {
		for (const struct code_page *page = from->pages[i]; page; page = page->next) {
			struct code_page *copy = add_code_shadow_page(to, page->address);
			struct code_page *next;

			if (!copy)
				return;
			next = copy->next;
			*copy = *page;
			copy->next = next;
		}
	}
}

void code_shadow_clear(struct code_shadow *shadow)
{
	for (size_t i = 0; shadow->pages && i < shadow->buckets; i++) {
		while (shadow->pages[i]) {
			struct code_page *page = shadow->pages[i];

			shadow->pages[i] = page->next;
			free(page);
		}
	}
	free(shadow->pages);
	shadow->pages = NULL;
}
