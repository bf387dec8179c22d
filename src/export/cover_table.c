/* SPDX-License-Identifier: MIT */
/* Writes a table of coverage (cover_table.h). */
#include "export/cover_table.h"

#include "base/order.h"
#include "export/cover_blob.h"
#include "export/cover_lines.h"
#include "export/cover_sets.h"
#include "export/sqlite_file.h"
#include "support/list.h"

#include <stdlib.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* How many numbers of processes are in memory while sets are written. */
#define MEMBERS ((size_t)16 << 20)

/* The last process of a pid. */
struct last_process {
	uint64_t pid;
	size_t process;
};

struct cover_table {
	const struct ptah_session *session;
	struct sqlite_file *file;
	struct cover_code code;
	struct cover_process *processes;
	size_t count, room;
	struct keyed by_pid;
	/* Of cover_table_add(). */
	struct ptah_stream_info info;
	size_t stream;
	struct ptah_profile_totals totals;
};

int cover_table_open(const char *path, const struct ptah_session *session, struct names *names,
		     struct cover_table **table, struct ptah_message *why)
{
	struct cover_table *t = calloc(1, sizeof(*t));
	int status = t ? sqlite_file_open(path, &cover_schema, &t->file, why) : PTAH_E_NOMEM;

	if (status < 0) {
		free(t);
		return status;
	}
	t->session = session;
	cover_code_init(&t->code, session, names, true);
	t->by_pid = (struct keyed){.row_size = sizeof(struct last_process),
				   .key_size = offsetof(struct last_process, process)};
	*table = t;
	return 0;
}

static void free_table(struct cover_table *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->processes[i].command);
	free(t->processes);
	keyed_free(&t->by_pid);
	cover_code_free(&t->code);
	free(t);
}

void cover_table_abort(struct cover_table *t)
{
	if (!t)
		return;
	sqlite_file_abort(t->file);
	free_table(t);
}

static void name_process(struct cover_table *t, struct cover_process *p)
{
	struct ptah_stream_info info = {.space = p->space};
	struct ptah_thread who;

	if (p->stream != SIZE_MAX)
		ptah_session_stream_info(t->session, p->stream, &info);
	if (ptah_session_space(t->session, info.space, &who) >= 0)
		memcpy(p->comm, who.comm, sizeof(p->comm));
	p->comm[sizeof(p->comm) - 1] = '\0';
}

struct cover_process *cover_table_processes(struct cover_table *t, size_t *n)
{
	for (size_t i = 0; i < t->count; i++)
		name_process(t, &t->processes[i]);
	*n = t->count;
	return t->processes;
}

struct cover_code *cover_table_code(struct cover_table *t)
{
	return &t->code;
}

/* Processes */

/*
 * While a recording is followed, the space of a process becomes another number when the process
 * executes another program, or another process has its pid. It is that of its streams at any time.
 */
static bool is_process(const struct cover_table *t, const struct cover_process *p, int32_t space)
{
	struct ptah_stream_info info;

	if (p->stream == SIZE_MAX)
		return t->stream == SIZE_MAX && p->space == space;
	return t->stream != SIZE_MAX &&
	       ptah_session_stream_info(t->session, p->stream, &info) >= 0 && info.space == space;
}

/* The number of the process that ran in a space. SIZE_MAX: out of memory. */
static size_t find_process(struct cover_table *t, int32_t space)
{
	struct ptah_thread who;
	struct last_process row = {.process = SIZE_MAX}, *last;
	uint32_t number;
	bool is_new;

	if (ptah_session_space(t->session, space, &who) < 0)
		who = (struct ptah_thread){.pid = space < 0 ? -1 : space};
	row.pid = (uint32_t)who.pid;
	number = keyed_number(&t->by_pid, &row, &is_new);
	if (!number)
		return SIZE_MAX;
	last = keyed_row(&t->by_pid, number);
	for (size_t i = last->process; i != SIZE_MAX; i = t->processes[i].before)
		if (is_process(t, &t->processes[i], space))
			return i;
	if (!LIST_ROOM(t->processes, t->count, t->room))
		return SIZE_MAX;
	t->processes[t->count] = (struct cover_process){.pid = who.pid,
							.wait_status = -1,
							.stream = t->stream,
							.space = space,
							.before = last->process};
	last->process = t->count;
	return t->count++;
}

