/* SPDX-License-Identifier: MIT */
/* A growing byte buffer with the formats of perf.data: numbers and padded strings. */
#include "perfdata/byte_buffer.h"

#include "base/bits.h"
#include "support/list.h"

#include <stdlib.h>

void perfdata_buffer_free(struct perfdata_buffer *b)
{
	free(b->bytes);
	*b = (struct perfdata_buffer){0};
}

static bool has_buffer_room(struct perfdata_buffer *b, size_t n)
{
	return !b->failed && LIST_ROOM_FOR(b->bytes, b->size, n, b->capacity);
}

void perfdata_put(struct perfdata_buffer *b, const void *bytes, size_t n)
{
	if (!n)
		return;
	if (!has_buffer_room(b, n)) {
		b->failed = true;
		return;
	}
	if (bytes)
		memcpy(b->bytes + b->size, bytes, n);
	else
		memset(b->bytes + b->size, 0, n);
	b->size += n;
}

void perfdata_put16(struct perfdata_buffer *b, uint16_t v)
{
	perfdata_put(b, &v, sizeof(v));
}

void perfdata_put32(struct perfdata_buffer *b, uint32_t v)
{
	perfdata_put(b, &v, sizeof(v));
}

void perfdata_put64(struct perfdata_buffer *b, uint64_t v)
{
	perfdata_put(b, &v, sizeof(v));
}

void perfdata_put_string(struct perfdata_buffer *b, const char *text, size_t align)
{
	size_t n = strlen(text) + 1;

	perfdata_put(b, text, n);
	perfdata_put(b, NULL, -n & (align - 1));
}

void perfdata_put_header_string(struct perfdata_buffer *b, const char *text)
{
	size_t n = strlen(text) + 1;

	perfdata_put32(b, (uint32_t)((n + 63) & ~(size_t)63));
	perfdata_put_string(b, text, 64);
}
