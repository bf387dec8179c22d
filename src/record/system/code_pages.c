/* SPDX-License-Identifier: MIT */
/* Keeps the pages of code_pages.h; equal pages are kept once for all virtual CPUs. */
#include "record/system/code_pages.h"

#include "base/hash.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct code_page {
	struct code_page *next; /* with the same hash bucket */
	uint64_t hash;
	uint32_t number;
	uint8_t bytes[CODE_PAGE];
};

/* All pages of the recording. */
#define BUCKETS 65536
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct code_page *pages[BUCKETS];
static uint32_t page_count;

static atomic_uint block_count;

struct code_block *code_block_new(uint64_t address, const uint8_t *bytes, size_t size,
				  const uint8_t *host, const uint8_t *next_host)
{
	struct code_block *b = malloc(sizeof(*b) + size);

	if (!b)
		return NULL;
	b->at = (uint32_t)(address % CODE_PAGE);
	b->number = atomic_fetch_add(&block_count, 1);
	b->size = (uint32_t)size;
	b->host[0] = host;
	b->host[1] = next_host;
	memcpy(b->bytes, bytes, size);
	return b;
}

static uint64_t hash_of(const uint8_t *bytes)
{
	uint64_t hash = 0, word;

	for (size_t i = 0; i < CODE_PAGE; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		hash = hash_number(hash ^ word);
		hash ^= hash >> 29;
	}
	return hash;
}

/* The page of the recording with these bytes; it is added if there is none. */
static const struct code_page *keep_code_page(const struct code_view *view, const uint8_t *bytes)
{
	const uint64_t hash = hash_of(bytes);
	struct code_page **bucket = &pages[hash % BUCKETS], *page;

	pthread_mutex_lock(&lock);
	for (page = *bucket; page; page = page->next)
		if (page->hash == hash && !memcmp(page->bytes, bytes, CODE_PAGE))
			break;
	if (!page && (page = malloc(sizeof(*page)))) {
		page->hash = hash;
		page->number = page_count++;
		page->next = *bucket;
		memcpy(page->bytes, bytes, CODE_PAGE);
		*bucket = page;
		view->add_page(page->number, bytes);
	}
	pthread_mutex_unlock(&lock);
	return page;
}

struct code_space *code_space(struct code_view *view, uint64_t cr3)
{
	struct code_space **bucket = &view->buckets[(cr3 >> 12) % 256], *space = *bucket;

	while (space && space->cr3 != cr3)
		space = space->next;
	if (space || !(space = calloc(1, sizeof(*space))))
		return space;
	space->capacity = 64;
	space->entries = calloc(space->capacity, sizeof(*space->entries));
	space->known_capacity = 256;
	space->known = calloc(space->known_capacity, sizeof(*space->known));
	space->generation = 1;
	if (!space->entries || !space->known) {
		free(space->entries);
		free(space->known);
		free(space);
		return NULL;
	}
	space->cr3 = cr3;
	space->next = *bucket;
	return *bucket = space;
}

static struct code_entry *entry_at(const struct code_space *space, uint64_t address)
{
	size_t i = hash_number(address / CODE_PAGE) >> 32;

	for (i &= space->capacity - 1;
	     space->entries[i].page && space->entries[i].address != address;
	     i = (i + 1) & (space->capacity - 1))
		;
	return &space->entries[i];
}

static bool grow(struct code_space *space)
{
	const struct code_space before = *space;

	space->capacity *= 2;
	space->entries = calloc(space->capacity, sizeof(*space->entries));
	if (!space->entries) {
		space->entries = before.entries;
		space->capacity = before.capacity;
		return false;
	}
	for (size_t i = 0; i < before.capacity; i++)
		if (before.entries[i].page)
			*entry_at(space, before.entries[i].address) = before.entries[i];
	free(before.entries);
	return true;
}

/*
 * The n bytes of a block from `at` in the page at `address` are about to run. The page is taken as
 * it is in the guest's memory now, with these bytes: another processor may be changing it.
 */
static bool learn_part(struct code_view *view, struct code_space *space, uint64_t address,
		       size_t at, const uint8_t *bytes, size_t n, const uint8_t *host)
{
	struct code_entry *entry = entry_at(space, address);
	struct code_news news = {.cr3 = space->cr3, .address = address};
	uint8_t now[CODE_PAGE];

	if (entry->page && !memcmp(entry->page->bytes + at, bytes, n))
		return true;
	news.changed = entry->page;
	if (host)
		memcpy(now, host, CODE_PAGE);
	else if (entry->page)
		memcpy(now, entry->page->bytes, CODE_PAGE);
	else
		memset(now, 0, CODE_PAGE);
	memcpy(now + at, bytes, n);
	if (!entry->page && ++space->count > space->capacity / 2) {
		if (!grow(space))
			return false;
		entry = entry_at(space, address);
	}
	entry->address = address;
	entry->page = keep_code_page(view, now);
	if (!entry->page)
		return false;
	news.page = entry->page->number;
	/* Other blocks of this page must be compared again. */
	space->generation += news.changed;
	view->add_map(view->context, &news);
	return true;
}

/* Entries of older generations are left out, so that the table need not grow for them. */
static bool grow_known(struct code_space *space)
{
	const struct code_space before = *space;
	size_t valid = 0;

	for (size_t i = 0; i < before.known_capacity; i++)
		valid += before.known[i].generation == before.generation;
	if (valid > before.known_capacity / 4)
		space->known_capacity *= 2;
	space->known = calloc(space->known_capacity, sizeof(*space->known));
	if (!space->known) {
		*space = before;
		return false;
	}
	space->known_count = valid;
	for (size_t i = 0; i < before.known_capacity; i++) {
		const struct code_known *k = &before.known[i];
		const struct code_block b = {.number = k->number};

		if (k->generation == before.generation)
			*code_known_at(space, &b, k->address) = *k;
	}
	free(before.known);
	return true;
}

bool code_learn(struct code_view *view, struct code_space *space, const struct code_block *b,
		uint64_t address)
{
	const size_t first = b->size < CODE_PAGE - b->at ? b->size : CODE_PAGE - b->at;
	const uint64_t page = address - b->at;
	struct code_known *known;

	if (!learn_part(view, space, page, b->at, b->bytes, first, b->host[0]))
		return false;
	if (first < b->size && !learn_part(view, space, page + CODE_PAGE, 0, b->bytes + first,
					   b->size - first, b->host[1]))
		return false;
	if (space->known_count >= space->known_capacity / 2 && !grow_known(space))
		return false;
	known = code_known_at(space, b, address);
	space->known_count += !known->generation;
	*known = (struct code_known){address, b->number, space->generation};
	return true;
}
