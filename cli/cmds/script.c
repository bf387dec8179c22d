/* SPDX-License-Identifier: MIT */
/* ptah script: every instruction, branch, block or call of each thread, in order. */
#include "base/hash.h"
#include "base/text.h"
#include "script_cache.h"
#include "time_head.h"
#include "window.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	bool branches, blocks, calls, events, time, att, lines;
	uint64_t last;
};

static const struct option_def script_options[] = {
    {.name = "branches",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, branches),
     .help = "taken branches, from => to, instead of instructions",
     .man = "Taken branches instead of instructions: kind, from, to. Where tracing "
	    "begins or ends, the other side is 0."},
    {.name = "blocks",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, blocks),
     .help = "blocks instead of instructions",
     .man = "Blocks instead of instructions: first address, address after the last "
	    "instruction, number of instructions, and the kind of branch that ends "
	    "it."},
    {.name = "calls",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, calls),
     .help = "calls and returns, indented, instead of instructions",
     .man = "The beginnings and ends of calls instead of instructions, in their order and "
	    "indented by their depth: the stack as it is in the source, also after "
	    "exceptions, longjmp, signals and tail calls. See CALLS below. In text, system calls "
	    "stand among them, where the recording has them, as strace(1) writes them; in JSON and "
	    "TSV they do with `--events`."},
    {.name = "events",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, events),
     .help = "show events (tracing on, off, PSB, ...) at their places",
     .man = "Also show the events of the trace (tracing on and off, PSB, time and "
	    "mode changes, interrupts, ...) at their places, with their fields: "
	    "vector, CR2, exit reason, C-state and so on. In TSV they are rows of the "
	    "same columns, and \"#\" and the event stand in the last one (with "
	    "`--branches` in *kind*). Samples of other events that the recording has (`perf record "
	    "-e intel_pt//u -e sched:sched_switch`) stand among them, with the fields of their "
	    "format, and so do system calls. Then `--jobs` has no effect."},
    {.name = "time",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, time),
     .help = "show perf's time in seconds, as far as the trace has it",
     .man = "Show perf's time, where the trace has time stamps: in seconds with nine "
	    "decimals in every format. In JSON and TSV its name is *time_s*; where no "
	    "time is known, text has a dash, TSV an empty column, and JSON no such key. "
	    "Without MTC and CYC packets times are known only where the kernel was entered "
	    "or left; a note says so, and names the option that records these packets."},
    {.name = "last",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct options, last),
     .arg = "N",
     .help = "only the last N rows of each thread, with source lines, and what ended it",
     .man = "Only the last *N* instructions, branches, blocks, or beginnings and ends of calls of "
	    "each thread, with their source lines (`--srcline`): what it did before it crashed. "
	    "Where a signal ended the process, the signal and the instruction follow: the one "
	    "that faulted, or would have come next; where the recording does not say what ended "
	    "the trace, the instruction alone. Only the end of the trace is decoded, from a PSB "
	    "before these rows; depths of calls count from there. In a recording "
	    "with a stream per CPU it is the last *N* on each CPU."},
    {.name = "srcline",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, lines),
     .help = "show the source line of each row, where there is debug information",
     .man = "Show the source line of each row (as `perf script -F +srcline` does), where there is "
	    "debug information: of a branch where it comes from, of a call the call site, of an "
	    "end of a call where the function was left. In JSON and TSV its name is *line*, with "
	    "the whole path."},
    {.name = "att",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, att),
     .help = "AT&T syntax",
     .man = "AT&T syntax instead of Intel's."},
    {0},
};

/* The thread, and names */

static void lock_names(struct script *s)
{
	if (s->names_lock)
		pthread_mutex_lock(s->names_lock);
	names_set_time(s->names, s->at);
}

static void unlock_names(struct script *s)
{
	if (s->names_lock)
		pthread_mutex_unlock(s->names_lock);
}

const struct name *script_find_name(struct script *s, uint64_t ip)
{
	struct name *name = &s->name;

	lock_names(s);
	*name = *names_find(s->names, s->info.space, ip);
	unlock_names(s);
	/* Generated code has other names at other times. */
	if (name->generated)
		script_cache_keep_none(s->cache);
	return name;
}

void script_put_name(struct script *s, uint64_t ip)
{
	const struct name *name;

	if (s->input->no_symbols)
		return;
	name = script_find_name(s, ip);
	out_char(s->out, ' ');
	if (name->symbol) {
		out_text(s->out, name->symbol);
		if (name->offset) {
			out_text(s->out, "+0x");
			out_hex(s->out, name->offset);
		}
		out_char(s->out, ' ');
	}
	out_char(s->out, '(');
	out_text(s->out, name->dso);
	out_char(s->out, ')');
}

