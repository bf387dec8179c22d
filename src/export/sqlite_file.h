/* SPDX-License-Identifier: MIT */
/*
 * A file of SQLite that is written once: its tables, their INSERT statements, and the views. The
 * first failure is remembered, and later calls do nothing.
 */
#ifndef PTAH_EXPORT_SQLITE_FILE_H
#define PTAH_EXPORT_SQLITE_FILE_H

#include <ptah/session.h>

struct sqlite3;
struct sqlite_file;

/* A table's columns as SQL has them, and how many there are. */
struct sqlite_table_def {
	const char *name, *columns;
	int count;
};

/* What a file consists of. */
struct sqlite_schema {
	const struct sqlite_table_def *tables;
	int count;
	const char *const *indexes; /* what is done after the last row; NULL-terminated */
	const char *const *views;   /* CREATE VIEW statements; likewise */
};

/* The tables of an export of calls, in the order of the schema. */
enum sqlite_table {
	SQLITE_SELECTED_EVENTS,
	SQLITE_MACHINES,
	SQLITE_THREADS,
	SQLITE_COMMS,
	SQLITE_COMM_THREADS,
	SQLITE_DSOS,
	SQLITE_SYMBOLS,
	SQLITE_BRANCH_TYPES,
	SQLITE_SAMPLES,
	SQLITE_CALL_PATHS,
	SQLITE_CALLS,
	SQLITE_CALL_BEGINS,
	SQLITE_CALL_ENDS,
	SQLITE_LOSSES,
	SQLITE_RECORDING,
	SQLITE_TABLES
};

extern const struct sqlite_schema sqlite_schema; /* sqlite_schema.c */

/* The file is made with its tables under another name (output/temporary.h). */
int sqlite_file_open(const char *path, const struct sqlite_schema *schema,
		     struct sqlite_file **file, struct ptah_message *why);

/*
 * Inserts a row into a table of the schema. `kinds` has a letter for each column: i an int64_t, s a
 * string (const char *, NULL for NULL), b bytes (const void * and size_t), 0 the number 0, - for
 * NULL. Columns that are left out are NULL.
 */
void sqlite_file_add(struct sqlite_file *file, int table, const char *kinds, ...);

/*
 * For statements that read what was written: the database, NULL after a failure; and an error of
 * such a statement.
 */
struct sqlite3 *sqlite_file_database(struct sqlite_file *file);
void sqlite_file_note(struct sqlite_file *file, int error);

/* From now on rows of call_paths are found by parent and symbol. */
void sqlite_file_index_paths(struct sqlite_file *file);
/* The number of such a row, 0 if there is none. */
int64_t sqlite_file_find_path(struct sqlite_file *file, int64_t parent, int64_t symbol);

bool sqlite_file_failed(const struct sqlite_file *file);

/* Adds indexes and views, renames the file, frees. */
int sqlite_file_close(struct sqlite_file *file, struct ptah_message *why);
/* Removes the file, frees. */
void sqlite_file_abort(struct sqlite_file *file);

#endif
