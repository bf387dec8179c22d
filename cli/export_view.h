/* SPDX-License-Identifier: MIT */
/* What the parts of `ptah export` share: its options, and a driver for each source of a format. */
#ifndef PTAH_CLI_EXPORT_VIEW_H
#define PTAH_CLI_EXPORT_VIEW_H

#include "input.h"

#include "export/export.h"

enum export_clock {
	EXPORT_CLOCK_DEFAULT, /* time where the recording has it */
	EXPORT_CLOCK_TIME,
	EXPORT_CLOCK_INSTRUCTIONS,
};

struct export_options {
	struct input input;
	int to;	      /* the number of the format + 1; 0: help; -1: not given */
	int clock;    /* enum export_clock; of timelines */
	int branches; /* enum export_branches; of databases */
	bool stubs;
	/* Of profiles for compilers */
	const char *dso; /* whose profile: a path or its last part. NULL: the program's */
	bool predictor;
	int value, by;	    /* enum ptah_call_value, enum graph_by; of trees */
	uint64_t max_stack; /* of trees and timelines; 0: the default */
	/* Of coverage: patterns of names of source files, with commas between them, or NULL */
	const char *include, *exclude;
};

struct exporting {
	const struct export_options *options;
	const struct export_format *format;
	struct ptah_session *session;
	struct names *names;
	struct out *out; /* NULL: the driver writes the file of --output itself */
	uint64_t errors; /* decoding errors: what they left out is missing in the output */
	bool found;	 /* something of --function ran */
};

/*
 * The drivers, each in its file. They read the recording, write the output and set `errors` and
 * `found`. They return 0 or an error (enum ptah_error); or a positive exit code, and then they have
 * printed a message.
 */
int export_timeline(struct exporting *e); /* export_timeline.c */
int export_database(struct exporting *e); /* export_database.c */
int export_tree(struct exporting *e);	  /* export_tree.c */
int export_costs(struct exporting *e);	  /* export_costs.c */

/*
 * The same for formats that are made of counts. The files are argv[0..argc), each a recording or
 * saved counts, or what the input's options name. Returns an exit code.
 */
int export_addresses(struct export_options *options, const struct export_format *format, int argc,
		     char **argv); /* export_addresses.c */
int export_counts(struct export_options *options, const struct export_format *format, int argc,
		  char **argv); /* export_lines.c: of EXPORT_LINES and EXPORT_BLOCKS */

/*
 * Writes counts in one of the latter formats, for another command. `names` use the counts. The
 * caller closes `out`. Returns an exit code.
 */
int export_write_counts(const struct command *command, const struct export_options *options,
			const struct export_format *format, const struct ptah_counts *counts,
			struct names *names, struct out *out);

#endif
