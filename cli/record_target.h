/* SPDX-License-Identifier: MIT */
/* What to record, as perf record has it: a command, -p, -t, -a or -C. */
#ifndef PTAH_CLI_RECORD_TARGET_H
#define PTAH_CLI_RECORD_TARGET_H

#include "command.h"

struct target_options {
	const char *pids, *tids, *cpus; /* lists; NULL: none */
	bool all_cpus, per_thread;
};

/*
 * Into config's target and ids, which are to be freed with target_free() in any
 * case. config->argv is set already. Returns an exit code, the message printed.
 */
int target_parse(const struct command *command, const struct target_options *o,
		 struct ptah_record_config *config);
void target_free(struct ptah_record_config *config);

#endif
