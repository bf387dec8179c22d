/* SPDX-License-Identifier: MIT */
/* What `ptah cover` does with tables of coverage (export/cover_table.h). Both return exit codes. */
#ifndef PTAH_CLI_COVER_PROCESSES_H
#define PTAH_CLI_COVER_PROCESSES_H

#include "input.h"

/* Writes the table of a recording to the file of --output. */
int cover_write_processes(const struct command *command, const struct input *input,
			  struct ptah_session *session);

/*
 * Prints which processes of a table reached the places: names separated by commas, or "-": standard
 * input has one in each line.
 */
int cover_ask_processes(const struct command *command, const struct input *input, const char *table,
			const char *places);

#endif
