/* SPDX-License-Identifier: MIT */
/* A file of SQLite that is written once (sqlite_file.h), by SQLite's prepared statements. */
#include "export/sqlite_file.h"

#include "export/utf8.h"
#include "output/temporary.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sqlite_file {
	const struct sqlite_schema *schema;
	sqlite3 *db;
	char *path, *temporary;
	sqlite3_stmt **insert; /* of each table */
	sqlite3_stmt *find_path;
	int error; /* SQLite's, the first one */
	char *sentence;
};

static void note(struct sqlite_file *f, int error)
{
	if (f->error || error == SQLITE_OK)
		return;
	f->error = error;
	f->sentence = strdup(f->db ? sqlite3_errmsg(f->db) : sqlite3_errstr(error));
}

static void execute(struct sqlite_file *f, const char *statement)
{
	if (!f->error)
		note(f, sqlite3_exec(f->db, statement, NULL, NULL, NULL));
}

static void prepare(struct sqlite_file *f, const char *statement, sqlite3_stmt **prepared)
{
	if (!f->error)
		note(f, sqlite3_prepare_v3(f->db, statement, -1, SQLITE_PREPARE_PERSISTENT,
					   prepared, NULL));
}

static void make_table(struct sqlite_file *f, int i)
{
	const struct sqlite_table_def *t = &f->schema->tables[i];
	char statement[2048];
	int n;

	snprintf(statement, sizeof(statement), "CREATE TABLE %s (%s)", t->name, t->columns);
	execute(f, statement);
	n = snprintf(statement, sizeof(statement), "INSERT INTO %s VALUES (?", t->name);
	for (int k = 1; k < t->count; k++)
		n += snprintf(statement + n, sizeof(statement) - (size_t)n, ", ?");
	snprintf(statement + n, sizeof(statement) - (size_t)n, ")");
	prepare(f, statement, &f->insert[i]);
}

/*
 * All rows are one transaction without a journal: a file that is not completed is removed anyway.
 * Pages beyond the cache are written to the file, so that memory is bounded.
 */
static const char *const settings[] = {
    "PRAGMA journal_mode = OFF",       "PRAGMA synchronous = OFF", "PRAGMA cache_size = -65536",
    "PRAGMA locking_mode = EXCLUSIVE", "PRAGMA temp_store = FILE", "BEGIN",
};

static int give_up(struct sqlite_file *f, struct ptah_message *why)
{
	const int status = f->error == SQLITE_NOMEM ? PTAH_E_NOMEM : PTAH_E_SYSTEM;

	snprintf(why->text, sizeof(why->text), "%s: cannot write the database: %s%s", f->path,
		 f->sentence ? f->sentence : "out of memory",
		 f->error == SQLITE_FULL ? "; make room there, or name another file" : "");
	sqlite_file_abort(f);
	return status;
}

/* SQLite opens an empty file like one that it makes itself. */
static int make_file(struct sqlite_file *f)
{
	const int fd = temporary_open(f->path, &f->temporary);

	if (fd >= 0)
		return close(fd);
	f->temporary = NULL;
	return -1;
}

int sqlite_file_open(const char *path, const struct sqlite_schema *schema,
		     struct sqlite_file **file, struct ptah_message *why)
{
	struct sqlite_file *f = calloc(1, sizeof(*f));
	struct stat st;

	if (!f)
		return PTAH_E_NOMEM;
	f->schema = schema;
	f->path = temporary_target(path);
	f->insert = calloc((size_t)schema->count, sizeof(*f->insert));
	if (!f->path || !f->insert) {
		sqlite_file_abort(f);
		return PTAH_E_NOMEM;
	}
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		snprintf(why->text, sizeof(why->text),
			 "%s: a database needs a regular file: name one with -o", path);
		sqlite_file_abort(f);
		return PTAH_E_SYSTEM;
	}
	if (make_file(f)) {
		const int status = ptah_system_message(why, errno, path, "write the database");

		sqlite_file_abort(f);
		return status;
	}
	note(f, sqlite3_open_v2(f->temporary, &f->db,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				NULL));
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		execute(f, settings[i]);
	for (int i = 0; i < schema->count; i++)
		make_table(f, i);
	if (f->error)
		return give_up(f, why);
	*file = f;
	return 0;
}

