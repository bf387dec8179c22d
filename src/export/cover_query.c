/* SPDX-License-Identifier: MIT */
/* Asks a table of coverage by SQL, and adds up counts (cover_query.h). */
#include "export/cover_query.h"

#include "base/order.h"
#include "export/cover_blob.h"
#include "export/cover_table.h"
#include "export/sqlite_file.h"
#include "support/list.h"

#include <stdlib.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

/* The most blocks of one question. */
#define MOST (UINT64_C(1) << 22)
/* Answers that are added before those that are there twice are removed. */
#define MANY 65536

/* A block of a place. */
struct wanted {
	uint32_t block;
	uint64_t set;
	uint64_t count; /* of the process that is looked at */
};

/*
 * Counts of a place are added up in a sweep over its addresses: a block begins or ends, or it is
 * asked how often the address ran. Events of one unit, a line in a function, are adjacent.
 */
struct event {
	uint64_t unit, part; /* the line or function, and the function */
	uint64_t address;
	enum event_kind {
		EVENT_END,
		EVENT_BEGIN,
		EVENT_POINT,
	} kind;
	uint32_t wanted; /* index */
};

struct cover_query {
	sqlite3 *db;
	const char *path;
	uint32_t most; /* the greatest number of a block, and how many there are */
	uint64_t units;
	struct wanted *wanted;
	size_t wanted_count, wanted_room;
	struct event *events;
	size_t event_count, event_room;
	struct cover_answer *answers;
	size_t count, room;
	size_t merged; /* answers that are there once */
};

static int failed(struct cover_query *q, struct ptah_message *why)
{
	snprintf(why->text, sizeof(why->text), "%s: %s", q->path, sqlite3_errmsg(q->db));
	return sqlite3_errcode(q->db) == SQLITE_NOMEM ? PTAH_E_NOMEM : PTAH_E_BAD_FILE;
}

static int no_table(const struct cover_query *q, struct ptah_message *why)
{
	snprintf(why->text, sizeof(why->text),
		 "%s: it is no table of coverage: 'ptah live --per-process --cover=%s' writes one",
		 q->path, q->path);
	return PTAH_E_BAD_FILE;
}

static int prepare(struct cover_query *q, const char *sql, sqlite3_stmt **s,
		   struct ptah_message *why)
{
	return sqlite3_prepare_v2(q->db, sql, -1, s, NULL) == SQLITE_OK ? 0 : failed(q, why);
}

/* Ends a statement whose last result was not a row. */
static int end_statement(struct cover_query *q, sqlite3_stmt *s, int result,
			 struct ptah_message *why)
{
	const int status = result == SQLITE_DONE ? 0 : failed(q, why);

	sqlite3_finalize(s);
	return status;
}

/* Opening */

/*
 * The tables must be as they are written: views, virtual tables and generated columns could keep
 * the reader busy for ever.
 */
static int check_tables(struct cover_query *q, struct ptah_message *why)
{
	char wanted[2048];
	sqlite3_stmt *s = NULL;
	int status =
	    prepare(q, "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", &s, why);

	for (int i = 0; i < cover_schema.count && status >= 0; i++) {
		const struct sqlite_table_def *t = &cover_schema.tables[i];
		const char *sql;

		snprintf(wanted, sizeof(wanted), "CREATE TABLE %s (%s)", t->name, t->columns);
		sqlite3_reset(s);
		sqlite3_bind_text(s, 1, t->name, -1, SQLITE_STATIC);
		sql =
		    sqlite3_step(s) == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
		if (!sql || strcmp(sql, wanted) != 0)
			status = no_table(q, why);
	}
	sqlite3_finalize(s);
	return status;
}

/* The only value of a statement; `otherwise` if there is none. */
static int64_t ask_number(struct cover_query *q, const char *sql, int64_t otherwise)
{
	sqlite3_stmt *s;
	int64_t value = otherwise;

	if (sqlite3_prepare_v2(q->db, sql, -1, &s, NULL) != SQLITE_OK)
		return otherwise;
	if (sqlite3_step(s) == SQLITE_ROW)
		value = sqlite3_column_int64(s, 0);
	sqlite3_finalize(s);
	return value;
}

