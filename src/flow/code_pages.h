/* SPDX-License-Identifier: MIT */
/*
 * The nodes of a code cache by the page in which they begin. Programs that generate code change it
 * thousands of times, a few bytes at a time: to find the nodes there must not take a look at all
 * others.
 */
#ifndef PTAH_FLOW_CODE_PAGES_H
#define PTAH_FLOW_CODE_PAGES_H

#include "flow/code_cache.h"

#define CODE_PAGE_BITS 12

/* No node is longer than this, so that it lies in two pages at most. */
_Static_assert(CODE_MAX_INSNS * 15 <= 1 << CODE_PAGE_BITS, "a node may be longer than a page");

struct code_page {
	uint64_t number;	 /* ip >> CODE_PAGE_BITS, plus 1; 0: the entry is free */
	struct code_node *first; /* linked by code_page_next(); NULL: none */
};

/* Where a node's successor in the list of its page is kept. */
static inline struct code_node **code_page_next(const struct code_node *node)
{
	struct code_chunk *chunk = code_chunk_of(node);

	return &chunk->page_next[node - chunk->nodes];
}

/* Adds a node. False: out of memory; the lists have to be dropped. */
bool code_pages_add(struct code_pages *pages, struct code_node *node);

/* The list that begins in a page; NULL: no node ever began there. */
struct code_node **code_pages_find(const struct code_pages *pages, uint64_t number);

/* Forgets all lists. */
void code_pages_drop(struct code_pages *pages);

#endif
