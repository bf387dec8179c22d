/* SPDX-License-Identifier: MIT */
/* A hash table of pages, each with the list of the nodes that begin in it (code_pages.h). */
#include "flow/code_pages.h"

#include "base/hash.h"

#include <stdlib.h>

#define FIRST_PAGES 256

static struct code_page *find_entry(struct code_page *entries, size_t capacity, uint64_t key)
{
	size_t i = (size_t)(hash_number(key) >> 32);

	while (entries[i & (capacity - 1)].number && entries[i & (capacity - 1)].number != key)
		i++;
	return &entries[i & (capacity - 1)];
}

static bool grow_pages(struct code_pages *pages)
{
	const size_t capacity = pages->capacity ? 2 * pages->capacity : FIRST_PAGES;
	struct code_page *entries = calloc(capacity, sizeof(*entries));

	if (!entries)
		return false;
	for (size_t i = 0; i < pages->capacity; i++)
		if (pages->entries[i].number)
			*find_entry(entries, capacity, pages->entries[i].number) =
			    pages->entries[i];
	free(pages->entries);
	pages->entries = entries;
	pages->capacity = capacity;
	return true;
}

bool code_pages_add(struct code_pages *pages, struct code_node *node)
{
	struct code_chunk *chunk = code_chunk_of(node);
	const uint64_t key = (node->ip >> CODE_PAGE_BITS) + 1;
	struct code_page *page;

	if (!chunk->page_next)
		chunk->page_next = calloc(CODE_CHUNK_NODES, sizeof(struct code_node *));
	if (!chunk->page_next)
		return false;
	if (2 * (pages->count + 1) > pages->capacity && !grow_pages(pages))
		return false;
	page = find_entry(pages->entries, pages->capacity, key);
	pages->count += !page->number;
	page->number = key;
	*code_page_next(node) = page->first;
	page->first = node;
	return true;
}

struct code_node **code_pages_find(const struct code_pages *pages, uint64_t number)
{
	struct code_page *page = find_entry(pages->entries, pages->capacity, number + 1);

	return page->number ? &page->first : NULL;
}

void code_pages_drop(struct code_pages *pages)
{
	free(pages->entries);
	*pages = (struct code_pages){0};
}
