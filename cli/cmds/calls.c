/* SPDX-License-Identifier: MIT */
/* ptah calls: how often functions were called, how long their calls took, and the longest calls. */
#include "calls_view.h"

#include "output/call_stubs.h"

static const char *const value_choices[] = {"instructions", "cycles", "time", NULL};
static const char *const sort_choices[] = {"total", "self", "calls", "min",  "p50",
					   "p90",   "p99",  "max",   "name", NULL};

static const struct option_def calls_options[] = {
    {.name = "value",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct calls_options, value),
     .arg = "VALUE",
     .choices = value_choices,
     .help = "instructions, cycles or time (default: instructions)",
     .man = "What is added up of each call: *instructions* (the default), core *cycles*, or *time* "
	    "(nanoseconds in TSV and JSON), in which the thread may also have slept or waited. "
	    "Cycles need CYC packets (`-e intel_pt/cyc/u`)."},
    {.name = "sort",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct calls_options, sort),
     .arg = "COLUMN",
     .choices = sort_choices,
     .help = "total, self, calls, min, p50, p90, p99, max or name (default: total)",
     .man = "The column by which functions are sorted: *total* (the default), *self*, *calls*, "
	    "*min*, *p50*, *p90*, *p99*, *max* or *name*."},
    {.name = "callers",
     .kind = OPTION_TEXT,
     .at = offsetof(struct calls_options, callers),
     .arg = "FUNCTION",
     .help = "the callers of FUNCTION, how often, and what these calls took",
     .man = "The functions that called *FUNCTION*, with the number of these calls and what they "
	    "took. Only calls during which the function was not running already count."},
    {.name = "callees",
     .kind = OPTION_TEXT,
     .at = offsetof(struct calls_options, callees),
     .arg = "FUNCTION",
     .help = "what FUNCTION called, how often, and what these calls took",
     .man = "The functions that *FUNCTION* called, likewise."},
    {.name = "of",
     .kind = OPTION_TEXT,
     .at = offsetof(struct calls_options, of),
     .arg = "FUNCTION",
     .help = "single calls of FUNCTION: when, by whom, and where their time went",
     .man = "Single calls of *FUNCTION*, those with the largest values first: when they began, in "
	    "which thread, from where they were called, what ran in the function itself and in "
	    "each of the functions that it called; with `--value=time` or `--why`, where the "
	    "recording has system calls, also what the thread waited for, and for how long. Calls "
	    "whose beginning is not in the trace, or a part of it, are not among them. Those that "
	    "have not ended are, with what they took until the end of the trace, and are marked "
	    "(`ended` in TSV and JSON)."},
    {.name = "slowest",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct calls_options, slowest),
     .arg = "N",
     .help = "with --of: how many calls (default: 10)",
     .man = "With `--of`: how many calls. Default: 10."},
    {.name = "why",
     .kind = OPTION_FLAG,
     .at = offsetof(struct calls_options, why),
     .help = "with --of: what each of these calls waited for, and what the others did meanwhile",
     .man = "With `--of`: each wait in these calls, who ended it, and what that thread did until "
	    "then, with its own waits: back to something that ran. The recording must have system "
	    "calls. In text only."},
    {.name = "stubs",
     .kind = OPTION_FLAG,
     .at = offsetof(struct calls_options, stubs),
     .help = "show PLT stubs as functions",
     .man =
	 "Show the stubs of the PLT and the dynamic linker's resolver as functions. Without this "
	 "option what they ran counts for their callers."},
    {0},
};

/* A callback of input_call_trees(): the functions of a thread are added by their names. */
struct adding {
	struct calls_view *view;
	struct ptah_call_tree *sum;
	const struct ptah_call_thread *thread;
	struct call_stubs stubs; /* of the thread's tree */
	bool full;		 /* out of memory */
};

/* A callback of ptah_call_tree_merge(). */
static bool map_function(void *context, uint16_t *space, uint64_t *function)
{
	struct adding *a = context;
	size_t key;

	if (!a->view->options->stubs && call_stubs_has(&a->stubs, *space, *function))
		return false;
	key = calls_key_of(a->view, ptah_call_thread_space(a->thread, *space), *function);
	a->full |= key == SIZE_MAX;
	*space = 0;
	*function = key == SIZE_MAX ? 0 : key + 1;
	return true;
}

static int add_calls_thread(void *context, const struct ptah_call_thread *thread,
			    const struct ptah_call_tree *tree)
{
	struct adding *a = context;
	int status = call_stubs_list(&a->stubs, tree);

	a->thread = thread;
	if (status >= 0)
		status = ptah_call_tree_merge(a->sum, tree, map_function, a);
	call_stubs_free(&a->stubs);
	return status < 0 ? status : a->full ? PTAH_E_NOMEM : 0;
}

/* Refuses what the recording does not have. Returns an exit code. */
static int check_value(const struct calls_view *v, const struct ptah_call_tree *tree)
{
	struct ptah_call_totals totals = {0};
	uint32_t mult, shift;

	if (v->options->value == PTAH_CALL_VALUE_TIME &&
	    !ptah_session_time_scale(v->session, &mult, &shift))
		return fail(&command_calls,
			    "--value=time: the recording does not relate TSC to a clock; "
			    "--value=instructions needs none");
	if (tree && v->options->value == PTAH_CALL_VALUE_CYCLES &&
	    ptah_call_tree_totals(tree, &totals) >= 0 && !totals.inclusive.cycles &&
	    totals.inclusive.instructions)
		return fail(
		    &command_calls,
		    "--value=cycles: no cycles are known: they are in CYC packets, recorded with "
		    "-e intel_pt/cyc/u");
	return EXIT_OK;
}