const char *script_symbol(struct script *s, uint64_t ip, char *text, size_t n)
{
	const struct name *name;

	if (s->input->no_symbols)
		return NULL;
	name = script_find_name(s, ip);
	if (!name->symbol)
		return NULL;
	if (name->offset)
		snprintf(text, n, "%s+0x%" PRIx64, name->symbol, name->offset);
	else
		snprintf(text, n, "%s", name->symbol);
	return text;
}

const char *script_source_line(struct script *s, uint64_t ip)
{
	struct ptah_line line;
	const struct name *name;
	bool known;

	if (!(s->asked & SCRIPT_LINES) || script_is_counting(s))
		return NULL;
	name = script_find_name(s, ip);
	lock_names(s);
	known = names_line(s->names, name, &line);
	if (known)
		snprintf(s->source, sizeof(s->source), "%s:%u", line.file, line.line);
	unlock_names(s);
	return known ? s->source : NULL;
}

bool script_is_wanted(struct script *s, uint64_t ip)
{
	struct script_place *place = &s->places[(size_t)(hash_number(ip) >> 40) % SCRIPT_PLACES];
	const struct name *name;

	if (!s->function)
		return true;
	if (place->known && place->ip == ip && place->space == s->info.space)
		return place->wanted;
	name = script_find_name(s, ip);
	/* Generated code has other names at other times. */
	*place = (struct script_place){.ip = ip, .space = s->info.space, .known = !name->generated};
	lock_names(s);
	place->wanted = names_is(s->names, name, s->function);
	unlock_names(s);
	s->found_function |= place->wanted;
	return place->wanted;
}

void script_end_row(struct script *s, const char *line)
{
	const char *slash = line ? strrchr(line, '/') : NULL;

	if (line) {
		out_text(s->out, "  ");
		out_clean(s->out, slash ? slash + 1 : line);
	}
	out_char(s->out, '\n');
}

/* Puts the time into the prefix, as perf's seconds.nanoseconds; a dash while it is unknown. */
static void set_time(struct script *s, uint64_t tsc)
{
	uint64_t ns = ptah_session_time(s->session, tsc);
	char *at = s->prefix + s->thread_length;

	s->tsc = tsc;
	s->now = (struct script_time){ns, tsc && ns, ptah_session_times(s->session).name};
	s->timed |= s->now.known;
	at = s->now.known ? text_seconds(at, ns) : stpcpy(at, "-");
	at = stpcpy(at, ": ");
	s->prefix_length = (size_t)(at - s->prefix);
	script_cache_new_head(s->cache);
}

void script_put_prefix(struct script *s)
{
	out_bytes(s->out, s->prefix, s->prefix_length);
}

/* Begins the prefix with the thread's name and number. */
static void set_name(struct script *s, const char *comm)
{
	s->thread_length = s->prefix_length = (size_t)snprintf(
	    s->prefix, sizeof(s->prefix), "%.16s %d ", comm[0] ? comm : "trace", s->info.tid);
	script_cache_new_head(s->cache);
	if (s->time)
		set_time(s, s->tsc);
}

/* Threads have the names that they had at the time of each item, as perf shows them. */
static void follow_name(struct script *s, uint64_t tsc)
{
	char comm[sizeof(s->info.comm) + 1] = "";

	s->named = tsc;
	if (!ptah_session_thread_name(s->session, s->info.tid, tsc, comm, &s->renamed)) {
		s->named = 0;
		s->renamed = UINT64_MAX;
		return;
	}
	text_clean(comm);
	set_name(s, comm);
}

void script_begin_thread(struct script *s, const struct ptah_stream_info *info)
{
	/* The cached lines are of one process's memory. */
	if (info->space != s->info.space)
		script_forget_lines(s);
	s->info = *info;
	s->space = UINT_MAX;
	s->branch.is_open = false;
	s->named = 1;
	s->renamed = 0;
	set_name(s, info->comm);
}

void script_set_time(struct script *s, uint64_t tsc)
{
	if (tsc && (tsc < s->named || tsc >= s->renamed))
		follow_name(s, tsc);
	s->guessed |= !tsc && !s->renamed;
	s->at = tsc;
	if (s->time && tsc != s->tsc)
		set_time(s, tsc);
}

void script_take_event(struct script *s, const struct ptah_item *item)
{
	s->errors += item->type == PTAH_ITEM_ERROR;
	if (s->events || script_is_loss(item))
		s->renderer->event(s, item);
}

