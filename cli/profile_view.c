/* SPDX-License-Identifier: MIT */
/* The rows of `ptah profile` as text, TSV and JSON. */
#include "profile_view.h"

#include "output/fields.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const profile_by_words[] = {"branches", "blocks", "edges", "functions", NULL};

/* A value of --by: its fields, the heading of the text, and how a line of text is written. */
struct kind {
	const struct row_type *type;
	const char *head;
	void (*put_text)(struct out *out, const struct profile_shown *row);
};

static const struct field branch_fields[] = {
    FIELD(struct profile_shown, "pid", FIELD_SIGNED, pid),
    FIELD_JSON(struct profile_shown, "comm", FIELD_STRING, comm),
    FIELD(struct profile_shown, "ip", FIELD_ADDRESS, from),
    FIELD(struct profile_shown, "to", FIELD_ADDRESS, to),
    FIELD_TWO(struct profile_shown, "executed", "count", FIELD_NUMBER, count),
    FIELD(struct profile_shown, "taken", FIELD_NUMBER, taken),
    FIELD(struct profile_shown, "unknown", FIELD_NUMBER, unknown),
    FIELD(struct profile_shown, "symbol", FIELD_STRING, from_symbol),
    FIELD(struct profile_shown, "to_symbol", FIELD_STRING, to_symbol),
    FIELD_TSV(struct profile_shown, "comm", FIELD_STRING, comm),
};

static const struct field block_fields[] = {
    FIELD(struct profile_shown, "pid", FIELD_SIGNED, pid),
    FIELD_JSON(struct profile_shown, "comm", FIELD_STRING, comm),
    FIELD(struct profile_shown, "ip", FIELD_ADDRESS, from),
    FIELD(struct profile_shown, "end", FIELD_ADDRESS, to),
    FIELD_TWO(struct profile_shown, "executed", "count", FIELD_NUMBER, count),
    FIELD_TSV(struct profile_shown, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct profile_shown, "class", FIELD_STRING, insn_class),
    FIELD_JSON(struct profile_shown, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct profile_shown, "symbol", FIELD_STRING, from_symbol),
    FIELD_TSV(struct profile_shown, "comm", FIELD_STRING, comm),
};

static const struct field edge_fields[] = {
    FIELD(struct profile_shown, "pid", FIELD_SIGNED, pid),
    FIELD_JSON(struct profile_shown, "comm", FIELD_STRING, comm),
    FIELD(struct profile_shown, "from", FIELD_ADDRESS, from),
    FIELD(struct profile_shown, "to", FIELD_ADDRESS, to),
    FIELD(struct profile_shown, "count", FIELD_NUMBER, count),
    FIELD(struct profile_shown, "class", FIELD_STRING, insn_class),
    FIELD(struct profile_shown, "symbol", FIELD_STRING, from_symbol),
    FIELD(struct profile_shown, "to_symbol", FIELD_STRING, to_symbol),
    FIELD_TSV(struct profile_shown, "comm", FIELD_STRING, comm),
};

static const struct row_type branch_type = ROW_TYPE(branch_fields);
static const struct row_type block_type = ROW_TYPE(block_fields);
static const struct row_type edge_type = ROW_TYPE(edge_fields);

static double percent(const struct profile_shown *row)
{
	const uint64_t known = row->count - row->unknown;

	return known ? 100.0 * (double)row->taken / (double)known : 0;
}

/* Writes "from -> to". `used`: the columns before it. What one name does not need of its half of
 * the line is left to the other. */
static void put_profile_pair(struct out *out, const struct profile_shown *row, unsigned used)
{
	const unsigned rest = pretty_rest(out, used + 4), to = pretty_columns(row->to_symbol);
	unsigned written;

	written = pretty_name(out, row->from_symbol, to < rest / 2 ? rest - to : rest / 2);
	out_text(out, " -> ");
	pretty_name(out, row->to_symbol, rest > written ? rest - written : rest);
	out_char(out, '\n');
}

