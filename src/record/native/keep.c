/* SPDX-License-Identifier: MIT */
/* See keep.h. */
#include "record/native/keep.h"

#include "record/packet_cut.h"

#include <stdlib.h>
#include <string.h>

bool native_end_add(struct native_end *end, uint64_t size, const uint8_t *bytes, size_t n)
{
	size_t at, first;

	if (!end->ring)
		end->ring = malloc(size);
	if (!end->ring)
		return false;
	end->total += n;
	if (n > size) {
		bytes += n - size;
		n = size;
	}
	at = (end->total - n) % size;
	first = n < size - at ? n : size - at;
	memcpy(end->ring + at, bytes, first);
	memcpy(end->ring, bytes + first, n - first);
	return true;
}

size_t native_end_get(const struct native_end *end, uint64_t size, uint8_t *bytes)
{
	const size_t n = end->total < size ? end->total : size;
	const size_t at = (end->total - n) % size, first = n < size - at ? n : size - at;
	const uint8_t *psb;

	if (!n)
		return 0;
	memcpy(bytes, end->ring + at, first);
	memcpy(bytes + first, end->ring, n - first);
	if (end->total <= size)
		return n;
	/* The ring begins anywhere in a packet. */
	psb = ptah_packet_find_psb(bytes, bytes + n);
	if (!psb)
		return 0;
	memmove(bytes, psb, (size_t)(bytes + n - psb));
	return (size_t)(bytes + n - psb);
}

void native_end_free(struct native_end *end)
{
	free(end->ring);
	*end = (struct native_end){.ring = NULL};
}

size_t native_fits(const uint8_t *bytes, size_t n, uint64_t room)
{
	struct packet_cut cut = {.synced = true};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = room};

	if (n <= room)
		return n;
	return room - packet_cut(&cut, &part, 1);
}
