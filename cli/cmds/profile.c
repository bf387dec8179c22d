/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "saved_counts.h"
#include "function_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum by {
	BY_BRANCHES,
	BY_BLOCKS,
	BY_EDGES,
	BY_FUNCTIONS
};

struct options {
	struct input input;
	uint64_t limit;
	int by;
	bool no_symbols;
	const char *save;
};

static const char *const by_choices[] = {"branches", "blocks", "edges", "functions", NULL};

static const struct option_def option_defs[] = {
    {"by", 0, OPTION_CHOICE, offsetof(struct options, by), "WHAT",
     "branches, blocks, edges or functions (default: branches)", by_choices},
    {"limit", 'n', OPTION_NUMBER, offsetof(struct options, limit), "N",
     "rows to show (default: 20; 0: all)", NULL},
    {"no-symbols", 0, OPTION_FLAG, offsetof(struct options, no_symbols), NULL,
     "addresses only: quicker", NULL},
    {"save", 0, OPTION_TEXT, offsetof(struct options, save), "FILE",
     "save all counts as FILE, to be read as a recording is", NULL},
    INPUT_JOBS_OPTION(struct options),
    INPUT_OPTIONS(struct options),
    {0},
};

/* A conditional branch and its target, a block and its end, or an edge. */
struct row {
	int32_t pid;
	uint32_t process; /* of the counts */
	const char *comm;
	uint64_t from, to;
	uint64_t count;
	uint64_t taken;	       /* branches */
	uint64_t unknown;      /* branches */
	uint64_t instructions; /* blocks: all that ran */
	uint8_t insn_class;
};

struct rows {
	struct row *row;
	size_t count, capacity;
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

static int add_blocks(struct rows *rows, uint32_t process, const struct ptah_counts_process *p,
		      int by)
{
	int status = 0;

	for (size_t i = 0; i < p->block_count && status >= 0; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];
		struct row row = {.pid = p->pid,
				  .comm = p->comm,
				  .process = process,
				  .from = b->ip,
				  .to = b->end,
				  .count = b->count,
				  .instructions = b->count * b->ninsn,
				  .insn_class = b->insn_class};

		if (by == BY_BRANCHES) {
			if (b->insn_class != PTAH_INSN_COND)
				continue;
			row.from = b->end - b->last_size;
			row.to = b->target;
			row.taken = b->taken;
			row.unknown = b->unknown;
		}
		status = add(rows, &row);
	}
	return status;
}

static int add_edges(struct rows *rows, uint32_t process, const struct ptah_counts_process *p)
{
	int status = 0;

	for (size_t i = 0; i < p->edge_count && status >= 0; i++) {
		const struct row row = {.pid = p->pid,
					.comm = p->comm,
					.process = process,
					.from = p->edges[i].from,
					.to = p->edges[i].to,
					.count = p->edges[i].count,
					.insn_class = p->edges[i].insn_class};

		status = add(rows, &row);
	}
	return status;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = compare((uint32_t)x->pid, (uint32_t)y->pid);

	order = order ? order : compare(x->process, y->process);
	order = order ? order : compare(x->from, y->from);
	order = order ? order : compare(x->to, y->to);
	return order ? order : compare(x->insn_class, y->insn_class);
}

static int by_count(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = compare(y->count, x->count);

	return order ? order : by_place(a, b);
}

/* What blocks with different beginnings, and address spaces, say of the same. */
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
	const struct ptah_counts *counts;
	struct ptah_profile_totals totals;
};

/* "main+0x10", or the address where nothing is known. */
static void symbol_of(struct view *v, const struct row *row, uint64_t ip, char *text, size_t n)
{
	const struct name *name = v->names ? names_find(v->names, (int32_t)row->process, ip) : NULL;

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

	symbol_of(v, row, row->from, from, sizeof(from));
	symbol_of(v, row, row->to, to, sizeof(to));
	out_format(v->out, "%15" PRIu64 " ", row->count);
	switch (v->o->by) {
	case BY_BRANCHES:
		out_format(v->out, "%15" PRIu64 " %6.2f%%  %s -> %s\n", row->taken, percent(row),
			   from, to);
		break;
	case BY_BLOCKS:
		out_format(v->out, "%17" PRIu64 "  %s [%" PRIu64 " bytes] %s\n", row->instructions,
			   from, row->to - row->from, ptah_insn_class_name(row->insn_class));
		break;
	default:
		out_format(v->out, "%-14s %s -> %s\n", ptah_insn_class_name(row->insn_class), from,
			   to);
		break;
	}
}

