/* SPDX-License-Identifier: MIT */
/* ptah cover: which edges or blocks ran, as fuzzers and coverage tools read it. */
#include "cover_rows.h"
#include "output/drcov.h"
#include "output/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The formats, in the order of format_names. */
enum cover_format {
	COVER_EDGES,
	COVER_BLOCKS,
	COVER_DRCOV,
	COVER_BITMAP
};

static const char *const format_names[] = {"edges", "blocks", "drcov", "bitmap", NULL};

struct options {
	struct input input;
	uint64_t map_size;
	int format;
};

static const struct option_def cover_options[] = {
    {.name = "format",
     .kind = OPTION_CHOICE,
     .at = offsetof(struct options, format),
     .arg = "FORMAT",
     .choices = format_names,
     .help = "edges, blocks, drcov or bitmap (default: edges)",
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
	    "*<ptah/coverage.h>* says which entry counts an edge; an entry counts up "
	    "to 255.\n"
	    ".RE"},
    {.name = "map-size",
     .kind = OPTION_NUMBER,
     .at = offsetof(struct options, map_size),
     .arg = "N",
     .help = "bytes of the bitmap, a power of two (default: 65536)",
     .man = "The bytes of the bitmap: a power of two from 8 on. Default: 65536."},
    {0},
};

/* The pid and name of the process that a space belongs to. */
static void find_process(const struct ptah_session *session, int32_t space, struct ptah_thread *who)
{
	if (ptah_session_space(session, space, who) < 0)
		*who = (struct ptah_thread){.pid = space, .tid = -1};
}

/* A row as it is written. */
struct shown {
	uint64_t from, to, count, ninsn;
	int32_t pid;
	const char *insn_class, *symbol, *to_symbol, *comm;
};

