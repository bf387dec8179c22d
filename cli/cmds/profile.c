/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "output/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum by {
	BY_BRANCHES,
	BY_BLOCKS,
	BY_EDGES
};

struct options {
	struct input input;
	uint64_t limit;
	int by;
	bool no_symbols;
};

static const char *const by_choices[] = {"branches", "blocks", "edges", NULL};

static const struct option_def option_defs[] = {
    {"by", 0, OPTION_CHOICE, offsetof(struct options, by), "WHAT",
     "branches, blocks or edges (default: branches)", by_choices},
    {"limit", 'n', OPTION_NUMBER, offsetof(struct options, limit), "N",
     "rows to show (default: 20; 0: all)", NULL},
    {"no-symbols", 0, OPTION_FLAG, offsetof(struct options, no_symbols), NULL,
     "addresses only: quicker", NULL},
    INPUT_OPTIONS(struct options),
    {0},
};

/* A conditional branch and its target, a block and its end, or an edge. */
struct row {
	int32_t pid;
	uint64_t from, to;
	uint64_t count;
	uint64_t taken;	       /* branches */
	uint64_t unknown;      /* branches */
	uint64_t instructions; /* blocks: all that ran */
	uint8_t class;
};

struct rows {
	struct row *row;
	size_t count, capacity;
	uint64_t instructions, errors;
	int by;
};

static int add(struct rows *rows, const struct row *row)
{
	if (rows->count == rows->capacity) {
		size_t capacity = rows->capacity ? 2 * rows->capacity : 4096;
		struct row *list = realloc(rows->row, capacity * sizeof(*list));

		if (!list)
			return PTAH_E_NOMEM;
		rows->row = list;
		rows->capacity = capacity;
	}
	rows->row[rows->count++] = *row;
	return 0;
}

static int add_blocks(struct rows *rows, int32_t pid, struct ptah_profile *profile)
{
	struct ptah_profile_block *blocks;
	size_t n;
	int status = ptah_profile_blocks(profile, &blocks, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct ptah_profile_block *b = &blocks[i];
		struct row row = {.pid = pid,
				  .from = b->ip,
				  .to = b->end,
				  .count = b->count,
				  .instructions = b->count * b->ninsn,
				  .class = b->class};

		if (rows->by == BY_BRANCHES) {
			if (b->class != PTAH_INSN_COND)
				continue;
			row.from = b->end - b->last_size;
			row.to = b->target;
			row.taken = b->taken;
			row.unknown = b->unknown;
		}
		status = add(rows, &row);
	}
	free(blocks);
	return status;
}

static int add_edges(struct rows *rows, int32_t pid, struct ptah_profile *profile)
{
	struct ptah_profile_edge *edges;
	size_t n;
	int status = ptah_profile_edges(profile, &edges, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct row row = {.pid = pid,
					.from = edges[i].from,
					.to = edges[i].to,
					.count = edges[i].count,
					.class = edges[i].class};

		status = add(rows, &row);
	}
	free(edges);
	return status;
}

/* As input_count() wants it. */
static int add_profile(void *context, const struct ptah_stream_info *info,
		       struct ptah_profile *profile)
{
	struct rows *rows = context;
	struct ptah_profile_totals totals;
	int status = ptah_profile_totals(profile, &totals);

	if (status < 0)
		return status;
	rows->instructions += totals.instructions;
	rows->errors += totals.errors;
	return rows->by == BY_EDGES ? add_edges(rows, info->pid, profile)
				    : add_blocks(rows, info->pid, profile);
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = compare((uint32_t)x->pid, (uint32_t)y->pid);

	order = order ? order : compare(x->from, y->from);
	order = order ? order : compare(x->to, y->to);
	return order ? order : compare(x->class, y->class);
}

static int by_count(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = compare(y->count, x->count);

	return order ? order : by_place(a, b);
}

