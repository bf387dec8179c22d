/* SPDX-License-Identifier: MIT */
/*
 * Coverage as the JSON document of gcov --json-format (version 1: GCC 9 to 13), which geninfo and
 * other tools read. It also has what gcovr's own format has in addition (version 0.3: gcovr 5), so
 * that gcovr reads it as a tracefile.
 */
#ifndef PTAH_EXPORT_GCOV_JSON_H
#define PTAH_EXPORT_GCOV_JSON_H

#include "export/source_coverage.h"
#include "output/out.h"

/* A writer of the table of formats (export.h). Always 0. */
int gcov_json_write(struct out *out, const struct source_coverage *coverage);

#endif
