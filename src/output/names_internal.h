/* SPDX-License-Identifier: MIT */
/* What names.c and names_files.c know together. */
#ifndef PTAH_OUTPUT_NAMES_INTERNAL_H
#define PTAH_OUTPUT_NAMES_INTERNAL_H

#include "output/names.h"

struct names {
	const struct ptah_session *session;
	struct ptah_symbols *symbols;
	int32_t pid;
	struct name *table; /* by ip, open addressing; dso NULL: free */
	size_t capacity, count;
	struct name fallback;
	struct ptah_map *maps; /* added by hand; their paths are ours */
	size_t map_count;
	struct clean *cleaned;
	char *symfs;
	struct known_id *ids;
	const struct ptah_counts *counts;
	const struct ptah_counts_file **changed; /* files of the counts, by their place in memory */
	size_t changed_count;
	const char **changed_paths;
	size_t changed_path_count;
};

struct build_id {
	int size; /* 0: none */
	uint8_t bytes[PTAH_BUILD_ID_MAX];
};

/* The build id of a file as it is now. */
struct known_id {
	struct known_id *next;
	const char *path; /* the session's, or of a map */
	struct build_id id;
};

/* A path that cannot be shown as it is, and how it is shown. */
struct clean {
	struct clean *next;
	const char *path;
	char text[];
};

/* `path` without control characters; nearly always itself. */
const char *names_shown(struct names *names, const char *path);

/* Is this, of the counts' files, not the file that ran any more? */
bool names_is_changed(const struct names *names, const struct ptah_counts_file *file);

#endif
