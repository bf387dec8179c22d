/* SPDX-License-Identifier: MIT */
/*
 * The formats of other tools, as a table: what each is called, and what writes it.
 *
 * A format has a source: what it is made from. The command has one driver for each source
 * (cli/export_*.c), which reads the recording and hands the result to the format's writer.
 */
#ifndef PTAH_EXPORT_EXPORT_H
#define PTAH_EXPORT_EXPORT_H

#include "output/out.h"

#include <stdbool.h>

struct timeline_format; /* timeline.h */
struct export_tree;	/* tree.h */
struct drcov;		/* output/drcov.h */
struct source_coverage; /* source_coverage.h */
struct address_profile; /* address_profile.h */
struct call_costs;	/* call_costs.h */
struct export_database; /* database.h */

/* What a format is made from. */
enum export_source {
	EXPORT_TIMELINE,  /* the calls and events of each thread, in order */
	EXPORT_TREE,	  /* calls added up by path */
	EXPORT_COSTS,	  /* instructions by address, and calls by call site */
	EXPORT_LINES,	  /* lines and branches of source code, with counts */
	EXPORT_BLOCKS,	  /* blocks by file, that ran */
	EXPORT_ADDRESSES, /* branches by address, with counts */
	EXPORT_DATABASE,  /* single calls, threads and functions in tables */
	EXPORT_SOURCE_MAX
};

struct export_format {
	const char *name;      /* the word of --to */
	const char *extension; /* of its files, by convention: ".fxt" */
	const char *summary;   /* one line for --to=help and the man page */
	bool binary;	       /* refused on a terminal */
	enum export_source source;
	/* What writes it, by its source. The functions return 0 or an error. */
	union {
		const struct timeline_format *timeline;
		int (*tree)(struct out *out, const struct export_tree *tree);
		int (*costs)(struct out *out, const struct call_costs *costs);
		int (*lines)(struct out *out, const struct source_coverage *coverage);
		void (*blocks)(struct drcov *drcov, struct out *out);
		int (*addresses)(struct out *out, const struct address_profile *profile);
		int (*database)(struct export_database *database, struct ptah_message *why);
	};
};

extern const struct export_format export_formats[]; /* ends with a name that is NULL */

/* The format whose extension a file's name ends with, the longest one. NULL: none. */
const struct export_format *export_find_by_file(const char *path);

#endif
