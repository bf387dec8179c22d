/* SPDX-License-Identifier: MIT */
/* Collects the rows of `ptah profile` from counts. */
#include "base/order.h"
#include "profile_rows.h"
#include "support/list.h"

#include <stdlib.h>

static int append_profile_row(struct profile_rows *rows, const struct profile_row *row)
{
	if (!LIST_ROOM(rows->row, rows->count, rows->capacity))
		return PTAH_E_NOMEM;
	rows->row[rows->count++] = *row;
	return 0;
}

static int add_profile_blocks(struct profile_rows *rows, uint32_t process,
			      const struct ptah_counts_process *p, int by)
{
	int status = 0;

	for (size_t i = 0; i < p->block_count && status >= 0; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];
		struct profile_row row = {.pid = p->pid,
					  .comm = p->comm,
					  .process = process,
					  .from = b->ip,
					  .to = b->end,
					  .count = b->count,
					  .instructions = b->count * b->ninsn,
					  .insn_class = b->insn_class,
					  .version = b->version};

		if (by == BY_BRANCHES) {
			if (b->insn_class != PTAH_INSN_COND)
				continue;
			row.from = b->end - b->last_size;
			row.to = b->target;
			row.target_version = b->target_version;
			row.taken = b->taken;
			row.unknown = b->unknown;
		}
		status = append_profile_row(rows, &row);
	}
	return status;
}

static int add_profile_edges(struct profile_rows *rows, uint32_t process,
			     const struct ptah_counts_process *p)
{
	int status = 0;

	for (size_t i = 0; i < p->edge_count && status >= 0; i++) {
		const struct profile_row row = {.pid = p->pid,
						.comm = p->comm,
						.process = process,
						.from = p->edges[i].from,
						.to = p->edges[i].to,
						.count = p->edges[i].count,
						.insn_class = p->edges[i].insn_class,
						.version = p->edges[i].version,
						.target_version = p->edges[i].target_version};

		status = append_profile_row(rows, &row);
	}
	return status;
}

static int by_profile_place(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;
	int order = COMPARE((uint32_t)x->pid, (uint32_t)y->pid);

	order = order ? order : COMPARE(x->process, y->process);
	order = order ? order : COMPARE(x->from, y->from);
	order = order ? order : COMPARE(x->to, y->to);
	order = order ? order : COMPARE(x->insn_class, y->insn_class);
	order = order ? order : COMPARE(x->version, y->version);
	return order ? order : COMPARE(x->target_version, y->target_version);
}

static int by_count(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;
	int order = COMPARE(y->count, x->count);

	return order ? order : by_profile_place(a, b);
}

/* Adds up rows of the same branch, block or edge, which blocks with different beginnings, and
 * different address spaces, have counted. Then sorts by count. */
static void merge_profile_rows(struct profile_rows *rows)
{
	size_t last = 0;

	if (!rows->count)
		return;
	qsort(rows->row, rows->count, sizeof(*rows->row), by_profile_place);
	for (size_t i = 1; i < rows->count; i++) {
		struct profile_row *row = &rows->row[last], *next = &rows->row[i];

		if (by_profile_place(row, next)) {
			rows->row[++last] = *next;
			continue;
		}
		row->count += next->count;
		row->taken += next->taken;
		row->unknown += next->unknown;
		row->instructions += next->instructions;
	}
	rows->count = last + 1;
	qsort(rows->row, rows->count, sizeof(*rows->row), by_count);
}

int profile_rows(const struct ptah_counts *counts, enum profile_by by, struct profile_rows *rows)
{
	struct ptah_counts_process p;
	int status = 0;

	for (size_t i = 0; status >= 0 && ptah_counts_process(counts, i, &p); i++)
		status = by == BY_EDGES ? add_profile_edges(rows, (uint32_t)i, &p)
					: add_profile_blocks(rows, (uint32_t)i, &p, by);
	if (status >= 0)
		merge_profile_rows(rows);
	return status;
}
