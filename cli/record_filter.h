/* SPDX-License-Identifier: MIT */
/* --filter, as in perf record: the address ranges to trace, and where to stop. */
#ifndef PTAH_CLI_RECORD_FILTER_H
#define PTAH_CLI_RECORD_FILTER_H

#include "command.h"

struct filters {
	struct ptah_record_filter items[PTAH_RANGES];
	size_t count;
};

/*
 * Parses filters (<ptah/session.h>) with commas between them, and looks their names up. A
 * name without a file is the kernel's if `kernel`, or else that of the file
 * `program` (NULL: unknown). Returns an exit code, and has printed a message if it
 * is not 0. The caller calls filters_free() in any case.
 */
int filters_parse(const struct command *command, const char *text, const char *program, bool kernel,
		  struct filters *filters);
void filters_free(struct filters *filters);

/*
 * Finds the function FUNCTION[@FILE] that the text of `option` names. The caller frees filter->path.
 */
int filters_find_function(const struct command *command, const char *option, const char *text,
			  const char *program, struct ptah_record_filter *filter);

#endif
