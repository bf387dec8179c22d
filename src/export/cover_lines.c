/* SPDX-License-Identifier: MIT */
/* Finds the lines of the blocks that ran, object by object (cover_lines.h). */
#include "export/cover_lines.h"

#include "base/order.h"
#include "base/path.h"
#include "export/cover_table.h"
#include "support/table.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

#define LONGEST_NAME 4095

struct line {
	uint64_t source, line;
};

/* Bytes of an object that are of one line, by its number. */
struct range {
	uint64_t start, end;
	uint32_t line;
};

struct lines {
	const struct cover_code *code;
	struct sqlite_file *file;
	struct table by_pointer; /* names of sources as the debug information has them: */
	uint32_t *sources;	 /* numbers of rows of the table */
	size_t source_count, source_room;
	char **names; /* of these rows */
	size_t name_count, name_room;
	struct keyed lines;
	struct range *ranges; /* of the object, ascending */
	size_t range_count, range_room;
	int status;
};

/* Sources */

/* The number of a source file's row, from 1 on. 0: out of memory. */
static uint32_t find_name(struct lines *l, const char *recorded)
{
	char *name = strndup(recorded, LONGEST_NAME);

	if (!name)
		return 0;
	if (*name == '/')
		path_resolve(name);
	for (size_t i = 0; i < l->name_count; i++)
		if (!strcmp(l->names[i], name)) {
			free(name);
			return (uint32_t)i + 1;
		}
	if (!LIST_ROOM(l->names, l->name_count, l->name_room)) {
		free(name);
		return 0;
	}
	l->names[l->name_count++] = name;
	sqlite_file_add(l->file, COVER_TABLE_SOURCES, "is", (int64_t)l->name_count, name);
	return (uint32_t)l->name_count;
}

static uint32_t source_number(struct lines *l, const char *recorded)
{
	bool is_new;
	const uint32_t known =
	    table_number(&l->by_pointer, (uintptr_t)recorded, UINT32_MAX, &is_new);
	uint32_t number;

	if (!known || !is_new)
		return known ? l->sources[known - 1] : 0;
	number = find_name(l, recorded);
	if (!number || !LIST_ROOM(l->sources, l->source_count, l->source_room))
		return 0;
	l->sources[l->source_count++] = number;
	return number;
}

/* The number of a line's row, from 1 on. 0: out of memory. */
static uint32_t line_number(struct lines *l, const char *file, uint32_t line)
{
	struct line row = {.line = line};
	uint32_t number;
	bool is_new;

	row.source = source_number(l, file);
	number = row.source ? keyed_number(&l->lines, &row, &is_new) : 0;
	if (number && is_new)
		sqlite_file_add(l->file, COVER_TABLE_LINES, "iii", (int64_t)number,
				(int64_t)row.source, (int64_t)line);
	return number;
}

/* A callback of ptah_symbols_lines(). */
static bool take_line(void *context, const struct ptah_line *line)
{
	struct lines *l = context;
	uint32_t number;

	if (!line->file || !line->line)
		return true;
	number = line_number(l, line->file, line->line);
	if (!number || !LIST_ROOM(l->ranges, l->range_count, l->range_room)) {
		l->status = PTAH_E_NOMEM;
		return false;
	}
	l->ranges[l->range_count++] = (struct range){line->start, line->start + line->size, number};
	return true;
}

/* Blocks */

static void put_line_of_block(struct lines *l, uint32_t line, uint32_t block, uint64_t at)
{
	sqlite_file_add(l->file, COVER_TABLE_LINE_BLOCKS, "iii", (int64_t)line, (int64_t)block,
			(int64_t)at);
}

/* The first range that ends after `at`. */
static size_t range_at(const struct lines *l, uint64_t at)
{
	size_t low;

	BISECT(low, 0, l->range_count, l->ranges[low].end <= at);
	return low;
}

/* A line is in a block once: where it begins there. */
static bool is_first(const struct lines *l, size_t first, size_t i)
{
	for (size_t k = first; k < i; k++)
		if (l->ranges[k].line == l->ranges[i].line)
			return false;
	return true;
}

/*
 * Where the brace of a function stands on a line of its own, its first instructions have that
 * line. People also ask for the line with its name.
 */
static int put_declaration(struct lines *l, const char *path, const struct cover_block *b,
			   uint32_t block, size_t first)
{
	const struct cover_function *f =
	    b->function ? cover_code_function(l->code, b->function) : NULL;
	struct ptah_inline declared;
	uint32_t line;

	if (!f || f->at < b->at || f->at >= b->end ||
	    !ptah_symbols_function(names_symbols(l->code->names), path, f->at, &declared) ||
	    !declared.file || !declared.line)
		return 0;
	line = line_number(l, declared.file, declared.line);
	if (!line)
		return PTAH_E_NOMEM;
	for (size_t i = first; i < l->range_count && l->ranges[i].start < b->end; i++)
		if (l->ranges[i].line == line)
			return 0;
	put_line_of_block(l, line, block, f->at);
	return 0;
}

static int put_block(struct lines *l, const char *path, uint32_t number)
{
	const struct cover_block *b = cover_code_block(l->code, number);
	const size_t first = range_at(l, b->at);

	for (size_t i = first; i < l->range_count && l->ranges[i].start < b->end; i++)
		if (is_first(l, first, i))
			put_line_of_block(l, l->ranges[i].line, number,
					  l->ranges[i].start > b->at ? l->ranges[i].start : b->at);
	return put_declaration(l, path, b, number, first);
}

static int put_object(struct lines *l, size_t object)
{
	const char *path = l->code->objects[object].path;
	int status;

	l->range_count = 0;
	if (*path != '/')
		return 0;
	status =
	    ptah_symbols_lines(names_symbols(l->code->names), path, 0, UINT64_MAX, take_line, l);
	if (l->status < 0 || status == PTAH_E_NOMEM)
		return PTAH_E_NOMEM;
	for (uint32_t i = 1; i <= l->code->blocks.count && l->range_count && l->status >= 0; i++)
		if (cover_code_block(l->code, i)->object == object)
			l->status = put_block(l, path, i);
	return l->status;
}

int cover_lines_write(const struct cover_code *code, struct sqlite_file *file)
{
	struct lines l = {
	    .code = code,
	    .file = file,
	    .lines = {.row_size = sizeof(struct line), .key_size = sizeof(struct line)},
	};
	int status = 0;

	for (size_t i = 0; i < code->object_count && status >= 0; i++)
		if (code->objects[i].is_file)
			status = put_object(&l, i);
	for (size_t i = 0; i < l.name_count; i++)
		free(l.names[i]);
	free(l.names);
	free(l.sources);
	free(l.ranges);
	table_free(&l.by_pointer);
	keyed_free(&l.lines);
	return status;
}
