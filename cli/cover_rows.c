/* SPDX-License-Identifier: MIT */
/* Collects what `ptah cover` writes: edges or blocks with their counts. */
#include "base/order.h"
#include "cover_rows.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/*
 * A version of the code at an address. 0 also if the file that was there first was mapped there
 * again: then it is the same code.
 */
static uint64_t find_cover_version(const struct cover_rows *rows, int32_t space, uint64_t ip,
				   uint64_t version)
{
	struct ptah_map first, map;

	if (!version || !ptah_session_find_map(rows->session, space, ip, PTAH_TIME_FIRST, &first) ||
	    !ptah_session_find_map(rows->session, space, ip, version, &map))
		return version;
	return ptah_path_is_file(map.path) && !strcmp(map.path, first.path) &&
		       map.file_offset - map.address == first.file_offset - first.address
		   ? 0
		   : version;
}

static int append_cover_row(struct cover_rows *rows, const struct cover_row *row)
{
	if (!row->count)
		return 0;
	if (!LIST_ROOM(rows->row, rows->count, rows->capacity))
		return PTAH_E_NOMEM;
	rows->row[rows->count] = *row;
	rows->row[rows->count].version =
	    find_cover_version(rows, row->space, row->from, row->version);
	rows->row[rows->count].target_version =
	    find_cover_version(rows, row->space, row->to, row->target_version);
	rows->count++;
	return 0;
}

/* The two edges of a conditional branch. */
static int add_outcomes(struct cover_rows *rows, int32_t space, const struct ptah_profile_block *b)
{
	struct cover_row row = {.space = space,
				.from = b->end - b->last_size,
				.to = b->target,
				.count = b->taken,
				.insn_class = b->insn_class,
				.version = b->version,
				.target_version = b->target_version};
	int status = append_cover_row(rows, &row);

	row.to = b->end;
	row.target_version = b->version;
	row.count = b->count - b->taken - b->unknown;
	return status < 0 ? status : append_cover_row(rows, &row);
}

static int add_cover_blocks(struct cover_rows *rows, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_block *blocks;
	size_t n;
	int status = ptah_profile_blocks(profile, &blocks, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct ptah_profile_block *b = &blocks[i];
		const int32_t space =
		    ptah_session_profile_pid(rows->session, stream, profile, b->space);

		if (!rows->edges)
			status =
			    append_cover_row(rows, &(struct cover_row){.space = space,
								       .from = b->ip,
								       .to = b->end,
								       .count = b->count,
								       .ninsn = b->ninsn,
								       .insn_class = b->insn_class,
								       .version = b->version});
		else if (b->insn_class == PTAH_INSN_COND)
			status = add_outcomes(rows, space, b);
	}
	free(blocks);
	return status;
}

static int add_indirect(struct cover_rows *rows, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_edge *edges;
	size_t n;
	int status = ptah_profile_edges(profile, &edges, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++)
		status = append_cover_row(
		    rows, &(struct cover_row){.space = ptah_session_profile_pid(
						  rows->session, stream, profile, edges[i].space),
					      .from = edges[i].from,
					      .to = edges[i].to,
					      .count = edges[i].count,
					      .insn_class = edges[i].insn_class,
					      .version = edges[i].version,
					      .target_version = edges[i].target_version});
	free(edges);
	return status;
}

int cover_add_profile(void *context, const struct ptah_stream_info *info, size_t stream,
		      struct ptah_profile *profile)
{
	(void)info;
	struct cover_rows *rows = context;
	struct ptah_profile_totals totals;
	int status = ptah_profile_totals(profile, &totals);

	if (status < 0)
		return status;
	rows->errors += totals.errors;
	status = add_cover_blocks(rows, stream, profile);
	return status >= 0 && rows->edges ? add_indirect(rows, stream, profile) : status;
}

static int by_cover_place(const void *a, const void *b)
{
	const struct cover_row *x = a, *y = b;
	int order = COMPARE((uint32_t)x->space, (uint32_t)y->space);

	order = order ? order : COMPARE(x->from, y->from);
	order = order ? order : COMPARE(x->to, y->to);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	order = order ? order : COMPARE(x->ninsn, y->ninsn);
	order = order ? order : COMPARE(x->version, y->version);
	return order ? order : COMPARE(x->target_version, y->target_version);
}

void cover_merge(struct cover_rows *rows)
{
	size_t last = 0;

	if (!rows->count)
		return;
	qsort(rows->row, rows->count, sizeof(*rows->row), by_cover_place);
	for (size_t i = 1; i < rows->count; i++) {
		if (by_cover_place(&rows->row[last], &rows->row[i]))
			rows->row[++last] = rows->row[i];
		else
			rows->row[last].count += rows->row[i].count;
	}
	rows->count = last + 1;
}