/* A callback of cover_code_add(). */
static int take_reached_blocks(void *context, int32_t space, const struct cover_reached *reached,
			       size_t n)
{
	struct cover_table *t = context;
	const size_t process = find_process(t, space);
	void *blob;
	size_t size;
	int status =
	    process == SIZE_MAX ? PTAH_E_NOMEM : cover_blob_write(reached, n, &blob, &size);

	if (status < 0)
		return status;
	sqlite_file_add(t->file, COVER_TABLE_COUNTS, "ib", (int64_t)process + 1, blob, size);
	free(blob);
	if (t->stream != SIZE_MAX) {
		t->processes[process].instructions += t->totals.instructions;
		t->processes[process].errors += t->totals.errors;
	}
	return 0;
}

int cover_table_add(struct cover_table *t, size_t stream, struct ptah_profile *profile)
{
	int status = ptah_session_stream_info(t->session, stream, &t->info);

	if (status >= 0)
		status = ptah_profile_totals(profile, &t->totals);
	t->stream = t->info.cpu < 0 ? stream : SIZE_MAX;
	return status < 0 ? status
			  : cover_code_add(&t->code, stream, profile, take_reached_blocks, t);
}

/* The file's end: sets */

/* What the processes reached, in their order. */
struct reading {
	struct cover_table *table;
	sqlite3_stmt *statement;
	bool has_row;
	int status;
};

static void begin_reading(struct reading *r, struct cover_table *t)
{
	sqlite3 *db = sqlite_file_database(t->file);

	*r = (struct reading){.table = t};
	if (!db)
		return;
	sqlite_file_note(
	    t->file,
	    sqlite3_prepare_v2(db, "SELECT process_id, reached FROM counts ORDER BY process_id", -1,
			       &r->statement, NULL));
	r->has_row = r->statement && sqlite3_step(r->statement) == SQLITE_ROW;
}

static int by_block(const void *a, const void *b)
{
	const struct cover_reached *x = a, *y = b;

	return COMPARE(x->block, y->block);
}

/* Adds `more` to a list; each block is in it once at the end. */
static int join_reached_blocks(struct cover_reached **list, size_t *n, struct cover_reached *more,
			       size_t count)
{
	struct cover_reached *joined = *list;
	size_t last = 0;

	if (!*n) {
		free(*list);
		*list = more;
		*n = count;
		return 0;
	}
	joined = reallocarray(joined, *n + count, sizeof(*joined));
	if (joined) {
		*list = joined;
		memcpy(joined + *n, more, count * sizeof(*joined));
		*n += count;
	}
	free(more);
	if (!joined)
		return PTAH_E_NOMEM;
	qsort(joined, *n, sizeof(*joined), by_block);
	for (size_t i = 1; i < *n; i++)
		if (joined[i].block != joined[last].block)
			joined[++last] = joined[i];
	*n = last + 1;
	return 0;
}

/* Reads what the next process reached; the caller frees the list. False: there is none. */
static bool read_process(struct reading *r, int64_t *process, struct cover_reached **list,
			 size_t *n)
{
	struct cover_reached *more;
	size_t count;

	*list = NULL;
	*n = 0;
	if (!r->has_row)
		return false;
	*process = sqlite3_column_int64(r->statement, 0);
	while (r->has_row && r->status >= 0 && sqlite3_column_int64(r->statement, 0) == *process) {
		const void *blob = sqlite3_column_blob(r->statement, 1);

		r->status = cover_blob_read(blob, (size_t)sqlite3_column_bytes(r->statement, 1),
					    r->table->code.blocks.count, &more, &count);
		if (r->status >= 0)
			r->status = join_reached_blocks(list, n, more, count);
		r->has_row = sqlite3_step(r->statement) == SQLITE_ROW;
	}
	if (r->status >= 0)
		return true;
	free(*list);
	return false;
}

