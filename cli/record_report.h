/* SPDX-License-Identifier: MIT */
/* What a running recording prints on standard error. */
#ifndef PTAH_CLI_RECORD_REPORT_H
#define PTAH_CLI_RECORD_REPORT_H

#include "record_run.h"

struct run {
	const struct ptah_record_config *config;
	const struct recording_options *options;
	struct ptah_recorder *r;
	struct ptah_record_status status;
	double started, drawn, resume_at; /* seconds; resume_at 0: never */
	int interrupts;			  /* strokes of Ctrl-C that were heeded */
	bool shown;			  /* the progress line is on the screen */
	bool end;			  /* the recording is to end now */
	bool kept;			  /* the file is complete; otherwise it is removed */
	bool end_command;		  /* the recorded command is to end too */
	bool unwatched;			  /* because who watches it has ended */
	uint64_t space; /* bytes that were free for the file at the beginning; 0: not known */
	bool warned;	/* that little space is left */
};

/* Removes the progress line. */
void record_erase(struct run *run);

/* Prints a remark in perf's form, "[ ptah record: ... ]", unless --quiet is given. */
void record_remark(struct run *run, const char *format, ...) PRINTF_LIKE(2, 3);

/* Prints the progress line, if the last one is a quarter of a second old. */
void record_draw(struct run *run);

/* Warns once, when a tenth of the space that was free for the file at the beginning is left. */
void record_watch_space(struct run *run);

/* After a failure: prints how much the file has, if there is one. */
void record_print_kept(struct run *run);

/* Print which recorder was chosen; its processor and clock; the result and what was lost. */
void record_print_choice(struct run *run);
void record_print_metadata(struct run *run);
void record_print_result(struct run *run);
void record_print_losses(struct run *run);

/* Prints why the recording failed and what to do about it. Returns an exit code. */
int record_failed(const struct run *run, int status, enum ptah_record_problem problem,
		  const char *sentence);

#endif
