/* SPDX-License-Identifier: MIT */
/* Writes bytes as a gzip stream (RFC 1952), piece by piece. */
#ifndef PTAH_EXPORT_GZIP_H
#define PTAH_EXPORT_GZIP_H

#include "output/out.h"

struct gzip;

/* 0 or PTAH_E_NOMEM. `out` must live as long. */
int gzip_begin(struct out *out, struct gzip **gzip);
void gzip_write(struct gzip *gzip, const void *bytes, size_t n);

/* Ends the stream if `complete`, and frees. */
void gzip_end(struct gzip *gzip, bool complete);

#endif
