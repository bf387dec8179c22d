/* SPDX-License-Identifier: MIT */
/* Lines of source code for places in files, and places for lines (symbol.h). */
#include "base/order.h"
#include "symbol/resolver.h"

#include <ptah/base.h>

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

/* Opens the debug information of a file on the first call. False: no memory. */
static bool read_debug(struct ptah_symbols *symbols, struct symbol_binary *binary)
{
	const struct symbol_folders folders = symbol_folders_of(symbols, binary);
	char *local;

	if (binary->debug_read)
		return true;
	local = symbol_local_path(symbols, binary->path);
	if (!local)
		return false;
	binary->debug_read = true;
	symbol_debug_read(local, &folders, &binary->file, symbols->pool, &binary->debug);
	free(local);
	return true;
}

struct symbol_debug *symbol_find_debug(struct ptah_symbols *symbols, const char *path, int *status)
{
	struct symbol_binary *binary = symbol_find_binary(symbols, path);

	*status = PTAH_E_NOMEM;
	if (!binary)
		return NULL;
	if (!read_debug(symbols, binary))
		return NULL;
	if (binary->debug.status == PTAH_E_MISSING && symbol_fetch(symbols, binary) &&
	    !read_debug(symbols, binary))
		return NULL;
	*status = binary->debug.status;
	return *status ? NULL : &binary->debug;
}

const char *ptah_symbols_debug_file(struct ptah_symbols *symbols, const char *path, int *status)
{
	struct symbol_debug *debug;
	int result = PTAH_E_INVAL;

	debug = symbols && path ? symbol_find_debug(symbols, path, &result) : NULL;
	if (status)
		*status = result;
	return debug ? debug->path : NULL;
}

/* Go */

/* The table of lines that a file of Go has for its own use; NULL: it has none. */
static struct symbol_binary *find_go(struct ptah_symbols *symbols, const char *path)
{
	struct symbol_binary *binary = symbol_find_binary(symbols, path);
	char *local;

	if (!binary || binary->go_read)
		return binary && binary->has_go ? binary : NULL;
	binary->go_read = true;
	local = symbol_local_path(symbols, path);
	if (local && symbol_elf_open(local, &binary->go_file)) {
		binary->has_go = symbol_go_find(binary->go_file.elf, &binary->go);
		if (!binary->has_go)
			symbol_elf_close(&binary->go_file);
	}
	free(local);
	return binary->has_go ? binary : NULL;
}

/* False: the line is not in the file. */
static bool fill_go_line(const struct ptah_symbols *symbols, const struct symbol_binary *binary,
			 const struct symbol_go_line *go, struct ptah_line *line)
{
	uint64_t offset;

	if (!symbol_file_offset(&binary->file, go->start, &offset))
		return false;
	*line = (struct ptah_line){
	    .start = offset,
	    .size = go->end - go->start,
	    .file = go->file ? symbol_pool_keep(symbols->pool, go->file) : NULL,
	    .line = go->line,
	};
	return true;
}

static bool find_go_line(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
			 struct ptah_line *line)
{
	const struct symbol_binary *binary = find_go(symbols, path);
	struct symbol_go_line found;
	uint64_t address;

	return binary && symbol_file_address(&binary->file, file_offset, &address) &&
	       symbol_go_line(&binary->go, address, &found) &&
	       fill_go_line(symbols, binary, &found, line);
}

struct go_visit {
	const struct ptah_symbols *symbols;
	const struct symbol_binary *binary;
	ptah_line_visit *visit;
	void *context;
};

static bool visit_go_line(void *context, const struct symbol_go_line *found)
{
	const struct go_visit *v = context;
	struct ptah_line line;

	return !fill_go_line(v->symbols, v->binary, found, &line) || v->visit(v->context, &line);
}

