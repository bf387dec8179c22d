/* SPDX-License-Identifier: MIT */
/*
 * ptah export --to=sqlite: the calls of a recording as rows, in the order in which they end. A
 * call has its number from where it begins, so that numbers of calls are in the order of time.
 */
#include "export/formats.h"
#include "export/sqlite_inside.h"
#include "support/list.h"

#include <ptah/base.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More paths than this are looked up in the file: half a table of 200 MB. */
#define MOST_PATHS (UINT64_C(1) << 22)

/* perf's flags of a call, and its words for kinds of branches. */
enum {
	FLAG_NO_CALL = 1,
	FLAG_NO_RETURN = 2,
	FLAG_JUMP = 4,
};

static uint64_t to_ns(const struct database_writer *w, uint64_t ticks)
{
	const uint64_t low = ticks & ((UINT64_C(1) << w->shift) - 1);

	return (ticks >> w->shift) * w->mult + (low * w->mult >> w->shift);
}

int64_t sqlite_time(const struct database_writer *w, uint64_t tsc)
{
	return tsc ? (int64_t)ptah_session_time(w->db->session, tsc) : 0;
}

/* Objects and functions */

static void hex_id(const struct ptah_counts_file *file, char text[2 * PTAH_BUILD_ID_MAX + 1])
{
	text[0] = '\0';
	for (size_t i = 0; i < file->build_id_size && i < PTAH_BUILD_ID_MAX; i++)
		snprintf(text + 2 * i, 3, "%02x", file->build_id[i]);
}

/* The row of the file of a function; 0 is "unknown". Negative: out of memory. */
int64_t sqlite_dso(struct database_writer *w, int32_t space, const struct name *name)
{
	char id[2 * PTAH_BUILD_ID_MAX + 1];
	struct ptah_counts_file file = {0};
	bool added;
	int64_t dso;

	if (!name->path)
		return 0;
	dso = text_ids_of(&w->dsos, name->path, strlen(name->path), &added);
	if (!dso)
		return PTAH_E_NOMEM;
	if (added) {
		if (!names_find_file(w->db->names, space, name->ip, PTAH_TIME_LAST, &file))
			file.build_id_size = 0;
		hex_id(&file, id);
		sqlite_file_add(w->file, SQLITE_DSOS, "iisss", dso, INT64_C(1), name->dso,
				name->path, id);
	}
	return dso;
}

/* Where a function ends, by perf's numbers: offsets in its file. */
static int64_t end_of(struct database_writer *w, const struct name *name)
{
	struct ptah_symbol symbol;

	if (name->code &&
	    ptah_symbols_lookup(names_symbols(w->db->names), name->code, name->code_at, &symbol) &&
	    symbol.size)
		return (int64_t)(name->place - name->offset + symbol.size);
	return 0;
}

/* Names may come from a stranger and be long. */
#define KEY_MAX 8192

int64_t sqlite_symbol(struct database_writer *w, int32_t space, const struct name *name)
{
	uint8_t key[16 + KEY_MAX];
	const int64_t dso = sqlite_dso(w, space, name),
		      start = (int64_t)(name->place - name->offset);
	const char *shown = name->symbol;
	const char *mangled = name->mangled ? name->mangled : shown;
	char address[32];
	size_t n;
	bool added;
	int64_t id, end;

	if (dso < 0)
		return dso;
	if (!mangled) {
		snprintf(address, sizeof(address), "0x%" PRIx64, name->ip);
		mangled = shown = address;
	}
	n = strnlen(mangled, KEY_MAX);
	memcpy(key, &dso, 8);
	memcpy(key + 8, &start, 8);
	memcpy(key + 16, mangled, n);
	id = text_ids_of(&w->symbols, key, 16 + n, &added);
	if (!id)
		return PTAH_E_NOMEM;
	end = added ? end_of(w, name) : 0;
	if (end)
		sqlite_file_add(w->file, SQLITE_SYMBOLS, "iiii-s", id, dso, start, end, shown);
	else if (added)
		sqlite_file_add(w->file, SQLITE_SYMBOLS, "iii--s", id, dso, start, shown);
	return id;
}

static int64_t symbol_of(struct database_writer *w, int32_t space,
			 const struct ptah_call_mark *mark)
{
	int64_t *slot = pair_ids_at(&w->functions, (uint32_t)space, mark->function);
	const struct name *name;
	int64_t id;

	if (!slot)
		return PTAH_E_NOMEM;
	if (*slot > 0)
		return *slot;
	names_set_time(w->db->names, mark->tsc);
	name = names_find(w->db->names, space, mark->function);
	id = sqlite_symbol(w, space, name);
	/* Of generated code, another function may be there later. */
	*slot = id <= 0 || name->generated ? -1 : id;
	return id;
}

