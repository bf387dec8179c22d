/* SPDX-License-Identifier: MIT */
/*
 * Figures of the functions of processes that have ended: when there are many, each function of a
 * file has one row for all of them, so that memory grows with the code and not with the processes.
 */
#include "live/live.h"
#include "support/index.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* So many processes keep rows of their own. */
#define OWN_ROWS 16

/* Where a function of a file has its row. */
struct live_place {
	const char *path; /* the session's */
	uint64_t offset;
	size_t stream;
	uint64_t function; /* its address in that stream's process */
};

void live_fold_free(struct live_fold *f)
{
	free(f->places);
	index_free(&f->index);
	*f = (struct live_fold){0};
}

/* The file and the place in it of a function. False: it is in no file that others may have. */
static bool find_place(const struct live_stream *ls, const struct tally_row *row,
		       struct live_place *place)
{
	const struct ptah_session *session = ls->live->session;
	struct ptah_map map;

	if (row->space || row->open)
		return false;
	*place = (struct live_place){.path = "", .stream = ls->index, .function = row->function};
	if (!row->function) /* what ran in no function */
		return true;
	if (!ptah_session_find_map(session, session->streams[ls->index].info.space, row->function,
				   0, &map) ||
	    (*map.path != '/' && strcmp(map.path, "[vdso]") != 0))
		return false;
	place->path = map.path;
	place->offset = map.file_offset + (row->function - map.address);
	return true;
}

static bool is_place(const struct live_place *a, const struct live_place *b)
{
	return a->offset == b->offset && !strcmp(a->path, b->path);
}

/* Adds a row to that of its place, or makes it that row. 1: it was added, 0: it stays. */
static int fold_row(struct live_stream *ls, const struct tally_row *row)
{
	struct ptah_live *live = ls->live;
	struct live_fold *f = &live->fold;
	struct live_place place, *known;
	uint32_t hash, n;
	int status;

	if (!find_place(ls, row, &place))
		return 0;
	if (!index_reserve(&f->index) || !LIST_ROOM(f->places, f->count, f->capacity))
		return PTAH_E_NOMEM;
	hash = index_hash(&f->index, place.offset,
			  index_hash_bytes(&f->index, place.path, strlen(place.path)));
	INDEX_FIND(n, &f->index, hash, is_place(&f->places[n - 1], &place));
	if (!n) {
		f->places[f->count++] = place;
		index_add(&f->index, hash, (uint32_t)f->count);
		return 0;
	}
	known = &f->places[n - 1];
	if (live->fold.processes <= OWN_ROWS || known->stream == ls->index)
		return 0;
	status =
	    live_tally_merge_row(&live->streams[known->stream]->own.tally, row, known->function);
	return status < 0 ? status : 1;
}

int live_fold(struct live_stream *ls)
{
	struct live_tally *t = &ls->own.tally;
	struct live_tally rest = {.total = t->total, .calls = t->calls};
	int status = 0;

	if (!t->count)
		return 0;
	ls->live->fold.processes++;
	for (size_t i = 0; i < t->count && status >= 0; i++) {
		status = fold_row(ls, &t->rows[i]);
		if (!status)
			status = live_tally_merge_row(&rest, &t->rows[i], t->rows[i].function);
	}
	if (status < 0) {
		live_tally_free(&rest);
		return status;
	}
	live_tally_free(t);
	*t = rest;
	return 0;
}
