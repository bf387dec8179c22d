/* SPDX-License-Identifier: MIT */
/* Opens the recording or raw trace that a decoding command reads, and its output. */
#include "set_options.h"
#include "window.h"

#include "base/text.h"
#include "output/pager.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Which of the options describe raw packets alone, and not the clocks of any recording. */
static const struct set_option *find_raw_option(const struct input *input)
{
	for (size_t i = 0; i < input->set_option_count; i++) {
		const struct set_option *o = &input->set_options[i];

		if (!(input->path && set_option_is_code(o)) && o->kind != SET_MTC_FREQ &&
		    o->kind != SET_NOM_FREQ && o->kind != SET_LEAF_15 &&
		    o->kind != SET_LEAF_15_EAX && o->kind != SET_LEAF_15_EBX)
			return o;
	}
	return NULL;
}

static int read_input_processor(const struct command *command, const struct input *input,
				struct ptah_cpu *cpu)
{
	*cpu = (struct ptah_cpu){0};
	if (!input->processor || !strcmp(input->processor, "none") ||
	    ptah_cpu_parse(input->processor, cpu) >= 0)
		return EXIT_OK;
	return fail_usage(command,
			  "--processor=%s: it takes FAMILY/MODEL or FAMILY/MODEL/STEPPING, as "
			  "6/158/10 (see /proc/cpuinfo), or none",
			  input->processor);
}

/* A choice that leaves no stream is more likely a slip than a wish to see nothing: it is refused.
 */
static int check_wanted(const struct command *command, const struct input *input,
			struct ptah_session **session)
{
	char thread[48] = "", process[48] = "";

	for (size_t i = 0; i < ptah_session_streams(*session); i++)
		if (input_wants(input, *session, i))
			return 0;
	ptah_session_close(*session);
	if (input->cpu)
		return fail(command, "the recording has no stream of CPU %s", input->cpu);
	if (input->tid)
		snprintf(thread, sizeof(thread), " of thread %" PRIu64, input->tid);
	if (input->pid)
		snprintf(process, sizeof(process), " of process %" PRIu64, input->pid);
	return fail(command, "the recording has no stream%s%s%s%s; 'ptah stat' lists them", thread,
		    process, input->comm ? " of a thread named " : "",
		    input->comm ? input->comm : "");
}

/* Options take precedence over what a recording says of its clocks. */
static void set_clocks(const struct ptah_trace_processor *processor,
		       struct ptah_event_config *events)
{
	if (processor->trace.mtc_period)
		events->trace.mtc_period = processor->trace.mtc_period;
	if (processor->nominal_ratio)
		events->nominal_ratio = processor->nominal_ratio;
	if (!processor->tsc_n)
		return;
	events->tsc_n = processor->tsc_n;
	events->tsc_d = processor->tsc_d;
}

bool input_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool input_becomes_old(const char *input, const char *output)
{
	char old[4096];

	snprintf(old, sizeof(old), "%s.old", output);
	return input_same_file(output, output) && input_same_file(input, old);
}

/* Is the file the one in FILE, FILE:ADDR, FILE:FROM-TO,...? */
static bool option_names(const char *value, const char *file)
{
	char name[4096];

	for (size_t n = 0; n < sizeof(name) && value[n]; n++) {
		name[n] = '\0';
		if (value[n] == ':' && input_same_file(name, file))
			return true;
		name[n] = value[n];
	}
	return input_same_file(value, file);
}

bool input_reads(const struct input *input, const char *file)
{
	struct stat st;

	if (stat(file, &st) || !S_ISREG(st.st_mode))
		return false;
	for (size_t i = 0; i < input->set_option_count; i++) {
		const struct set_option *o = &input->set_options[i];

		if (o->kind <= SET_PE && o->value && option_names(o->value, file))
			return true;
	}
	return !input->pt && input_same_file(input->path ? input->path : "perf.data", file);
}

int input_check_output(const struct command *command, const struct input *input)
{
	if (!input->output || !strcmp(input->output, "-") || !input_reads(input, input->output))
		return EXIT_OK;
	return fail_usage(command, "--output=%s: this is what is read; name another file",
			  input->output);
}

/* Applies the options that determine how to decode: errata, and which packets the trace lacks. */
static int set_flow(const struct command *command, const struct input *input,
		    const struct ptah_trace_processor *processor, struct ptah_session *session)
{
	struct ptah_flow_config flow;

	ptah_session_get_flow(session, &flow);
	set_clocks(processor, &flow.events);
	if (input->processor)
		flow.events.errata = ptah_cpu_errata(&processor->cpu);
	if (input->errata && ptah_errata_parse(input->errata, &flow.events.errata) < 0) {
		fail(command, "--errata=%s: it takes names such as SKD007,SKL168, or all, or none",
		     input->errata);
		return EXIT_USAGE;
	}
	flow.events.trace.no_tnt |= input->no_tnt;
	flow.events.trace.no_retcomp |= input->no_retcomp;
	ptah_session_set_flow(session, &flow);
	return 0;
}

