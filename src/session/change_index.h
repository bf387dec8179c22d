/* SPDX-License-Identifier: MIT */
/*
 * Finds the changes of a memory that cover an address, in time that does not depend on how many
 * there are: generated code is sent again and again at the same addresses, and lies by the thousand
 * in one large mapping.
 */
#ifndef PTAH_SESSION_CHANGE_INDEX_H
#define PTAH_SESSION_CHANGE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct change;

/*
 * A segment tree: leaf k is for the addresses from bounds[k] up to the next bound, and each change
 * is in the lists of the few nodes that together are its range. Node i has the entries from
 * starts[i] up to starts[i + 1], in ascending order.
 */
struct change_index {
	uint64_t *bounds;
	uint32_t *starts, *entries;
	size_t leaves;
};

/* Which change is wanted of those that cover an address. */
enum wanted_change {
	WANTED_LAST,
	WANTED_LAST_OR_GONE, /* also one that unmaps it */
	WANTED_FIRST,
};

/* Indexes `n` changes, of which CHANGE_EXEC covers nothing. 0 or PTAH_E_NOMEM: it is empty. */
int change_index_build(struct change_index *index, const struct change *changes, size_t n);
void change_index_free(struct change_index *index);

/* The wanted one of the changes [first, n) that cover `address`. NULL: there is none. */
const struct change *change_index_find(const struct change_index *index,
				       const struct change *changes, size_t first, size_t n,
				       uint64_t address, enum wanted_change wanted);

#endif