/* In a CPU's stream, the last read may have returned items of another thread. */
static void follow_script_thread(struct script *s)
{
	struct ptah_stream_info info = s->info;
	struct ptah_thread thread;

	if (ptah_reader_thread(s->reader, &thread) < 0 ||
	    (thread.pid == info.pid && thread.tid == info.tid))
		return;
	info.pid = info.space = thread.pid;
	info.tid = thread.tid;
	memcpy(info.comm, thread.comm, sizeof(info.comm));
	text_clean(info.comm);
	script_begin_thread(s, &info);
}

/* The next blocks ran in this address space. */
static void follow_space(struct script *s, unsigned space)
{
	s->space = space;
	s->info.space = ptah_reader_space(s->reader, space);
}

/* The streams */

/* Where tracing begins, the address is that of the next block. */
static const struct ptah_item *block_of(const struct ptah_item *item, const struct ptah_item *end)
{
	if (item->type != PTAH_ITEM_ENABLED && item->type != PTAH_ITEM_BLOCK)
		return NULL;
	while (item < end && item->type != PTAH_ITEM_BLOCK)
		item++;
	return item < end ? item : NULL;
}

/* Takes an item of a batch that ends at `end`. */
static void take_script_item(struct script *s, const struct ptah_item *item,
			     const struct ptah_item *end)
{
	const struct ptah_item *block = block_of(item, end);

	if (block && block->code.space != s->space)
		follow_space(s, block->code.space);
	script_put_samples(s, item->tsc, false);
	script_set_time(s, item->tsc);
	if (item->type != PTAH_ITEM_BLOCK)
		script_take_event(s, item);
	s->mode->take(s, item);
	if (item->type == PTAH_ITEM_DISABLED)
		script_put_samples(s, item->tsc, true);
}

/* The items of the last read ran code that is another one than before, perhaps. */
static void follow_code(struct script *s)
{
	const uint64_t generation = ptah_reader_generation(s->reader);

	if (generation != s->generation)
		script_cache_forget(s->cache);
	s->generation = generation;
}

void script_take_items(struct script *s, const struct ptah_item *items, int n)
{
	follow_script_thread(s);
	follow_code(s);
	for (int k = 0; k < n; k++)
		take_script_item(s, &items[k], items + n);
}

bool script_has_stopped(const struct script *s)
{
	return interrupted() || out_failed(s->out);
}

int script_read_items(struct script *s, struct progress *progress)
{
	struct ptah_item items[256], last = {0};
	int n;

	while (!script_has_stopped(s) &&
	       (n = ptah_reader_read(s->reader, items, ARRAY_SIZE(items))) != 0) {
		if (n < 0)
			return n;
		script_take_items(s, items, n);
		last = items[n - 1];
		progress_at(progress, ptah_reader_offset(s->reader));
	}
	script_put_ending(s, &last);
	return 0;
}

void script_follow_stream(struct script *s, size_t stream)
{
	struct ptah_stream_info info;
	const size_t like = ptah_session_stream_like(s->session, stream);

	if (like != s->like)
		script_cache_forget(s->cache);
	s->like = like;
	s->tsc = 0;
	input_stream_info(s->session, stream, &info);
	script_begin_thread(s, &info);
}

static int read_alone(struct script *s, size_t stream, struct progress *progress)
{
	const struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = 1, .workers = s->workers};
	int status = ptah_reader_new(s->session, stream, &jobs, &s->reader);

	if (status < 0)
		return status;
	status = script_read_items(s, progress);
	ptah_reader_free(s->reader);
	return status;
}

int script_read_stream(struct script *s, size_t stream, struct progress *progress)
{
	int status;

	script_follow_stream(s, stream);
	script_put_hits(s);
	status = s->jobs ? script_read_with_jobs(s, stream) : read_alone(s, stream, progress);
	script_end_samples(s, stream);
	progress_next(progress, s->info.bytes);
	return status;
}

static int read_streams(struct script *s, struct progress *progress)
{
	int status = 0;

	for (size_t i = 0; i < ptah_session_streams(s->session) && status >= 0 && !interrupted();
	     i++)
		if (input_wants(s->input, s->session, i))
			status = s->last ? script_last_of_stream(s, i, progress)
					 : script_read_stream(s, i, progress);
	return status;
}

/* Prints all chosen streams. Returns 0 or an error. */
static int script_streams(struct script *s)
{
	struct progress progress;
	int status = input_names(s->input, s->session, &s->names);

	if (status >= 0)
		names_show_all(s->names);
	if (status >= 0)
		status = script_new_lines(s);
	if (status >= 0 && !s->last && s->mode->take)
		status = script_cache_new(&s->cache);
	json_init(&s->json, s->out);
	RENDER(s->renderer, begin, s);
	if (status >= 0)
		status = ptah_workers_new(s->session, &s->workers);
	if (status >= 0)
		status = script_new_samples(s);
	progress_begin(&progress, s->input, s->session, false);
	/* A job does not know which samples come before its segment. */
	if (status >= 0 && s->mode->take && !s->last && !s->samples && input_jobs(s->input, 1) > 1)
		status = script_new_jobs(s, &progress);
	if (status >= 0)
		status = s->mode->take || s->last ? read_streams(s, &progress)
						  : script_read_calls(s, SIZE_MAX, &progress);
	script_free_jobs(s);
	script_free_samples(s);
	progress_end(&progress);
	RENDER(s->renderer, end, s);
	return status;
}