static int check_names(const struct command *command, struct input *input, int argc, char **argv)
{
	const struct set_option *raw;

	if (argc > 1 || (argc == 1 && (input->path || input->pt)))
		return fail_usage(command, "one recording at a time; \"%s\" is too much",
				  argv[argc - 1]);
	if (input->cpu && (!*input->cpu || input->cpu[strspn(input->cpu, "0123456789")]))
		return fail_usage(command, "--cpu=%s: not a number", input->cpu);
	if (argc == 1)
		input->path = argv[0];
	if (input->pt && input->path)
		return fail_usage(command, "a recording or --pt, not both");
	raw = find_raw_option(input);
	if (!input->pt && raw)
		return fail_usage(command, "--%s belongs to --pt", raw->name);
	return input_check_output(command, input);
}

static int fail_why(const struct command *command, const struct ptah_message *why, int status)
{
	return fail(command, "%s", why->text[0] ? why->text : ptah_strerror(status));
}

/* Is the file new, empty or a ptah.trace? A slip must not cost a trace, which is mapped besides. */
static bool may_replace(const char *path)
{
	static const char magic[] = "ptah-trace";
	char bytes[sizeof(magic) - 1];
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(bytes, 1, sizeof(bytes), f) : 0;

	if (f)
		fclose(f);
	return !n || (n == sizeof(bytes) && !memcmp(bytes, magic, n));
}

/* Opens the set, and writes it to the file of --save-set. */
static int open_input_set(const struct command *command, const struct input *input,
			  const struct ptah_session_config *config,
			  const struct ptah_trace_set *set, struct ptah_session **session)
{
	struct ptah_session_config of_set = *config;
	struct ptah_message why = {""};
	int status;

	if (input->save_set && !may_replace(input->save_set))
		return fail(command, "--save-set=%s: the file exists and is no ptah.trace",
			    input->save_set);
	of_set.set = set;
	status = ptah_session_open(NULL, &of_set, session, &why);
	if (status < 0)
		return fail_why(command, &why, status);
	status = input->save_set ? ptah_trace_set_save(set, input->save_set, &why) : 0;
	if (status >= 0)
		return EXIT_OK;
	ptah_session_close(*session);
	return fail_why(command, &why, status);
}

/* What is named is a set already, in a file or a folder. */
static int open_named_set(const struct command *command, const struct input *input,
			  const struct ptah_session_config *config, struct ptah_session **session)
{
	const char *path = input->path ? input->path : "perf.data";
	struct ptah_trace_set *set;
	struct ptah_message why = {""};
	int status = ptah_trace_set_open(path, &set, &why);

	if (status == PTAH_E_BAD_MAGIC)
		return fail_usage(command,
				  "--save-set=%s: %s is no set of raw traces; it belongs to --pt",
				  input->save_set, path);
	if (status < 0)
		return fail_why(command, &why, status);
	status = open_input_set(command, input, config, set, session);
	ptah_trace_set_free(set);
	return status;
}

static int open_input_recording(const struct command *command, const struct input *input,
				const struct ptah_session_config *config,
				struct ptah_session **session)
{
	const char *path = input->path ? input->path : "perf.data";
	struct ptah_message why = {""};
	const int status = ptah_session_open(path, config, session, &why);

	if (status == PTAH_E_BAD_MAGIC && ptah_counts_recognise(path) == PTAH_COUNTS_SUM)
		return fail(command,
			    "%s: counts of 'ptah profile --save'; they are read by 'ptah profile', "
			    "'ptah annotate', 'ptah diff' and 'ptah report -g'",
			    path);
	if (status == PTAH_E_BAD_MAGIC && ptah_counts_recognise(path) == PTAH_COUNTS_SHARD)
		return fail(command,
			    "%s: a shard of 'ptah profile --shard'; 'ptah merge' joins it with the "
			    "others",
			    path);
	return status < 0 ? fail_why(command, &why, status) : EXIT_OK;
}

static int open_input_session(const struct command *command, const struct input *input,
			      const struct ptah_session_config *config,
			      const struct ptah_trace_set *set, struct ptah_session **session)
{
	if (input->pt || set_options_add_code(input))
		return open_input_set(command, input, config, set, session);
	if (input->save_set)
		return open_named_set(command, input, config, session);
	return open_input_recording(command, input, config, session);
}

/* Files are mapped: where one has become shorter, reading it is a SIGBUS. */
static void on_bus_error(int signal)
{
	static const char text[] = "ptah: a file was cut short while it was read, or cannot be "
				   "read: copy it, and read the copy\n";
	ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

	(void)signal;
	(void)n;
	_exit(EXIT_FAILED);
}

