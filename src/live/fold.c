/* SPDX-License-Identifier: MIT */
/*
 * Figures of the functions of processes that have ended: when there are many, each function of a
 * file has one row for all of them, so that memory grows with the code and not with the processes.
 */
#include "live/live.h"

#include <stdlib.h>
#include <string.h>

/* So many processes keep rows of their own. */
#define OWN_ROWS 16

/* Where a function of a file has its row. */
struct live_place {
	const char *path; /* the session's; NULL: free */
	uint64_t offset;
	size_t stream;
	uint64_t function; /* its address in that stream's process */
};

static struct live_place *slot_of(const struct live_fold *f, const char *path, uint64_t offset)
{
	uint64_t hash = offset;
	size_t i;

	for (const char *p = path; *p; p++)
		hash = (hash ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	i = (size_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (f->capacity - 1);
	while (f->places[i].path &&
	       (f->places[i].offset != offset || strcmp(f->places[i].path, path) != 0))
		i = (i + 1) & (f->capacity - 1);
	return &f->places[i];
}

static int make_room(struct live_fold *f)
{
	struct live_fold more = {.capacity = f->capacity ? 2 * f->capacity : 256,
				 .count = f->count,
				 .processes = f->processes};

	if (2 * (f->count + 1) <= f->capacity)
		return 0;
	more.places = calloc(more.capacity, sizeof(*more.places));
	if (!more.places)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < f->capacity; i++)
		if (f->places[i].path)
			*slot_of(&more, f->places[i].path, f->places[i].offset) = f->places[i];
	free(f->places);
	*f = more;
	return 0;
}

void live_fold_free(struct live_fold *f)
{
	free(f->places);
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

/* Adds a row to that of its place, or makes it that row. 1: it was added, 0: it stays. */
static int fold_row(struct live_stream *ls, const struct tally_row *row)
{
	struct ptah_live *live = ls->live;
	struct live_place place, *known;
	int status = make_room(&live->fold);

	if (status < 0 || !find_place(ls, row, &place))
		return status;
	known = slot_of(&live->fold, place.path, place.offset);
	if (!known->path) {
		*known = place;
		live->fold.count++;
		return 0;
	}
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