/* Threads */

/* The row of a thread; the first thread of its process gets one too. */
int64_t sqlite_thread(struct database_writer *w, int32_t pid, int32_t tid)
{
	int64_t *slot = pair_ids_at(&w->rows, (uint32_t)pid, (uint32_t)tid);
	int64_t row, process;

	if (!slot)
		return PTAH_E_NOMEM;
	if (*slot > 0)
		return *slot;
	row = *slot = ++w->last_thread;
	process = pid < 0 ? 0 : pid == tid ? row : sqlite_thread(w, pid, pid);
	if (process >= 0)
		sqlite_file_add(w->file, SQLITE_THREADS, "iiiii", row, INT64_C(1), process,
				(int64_t)pid, (int64_t)tid);
	return process < 0 ? process : row;
}

static struct database_thread *thread_at(struct database_writer *w, size_t number)
{
	return LIST_REACH(w->threads, w->thread_count, number) ? &w->threads[number] : NULL;
}

/* A thread that executed another program is the same thread with another comm. */
static int begin_thread(struct database_writer *w, struct database_thread *t,
			const struct ptah_call_thread *thread, const struct ptah_call_mark *mark)
{
	const int64_t row = sqlite_thread(w, thread->pid, thread->tid);
	int64_t *runs = pair_ids_at(&w->runs, (uint32_t)thread->pid, (uint32_t)thread->tid);

	if (row < 0 || !runs)
		return PTAH_E_NOMEM;
	t->row = row;
	t->comm = ++w->last_comm;
	t->pid = thread->pid;
	t->tid = thread->tid;
	t->time = mark ? sqlite_time(w, mark->tsc) : 0;
	sqlite_file_add(w->file, SQLITE_COMMS, "isiii", t->comm, thread->comm, row, t->time,
			(int64_t)(thread->tid > 0 && *runs));
	sqlite_file_add(w->file, SQLITE_COMM_THREADS, "iii", t->comm, t->comm, row);
	*runs = 1;
	return 0;
}

/* Calls */

/* The path of a function that was called in `parent`. Negative: out of memory. */
static int64_t path_of(struct database_writer *w, int64_t parent, int64_t symbol)
{
	int64_t *slot, path;

	if (w->paths.rows.count >= MOST_PATHS) {
		if (!w->indexed)
			sqlite_file_index_paths(w->file);
		w->indexed = true;
		pair_ids_clear(&w->paths);
	}
	slot = pair_ids_at(&w->paths, (uint64_t)parent, (uint64_t)symbol);
	if (!slot)
		return PTAH_E_NOMEM;
	if (*slot > 0)
		return *slot;
	path = w->indexed ? sqlite_file_find_path(w->file, parent, symbol) : 0;
	if (!path) {
		path = ++w->last_path;
		sqlite_file_add(w->file, SQLITE_CALL_PATHS, "iii0", path, parent, symbol);
	}
	return *slot = path;
}

static struct frame *push_database_frame(struct database_thread *t)
{
	if (!LIST_ROOM(t->frames, t->count, t->room))
		return NULL;
	return &t->frames[t->count++];
}

/* The outermost calls are called in the path 1. */
#define ROOT_PATH 1

static int begin_call(struct database_writer *w, struct database_thread *t,
		      const struct ptah_call_thread *thread, const struct ptah_call_mark *mark)
{
	const int64_t symbol = symbol_of(w, ptah_call_thread_space(thread, mark->space), mark);
	const int64_t parent = t->count ? t->frames[t->count - 1].path : ROOT_PATH;
	const int64_t path = symbol < 0 ? symbol : path_of(w, parent, symbol);
	int64_t *open = path < 0 ? NULL : pair_ids_at(&w->open, thread->number, (uint64_t)symbol);
	struct frame *f = open ? push_database_frame(t) : NULL;

	if (!f)
		return PTAH_E_NOMEM;
	*f = (struct frame){.id = ++w->last_call,
			    .path = path,
			    .symbol = symbol,
			    .site = mark->site,
			    .time = (uint64_t)sqlite_time(w, mark->tsc),
			    .begun = mark->how,
			    .recursive = *open > 1};
	*open = (*open ? *open : 1) + 1;
	return 0;
}