static void note_times(const struct input *input, const struct ptah_session *session)
{
	const enum ptah_time_kind kind = ptah_session_times(session).kind;

	if (!input->quiet && (kind == PTAH_TIME_STAMPED || kind == PTAH_TIME_SIMULATED))
		print_clean("note: ", "the times are %s", ptah_session_times(session).text);
}

static int open_input(const struct command *command, struct input *input, int argc, char **argv,
		      bool images, struct ptah_session **session)
{
	char cache[4096];
	struct ptah_session_config config = {
	    .size = sizeof(config),
	    .build_id_cache = input_build_id_cache(input, cache, sizeof(cache)),
	    .fetch = input_may_fetch(input),
	    .fetch_progress = input_show_fetch,
	    .fetch_context = input,
	    .ignore_build_ids = input->force,
	    .no_images = !images,
	    .samples = input->samples,
	};
	struct ptah_trace_processor processor;
	struct ptah_trace_set *set;
	struct ptah_cpu cpu;
	int status;

	input_watch_signals();
	signal(SIGBUS, on_bus_error);
	status = check_names(command, input, argc, argv);
	if (!status)
		status = read_input_processor(command, input, &cpu);
	if (!status)
		status = set_options_build(command, input, &cpu, &set, &processor);
	if (status)
		return status;
	config.symfs = input->symfs;
	config.vmlinux = input->vmlinux;
	config.kallsyms = input->kallsyms;
	status = open_input_session(command, input, &config, set, session);
	ptah_trace_set_free(set);
	if (status)
		return status;
	status = set_flow(command, input, &processor, *session);
	if (status) {
		ptah_session_close(*session);
		return status;
	}
	status = check_wanted(command, input, session);
	if (status)
		return status;
	status = window_set(command, input, *session);
	if (status)
		ptah_session_close(*session);
	else if (window_has_times(input))
		note_times(input, *session);
	return status;
}

int input_open(const struct command *command, struct input *input, int argc, char **argv,
	       bool images, struct ptah_session **session)
{
	int status;

	interrupt_opening(true);
	status = open_input(command, input, argc, argv, images, session);
	interrupt_opening(false);
	return status;
}

void input_stream_info(const struct ptah_session *session, size_t i, struct ptah_stream_info *info)
{
	struct ptah_window window;

	if (ptah_session_stream_info(session, i, info) < 0)
		memset(info, 0, sizeof(*info));
	/* A window begins and ends anywhere between packets, so that neither is known of it. */
	if (ptah_session_get_window(session, &window))
		info->bytes = info->lost = 0;
	info->comm[sizeof(info->comm) - 1] = '\0';
	text_clean(info->comm);
}

bool input_wants(const struct input *input, const struct ptah_session *session, size_t i)
{
	struct ptah_stream_info info;

	if (ptah_session_stream_info(session, i, &info) < 0)
		return false;
	if (input->cpu && (info.cpu < 0 || strtoul(input->cpu, NULL, 10) != (unsigned)info.cpu))
		return false;
	if (input->pid && (info.pid < 0 || (uint64_t)info.pid != input->pid))
		return false;
	if (input->tid && (info.tid < 0 || (uint64_t)info.tid != input->tid))
		return false;
	/* The kernel keeps 15 characters of a name (TASK_COMM_LEN). */
	return !input->comm || !strncmp(info.comm, input->comm, sizeof(info.comm) - 1);
}

void input_notes(const struct input *input, const struct ptah_session *session)
{
	const char *note;

	for (size_t i = 0; !input->quiet && (note = ptah_session_note(session, i)); i++)
		print_clean("note: ", "%s", note);
}

void input_note_times(const struct input *input, const struct ptah_session *session)
{
	if (!window_has_times(input)) /* otherwise input_open() has */
		note_times(input, session);
}

size_t input_shown(const struct input *input, size_t count)
{
	return input->limit && input->limit < count ? (size_t)input->limit : count;
}

int output_create(const struct command *command, const char *path, struct out **out)
{
	struct ptah_message why = {""};

	if (out_open(path, out, &why) < 0)
		return fail(command, "%s", why.text);
	out_set_given_up(*out, output_given_up);
	return EXIT_OK;
}

int output_open(const struct command *command, const struct input *input, struct out **out)
{
	const int status = output_create(command, input->output, out);
	const bool is_file = input->output && strcmp(input->output, "-") != 0;
	struct out_look look;

	if (status)
		return status;
	terminal_look(is_file ? -1 : STDOUT_FILENO, (enum color_when)input->color, &look);
	out_set_look(*out, &look);
	if (!input->output && !input->no_pager)
		out_set_pager(*out, pager_command());
	return 0;
}

int output_close(const struct command *command, struct out *out, int status)
{
	struct ptah_message why = {""};

	/* After Ctrl-C, standard output keeps what was printed, but no incomplete file is left. */
	if (interrupted()) {
		out_flush(out);
		out_abort(out);
		return interrupted_status();
	}
	if (out_close(out, &why) < 0)
		return fail(command, "%s", why.text);
	return status;
}
