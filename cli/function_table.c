/* SPDX-License-Identifier: MIT */
/* Sorts and prints the table of functions, or of blocks. */
#include "function_table.h"

#include "base/order.h"
#include "output/fields.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static int by_table_instructions(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = COMPARE(y->instructions, x->instructions);

	order = order ? order : COMPARE(x->ip, y->ip);
	return order ? order : strcmp(x->name.dso, y->name.dso);
}

static int by_calls(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = COMPARE(y->calls, x->calls);

	return order ? order : by_table_instructions(a, b);
}

static int by_table_name(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = strcmp(x->name.symbol ? x->name.symbol : x->name.dso,
			   y->name.symbol ? y->name.symbol : y->name.dso);

	return order ? order : by_table_instructions(a, b);
}

size_t table_keep(struct hotspot *rows, size_t n, struct names *names, const char *function)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (names_is(names, &rows[i].name, function))
			rows[kept++] = rows[i];
	return kept;
}

void table_sort(struct hotspot *rows, size_t n, enum table_order order)
{
	static int (*const orders[])(const void *, const void *) = {
	    [TABLE_BY_INSTRUCTIONS] = by_table_instructions,
	    [TABLE_BY_CALLS] = by_calls,
	    [TABLE_BY_NAME] = by_table_name,
	};

	qsort(rows, n, sizeof(*rows), orders[order]);
}

/* "main", or of a block "main+0x10"; the address where no symbol is known. */
static const char *label(const struct hotspot *row, bool offset, char *text, size_t n)
{
	if (!row->name.symbol)
		snprintf(text, n, "0x%" PRIx64, row->ip);
	else if (offset && row->name.offset)
		snprintf(text, n, "%s+0x%" PRIx64, row->name.symbol, row->name.offset);
	else
		return row->name.symbol;
	return text;
}

/* Follows the name of an inlined function, as with perf. */
static const char inlined_mark[] = " (inlined)";

/* What precedes the object: percent, instructions, and calls or executions. */
#define FIGURES (7 + 1 + 17 + 1 + 13 + 2)

/* The width of the column: that of the longest name, but at most 40, and on a terminal a third of
 * what the figures leave. */
static unsigned object_width(const struct out *out, const struct hotspot *rows, size_t n)
{
	const unsigned rest = pretty_rest(out, FIGURES), limit = rest ? rest / 3 : 40;
	unsigned width = (unsigned)strlen("object");

	for (size_t i = 0; i < n; i++) {
		const unsigned columns = pretty_columns(rows[i].name.dso);

		if (columns > width)
			width = columns <= limit ? columns : rest && limit > width ? limit : width;
	}
	return width;
}

static void put_row(struct out *out, const struct table *t, const struct hotspot *row,
		    unsigned width)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], name[1024], size[32] = "";
	const char *entered = pretty_number(t->blocks ? row->executions : row->calls, b);

	if (t->blocks)
		snprintf(size, sizeof(size), "  [%u instruction%s]", row->ninsn,
			 row->ninsn == 1 ? "" : "s");
	else if (row->inlined)
		snprintf(size, sizeof(size), "%s", inlined_mark);
	pretty_percent(out, row->instructions, t->total);
	out_format(out, " %17s %13s  ", pretty_number(row->instructions, a),
		   row->inlined ? "-" : entered);
	pretty_column(out, row->name.dso, width);
	out_char(out, ' ');
	pretty_name(out, label(row, t->blocks, name, sizeof(name)),
		    pretty_rest(out, FIGURES + width + 1 + (unsigned)strlen(size)));
	out_text(out, size);
	out_char(out, '\n');
}

void table_text(struct out *out, const struct table *t)
{
	const unsigned width = object_width(out, t->rows, t->shown);

	pretty_head(out, "%7s %17s %13s  %-*s %s\n", "percent", "instructions",
		    t->blocks ? "executions" : "calls", (int)width, "object",
		    t->blocks ? "block" : "function");
	for (size_t i = 0; i < t->shown; i++)
		put_row(out, t, &t->rows[i], width);
	if (t->shown < t->count)
		out_format(out, "%zu more (--limit=0 shows all)\n", t->count - t->shown);
}

/* A row as TSV and JSON have it. */
struct flat {
	double percent;
	uint64_t instructions, calls, executions, ip, offset, size;
	const char *object, *label, *symbol;
	bool inlined;
};