static int open_database(struct cover_query *q, struct ptah_message *why)
{
	int64_t most;

	if (sqlite3_open_v2(q->path, &q->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
	    SQLITE_OK)
		return failed(q, why);
	sqlite3_db_config(q->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(q->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	/* The first question of all fails where the file is none of SQLite. */
	if (ask_number(q, "SELECT count(*) FROM sqlite_schema", -1) < 0)
		return sqlite3_errcode(q->db) == SQLITE_NOTADB ? no_table(q, why) : failed(q, why);
	if (check_tables(q, why) < 0)
		return PTAH_E_BAD_FILE;
	if (!ask_number(q,
			"SELECT count(*) FROM info WHERE name = 'format' AND value = "
			"'" COVER_FORMAT "'",
			0)) {
		snprintf(why->text, sizeof(why->text),
			 "%s: another version of Ptah wrote this table", q->path);
		return PTAH_E_UNSUPPORTED;
	}
	/* Their numbers are 1, 2, 3 and so on. */
	most = ask_number(q, "SELECT count(*) FROM blocks", 0);
	q->most = most < 0 ? 0 : most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
	return 0;
}

int cover_query_open(const char *path, struct cover_query **query, struct ptah_message *why)
{
	struct cover_query *q = calloc(1, sizeof(*q));
	int status;

	if (!q)
		return PTAH_E_NOMEM;
	q->path = path;
	status = open_database(q, why);
	if (status < 0)
		cover_query_free(q);
	else
		*query = q;
	return status;
}

void cover_query_free(struct cover_query *q)
{
	if (!q)
		return;
	for (size_t i = 0; i < q->count; i++) {
		free((char *)q->answers[i].comm);
		free((char *)q->answers[i].command);
	}
	free(q->answers);
	free(q->wanted);
	free(q->events);
	sqlite3_close(q->db);
	free(q);
}

/* Places */

static bool add_event(struct cover_query *q, const struct event *e)
{
	if (!LIST_ROOM(q->events, q->event_count, q->event_room))
		return false;
	q->events[q->event_count++] = *e;
	return true;
}

/* A row: unit, function, number of the block, its set, its beginning and end, the point. */
static int take_row(struct cover_query *q, sqlite3_stmt *s)
{
	struct event e = {.unit = q->units + (uint64_t)sqlite3_column_int64(s, 0),
			  .part = (uint64_t)sqlite3_column_int64(s, 1),
			  .wanted = (uint32_t)q->wanted_count};
	const int64_t block = sqlite3_column_int64(s, 2);

	if (q->wanted_count >= MOST)
		return PTAH_E_LIMIT;
	if (block <= 0 || block > UINT32_MAX)
		return PTAH_E_BAD_FILE;
	if (!LIST_ROOM(q->wanted, q->wanted_count, q->wanted_room))
		return PTAH_E_NOMEM;
	q->wanted[q->wanted_count++] =
	    (struct wanted){.block = (uint32_t)block, .set = (uint64_t)sqlite3_column_int64(s, 3)};
	for (int kind = EVENT_END; kind <= EVENT_POINT; kind++) {
		e.kind = (enum event_kind)kind;
		e.address = (uint64_t)sqlite3_column_int64(s, kind == EVENT_END	    ? 5
							      : kind == EVENT_BEGIN ? 4
										    : 6);
		if (!add_event(q, &e))
			return PTAH_E_NOMEM;
	}
	return 0;
}

/* Takes the rows of a statement, and ends it. 1; 0: there was none; or an error. */
static int take_rows(struct cover_query *q, sqlite3_stmt *s, struct ptah_message *why)
{
	int found = 0, status = 0, result = SQLITE_DONE;

	while (status >= 0 && (result = sqlite3_step(s)) == SQLITE_ROW) {
		found = 1;
		if (sqlite3_column_type(s, 2) != SQLITE_NULL)
			status = take_row(q, s);
	}
	/* Numbers of lines and functions of another place are other units. */
	q->units += UINT64_C(1) << 32;
	if (status < 0) {
		sqlite3_finalize(s);
		snprintf(why->text, sizeof(why->text), "%s: %s", q->path,
			 status == PTAH_E_LIMIT ? "the places have too many blocks"
						: ptah_strerror(status));
		return status;
	}
	status = end_statement(q, s, result, why);
	return status < 0 ? status : found;
}

static int add_lines(struct cover_query *q, const char *file, size_t size, uint64_t first,
		     uint64_t last, struct ptah_message *why)
{
	sqlite3_stmt *s;
	int status = prepare(q,
			     "SELECT l.id, b.function_id, b.id, b.set_id, b.at, b.end, k.at "
			     "FROM sources o JOIN lines l ON l.source_id = o.id "
			     "AND l.line BETWEEN ?2 AND ?3 "
			     "LEFT JOIN line_blocks k ON k.line_id = l.id "
			     "LEFT JOIN blocks b ON b.id = k.block_id "
			     "WHERE o.path = ?1 OR substr(o.path, -length(?1) - 1) = '/' || ?1",
			     &s, why);

	if (status < 0)
		return status;
	sqlite3_bind_text(s, 1, file, (int)size, SQLITE_STATIC);
	sqlite3_bind_int64(s, 2, (int64_t)first);
	sqlite3_bind_int64(s, 3, (int64_t)last);
	return take_rows(q, s, why);
}

static int add_function(struct cover_query *q, const char *name, struct ptah_message *why)
{
	sqlite3_stmt *s;
	int status = prepare(q,
			     "SELECT f.id, f.id, b.id, b.set_id, b.at, b.end, f.at "
			     "FROM functions f JOIN blocks b ON b.function_id = f.id "
			     "WHERE f.name = ?1 OR f.mangled = ?1",
			     &s, why);

	if (status < 0)
		return status;
	sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
	return take_rows(q, s, why);
}

/* FILE:LINE or FILE:FIRST-LAST. False: it is none. */
static bool parse_lines(const char *place, size_t *size, uint64_t *first, uint64_t *last)
{
	const char *colon = strrchr(place, ':');
	uint32_t a, b;
	int n = 0;

	if (!colon || colon == place || colon[1] < '0' || colon[1] > '9')
		return false;
	if (sscanf(colon + 1, "%9" SCNu32 "-%9" SCNu32 "%n", &a, &b, &n) != 2 || colon[1 + n]) {
		if (sscanf(colon + 1, "%9" SCNu32 "%n", &a, &n) != 1 || colon[1 + n])
			return false;
		b = a;
	}
	*size = (size_t)(colon - place);
	*first = a;
	*last = b;
	return true;
}

int cover_query_add(struct cover_query *q, const char *place, struct ptah_message *why)
{
	uint64_t first, last;
	size_t size;

	return parse_lines(place, &size, &first, &last)
		   ? add_lines(q, place, size, first, last, why)
		   : add_function(q, place, why);
}

/* Answers */

static int by_event(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	int order = COMPARE(x->unit, y->unit);

	order = order ? order : COMPARE(x->part, y->part);
	order = order ? order : COMPARE(x->address, y->address);
	return order ? order : COMPARE(x->kind, y->kind);
}

static int by_set(const void *a, const void *b)
{
	return COMPARE(((const struct wanted *)a)->set, ((const struct wanted *)b)->set);
}

static int by_process(const void *a, const void *b)
{
	const struct cover_answer *x = a, *y = b;

	return COMPARE(x->process, y->process);
}

/* Adds the processes of a set, a list of numbers in JSON. */
static int add_answers(struct cover_query *q, const char *list)
{
	for (char *end; *list; list = end) {
		list += strcspn(list, "0123456789");
		if (!*list)
			break;
		if (!LIST_ROOM(q->answers, q->count, q->room))
			return PTAH_E_NOMEM;
		q->answers[q->count++] =
		    (struct cover_answer){.process = (int64_t)strtoll(list, &end, 10)};
	}
	return 0;
}

/* Each process once. */
static void merge_answers(struct cover_query *q)
{
	size_t last = 0;

	if (!q->count)
		return;
	qsort(q->answers, q->count, sizeof(*q->answers), by_process);
	for (size_t i = 1; i < q->count; i++)
		if (by_process(&q->answers[last], &q->answers[i]))
			q->answers[++last] = q->answers[i];
	q->count = last + 1;
}

static int add_set(struct cover_query *q, sqlite3_stmt *s, uint64_t set)
{
	const char *list;
	int status = 0;

	sqlite3_reset(s);
	sqlite3_bind_int64(s, 1, (int64_t)set);
	if (sqlite3_step(s) == SQLITE_ROW) {
		list = (const char *)sqlite3_column_text(s, 0);
		status = list ? add_answers(q, list) : 0;
	}
	/* Sets have processes in common. */
	if (status >= 0 && q->count > 2 * q->merged + MANY) {
		merge_answers(q);
		q->merged = q->count;
	}
	return status;
}

/* The processes that reached a place. */
static int list_processes(struct cover_query *q, struct ptah_message *why)
{
	struct wanted *sorted = calloc(q->wanted_count + 1, sizeof(*sorted));
	sqlite3_stmt *s = NULL;
	int status =
	    sorted ? prepare(q, "SELECT processes FROM sets WHERE id = ?", &s, why) : PTAH_E_NOMEM;

	if (status >= 0 && q->wanted_count) {
		memcpy(sorted, q->wanted, q->wanted_count * sizeof(*sorted));
		qsort(sorted, q->wanted_count, sizeof(*sorted), by_set);
	}
	for (size_t i = 0; i < q->wanted_count && status >= 0; i++)
		if (!i || sorted[i].set != sorted[i - 1].set)
			status = add_set(q, s, sorted[i].set);
	sqlite3_finalize(s);
	free(sorted);
	merge_answers(q);
	return status;
}

static int by_block(const void *a, const void *b)
{
	return COMPARE(((const struct cover_reached *)a)->block,
		       ((const struct cover_reached *)b)->block);
}

static void add_counts(struct cover_query *q, const struct cover_reached *list, size_t n)
{
	for (size_t i = 0; i < q->wanted_count; i++) {
		const struct cover_reached key = {.block = q->wanted[i].block};
		const struct cover_reached *found = bsearch(&key, list, n, sizeof(*list), by_block);

		if (found &&
		    __builtin_add_overflow(q->wanted[i].count, found->count, &q->wanted[i].count))
			q->wanted[i].count = UINT64_MAX;
	}
}

/* What a process executed of the places. */
static uint64_t sweep(const struct cover_query *q)
{
	uint64_t sum = 0, now = 0, most = 0;

	for (size_t i = 0; i < q->event_count; i++) {
		const struct event *e = &q->events[i];

		if (i && (e->unit != e[-1].unit || e->part != e[-1].part)) {
			sum += most;
			now = most = 0;
		}
		if (e->kind == EVENT_BEGIN)
			now += q->wanted[e->wanted].count;
		else if (e->kind == EVENT_END)
			now -= q->wanted[e->wanted].count;
		else if (now > most)
			most = now;
	}
	return sum + most;
}

static int count_answer_rows(struct cover_query *q, struct cover_answer *a, sqlite3_stmt *s)
{
	struct cover_reached *list;
	size_t n;
	int status = 0;

	for (size_t i = 0; i < q->wanted_count; i++)
		q->wanted[i].count = 0;
	sqlite3_reset(s);
	sqlite3_bind_int64(s, 1, a->process);
	while (status >= 0 && sqlite3_step(s) == SQLITE_ROW) {
		const void *blob = sqlite3_column_blob(s, 0);

		status =
		    cover_blob_read(blob, (size_t)sqlite3_column_bytes(s, 0), q->most, &list, &n);
		if (status < 0)
			break;
		add_counts(q, list, n);
		free(list);
	}
	a->count = sweep(q);
	return status;
}

static int number_or_none(sqlite3_stmt *s, int column)
{
	return sqlite3_column_type(s, column) == SQLITE_NULL ? -1 : sqlite3_column_int(s, column);
}

static char *copy_text(sqlite3_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s, column);

	return strdup(text ? text : "");
}

static int describe(struct cover_answer *a, sqlite3_stmt *s)
{
	sqlite3_reset(s);
	sqlite3_bind_int64(s, 1, a->process);
	if (sqlite3_step(s) != SQLITE_ROW)
		return PTAH_E_BAD_FILE;
	a->pid = sqlite3_column_int(s, 0);
	a->comm = copy_text(s, 1);
	a->command = copy_text(s, 2);
	a->exit_status = number_or_none(s, 3);
	a->exit_signal = number_or_none(s, 4);
	return a->comm && a->command ? 0 : PTAH_E_NOMEM;
}

static int complete(struct cover_query *q, struct ptah_message *why)
{
	sqlite3_stmt *counts = NULL, *names = NULL;
	int status = prepare(q, "SELECT reached FROM counts WHERE process_id = ?", &counts, why);

	if (status >= 0)
		status = prepare(q,
				 "SELECT pid, comm, command, exit_status, exit_signal "
				 "FROM processes WHERE id = ?",
				 &names, why);
	for (size_t i = 0; i < q->count && status >= 0; i++) {
		status = describe(&q->answers[i], names);
		if (status >= 0)
			status = count_answer_rows(q, &q->answers[i], counts);
		if (status < 0)
			snprintf(why->text, sizeof(why->text), "%s: process %" PRId64 ": %s",
				 q->path, q->answers[i].process, ptah_strerror(status));
	}
	sqlite3_finalize(counts);
	sqlite3_finalize(names);
	return status;
}

int cover_query_answer(struct cover_query *q, const struct cover_answer **answers, size_t *n,
		       struct ptah_message *why)
{
	int status = list_processes(q, why);

	if (q->event_count)
		qsort(q->events, q->event_count, sizeof(*q->events), by_event);
	if (status >= 0)
		status = complete(q, why);
	*answers = q->answers;
	*n = q->count;
	return status;
}
