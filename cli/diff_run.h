/* SPDX-License-Identifier: MIT */
/* One of the two runs that `ptah diff` compares: its counts, as entries of src/output/diff.h. */
#ifndef PTAH_CLI_DIFF_RUN_H
#define PTAH_CLI_DIFF_RUN_H

#include "input.h"
#include "base/compiler.h"
#include "output/diff.h"
#include "output/hotspots.h"

enum diff_by {
	DIFF_FUNCTIONS,
	DIFF_BRANCHES,
	DIFF_LINES
};

struct diff_run {
	const char *path;
	struct ptah_counts *counts;
	struct ptah_profile_totals totals;
	struct names_kernel kernel;
	struct names *names;
	struct diff_entry *entries;
	size_t count;
	/* What the entries point to. */
	struct hotspot *functions;
	struct annotation *annotation; /* by lines */
	char **texts;
	size_t text_count;
	struct ptah_counts_file *files; /* each path once */
	size_t file_count;
};

/*
 * Reads the run at `path`, a recording or saved counts. Returns an exit code, and has printed a
 * message if it is not 0. diff_run_fini() frees what the run has in both cases.
 */
int diff_run_read(const struct command *command, struct input *input, const char *path,
		  struct diff_run *run);

/* Lists the entries. 0 or an error. */
int diff_run_list(const struct input *input, enum diff_by by, struct diff_run *run);
void diff_run_fini(struct diff_run *run);

/* For the functions that make the lists: room for n entries with so many texts each. */
int diff_run_reserve(struct diff_run *run, size_t n, size_t texts);

/* Makes a text that lives as long as the run. NULL when out of memory. */
const char *diff_run_text(struct diff_run *run, const char *format, ...) PRINTF_LIKE(2, 3);

/* Sets the build id that the object of an entry had. */
void diff_run_identify(const struct diff_run *run, struct diff_entry *entry);

/* diff_lines.c */
int diff_run_list_lines(const struct input *input, struct diff_run *run);

#endif