/* Takes over the options. Returns an exit code. */
static int choose_script_options(struct script *s, const struct options *o)
{
	if (o->branches + o->blocks + o->calls > 1)
		return fail_usage(&command_script, "one of --branches, --blocks and --calls");
	s->mode = o->branches ? &script_branches
		  : o->blocks ? &script_blocks
		  : o->calls  ? &script_calls
			      : &script_instructions;
	s->renderer =
	    renderer_choose(&command_script, s->mode->renderers, o->input.format, s->mode->option);
	s->input = &o->input;
	s->events = o->events;
	s->function = o->input.function;
	s->time = o->time;
	s->att = o->att;
	s->asked = (o->time ? SCRIPT_TIME : 0) | (o->input.no_symbols ? 0 : SCRIPT_SYMBOLS) |
		   (o->lines || o->last ? SCRIPT_LINES : 0);
	if (o->last && window_is_wanted(&o->input))
		return fail_usage(&command_script,
				  "--last, or --since, --until and --around, not both");
	if (!s->renderer)
		return EXIT_USAGE;
	return o->last && script_new_last(s, o->last) < 0
		   ? fail(&command_script, "%s", ptah_strerror(PTAH_E_NOMEM))
		   : EXIT_OK;
}

static int run_script(int argc, char **argv)
{
	struct options o = {.input.format = FORMAT_TEXT};
	struct script s = {.info.space = 0};
	struct ptah_session *session;
	int status, first = options_parse(&command_script, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
	o.input.from_hit = !o.last;
	status = choose_script_options(&s, &o);
	o.input.samples = !status && script_wants_samples(&s, o.input.format);
	if (!status)
		status = input_open(&command_script, &o.input, argc - first, argv + first, true,
				    &session);
	if (!status) {
		status = output_open(&command_script, &o.input, &s.out);
		if (status)
			ptah_session_close(session);
	}
	if (status) {
		script_free_last(&s);
		return status;
	}
	s.session = s.own_session = session;
	if (s.time && o.input.format == FORMAT_TEXT)
		time_head_put_kind(s.out, session);
	problem = script_streams(&s);
	if (problem < 0)
		status = fail(&command_script, "%s", ptah_strerror(problem));
	else if (s.errors)
		status = fail_errors(&command_script, s.errors);
	if (problem >= 0 && o.input.function && !s.found_function && !status)
		status = fail_function(&command_script, o.input.function);
	input_notes(&o.input, session);
	if (s.time && s.timed)
		input_note_times(&o.input, session);
	else if (s.time && !o.input.quiet)
		print_clean("note: ",
			    "--time: no time is known, because the trace has no time stamps "
			    "or the recording no perf clock");
	ptah_workers_free(s.workers);
	names_free(s.names);
	script_free_lines(&s);
	script_cache_free(s.cache);
	script_free_last(&s);
	free(s.inside);
	ptah_session_close(session);
	return output_close(&command_script, s.out, status);
}

const struct command command_script = {
    .name = "script",
    .usage = "[OPTIONS] [FILE]",
    .summary = "every instruction, branch, block or call, in order",
    .details =
	"Prints the path each thread took: comm, tid, address, symbol+offset, object and the\n"
	"instruction; or only taken branches, blocks, or calls. Errors and overflows are shown\n"
	"at their places as lines with \"#\"; the exit status is then 1.",
    .options = (const struct option_def *const[]){script_options, names_options, symbols_options,
						  ordered_jobs_options, input_options, raw_options,
						  ptxed_options, window_options, function_options,
						  decode_options, output_options, format_options,
						  quiet_options, help_options, NULL},
    .notes =
	(const struct option_note[]){
	    {"function", "With `--calls` everything below its calls is shown, "
			 "too. Losses and errors are shown wherever they are."},
	    {"jobs", "The threads also make the text; each keeps up to 32 MB of it "
		     "until what comes before has been written. With `--calls` they "
		     "only decode. With `--last`, `--since`, `--until` and "
		     "`--around`, and in the stream of a CPU on which several "
		     "threads ran, one thread does everything."},
	    {0}},
    .operand = COMPLETE_FILE,
    .run = run_script,
};
