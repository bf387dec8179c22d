/* SPDX-License-Identifier: MIT */
/* The call graphs of `ptah report` as text; graph_structured.c has the other formats. */
#include "graph_rows.h"
#include "time_head.h"

#include "output/pretty.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned larger(size_t a, size_t b)
{
	return (unsigned)(a > b ? a : b);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* What the rows are named by: the first of these that the keys have. */
static const char *label_head(const struct graph_view *v)
{
	return v->functions ? "function" : v->lines ? "line" : v->files ? "file" : "object";
}

/* `columns`: how many it may take; 0: all that it needs. */
static void put_graph_file(struct out *out, const struct graph_key *key, unsigned columns)
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
static void put_graph_label(const struct graph_view *v, const struct graph_key *key,
			    unsigned columns)
{
	if (key->special)
		pretty_name(v->out, key->special, columns);
	else if (v->functions && key->function)
		pretty_name(v->out, key->function, columns);
	else if (v->functions)
		out_format(v->out, "0x%" PRIx64, key->ip);
	else if (v->files)
		put_graph_file(v->out, key, columns);
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
static void put_graph_source(const struct graph_view *v, const struct graph_key *key,
			     unsigned columns)
{
	if (!columns)
		return;
	out_text(v->out, "  ");
	pretty_style(v->out, PRETTY_FAINT);
	put_graph_file(v->out, key, pretty_rest(v->out, 0) ? columns : 0);
	pretty_style(v->out, PRETTY_PLAIN);
}

static const char *figure_text(const struct graph_view *v, uint64_t figure,
			       char text[PRETTY_NUMBER])
{
	if (v->value != PTAH_CALL_VALUE_TIME)
		return pretty_number(figure, text);
	return (v->session ? ptah_session_times(v->session).estimated
			   : v->times & PTAH_COUNTS_ESTIMATED)
		   ? pretty_estimate(figure, text)
		   : pretty_time(figure, text);
}

static void put_clean(struct out *out, const char *head, const char *text)
{
	out_text(out, head);
	out_clean(out, text);
	out_char(out, '\n');
}

/* What the figures leave out, or do not tell apart. */
static void put_graph_losses(const struct graph_view *v, const struct ptah_call_totals *t,
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
	if (v->value == PTAH_CALL_VALUE_TIME && v->session)
		time_head_put(v->out, v->session);
	else if (v->value == PTAH_CALL_VALUE_TIME)
		time_head_put_saved(v->out, v->times);
	put_graph_losses(v, &t, folded_elsewhere);
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
	out_format(v->out, ": %s", figure_text(v, graph_total(v, group), number));
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
		w.figure = larger(strlen(v->value_word),
				  v->value == PTAH_CALL_VALUE_TIME
				      ? strlen("12.3 ms")
				      : strlen(pretty_number(graph_total(v, group), text)));
		w.count = larger(strlen("calls"),
				 strlen(pretty_number(group->graph->totals.calls, text)));
	}
	w.all = (v->upward ? 8 : 15) + 1 + w.figure + 1 + w.count + 2;
	return w;
}

static void put_graph_numbers(const struct graph_view *v, const struct graph_group *group,
			      const struct ptah_call_figures *inclusive,
			      const struct ptah_call_figures *self, uint64_t figure, uint64_t count)
{
	const uint64_t total = graph_total(v, group);
	const struct widths w = widths_of(v, group);
	char number[PRETTY_NUMBER];

	pretty_percent(v->out, graph_figure(inclusive, v->value), total);
	out_char(v->out, ' ');
	if (self && total && (double)graph_figure(self, v->value) / (double)total >= 0.00005)
		pretty_percent(v->out, graph_figure(self, v->value), total);
	else if (!v->upward)
		out_text(v->out, "       ");
	out_format(v->out, " %*s", (int)w.figure, figure_text(v, figure, number));
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
static unsigned put_graph_branches(const struct graph_view *v, const struct graph_line *line,
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
		put_graph_numbers(v, w->group, &line->hidden_figures, NULL,
				  graph_figure(&line->hidden_figures, v->value),
				  line->hidden_calls);
		put_graph_branches(v, line, used);
		pretty_style(v->out, PRETTY_FAINT);
		out_format(v->out, "[%zu more]", line->hidden);
		pretty_style(v->out, PRETTY_PLAIN);
		out_char(v->out, '\n');
		return;
	}
	key = &g->keys[line->node->key];
	put_graph_numbers(v, w->group, &line->node->inclusive, v->upward ? NULL : &line->node->self,
			  graph_figure(&line->node->inclusive, v->value), line->node->count);
	used += put_graph_branches(v, line, used);
	if ((v->functions || v->files) && other_object(g, line->node))
		remarks.object = key->object;
	if (line->hidden)
		snprintf(remarks.hidden, sizeof(remarks.hidden), "  [%zu more: %.2f%%]",
			 line->hidden,
			 graph_percent(graph_figure(&line->hidden_figures, v->value),
				       graph_total(v, w->group)));
	rest = pretty_rest(v->out, used);
	source = source_columns(v, key, rest > 44 ? rest / 2 : rest > 32 ? rest - 22 : rest / 3);
	used += source ? source + 2 : 0;
	put_graph_label(v, key, fit_remarks(v, line, label_columns(v, key), used, &remarks));
	if (remarks.object) {
		out_text(v->out, "  ");
		pretty_text(v->out, PRETTY_FAINT, remarks.object);
	}
	put_graph_source(v, key, source);
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
			    (int)w.figure + 1, v->value_word, (int)w.count, "calls");
	else
		pretty_head(v->out, "%7s%8s %*s %*s  %s\n", "total", "self", head_width(v, &w),
			    v->value_word, (int)w.count, "calls", label_head(v));
	graph_walk(group->graph, graph_least(v, group), most, true, 0, put_tree_line,
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

	put_graph_numbers(v, group, &row->inclusive, &row->self,
			  graph_figure(&row->inclusive, v->value), row->count);
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
	put_graph_label(v, row->key, rest);
	put_graph_source(v, row->key, source);
	if (row->caller) {
		out_text(v->out, "  <- ");
		put_graph_label(v, row->caller, caller);
	}
	out_char(v->out, '\n');
}

static void put_table_text(const struct graph_view *v, const struct graph_group *group)
{
	size_t n = 0, shown;
	struct graph_table_row *rows = graph_list_rows(v, group->graph, &n);
	const struct widths w = widths_of(v, group);
	const unsigned width = (unsigned)object_width(rows, n, pretty_rest(v->out, w.all));

	pretty_head(v->out, "%7s%8s %*s %*s  ", "total", "self", head_width(v, &w), v->value_word,
		    (int)w.count, "calls");
	if (v->objects && (v->functions || v->files))
		pretty_head(v->out, "%-*s  ", (int)width, "object");
	pretty_head(v->out, "%s%s\n", label_head(v),
		    v->kind == GRAPH_PAIR_TABLE ? " <- caller" : "");
	shown = rows ? input_shown(v->input, n) : 0;
	while (shown && (double)rows[shown - 1].figure < graph_least(v, group))
		shown--;
	for (size_t i = 0; i < shown; i++)
		put_table_row(v, group, &rows[i], width);
	if (shown < n)
		out_format(v->out, "%zu more (--limit=0 and --percent-limit=0 show all)\n",
			   n - shown);
	free(rows);
}

static void put_graph_text(void *view)
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

const struct renderer graph_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = put_graph_text, .offered = true},
    [FORMAT_JSON] = {.begin = graph_put_json, .offered = true},
    [FORMAT_TSV] = {.begin = graph_put_tsv, .offered = true},
};
