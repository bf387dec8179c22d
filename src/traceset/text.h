/* SPDX-License-Identifier: MIT */
/* The text form of a trace set: see ptah-trace(5). */
#ifndef PTAH_TRACESET_TEXT_H
#define PTAH_TRACESET_TEXT_H

#include "traceset/set.h"

#include <stdio.h>

#define TRACESET_MAGIC "ptah-trace" /* what the text begins with */

/* Reads the file into a set whose folder is that of the file. */
int traceset_read_text(const char *path, struct ptah_trace_set *set, struct ptah_message *why);

/*
 * The same from memory: `name` is that of the file in messages. The text is changed, and text[n]
 * must exist.
 */
int traceset_parse_text(const char *name, char *text, size_t n, struct ptah_trace_set *set,
			struct ptah_message *why);

/* Writes a set. The paths of files below `folder` become relative to it. */
void traceset_write_text(const struct ptah_trace_set *set, const char *folder, FILE *file);

/*
 * The absolute path of a folder, or of the folder that a file lies in, without symbolic links. The
 * caller frees it. NULL with errno: there is none.
 */
char *traceset_folder_of(const char *path);

#endif
