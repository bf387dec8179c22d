/* SPDX-License-Identifier: MIT */
/* The call graphs of `ptah report` as text, TSV and JSON. */
#include "graph_view.h"
#include "graph_walk.h"

#include "output/fields.h"
#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const graph_value_words[] = {"instructions", "cycles", "time", NULL};

static unsigned larger(size_t a, size_t b)
{
	return (unsigned)(a > b ? a : b);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static uint64_t total_of(const struct graph_view *v, const struct graph_group *group)
{
	return graph_figure(&group->graph->totals.inclusive, v->value);
}

/* The least figure that is shown. */
static double least_of(const struct graph_view *v, const struct graph_group *group)
{
	return v->limit / 100 * (double)total_of(v, group);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* What the rows are named by: the first of these that the keys have. */
static const char *label_head(const struct graph_view *v)
{
	return v->functions ? "function" : v->lines ? "line" : v->files ? "file" : "object";
}

/* `columns`: how many it may take; 0: all that it needs. */
static void put_file(struct out *out, const struct graph_key *key, unsigned columns)
{
	char line[16] = "";
	unsigned n = 0;

	if (key->line)
		n = (unsigned)snprintf(line, sizeof(line), ":%" PRIu32, key->line);
	pretty_name(out, key->file ? key->file : "[no source file]",
		    columns > n + 4 ? columns - n
		    : columns	    ? 4
				    : 0);
	out_text(out, line);
}

/* How many columns it takes when it is not cut. */
static unsigned file_columns(const struct graph_key *key)
{
	char line[16] = "";
	const int n = key->line ? snprintf(line, sizeof(line), ":%" PRIu32, key->line) : 0;

	return pretty_columns(key->file ? key->file : "[no source file]") + (unsigned)n;
}

/* `columns`: how many the name may take; 0: all that it needs. */
static void put_label(const struct graph_view *v, const struct graph_key *key, unsigned columns)
{
	if (key->special)
		pretty_name(v->out, key->special, columns);
	else if (v->functions && key->function)
		pretty_name(v->out, key->function, columns);
	else if (v->functions)
		out_format(v->out, "0x%" PRIx64, key->ip);
	else if (v->files)
		put_file(v->out, key, columns);
	else
		pretty_name(v->out, key->object ? key->object : "[unknown]", columns);
}

/* How many columns it takes when it is not cut. */
static unsigned label_columns(const struct graph_view *v, const struct graph_key *key)
{
	if (key->special)
		return pretty_columns(key->special);
	if (v->functions)
		return key->function ? pretty_columns(key->function) : 18;
	if (v->files)
		return file_columns(key);
	return pretty_columns(key->object ? key->object : "[unknown]");
}

/* The columns of a source file beside the label: at most `limit`, if that is not 0. */
static unsigned source_columns(const struct graph_view *v, const struct graph_key *key,
			       unsigned limit)
{
	if (!v->functions || !v->files || key->special || !key->file)
		return 0;
	return limit && file_columns(key) > limit ? limit : file_columns(key);
}

/* What else distinguishes a function. `columns`: from source_columns(). */
static void put_source(const struct graph_view *v, const struct graph_key *key, unsigned columns)
{
	if (!columns)
		return;
	out_text(v->out, "  ");
	pretty_style(v->out, PRETTY_FAINT);
	put_file(v->out, key, pretty_rest(v->out, 0) ? columns : 0);
	pretty_style(v->out, PRETTY_PLAIN);
}

/* Rows of tables */

struct graph_table_row {
	const struct graph_key *key, *caller;
	uint64_t count;
	struct ptah_call_figures inclusive, self;
	uint64_t figure; /* what rows are sorted by */
};

static int by_figure(const void *a, const void *b)
{
	const struct graph_table_row *x = a, *y = b;

	if (x->figure != y->figure)
		return x->figure > y->figure ? -1 : 1;
	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	return x->key->ip < y->key->ip ? -1 : x->key->ip > y->key->ip;
}

static size_t list_keys(const struct call_graph *g, struct graph_table_row *rows)
{
	size_t n = 0;

	for (uint32_t i = 1; i < g->key_count; i++)
		rows[n++] = (struct graph_table_row){.key = &g->keys[i],
						     .count = g->keys[i].count,
						     .inclusive = g->keys[i].inclusive,
						     .self = g->keys[i].self};
	return n;
}

static size_t list_pairs(const struct call_graph *g, struct graph_table_row *rows)
{
	size_t n = 0;

	for (uint32_t i = 1; i < g->node_count; i++) {
		const struct graph_node *node = &g->nodes[i];

		if (node->parent)
			rows[n++] =
			    (struct graph_table_row){.key = &g->keys[node->key],
						     .caller = &g->keys[g->nodes[node->parent].key],
						     .count = node->count,
						     .inclusive = node->inclusive,
						     .self = node->self};
	}
	return n;
}

/*
 * The rows of a table, sorted. Functions are ordered by what ran in themselves, as the table
 * without calls is; pairs by what ran in the calls. The caller frees them. NULL: out of memory.
 */
static struct graph_table_row *list_rows(const struct graph_view *v, const struct call_graph *g,
					 size_t *n)
{
	const bool pairs = v->kind == GRAPH_PAIR_TABLE;
	struct graph_table_row *rows = calloc(pairs ? g->node_count : g->key_count, sizeof(*rows));

	if (!rows)
		return NULL;
	*n = pairs ? list_pairs(g, rows) : list_keys(g, rows);
	for (size_t i = 0; i < *n; i++)
		rows[i].figure = graph_figure(pairs ? &rows[i].inclusive : &rows[i].self, v->value);
	qsort(rows, *n, sizeof(*rows), by_figure);
	return rows;
}

/* Text */

static const char *figure_text(enum ptah_call_value value, uint64_t figure,
			       char text[PRETTY_NUMBER])
{
	return value == PTAH_CALL_VALUE_TIME ? pretty_time(figure, text)
					     : pretty_number(figure, text);
}

static void put_clean(struct out *out, const char *head, const char *text)
{
	out_text(out, head);
	out_clean(out, text);
	out_char(out, '\n');
}

/* What the figures leave out, or do not tell apart. */
static void put_losses(const struct graph_view *v, const struct ptah_call_totals *t,
		       uint64_t folded_elsewhere)
{
	char number[PRETTY_NUMBER];

	if (t->partial)
		out_format(v->out, "# %s call%s", pretty_number(t->partial, number),
			   plural(t->partial));
	if (t->partial && v->input->function) {
		out_text(v->out, " of ");
		out_clean(v->out, v->input->function);
	}
	if (t->partial)
		out_format(v->out,
			   " began before or ended after what the trace shows, or contain%s a "
			   "loss\n",
			   t->partial == 1 ? "s" : "");
	if (t->folded_calls) {
		out_format(v->out, "# %s call%s on rare paths are folded: their callers have ",
			   pretty_number(t->folded_calls, number), plural(t->folded_calls));
		out_format(v->out, "%s instructions of them\n",
			   pretty_number(t->folded.instructions, number));
	}
	if (folded_elsewhere) {
		out_format(v->out, "# %s other call%s on rare paths are folded: calls of ",
			   pretty_number(folded_elsewhere, number), plural(folded_elsewhere));
		out_clean(v->out, v->input->function);
		out_text(v->out, " among them are missing here\n");
	}
}

static void put_summary(const struct graph_view *v)
{
	const char *command = v->session ? ptah_session_command(v->session) : NULL;
	struct ptah_call_totals t = {0};
	uint64_t threads = 0, folded_elsewhere = 0;
	char number[PRETTY_NUMBER];

	for (size_t i = 0; i < v->group_count; i++) {
		const struct ptah_call_totals *g = &v->groups[i].graph->totals;

		t.inclusive.instructions += g->inclusive.instructions;
		t.calls += g->calls;
		t.partial += g->partial;
		t.folded_calls += g->folded_calls;
		t.folded.instructions += g->folded.instructions;
		threads += v->groups[i].threads;
		folded_elsewhere += v->groups[i].graph->folded_elsewhere;
	}
	if (command)
		put_clean(v->out, "# ", command);
	out_format(v->out, "# %s instructions, ", pretty_number(t.inclusive.instructions, number));
	out_format(v->out, "%s call%s", pretty_number(t.calls, number), plural(t.calls));
	if (threads)
		out_format(v->out, ", %" PRIu64 " thread%s", threads, plural(threads));
	out_char(v->out, '\n');
	put_losses(v, &t, folded_elsewhere);
	for (size_t i = 0; v->session && ptah_session_note(v->session, i); i++)
		put_clean(v->out, "# note: ", ptah_session_note(v->session, i));
}

static void put_group_head(const struct graph_view *v, const struct graph_group *group)
{
	char number[PRETTY_NUMBER];

	out_char(v->out, '\n');
	if (group->pid == INT32_MIN && group->cpu == INT32_MIN)
		return;
	if (group->cpu != INT32_MIN)
		out_format(v->out, "# CPU %" PRId32, group->cpu);
	else
		out_format(v->out, "# process %" PRId32, group->pid);
	if (group->tid != INT32_MIN)
		out_format(v->out, ", thread %" PRId32, group->tid);
	if (group->comm[0]) {
		out_text(v->out, " (");
		out_clean(v->out, group->comm);
		out_char(v->out, ')');
	}
	out_format(v->out, ": %s", figure_text(v->value, total_of(v, group), number));
	out_format(v->out, "%s\n",
		   v->value == PTAH_CALL_VALUE_TIME	? ""
		   : v->value == PTAH_CALL_VALUE_CYCLES ? " cycles"
							: " instructions");
}

/* The columns of the numbers: fixed, but on a terminal as wide as what they hold. */
struct widths {
	unsigned figure, count;
	unsigned all; /* up to the label */
};

static struct widths widths_of(const struct graph_view *v, const struct graph_group *group)
{
	struct widths w = {.figure = 17, .count = 13};
	char text[PRETTY_NUMBER];

	if (pretty_rest(v->out, 0)) {
		w.figure = larger(strlen(graph_value_words[v->value]),
				  v->value == PTAH_CALL_VALUE_TIME
				      ? strlen("12.3 ms")
				      : strlen(pretty_number(total_of(v, group), text)));
		w.count = larger(strlen("calls"),
				 strlen(pretty_number(group->graph->totals.calls, text)));
	}
	w.all = (v->upward ? 8 : 15) + 1 + w.figure + 1 + w.count + 2;
	return w;
}

static void put_numbers(const struct graph_view *v, const struct graph_group *group,
			const struct ptah_call_figures *inclusive,
			const struct ptah_call_figures *self, uint64_t figure, uint64_t count)
{
	const uint64_t total = total_of(v, group);
	const struct widths w = widths_of(v, group);
	char number[PRETTY_NUMBER];

	pretty_percent(v->out, graph_figure(inclusive, v->value), total);
	out_char(v->out, ' ');
	if (self && total && (double)graph_figure(self, v->value) / (double)total >= 0.00005)
		pretty_percent(v->out, graph_figure(self, v->value), total);
	else if (!v->upward)
		out_text(v->out, "       ");
	out_format(v->out, " %*s", (int)w.figure, figure_text(v->value, figure, number));
	out_format(v->out, " %*s  ", (int)w.count, pretty_number(count, number));
}

struct text_walk {
	const struct graph_view *v;
	const struct graph_group *group;
};

/* Whether the line must say in which object the function is: where its caller is in another. */
static bool other_object(const struct call_graph *g, const struct graph_node *node)
{
	const struct graph_key *key = &g->keys[node->key];
	const struct graph_key *caller = node->parent ? &g->keys[g->nodes[node->parent].key] : NULL;

	return key->object && !key->special &&
	       (!caller || !caller->object || strcmp(caller->object, key->object) != 0);
}

/* On a terminal so many columns of a line are for what follows the tree. */
#define NAME_COLUMNS 32

/* The most levels of the tree that have room. */
static uint32_t most_levels(const struct graph_view *v, unsigned used)
{
	const unsigned columns = out_look(v->out)->columns;

	if (!columns)
		return UINT32_MAX;
	return columns > used + NAME_COLUMNS + 6 ? (columns - used - NAME_COLUMNS) / 3 : 2;
}

/*
 * `used`: the columns before the tree. Returns how many it took. Where the tree is too deep for the
 * terminal, the line begins with its level, in place of the outermost branches.
 */
static unsigned put_branches(const struct graph_view *v, const struct graph_line *line,
			     unsigned used)
{
	const uint32_t own = line->branches ? line->level : line->level + 1;
	const uint32_t most = most_levels(v, used);
	uint32_t first = 1, slots = 0;
	char level[16];

	if (line->level > most) {
		slots =
		    ((uint32_t)snprintf(level, sizeof(level), "%" PRIu32 ":", line->level) + 2) / 3;
		pretty_style(v->out, PRETTY_FAINT);
		out_format(v->out, "%-*s", 3 * (int)slots, level);
		pretty_style(v->out, PRETTY_PLAIN);
		first = line->level + 1 - (most > slots ? most - slots : 1);
	}
	for (uint32_t i = first; i < own; i++)
		out_text(v->out, line->bars[i] ? "|  " : "   ");
	if (line->branches)
		out_text(v->out, line->last ? "`--" : "|--");
	return 3 * (slots + line->level + 1 - first);
}

/* What follows the label of a line: the object, and what is hidden below. */
struct remarks {
	const char *object; /* NULL: none */
	char hidden[64];    /* "": nothing */
};

/*
 * Shortens and leaves out what has no room on the terminal beside a name and a source file. Returns
 * the columns for the name; 0: no limit.
 */
static unsigned fit_remarks(const struct graph_view *v, const struct graph_line *line,
			    unsigned name, unsigned used, struct remarks *r)
{
	const unsigned rest = pretty_rest(v->out, used), least = name < 12 ? name : 12;
	unsigned n = (unsigned)strlen(r->hidden);

	if (!rest)
		return 0;
	if (n + least > rest)
		n = (unsigned)snprintf(r->hidden, sizeof(r->hidden), " [+%zu]", line->hidden);
	if (r->object && n + least + 2 + pretty_columns(r->object) > rest)
		r->object = NULL;
	if (r->object)
		n += 2 + pretty_columns(r->object);
	return rest > n + least ? rest - n : least;
}

static void put_tree_line(void *context, const struct graph_line *line)
{
	const struct text_walk *w = context;
	const struct graph_view *v = w->v;
	const struct call_graph *g = w->group->graph;
	unsigned used = widths_of(v, w->group).all, source, rest;
	struct remarks remarks = {.object = NULL};
	const struct graph_key *key;

	if (!line->node) {
		put_numbers(v, w->group, &line->hidden_figures, NULL,
			    graph_figure(&line->hidden_figures, v->value), line->hidden_calls);
		put_branches(v, line, used);
		pretty_style(v->out, PRETTY_FAINT);
		out_format(v->out, "[%zu more]", line->hidden);
		pretty_style(v->out, PRETTY_PLAIN);
		out_char(v->out, '\n');
		return;
	}
	key = &g->keys[line->node->key];
	put_numbers(v, w->group, &line->node->inclusive, v->upward ? NULL : &line->node->self,
		    graph_figure(&line->node->inclusive, v->value), line->node->count);
	used += put_branches(v, line, used);
	if ((v->functions || v->files) && other_object(g, line->node))
		remarks.object = key->object;
	if (line->hidden)
		snprintf(
		    remarks.hidden, sizeof(remarks.hidden), "  [%zu more: %.2f%%]", line->hidden,
		    percent(graph_figure(&line->hidden_figures, v->value), total_of(v, w->group)));
	rest = pretty_rest(v->out, used);
	source = source_columns(v, key, rest > 44 ? rest / 2 : rest > 32 ? rest - 22 : rest / 3);
	used += source ? source + 2 : 0;
	put_label(v, key, fit_remarks(v, line, label_columns(v, key), used, &remarks));
	if (remarks.object) {
		out_text(v->out, "  ");
		pretty_text(v->out, PRETTY_FAINT, remarks.object);
	}
	put_source(v, key, source);
	if (line->hidden)
		pretty_text(v->out, PRETTY_FAINT, remarks.hidden);
	out_char(v->out, '\n');
}

/* Where the output is no terminal, the heading stands a column to the right of its numbers. */
static int head_width(const struct graph_view *v, const struct widths *w)
{
	return (int)w->figure + !pretty_rest(v->out, 0);
}

static void put_tree_text(const struct graph_view *v, const struct graph_group *group)
{
	const size_t most = v->upward ? (size_t)v->input->limit : 0;
	const struct widths w = widths_of(v, group);

	if (v->upward)
		pretty_head(v->out, "%7s %*s %*s  function, its callers below it\n", "self",
			    (int)w.figure + 1, graph_value_words[v->value], (int)w.count, "calls");
	else
		pretty_head(v->out, "%7s%8s %*s %*s  %s\n", "total", "self", head_width(v, &w),
			    graph_value_words[v->value], (int)w.count, "calls", label_head(v));
	graph_walk(group->graph, least_of(v, group), most, true, 0, put_tree_line,
		   &(struct text_walk){v, group});
}

/* `rest`: the columns beside the numbers, of which objects get a third; 0: no limit. */
static size_t object_width(const struct graph_table_row *rows, size_t n, unsigned rest)
{
	size_t width = strlen("object");

	for (size_t i = 0; i < n; i++) {
		const size_t length = rows[i].key->object ? strlen(rows[i].key->object) : 0;

		if (length > width && length <= 40)
			width = length;
	}
	return rest && width > rest / 3 ? rest / 3 : width;
}

static void put_table_row(const struct graph_view *v, const struct graph_group *group,
			  const struct graph_table_row *row, unsigned width)
{
	const bool objects = v->objects && (v->functions || v->files);
	unsigned used = widths_of(v, group).all + (objects ? width + 2 : 0), source, caller = 0,
		 rest;

	put_numbers(v, group, &row->inclusive, &row->self, graph_figure(&row->inclusive, v->value),
		    row->count);
	if (objects) {
		pretty_column(v->out, row->key->object ? row->key->object : "", width);
		out_text(v->out, "  ");
	}
	source = source_columns(v, row->key, pretty_rest(v->out, used) / 2);
	rest = pretty_rest(v->out, used + (source ? source + 2 : 0) + (row->caller ? 5 : 0));
	if (rest && row->caller) {
		const unsigned all = label_columns(v, row->key),
			       other = label_columns(v, row->caller);

		caller = other < rest / 2 || all + other <= rest ? other
			 : all < rest / 2			 ? rest - all
								 : rest / 2;
		rest = caller < rest ? rest - caller : 1;
	}
	put_label(v, row->key, rest);
	put_source(v, row->key, source);
	if (row->caller) {
		out_text(v->out, "  <- ");
		put_label(v, row->caller, caller);
	}
	out_char(v->out, '\n');
}

static void put_table_text(const struct graph_view *v, const struct graph_group *group)
{
	size_t n = 0, shown;
	struct graph_table_row *rows = list_rows(v, group->graph, &n);
	const struct widths w = widths_of(v, group);
	const unsigned width = (unsigned)object_width(rows, n, pretty_rest(v->out, w.all));

	pretty_head(v->out, "%7s%8s %*s %*s  ", "total", "self", head_width(v, &w),
		    graph_value_words[v->value], (int)w.count, "calls");
	if (v->objects && (v->functions || v->files))
		pretty_head(v->out, "%-*s  ", (int)width, "object");
	pretty_head(v->out, "%s%s\n", label_head(v),
		    v->kind == GRAPH_PAIR_TABLE ? " <- caller" : "");
	shown = rows ? input_shown(v->input, n) : 0;
	while (shown && (double)rows[shown - 1].figure < least_of(v, group))
		shown--;
	for (size_t i = 0; i < shown; i++)
		put_table_row(v, group, &rows[i], width);
	if (shown < n)
		out_format(v->out, "%zu more (--limit=0 and --percent-limit=0 show all)\n",
			   n - shown);
	free(rows);
}

static void put_text(void *view)
{
	const struct graph_view *v = view;

	put_summary(v);
	for (size_t i = 0; i < v->group_count; i++) {
		put_group_head(v, &v->groups[i]);
		if (v->kind == GRAPH_TREE)
			put_tree_text(v, &v->groups[i]);
		else
			put_table_text(v, &v->groups[i]);
	}
}

/* TSV and JSON */

/* A row as TSV and JSON have it. */
struct flat {
	uint64_t row, parent, depth;
	double percent, self_percent;
	const char *function, *object, *file, *caller, *comm;
	uint64_t line, ip, calls;
	struct ptah_call_figures inclusive, self;
	int32_t pid, tid, cpu;
	bool is_function, has_pid, has_tid;
};

enum asked {
	ASKED_TREE = 1 << 0,
	ASKED_PAIRS = 1 << 1,
	ASKED_CYCLES = 1 << 2,
	ASKED_TIME = 1 << 3,
	ASKED_FILES = 1 << 4,
	ASKED_CPU = 1 << 5,
};

#define FLAT(name, kind, member, asked)                                                            \
	{                                                                                          \
		name, name, kind, offsetof(struct flat, member), asked, 0                          \
	}

static const struct field flat_fields[] = {
    FLAT("row", FIELD_NUMBER, row, ASKED_TREE),
    FLAT("parent", FIELD_NUMBER, parent, ASKED_TREE),
    FLAT("depth", FIELD_NUMBER, depth, ASKED_TREE),
    FLAT("percent", FIELD_REAL, percent, 0),
    FLAT("self_percent", FIELD_REAL, self_percent, 0),
    FLAT("calls", FIELD_NUMBER, calls, 0),
    FLAT("instructions", FIELD_NUMBER, inclusive.instructions, 0),
    FLAT("self_instructions", FIELD_NUMBER, self.instructions, 0),
    FLAT("cycles", FIELD_NUMBER, inclusive.cycles, ASKED_CYCLES),
    FLAT("self_cycles", FIELD_NUMBER, self.cycles, ASKED_CYCLES),
    FLAT("seconds", FIELD_SECONDS, inclusive.time, ASKED_TIME),
    FLAT("self_seconds", FIELD_SECONDS, self.time, ASKED_TIME),
    FLAT("object", FIELD_STRING, object, 0),
    FLAT("function", FIELD_STRING, function, 0),
    FLAT("file", FIELD_STRING, file, ASKED_FILES),
    FLAT("line", FIELD_NUMBER, line, ASKED_FILES),
    FLAT("caller", FIELD_STRING, caller, ASKED_PAIRS),
    {"ip", "ip", FIELD_ADDRESS, offsetof(struct flat, ip), 0, offsetof(struct flat, is_function)},
    {"pid", "pid", FIELD_SIGNED, offsetof(struct flat, pid), 0, offsetof(struct flat, has_pid)},
    {"tid", "tid", FIELD_SIGNED, offsetof(struct flat, tid), 0, offsetof(struct flat, has_tid)},
    FLAT("comm", FIELD_STRING, comm, 0),
    FLAT("cpu", FIELD_SIGNED, cpu, ASKED_CPU),
};

static const struct row_type flat_type = ROW_TYPE(flat_fields);

static unsigned asked_fields(const struct graph_view *v)
{
	unsigned asked = v->kind == GRAPH_TREE ? ASKED_TREE : 0;

	if (v->kind == GRAPH_PAIR_TABLE)
		asked |= ASKED_PAIRS;
	if (v->files)
		asked |= ASKED_FILES;
	for (size_t i = 0; i < v->group_count; i++) {
		const struct ptah_call_figures *f = &v->groups[i].graph->totals.inclusive;

		asked |= (f->cycles ? ASKED_CYCLES : 0) | (f->time ? ASKED_TIME : 0);
		asked |= v->groups[i].cpu != INT32_MIN ? ASKED_CPU : 0;
	}
	return asked;
}

static struct flat flatten(const struct graph_view *v, const struct graph_group *group,
			   const struct graph_key *key, const struct ptah_call_figures *inclusive,
			   const struct ptah_call_figures *self, uint64_t calls)
{
	const uint64_t total = total_of(v, group);

	return (struct flat){
	    .percent = percent(graph_figure(inclusive, v->value), total),
	    .self_percent = percent(graph_figure(self, v->value), total),
	    .function = key->special ? key->special : key->function,
	    .object = v->objects && !key->special ? (key->path ? key->path : key->object) : NULL,
	    .file = key->file,
	    .line = key->line,
	    .comm = group->comm[0] ? group->comm : NULL,
	    .ip = key->ip,
	    .calls = calls,
	    .inclusive = *inclusive,
	    .self = *self,
	    .pid = group->pid,
	    .tid = group->tid,
	    .cpu = group->cpu,
	    .is_function = v->functions && !key->special,
	    .has_pid = group->pid != INT32_MIN,
	    .has_tid = group->tid != INT32_MIN,
	};
}

struct row_walk {
	struct graph_view *v;
	const struct graph_group *group;
	void (*put)(struct graph_view *v, const struct flat *row);
};

static void put_tree_row(void *context, const struct graph_line *line)
{
	const struct row_walk *w = context;
	const struct graph_key *key = &w->group->graph->keys[line->node->key];
	struct flat row = flatten(w->v, w->group, key, &line->node->inclusive, &line->node->self,
				  line->node->count);

	row.row = line->row;
	row.parent = line->parent;
	row.depth = line->depth;
	w->v->rows = line->row;
	w->put(w->v, &row);
}

static int put_tree_rows(const struct row_walk *w)
{
	return graph_walk(w->group->graph, least_of(w->v, w->group), 0, false, w->v->rows,
			  put_tree_row, (void *)(uintptr_t)w);
}

static void put_table_rows(const struct row_walk *w)
{
	size_t n = 0;
	struct graph_table_row *rows = list_rows(w->v, w->group->graph, &n);

	for (size_t i = 0; rows && i < input_shown(w->v->input, n); i++) {
		const struct graph_table_row *r = &rows[i];
		struct flat row =
		    flatten(w->v, w->group, r->key, &r->inclusive, &r->self, r->count);

		if ((double)r->figure < least_of(w->v, w->group))
			break;
		if (r->caller)
			row.caller = r->caller->special	   ? r->caller->special
				     : r->caller->function ? r->caller->function
				     : r->caller->file	   ? r->caller->file
							   : r->caller->path;
		w->put(w->v, &row);
	}
	free(rows);
}

static void put_rows(struct graph_view *v,
		     void (*put)(struct graph_view *v, const struct flat *row))
{
	for (size_t i = 0; i < v->group_count; i++) {
		const struct row_walk w = {v, &v->groups[i], put};

		if (v->kind == GRAPH_TREE)
			put_tree_rows(&w);
		else
			put_table_rows(&w);
	}
}

static void put_tsv_row(struct graph_view *v, const struct flat *row)
{
	fields_tsv(v->out, &flat_type, asked_fields(v), row);
}

static void put_tsv(void *view)
{
	struct graph_view *v = view;

	fields_tsv_head(v->out, &flat_type, asked_fields(v));
	put_rows(v, put_tsv_row);
}

static void put_json_row(struct graph_view *v, const struct flat *row)
{
	fields_json(&v->json, &flat_type, asked_fields(v), row);
}

static void put_json_totals(struct graph_view *v)
{
	struct ptah_call_totals t = {0};
	uint64_t threads = 0, folded_elsewhere = 0;

	for (size_t i = 0; i < v->group_count; i++) {
		const struct ptah_call_totals *g = &v->groups[i].graph->totals;

		t.inclusive.instructions += g->inclusive.instructions;
		t.inclusive.cycles += g->inclusive.cycles;
		t.inclusive.time += g->inclusive.time;
		t.calls += g->calls;
		t.partial += g->partial;
		t.folded_calls += g->folded_calls;
		t.folded.instructions += g->folded.instructions;
		threads += v->groups[i].threads;
		folded_elsewhere += v->groups[i].graph->folded_elsewhere;
	}
	if (v->session)
		json_number(&v->json, "threads", threads);
	json_number(&v->json, "instructions", t.inclusive.instructions);
	json_number(&v->json, "cycles", t.inclusive.cycles);
	json_seconds(&v->json, "seconds", t.inclusive.time);
	json_number(&v->json, "calls", t.calls);
	json_number(&v->json, "partial_calls", t.partial);
	json_number(&v->json, "folded_calls", t.folded_calls);
	json_number(&v->json, "folded_instructions", t.folded.instructions);
	if (v->input->function)
		json_number(&v->json, "folded_elsewhere", folded_elsewhere);
}

static void put_json(void *view)
{
	struct graph_view *v = view;

	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_string(&v->json, "command", v->session ? ptah_session_command(v->session) : NULL);
	json_string(&v->json, "value", graph_value_words[v->value]);
	if (v->kind == GRAPH_TREE)
		json_string(&v->json, "call_graph", v->upward ? "callee" : "caller");
	put_json_totals(v);
	json_array(&v->json, "notes");
	for (size_t i = 0; v->session && ptah_session_note(v->session, i); i++)
		json_string(&v->json, NULL, ptah_session_note(v->session, i));
	json_end_array(&v->json);
	json_array(&v->json, v->kind == GRAPH_TREE ? "nodes" : "rows");
	put_rows(v, put_json_row);
	json_end_array(&v->json);
	json_end_object(&v->json);
	json_finish(&v->json);
}

const struct renderer graph_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = put_text, .offered = true},
    [FORMAT_JSON] = {.begin = put_json, .offered = true},
    [FORMAT_TSV] = {.begin = put_tsv, .offered = true},
};
