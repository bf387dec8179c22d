/* SPDX-License-Identifier: MIT */
/* ptah cover: which edges or blocks ran, as fuzzers and coverage tools read it. */
#include "cover_processes.h"
#include "cover_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	struct input input;
	uint64_t map_size;
	const char *reached; /* places; NULL: not given */
	int format;
};

static const struct option_def cover_options[] = {
    {.name = "format",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, format),
     .arg = "FORMAT",
     .choices = cover_format_names,
     .help = "edges, blocks, drcov, bitmap or processes (default: edges)",
     .man = "What to write:\n"
	    ".RS\n"
	    ".TP\n"
	    "*edges*\n"
	    "(the default) each edge, with the columns from, to, count, pid, class, "
	    "symbol, to_symbol, comm, separated by tabs. The first line has their "
	    "names.\n"
	    ".TP\n"
	    "*blocks*\n"
	    "each block, from an address at which execution entered it to the next "
	    "branch or event: ip, end, count, pid, class, instructions, symbol, "
	    "comm.\n"
	    "comm is the name of the process's first thread; a process that was "
	    "several programs one after the other (`execve`(2)) has rows of each.\n"
	    ".TP\n"
	    "*drcov*\n"
	    "the blocks as a file of DynamoRIO's drcov, version 2, binary, with a "
	    "module for each file that was mapped. Blocks that are in no file (the "
	    "vDSO, code made at run time, page dumps) are left out; their number is "
	    "printed on standard error.\n"
	    ".TP\n"
	    "*bitmap*\n"
	    "the bytes of a map of hit counts, as fuzzers keep it. "
	    "*<ptah/profile.h>* says which entry counts an edge; an entry counts up "
	    "to 255.\n"
	    ".TP\n"
	    "*processes*\n"
	    "a table (a database of SQLite) of which process reached which function, block and "
	    "line of source code, as `ptah-live`(1) writes it with `--per-process`. What is not in "
	    "a recording, arguments and exit statuses, is not in the table either.\n"
	    ".RE"},
    {.name = "map-size",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct options, map_size),
     .arg = "N",
     .help = "bytes of the bitmap, a power of two (default: 65536)",
     .man = "The bytes of the bitmap: a power of two from 8 on. Default: 65536."},
    {.name = "reached",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, reached),
     .arg = "PLACE,...",
     .help = "which processes reached a line or function; FILE is a table of them",
     .man = "Ask a table that `ptah live --per-process` or `--format=processes` has written, which "
	    "is *FILE*: print the processes that reached one of the places, as columns that are "
	    "separated by tabs: count, pid, status, signal, comm, command. A *PLACE* is "
	    "*SOURCE*:*LINE* or *SOURCE*:*FIRST*-*LAST*, where *SOURCE* is the name of a source "
	    "file or its end after a slash; or the name of a function. With -, standard input has "
	    "a place in each line. The count is how often the process executed the places, added "
	    "up: of a function its first instruction, of a line the one of its instructions that "
	    "ran most often. status and signal are empty where they are not known. A place of "
	    "which the table has no code is noted on standard error; if there is none other, the "
	    "exit status is 1."},
    {0},
};

/* What each format needs. */
static const struct {
	bool edges;  /* edges, not blocks */
	bool binary; /* refused on a terminal */
	bool names;  /* symbols, unless --no-symbols is given */
	bool files;  /* the files that the addresses belong to, in any case */
} formats[] = {
    [COVER_EDGES] = {.edges = true, .names = true},
    [COVER_BLOCKS] = {.names = true},
    [COVER_DRCOV] = {.binary = true, .files = true},
    [COVER_BITMAP] = {.edges = true, .binary = true},
    [COVER_PROCESSES] = {.binary = true, .files = true},
};

/* Checks options against each other. Returns an exit code. */
static int check_cover_options(const struct options *o)
{
	if (o->map_size < 8 || o->map_size > PTAH_COVERAGE_MAX_BITMAP ||
	    o->map_size & (o->map_size - 1)) {
		fail(&command_cover,
		     "--map-size=%" PRIu64 ": it takes a power of two from 8 to %zu", o->map_size,
		     PTAH_COVERAGE_MAX_BITMAP);
		return EXIT_USAGE;
	}
	if (o->format == COVER_PROCESSES &&
	    (!o->input.output || !strcmp(o->input.output, "-") || o->input.function))
		return fail_usage(&command_cover, "--format=processes writes a file of all "
						  "functions: --output=FILE, no --function");
	if (formats[o->format].binary && !o->input.output && isatty(STDOUT_FILENO)) {
		fail(&command_cover, "--format=%s is not for a terminal: --output=FILE",
		     cover_format_names[o->format]);
		return EXIT_USAGE;
	}
	if (o->input.no_symbols && o->input.function) {
		fail(&command_cover, "--function is by symbols: not with --no-symbols");
		return EXIT_USAGE;
	}
	return 0;
}

