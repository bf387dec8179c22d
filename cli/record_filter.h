/* SPDX-License-Identifier: MIT */
/* --filter as perf record has it: what to trace, and where to stop. */
#ifndef PTAH_CLI_RECORD_FILTER_H
#define PTAH_CLI_RECORD_FILTER_H

#include "command.h"

struct filters {
	struct ptah_record_filter items[PTAH_RANGES];
	size_t count;
};

/*
 * "ACTION START[/SIZE or /END] [@FILE]", several with commas between them; see
 * ptah-record(1). `program`: the file of names without @FILE; `kernel`: they
 * are the kernel's. Returns an exit code, the message printed. filters_free() in
 * any case.
 */
int filters_parse(const struct command *command, const char *text, const char *program, bool kernel,
		  struct filters *filters);
void filters_free(struct filters *filters);

#endif
