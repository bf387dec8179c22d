/* SPDX-License-Identifier: MIT */
/* Blocks and counts as bytes (cover_blob.h). */
#include "export/cover_blob.h"

#include <stdlib.h>
#include <zstd.h>

#define LEVEL	    1
#define LONGEST	    10 /* bytes of a number of 64 bits */
#define LEAST_BYTES 2  /* of a pair */

static uint8_t *put_blob_number(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)(value | 0x80);
	*p++ = (uint8_t)value;
	return p;
}

int cover_blob_write(const struct cover_reached *reached, size_t n, void **blob, size_t *size)
{
	uint8_t *const pairs = malloc(n * 2 * LONGEST + 1), *p = pairs;
	uint32_t last = 0;
	size_t content, room;

	for (size_t i = 0; pairs && i < n; i++) {
		p = put_blob_number(p, reached[i].block - last);
		p = put_blob_number(p, reached[i].count);
		last = reached[i].block;
	}
	content = (size_t)(p - pairs);
	room = ZSTD_compressBound(content);
	*blob = pairs ? malloc(room) : NULL;
	if (*blob)
		*size = ZSTD_compress(*blob, room, pairs, content, LEVEL);
	free(pairs);
	if (*blob && !ZSTD_isError(*size) && content <= COVER_BLOB_MAX)
		return 0;
	free(*blob);
	return content > COVER_BLOB_MAX ? PTAH_E_LIMIT : PTAH_E_NOMEM;
}

/* Reads a number that is not 0. False: there is none. */
static bool get(const uint8_t **p, const uint8_t *end, uint64_t *value)
{
	unsigned shift = 0;

	*value = 0;
	while (*p < end && shift < 64) {
		const uint8_t byte = *(*p)++;

		if (shift == 63 && byte > 1)
			return false;
		*value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if (!(byte & 0x80))
			return *value && (byte || shift == 7);
	}
	return false;
}

static int read_pairs(const uint8_t *p, const uint8_t *end, uint32_t most,
		      struct cover_reached *list, size_t *n)
{
	uint64_t step, last = 0;

	for (*n = 0; p < end; (*n)++) {
		if (!get(&p, end, &step) || step > most - last || !get(&p, end, &list[*n].count))
			return PTAH_E_BAD_FILE;
		last += step;
		list[*n].block = (uint32_t)last;
	}
	return 0;
}

int cover_blob_read(const void *blob, size_t size, uint32_t most, struct cover_reached **reached,
		    size_t *n)
{
	const unsigned long long content = ZSTD_getFrameContentSize(blob, size);
	struct cover_reached *list;
	uint8_t *pairs;
	size_t got;
	int status = PTAH_E_BAD_FILE;

	*reached = NULL;
	/* The values for "not known" and "bad" are greater, too. */
	if (content > COVER_BLOB_MAX || content > (uint64_t)most * 2 * LONGEST)
		return PTAH_E_BAD_FILE;
	pairs = malloc((size_t)content + 1);
	list = calloc((size_t)content / LEAST_BYTES + 1, sizeof(*list));
	if (pairs && list) {
		got = ZSTD_decompress(pairs, (size_t)content, blob, size);
		if (!ZSTD_isError(got) && got == content)
			status = read_pairs(pairs, pairs + got, most, list, n);
	} else {
		status = PTAH_E_NOMEM;
	}
	free(pairs);
	if (status < 0)
		free(list);
	else
		*reached = list;
	return status;
}
