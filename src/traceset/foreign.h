/* SPDX-License-Identifier: MIT */
/*
 * The folders and files of other systems that become trace sets. Each system has a file of its own
 * in this folder, with one struct foreign_reader; foreign.c has the table of them.
 */
#ifndef PTAH_TRACESET_FOREIGN_H
#define PTAH_TRACESET_FOREIGN_H

#include "traceset/set.h"

struct foreign_reader {
	const char *name; /* "LLDB trace bundle" */
	/*
	 * Whether the path, an existing folder or regular file, is of this system. Looks at names
	 * and at the first bytes of files, never at all of their content.
	 */
	bool (*is)(const char *path);
	/*
	 * Fills an empty set, whose folder is `path` or, for a file, the folder that it lies in. On
	 * failure *why, which may be NULL, is the reason.
	 */
	int (*read)(const char *path, struct ptah_trace_set *set, struct ptah_message *why);
};

extern const struct foreign_reader foreign_drpttracer; /* drpttracer.c */
extern const struct foreign_reader foreign_lldb;       /* lldb.c */
extern const struct foreign_reader foreign_insntrace;  /* insntrace.c */
extern const struct foreign_reader foreign_hwt;	       /* hwt.c */
extern const struct foreign_reader foreign_dumps;      /* dumps.c */
extern const struct foreign_reader foreign_crash_dump; /* crash_dump.c */

/*
 * Adds the packets of a folder of dumps (dumps.c): the number in a file's name is that of a thread,
 * from 0 on, or of a processor.
 */
int dumps_add_streams(const char *path, struct ptah_trace_set *set, bool of_threads,
		      struct ptah_message *why);

/* The reader for this path; NULL: none. */
const struct foreign_reader *foreign_find(const char *path);

#endif