static int end_reading(struct reading *r)
{
	sqlite_file_note(r->table->file, sqlite3_finalize(r->statement));
	return r->status;
}

static int split_sets(struct cover_table *t, struct cover_sets *sets)
{
	struct cover_reached *list;
	struct reading r;
	int64_t process;
	size_t n;

	for (begin_reading(&r, t); read_process(&r, &process, &list, &n); free(list))
		cover_sets_add(sets, list, n);
	cover_sets_finish(sets);
	return end_reading(&r);
}

/* Sets that are written in one pass over what the processes reached. */
struct members {
	uint32_t first, end; /* the sets */
	size_t *ends;	     /* by set, from 0 on: where its list ends in `list` */
	uint32_t *list;	     /* numbers of processes */
};

/* Counts the processes of each set. */
static int count_members(struct cover_table *t, struct cover_sets *sets, uint32_t *counts)
{
	struct cover_reached *list;
	struct reading r;
	int64_t process;
	size_t n;

	for (begin_reading(&r, t); read_process(&r, &process, &list, &n); free(list)) {
		cover_sets_of(sets, list, n);
		for (size_t i = 0; i < sets->touched_count; i++)
			counts[sets->touched[i]]++;
	}
	return end_reading(&r);
}

static int list_members(struct cover_table *t, struct cover_sets *sets, struct members *m)
{
	struct cover_reached *list;
	struct reading r;
	int64_t process;
	size_t n;

	for (begin_reading(&r, t); read_process(&r, &process, &list, &n); free(list)) {
		cover_sets_of(sets, list, n);
		for (size_t i = 0; i < sets->touched_count; i++) {
			const uint32_t set = sets->touched[i];

			if (set >= m->first && set < m->end)
				m->list[m->ends[set]++] = (uint32_t)process;
		}
	}
	return end_reading(&r);
}

/* Writes the list of a set as JSON. */
static int put_set(struct cover_table *t, uint32_t set, const uint32_t *list, size_t n)
{
	char *text = malloc(n * sizeof(",4294967295") + sizeof("[]"));
	size_t k = 0;

	if (!text)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n; i++)
		k += (size_t)sprintf(text + k, "%c%" PRIu32, i ? ',' : '[', list[i]);
	memcpy(text + k, "]", sizeof("]"));
	sqlite_file_add(t->file, COVER_TABLE_SETS, "is", (int64_t)set, text);
	free(text);
	return 0;
}

/* Writes as many sets as there is memory for, from m->first on. */
static int put_some(struct cover_table *t, struct cover_sets *sets, const uint32_t *counts,
		    struct members *m)
{
	size_t n = 0, begin = 0;
	int status;

	for (m->end = m->first; m->end <= sets->set_count && (!n || n + counts[m->end] < MEMBERS);
	     m->end++) {
		m->ends[m->end] = n;
		n += counts[m->end];
	}
	m->list = malloc(n * sizeof(*m->list) + 1);
	status = m->list ? list_members(t, sets, m) : PTAH_E_NOMEM;
	for (uint32_t set = m->first; set < m->end && status >= 0; set++) {
		status = put_set(t, set, m->list + begin, m->ends[set] - begin);
		begin = m->ends[set];
	}
	free(m->list);
	return status;
}

/* What is known by process becomes known by set, in a few passes. */
static int put_sets(struct cover_table *t, struct cover_sets *sets)
{
	uint32_t *counts = calloc(sets->set_count + 1, sizeof(*counts));
	struct members m = {.first = 1, .ends = calloc(sets->set_count + 1, sizeof(*m.ends))};
	int status = counts && m.ends ? count_members(t, sets, counts) : PTAH_E_NOMEM;

	while (m.first <= sets->set_count && status >= 0 && !sqlite_file_failed(t->file)) {
		status = put_some(t, sets, counts, &m);
		m.first = m.end;
	}
	free(counts);
	free(m.ends);
	return status;
}