static void put_tsv(struct view *v, const struct row *row)
{
	char from[256], to[256];

	symbol_of(v, row, row->from, from, sizeof(from));
	symbol_of(v, row, row->to, to, sizeof(to));
	out_format(v->out, "%d\t0x%" PRIx64 "\t0x%" PRIx64 "\t%" PRIu64 "\t", row->pid, row->from,
		   row->to, row->count);
	if (v->o->by == BY_BRANCHES)
		out_format(v->out, "%" PRIu64 "\t%" PRIu64, row->taken, row->unknown);
	else if (v->o->by == BY_BLOCKS)
		out_format(v->out, "%" PRIu64 "\t%s", row->instructions,
			   ptah_insn_class_name(row->insn_class));
	else
		out_text(v->out, ptah_insn_class_name(row->insn_class));
	out_format(v->out, "\t%s", from);
	if (v->o->by != BY_BLOCKS)
		out_format(v->out, "\t%s", to);
	out_char(v->out, '\t');
	out_clean(v->out, row->comm);
	out_char(v->out, '\n');
}

static void put_json(struct view *v, const struct row *row)
{
	char from[256], to[256];

	symbol_of(v, row, row->from, from, sizeof(from));
	symbol_of(v, row, row->to, to, sizeof(to));
	json_object(&v->json, NULL, true);
	json_signed(&v->json, "pid", row->pid);
	json_string(&v->json, "comm", row->comm);
	json_address(&v->json, v->o->by == BY_EDGES ? "from" : "ip", row->from);
	json_address(&v->json, v->o->by == BY_BLOCKS ? "end" : "to", row->to);
	json_number(&v->json, "count", row->count);
	if (v->o->by == BY_BRANCHES) {
		json_number(&v->json, "taken", row->taken);
		json_number(&v->json, "unknown", row->unknown);
	} else {
		json_string(&v->json, "class", ptah_insn_class_name(row->insn_class));
	}
	if (v->o->by == BY_BLOCKS)
		json_number(&v->json, "instructions", row->instructions);
	json_string(&v->json, "symbol", from);
	if (v->o->by != BY_BLOCKS)
		json_string(&v->json, "to_symbol", to);
	json_end_object(&v->json);
}

static void begin_json(struct view *v, size_t rows)
{
	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_number(&v->json, "instructions", v->totals.instructions);
	json_number(&v->json, "errors", v->totals.errors);
	json_number(&v->json, "rows", rows);
}

