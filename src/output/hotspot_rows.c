/* SPDX-License-Identifier: MIT */
/* Lists what was counted: blocks, and the functions that consist of them. */
#include "base/order.h"
#include "output/hotspots_internal.h"
#include "output/inlined.h"
#include "output/names_internal.h"

#include <stdlib.h>
#include <string.h>

static int by_hot_process(const void *a, const void *b)
{
	const struct cell *x = *(const struct cell *const *)a, *y = *(const struct cell *const *)b;

	return COMPARE(x->pid, y->pid);
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
		qsort(list, n, sizeof(*list), by_hot_process);
	return list;
}

/* One row for each cell. */
static int list_hot_blocks(const struct hotspots *c, struct names *names, struct hotspot **rows,
			   size_t *n)
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
		    .name = *names_find_version(names, cell->pid, cell->ip, cell->version),
		    .pid = cell->pid,
		    .ip = cell->ip,
		    .size = (uint32_t)(cell->end - cell->ip),
		    .ninsn = cell->ninsn,
		    .mode = cell->mode,
		    .executions = cell->executions,
		    .instructions = cell->instructions,
		    .calls = cell->entered,
		    .to = cell->to,
		    .to_count = cell->insn_class == PTAH_INSN_COND ? cell->taken : cell->executions,
		    .to_call = cell->insn_class == PTAH_INSN_CALL,
		    .version = cell->version,
		    .to_version = cell->to_version,
		};
	}
	free(cells);
	return 0;
}

/* Where the function begins: in its file, so that it does not matter where the file was mapped. */
static uint64_t beginning(const struct name *name)
{
	return name->place - name->offset;
}

/*
 * One row of the table for each function. The address does not say which function it is: processes
 * map one file at different addresses, so that another function may lie there.
 */
static int by_hot_function(const void *a, const void *b)
{
	const struct name *x = &((const struct hotspot *)a)->name;
	const struct name *y = &((const struct hotspot *)b)->name;
	int order = compare_texts(x->path, y->path);

	order = order ? order : compare_texts(x->symbol, y->symbol);
	/* A file whose symbols are not known has one row for all of it. */
	if (order || (!x->symbol && ptah_path_is_file(x->path)))
		return order;
	return COMPARE(beginning(x), beginning(y));
}

/* The same for blocks, of which several may begin at one address. */
static int by_hot_block(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = COMPARE(x->name.place, y->name.place);

	order = order ? order : COMPARE(x->size, y->size);
	order = order ? order : COMPARE(x->ninsn, y->ninsn);
	order = order ? order : compare_texts(x->name.path, y->name.path);
	/* Outside of files, each process may have other code there; not in the kernel. */
	if (order || x->ip >= NAMES_KERNEL_HALF || ptah_path_is_file(x->name.path))
		return order;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return COMPARE(x->version, y->version);
}

/* Adds up the rows that are equal. Returns how many remain. */
static size_t add_up(struct hotspot *rows, size_t n, int (*order)(const void *, const void *))
{
	size_t k = 0;

	qsort(rows, n, sizeof(*rows), order);
	for (size_t i = 0; i < n; i++) {
		struct hotspot *into;

		if (!k || order(&rows[k - 1], &rows[i]) != 0) {
			rows[k++] = rows[i];
			continue;
		}
		into = &rows[k - 1];
		into->instructions += rows[i].instructions;
		into->calls += rows[i].calls;
		into->executions += rows[i].executions;
		if (rows[i].ip < into->ip) {
			into->ip = rows[i].ip;
			into->name = rows[i].name;
			into->pid = rows[i].pid;
			into->to = rows[i].to;
		}
	}
	return k;
}

int hotspots_blocks(const struct hotspots *c, struct names *names, struct hotspot **rows, size_t *n)
{
	int status = list_hot_blocks(c, names, rows, n);

	if (status >= 0)
		*n = add_up(*rows, *n, by_hot_block);
	return status;
}

static int by_ip(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->ip != y->ip ? COMPARE(x->ip, y->ip) : COMPARE(x->version, y->version);
}

/* The first of the blocks at one address is the one that has the calls. */
static int by_ip_and_calls(const void *a, const void *b)
{
	const int order = by_ip(a, b);

	return order ? order
		     : COMPARE(((const struct hotspot *)b)->calls,
			       ((const struct hotspot *)a)->calls);
}

/* The first block in sorted rows that is not before `key`. */
static size_t find_block(const struct hotspot *rows, size_t n, const struct hotspot *key)
{
	size_t at;

	BISECT(at, 0, n, by_ip(&rows[at], key) < 0);
	return at;
}

/* What is known of the code of the block, enum ptah_function_flags. */
static uint32_t flags_of(const struct names *names, const struct hotspot *block)
{
	const struct name *name = &block->name;
	struct ptah_symbols *symbols = names_symbols(names);
	struct ptah_function f = {0};

	if (!name->code)
		return 0;
	if (name->code_at >> 63)
		return ptah_symbols_bounds(symbols, NULL, 0, name->code_at, &f) ? f.flags : 0;
	return ptah_symbols_bounds(symbols, name->code, name->code_at, block->ip, &f) ? f.flags : 0;
}

/*
 * Whether a function begins at the block. Not at a piece that was moved out of one (".cold"), and
 * not where execution ran on into code of which no function is known.
 */