static int visit_go(struct ptah_symbols *symbols, const struct symbol_binary *binary,
		    uint64_t start, uint64_t size, ptah_line_visit *visit, void *context)
{
	struct go_visit v = {symbols, binary, visit, context};
	uint64_t from = 0, to = UINT64_MAX;

	if (size != UINT64_MAX) {
		if (!symbol_file_address(&binary->file, start, &from))
			return 0;
		to = size < UINT64_MAX - from ? from + size : UINT64_MAX;
	}
	return symbol_go_lines(&binary->go, from, to, visit_go_line, &v);
}

/* DWARF */

/* The index of the first row that ends above `address`. */
static size_t first_row(const struct symbol_line_table *table, uint64_t address)
{
	size_t at;

	BISECT(at, 0, table->count, table->rows[at].start + table->rows[at].size <= address);
	return at;
}

static const struct symbol_row *find_line_row(const struct symbol_line_table *table,
					      uint64_t address)
{
	size_t i = first_row(table, address);

	return i < table->count && table->rows[i].start <= address ? &table->rows[i] : NULL;
}

/* The index of the first range that ends above `address`. */
static size_t first_range(const struct symbol_ranges *disjoint, uint64_t address)
{
	size_t at;

	BISECT(at, 0, disjoint->count, disjoint->items[at].end <= address);
	return at;
}

/* The part of a row within [start, end), all in addresses. */
struct piece {
	struct symbol_debug *debug;
	struct symbol_unit *unit;
	const struct symbol_row *row;
	uint64_t start, end;
};

/* False: the piece is not in the file. */
static bool fill_line(const struct piece *p, struct ptah_line *line)
{
	uint64_t offset;

	if (p->start >= p->end || !symbol_file_offset(p->debug->file, p->start, &offset))
		return false;
	*line = (struct ptah_line){
	    .start = offset,
	    .size = p->end - p->start,
	    .file = symbol_debug_source(p->debug, p->unit, p->row->file),
	    .line = p->row->line,
	    .column = p->row->column,
	    .statement = p->row->statement && p->start == p->row->start,
	};
	return true;
}

/* Cuts a row off where the unit's code does: the table may be shared by several units. */
static struct piece cut_row(struct symbol_debug *debug, struct symbol_unit *unit,
			    const struct symbol_row *row, const struct symbol_range *range)
{
	uint64_t end = row->start + row->size;

	return (struct piece){debug, unit, row,
			      row->start > range->start ? row->start : range->start,
			      end < range->end ? end : range->end};
}

bool ptah_symbols_line(struct ptah_symbols *symbols, const char *path, uint64_t file_offset,
		       struct ptah_line *line)
{
	const struct symbol_line_table *table;
	const struct symbol_range *range;
	const struct symbol_row *row;
	struct symbol_debug *debug;
	struct symbol_unit *unit;
	struct piece piece;
	uint64_t address;
	int status;

	if (!symbols || !path || !line)
		return false;
	debug = symbol_find_debug(symbols, path, &status);
	if (status == PTAH_E_MISSING)
		return find_go_line(symbols, path, file_offset, line);
	if (!debug || !symbol_file_address(debug->file, file_offset, &address))
		return false;
	range = symbol_ranges_find(&debug->ranges, address);
	if (!range)
		return false;
	unit = &debug->units[range->name];
	table = symbol_debug_lines(debug, unit);
	row = table ? find_line_row(table, address) : NULL;
	if (!row)
		return false;
	piece = cut_row(debug, unit, row, range);
	return fill_line(&piece, line);
}

/* Visits the rows of one range of a unit in [start, end). 1: no more are wanted. */
static int visit_range(struct symbol_debug *debug, const struct symbol_range *range, uint64_t start,
		       uint64_t end, ptah_line_visit *visit, void *context)
{
	struct symbol_unit *unit = &debug->units[range->name];
	const struct symbol_line_table *table = symbol_debug_lines(debug, unit);
	const struct symbol_row *row;
	struct ptah_line line;

	if (!table)
		return unit->lines_status == PTAH_E_MISSING ? 0 : unit->lines_status;
	if (!table->count)
		return 0;
	start = start > range->start ? start : range->start;
	end = end < range->end ? end : range->end;
	for (row = table->rows + first_row(table, start);
	     row < table->rows + table->count && row->start < end; row++) {
		struct piece piece = cut_row(debug, unit, row, range);

		piece.start = piece.start > start ? piece.start : start;
		piece.end = piece.end < end ? piece.end : end;
		if (fill_line(&piece, &line) && !visit(context, &line))
			return 1;
	}
	return 0;
}

