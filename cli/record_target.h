/* SPDX-License-Identifier: MIT */
/* What to record, as in perf record: a command, or -p, -t, -a, -C. */
#ifndef PTAH_CLI_RECORD_TARGET_H
#define PTAH_CLI_RECORD_TARGET_H

#include "command.h"

struct target_options {
	const char *pids, *tids, *cpus; /* lists; NULL: none */
	bool all_cpus, per_thread;
};

/*
 * Sets the target of `config`. The command must already be set in it. Returns an
 * exit code, and has printed a message if it is not 0. The caller calls
 * target_free() in any case.
 */
int target_parse(const struct command *command, const struct target_options *o,
		 struct ptah_record_config *config);
void target_free(struct ptah_record_config *config);

#endif
