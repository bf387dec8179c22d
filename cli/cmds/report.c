/* SPDX-License-Identifier: MIT */
/* ptah report: where the program spent its instructions. */
#include "base/order.h"
#include "function_table.h"
#include "graph_report.h"
#include "graph_view.h"
#include "input.h"
#include "base/text.h"
#include "output/pretty.h"
#include "process_shares.h"
#include "render.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	bool blocks, inlined, stdio;
	const char *sort; /* NULL: by instructions */
	struct graph_options graph;
};

/* The orders of the table of functions, in the order of enum table_order. */
static const char *const orders[] = {"instructions", "calls", "name", NULL};

static const struct option_def blocks_options[] = {
    {.name = "blocks",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, blocks),
     .help = "the hottest blocks instead of functions",
     .man = "The hottest blocks instead of functions."},
    {.name = "inline",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, inlined),
     .help = "inlined functions have rows of their own",
     .man =
	 "What a function executed that the compiler inlined is a row of its own, *NAME* "
	 "(inlined), added up over all places in the object where it was inlined, and no longer "
	 "part of the functions around it. Of several that were inlined into each other an "
	 "instruction belongs to the innermost. Their calls are not in the trace: text has a - in "
	 "the column, TSV and JSON 0, and *inlined* says which rows they are. Objects without "
	 "debug information (`gcc -g`) and the kernel have the rows that they have without this "
	 "option. With `--debuginfod` the debug files of all objects that ran are asked for."},
    {0},
};

static const struct option_def sort_options[] = {
    {.name = "sort",
     .letter = 's',
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, sort),
     .arg = "KEY",
     .help = "order: instructions, calls, name; or rows: function,object,file,line,caller",
     .man =
	 "The order of the rows: by *instructions* (the default), *calls* or *name*. Or what a "
	 "row is, as perf has it: a list of *function*, *object*, *file* (of the source), *line* "
	 "(where the function is declared) and *caller*; also perf's *symbol*, *sym*, *dso*, "
	 "*srcfile*, *srcline*. Rows are then counted by their calls: what ran in the calls, and "
	 "what ran in the function itself. A *caller* makes a row of each pair of caller and "
	 "function. How often each line of a function ran is shown by `ptah-annotate`(1)."},
    {.name = "call-graph",
     .letter = 'g',
     .kind = OPTION_OPTIONAL,
     .at = offsetof(struct options, graph.call_graph),
     .arg = "ORDER",
     .man_arg = "*caller*|*callee*[`,`*PERCENT*]",
     .choices = graph_order_words,
     .refused = graph_refused_words,
     .help = "print the calls as a tree: caller (the default) or callee, and a percentage",
     .man = "Print the calls as a tree. With *caller*, the default, a function stands below the "
	    "one that called it; with *callee* callers stand below each function in which the most "
	    "ran itself (`--limit` of them). What has less than *PERCENT* (0.5, in TSV and JSON 0) "
	    "is added up as [*N* more]. Of perf's words *graph*, *function* and *percent* are "
	    "taken, and change nothing. The next argument is taken for the value if it is one, and "
	    "no file has that name. An only callee stands directly below its caller; others branch "
	    "off, as with perf. Where a terminal is too narrow, lines begin with their level in "
	    "the tree and a colon instead of its outermost branches, and names are cut."},
    {.name = "percent-limit",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, graph.percent_limit),
     .arg = "PERCENT",
     .help = "of calls: leave out what has less",
     .man = "Of calls: leave out what has less than *PERCENT* of the whole."},
    {.name = "stubs",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, graph.stubs),
     .help = "of calls: show PLT stubs as functions",
     .man = "Of calls: show stubs of the procedure linkage table, and the dynamic linker's "
	    "resolver, as functions. Without this option what they run counts for their caller, "
	    "and so do the calls that they make."},
    {.name = "value",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, graph.value),
     .arg = "WHAT",
     .choices = graph_value_words,
     .help = "instructions, cycles, time or wall (default: instructions)",
     .man = "What calls are measured by: *instructions* (the default), *cycles* (of the core, "
	    "where the recording has CYC packets), *time*, which passes also while a thread does "
	    "not run, or *wall*. That is the whole time of each thread from its beginning to its "
	    "end, with what it waited for as frames, `[waits: mutex stock (0x4040c0)]` (see "
	    "`ptah-waits`(1)), below the function that waited; `[waits: processor]` is time in "
	    "which it could run but other threads did, and `[unknown]` what the trace does not "
	    "show. A recording without times between its system calls says so, and which options "
	    "of `ptah-record`(1) record them."},
    {.name = "by",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, graph.by),
     .arg = "WHAT",
     .choices = graph_by_words,
     .help = "all, process, thread or cpu",
     .man = "A table or tree of calls for *all* together (the default), or one for each *process*, "
	    "*thread* or *cpu*. On a CPU, where the recording has a stream for each, a call "
	    "that moves to another one counts with what it ran there, and as one that contains a "
	    "loss."},
    {.name = "stdio",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, stdio),
     .help = "the default; accepted as perf has it",
     .man = "The default, accepted as perf report has it."},
    {0},
};