/* What the threads of a process, and blocks with different beginnings, say of the same. */
static void merge(struct rows *rows)
{
	size_t last = 0;

	if (!rows->count)
		return;
	qsort(rows->row, rows->count, sizeof(*rows->row), by_place);
	for (size_t i = 1; i < rows->count; i++) {
		struct row *row = &rows->row[last], *next = &rows->row[i];

		if (by_place(row, next)) {
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

/* Output */

struct view {
	const struct options *o;
	struct out *out;
	struct json json;
	struct names *names;
};

/* "main+0x10", or the address where nothing is known. */
static void symbol_of(struct view *v, int32_t pid, uint64_t ip, char *text, size_t n)
{
	const struct name *name = v->names ? names_find(v->names, pid, ip) : NULL;

	if (!name || !name->symbol)
		snprintf(text, n, "0x%" PRIx64, ip);
	else if (name->offset)
		snprintf(text, n, "%s+0x%" PRIx64, name->symbol, name->offset);
	else
		snprintf(text, n, "%s", name->symbol);
}

static double percent(const struct row *row)
{
	const uint64_t known = row->count - row->unknown;

	return known ? 100.0 * (double)row->taken / (double)known : 0;
}

static void put_text(struct view *v, const struct row *row)
{
	char from[256], to[256];

	symbol_of(v, row->pid, row->from, from, sizeof(from));
	symbol_of(v, row->pid, row->to, to, sizeof(to));
	out_format(v->out, "%15" PRIu64 " ", row->count);
	switch (v->o->by) {
	case BY_BRANCHES:
		out_format(v->out, "%15" PRIu64 " %6.2f%%  %s -> %s\n", row->taken, percent(row),
			   from, to);
		break;
	case BY_BLOCKS:
		out_format(v->out, "%17" PRIu64 "  %s [%" PRIu64 " bytes] %s\n", row->instructions,
			   from, row->to - row->from, ptah_insn_class_name(row->class));
		break;
	default:
		out_format(v->out, "%-14s %s -> %s\n", ptah_insn_class_name(row->class), from, to);
		break;
	}
}

static void put_tsv(struct view *v, const struct row *row)
{
	char from[256], to[256];

	symbol_of(v, row->pid, row->from, from, sizeof(from));
	symbol_of(v, row->pid, row->to, to, sizeof(to));
	out_format(v->out, "%d\t0x%" PRIx64 "\t0x%" PRIx64 "\t%" PRIu64 "\t", row->pid, row->from,
		   row->to, row->count);
	if (v->o->by == BY_BRANCHES)
		out_format(v->out, "%" PRIu64 "\t%" PRIu64, row->taken, row->unknown);
	else if (v->o->by == BY_BLOCKS)
		out_format(v->out, "%" PRIu64 "\t%s", row->instructions,
			   ptah_insn_class_name(row->class));
	else
		out_text(v->out, ptah_insn_class_name(row->class));
	out_format(v->out, "\t%s", from);
	if (v->o->by != BY_BLOCKS)
		out_format(v->out, "\t%s", to);
	out_char(v->out, '\n');
}

static void put_json(struct view *v, const struct row *row)
{
	char from[256], to[256];

	symbol_of(v, row->pid, row->from, from, sizeof(from));
	symbol_of(v, row->pid, row->to, to, sizeof(to));
	json_object(&v->json, NULL, true);
	json_signed(&v->json, "pid", row->pid);
	json_address(&v->json, v->o->by == BY_EDGES ? "from" : "ip", row->from);
	json_address(&v->json, v->o->by == BY_BLOCKS ? "end" : "to", row->to);
	json_number(&v->json, "count", row->count);
	if (v->o->by == BY_BRANCHES) {
		json_number(&v->json, "taken", row->taken);
		json_number(&v->json, "unknown", row->unknown);
	} else {
		json_string(&v->json, "class", ptah_insn_class_name(row->class));
	}
	if (v->o->by == BY_BLOCKS)
		json_number(&v->json, "instructions", row->instructions);
	json_string(&v->json, "symbol", from);
	if (v->o->by != BY_BLOCKS)
		json_string(&v->json, "to_symbol", to);
	json_end_object(&v->json);
}

static void put_rows(struct view *v, const struct rows *rows)
{
	static const char *const heads[] = {
	    [BY_BRANCHES] = "       executed           taken   ratio  branch -> target\n",
	    [BY_BLOCKS] = "       executed      instructions  block\n",
	    [BY_EDGES] = "          count kind           branch -> target\n",
	};
	static const char *const columns[] = {
	    [BY_BRANCHES] = "pid\tip\tto\texecuted\ttaken\tunknown\tsymbol\tto_symbol\n",
	    [BY_BLOCKS] = "pid\tip\tend\texecuted\tinstructions\tclass\tsymbol\n",
	    [BY_EDGES] = "pid\tfrom\tto\tcount\tclass\tsymbol\tto_symbol\n",
	};
	const struct options *o = v->o;
	size_t shown = o->limit && o->limit < rows->count ? (size_t)o->limit : rows->count;

	if (o->input.format == FORMAT_JSON) {
		json_init(&v->json, v->out);
		json_object(&v->json, NULL, false);
		json_number(&v->json, "instructions", rows->instructions);
		json_number(&v->json, "errors", rows->errors);
		json_number(&v->json, "rows", rows->count);
		json_array(&v->json, by_choices[o->by]);
	} else {
		out_text(v->out, o->input.format == FORMAT_TSV ? columns[o->by] : heads[o->by]);
	}
	for (size_t i = 0; i < shown; i++) {
		if (o->input.format == FORMAT_JSON)
			put_json(v, &rows->row[i]);
		else if (o->input.format == FORMAT_TSV)
			put_tsv(v, &rows->row[i]);
		else
			put_text(v, &rows->row[i]);
	}
	if (o->input.format == FORMAT_JSON) {
		json_end_array(&v->json);
		json_end_object(&v->json);
		json_finish(&v->json);
	} else if (o->input.format == FORMAT_TEXT && shown < rows->count) {
		out_format(v->out, "%zu more (--limit=0 shows all)\n", rows->count - shown);
	}
}

static int run(int argc, char **argv)
{
	struct options o = {.limit = 20};
	struct view view = {.o = &o};
	struct ptah_session *session;
	struct rows rows = {0};
	int status, first = options_parse(&command_profile, argc, argv, &o, &status), problem = 0;

	if (first < 0)
		return status;
	status = input_open(&command_profile, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_profile, &o.input, &view.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	rows.by = o.by;
	if (!o.no_symbols)
		problem = input_names(&o.input, session, &view.names);
	if (problem >= 0)
		problem = input_count(&o.input, session, add_profile, &rows);
	if (problem >= 0) {
		merge(&rows);
		put_rows(&view, &rows);
	}
	input_notes(&o.input, session);
	if (problem < 0)
		status = fail(&command_profile, "%s", ptah_strerror(problem));
	else if (rows.errors)
		status = fail_errors(&command_profile, rows.errors);
	free(rows.row);
	names_free(view.names);
	ptah_session_close(session);
	return output_close(&command_profile, view.out, status);
}

const struct command command_profile = {
    .name = "profile",
    .usage = "[OPTIONS] [FILE]",
    .summary = "how often each branch, block or indirect edge ran",
    .details =
	"Exact counts of everything that ran: conditional branches with how often they were\n"
	"taken, blocks, or indirect branches with their targets. 'ptah report' adds the same\n"
	"counts up to functions.",
    .options = option_defs,
    .run = run,
};
