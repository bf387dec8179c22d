/* SPDX-License-Identifier: MIT */
#include "function_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *grouped(uint64_t value, char text[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value), k = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			text[k++] = ',';
		text[k++] = digits[i];
	}
	text[k] = '\0';
	return text;
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_instructions(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = compare(y->instructions, x->instructions);

	order = order ? order : compare(x->ip, y->ip);
	return order ? order : strcmp(x->name.dso, y->name.dso);
}

static int by_calls(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = compare(y->calls, x->calls);

	return order ? order : by_instructions(a, b);
}

static int by_name(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;
	int order = strcmp(x->name.symbol ? x->name.symbol : x->name.dso,
			   y->name.symbol ? y->name.symbol : y->name.dso);

	return order ? order : by_instructions(a, b);
}

void table_sort(struct hotspot *rows, size_t n, enum table_order order)
{
	static int (*const orders[])(const void *, const void *) = {
	    [TABLE_BY_INSTRUCTIONS] = by_instructions,
	    [TABLE_BY_CALLS] = by_calls,
	    [TABLE_BY_NAME] = by_name,
	};

	qsort(rows, n, sizeof(*rows), orders[order]);
}

static void put_name(struct out *out, const struct hotspot *row, bool offset)
{
	if (!row->name.symbol) {
		out_format(out, "0x%" PRIx64, row->ip);
		return;
	}
	out_text(out, row->name.symbol);
	if (offset && row->name.offset)
		out_format(out, "+0x%" PRIx64, row->name.offset);
}

/* As wide as the widest, within reason. */
static int object_width(const struct hotspot *rows, size_t n)
{
	size_t width = strlen("object");

	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(rows[i].name.dso);

		if (length > width && length <= 40)
			width = length;
	}
	return (int)width;
}

void table_text(struct out *out, const struct table *t)
{
	int width = object_width(t->rows, t->shown);
	char a[32], b[32];

	out_format(out, "%7s %17s %13s  %-*s %s\n", "percent", "instructions",
		   t->blocks ? "executions" : "calls", width, "object",
		   t->blocks ? "block" : "function");
	for (size_t i = 0; i < t->shown; i++) {
		const struct hotspot *row = &t->rows[i];

		out_format(out, "%6.2f%% %17s %13s  %-*s ", percent(row->instructions, t->total),
			   grouped(row->instructions, a),
			   grouped(t->blocks ? row->executions : row->calls, b), width,
			   row->name.dso);
		put_name(out, row, t->blocks);
		if (t->blocks)
			out_format(out, "  [%u instruction%s]", row->ninsn,
				   row->ninsn == 1 ? "" : "s");
		out_char(out, '\n');
	}
	if (t->shown < t->count)
		out_format(out, "%zu more (--limit=0 shows all)\n", t->count - t->shown);
}

void table_json(struct json *j, const struct table *t)
{
	json_array(j, t->blocks ? "hottest_blocks" : "functions");
	for (size_t i = 0; i < t->shown; i++) {
		const struct hotspot *row = &t->rows[i];

		json_object(j, NULL, true);
		json_string(j, t->blocks ? "symbol" : "function", row->name.symbol);
		json_string(j, "object", row->name.path ? row->name.path : row->name.dso);
		json_address(j, "ip", row->ip);
		if (t->blocks) {
			json_number(j, "offset", row->name.offset);
			json_number(j, "size", row->size);
			json_number(j, "executions", row->executions);
		} else {
			json_number(j, "calls", row->calls);
		}
		json_number(j, "instructions", row->instructions);
		json_real(j, "percent", percent(row->instructions, t->total));
		json_end_object(j);
	}
	json_end_array(j);
}

void table_tsv(struct out *out, const struct table *t)
{
	out_format(out, "percent\tinstructions\t%s\tobject\t%s\tip\n",
		   t->blocks ? "executions" : "calls", t->blocks ? "block" : "function");
	for (size_t i = 0; i < t->shown; i++) {
		const struct hotspot *row = &t->rows[i];

		out_format(out, "%.3f\t%" PRIu64 "\t%" PRIu64 "\t%s\t",
			   percent(row->instructions, t->total), row->instructions,
			   t->blocks ? row->executions : row->calls,
			   row->name.path ? row->name.path : row->name.dso);
		put_name(out, row, t->blocks);
		out_format(out, "\t0x%" PRIx64 "\n", row->ip);
	}
}
