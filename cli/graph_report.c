/* SPDX-License-Identifier: MIT */
/* `ptah report` by calls: reads the calls of a recording and adds them up as they are shown. */
#include "graph_report.h"
#include "graph_view.h"
#include "saved_counts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of perf's words those that change nothing here are taken as well. */
const char *const graph_order_words[] = {"caller", "callee", "graph", "function", "percent", NULL};

/* The others would show something else. */
const char *const graph_refused_words[] = {"fractal", "flat",	"folded", "none",   "address",
					   "srcline", "period", "count",  "branch", NULL};

/* perf's default: paths with less are not shown. */
#define GRAPH_LEAST_PERCENT 0.5

/* What --sort can name, with perf's words. */
enum sort_word {
	SORT_CALLER = 1 << 8, /* beside enum graph_sort */
};

static const struct {
	const char *word;
	unsigned sort;
} sort_words[] = {
    {"function", GRAPH_FUNCTION}, {"symbol", GRAPH_FUNCTION}, {"sym", GRAPH_FUNCTION},
    {"object", GRAPH_OBJECT},	  {"dso", GRAPH_OBJECT},      {"caller", SORT_CALLER},
    {"file", GRAPH_FILE},	  {"srcfile", GRAPH_FILE},    {"line", GRAPH_LINE},
    {"srcline", GRAPH_LINE},
};

/* The first word of a list, which *list moves past. Returns its length. */
static size_t next_word(const char **list, const char **word)
{
	const size_t n = strcspn(*list, ",");

	*word = *list;
	*list += n;
	if (**list == ',')
		++*list;
	return n;
}

/* The bits that a list of words names. 0: a word is not known. */
static unsigned parse_sort(const char *list)
{
	unsigned sort = 0;

	while (*list) {
		const char *word;
		const size_t n = next_word(&list, &word);
		unsigned bit = 0;

		for (size_t i = 0; i < ARRAY_SIZE(sort_words); i++)
			if (strlen(sort_words[i].word) == n && !memcmp(sort_words[i].word, word, n))
				bit = sort_words[i].sort;
		if (!bit)
			return 0;
		sort |= bit;
	}
	return sort;
}

bool graph_can_sort(const char *words)
{
	return parse_sort(words) != 0;
}

bool graph_is_asked(const struct graph_options *o)
{
	return o->call_graph || o->sort || o->value || o->by;
}

/* Adds the calls of saved counts. */
static int add_saved(struct graph_groups *g, const struct ptah_counts *counts)
{
	struct ptah_counts_process p;
	int status = 0;

	for (size_t i = 0; status >= 0 && ptah_counts_process(counts, i, &p); i++) {
		struct ptah_call_thread process = {.pid = p.pid, .tid = p.pid, .space = (int32_t)i};

		snprintf(process.comm, sizeof(process.comm), "%s", p.comm);
		if (p.calls)
			status = graph_groups_take(g, &process, p.calls);
	}
	for (size_t i = 0; i < g->count; i++)
		g->groups[i].threads = 0; /* not known */
	return status;
}

/* What the options ask for. */
struct wanted {
	struct call_graph_config config;
	struct graph_view view;
};

static bool is_word(const char *word, size_t n, const char *wanted)
{
	return strlen(wanted) == n && !memcmp(wanted, word, n);
}

static bool is_order_word(const char *word, size_t n)
{
	for (size_t i = 0; graph_order_words[i]; i++)
		if (is_word(word, n, graph_order_words[i]))
			return true;
	return false;
}

/* The value of --call-graph, as perf has it: an order, a percentage, and words without effect. */
static bool parse_call_graph(const char *list, struct wanted *w)
{
	bool limited = false;

	while (*list) {
		const char *word;
		const size_t n = next_word(&list, &word);
		char *end;

		if (is_order_word(word, n)) {
			w->view.upward = is_word(word, n, "callee") ||
					 (w->view.upward && !is_word(word, n, "caller"));
			continue;
		}
		if (!n || limited || !strchr("0123456789.", *word))
			return false;
		w->view.limit = strtod(word, &end);
		limited = true;
		if (end != word + n || !(w->view.limit >= 0 && w->view.limit <= 100))
			return false;
	}
	return true;
}

static int parse_limit(const struct command *command, const struct graph_options *o,
		       struct wanted *w)
{
	char *end;

	if (o->percent_limit) {
		w->view.limit = strtod(o->percent_limit, &end);
		if (!*o->percent_limit || *end || !(w->view.limit >= 0 && w->view.limit <= 100))
			return fail_usage(command, "--percent-limit=%s: not a percentage",
					  o->percent_limit);
	}
	return 0;
}

