/* SPDX-License-Identifier: MIT */
/*
 * A table of coverage: which process reached which function, block and line of source code, as a
 * database of SQLite. cover_query.h asks it; docs/live.md describes its tables and views.
 *
 *	cover_table_open("tests.db", session, names, &table, &why);
 *	for each stream, as often as there are counts of it that were not added before
 *		cover_table_add(table, stream, profile);
 *	processes = cover_table_processes(table, &n);
 *	set what is known of commands and how they ended;
 *	cover_table_close(table, &why);
 *
 * What a process reached goes into the file at once. In memory is what is known of the code that
 * ran, each block once, and some hundred bytes for each process: a million blocks take about 50 MB,
 * and while the file is completed 30 MB more, however many processes there were.
 */
#ifndef PTAH_EXPORT_COVER_TABLE_H
#define PTAH_EXPORT_COVER_TABLE_H

#include "export/cover_code.h"

/* The processes are programs: one that called execve(2) is several of one pid. */
struct cover_process {
	int32_t pid; /* -1: not known */
	char comm[16];
	char *command;	 /* its arguments, with spaces between; NULL: not known. On the heap */
	int wait_status; /* as waitpid() gives it; -1: not known */
	/* Those of its streams; of streams that several processes share: 0. */
	uint64_t instructions, errors;
	/* Which process of the session it is: that of a stream, or of a space if that is SIZE_MAX
	 */
	size_t stream;
	int32_t space;
	size_t before; /* another process of this pid, SIZE_MAX: there is none */
};

struct cover_table;

/* What the table needs must live as long. The file is made under another name. 0 or an error. */
int cover_table_open(const char *path, const struct ptah_session *session, struct names *names,
		     struct cover_table **table, struct ptah_message *why);

/* Adds what was counted of a stream. 0 or an error. */
int cover_table_add(struct cover_table *table, size_t stream, struct ptah_profile *profile);

/* The processes so far, in the order in which their counts came. */
struct cover_process *cover_table_processes(struct cover_table *table, size_t *n);

/* The code that ran: to it may be added what does not go into the table. */
struct cover_code *cover_table_code(struct cover_table *table);

/* Completes the file, renames it, and frees the table. 0, or an error with a sentence. */
int cover_table_close(struct cover_table *table, struct ptah_message *why);
/* Removes the file and frees the table. NULL does nothing. */
void cover_table_abort(struct cover_table *table);

/* The tables of the file, in the order of the schema. */
enum cover_tables {
	COVER_TABLE_INFO,
	COVER_TABLE_PROCESSES,
	COVER_TABLE_OBJECTS,
	COVER_TABLE_FUNCTIONS,
	COVER_TABLE_BLOCKS,
	COVER_TABLE_SETS,
	COVER_TABLE_SOURCES,
	COVER_TABLE_LINES,
	COVER_TABLE_LINE_BLOCKS,
	COVER_TABLE_COUNTS,
	COVER_TABLE_MAX
};

struct sqlite_schema;
extern const struct sqlite_schema cover_schema; /* cover_schema.c */

/* The value of `format` in the table info. */
#define COVER_FORMAT "ptah coverage 1"

#endif
