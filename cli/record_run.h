/* SPDX-License-Identifier: MIT */
/* A recording from its start to its closing line: signals, control, progress. */
#ifndef PTAH_CLI_RECORD_RUN_H
#define PTAH_CLI_RECORD_RUN_H

#include "command.h"
#include "record_control.h"

struct recording_options {
	const struct command *command;
	bool quiet, no_progress, verbose;
	bool chosen; /* the user named the recorder */
	bool dry_run;
	int64_t delay_ms; /* until tracing begins; negative: until it is enabled */
	struct control *control;
};

/* All of it. Returns the exit code. */
int recording_run(const struct ptah_record_config *config, const struct recording_options *options);

#endif