static int put_calls_tree(struct calls_view *v, const struct ptah_call_tree *tree)
{
	int status = check_value(v, tree);

	if (!status)
		status = calls_check_wanted(v);
	if (status)
		return status;
	if (v->options->callers || v->options->callees)
		return calls_put_pairs(v, tree, v->options->callers);
	return calls_put_functions(v, tree);
}

static int show_tree(struct calls_view *v)
{
	struct ptah_call_tree_config config = {.size = sizeof(config)};
	struct adding adding = {.view = v};
	int problem, status = check_value(v, NULL);

	if (status)
		return status;
	ptah_session_time_scale(v->session, &config.time_mult, &config.time_shift);
	problem = ptah_call_tree_new(&config, &adding.sum);
	if (problem >= 0)
		problem = input_call_trees(&v->options->input, v->session, add_calls_thread,
					   &adding, &v->errors);
	status = problem < 0 ? fail(&command_calls, "%s", ptah_strerror(problem))
			     : put_calls_tree(v, adding.sum);
	ptah_call_tree_free(adding.sum);
	return status;
}

static int show_calls(struct calls_view *v)
{
	const struct input *input = &v->options->input;
	const struct ptah_times times = ptah_session_times(v->session);
	int status = input_names(input, v->session, &v->names);

	v->estimated = times.estimated;
	v->bounded = input->bounds && times.estimated && times.kind == PTAH_TIME_STAMPED;
	if (status < 0)
		return fail(&command_calls, "%s", ptah_strerror(status));
	status = v->options->of ? calls_put_slowest(v) : show_tree(v);
	if (status)
		return status;
	if (v->options->value == PTAH_CALL_VALUE_TIME || v->options->of)
		input_note_times(input, v->session);
	if (v->folded && !input->quiet)
		print_clean(
		    "note: ",
		    "calls with more than %u callers were not followed: what they ran belongs "
		    "to the innermost call that was",
		    PTAH_CALLS_MAX_DEPTH);
	return v->errors ? fail_errors(&command_calls, v->errors) : EXIT_OK;
}

/* The functions that the user names: arguments, or one option. Returns an exit code. */
static int choose_called(struct calls_view *v, const struct calls_options *o, int argc, char **argv,
			 char *one[1])
{
	const int modes = !!o->callers + !!o->callees + !!o->of;
	const char *name = o->callers ? o->callers : o->callees ? o->callees : o->of;

	if (modes > 1)
		return fail_usage(&command_calls, "one of --callers, --callees and --of");
	if (modes && argc)
		return fail_usage(&command_calls, "one function at a time; \"%s\" is too much",
				  argv[0]);
	if (o->slowest && !o->of)
		return fail_usage(&command_calls, "--slowest belongs to --of");
	if (o->why && !o->of)
		return fail_usage(&command_calls, "--why belongs to --of");
	one[0] = (char *)name;
	v->wanted = modes ? one : argv;
	v->wanted_count = modes ? 1 : argc;
	return EXIT_OK;
}

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.offered = true},
    [FORMAT_JSON] = {.offered = true},
    [FORMAT_TSV] = {.offered = true},
};

static int run_calls_command(int argc, char **argv)
{
	struct calls_options o = {.input = {.limit = 20, .from_hit = true}};
	struct calls_view v = {.options = &o};
	char *one[1];
	int status, first = options_parse(&command_calls, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (!renderer_choose(&command_calls, renderers, o.input.format, ""))
		return EXIT_USAGE;
	o.input.no_times = o.value != PTAH_CALL_VALUE_TIME;
	status = choose_called(&v, &o, argc - first, argv + first, one);
	/* `ptah calls FILE`, as other commands have it */
	if (!status && !o.input.path && !o.input.pt && v.wanted_count &&
	    !is_readable("perf.data") && is_readable(v.wanted[0])) {
		fail_file(&command_calls, v.wanted[0]);
		status = EXIT_USAGE;
	}
	o.input.bounds = o.value == PTAH_CALL_VALUE_TIME && !o.callers && !o.callees && !o.of;
	o.input.samples = o.of || o.value == PTAH_CALL_VALUE_TIME;
	if (!status)
		status = input_open(&command_calls, &o.input, 0, NULL, true, &v.session);
	if (status)
		return status;
	status = output_open(&command_calls, &o.input, &v.out);
	if (status) {
		ptah_session_close(v.session);
		return status;
	}
	status = show_calls(&v);
	calls_free_keys(&v);
	names_free(v.names);
	ptah_session_close(v.session);
	return output_close(&command_calls, v.out, status);
}

const struct command command_calls = {
    .name = "calls",
    .usage = "[OPTIONS] [FUNCTION...]",
    .summary = "how long the calls of functions took",
    .details =
	"For each function the number of its calls, what they took together, in the function\n"
	"itself and below it, and the least, the greatest and percentiles of single calls; the\n"
	"callers of a function and what it called; and its slowest calls one by one. Calls that\n"
	"are not wholly in the trace are counted as partial and are in no percentile.",
    .options =
	(const struct option_def *const[]){calls_options, limit_options, names_options,
					   jobs_options, input_options, raw_options, ptxed_options,
					   window_options, decode_options, output_options,
					   format_options, quiet_options, help_options, NULL},
    .operand = COMPLETE_NOTHING,
    .run = run_calls_command,
};
