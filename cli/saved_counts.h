/* SPDX-License-Identifier: MIT */
/* Counts from what the command line names: recordings, and counts that were saved. */
#ifndef PTAH_CLI_SAVED_COUNTS_H
#define PTAH_CLI_SAVED_COUNTS_H

#include "input.h"

/*
 * Adds up the recording or saved counts of the input's options, or all the
 * files argv[0..argc). Returns an exit code, and has then said why; *counts is
 * the caller's when it is 0.
 */
int counts_read(const struct command *command, struct input *input, int argc, char **argv,
		struct ptah_counts **counts);

/*
 * The file for counts_write(), which keeps it when `keep`. Both return an exit
 * code; there is never half a file.
 */
int counts_create(const struct command *command, const char *path, struct out **out);
int counts_write(const struct command *command, const struct ptah_counts *counts, struct out *out,
		 bool keep);

#endif
