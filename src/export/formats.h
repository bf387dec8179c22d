/* SPDX-License-Identifier: MIT */
/* What writes each format: the definitions that the rows of formats.def name. */
#ifndef PTAH_EXPORT_FORMATS_H
#define PTAH_EXPORT_FORMATS_H

#include "export/bolt.h"
#include "export/call_costs.h"
#include "export/cobertura.h"
#include "export/gcov_json.h"
#include "export/lcov.h"
#include "export/sample_profile.h"
#include "export/timeline.h"
#include "export/tree.h"
#include "output/drcov.h"

struct export_database;

extern const struct timeline_format export_fxt, export_perfetto, export_chrome_json, export_firefox;
int sqlite_export(struct export_database *db, struct ptah_message *why);

int export_folded(struct out *out, const struct export_tree *tree);
int export_svg(struct out *out, const struct export_tree *tree);
int export_speedscope(struct out *out, const struct export_tree *tree);
int export_callgrind(struct out *out, const struct call_costs *costs);
int export_pprof(struct out *out, const struct export_tree *tree);

#endif
