/* SPDX-License-Identifier: MIT */
/* The lines of source code that blocks belong to, as rows of a table of coverage. */
#ifndef PTAH_EXPORT_COVER_LINES_H
#define PTAH_EXPORT_COVER_LINES_H

#include "export/cover_code.h"
#include "export/sqlite_file.h"

/*
 * Writes the rows of COVER_TABLE_SOURCES, COVER_TABLE_LINES and COVER_TABLE_LINE_BLOCKS: every line
 * with code of the files that ran, and the blocks that are of it. Files without debug information
 * are left out. 0 or an error; one of writing is the file's.
 */
int cover_lines_write(const struct cover_code *code, struct sqlite_file *file);

#endif
