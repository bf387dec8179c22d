/* SPDX-License-Identifier: MIT */
/* Runs a recording from its start to its closing line, with signals, --control and progress. */
#ifndef PTAH_CLI_RECORD_RUN_H
#define PTAH_CLI_RECORD_RUN_H

#include "command.h"
#include "record_control.h"

/* When the file is kept. */
enum record_keep {
	RECORD_KEEP = 0,      /* in any case */
	RECORD_KEEP_CRASHES,  /* if a process has crashed, or a snapshot was taken */
	RECORD_KEEP_FAILURES, /* or the command has failed */
};

struct recording_options {
	const struct command *command;
	bool quiet, no_progress, verbose;
	bool chosen; /* the user named the recorder */
	bool dry_run;
	enum record_keep keep;
	int64_t delay_ms; /* before tracing begins; negative: it begins when --control enables it */
	struct control *control;
};

/* Records, and returns the exit code: that of the recorded command if all went well. */
int recording_run(const struct ptah_record_config *config, const struct recording_options *options);

#endif