static bool begins_function(const struct names *names, const struct hotspot *block)
{
	const uint32_t not = PTAH_FUNCTION_FRAGMENT | (block->runs_on ? PTAH_FUNCTION_SECTION : 0);

	return block->name.symbol && block->ip == block->name.start &&
	       !(flags_of(names, block) & not );
}

/*
 * Whether a direct branch of its own function leads to the block at `to`, other than as a call of
 * it.
 */
static bool is_local(const struct names *names, const struct hotspot *from,
		     const struct hotspot *to)
{
	return to->name.symbol && from->name.start == to->name.start &&
	       from->to_call != begins_function(names, to) &&
	       !(flags_of(names, to) & PTAH_FUNCTION_SECTION);
}

/* The block at an address of the process and version of `like`. NULL: none ran. */
static struct hotspot *block_at(struct hotspot *rows, size_t n, const struct hotspot *like,
				uint64_t ip, uint64_t version)
{
	const struct hotspot key = {.pid = like->pid, .ip = ip, .version = version};
	const size_t k = ip ? find_block(rows, n, &key) : n;

	return k < n && !by_ip(&rows[k], &key) ? &rows[k] : NULL;
}

/*
 * What is no call of the function that a block belongs to: a jump back to the first instruction,
 * and a call inside the function, as of a local label; a branch that is not taken, behind which no
 * function is known. Where several blocks begin any will do, as their function sums them up (modulo
 * 2^64, so that one of them may fall below 0).
 */
static void leave_out_local(const struct names *names, struct hotspot *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct hotspot *from = &rows[i];
		struct hotspot *to = block_at(rows, n, from, from->to, from->to_version);
		struct hotspot *next =
		    from->to && !from->to_call && from->to_count < from->executions
			? block_at(rows, n, from, from->ip + from->size, from->version)
			: NULL;

		if (to && is_local(names, from, to))
			to->calls -= from->to_count;
		if (next && begins_function(names, next) &&
		    flags_of(names, next) & PTAH_FUNCTION_SECTION)
			next->calls -= from->executions - from->to_count;
	}
}

/*
 * Code that is in no file and has no symbol: a function begins where a call went to, and before
 * that where the code begins that ran, which was entered by a jump then. The rows are in the order
 * of their addresses.
 */
static void begin_unnamed(struct hotspot *rows, size_t n)
{
	const struct hotspot *first = NULL; /* block of the function */

	for (size_t i = 0; i < n; i++) {
		struct hotspot *row = &rows[i];

		if (row->name.symbol || ptah_path_is_file(row->name.path)) {
			first = NULL;
			continue;
		}
		if (!first || row->calls || row->pid != first->pid ||
		    compare_texts(row->name.path, first->name.path)) {
			first = row;
			row->calls = row->executions;
		}
		row->name.start = first->ip;
		row->name.offset = row->ip - first->ip;
	}
}

/*
 * Makes functions of blocks. Returns how many there are. A call of a function is an execution of
 * its first instruction, however that was entered, but for jumps of its own; and a call instruction
 * elsewhere that went into its middle (docs/glossary.md).
 */
static size_t join_functions(const struct names *names, struct hotspot *blocks, size_t n)
{
	qsort(blocks, n, sizeof(*blocks), by_ip_and_calls);
	for (size_t i = 0; i < n; i++)
		if (begins_function(names, &blocks[i]))
			blocks[i].calls = blocks[i].executions;
	begin_unnamed(blocks, n);
	leave_out_local(names, blocks, n);
	for (size_t i = 0; i < n; i++)
		if (blocks[i].name.symbol || !ptah_path_is_file(blocks[i].name.path))
			blocks[i].ip = blocks[i].name.start;
	n = add_up(blocks, n, by_hot_function);
	/* A part of a trace may hold a jump back and not the call before it. */
	for (size_t i = 0; i < n; i++)
		blocks[i].calls = blocks[i].calls >> 63 ? 0 : blocks[i].calls;
	return n;
}

int hotspots_functions(const struct hotspots *c, struct names *names, struct hotspot **rows,
		       size_t *n)
{
	struct hotspot *blocks = NULL;
	int status = list_hot_blocks(c, names, &blocks, n);

	if (status >= 0)
		status = hotspots_split(names, &blocks, n);
	if (status < 0) {
		free(blocks);
		return status;
	}
	*n = join_functions(names, blocks, *n);
	*rows = blocks;
	return 0;
}

/* Drops functions of which inlining left nothing: what ran of them began in the middle. */
static size_t drop_empty(struct hotspot *rows, size_t n)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (rows[i].instructions || rows[i].calls)
			rows[k++] = rows[i];
	return k;
}

int hotspots_functions_inlined(const struct hotspots *c, struct names *names, struct hotspot **rows,
			       size_t *n)
{
	struct hotspot *inlined = NULL, *all = NULL, *more;
	size_t count = 0, functions;
	int status = list_hot_blocks(c, names, &all, &functions);

	if (status >= 0)
		status = hotspots_split(names, &all, &functions);
	if (status >= 0)
		status = inlined_take(names, all, functions, &inlined, &count);
	if (status >= 0) {
		functions = drop_empty(all, join_functions(names, all, functions));
		more = reallocarray(all, functions + count + 1, sizeof(*all));
		if (more) {
			memcpy(more + functions, inlined, count * sizeof(*more));
			*rows = more;
			*n = functions + count;
			all = NULL;
		} else {
			status = PTAH_E_NOMEM;
		}
	}
	free(inlined);
	free(all);
	return status;
}
