/* SPDX-License-Identifier: MIT */
/*
 * Lists that grow: an array of the heap, the number of its elements and the room that is allocated,
 * three members of whatever owns the list:
 *
 *	if (!LIST_ROOM(p->lines, p->count, p->room))
 *		return PTAH_E_NOMEM;
 *	p->lines[p->count++] = line;
 *
 * A list that could not grow is as it was. free() releases it.
 */
#ifndef PTAH_SUPPORT_LIST_H
#define PTAH_SUPPORT_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the list has room for one more element, which is allocated where need be. */
#define LIST_ROOM(items, count, room)                                                              \
	((size_t)(count) < (size_t)(room) ||                                                       \
	 list_grow(&(items), (count), 1, &(room), sizeof(room), sizeof(*(items))))

/* The same for `more` elements. `room` may be of 4 or 8 bytes. */
#define LIST_ROOM_FOR(items, count, more, room)                                                    \
	(((size_t)(count) <= (size_t)(room) && (more) <= (size_t)(room) - (size_t)(count)) ||      \
	 list_grow(&(items), (count), (more), &(room), sizeof(room), sizeof(*(items))))

/*
 * Whether the list has an element `index`, up to which zeroed elements are added where need be. A
 * list that grows with these two macros keeps no `room`, and grows with nothing else.
 */
#define LIST_REACH(items, count, index)                                                            \
	((size_t)(index) < (size_t)(count) ||                                                      \
	 list_extend(&(items), &(count), (index), sizeof(*(items))))

/* Adds a zeroed element at its end. False: out of memory. */
#define LIST_ADD(items, count) list_extend(&(items), &(count), (count), sizeof(*(items)))

/* What the macros call. `items` and `room` point to the members. */
bool list_grow(void *items, size_t count, size_t more, void *room, size_t room_bytes, size_t size);
bool list_extend(void *items, size_t *count, size_t index, size_t size);

#endif