static void step_statement(struct sqlite_file *f, sqlite3_stmt *statement)
{
	const int result = sqlite3_step(statement);

	if (result != SQLITE_DONE && result != SQLITE_ROW)
		note(f, result);
}

/* Readers refuse text that is not UTF-8, and names in untrusted files are any bytes. */
static void bind_text(struct sqlite_file *f, sqlite3_stmt *statement, int i, const char *text)
{
	char *copy = text ? utf8_copy(text) : NULL;

	if (text && !copy)
		note(f, SQLITE_NOMEM);
	else
		note(f, sqlite3_bind_text(statement, i, copy, -1, free));
}

void sqlite_file_add(struct sqlite_file *f, int table, const char *kinds, ...)
{
	sqlite3_stmt *const insert = f->insert[table];
	const void *bytes;
	va_list values;
	int i = 1;

	if (f->error)
		return;
	va_start(values, kinds);
	for (; *kinds; kinds++, i++) {
		if (*kinds == 'i')
			note(f, sqlite3_bind_int64(insert, i, va_arg(values, int64_t)));
		else if (*kinds == 's')
			bind_text(f, insert, i, va_arg(values, const char *));
		else if (*kinds == 'b') {
			bytes = va_arg(values, const void *);
			note(f, sqlite3_bind_blob64(insert, i, bytes, va_arg(values, size_t),
						    SQLITE_TRANSIENT));
		} else if (*kinds == '0')
			note(f, sqlite3_bind_int(insert, i, 0));
		else
			note(f, sqlite3_bind_null(insert, i));
	}
	va_end(values);
	for (; i <= f->schema->tables[table].count; i++)
		note(f, sqlite3_bind_null(insert, i));
	step_statement(f, insert);
	sqlite3_reset(insert);
}

void sqlite_file_index_paths(struct sqlite_file *f)
{
	execute(f, "CREATE INDEX call_paths_idx ON call_paths (parent_id, symbol_id)");
	prepare(f, "SELECT id FROM call_paths WHERE parent_id = ? AND symbol_id = ?",
		&f->find_path);
}

int64_t sqlite_file_find_path(struct sqlite_file *f, int64_t parent, int64_t symbol)
{
	int64_t id;

	if (f->error || !f->find_path)
		return 0;
	sqlite3_bind_int64(f->find_path, 1, parent);
	sqlite3_bind_int64(f->find_path, 2, symbol);
	step_statement(f, f->find_path);
	id = sqlite3_column_int64(f->find_path, 0);
	sqlite3_reset(f->find_path);
	return id;
}

struct sqlite3 *sqlite_file_database(struct sqlite_file *f)
{
	return f->error ? NULL : f->db;
}

void sqlite_file_note(struct sqlite_file *f, int error)
{
	note(f, error);
}

bool sqlite_file_failed(const struct sqlite_file *f)
{
	return f->error;
}

static void close_database(struct sqlite_file *f)
{
	for (int i = 0; f->insert && i < f->schema->count; i++) {
		sqlite3_finalize(f->insert[i]);
		f->insert[i] = NULL;
	}
	sqlite3_finalize(f->find_path);
	note(f, sqlite3_close(f->db));
	f->db = NULL;
	f->find_path = NULL;
}

static void free_file(struct sqlite_file *f)
{
	free(f->sentence);
	free(f->insert);
	free(f->temporary);
	free(f->path);
	free(f);
}

int sqlite_file_close(struct sqlite_file *f, struct ptah_message *why)
{
	int status = 0;

	for (size_t i = 0; f->schema->indexes[i]; i++)
		execute(f, f->schema->indexes[i]);
	for (size_t i = 0; f->schema->views[i]; i++)
		execute(f, f->schema->views[i]);
	execute(f, "COMMIT");
	close_database(f);
	if (f->error)
		return give_up(f, why);
	if (rename(f->temporary, f->path)) {
		status = ptah_system_message(why, errno, f->path, "rename to");
		unlink(f->temporary);
	}
	free_file(f);
	return status;
}

void sqlite_file_abort(struct sqlite_file *f)
{
	close_database(f);
	if (f->temporary)
		unlink(f->temporary);
	free_file(f);
}