/* What all threads of one name executed. */
struct program {
	char comm[PTAH_COMM_SIZE];
	uint64_t threads, instructions;
};

/* A thread that ran in a stream of a CPU, and perhaps in others. */
struct ran {
	int32_t pid, tid;
	char comm[PTAH_COMM_SIZE]; /* of its program */
};

struct reporting {
	struct hotspots *counter;
	const struct ptah_session *session;
	struct program *programs; /* until sum_programs() one for each stream and process in it */
	size_t count;
	struct ran *ran;
	size_t ran_count;
	uint64_t threads; /* known after sum_programs() */
};

static int by_comm(const void *a, const void *b)
{
	return strcmp(((const struct program *)a)->comm, ((const struct program *)b)->comm);
}

static int by_report_instructions(const void *a, const void *b)
{
	const struct program *x = a, *y = b;

	if (x->instructions != y->instructions)
		return x->instructions > y->instructions ? -1 : 1;
	return by_comm(a, b);
}

static int add_report_program(struct reporting *r, const struct program *program)
{
	if (!LIST_ADD(r->programs, r->count))
		return PTAH_E_NOMEM;
	r->programs[r->count - 1] = *program;
	return 0;
}

static int by_report_thread(const void *a, const void *b)
{
	const struct ran *x = a, *y = b;

	return COMPARE_THEN(x->pid, y->pid, COMPARE(x->tid, y->tid));
}

/* A thread that ran on several CPUs counts once, for its program. */
static int sum_threads(struct reporting *r)
{
	int status = 0;

	if (r->ran_count)
		qsort(r->ran, r->ran_count, sizeof(*r->ran), by_report_thread);
	for (size_t i = 0; i < r->ran_count && status >= 0; i++) {
		struct program one = {.threads = 1};

		if (i && !by_report_thread(&r->ran[i - 1], &r->ran[i]))
			continue;
		memcpy(one.comm, r->ran[i].comm, sizeof(one.comm));
		status = add_report_program(r, &one);
	}
	return status;
}

/* Adds up programs of the same name, and sorts: the most instructions first. 0 or an error. */
static int sum_programs(struct reporting *r)
{
	int status = sum_threads(r);
	size_t last = 0;

	for (size_t i = 0; i < r->count; i++)
		r->threads += r->programs[i].threads;
	if (!r->count || status < 0)
		return status;
	qsort(r->programs, r->count, sizeof(*r->programs), by_comm);
	for (size_t i = 1; i < r->count; i++) {
		if (by_comm(&r->programs[last], &r->programs[i])) {
			r->programs[++last] = r->programs[i];
			continue;
		}
		r->programs[last].threads += r->programs[i].threads;
		r->programs[last].instructions += r->programs[i].instructions;
	}
	r->count = last + 1;
	qsort(r->programs, r->count, sizeof(*r->programs), by_report_instructions);
	return 0;
}

static void put_programs_json(struct json *j, const struct reporting *r)
{
	json_array(j, "programs");
	for (size_t i = 0; i < r->count; i++) {
		json_object(j, NULL, true);
		json_string(j, "comm", r->programs[i].comm);
		json_number(j, "threads", r->programs[i].threads);
		json_number(j, "instructions", r->programs[i].instructions);
		json_end_object(j);
	}
	json_end_array(j);
}

/* The most programs that text lists. */
#define MOST_PROGRAMS 10