static void put_profile_branch(struct out *out, const struct profile_shown *row)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER];

	out_format(out, "%15s %15s %6.2f%%  ", pretty_number(row->count, a),
		   pretty_number(row->taken, b), percent(row));
	put_profile_pair(out, row, 15 + 1 + 15 + 1 + 7 + 2);
}

static void put_profile_block(struct out *out, const struct profile_shown *row)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], end[64];

	snprintf(end, sizeof(end), " [%" PRIu64 " bytes] %s", row->to - row->from, row->insn_class);
	out_format(out, "%15s %17s  ", pretty_number(row->count, a),
		   pretty_number(row->instructions, b));
	pretty_name(out, row->from_symbol,
		    pretty_rest(out, 15 + 1 + 17 + 2 + (unsigned)strlen(end)));
	out_text(out, end);
	out_char(out, '\n');
}

static void put_edge(struct out *out, const struct profile_shown *row)
{
	char a[PRETTY_NUMBER];

	out_format(out, "%15s %-14s ", pretty_number(row->count, a), row->insn_class);
	put_profile_pair(out, row, 15 + 1 + 14 + 1);
}

static const struct kind kinds[] = {
    [BY_BRANCHES] = {&branch_type, "       executed           taken   ratio  branch -> target\n",
		     put_profile_branch},
    [BY_BLOCKS] = {&block_type, "       executed      instructions  block\n", put_profile_block},
    [BY_EDGES] = {&edge_type, "          count kind           branch -> target\n", put_edge},
};

/* Text */

static void begin_text(void *view)
{
	struct profile_view *v = view;

	pretty_head(v->out, "%s", kinds[v->by].head);
}

static void put_text(void *view, const void *row)
{
	struct profile_view *v = view;

	kinds[v->by].put_text(v->out, row);
}

static void end_profile_text(void *view)
{
	struct profile_view *v = view;

	if (v->shown_count < v->row_count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n",
			   v->row_count - v->shown_count);
}

static void put_functions_text(void *view)
{
	struct profile_view *v = view;

	table_text(v->out, v->functions);
}

/* TSV */

static void begin_profile_tsv(void *view)
{
	struct profile_view *v = view;

	fields_tsv_head(v->out, kinds[v->by].type, 0);
}

static void put_profile_tsv(void *view, const void *row)
{
	struct profile_view *v = view;

	fields_tsv(v->out, kinds[v->by].type, 0, row);
}

static void put_functions_tsv(void *view)
{
	struct profile_view *v = view;

	table_tsv(v->out, v->functions);
}

/* JSON */

static void begin_document(struct profile_view *v)
{
	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_number(&v->json, "instructions", v->totals.instructions);
	json_number(&v->json, "errors", v->totals.errors);
	json_number(&v->json, "rows", v->row_count);
}

static void end_document(struct profile_view *v)
{
	json_end_object(&v->json);
	json_finish(&v->json);
}

static void begin_profile_json(void *view)
{
	struct profile_view *v = view;

	begin_document(v);
	json_array(&v->json, profile_by_words[v->by]);
}

static void put_profile_json(void *view, const void *row)
{
	struct profile_view *v = view;

	fields_json(&v->json, kinds[v->by].type, 0, row);
}

static void end_profile_json(void *view)
{
	struct profile_view *v = view;

	json_end_array(&v->json);
	end_document(v);
}

static void put_functions_json(void *view)
{
	struct profile_view *v = view;

	begin_document(v);
	table_json(&v->json, v->functions);
	end_document(v);
}

const struct renderer profile_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = begin_text,
		     .row = put_text,
		     .end = end_profile_text,
		     .offered = true},
    [FORMAT_JSON] = {.begin = begin_profile_json,
		     .row = put_profile_json,
		     .end = end_profile_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_profile_tsv, .row = put_profile_tsv, .offered = true},
};

const struct renderer profile_function_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = put_functions_text, .offered = true},
    [FORMAT_JSON] = {.begin = put_functions_json, .offered = true},
    [FORMAT_TSV] = {.begin = put_functions_tsv, .offered = true},
};
