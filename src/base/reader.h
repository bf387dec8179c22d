/* SPDX-License-Identifier: MIT */
/*
 * A cursor over untrusted bytes that checks the bounds. Reading more than there is sets
 * `failed` and returns zeros from then on, so that a parser checks once, at its end.
 */
#ifndef PTAH_BASE_READER_H
#define PTAH_BASE_READER_H

#include "base/bits.h"

#include <stdbool.h>

struct reader {
	const uint8_t *p, *end;
	bool failed;
};

/* The next n bytes, or NULL. */
static inline const uint8_t *reader_bytes(struct reader *r, uint64_t n)
{
	const uint8_t *p = r->p;

	if (r->failed || (uint64_t)(r->end - r->p) < n) {
		r->failed = true;
		return NULL;
	}
	r->p += n;
	return p;
}

static inline uint16_t reader_u16(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 2);

	return p ? load_le16(p) : 0;
}

static inline uint32_t reader_u32(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 4);

	return p ? load_le32(p) : 0;
}

static inline uint64_t reader_u64(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 8);

	return p ? load_le64(p) : 0;
}

static inline uint8_t reader_u8(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 1);

	return p ? *p : 0;
}

/* A number of variable length (LEB128). Bits beyond the 64th are dropped. */
static inline uint64_t reader_uleb(struct reader *r)
{
	uint64_t value = 0;
	const uint8_t *byte;

	for (unsigned shift = 0; (byte = reader_bytes(r, 1)); shift += 7) {
		if (shift < 64)
			value |= (uint64_t)(*byte & 0x7f) << shift;
		if (!(*byte & 0x80))
			break;
	}
	return value;
}

/* The same with a sign. */
static inline int64_t reader_sleb(struct reader *r)
{
	const uint8_t *first = r->p;
	uint64_t value = reader_uleb(r);
	size_t bits = 7 * (size_t)(r->p - first);

	if (!r->failed && bits < 64 && (r->p[-1] & 0x40))
		value |= UINT64_MAX << bits;
	return (int64_t)value;
}

/* The string up to a NUL, which is skipped, or up to the end. Its length goes to *n. */
static inline const char *reader_string(struct reader *r, size_t *n)
{
	const uint8_t *p = r->p;

	*n = 0;
	if (r->failed)
		return "";
	while (p + *n < r->end && p[*n])
		++*n;
	r->p += *n < (size_t)(r->end - p) ? *n + 1 : *n;
	return (const char *)p;
}

#endif
