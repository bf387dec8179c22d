/* SPDX-License-Identifier: MIT */
/*
 * Exports that make a database of all calls of a recording (`ptah export --to=sqlite`). A database
 * is changed in many places while it is made, so it needs a regular file.
 */
#ifndef PTAH_EXPORT_DATABASE_H
#define PTAH_EXPORT_DATABASE_H

#include "output/names.h"

#include <ptah/calls.h>

/* Which branches become rows, too. */
enum export_branches {
	EXPORT_BRANCHES_NONE,
	EXPORT_BRANCHES_CALLS, /* calls and returns */
	EXPORT_BRANCHES_ALL,
};

struct export_database {
	const char *path; /* of the file; written under another name, and renamed at the end */
	const struct ptah_session *session;
	struct names *names;
	const struct ptah_call_reader_config *reader;
	enum export_branches branches;
	const char *recording; /* the name of the recording */
	/* Called now and then with the trace bytes done. False (Ctrl-C): what was read so far is
	 * given up, and no file is left. */
	bool (*step)(void *context, uint64_t bytes);
	void *context;
	/* Results. */
	uint64_t errors; /* in the trace */
	uint64_t calls;
};

#endif
