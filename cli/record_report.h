/* SPDX-License-Identifier: MIT */
/* A recording that runs, and what it says on standard error. */
#ifndef PTAH_CLI_RECORD_REPORT_H
#define PTAH_CLI_RECORD_REPORT_H

#include "record_run.h"

struct run {
	const struct ptah_record_config *config;
	const struct recording_options *options;
	struct ptah_recorder *r;
	struct ptah_record_status status;
	double started, drawn, interrupted, resume_at; /* resume_at: 0: never */
	unsigned interrupts;
	bool shown; /* the progress line */
	bool end;   /* it is to end now */
};

/* Takes the progress line away. */
void record_erase(struct run *run);

/* A remark in perf's manner. */
void record_say(struct run *run, const char *format, ...) PRINTF_LIKE(2, 3);

/* The progress line, when it is time for one. */
void record_draw(struct run *run);

/* Which recorder it is; its processor and clock; how it ended, and what was lost. */
void record_tell_choice(struct run *run);
void record_tell_metadata(struct run *run);
void record_tell_result(struct run *run);

/* Why it failed, and what to do about it. Returns an exit code. */
int record_failed(const struct run *run, int status, enum ptah_record_problem problem,
		  const char *sentence);

#endif
