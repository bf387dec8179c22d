/* SPDX-License-Identifier: MIT */
/*
 * Which code a decoder of the recording knows, for each virtual CPU by itself: pages, by address
 * space and address. Before a block runs, its bytes are compared with what the decoder has there:
 *
 *	no page there		the page is added to the recording, valid from the beginning
 *	the page differs	the page as it is now replaces the other, from this moment on
 *
 * So a decoder has the bytes that ran, exactly, however the guest changed its code, its page tables
 * or CR3; what else lies in the pages may have changed meanwhile.
 */
#ifndef PTAH_RECORD_SYSTEM_CODE_PAGES_H
#define PTAH_RECORD_SYSTEM_CODE_PAGES_H

#include "base/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_PAGE UINT64_C(4096)
#define CODE_ANY  UINT64_MAX /* instead of a CR3: of every address space */

/*
 * The bytes of a translated block. It is never freed. QEMU runs it wherever its page is mapped, so
 * that it has no address of its own, but a place in a page.
 */
struct code_block {
	uint32_t number; /* counts up from 0 */
	uint32_t at;	 /* offset of its first byte in its page */
	uint32_t size;
	bool calls_system;	/* it ends with SYSCALL */
	const uint8_t *host[2]; /* QEMU's memory of its pages; NULL: not known */
	uint8_t bytes[];
};

/* NULL: out of memory. */
struct code_block *code_block_new(uint64_t address, const uint8_t *bytes, size_t size,
				  const uint8_t *host, const uint8_t *next_host);

struct code_entry {
	uint64_t address;
	const struct code_page *page; /* NULL: the entry is free */
};

/* One address space of one virtual CPU. */
struct code_space {
	struct code_space *next;
	uint64_t cr3;
	struct code_entry *entries;
	size_t capacity, count;
	/* The blocks whose bytes the decoder has; those of an older generation must be compared. */
	struct code_known *known;
	size_t known_capacity, known_count;
	uint32_t generation;
	/* For the recording: */
	bool entered;  /* the processor has been in it */
	char name[16]; /* of its process */
};

struct code_known {
	uint64_t address;
	uint32_t number;
	uint32_t generation; /* 0: the entry is free */
};

/* What is to be recorded. `changed`: the page replaces another. */
struct code_news {
	uint64_t cr3, address;
	uint32_t page;
	bool changed;
};

struct code_view {
	struct code_space *buckets[256];
	/* A page that no other has been equal to; called by one thread at a time. */
	void (*add_page)(uint32_t number, const uint8_t *bytes);
	void (*add_map)(void *context, const struct code_news *news);
	void *context;
};

/* NULL: out of memory. */
struct code_space *code_space(struct code_view *view, uint64_t cr3);

static inline struct code_known *code_known_at(const struct code_space *space,
					       const struct code_block *b, uint64_t address)
{
	const uint64_t key = hash_number(address ^ (uint64_t)b->number << 40);
	size_t i = (size_t)(key >> 32) & (space->known_capacity - 1);

	while (space->known[i].generation &&
	       (space->known[i].address != address || space->known[i].number != b->number))
		i = (i + 1) & (space->known_capacity - 1);
	return &space->known[i];
}

/* The block is about to run at `address`. */
static inline bool code_is_known(const struct code_space *space, const struct code_block *b,
				 uint64_t address)
{
	return code_known_at(space, b, address)->generation == space->generation;
}

/* Makes the block known; reports what is new. False: out of memory. */
bool code_learn(struct code_view *view, struct code_space *space, const struct code_block *b,
		uint64_t address);

#endif
