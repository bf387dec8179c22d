/* SPDX-License-Identifier: MIT */
/* How often the lines of source code in a piece of code were executed. */
#ifndef PTAH_EXPORT_SOURCE_LINES_H
#define PTAH_EXPORT_SOURCE_LINES_H

#include "export/code_graph.h"

#define SOURCE_NO_LINE UINT32_MAX

struct source_line_count {
	uint64_t count;
	bool has_unexecuted; /* a block of the line never ran */
};

/*
 * Counts the lines 0..line_count of a graph. line_of_row[i] is the line of row i, SOURCE_NO_LINE if
 * it has none. 0 or PTAH_E_NOMEM.
 */
int source_lines_count(const struct code_graph *graph, const uint32_t *line_of_row,
		       size_t line_count, struct source_line_count *counts);

#endif
