/* SPDX-License-Identifier: MIT */
/*
 * The code of a recording with how often it ran, for the view: its source files with their lines,
 * and its functions with their instructions. It is counted when it is first asked for.
 *
 *	view_sources_new(&config, &sources);
 *	if (!view_sources_lock(sources))
 *		use(sources->files, sources->annotation);
 *	view_sources_unlock(sources);
 *	view_sources_free(sources);
 *
 * Any thread may take the lock; what the struct points to may be read, and the functions below
 * called, by whoever has it.
 */
#ifndef PTAH_VIEW_SOURCES_H
#define PTAH_VIEW_SOURCES_H

#include "export/source_coverage.h"
#include "output/annotate.h"
#include "output/source_files.h"

#include <pthread.h>

struct view_sources_config {
	const struct ptah_session *session;
	struct names *names; /* without a session: they are made to use the counts */
	const char *symfs;   /* as in session.h; NULL: "/" */
	struct source_paths paths;
	unsigned jobs;
	/* As in struct ptah_call_reader_config. */
	bool (*wants)(void *context, size_t stream);
	void *context;
	bool (*stopped)(void *context); /* is the counting to end? */
	void *stop_context;
};

/* A line with code: of all functions and objects that have it. */
struct view_line {
	uint32_t file, line;
	uint32_t object; /* one that has it; VIEW_NO_OBJECT: it did not run */
	uint64_t executed, instructions;
	uint64_t covered; /* how often it ran as coverage has it */
};

#define VIEW_NO_OBJECT UINT32_MAX

/* A source file. */
struct view_source_file {
	const char *name; /* without "." and ".." if it is absolute */
	uint64_t instructions;
	/* Its lines, which are next to each other in the list of all, in ascending order. */
	size_t first_line, line_count, lines_run;
	const struct source_file_coverage *coverage; /* NULL: it has no line tables */
};

struct view_sources {
	struct view_sources_config config;
	pthread_mutex_t lock;
	bool made;  /* or it was tried */
	int status; /* of the making */
	struct ptah_counts *counts;
	struct annotation *annotation;
	struct source_coverage *coverage;
	struct view_line *lines; /* by file and line */
	size_t line_count;
	struct view_source_file *files; /* by name */
	size_t file_count;
	char **names;	 /* of the files */
	uint32_t *ranks; /* the files, those with most instructions first */
	struct source_files texts;
	/* Which of annotation->functions begin where: see view_sources_function(). */
	uint32_t *by_start;
};

/* What the config points to must live as long. 0 or PTAH_E_NOMEM. */
int view_sources_new(const struct view_sources_config *config, struct view_sources **sources);
void view_sources_free(struct view_sources *sources);

/*
 * Takes the lock, and counts if nobody has before, which takes as long as `ptah annotate`. 0 or an
 * error, which stays. view_sources_unlock() in both cases.
 */
int view_sources_lock(struct view_sources *sources);
void view_sources_unlock(struct view_sources *sources);

/* The file with the i-th most instructions, with the lock taken and let go. False: in no other file
 * anything ran. */
bool view_sources_rank(struct view_sources *sources, size_t i, uint32_t *file);

/*
 * The function of an object that begins at a place; NULL: it did not run, or is not known. `path`
 * is that of the object as recorded; for code that is in no file `place` is an address.
 */
const struct annotate_function *view_sources_function(const struct view_sources *sources,
						      const char *path, uint64_t place);

/* The number of a file by its name as line tables have it. UINT32_MAX: it is not in the list. */
uint32_t view_sources_find(const struct view_sources *sources, const char *recorded);

#endif
