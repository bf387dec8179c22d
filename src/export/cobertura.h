/* SPDX-License-Identifier: MIT */
/* Coverage as XML in Cobertura's format (coverage-04.dtd), which GitLab, Jenkins and others read.
 */
#ifndef PTAH_EXPORT_COBERTURA_H
#define PTAH_EXPORT_COBERTURA_H

#include "export/source_coverage.h"
#include "output/out.h"

/* A writer of the table of formats (export.h). 0 or PTAH_E_NOMEM. */
int cobertura_write(struct out *out, const struct source_coverage *coverage);

#endif
