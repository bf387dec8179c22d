/* SPDX-License-Identifier: MIT */
/* Allocates the arrays of lists (list.h). */
#include "support/list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 8

/* Members are copied: a pointer to any type may not be read as one to void. */
static bool reallocate_list(void *items, size_t n, size_t size)
{
	void *array, *larger;

	if (n > PTRDIFF_MAX / size)
		return false;
	memcpy(&array, items, sizeof(array));
	larger = reallocarray(array, n, size);
	if (!larger)
		return false;
	memcpy(items, &larger, sizeof(larger));
	return true;
}

bool list_grow(void *items, size_t count, size_t more, void *room, size_t room_bytes, size_t size)
{
	const size_t most = room_bytes == sizeof(uint32_t) ? UINT32_MAX : SIZE_MAX;
	size_t wanted = 2 * count > FIRST_ROOM ? 2 * count : FIRST_ROOM;
	uint32_t narrow;

	if (more > most - count || count > SIZE_MAX / 2)
		return false;
	wanted = wanted > count + more ? wanted : count + more;
	wanted = wanted < most ? wanted : most;
	if (!reallocate_list(items, wanted, size))
		return false;
	narrow = (uint32_t)wanted;
	if (room_bytes == sizeof(narrow))
		memcpy(room, &narrow, sizeof(narrow));
	else
		memcpy(room, &wanted, sizeof(wanted));
	return true;
}

/* The room of such a list is not kept: it is the power of two that its elements fill or begin. */
static size_t room_of(size_t count)
{
	size_t room = count ? 1 : 0;

	while (room < count)
		room *= 2;
	return room;
}

bool list_extend(void *items, size_t *count, size_t index, size_t size)
{
	char *array;

	if (index >= SIZE_MAX / 2)
		return false;
	if (index >= room_of(*count) && !reallocate_list(items, room_of(index + 1), size))
		return false;
	memcpy(&array, items, sizeof(array));
	memset(array + *count * size, 0, (index + 1 - *count) * size);
	*count = index + 1;
	return true;
}
