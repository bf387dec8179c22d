/* SPDX-License-Identifier: MIT */
/*
 * What a process reached, as bytes of a table of coverage: numbers of blocks, ascending, and how
 * often each ran, as pairs of LEB128 numbers: the difference to the number before (of the first:
 * the number itself), and the count; both are at least 1. The pairs are one frame of Zstandard,
 * which has its size.
 */
#ifndef PTAH_EXPORT_COVER_BLOB_H
#define PTAH_EXPORT_COVER_BLOB_H

#include "export/cover_code.h"

/* The largest size of the pairs that a reader takes. */
#define COVER_BLOB_MAX (UINT64_C(256) << 20)

/* The caller frees *blob. 0, PTAH_E_NOMEM, or PTAH_E_LIMIT. */
int cover_blob_write(const struct cover_reached *reached, size_t n, void **blob, size_t *size);

/*
 * Reads such bytes, which need not be trustworthy. The caller frees *reached. 0, PTAH_E_NOMEM, or
 * PTAH_E_BAD_FILE, also for numbers above `most`.
 */
int cover_blob_read(const void *blob, size_t size, uint32_t most, struct cover_reached **reached,
		    size_t *n);

#endif