static void put_programs_text(struct out *out, const struct reporting *r, uint64_t total)
{
	const size_t shown = r->count < MOST_PROGRAMS ? r->count : MOST_PROGRAMS;
	char text[PRETTY_NUMBER];

	if (r->count < 2)
		return;
	for (size_t i = 0; i < shown; i++) {
		const struct program *p = &r->programs[i];

		out_format(out, "# %6.2f%% %17s instructions  %-16s",
			   total ? 100.0 * (double)p->instructions / (double)total : 0.0,
			   pretty_number(p->instructions, text), p->comm[0] ? p->comm : "-");
		if (p->threads)
			out_format(out, " %" PRIu64 " thread%s", p->threads,
				   p->threads == 1 ? "" : "s");
		out_char(out, '\n');
	}
	if (shown < r->count)
		out_format(out, "# and %zu more programs (--format=json lists them)\n",
			   r->count - shown);
}

static void put_summary_json(struct json *j, const struct ptah_session *session,
			     const struct hotspot_totals *t, const struct reporting *r)
{
	json_string(j, "command", ptah_session_command(session));
	json_number(j, "threads", r->threads);
	json_number(j, "bytes", t->bytes);
	json_number(j, "instructions", t->instructions);
	json_number(j, "blocks", t->blocks);
	json_number(j, "branches", t->branches);
	json_number(j, "errors", t->errors);
	json_number(j, "overflows", t->overflows);
	json_number(j, "gaps", t->gaps);
	json_number(j, "lost_bytes", t->lost_bytes);
	put_programs_json(j, r);
	json_array(j, "notes");
	for (size_t i = 0; ptah_session_note(session, i); i++)
		json_string(j, NULL, ptah_session_note(session, i));
	json_end_array(j);
}

static void put_remark(struct out *out, const char *head, const char *text)
{
	out_text(out, head);
	out_clean(out, text);
	out_char(out, '\n');
}

static void put_summary_text(struct out *out, const struct ptah_session *session,
			     const struct hotspot_totals *t, const struct reporting *r)
{
	const char *command = ptah_session_command(session);
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER];

	if (command)
		put_remark(out, "# ", command);
	out_format(out, "# %s instructions, %s branches, ", pretty_number(t->instructions, a),
		   pretty_number(t->branches, b));
	out_format(out, "%" PRIu64 " thread%s", r->threads, r->threads == 1 ? "" : "s");
	if (t->bytes)
		out_format(
		    out, ", %.2f MB of trace (%.3f bits per instruction)", (double)t->bytes / 1e6,
		    t->instructions ? 8.0 * (double)t->bytes / (double)t->instructions : 0.0);
	out_char(out, '\n');
	put_programs_text(out, r, t->instructions);
	if (t->errors)
		out_format(out,
			   "# %" PRIu64 " decoding error%s: parts of the path are missing (see "
			   "ptah stat)\n",
			   t->errors, t->errors == 1 ? "" : "s");
	if (t->overflows)
		out_format(out, "# %" PRIu64 " overflows: the processor lost packets\n",
			   t->overflows);
	if (t->gaps)
		out_format(out,
			   "# %" PRIu64
			   " gaps: the trace has no TNT packets, and what ran in them is "
			   "not counted\n",
			   t->gaps);
	if (t->lost_bytes)
		out_format(out, "# %" PRIu64 " bytes of trace were lost\n", t->lost_bytes);
	for (size_t i = 0; ptah_session_note(session, i); i++)
		put_remark(out, "# note: ", ptah_session_note(session, i));
	out_char(out, '\n');
}

/* What the renderers print. `begin` prints the whole report. */
struct view {
	struct out *out;
	const struct reporting *reporting;
	const struct hotspot_totals *totals;
	const struct table *table;
};

static void put_report_text(void *view)
{
	const struct view *v = view;

	put_summary_text(v->out, v->reporting->session, v->totals, v->reporting);
	table_text(v->out, v->table);
}

static void put_report_json(void *view)
{
	const struct view *v = view;
	struct json json;

	json_init(&json, v->out);
	json_object(&json, NULL, false);
	put_summary_json(&json, v->reporting->session, v->totals, v->reporting);
	table_json(&json, v->table);
	json_end_object(&json);
	json_finish(&json);
}

static void put_report_tsv(void *view)
{
	const struct view *v = view;

	table_tsv(v->out, v->table);
}

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin = put_report_text, .offered = true},
    [FORMAT_JSON] = {.begin = put_report_json, .offered = true},
    [FORMAT_TSV] = {.begin = put_report_tsv, .offered = true},
};

