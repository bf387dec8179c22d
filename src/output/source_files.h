/* SPDX-License-Identifier: MIT */
/* Files of source code: where they are now, and their lines. */
#ifndef PTAH_OUTPUT_SOURCE_FILES_H
#define PTAH_OUTPUT_SOURCE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where to look, in this order. NULL: not given. */
struct source_paths {
	/* objdump's --prefix: put before absolute names, of which `strip` folders are left out. */
	const char *prefix;
	uint64_t strip;
	const char *symfs; /* the name as recorded, below this folder */
	/* Folders with ":" between them; in each, the recorded name without its first folders, the
	 * longest that exists. */
	const char *folders;
};

struct source_file {
	struct source_file *next;
	char *name;	  /* as recorded */
	char *path;	  /* NULL: it is nowhere */
	int64_t modified; /* seconds since 1970 */
	char *text;
	size_t *starts; /* of line i + 1 in `text`; one more than lines */
	size_t lines;
	bool noted; /* for the caller: it has been reported as missing or newer */
};

struct source_files {
	struct source_paths paths;
	struct source_file *list;
};

/* The file, which is read once. NULL when out of memory. */
struct source_file *source_file(struct source_files *files, const char *name);

/* Line `line` (from 1 on) without its end. NULL: the file does not exist or has no such line. */
const char *source_line(const struct source_file *file, uint32_t line, size_t *n);
void source_files_fini(struct source_files *files);

#endif
