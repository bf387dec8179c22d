/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "output/drcov.h"
#include "output/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum cover_format {
	COVER_EDGES,
	COVER_BLOCKS,
	COVER_DRCOV,
	COVER_BITMAP
};

struct options {
	struct input input;
	uint64_t map_size;
	int format;
	bool no_symbols;
};

static const char *const formats[] = {"edges", "blocks", "drcov", "bitmap", NULL};

static const struct option_def option_defs[] = {
    INPUT_SOURCE_OPTIONS(struct options),
    {"format", 0, OPTION_CHOICE, offsetof(struct options, format), "FORMAT",
     "edges, blocks, drcov or bitmap (default: edges)", formats},
    {"map-size", 0, OPTION_NUMBER, offsetof(struct options, map_size), "N",
     "bytes of the bitmap, a power of two (default: 65536)", NULL},
    {"no-symbols", 0, OPTION_FLAG, offsetof(struct options, no_symbols), NULL,
     "addresses only: quicker", NULL},
    INPUT_JOBS_OPTION(struct options),
    INPUT_TALK_OPTIONS(struct options),
    {0},
};

/* A block and its end, or an edge. */
struct row {
	int32_t space; /* the session's */
	uint64_t from, to;
	uint64_t count;
	uint16_t ninsn; /* of a block */
	uint8_t insn_class;
};

struct rows {
	struct row *row;
	size_t count, capacity;
	uint64_t errors;
	bool edges;
	const struct ptah_session *session;
};

static int add(struct rows *rows, const struct row *row)
{
	if (!row->count)
		return 0;
	if (rows->count == rows->capacity) {
		size_t capacity = rows->capacity ? 2 * rows->capacity : 4096;
		struct row *list = reallocarray(rows->row, capacity, sizeof(*list));

		if (!list)
			return PTAH_E_NOMEM;
		rows->row = list;
		rows->capacity = capacity;
	}
	rows->row[rows->count++] = *row;
	return 0;
}

/* The two edges of a conditional branch. */
static int add_outcomes(struct rows *rows, int32_t space, const struct ptah_profile_block *b)
{
	struct row row = {.space = space,
			  .from = b->end - b->last_size,
			  .to = b->target,
			  .count = b->taken,
			  .insn_class = b->insn_class};
	int status = add(rows, &row);

	row.to = b->end;
	row.count = b->count - b->taken - b->unknown;
	return status < 0 ? status : add(rows, &row);
}

static int add_blocks(struct rows *rows, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_block *blocks;
	size_t n;
	int status = ptah_profile_blocks(profile, &blocks, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++) {
		const struct ptah_profile_block *b = &blocks[i];
		const int32_t space =
		    ptah_session_profile_pid(rows->session, stream, profile, b->space);

		if (!rows->edges)
			status = add(rows, &(struct row){space, b->ip, b->end, b->count, b->ninsn,
							 b->insn_class});
		else if (b->insn_class == PTAH_INSN_COND)
			status = add_outcomes(rows, space, b);
	}
	free(blocks);
	return status;
}

static int add_indirect(struct rows *rows, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_edge *edges;
	size_t n;
	int status = ptah_profile_edges(profile, &edges, &n);

	if (status < 0)
		return status;
	for (size_t i = 0; i < n && status >= 0; i++)
		status = add(rows, &(struct row){ptah_session_profile_pid(rows->session, stream,
									  profile, edges[i].space),
						 edges[i].from, edges[i].to, edges[i].count, 0,
						 edges[i].insn_class});
	free(edges);
	return status;
}

/* As input_count() wants it. */
static int add_profile(void *context, const struct ptah_stream_info *info, size_t stream,
		       struct ptah_profile *profile)
{
	(void)info;
	struct rows *rows = context;
	struct ptah_profile_totals totals;
	int status = ptah_profile_totals(profile, &totals);

