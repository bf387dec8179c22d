/* SPDX-License-Identifier: MIT */
/* Lists what was counted: blocks, and the functions that consist of them. */
#include "output/hotspots_internal.h"

#include <stdlib.h>
#include <string.h>

static int by_process(const void *a, const void *b)
{
	const struct cell *x = *(const struct cell *const *)a, *y = *(const struct cell *const *)b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* The cells sorted by process, because names caches one process at a time. The caller frees the
 * list. */
static const struct cell **list_cells(const struct hotspots *c)
{
	const struct cell **list = calloc(c->count + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; list && i < c->capacity; i++)
		if (c->cells[i].ninsn)
			list[n++] = &c->cells[i];
	if (list)
		qsort(list, n, sizeof(*list), by_process);
	return list;
}

int hotspots_blocks(const struct hotspots *c, struct names *names, struct hotspot **rows, size_t *n)
{
	struct hotspot *row = calloc(c->count + 1, sizeof(*row));
	const struct cell **cells = list_cells(c);

	if (!row || !cells) {
		free(row);
		free(cells);
		return PTAH_E_NOMEM;
	}
	*rows = row;
	*n = c->count;
	for (size_t i = 0; i < c->count; i++) {
		const struct cell *cell = cells[i];

		*row++ = (struct hotspot){
		    .name = *names_find(names, cell->pid, cell->ip),
		    .ip = cell->ip,
		    .size = (uint32_t)(cell->end - cell->ip),
		    .ninsn = cell->ninsn,
		    .executions = cell->executions,
		    .instructions = cell->instructions,
		    .calls = cell->calls,
		    .jumps = cell->jumps,
		    .to = cell->to,
		};
	}
	free(cells);
	return 0;
}

/*
 * One row of the table for each function. The address alone does not say which function it is:
 * processes map one file at different addresses, so that another function may lie there.
 */
static int by_function(const void *a, const void *b)
{
	const struct name *x = &((const struct hotspot *)a)->name;
	const struct name *y = &((const struct hotspot *)b)->name;

	if (x->path != y->path)
		return x->path < y->path ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (!x->symbol || !y->symbol)
		return (x->symbol != NULL) - (y->symbol != NULL);
	return strcmp(x->symbol, y->symbol);
}

static bool is_plt(const struct name *name)
{
	size_t n = name->symbol ? strlen(name->symbol) : 0;

	return n > 4 && !strcmp(name->symbol + n - 4, "@plt");
}

/* Counts jumps from one function to the beginning of another as calls: they are tail calls. */
static void count_tail_calls(struct hotspot *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct hotspot *from = &rows[i];
		size_t low = 0, high = n;

		while (from->to && low < high) {
			size_t middle = low + (high - low) / 2;

			if (rows[middle].ip < from->to)
				low = middle + 1;
			else
				high = middle;
		}
		if (!from->to || low == n || rows[low].ip != from->to ||
		    rows[low].name.start != from->to || !rows[low].name.symbol ||
		    from->name.start == from->to)
			continue;
		/* Several blocks may begin there. Any will do, as their function sums them up. */
		rows[low].calls += from->executions;
	}
}

static int by_ip(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;

	return x->ip < y->ip ? -1 : x->ip > y->ip;
}

int hotspots_functions(const struct hotspots *c, struct names *names, struct hotspot **rows,
		       size_t *n)
{
	size_t count = 0, k = 0;
	struct hotspot *all;
	int status = hotspots_blocks(c, names, &all, &count);

	if (status < 0)
		return status;
	qsort(all, count, sizeof(*all), by_ip);
	count_tail_calls(all, count);
	for (size_t i = 0; i < count; i++) {
		/* An indirect tail call, and the jump of a PLT entry, are calls too. */
		if (all[i].name.symbol && all[i].ip == all[i].name.start && !is_plt(&all[i].name))
			all[i].calls += all[i].jumps;
		if (!all[i].name.symbol)
			all[i].name.start = 0; /* one row for all such code of a file */
	}
	qsort(all, count, sizeof(*all), by_function);
	for (size_t i = 0; i < count; i++) {
		if (k && !by_function(&all[k - 1], &all[i])) {
			all[k - 1].instructions += all[i].instructions;
			all[k - 1].calls += all[i].calls;
			all[k - 1].executions += all[i].executions;
			continue;
		}
		all[k] = all[i];
		all[k].ip = all[i].name.symbol ? all[i].name.start : all[i].ip;
		k++;
	}
	*rows = all;
	*n = k;
	return 0;
}
