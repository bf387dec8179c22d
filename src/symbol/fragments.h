/* SPDX-License-Identifier: MIT */
/*
 * Finds the functions that fragments belong to. Compilers move code that they expect to run rarely
 * into a piece of its own: gcc and clang name that of `f` "f.cold", older ones "f.cold.5".
 */
#ifndef PTAH_SYMBOL_FRAGMENTS_H
#define PTAH_SYMBOL_FRAGMENTS_H

#include "symbol/ranges.h"

/*
 * Whether it is the name of a fragment. *length: how much of it is the name of the function. Clones
 * of functions (".part.0", ".isra.0", ".constprop.0") are functions, which are called.
 */
bool symbol_is_fragment(const char *name, size_t *length);

/* A function that is looked for: one of this name in this group of symbols. */
struct symbol_parent {
	size_t name; /* offset in the names */
	uint64_t group;
	uint64_t address;
	unsigned found; /* how many there are */
};

struct symbol_parents {
	struct symbol_parent *items;
	size_t count, room;
	struct symbol_names names;
	bool failed; /* out of memory */
};

/* The group of symbols that are visible everywhere. */
#define SYMBOL_GROUP_GLOBAL 0

/*
 * First each fragment is announced, with the group of symbols that its own belongs to: functions of
 * this group and visible ones come into question. After symbol_parents_sort() each function is
 * offered. symbol_parents_find() then returns the address, or 0 if there is no such function, or
 * several.
 */
void symbol_parents_want(struct symbol_parents *parents, const char *fragment, uint64_t group);
void symbol_parents_sort(struct symbol_parents *parents);
void symbol_parents_offer(struct symbol_parents *parents, const char *name, uint64_t group,
			  uint64_t address);
uint64_t symbol_parents_find(const struct symbol_parents *parents, const char *fragment,
			     uint64_t group);
void symbol_parents_free(struct symbol_parents *parents);

#endif