static const struct field edge_fields[] = {
    FIELD_TSV(struct shown, "from", FIELD_ADDRESS, from),
    FIELD_TSV(struct shown, "to", FIELD_ADDRESS, to),
    FIELD_TSV(struct shown, "count", FIELD_NUMBER, count),
    FIELD_TSV(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct shown, "class", FIELD_STRING, insn_class),
    FIELD_TSV(struct shown, "symbol", FIELD_STRING, symbol),
    FIELD_TSV(struct shown, "to_symbol", FIELD_STRING, to_symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct field block_fields[] = {
    FIELD_TSV(struct shown, "ip", FIELD_ADDRESS, from),
    FIELD_TSV(struct shown, "end", FIELD_ADDRESS, to),
    FIELD_TSV(struct shown, "count", FIELD_NUMBER, count),
    FIELD_TSV(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct shown, "class", FIELD_STRING, insn_class),
    FIELD_TSV(struct shown, "instructions", FIELD_NUMBER, ninsn),
    FIELD_TSV(struct shown, "symbol", FIELD_STRING, symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct row_type edge_type = ROW_TYPE(edge_fields);
static const struct row_type block_type = ROW_TYPE(block_fields);

static void put_rows(struct out *out, struct names *names, const struct cover_rows *rows)
{
	const struct row_type *type = rows->edges ? &edge_type : &block_type;
	char symbol[NAMES_LABEL_MAX], to_symbol[NAMES_LABEL_MAX];
	struct ptah_thread who;

	fields_tsv_head(out, type, 0);
	for (size_t i = 0; i < rows->count; i++) {
		const struct cover_row *row = &rows->row[i];
		struct shown shown = {.from = row->from,
				      .to = row->to,
				      .count = row->count,
				      .ninsn = row->ninsn,
				      .insn_class = ptah_insn_class_name(row->insn_class),
				      .comm = who.comm};

		if (!i || row->space != row[-1].space)
			find_process(rows->session, row->space, &who);
		shown.pid = who.pid;
		shown.symbol = names_label(names, row->space, row->from, symbol, sizeof(symbol));
		if (rows->edges)
			shown.to_symbol =
			    names_label(names, row->space, row->to, to_symbol, sizeof(to_symbol));
		fields_tsv(out, type, 0, &shown);
	}
}

static int put_bitmap(struct out *out, const struct options *o, struct names *names,
		      const struct cover_rows *rows)
{
	const size_t size = (size_t)o->map_size;
	uint8_t *bitmap = calloc(size, 1);

	(void)names;
	if (!bitmap)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < rows->count; i++) {
		const struct cover_row *row = &rows->row[i];
		uint8_t *entry = &bitmap[ptah_coverage_index(row->from, row->to, size)];

		*entry =
		    (uint8_t)(row->count > (uint64_t)(UINT8_MAX - *entry) ? UINT8_MAX
									  : *entry + row->count);
	}
	out_bytes(out, (const char *)bitmap, size);
	free(bitmap);
	return 0;
}

static int put_drcov(struct out *out, const struct options *o, struct names *names,
		     const struct cover_rows *rows)
{
	struct drcov *drcov;
	int status = drcov_new(names, o->input.symfs, &drcov);

	if (status < 0)
		return status;
	for (size_t i = 0; i < rows->count && status >= 0; i++)
		status = drcov_add(drcov, rows->row[i].space, rows->row[i].from, rows->row[i].to);
	if (status >= 0) {
		drcov_write(drcov, out);
		if (drcov_left_out(drcov) && !o->input.quiet)
			fprintf(stderr, "note: %zu blocks lie in no file: they are left out\n",
				drcov_left_out(drcov));
	}
	drcov_free(drcov);
	return status;
}

static int put_text(struct out *out, const struct options *o, struct names *names,
		    const struct cover_rows *rows)
{
	(void)o;
	put_rows(out, names, rows);
	return 0;
}

/* What each format needs. */
static const struct {
	bool edges;  /* edges, not blocks */
	bool binary; /* refused on a terminal */
	bool names;  /* symbols, unless --no-symbols is given */
	bool files;  /* the files that the addresses belong to, in any case */
	int (*put)(struct out *out, const struct options *o, struct names *names,
		   const struct cover_rows *rows);
} formats[] = {
    [COVER_EDGES] = {.edges = true, .names = true, .put = put_text},
    [COVER_BLOCKS] = {.names = true, .put = put_text},
    [COVER_DRCOV] = {.binary = true, .files = true, .put = put_drcov},
    [COVER_BITMAP] = {.edges = true, .binary = true, .put = put_bitmap},
};

/* Checks options against each other. Returns an exit code. */
static int check(const struct options *o)
{
	if (o->map_size < 8 || o->map_size > PTAH_COVERAGE_MAX_BITMAP ||
	    o->map_size & (o->map_size - 1)) {
		fail(&command_cover,
		     "--map-size=%" PRIu64 ": it takes a power of two from 8 to %zu", o->map_size,
		     PTAH_COVERAGE_MAX_BITMAP);
		return EXIT_USAGE;
	}
	if (formats[o->format].binary && !o->input.output && isatty(STDOUT_FILENO)) {
		fail(&command_cover, "--format=%s is not for a terminal: --output=FILE",
		     format_names[o->format]);
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

		if (names_is(names, names_find(names, row.space, row.from), input->function))
			rows->row[kept++] = row;
	}
	rows->count = kept;
}

/* Counts the streams and writes the result. Returns 0 or an error. */
static int cover(const struct options *o, struct ptah_session *session, struct out *out,
		 struct cover_rows *rows)
{
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
		status = formats[o->format].put(out, o, names, rows);
	}
	names_free(names);
	return status;
}

static int run(int argc, char **argv)
{
	struct options o = {.map_size = 65536};
	struct ptah_session *session;
	struct cover_rows rows = {0};
	struct out *out;
	int status, first = options_parse(&command_cover, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
	status = check(&o);
	if (status)
		return status;
	status = input_open(&command_cover, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_cover, &o.input, &out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	rows.session = session;
	problem = cover(&o, session, out, &rows);
	input_notes(&o.input, session);
	if (problem < 0) { /* no incomplete file is left */
		out_abort(out);
		status = fail(&command_cover, "%s", ptah_strerror(problem));
	} else {
		if (rows.errors)
			status = fail_errors(&command_cover, rows.errors);
		else if (o.input.function && !rows.count)
			status = fail_function(&command_cover, o.input.function);
		status = output_close(&command_cover, out, status);
	}
	free(rows.row);
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
	"keep (<ptah/coverage.h> tells which edges count, and where).",
    .options =
	(const struct option_def *const[]){cover_options, names_options, symbols_options,
					   jobs_options, input_options, raw_options, ptxed_options,
					   window_options, function_options, decode_options,
					   output_options, quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run,
};