/* Returns an exit code, after a message if it is not 0. */
static int parse_wanted(const struct command *command, const struct graph_options *o,
			const struct input *input, struct wanted *w)
{
	const unsigned sort = o->sort ? parse_sort(o->sort) : GRAPH_FUNCTION | GRAPH_OBJECT;

	w->view.input = input;
	w->view.value = graph_value_of(o->value);
	w->view.value_word = graph_value_words[o->value];
	w->view.limit = input->format == FORMAT_TEXT && o->call_graph ? GRAPH_LEAST_PERCENT : 0;
	if (o->call_graph && !parse_call_graph(o->call_graph, w))
		return fail_usage(
		    command,
		    "--call-graph=%s: it takes caller (callees below their callers) "
		    "or callee (callers below each function), and a percentage below "
		    "which paths are added up, as in callee,0.1. Of perf's words graph, "
		    "function and percent describe the tree as it is; the others are "
		    "not available",
		    o->call_graph);
	if (o->call_graph && sort & SORT_CALLER)
		return fail_usage(command, "--sort=caller is for a table; --call-graph=callee has "
					   "the callers of each function");
	w->view.kind = o->call_graph	    ? GRAPH_TREE
		       : sort & SORT_CALLER ? GRAPH_PAIR_TABLE
					    : GRAPH_TABLE;
	w->config.sort = sort & ~(unsigned)SORT_CALLER;
	if (!w->config.sort)
		w->config.sort = GRAPH_FUNCTION;
	w->config.value = w->view.value;
	w->config.stubs = o->stubs;
	w->config.function = input->function;
	w->config.direction = w->view.upward			 ? GRAPH_UP
			      : w->view.kind == GRAPH_PAIR_TABLE ? GRAPH_PAIRS
								 : GRAPH_DOWN;
	w->view.functions = w->config.sort & GRAPH_FUNCTION;
	w->view.objects = w->config.sort & GRAPH_OBJECT;
	w->view.files = w->config.sort & (GRAPH_FILE | GRAPH_LINE);
	w->view.lines = w->config.sort & GRAPH_LINE;
	return parse_limit(command, o, w);
}

/* Orders what has been read, and shows it. Returns an exit code. */
static int show_graph_groups(const struct command *command, struct graph_groups *g,
			     struct wanted *w, const struct ptah_session *session,
			     const struct renderer *renderer)
{
	int status = graph_groups_sort(g);

	if (status < 0)
		return fail(command, "%s", ptah_strerror(status));
	w->view.session = session;
	w->view.groups = g->groups;
	w->view.group_count = g->count;
	if (w->config.function && !graph_groups_have_calls(g))
		return fail_function(command, w->config.function);
	status = graph_groups_check_value(command, g, session);
	if (!status)
		renderer->begin(&w->view);
	return status;
}

static int report_session(const struct command *command, struct graph_groups *g, struct wanted *w,
			  const struct input *input, const struct ptah_session *session,
			  const struct renderer *renderer)
{
	uint64_t errors;
	int status = input_names(input, session, &g->config.names);

	if (status < 0)
		return fail(command, "%s", ptah_strerror(status));
	status = graph_groups_read(command, input, session, g, &errors);
	if (status)
		return status;
	status = show_graph_groups(command, g, w, session, renderer);
	if (status)
		return status;
	if (w->view.value == PTAH_CALL_VALUE_TIME)
		input_note_times(input, session);
	return errors ? fail_errors(command, errors) : EXIT_OK;
}

static int report_saved(const struct command *command, struct graph_groups *g, struct wanted *w,
			struct input *input, int argc, char **argv, const struct renderer *renderer)
{
	struct ptah_profile_totals totals;
	struct names_kernel kernel;
	struct ptah_counts *counts;
	int status, problem;

	if (g->wall)
		return fail_usage(command, "--value=wall: saved counts know no waits");
	if (g->by == GRAPH_BY_THREAD || g->by == GRAPH_BY_CPU)
		return fail_usage(command, "--by=%s: saved counts know no threads and no CPUs",
				  graph_by_words[g->by]);
	status = counts_read(command, input, argc, argv, &counts, &kernel);
	if (status)
		return status;
	problem = input_names(input, NULL, &g->config.names);
	if (problem >= 0) {
		names_use_kernel(g->config.names, &kernel);
		problem = names_use_counts(g->config.names, counts, input->force);
	}
	if (problem >= 0) {
		ptah_counts_totals(counts, &totals, &w->view.times);
		counts_note_changed(input, g->config.names);
		problem = add_saved(g, counts);
	}
	if (problem < 0)
		status = fail(command, "%s", ptah_strerror(problem));
	else if (!g->count)
		status =
		    fail(command, "%s has no calls: ptah profile --save=FILE --calls saves them",
			 input->path);
	else
		status = show_graph_groups(command, g, w, NULL, renderer);
	ptah_counts_free(counts);
	return status;
}

static int report_recording(const struct command *command, struct graph_groups *g, struct wanted *w,
			    struct input *input, int argc, char **argv,
			    const struct renderer *renderer)
{
	struct ptah_session *session;
	int status;

	/* Threads that wait until the end take time. Tables and trees show one value, JSON has all. */
	input->samples =
	    g->wall || g->config.value == PTAH_CALL_VALUE_TIME || input->format != FORMAT_TEXT;
	status = input_open(command, input, argc, argv, true, &session);

	if (status)
		return status;
	status = output_open(command, input, &w->view.out);
	if (!status)
		status = output_close(command, w->view.out,
				      report_session(command, g, w, input, session, renderer));
	ptah_session_close(session);
	return status;
}

int graph_report(const struct command *command, const struct graph_options *o, struct input *input,
		 int argc, char **argv)
{
	const struct renderer *renderer =
	    renderer_choose(command, graph_renderers, input->format, "");
	const char *path = argc ? argv[0] : input->path;
	struct graph_groups g = {.by = (enum graph_by)o->by, .wall = o->value == GRAPH_VALUE_WALL};
	struct wanted w = {.config.sort = 0};
	int status = renderer ? parse_wanted(command, o, input, &w) : EXIT_USAGE;

	if (status)
		return status;
	g.config = w.config;
	if (input->pt || !path || ptah_counts_recognise(path) != PTAH_COUNTS_SUM) {
		status = report_recording(command, &g, &w, input, argc, argv, renderer);
	} else {
		status = output_open(command, input, &w.view.out);
		if (!status)
			status = output_close(
			    command, w.view.out,
			    report_saved(command, &g, &w, input, argc, argv, renderer));
	}
	graph_groups_free(&g);
	names_free(g.config.names);
	return status;
}