int ptah_symbols_lines(struct ptah_symbols *symbols, const char *path, uint64_t start,
		       uint64_t size, ptah_line_visit *visit, void *context)
{
	uint64_t from = 0, to = UINT64_MAX;
	struct symbol_binary *go = NULL;
	struct symbol_debug *debug;
	int status, result = 0;

	if (!symbols || !path || !visit)
		return PTAH_E_INVAL;
	debug = symbol_find_debug(symbols, path, &status);
	if (!debug && status == PTAH_E_MISSING)
		go = find_go(symbols, path);
	if (go)
		return visit_go(symbols, go, start, size, visit, context);
	if (!debug)
		return status;
	if (size != UINT64_MAX) {
		if (!symbol_file_address(debug->file, start, &from))
			return 0;
		to = size < UINT64_MAX - from ? from + size : UINT64_MAX;
	}
	for (size_t i = first_range(&debug->ranges, from); i < debug->ranges.count && result != 1;
	     i++) {
		const struct symbol_range *range = &debug->ranges.items[i];

		if (range->start >= to)
			break;
		result = visit_range(debug, range, from, to, visit, context);
		/* One malformed table does not keep the others back, but it is reported. */
		status = result < 0 ? result : status;
	}
	return status;
}

/* Lines to places */

/* Whether `wanted` is the whole path, or its last parts. */
static bool is_file(const char *path, const char *wanted)
{
	size_t n = strlen(path), m = strlen(wanted);

	return m && m <= n && !strcmp(path + n - m, wanted) &&
	       (m == n || path[n - m - 1] == '/' || *wanted == '/');
}

struct wanted {
	const char *file;
	uint32_t line;		   /* the lowest that has code, from the one that is asked for on */
	const char *known, *other; /* the last strings that were the file, and were not */
	ptah_line_visit *visit;
	void *context;
};

static bool is_wanted(struct wanted *w, const struct ptah_line *line)
{
	if (!line->file || line->file == w->other)
		return false;
	if (line->file == w->known)
		return true;
	if (is_file(line->file, w->file))
		w->known = line->file;
	else
		w->other = line->file;
	return line->file == w->known;
}

struct nearest {
	struct wanted wanted;
	uint32_t found; /* 0: none */
};

static bool take_nearest(void *context, const struct ptah_line *line)
{
	struct nearest *n = context;

	if (line->line >= n->wanted.line && (!n->found || line->line < n->found) &&
	    is_wanted(&n->wanted, line))
		n->found = line->line;
	return true;
}

static bool take_line_place(void *context, const struct ptah_line *line)
{
	struct wanted *w = context;

	return line->line != w->line || !is_wanted(w, line) || w->visit(w->context, line);
}

int ptah_symbols_find_line(struct ptah_symbols *symbols, const char *path, const char *file,
			   uint32_t line, ptah_line_visit *visit, void *context)
{
	struct nearest nearest = {
	    .wanted = {.file = file, .line = line, .visit = visit, .context = context}};
	int status;

	if (!file || !line || line > INT32_MAX || !visit)
		return PTAH_E_INVAL;
	status = ptah_symbols_lines(symbols, path, 0, UINT64_MAX, take_nearest, &nearest);
	if (status < 0 || !nearest.found || nearest.found > INT32_MAX)
		return status;
	nearest.wanted.line = nearest.found;
	status = ptah_symbols_lines(symbols, path, 0, UINT64_MAX, take_line_place, &nearest.wanted);
	return status < 0 ? status : (int)nearest.found;
}