static int64_t flags_of(const struct frame *f, const struct ptah_call_mark *end)
{
	const bool no_call = end->flags & PTAH_CALL_NO_BEGIN || f->begun == PTAH_CALL_RUNNING;
	int64_t flags = no_call ? FLAG_NO_CALL : 0;

	if (f->begun == PTAH_CALL_TAIL || f->begun == PTAH_CALL_RESUMED)
		flags |= FLAG_JUMP;
	/* What was entered by a jump has no return of its own. */
	if (end->how != PTAH_CALL_END_RETURN && end->how != PTAH_CALL_END_TAIL)
		flags |= FLAG_NO_RETURN;
	if (f->begun == PTAH_CALL_TAIL)
		flags |= FLAG_NO_RETURN;
	return flags;
}

static void add_call(struct database_writer *w, const struct database_thread *t,
		     const struct frame *f, const struct ptah_call_mark *end)
{
	const struct frame *up = t->count > 1 ? f - 1 : NULL;
	const uint16_t partial =
	    PTAH_CALL_NO_BEGIN | PTAH_CALL_NO_END | PTAH_CALL_HAS_LOSS | PTAH_CALL_UNSURE;
	const bool complete = !(end->flags & partial) && f->begun != PTAH_CALL_RESUMED &&
			      end->how != PTAH_CALL_END_SUSPENDED;

	sqlite_file_add(
	    w->file, SQLITE_CALLS, "iiiiii000iiiiiiiiiiiiiiii", f->id, t->row, t->comm, f->path,
	    (int64_t)f->time, sqlite_time(w, end->tsc), up ? up->path : (int64_t)ROOT_PATH,
	    flags_of(f, end), up ? up->id : INT64_C(0), (int64_t)end->total.instructions,
	    (int64_t)end->total.cycles, (int64_t)end->self.instructions, (int64_t)end->self.cycles,
	    (int64_t)to_ns(w, end->self.ticks), (int64_t)to_ns(w, end->total.off_ticks),
	    (int64_t)f->site, (int64_t)f->begun, (int64_t)end->how, (int64_t)complete,
	    (int64_t)f->recursive, (int64_t) !!(end->flags & PTAH_CALL_STUB),
	    (int64_t) !!(end->flags & PTAH_CALL_HAS_LOSS));
}

static int end_call(struct database_writer *w, struct database_thread *t,
		    const struct ptah_call_thread *thread, const struct ptah_call_mark *mark)
{
	const struct frame *f;
	int64_t *open;

	if (!t->count)
		return PTAH_E_INVAL;
	f = &t->frames[t->count - 1];
	open = pair_ids_at(&w->open, thread->number, (uint64_t)f->symbol);
	if (!open)
		return PTAH_E_NOMEM;
	--*open;
	add_call(w, t, f, mark);
	t->count--;
	return 0;
}

/* Batches */

static void add_loss(struct database_writer *w, const struct database_thread *t,
		     const struct ptah_call_batch *batch)
{
	const struct ptah_item *item = batch->event;
	const bool error = item->type == PTAH_ITEM_ERROR;

	w->db->errors += error;
	sqlite_file_add(w->file, SQLITE_LOSSES, "iiiissii", ++w->last_loss, t->row, t->comm,
			sqlite_time(w, item->tsc), error ? "error" : ptah_item_name(item->type),
			error ? ptah_strerror(item->status) : NULL, (int64_t)batch->thread->stream,
			(int64_t)item->offset);
}

static int take_batch(struct database_writer *w, const struct ptah_call_batch *batch)
{
	struct database_thread *t = thread_at(w, batch->thread->number);
	int status = t ? 0 : PTAH_E_NOMEM;

	if (t && !t->row && (batch->count || batch->event))
		status = begin_thread(w, t, batch->thread, batch->count ? batch->marks : NULL);
	for (size_t i = 0; i < batch->count && status >= 0; i++)
		status = batch->marks[i].end ? end_call(w, t, batch->thread, &batch->marks[i])
					     : begin_call(w, t, batch->thread, &batch->marks[i]);
	if (status >= 0 && batch->event)
		add_loss(w, t, batch);
	if (t && batch->ended) {
		free(t->frames);
		t->frames = NULL;
		t->count = t->room = 0;
	}
	return status;
}

