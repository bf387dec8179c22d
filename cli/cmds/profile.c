/* SPDX-License-Identifier: MIT */
/* ptah profile: how often each branch, block, edge or function ran. */
#include "function_table.h"
#include "profile_rows.h"
#include "render.h"
#include "saved_counts.h"

#include "output/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	int by;
	const char *save;
};

static const char *const by_choices[] = {"branches", "blocks", "edges", "functions", NULL};

static const struct option_def by_options[] = {
    {.name = "by",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, by),
     .arg = "WHAT",
     .choices = by_choices,
     .help = "branches, blocks, edges or functions (default: branches)",
     .man = "What to count: *branches*, *blocks*, *edges* or *functions*. Default: "
	    "*branches*."},
    {0},
};

static const struct option_def save_options[] = {
    {.name = "save",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, save),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "save all counts as FILE, to be read as a recording is",
     .man = "Save all counts as *FILE*, whatever `--by` and `--limit` show. They go "
	    "to *FILE*.tmp first, so that there is never half a *FILE*."},
    {0},
};

/* A row of --by as it is shown. */
struct shown {
	int32_t pid;
	uint64_t from, to, count, taken, unknown, instructions;
	const char *comm, *insn_class, *from_symbol, *to_symbol;
};

struct view {
	const struct options *o;
	struct out *out;
	struct json json;
	struct names *names;
	const struct ptah_counts *counts;
	struct ptah_profile_totals totals;
	size_t row_count, shown_count;
	const struct table *functions; /* --by=functions */
};

/* What --by shows: its fields, and the words above and in a line of text. */
struct kind {
	const struct row_type *type;
	const char *head;
	void (*put_text)(struct out *out, const struct shown *row);
};

