/* SPDX-License-Identifier: MIT */
/* Lists that grow by one element at a time, and the order of numbers for sorting them. */
#ifndef PTAH_EXPORT_LIST_H
#define PTAH_EXPORT_LIST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Makes room for one more element of `size` bytes in *items, of which `count` are used and *room
 * allocated. False when out of memory. */
static inline bool list_make_room(void **items, size_t count, size_t *room, size_t size)
{
	const size_t more = *room ? 2 * *room : 256;
	void *bigger;

	if (count < *room)
		return true;
	bigger = reallocarray(*items, more, size);
	if (!bigger)
		return false;
	*items = bigger;
	*room = more;
	return true;
}

static inline int list_compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

#endif