static void put_blocks(struct cover_table *t, const struct cover_sets *sets)
{
	for (uint32_t i = 1; i <= t->code.blocks.count; i++) {
		const struct cover_block *b = cover_code_block(&t->code, i);

		if (b->function)
			sqlite_file_add(t->file, COVER_TABLE_BLOCKS, "iiiiii", (int64_t)i,
					(int64_t)b->object + 1, (int64_t)b->function,
					(int64_t)b->at, (int64_t)b->end, (int64_t)sets->set_of[i]);
		else
			sqlite_file_add(t->file, COVER_TABLE_BLOCKS, "ii-iii", (int64_t)i,
					(int64_t)b->object + 1, (int64_t)b->at, (int64_t)b->end,
					(int64_t)sets->set_of[i]);
	}
}

static int put_reached(struct cover_table *t)
{
	struct cover_sets sets;
	int status = cover_sets_init(&sets, t->code.blocks.count);

	if (status < 0)
		return status;
	status = split_sets(t, &sets);
	if (status >= 0)
		status = put_sets(t, &sets);
	if (status >= 0)
		put_blocks(t, &sets);
	cover_sets_free(&sets);
	return status;
}

/* The file's end: the rest */

static void put_processes(struct cover_table *t)
{
	for (size_t i = 0; i < t->count; i++) {
		struct cover_process *p = &t->processes[i];
		const bool exited = p->wait_status >= 0 && WIFEXITED(p->wait_status);
		const bool killed = p->wait_status >= 0 && WIFSIGNALED(p->wait_status);
		char kinds[] = "iiss--ii";

		name_process(t, p);
		kinds[4] = exited ? 'i' : '-';
		kinds[5] = killed ? 'i' : '-';
		if (exited || killed)
			sqlite_file_add(t->file, COVER_TABLE_PROCESSES, kinds, (int64_t)i + 1,
					(int64_t)p->pid, p->comm, p->command,
					exited ? (int64_t)WEXITSTATUS(p->wait_status)
					       : (int64_t)WTERMSIG(p->wait_status),
					(int64_t)p->instructions, (int64_t)p->errors);
		else
			sqlite_file_add(t->file, COVER_TABLE_PROCESSES, kinds, (int64_t)i + 1,
					(int64_t)p->pid, p->comm, p->command,
					(int64_t)p->instructions, (int64_t)p->errors);
	}
}

static void put_objects(struct cover_table *t)
{
	for (size_t i = 0; i < t->code.object_count; i++) {
		const struct cover_object *o = &t->code.objects[i];
		char id[2 * PTAH_BUILD_ID_MAX + 1] = "";

		for (size_t k = 0; k < o->build_id_size; k++)
			snprintf(id + 2 * k, 3, "%02x", o->build_id[k]);
		sqlite_file_add(t->file, COVER_TABLE_OBJECTS, "iss", (int64_t)i + 1, o->path,
				*id ? id : NULL);
	}
}

static void put_functions(struct cover_table *t)
{
	for (uint32_t i = 1; i <= t->code.functions.count; i++) {
		const struct cover_function *f = cover_code_function(&t->code, i);

		sqlite_file_add(t->file, COVER_TABLE_FUNCTIONS, "iiiss", (int64_t)i,
				(int64_t)f->object + 1, (int64_t)f->at, f->shown, f->name);
	}
}

int cover_table_close(struct cover_table *t, struct ptah_message *why)
{
	int status;

	sqlite_file_add(t->file, COVER_TABLE_INFO, "ss", "format", COVER_FORMAT);
	put_processes(t);
	put_objects(t);
	put_functions(t);
	status = put_reached(t);
	if (status >= 0)
		status = cover_lines_write(&t->code, t->file);
	if (status < 0) {
		snprintf(why->text, sizeof(why->text), "the table of coverage: %s",
			 ptah_strerror(status));
		sqlite_file_abort(t->file);
	} else {
		status = sqlite_file_close(t->file, why);
	}
	free_table(t);
	return status;
}
