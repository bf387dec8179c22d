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

/*
 * What follows a recording while it is made, in place of a file and of what is printed about it.
 * Its functions are called by the thread that records.
 */
struct recording_watch {
	void *context;
	/* The recorder exists, and nothing runs yet. */
	void (*begin)(void *context, const struct ptah_recorder *r);
	/* After each look at the recorder. 1; 0: the recording is to end, and its command too; or
	 * an error, with which it ends. */
	int (*look)(void *context, const struct ptah_recorder *r,
		    const struct ptah_record_status *status);
	/* The recorder has delivered everything; `status` < 0: it has failed. Prints the result,
	 * and returns an exit code. */
	int (*end)(void *context, const struct ptah_record_status *result, int status);
	/* The sentence of an error of `look` or of the sink; "" if there was none. */
	const char *(*why)(void *context);
	/* SIGUSR2, or a line of --control: what happened last is worth keeping. False: it was not
	 * kept. NULL: nobody can. */
	bool (*request)(void *context, const char *why);
};

struct recording_options {
	const struct command *command;
	bool quiet, no_progress, verbose;
	bool chosen; /* the user named the recorder */
	bool dry_run;
	enum record_keep keep;
	int64_t delay_ms; /* before tracing begins; negative: it begins when --control enables it */
	struct control *control;	     /* NULL: none */
	const struct recording_watch *watch; /* NULL: the recording goes into a file */
};

/*
 * From now on signals are noted, and recording_run() ends by them. It calls this itself; whoever
 * creates files before does so first, so that none is left half-written. `command`: one will run.
 */
void recording_hold_signals(bool command);

/* Records, and returns the exit code: that of the recorded command if all went well. */
int recording_run(const struct ptah_record_config *config, const struct recording_options *options);

#endif
