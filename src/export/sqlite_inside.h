/* SPDX-License-Identifier: MIT */
/*
 * What the files of an SQLite export share: sqlite.c writes calls, sqlite_branches.c single
 * branches.
 */
#ifndef PTAH_EXPORT_SQLITE_INSIDE_H
#define PTAH_EXPORT_SQLITE_INSIDE_H

#include "export/database.h"
#include "export/row_ids.h"
#include "export/sqlite_file.h"

/* An open call. */
struct frame {
	int64_t id, path, symbol;
	uint64_t site, time;
	uint8_t begun;
	bool recursive;
};

struct database_thread {
	int32_t pid, tid;
	int64_t time;	   /* of its first call */
	int64_t row, comm; /* 0: nothing of it was written yet */
	struct frame *frames;
	size_t count, room;
};

struct database_writer {
	struct export_database *db;
	struct sqlite_file *file;
	struct database_thread *threads; /* by their numbers */
	size_t thread_count;
	struct text_ids dsos, symbols;
	struct pair_ids rows;	   /* pid and tid -> threads.id */
	struct pair_ids runs;	   /* pid and tid: it has a comm already */
	struct pair_ids functions; /* space and address -> symbols.id */
	struct pair_ids paths;	   /* parent and symbol -> call_paths.id */
	struct pair_ids open;	   /* thread and symbol -> open calls + 1 */
	int64_t last_thread, last_call, last_path, last_comm, last_loss, last_note;
	bool stopped; /* by Ctrl-C */
	bool indexed; /* paths that are not in `paths` may be in the file */
	uint32_t mult, shift;
};

/* sqlite.c */
int64_t sqlite_time(const struct database_writer *w, uint64_t tsc);
/* The rows of the file and of the function that a name is of. Negative: out of memory. */
int64_t sqlite_dso(struct database_writer *w, int32_t space, const struct name *name);
int64_t sqlite_symbol(struct database_writer *w, int32_t space, const struct name *name);
/* The row of a thread. Negative: out of memory. */
int64_t sqlite_thread(struct database_writer *w, int32_t pid, int32_t tid);

/* sqlite_branches.c: rows of samples, from all streams. */
int sqlite_add_branches(struct database_writer *w);
/* The names of all kinds of branches. */
void sqlite_add_branch_types(struct sqlite_file *file);

#endif
