/* SPDX-License-Identifier: MIT */
/*
 * Single branches as rows of `samples`, as perf's export has them: from where to where, of which
 * kind, and how many instructions ran since the one before.
 */
#include "export/branches.h"
#include "export/sqlite_inside.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>

#define BATCH 256

/* The row of selected_events. */
#define EVENT_BRANCHES 1

/* Where an address is. */
struct place {
	int64_t dso, symbol, offset;
};

struct branch_rows {
	struct database_writer *w;
	struct pair_ids ids; /* space and address -> index of its place + 1 */
	struct place *places;
	size_t count, room;
	int64_t last, thread, comm, cpu;
	int32_t space;
	uint64_t instructions; /* since the last row */
};

/* The names that perf gives to kinds of branches. */
void sqlite_add_branch_types(struct sqlite_file *file)
{
	static const struct {
		uint16_t flags;
		const char *name;
	} kinds[] = {
	    {0, "no branch"},
	    {BRANCH_ANY | BRANCH_CALL, "call"},
	    {BRANCH_ANY | BRANCH_RETURN, "return"},
	    {BRANCH_ANY | BRANCH_CONDITIONAL, "conditional jump"},
	    {BRANCH_ANY, "unconditional jump"},
	    {BRANCH_ANY | BRANCH_CALL | BRANCH_INTERRUPT, "software interrupt"},
	    {BRANCH_ANY | BRANCH_RETURN | BRANCH_INTERRUPT, "return from interrupt"},
	    {BRANCH_ANY | BRANCH_CALL | BRANCH_SYSTEM, "system call"},
	    {BRANCH_ANY | BRANCH_RETURN | BRANCH_SYSTEM, "return from system call"},
	    {BRANCH_ANY | BRANCH_ASYNC, "asynchronous branch"},
	    {BRANCH_ANY | BRANCH_CALL | BRANCH_ASYNC | BRANCH_INTERRUPT, "hardware interrupt"},
	};
	char name[64];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const bool plain = kinds[i].flags == BRANCH_ANY;

		sqlite_file_add(file, SQLITE_BRANCH_TYPES, "is", (int64_t)kinds[i].flags,
				kinds[i].name);
		snprintf(name, sizeof(name), plain ? "trace begin" : "trace begin / %s",
			 kinds[i].name);
		sqlite_file_add(file, SQLITE_BRANCH_TYPES, "is",
				(int64_t)(kinds[i].flags | BRANCH_BEGIN), name);
		snprintf(name, sizeof(name), plain ? "trace end" : "%s / trace end", kinds[i].name);
		sqlite_file_add(file, SQLITE_BRANCH_TYPES, "is",
				(int64_t)(kinds[i].flags | BRANCH_END), name);
	}
}

static int64_t look_up(struct branch_rows *r, uint64_t ip, uint64_t tsc, struct place *place,
		       bool *keep)
{
	struct database_writer *w = r->w;
	const struct name *name;

	names_set_time(w->db->names, tsc);
	name = names_find(w->db->names, r->space, ip);
	*keep = !name->generated;
	*place = (struct place){.offset = name->symbol ? (int64_t)name->offset : 0};
	place->dso = sqlite_dso(w, r->space, name);
	if (place->dso < 0)
		return place->dso;
	if (name->symbol)
		place->symbol = sqlite_symbol(w, r->space, name);
	return place->symbol;
}

/* Negative: out of memory. */
static int place_of(struct branch_rows *r, uint64_t ip, uint64_t tsc, struct place *place)
{
	int64_t *slot = pair_ids_at(&r->ids, (uint32_t)r->space, ip);
	bool keep;

	*place = (struct place){0};
	if (!ip)
		return 0;
	if (!slot)
		return PTAH_E_NOMEM;
	if (*slot > 0) {
		*place = r->places[*slot - 1];
		return 0;
	}
	*slot = -1;
	if (look_up(r, ip, tsc, place, &keep) < 0)
		return PTAH_E_NOMEM;
	if (!keep)
		return 0;
	if (!LIST_ROOM(r->places, r->count, r->room))
		return PTAH_E_NOMEM;
	r->places[r->count++] = *place;
	*slot = (int64_t)r->count;
	return 0;
}