/* The order that a word of --sort names, or TABLE_BY_INSTRUCTIONS. */
static enum table_order order_of(const char *word)
{
	for (int i = 0; word && orders[i]; i++)
		if (!strcmp(word, orders[i]))
			return (enum table_order)i;
	return TABLE_BY_INSTRUCTIONS;
}

static bool is_order(const char *word)
{
	return order_of(word) != TABLE_BY_INSTRUCTIONS || !strcmp(word, orders[0]);
}

static void note_no_inlined(const struct options *o, const struct hotspot *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (rows[i].inlined)
			return;
	if (!o->input.quiet)
		print_clean("note: ", "nothing that ran has debug information with inlined "
				      "functions (gcc -g)");
}

static void put_report(struct out *out, const struct options *o, const struct renderer *renderer,
		       const struct reporting *r, struct names *names, struct hotspot *rows,
		       size_t n)
{
	const struct hotspot_totals *totals = hotspots_totals(r->counter);
	const struct table table = {.rows = rows,
				    .count = n,
				    .shown = input_shown(&o->input, n),
				    .total = totals->instructions,
				    .blocks = o->blocks,
				    .inlined = o->inlined};
	struct view view = {.out = out, .reporting = r, .totals = totals, .table = &table};

	table_sort(rows, n, order_of(o->sort));
	for (size_t i = 0; i < table.shown; i++)
		names_fetch(names, &rows[i].name);
	renderer->begin(&view);
	if (o->inlined && !o->input.function)
		note_no_inlined(o, rows, n);
}

/* Notes the threads of process `pid` (-1: of the stream's) that ran in a stream of a CPU. */
static int add_report_threads(struct reporting *r, size_t stream, int32_t pid, const char *comm)
{
	struct ptah_thread thread;

	for (size_t i = 0; !ptah_session_stream_thread(r->session, stream, i, &thread); i++) {

		if (pid >= 0 && thread.pid != pid)
			continue;
		if (!LIST_ADD(r->ran, r->ran_count))
			return PTAH_E_NOMEM;
		r->ran[r->ran_count - 1] = (struct ran){.pid = thread.pid, .tid = thread.tid};
		memcpy(r->ran[r->ran_count - 1].comm, comm, sizeof(r->ran->comm));
	}
	return 0;
}

/* What each process executed on a CPU that several share. */
static int add_shares(struct reporting *r, size_t stream, struct ptah_profile *profile)
{
	struct process_share *shares = NULL;
	size_t n = 0;
	int status = shares_list(r->session, stream, profile, &shares, &n);

	for (size_t i = 0; status >= 0 && i < n; i++) {
		struct program program = {.instructions = shares[i].instructions};

		memcpy(program.comm, shares[i].comm, sizeof(program.comm));
		program.comm[sizeof(program.comm) - 1] = '\0';
		text_clean(program.comm);
		status = add_report_program(r, &program);
		if (status >= 0 && shares[i].pid >= 0)
			status = add_report_threads(r, stream, shares[i].pid, program.comm);
	}
	free(shares);
	return status;
}

static int add_report_profile(void *reporting, const struct ptah_stream_info *info, size_t stream,
			      struct ptah_profile *profile)
{
	struct reporting *r = reporting;
	const struct hotspot_source source = {r->session, stream};
	struct program program = {.threads = 1};
	struct ptah_profile_totals totals;
	struct ptah_thread thread;
	int status = ptah_profile_totals(profile, &totals);
	/* Otherwise the stream counts as one thread. */
	const bool known =
	    info->tid < 0 && !ptah_session_stream_thread(r->session, stream, 0, &thread);
	/* Address spaces have numbers from -2 down. */
	const bool spaces = !known && !ptah_session_space(r->session, -2, &thread);

	if (status >= 0 && (known || spaces) && shares_has(info)) {
		status = add_shares(r, stream, profile);
		r->threads += spaces; /* which threads ran is not known */
	} else if (status >= 0) {
		program.threads = !known;
		program.instructions = totals.instructions;
		memcpy(program.comm, info->comm, sizeof(info->comm));
		status = add_report_program(r, &program);
		if (status >= 0 && known)
			status = add_report_threads(r, stream, -1, program.comm);
	}
	return status < 0 ? status : hotspots_add(r->counter, &source, info, profile);
}