	if (status < 0)
		return status;
	rows->errors += totals.errors;
	status = add_blocks(rows, stream, profile);
	return status >= 0 && rows->edges ? add_indirect(rows, stream, profile) : status;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_place(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = compare((uint32_t)x->space, (uint32_t)y->space);

	order = order ? order : compare(x->from, y->from);
	order = order ? order : compare(x->to, y->to);
	order = order ? order : compare(x->insn_class, y->insn_class);
	return order ? order : compare(x->ninsn, y->ninsn);
}

/* What the threads of a process, and blocks with different beginnings, say of the same. */
static void merge(struct rows *rows)
{
	size_t last = 0;

	if (!rows->count)
		return;
	qsort(rows->row, rows->count, sizeof(*rows->row), by_place);
	for (size_t i = 1; i < rows->count; i++) {
		if (by_place(&rows->row[last], &rows->row[i]))
			rows->row[++last] = rows->row[i];
		else
			rows->row[last].count += rows->row[i].count;
	}
	rows->count = last + 1;
}

/* Output */

/* "main+0x10", or the address where nothing is known. */
static void put_symbol(struct out *out, struct names *names, int32_t space, uint64_t ip)
{
	const struct name *name = names ? names_find(names, space, ip) : NULL;

	out_char(out, '\t');
	if (!name || !name->symbol) {
		out_format(out, "0x%" PRIx64, ip);
		return;
	}
	out_clean(out, name->symbol);
	if (name->offset)
		out_format(out, "+0x%" PRIx64, name->offset);
}

/* Its pid and name. */
static void find_process(const struct ptah_session *session, int32_t space, struct ptah_thread *who)
{
	if (ptah_session_space(session, space, who) < 0)
		*who = (struct ptah_thread){.pid = space, .tid = -1};
}

static void put_text(struct out *out, struct names *names, const struct rows *rows)
{
	struct ptah_thread who;

	out_text(out, rows->edges ? "from\tto\tcount\tpid\tclass\tsymbol\tto_symbol\tcomm\n"
				  : "ip\tend\tcount\tpid\tclass\tinstructions\tsymbol\tcomm\n");
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];

		if (!i || row->space != row[-1].space)
			find_process(rows->session, row->space, &who);
		out_format(out, "0x%" PRIx64 "\t0x%" PRIx64 "\t%" PRIu64 "\t%d\t%s", row->from,
			   row->to, row->count, who.pid, ptah_insn_class_name(row->insn_class));
		if (!rows->edges)
			out_format(out, "\t%u", row->ninsn);
		put_symbol(out, names, row->space, row->from);
		if (rows->edges)
			put_symbol(out, names, row->space, row->to);
		out_char(out, '\t');
		out_clean(out, who.comm);
		out_char(out, '\n');
	}
}

static int put_bitmap(struct out *out, size_t size, const struct rows *rows)
{
	uint8_t *bitmap = calloc(size, 1);

	if (!bitmap)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < rows->count; i++) {
		const struct row *row = &rows->row[i];
		uint8_t *entry = &bitmap[ptah_coverage_index(row->from, row->to, size)];

		*entry =
		    (uint8_t)(row->count > (uint64_t)(UINT8_MAX - *entry) ? UINT8_MAX
									  : *entry + row->count);
	}
	out_bytes(out, (const char *)bitmap, size);
	free(bitmap);
	return 0;
}

static int put_drcov(struct out *out, const struct options *o, const struct names *names,
		     const struct rows *rows)
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

static int put(struct out *out, const struct options *o, struct names *names,
	       const struct rows *rows)
{
	switch (o->format) {
	case COVER_DRCOV:
		return put_drcov(out, o, names, rows);
	case COVER_BITMAP:
		return put_bitmap(out, (size_t)o->map_size, rows);
	default:
		put_text(out, names, rows);
		return 0;
	}
}

/* 0, or the exit status. */
static int check(const struct options *o)
{
	const bool binary = o->format == COVER_DRCOV || o->format == COVER_BITMAP;

	if (o->map_size < 8 || o->map_size > PTAH_COVERAGE_MAX_BITMAP ||
	    o->map_size & (o->map_size - 1)) {
		fail(&command_cover,
		     "--map-size=%" PRIu64 ": it takes a power of two from 8 to %zu", o->map_size,
		     PTAH_COVERAGE_MAX_BITMAP);
		return EXIT_USAGE;
	}
	if (binary && !o->input.output && isatty(STDOUT_FILENO)) {
		fail(&command_cover, "--format=%s is not for a terminal: --output=FILE",
		     formats[o->format]);
		return EXIT_USAGE;
	}
	return 0;
}

/* Counts, and writes it; 0 or an error. */
static int cover(const struct options *o, struct ptah_session *session, struct out *out,
		 struct rows *rows)
{
	struct names *names = NULL;
	int status = 0;

	rows->edges = o->format == COVER_EDGES || o->format == COVER_BITMAP;
	if (o->format == COVER_DRCOV || (o->format != COVER_BITMAP && !o->no_symbols))
		status = input_names(&o->input, session, &names);
	if (status >= 0)
		status = input_count(&o->input, session, add_profile, rows);
	if (status >= 0) {
		merge(rows);
		status = put(out, o, names, rows);
	}
	names_free(names);
	return status;
}

static int run(int argc, char **argv)
{
	struct options o = {.map_size = 65536};
	struct ptah_session *session;
	struct rows rows = {0};
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
	if (problem < 0) { /* nothing half-written is left */
		out_abort(out);
		status = fail(&command_cover, "%s", ptah_strerror(problem));
	} else {
		if (rows.errors)
			status = fail_errors(&command_cover, rows.errors);
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
    .options = option_defs,
    .run = run,
};