/* Ctrl-C is no error, but an unfinished database is worth nothing. */
static int read_calls(struct database_writer *w)
{
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	int status = ptah_call_reader_new(w->db->session, w->db->reader, &reader);

	if (status < 0)
		return status;
	while ((status = ptah_call_reader_next(reader, &batch)) > 0) {
		status = take_batch(w, batch);
		w->stopped = !w->db->step(w->db->context, ptah_call_reader_offset(reader));
		if (status < 0 || w->stopped || sqlite_file_failed(w->file))
			break;
	}
	ptah_call_reader_free(reader);
	return status < 0 ? status : 0;
}

/* What is the same in every database */

static void add_note(struct database_writer *w, const char *name, const char *value)
{
	if (value)
		sqlite_file_add(w->file, SQLITE_RECORDING, "iss", ++w->last_note, name, value);
}

static void add_recording(struct database_writer *w)
{
	char number[32];
	const char *note;

	add_note(w, "file", w->db->recording);
	add_note(w, "command", ptah_session_command(w->db->session));
	add_note(w, "ptah", PTAH_VERSION_STRING);
	for (size_t i = 0; (note = ptah_session_note(w->db->session, i)); i++)
		add_note(w, "note", note);
	if (ptah_session_truncated(w->db->session))
		add_note(w, "note", "the recording is incomplete: its end is lost");
	snprintf(number, sizeof(number), "%" PRIu64, w->db->errors);
	add_note(w, "errors", number);
}

/* Rows 0 mean "unknown", so that no reference is NULL. */
static void add_fixed_rows(struct database_writer *w)
{
	const int64_t none = 0, first = 1, minus = -1;

	sqlite_file_add(w->file, SQLITE_SELECTED_EVENTS, "is", none, "unknown");
	sqlite_file_add(w->file, SQLITE_MACHINES, "iis", none, none, "unknown");
	sqlite_file_add(w->file, SQLITE_MACHINES, "iis", first, minus, "");
	sqlite_file_add(w->file, SQLITE_THREADS, "i00ii", none, minus, minus);
	sqlite_file_add(w->file, SQLITE_COMMS, "is000", none, "unknown");
	sqlite_file_add(w->file, SQLITE_DSOS, "i0sss", none, "unknown", "unknown", "");
	sqlite_file_add(w->file, SQLITE_SYMBOLS, "i0000s", none, "unknown");
	sqlite_file_add(w->file, SQLITE_SAMPLES, "i00000000000000000000", none);
	sqlite_file_add(w->file, SQLITE_CALL_PATHS, "i000", none);
	sqlite_file_add(w->file, SQLITE_CALL_PATHS, "i000", first);
	sqlite_file_add(w->file, SQLITE_CALLS, "i000000000000000000000000", none);
	sqlite_add_branch_types(w->file);
	for (unsigned i = 0; i < PTAH_CALL_BEGIN_MAX; i++)
		sqlite_file_add(w->file, SQLITE_CALL_BEGINS, "is", (int64_t)i,
				ptah_call_how_name(false, i));
	for (unsigned i = 0; i < PTAH_CALL_END_MAX; i++)
		sqlite_file_add(w->file, SQLITE_CALL_ENDS, "is", (int64_t)i,
				ptah_call_how_name(true, i));
}

static void free_writer(struct database_writer *w)
{
	for (size_t i = 0; i < w->thread_count; i++)
		free(w->threads[i].frames);
	free(w->threads);
	text_ids_free(&w->dsos);
	text_ids_free(&w->symbols);
	pair_ids_free(&w->rows);
	pair_ids_free(&w->runs);
	pair_ids_free(&w->functions);
	pair_ids_free(&w->paths);
	pair_ids_free(&w->open);
}

/* Writes the file. On an error with a message, or after Ctrl-C, none is left. */
int sqlite_export(struct export_database *db, struct ptah_message *why)
{
	struct database_writer w = {.db = db, .last_path = ROOT_PATH};
	int status = sqlite_file_open(db->path, &sqlite_schema, &w.file, why);

	if (status < 0)
		return status;
	if (!ptah_session_time_scale(db->session, &w.mult, &w.shift))
		w.mult = w.shift = 0;
	db->errors = 0;
	add_fixed_rows(&w);
	status = read_calls(&w);
	db->calls = (uint64_t)w.last_call;
	if (status >= 0 && !w.stopped && db->branches != EXPORT_BRANCHES_NONE)
		status = sqlite_add_branches(&w);
	if (status < 0 || w.stopped) {
		sqlite_file_abort(w.file);
	} else {
		add_recording(&w);
		status = sqlite_file_close(w.file, why);
	}
	free_writer(&w);
	return status;
}