static void put_rows(struct view *v, const struct rows *rows)
{
	static const char *const heads[] = {
	    [BY_BRANCHES] = "       executed           taken   ratio  branch -> target\n",
	    [BY_BLOCKS] = "       executed      instructions  block\n",
	    [BY_EDGES] = "          count kind           branch -> target\n",
	};
	static const char *const columns[] = {
	    [BY_BRANCHES] = "pid\tip\tto\texecuted\ttaken\tunknown\tsymbol\tto_symbol\tcomm\n",
	    [BY_BLOCKS] = "pid\tip\tend\texecuted\tinstructions\tclass\tsymbol\tcomm\n",
	    [BY_EDGES] = "pid\tfrom\tto\tcount\tclass\tsymbol\tto_symbol\tcomm\n",
	};
	const struct options *o = v->o;
	size_t shown = o->limit && o->limit < rows->count ? (size_t)o->limit : rows->count;

	if (o->input.format == FORMAT_JSON) {
		begin_json(v, rows->count);
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

static int show_rows(struct view *v)
{
	struct rows rows = {0};
	struct ptah_counts_process p;
	int status = 0;

	for (size_t i = 0; status >= 0 && ptah_counts_process(v->counts, i, &p); i++)
		status = v->o->by == BY_EDGES ? add_edges(&rows, (uint32_t)i, &p)
					      : add_blocks(&rows, (uint32_t)i, &p, v->o->by);
	if (status >= 0) {
		merge(&rows);
		put_rows(v, &rows);
	}
	free(rows.row);
	return status;
}

/* Functions, as `ptah report` shows them. */

static int list_functions(const struct view *v, struct hotspot **rows, size_t *n)
{
	struct hotspots *counter;
	struct ptah_counts_process p;
	int status = hotspots_new(&counter);

	if (status < 0)
		return status;
	for (size_t i = 0; status >= 0 && ptah_counts_process(v->counts, i, &p); i++)
		status = hotspots_add_lists(counter, (int32_t)i, p.blocks, p.block_count, p.edges,
					    p.edge_count);
	if (status >= 0)
		status = hotspots_functions(counter, v->names, rows, n);
	hotspots_free(counter);
	return status;
}

static int show_functions(struct view *v)
{
	struct table table = {.total = v->totals.instructions};
	struct hotspot *rows;
	int status = list_functions(v, &rows, &table.count);

	if (status < 0)
		return status;
	table_sort(rows, table.count, TABLE_BY_INSTRUCTIONS);
	table.rows = rows;
	table.shown = v->o->limit && v->o->limit < table.count ? (size_t)v->o->limit : table.count;
	if (v->o->input.format == FORMAT_JSON) {
		begin_json(v, table.count);
		table_json(&v->json, &table);
		json_end_object(&v->json);
		json_finish(&v->json);
	} else if (v->o->input.format == FORMAT_TSV) {
		table_tsv(v->out, &table);
	} else {
		table_text(v->out, &table);
	}
	free(rows);
	return status;
}

static int show(struct view *v)
{
	const char *path;
	int status = ptah_counts_totals(v->counts, &v->totals);

	if (status >= 0 && !v->o->no_symbols) {
		status = names_new(NULL, v->o->input.symfs, &v->names);
		if (status >= 0)
			status = names_use_counts(v->names, v->counts, v->o->input.force);
	}
	for (size_t i = 0; status >= 0 && !v->o->input.quiet && v->names &&
			   (path = names_changed_file(v->names, i));
	     i++)
		fprintf(stderr,
			"note: %s is not the file that ran (its build id differs): its functions "
			"have no names; --force gives them all the same\n",
			path);
	if (status >= 0)
		status = v->o->by == BY_FUNCTIONS ? show_functions(v) : show_rows(v);
	return status;
}

/* What makes no sense together; an exit code. */
static int check_options(const struct options *o)
{
	if (o->no_symbols && o->by == BY_FUNCTIONS) {
		fail(&command_profile, "--by=functions is by symbols: not with --no-symbols");
		return EXIT_USAGE;
	}
	if (o->save && !strcmp(o->save, "-")) {
		fail(&command_profile, "--save: it takes the name of a file");
		return EXIT_USAGE;
	}
	if (o->save && o->input.output && !strcmp(o->save, o->input.output)) {
		fail(&command_profile, "--save and --output name one file: %s", o->save);
		return EXIT_USAGE;
	}
	return 0;
}

/* Shows and saves. */
static int finish(struct view *v, struct out *save)
{
	int problem = show(v), status = 0, unsaved;

	names_free(v->names);
	unsaved = counts_write(&command_profile, v->counts, save, problem >= 0);
	if (problem < 0)
		status = fail(&command_profile, "%s", ptah_strerror(problem));
	else if (v->totals.errors)
		status = fail_errors(&command_profile, v->totals.errors);
	return unsaved ? unsaved : status;
}

static int run(int argc, char **argv)
{
	struct options o = {.limit = 20};
	struct view view = {.o = &o};
	struct ptah_counts *counts;
	struct out *save;
	int status, first = options_parse(&command_profile, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = check_options(&o);
	if (!status)
		status = output_open(&command_profile, &o.input, &view.out);
	if (status)
		return status;
	status = counts_create(&command_profile, o.save, &save);
	if (status) {
		out_abort(view.out);
		return status;
	}
	status = counts_read(&command_profile, &o.input, argc - first, argv + first, &counts);
	if (status) {
		out_abort(save);
		out_abort(view.out);
		return status;
	}
	view.counts = counts;
	status = finish(&view, save);
	ptah_counts_free(counts);
	return output_close(&command_profile, view.out, status);
}

const struct command command_profile = {
    .name = "profile",
    .usage = "[OPTIONS] [FILE...]",
    .summary = "how often each branch, block, edge or function ran",
    .details =
	"Exact counts of everything that ran: conditional branches with how often they were\n"
	"taken, blocks, indirect branches with their targets, or functions. --save keeps the\n"
	"counts; saved ones are read in a recording's place, and several files are added up.",
    .options = option_defs,
    .run = run,
};
