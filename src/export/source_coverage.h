/* SPDX-License-Identifier: MIT */
/*
 * Coverage of source code: how often each line, branch and function ran, those included that never
 * did. It is made from the counts of an annotation and from the line tables of the programs and
 * libraries that ran, and holds what coverage tools show (lcov.h, cobertura.h, gcov_json.h).
 *
 *	source_coverage_new(annotation, &(struct source_coverage_config){0}, &coverage);
 *	for (size_t i = 0; i < coverage->file_count; i++)
 *		use(&coverage->files[i]);
 *	source_coverage_free(coverage);
 *
 * Memory is in proportion to the code with debug information, whatever the length of the trace.
 */
#ifndef PTAH_EXPORT_SOURCE_COVERAGE_H
#define PTAH_EXPORT_SOURCE_COVERAGE_H

#include "output/annotate.h"

/* A line with code. */
struct source_line {
	uint32_t line;
	uint32_t function;   /* of the file's functions; SOURCE_NO_FUNCTION: unknown */
	bool has_unexecuted; /* a part of its code never ran */
	uint64_t count;	     /* how often it was executed: see source_lines.c */
};

#define SOURCE_NO_FUNCTION UINT32_MAX

/* One of the two ways that a conditional branch can go. */
struct source_way {
	uint64_t count;
	bool fall_through; /* the branch is not taken */
};

/* A conditional branch instruction. */
struct source_branch {
	uint32_t line;
	uint32_t block; /* numbers the branches of the line from 0 on, by their place in the code */
	uint32_t function;
	uint64_t executed, unknown; /* as in struct annotate_branch; 0: it never ran */
	/* The way that continues at the lower address is the first, as it is with gcov. */
	struct source_way ways[2];
};

struct source_function {
	const char *name;     /* mangled, as in the file */
	const char *shown;    /* demangled, as the names show it */
	uint32_t first, last; /* lines: where it is declared, and the last with its own code */
	uint64_t calls;
	uint32_t blocks, blocks_executed; /* basic blocks */
};

struct source_file_coverage {
	char *name; /* with its folder, "." and ".." resolved; not checked for its existence */
	struct source_line *lines;	   /* ascending; each once */
	struct source_branch *branches;	   /* by line and block */
	struct source_function *functions; /* by first line and name */
	size_t line_count, branch_count, function_count;
	/* Sums: lines and functions that ran, and ways that were gone (of 2 * branch_count). */
	size_t lines_hit, functions_hit, ways_hit;
};

/* A program or library that ran, of which no lines are known. */
struct source_missing {
	const char *path;
	int status; /* of ptah_symbols_lines(); 0: the file is not the one that ran */
};

struct source_coverage {
	struct source_file_coverage *files; /* by name; each has a line at least */
	size_t file_count;
	struct source_missing *missing;
	size_t missing_count;
	size_t
	    unnamed; /* pieces of code with a line, of a file without name or with a too long one */
	size_t left_out; /* files that the patterns of the configuration do not want */
};

struct source_coverage_config {
	/* Patterns of fnmatch(3), as lcov's --include and --exclude: only files whose names match
	 * one of `include` (none: all), and none of `exclude`. Both end with NULL, or are NULL. */
	const char *const *include, *const *exclude;
};

/* 0 or an error. Strings belong to the annotation's names, which must live as long. */
int source_coverage_new(const struct annotation *annotation,
			const struct source_coverage_config *config,
			struct source_coverage **coverage);
void source_coverage_free(struct source_coverage *coverage);

/* The index of the first line that is not before this one; line_count: there is none. */
size_t source_file_find(const struct source_file_coverage *file, uint32_t line);

#endif