/* The field that says which rows are inlined functions. */
#define ASK_INLINED 1u

static const struct field function_fields[] = {
    FIELD_TSV(struct flat, "percent", FIELD_REAL, percent),
    FIELD_TSV(struct flat, "instructions", FIELD_NUMBER, instructions),
    FIELD_TSV(struct flat, "calls", FIELD_NUMBER, calls),
    FIELD_TSV(struct flat, "object", FIELD_STRING, object),
    FIELD_TSV(struct flat, "function", FIELD_STRING, label),
    FIELD_JSON(struct flat, "function", FIELD_STRING, symbol),
    FIELD_JSON(struct flat, "object", FIELD_STRING, object),
    FIELD(struct flat, "ip", FIELD_ADDRESS, ip),
    FIELD_JSON(struct flat, "calls", FIELD_NUMBER, calls),
    FIELD_JSON(struct flat, "instructions", FIELD_NUMBER, instructions),
    FIELD_JSON(struct flat, "percent", FIELD_REAL, percent),
    {"inlined", "inlined", FIELD_BOOL, offsetof(struct flat, inlined), ASK_INLINED, 0},
};

static const struct field block_fields[] = {
    FIELD_TSV(struct flat, "percent", FIELD_REAL, percent),
    FIELD_TSV(struct flat, "instructions", FIELD_NUMBER, instructions),
    FIELD_TSV(struct flat, "executions", FIELD_NUMBER, executions),
    FIELD_TSV(struct flat, "object", FIELD_STRING, object),
    FIELD_TSV(struct flat, "block", FIELD_STRING, label),
    FIELD_JSON(struct flat, "symbol", FIELD_STRING, symbol),
    FIELD_JSON(struct flat, "object", FIELD_STRING, object),
    FIELD(struct flat, "ip", FIELD_ADDRESS, ip),
    FIELD_JSON(struct flat, "offset", FIELD_NUMBER, offset),
    FIELD_JSON(struct flat, "size", FIELD_NUMBER, size),
    FIELD_JSON(struct flat, "executions", FIELD_NUMBER, executions),
    FIELD_JSON(struct flat, "instructions", FIELD_NUMBER, instructions),
    FIELD_JSON(struct flat, "percent", FIELD_REAL, percent),
};

static const struct row_type function_type = ROW_TYPE(function_fields);
static const struct row_type block_type = ROW_TYPE(block_fields);

static struct flat flatten(const struct table *t, const struct hotspot *row, char *text, size_t n)
{
	const char *name = label(row, t->blocks, text, n);
	const int most = (int)(n - sizeof(inlined_mark));

	if (row->inlined) {
		snprintf(text, n, "%.*s%s", most, row->name.symbol, inlined_mark);
		name = text;
	}
	return (struct flat){
	    .percent = percent(row->instructions, t->total),
	    .instructions = row->instructions,
	    .calls = row->calls,
	    .executions = row->executions,
	    .ip = row->ip,
	    .offset = row->name.offset,
	    .size = row->size,
	    .object = row->name.path ? row->name.path : row->name.dso,
	    .label = name,
	    /* As in TSV, a function without a name is called by its address. */
	    .symbol = row->inlined || (!t->blocks && !row->name.symbol) ? name : row->name.symbol,
	    .inlined = row->inlined,
	};
}

void table_json(struct json *j, const struct table *t)
{
	const unsigned asked = t->inlined ? ASK_INLINED : 0;
	char text[NAMES_LABEL_MAX];

	json_array(j, t->blocks ? "hottest_blocks" : "functions");
	for (size_t i = 0; i < t->shown; i++) {
		const struct flat row = flatten(t, &t->rows[i], text, sizeof(text));

		fields_json(j, t->blocks ? &block_type : &function_type, asked, &row);
	}
	json_end_array(j);
}

void table_tsv(struct out *out, const struct table *t)
{
	const struct row_type *type = t->blocks ? &block_type : &function_type;
	const unsigned asked = t->inlined ? ASK_INLINED : 0;
	char text[NAMES_LABEL_MAX];

	fields_tsv_head(out, type, asked);
	for (size_t i = 0; i < t->shown; i++) {
		const struct flat row = flatten(t, &t->rows[i], text, sizeof(text));

		fields_tsv(out, type, asked, &row);
	}
}