/* Keeps what begins in the function of --function. */
static void keep_function(const struct input *input, struct names *names, struct cover_rows *rows)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->count; i++) {
		const struct cover_row row = rows->row[i];

		if (names_is(names, names_find_version(names, row.space, row.from, row.version),
			     input->function))
			rows->row[kept++] = row;
	}
	rows->count = kept;
}

/* Counts the streams and writes the result. Returns 0 or an error. */
static int cover(const struct options *o, struct ptah_session *session, struct out *out,
		 struct cover_rows *rows)
{
	const struct cover_output output = {
	    .format = o->format, .map_size = o->map_size, .quiet = o->input.quiet};
	struct names *names = NULL;
	int status = 0;

	rows->edges = formats[o->format].edges;
	if (formats[o->format].files || o->input.function ||
	    (formats[o->format].names && !o->input.no_symbols))
		status = input_names(&o->input, session, &names);
	if (names && status >= 0 && formats[o->format].names)
		names_show_all(names);
	if (status >= 0)
		status = input_count(&o->input, session, cover_add_profile, rows);
	if (status >= 0) {
		cover_merge(rows);
		if (o->input.function)
			keep_function(&o->input, names, rows);
		status = cover_write(&output, out, names, rows);
	}
	names_free(names);
	return status;
}

/* Writes rows of a session. Returns an exit code. */
static int write_cover_rows(const struct options *o, struct ptah_session *session)
{
	struct cover_rows rows = {.session = session};
	struct out *out;
	int status = output_open(&command_cover, &o->input, &out), problem;

	if (status)
		return status;
	problem = cover(o, session, out, &rows);
	input_notes(&o->input, session);
	if (problem < 0) { /* no incomplete file is left */
		out_abort(out);
		status = fail(&command_cover, "%s", ptah_strerror(problem));
	} else {
		if (rows.errors)
			status = fail_errors(&command_cover, rows.errors);
		else if (o->input.function && !rows.count)
			status = fail_function(&command_cover, o->input.function);
		status = output_close(&command_cover, out, status);
	}
	free(rows.row);
	return status;
}

/* Asks the table that is the operand. Returns an exit code. */
static int ask_table(const struct options *o, int argc, char **argv)
{
	const char *table = argc ? argv[0] : o->input.path;

	if (argc > 1 || !table || (argc && o->input.path))
		return fail_usage(&command_cover,
				  "--reached asks one table: ptah cover --reached=PLACE FILE");
	return cover_ask_processes(&command_cover, &o->input, table, o->reached);
}

static int run_cover(int argc, char **argv)
{
	struct options o = {.map_size = 65536};
	struct ptah_session *session;
	int status, first = options_parse(&command_cover, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (o.reached)
		return ask_table(&o, argc - first, argv + first);
	status = check_cover_options(&o);
	if (status)
		return status;
	status = input_open(&command_cover, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = o.format == COVER_PROCESSES
		     ? cover_write_processes(&command_cover, &o.input, session)
		     : write_cover_rows(&o, session);
	ptah_session_close(session);
	return status;
}

const struct command command_cover = {
    .name = "cover",
    .usage = "[OPTIONS] [FILE]",
    .summary = "what ran, for fuzzers and coverage tools",
    .details =
	"Which edges or blocks ran and how often, as text; as the file of DynamoRIO's drcov,\n"
	"which Lighthouse and other tools read; or as the bitmap of hit counts that fuzzers\n"
	"keep (<ptah/profile.h> tells which edges count, and where). Or a table of which process\n"
	"reached what, which --reached asks: which tests run this line.",
    .options =
	(const struct option_def *const[]){cover_options, names_options, symbols_options,
					   jobs_options, input_options, raw_options, ptxed_options,
					   window_options, function_options, decode_options,
					   output_options, quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_cover,
};
