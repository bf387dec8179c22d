/* SPDX-License-Identifier: MIT */
/* Coverage as a tracefile of lcov (geninfo(1)), which genhtml and most coverage tools read. */
#ifndef PTAH_EXPORT_LCOV_H
#define PTAH_EXPORT_LCOV_H

#include "export/source_coverage.h"
#include "output/out.h"

/* A writer of the table of formats (export.h). Always 0. */
int lcov_write(struct out *out, const struct source_coverage *coverage);

#endif
