/* SPDX-License-Identifier: MIT */
/* One of the two runs that `ptah diff` compares: its counts, as entries of src/output/diff.h. */
#ifndef PTAH_CLI_DIFF_RUN_H
#define PTAH_CLI_DIFF_RUN_H

#include "input.h"
#include "output/diff_list.h"

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
	struct diff_list list;
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

#endif
