/* SPDX-License-Identifier: MIT */
/*
 * A recording with samples in place of its trace (ptah inject): what perf's tools read that cannot
 * decode a trace, or not this one.
 */
#ifndef PTAH_EXPORT_INJECT_H
#define PTAH_EXPORT_INJECT_H

#include "export/itrace.h"

struct inject {
	const char *input;  /* perf.data, the one of the session */
	const char *output; /* NULL: standard output */
	const struct ptah_session *session;
	struct itrace itrace;
	bool strip; /* leave out the samples that the recording has */
	unsigned jobs;
	bool (*wants)(void *context, size_t stream);
	/* Called now and then with the trace bytes done; false (Ctrl-C) ends the work: no file is
	 * left. */
	bool (*step)(void *context, uint64_t bytes);
	void *context;
	bool (*given_up)(void); /* as of struct perfdata_writer_config */
	/* Results */
	uint64_t samples, skipped; /* samples made, and left out at the beginning */
	uint64_t instructions;	   /* that they stand for */
	uint64_t errors;
	bool stopped;
};

/* Writes the output. Returns 0, or an error with a message. */
int inject_run(struct inject *inject, struct ptah_message *why);

#endif
