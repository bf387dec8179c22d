/* SPDX-License-Identifier: MIT */
/*
 * Collects what the pieces of code contribute to the coverage of source files, and adds up what
 * belongs together: a line or a branch in several functions (copies that were inlined, instances of
 * a template), or in several programs.
 */
#ifndef PTAH_EXPORT_SOURCE_STORE_H
#define PTAH_EXPORT_SOURCE_STORE_H

#include "export/source_coverage.h"

struct stored_file {
	const char *recorded; /* the name as the line tables have it */
	char *name;	      /* without "." and ".." */
	uint32_t number;      /* in the order of the names; source_store_finish() sets it */
	bool wanted;
};

struct stored_line {
	uint32_t file, line, function;
	bool has_unexecuted;
	uint64_t count;
};

struct stored_branch {
	uint32_t file, line, function;
	uint32_t ordinal; /* in its group */
	uint64_t group;	  /* branches of equal groups and ordinals are copies of one */
	uint64_t order;	  /* of the group: by its place in the code */
	uint64_t executed, unknown;
	struct source_way ways[2];
};

struct stored_function {
	uint32_t file;
	struct source_function function;
};

struct source_store {
	const struct source_coverage_config *config;
	struct stored_file *files;
	struct stored_line *lines;
	struct stored_branch *branches;
	struct stored_function *functions;
	size_t file_count, line_count, branch_count, function_count;
	size_t file_room, line_room, branch_room, function_room;
	uint32_t *by_pointer; /* a hash table of the files: 1 + index */
	size_t table_size;
	size_t compact_at; /* so many lines are added up before more are taken */
};

#define STORE_NO_FILE UINT32_MAX

/* The number of a file by its name, which lives as long as the store. STORE_NO_FILE: no memory. */
uint32_t source_store_file(struct source_store *store, const char *recorded);

/* Each returns false when out of memory. */
bool source_store_line(struct source_store *store, const struct stored_line *line);
bool source_store_branch(struct source_store *store, const struct stored_branch *branch);
bool source_store_function(struct source_store *store, const struct stored_function *function);

/* Adds everything up. The store is empty then, except for the names of files, which move to the
 * coverage. 0 or PTAH_E_NOMEM. */
int source_store_finish(struct source_store *store, struct source_coverage *coverage);
void source_file_fini(struct source_file_coverage *file);
void source_store_free(struct source_store *store);

#endif