static const struct field branch_fields[] = {
    FIELD(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_JSON(struct shown, "comm", FIELD_STRING, comm),
    FIELD(struct shown, "ip", FIELD_ADDRESS, from),
    FIELD(struct shown, "to", FIELD_ADDRESS, to),
    FIELD_TWO(struct shown, "executed", "count", FIELD_NUMBER, count),
    FIELD(struct shown, "taken", FIELD_NUMBER, taken),
    FIELD(struct shown, "unknown", FIELD_NUMBER, unknown),
    FIELD(struct shown, "symbol", FIELD_STRING, from_symbol),
    FIELD(struct shown, "to_symbol", FIELD_STRING, to_symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct field block_fields[] = {
    FIELD(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_JSON(struct shown, "comm", FIELD_STRING, comm),
    FIELD(struct shown, "ip", FIELD_ADDRESS, from),
    FIELD(struct shown, "end", FIELD_ADDRESS, to),
    FIELD_TWO(struct shown, "executed", "count", FIELD_NUMBER, count),
    FIELD_TSV(struct shown, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct shown, "class", FIELD_STRING, insn_class),
    FIELD_JSON(struct shown, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct shown, "symbol", FIELD_STRING, from_symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct field edge_fields[] = {
    FIELD(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_JSON(struct shown, "comm", FIELD_STRING, comm),
    FIELD(struct shown, "from", FIELD_ADDRESS, from),
    FIELD(struct shown, "to", FIELD_ADDRESS, to),
    FIELD(struct shown, "count", FIELD_NUMBER, count),
    FIELD(struct shown, "class", FIELD_STRING, insn_class),
    FIELD(struct shown, "symbol", FIELD_STRING, from_symbol),
    FIELD(struct shown, "to_symbol", FIELD_STRING, to_symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct row_type branch_type = ROW_TYPE(branch_fields);
static const struct row_type block_type = ROW_TYPE(block_fields);
static const struct row_type edge_type = ROW_TYPE(edge_fields);

static double percent(const struct shown *row)
{
	const uint64_t known = row->count - row->unknown;

	return known ? 100.0 * (double)row->taken / (double)known : 0;
}

static void put_branch(struct out *out, const struct shown *row)
{
	out_format(out, "%15" PRIu64 " %15" PRIu64 " %6.2f%%  %s -> %s\n", row->count, row->taken,
		   percent(row), row->from_symbol, row->to_symbol);
}

static void put_block(struct out *out, const struct shown *row)
{
	out_format(out, "%15" PRIu64 " %17" PRIu64 "  %s [%" PRIu64 " bytes] %s\n", row->count,
		   row->instructions, row->from_symbol, row->to - row->from, row->insn_class);
}

static void put_edge(struct out *out, const struct shown *row)
{
	out_format(out, "%15" PRIu64 " %-14s %s -> %s\n", row->count, row->insn_class,
		   row->from_symbol, row->to_symbol);
}

static const struct kind kinds[] = {
    [BY_BRANCHES] = {&branch_type, "       executed           taken   ratio  branch -> target\n",
		     put_branch},
    [BY_BLOCKS] = {&block_type, "       executed      instructions  block\n", put_block},
    [BY_EDGES] = {&edge_type, "          count kind           branch -> target\n", put_edge},
};

/* Text */

static void begin_text(void *view)
{
	struct view *v = view;

	out_text(v->out, kinds[v->o->by].head);
}

static void put_text(void *view, const void *row)
{
	struct view *v = view;

	kinds[v->o->by].put_text(v->out, row);
}

static void end_text(void *view)
{
	struct view *v = view;

	if (v->shown_count < v->row_count)
		out_format(v->out, "%zu more (--limit=0 shows all)\n",
			   v->row_count - v->shown_count);
}

static void put_functions_text(void *view)
{
	struct view *v = view;

	table_text(v->out, v->functions);
}

/* TSV */

static void begin_tsv(void *view)
{
	struct view *v = view;

	rows_tsv_head(v->out, kinds[v->o->by].type, 0);
}

static void put_tsv(void *view, const void *row)
{
	struct view *v = view;

	rows_tsv(v->out, kinds[v->o->by].type, 0, row);
}

static void put_functions_tsv(void *view)
{
	struct view *v = view;

	table_tsv(v->out, v->functions);
}

/* JSON */

static void begin_document(struct view *v)
{
	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_number(&v->json, "instructions", v->totals.instructions);
	json_number(&v->json, "errors", v->totals.errors);
	json_number(&v->json, "rows", v->row_count);
}

static void end_document(struct view *v)
{
	json_end_object(&v->json);
	json_finish(&v->json);
}

static void begin_json(void *view)
{
	struct view *v = view;

	begin_document(v);
	json_array(&v->json, by_choices[v->o->by]);
}

static void put_json(void *view, const void *row)
{
	struct view *v = view;

	rows_json(&v->json, kinds[v->o->by].type, 0, row);
}

static void end_json(void *view)
{
	struct view *v = view;

	json_end_array(&v->json);
	end_document(v);
}

static void put_functions_json(void *view)
{
	struct view *v = view;

	begin_document(v);
	table_json(&v->json, v->functions);
	end_document(v);
}

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = begin_text, .row = put_text, .end = end_text, .offered = true},
    [FORMAT_JSON] = {.begin = begin_json, .row = put_json, .end = end_json, .offered = true},
    [FORMAT_TSV] = {.begin = begin_tsv, .row = put_tsv, .offered = true},
};

/* Functions are one table: `begin` is all of it. */
static const struct renderer function_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = put_functions_text, .offered = true},
    [FORMAT_JSON] = {.begin = put_functions_json, .offered = true},
    [FORMAT_TSV] = {.begin = put_functions_tsv, .offered = true},
};

/* Branches, blocks and edges */

/* "main+0x10", or the address where nothing is known. */
static const char *symbol_of(struct view *v, const struct profile_row *row, uint64_t ip,
			     char text[256])
{
	const struct name *name = v->names ? names_find(v->names, (int32_t)row->process, ip) : NULL;

	if (!name || !name->symbol)
		snprintf(text, 256, "0x%" PRIx64, ip);
	else if (name->offset)
		snprintf(text, 256, "%s+0x%" PRIx64, name->symbol, name->offset);
	else
		snprintf(text, 256, "%s", name->symbol);
	return text;
}

static void show_row(struct view *v, const struct renderer *renderer, const struct profile_row *row)
{
	char from[256], to[256];
	const struct shown shown = {.pid = row->pid,
				    .comm = row->comm,
				    .from = row->from,
				    .to = row->to,
				    .count = row->count,
				    .taken = row->taken,
				    .unknown = row->unknown,
				    .instructions = row->instructions,
				    .insn_class = ptah_insn_class_name(row->insn_class),
				    .from_symbol = symbol_of(v, row, row->from, from),
				    .to_symbol = symbol_of(v, row, row->to, to)};

	renderer->row(v, &shown);
}

static int show_rows(struct view *v)
{
	const struct renderer *renderer = &renderers[v->o->input.format];
	struct profile_rows rows = {0};
	int status = profile_rows(v->counts, (enum profile_by)v->o->by, &rows);

	if (status >= 0) {
		v->row_count = rows.count;
		v->shown_count = input_shown(&v->o->input, rows.count);
		RENDER(renderer, begin, v);
		for (size_t i = 0; i < v->shown_count; i++)
			show_row(v, renderer, &rows.row[i]);
		RENDER(renderer, end, v);
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
	table.shown = input_shown(&v->o->input, table.count);
	v->row_count = table.count;
	v->functions = &table;
	function_renderers[v->o->input.format].begin(v);
	v->functions = NULL;
	free(rows);
	return status;
}

static int show(struct view *v)
{
	const char *path;
	int status = ptah_counts_totals(v->counts, &v->totals);

	if (status >= 0 && !v->o->input.no_symbols) {
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
	if (o->input.no_symbols && o->by == BY_FUNCTIONS) {
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
	struct options o = {.input.limit = 20};
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
    .options =
	(const struct option_def *const[]){by_options, limit_options, symbols_options, save_options,
					   jobs_options, input_options, raw_options, decode_options,
					   output_options, format_options, quiet_options,
					   help_options, NULL},
    .notes =
	(const struct option_note[]){
	    {"input", "Counts that `--save` made may stand in a recording's place, and there may "
		      "be several files, which are added up."},
	    {"force", "Of saved counts: take the names from such a file all the same."},
	    {"tid", "Saved counts know no threads."},
	    {0}},
    .operand = COMPLETE_FILE,
    .run = run,
};
