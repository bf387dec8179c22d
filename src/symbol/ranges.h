/* SPDX-License-Identifier: MIT */
/*
 * Address ranges with names, and how they become a table that answers "which
 * function holds this address?". The sources overlap (aliases, nested labels,
 * frames of functions that also have a symbol); the ranges of the table do not.
 */
#ifndef PTAH_SYMBOL_RANGES_H
#define PTAH_SYMBOL_RANGES_H

#include <ptah/symbol.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bounds on the memory that a file can make this layer use: a million symbols may
 * all refer to the same megabyte of its string table.
 */
#define SYMBOL_NAME_MAX	 1024
#define SYMBOL_NAMES_MAX ((size_t)256 << 20)

/* Several times as many as the largest browsers have. */
#define SYMBOL_RANGES_MAX ((size_t)1 << 23)

/* The rank of a name. Of several that begin at one address, the highest wins. */
enum symbol_rank {
	SYMBOL_RANK_WEAK = 1,
	SYMBOL_RANK_LOCAL,
	SYMBOL_RANK_GLOBAL,
	SYMBOL_RANK_FUNCTION = 8, /* added to one of the above: its type is function */
	SYMBOL_RANK_SIZED = 16,	  /* added: its size is known */
};

/* It gets its name later. */
#define SYMBOL_NO_NAME SIZE_MAX

/* [start, end) belongs to the function that begins at `head` and spans `size`. */
struct symbol_range {
	uint64_t start, end;
	uint64_t head, size;
	size_t name; /* offset in the list's names, or SYMBOL_NO_NAME */
	/*
	 * Where the function begins that the range is a piece of: of a fragment (".cold"), and of a
	 * label in the middle of a function. 0: the range is a function itself.
	 */
	uint64_t parent;
	uint8_t rank;
	uint16_t flags; /* enum ptah_function_flags */
	bool named;
};

struct symbol_ranges {
	struct symbol_range *items;
	size_t count, room;
	bool failed; /* out of memory, or too many */
};

/* Strings, one after the other. A name is the offset of its first byte. */
struct symbol_names {
	char *bytes;
	size_t used, room;
	bool failed;
};

void symbol_ranges_free(struct symbol_ranges *ranges);
void symbol_ranges_add(struct symbol_ranges *ranges, struct symbol_range range);

/* Sorts by start. Of ranges with the same start, only the best is kept. */
void symbol_ranges_sort(struct symbol_ranges *ranges, const struct symbol_names *names);

/* The lowest start above `address` in a sorted list, or `limit` if that is lower. */
uint64_t symbol_ranges_next(const struct symbol_ranges *sorted, uint64_t address, uint64_t limit);

/* Makes a sorted list disjoint: an address in several ranges belongs to the one that began last. */
void symbol_ranges_flatten(struct symbol_ranges *sorted);

/* Fills the gaps of `ranges` with the ranges of `below`. Both are disjoint and sorted. */
void symbol_ranges_fill(struct symbol_ranges *ranges, const struct symbol_ranges *below);

/* The range that holds `address`, or NULL. */
const struct symbol_range *symbol_ranges_find(const struct symbol_ranges *disjoint,
					      uint64_t address);

/* Keeps a copy of `prefix` followed by `suffix`, cut at SYMBOL_NAME_MAX bytes. */
size_t symbol_names_add(struct symbol_names *names, const char *prefix, const char *suffix);

#endif
