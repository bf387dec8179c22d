/* SPDX-License-Identifier: MIT */
/* gzip with zlib (gzip.h). The header has no time and no name: the same bytes give the same file.
 */
#include "export/gzip.h"

#include <ptah/base.h>

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* the largest; with gzip's header and not zlib's */
#define GZIP_MEMORY 8	      /* zlib's default */

struct gzip {
	struct out *out;
	z_stream z;
	unsigned char bytes[64u << 10];
};

int gzip_begin(struct out *out, struct gzip **gzip)
{
	struct gzip *g = calloc(1, sizeof(*g));

	if (!g)
		return PTAH_E_NOMEM;
	g->out = out;
	if (deflateInit2(&g->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(g);
		return PTAH_E_NOMEM;
	}
	*gzip = g;
	return 0;
}

/* Gives zlib what it has been offered, and writes what it returns. */
static void step_deflate(struct gzip *g, int flush)
{
	do {
		g->z.next_out = g->bytes;
		g->z.avail_out = sizeof(g->bytes);
		deflate(&g->z, flush);
		out_bytes(g->out, (const char *)g->bytes, sizeof(g->bytes) - g->z.avail_out);
	} while (!g->z.avail_out);
}

void gzip_write(struct gzip *g, const void *bytes, size_t n)
{
	const unsigned char *from = bytes;

	while (n) {
		const uInt part = n < UINT_MAX ? (uInt)n : UINT_MAX;

		/* zlib reads only, whatever the type says. */
		g->z.next_in = (unsigned char *)(uintptr_t)from;
		g->z.avail_in = part;
		step_deflate(g, Z_NO_FLUSH);
		from += part;
		n -= part;
	}
}

void gzip_end(struct gzip *g, bool complete)
{
	if (!g)
		return;
	if (complete)
		step_deflate(g, Z_FINISH);
	deflateEnd(&g->z);
	free(g);
}