static int list_report_rows(const struct options *o, const struct hotspots *counter,
			    struct names *names, struct hotspot **rows, size_t *n)
{
	if (o->blocks)
		return hotspots_blocks(counter, names, rows, n);
	if (o->inlined)
		return hotspots_functions_inlined(counter, names, rows, n);
	return hotspots_functions(counter, names, rows, n);
}

/* Refuses options that contradict each other, and sets those that depend on others. */
static int check_report_options(struct options *o)
{
	if (o->sort && !is_order(o->sort)) {
		if (!graph_can_sort(o->sort))
			return fail_options(&command_report,
					    "--sort=%s: it takes instructions, calls or name; or "
					    "a list of function, object, file, line and caller",
					    o->sort);
		o->graph.sort = o->sort;
	}
	if (o->input.limit == UINT64_MAX)
		o->input.limit =
		    graph_is_asked(&o->graph) && o->input.format != FORMAT_TEXT ? 0 : 20;
	if ((o->graph.percent_limit || o->graph.stubs) && !graph_is_asked(&o->graph))
		return fail_usage(&command_report,
				  "--percent-limit and --stubs are for calls: with -g, --value, "
				  "--by, or --sort by function, object, file, line or caller");
	if (o->blocks && graph_is_asked(&o->graph))
		return fail_usage(&command_report, "--blocks have no calls");
	if (o->inlined && (o->blocks || graph_is_asked(&o->graph)))
		return fail_usage(&command_report,
				  "--inline is for the table of functions: inlined functions have "
				  "no calls and no blocks of their own");
	return EXIT_OK;
}

static int run_report(int argc, char **argv)
{
	struct options o = {.input.limit = UINT64_MAX};
	struct reporting r = {0};
	struct ptah_session *session;
	struct names *names = NULL;
	struct hotspot *rows = NULL;
	const struct renderer *renderer;
	struct out *out;
	size_t n = 0;
	int status, first = options_parse(&command_report, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
	status = check_report_options(&o);
	if (status)
		return status;
	if (graph_is_asked(&o.graph))
		return graph_report(&command_report, &o.graph, &o.input, argc - first,
				    argv + first);
	renderer = renderer_choose(&command_report, renderers, o.input.format, "");
	if (!renderer)
		return EXIT_USAGE;
	status = input_open(&command_report, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_report, &o.input, &out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	problem = input_names(&o.input, session, &names);
	if (problem >= 0)
		problem = hotspots_new(&r.counter);
	r.session = session;
	if (problem >= 0)
		problem = input_count(&o.input, session, add_report_profile, &r);
	if (problem >= 0)
		problem = list_report_rows(&o, r.counter, names, &rows, &n);
	if (problem >= 0)
		problem = sum_programs(&r);
	if (problem >= 0 && o.input.function)
		n = table_keep(rows, n, names, o.input.function);
	if (problem < 0) {
		status = fail(&command_report, "%s", ptah_strerror(problem));
	} else if (o.input.function && !n) {
		status = fail_function(&command_report, o.input.function);
	} else {
		put_report(out, &o, renderer, &r, names, rows, n);
		if (hotspots_totals(r.counter)->errors)
			status = fail_errors(&command_report, hotspots_totals(r.counter)->errors);
	}
	free(rows);
	free(r.programs);
	free(r.ran);
	hotspots_free(r.counter);
	names_free(names);
	ptah_session_close(session);
	return output_close(&command_report, out, status);
}

const struct command command_report = {
    .name = "report",
    .usage = "[OPTIONS] [FILE]",
    .summary = "where the program spent its instructions",
    .details =
	"The hottest functions, or blocks, with exact counts: every instruction that ran is\n"
	"counted, none is sampled. Functions of stripped files are bounded by their unwind\n"
	"tables and named by their address. Calls are entries by a call or a tail jump.\n"
	"With -g the calls are shown as a tree: which function called which, and how much ran\n"
	"in its calls.",
    .options =
	(const struct option_def *const[]){
	    blocks_options, sort_options, names_options, limit_options, jobs_options, input_options,
	    raw_options, ptxed_options, window_options, function_options, decode_options,
	    output_options, format_options, quiet_options, help_options, NULL},
    .notes = (const struct option_note[]){{"input",
					   "For a report of calls, what `ptah profile --save "
					   "--calls` has saved may stand in a recording's place."},
					  {"limit", "Tables of calls as TSV and JSON have all rows "
						    "by default."},
					  {0}},
    .operand = COMPLETE_FILE,
    .run = run_report,
};