static int add_branch(void *rows, const struct branch *b)
{
	struct branch_rows *r = rows;
	struct place from, to;

	if (r->w->db->branches == EXPORT_BRANCHES_CALLS &&
	    !(b->flags & (BRANCH_CALL | BRANCH_RETURN)))
		return 0;
	if (place_of(r, b->from, b->tsc, &from) < 0 || place_of(r, b->to, b->tsc, &to) < 0)
		return PTAH_E_NOMEM;
	sqlite_file_add(r->w->file, SQLITE_SAMPLES, "iiiiiiiiiiiiiiii00i0i", ++r->last,
			(int64_t)EVENT_BRANCHES, INT64_C(1), r->thread, r->comm, from.dso,
			from.symbol, from.offset, (int64_t)b->from, sqlite_time(r->w, b->tsc),
			r->cpu, to.dso, to.symbol, to.offset, (int64_t)b->to, (int64_t)b->flags,
			(int64_t)r->instructions, (int64_t)b->flags);
	r->instructions = 0;
	return 0;
}

/* What the thread was called at this time. */
static int64_t comm_of(const struct database_writer *w, const struct ptah_thread *who, uint64_t tsc)
{
	const int64_t time = sqlite_time(w, tsc);
	int64_t comm = 0;

	for (size_t i = 0; i < w->thread_count; i++) {
		const struct database_thread *t = &w->threads[i];

		if (t->pid == who->pid && t->tid == who->tid && t->comm &&
		    (!comm || t->time <= time))
			comm = t->comm;
	}
	return comm;
}

static int take_items(struct branch_rows *r, struct branches *branches,
		      const struct ptah_item *items, size_t n)
{
	struct ptah_thread who;
	int64_t thread;
	int status = 0;

	if (ptah_reader_thread(branches->reader, &who) < 0)
		who = (struct ptah_thread){.pid = -1, .tid = -1};
	thread = sqlite_thread(r->w, who.pid, who.tid);
	if (thread < 0)
		return PTAH_E_NOMEM;
	if (thread != r->thread) {
		branches_cut(branches);
		r->instructions = 0;
	}
	r->thread = thread;
	r->comm = comm_of(r->w, &who, items[0].tsc);
	for (size_t i = 0; i < n && status >= 0; i++) {
		if (items[i].type == PTAH_ITEM_BLOCK)
			r->space = ptah_reader_space(branches->reader, items[i].code.space);
		status = branches_take(branches, &items[i]);
		if (items[i].type == PTAH_ITEM_BLOCK)
			r->instructions += items[i].ninsn;
	}
	return status;
}

static int read_stream(struct branch_rows *r, size_t stream)
{
	const struct export_database *db = r->w->db;
	const struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = db->reader->jobs};
	struct branches branches = {.take = add_branch, .context = r};
	struct ptah_stream_info info;
	struct ptah_item items[BATCH];
	int n, status = ptah_session_stream_info(db->session, stream, &info);

	if (status >= 0)
		status = ptah_reader_new(db->session, stream, &jobs, &branches.reader);
	if (status < 0)
		return status;
	r->cpu = info.cpu;
	r->space = info.space;
	r->thread = 0;
	while (status >= 0 && (n = ptah_reader_read(branches.reader, items, BATCH)) != 0) {
		status = n < 0 ? n : take_items(r, &branches, items, (size_t)n);
		r->w->stopped = !db->step(db->context, ptah_reader_offset(branches.reader));
		if (r->w->stopped || sqlite_file_failed(r->w->file))
			break;
	}
	ptah_reader_free(branches.reader);
	return status < 0 ? status : 0;
}

int sqlite_add_branches(struct database_writer *w)
{
	struct branch_rows r = {.w = w};
	const struct ptah_call_reader_config *c = w->db->reader;
	int status = 0;

	sqlite_file_add(w->file, SQLITE_SELECTED_EVENTS, "is", (int64_t)EVENT_BRANCHES, "branches");
	for (size_t i = 0; i < ptah_session_streams(w->db->session) && status >= 0; i++)
		if (!w->stopped && (!c->wants || c->wants(c->context, i)))
			status = read_stream(&r, i);
	pair_ids_free(&r.ids);
	free(r.places);
	return status;
}
