/* SPDX-License-Identifier: MIT */
/* Follows what is reached for the first time, and writes coverage at the end (live_cover.h). */
#include "live_cover.h"

#include "cover_rows.h"
#include "export_view.h"
#include "live_commands.h"
#include "progress.h"

#include "export/cover_table.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_EVERY 1.0 /* seconds, at most */
#define LOOK_LEAST 0.01
#define MAP_SIZE   65536
#define MOST_APART 64 /* processes that are kept apart */

/* What the counts of a stream are kept as. */
enum kind {
	KIND_NOTHING, /* only what is new matters */
	KIND_ROWS,    /* of edges or blocks */
	KIND_BITMAP,
	KIND_COUNTS, /* of processes, or of programs where there are many processes */
	KIND_TABLE,  /* of processes */
};

/* The formats of --cover, in the order of their names. */
static const struct format {
	const char *extension; /* chooses it, where --cover-format does not */
	enum kind kind;
	enum cover_format cover;
} formats[] = {
    {".edges", KIND_ROWS, COVER_EDGES},	      {".blocks", KIND_ROWS, COVER_BLOCKS},
    {".drcov", KIND_COUNTS, COVER_DRCOV},     {".bitmap", KIND_BITMAP, COVER_BITMAP},
    {".info", KIND_COUNTS, COVER_EDGES},      {".xml", KIND_COUNTS, COVER_EDGES},
    {".gcov.json", KIND_COUNTS, COVER_EDGES}, {".db", KIND_TABLE, COVER_PROCESSES},
};

static const char *const format_names[] = {"edges",	"blocks", "drcov",     "bitmap", "lcov",
					   "cobertura", "gcov",	  "processes", NULL};

/* Rows that were added for a stream, whose space becomes another number later. */
struct part {
	size_t stream, first;
};

struct live_cover {
	const struct live_options *options;
	const struct format *format;
	struct ptah_live *live;
	struct out *out; /* NULL: KIND_TABLE and KIND_NOTHING */
	struct names *names;
	struct cover_code own;	 /* without a table */
	struct cover_code *code; /* that of the table, or `own` */
	struct live_commands *commands;
	/* What was counted, by kind. */
	struct cover_table *table;
	struct ptah_counts *counts; /* of the last processes */
	struct ptah_counts *folded; /* of programs; NULL: there are no more processes */
	struct cover_rows rows;
	struct part *parts;
	size_t part_count, part_room;
	uint8_t bitmap[MAP_SIZE];
	/* By stream: how many instructions were decoded at the last look. */
	uint64_t *seen;
	size_t seen_count;
	/* Figures at the last look and in the last measure. */
	struct live_coverage now, before;
	double looked;	/* the last look */
	double reached; /* the last that found something new; 0: none has */
};

/* Options */

#define AT(field) offsetof(struct live_options, field)

const struct option_def live_cover_options[] = {
    {.name = "cover",
     .kind = OPTION_TEXT,
     .at = AT(cover),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write coverage at the end; the name says the format",
     .man = "Count what is reached, report with each interval how much of it is new, and write the "
	    "coverage to *FILE* at the end. The end of its name says the format: .info (lcov), "
	    ".xml (Cobertura), .gcov.json, .drcov, .edges, .blocks or .bitmap, as `ptah-export`(1) "
	    "and `ptah-cover`(1) write them of a recording, or .db, a table of processes "
	    "(`--per-process`). The trace is decoded a second time for it."},
    {.name = "cover-format",
     .kind = OPTION_CHOICE,
     .at = AT(cover_format),
     .arg = "FORMAT",
     .choices = format_names,
     .help = "edges, blocks, drcov, bitmap, lcov, cobertura, gcov or processes",
     .man = "The format of `--cover`: *edges*, *blocks*, *drcov*, *bitmap* (of 65536 bytes), "
	    "*lcov*, *cobertura*, *gcov* or *processes*. Default: by the end of its name."},
    {.name = "per-process",
     .kind = OPTION_FLAG,
     .at = AT(per_process),
     .help = "with --cover: a table of which process reached what",
     .man = "Write the file of `--cover` as a table (a database of SQLite) of which process "
	    "reached which function, block and line, with its arguments and its exit status where "
	    "they are known. `ptah cover --reached=`*PLACE* asks it: which tests run this line."},
    {.name = "until",
     .kind = OPTION_TEXT,
     .at = AT(until),
     .arg = "stable:TIME",
     .help = "end when nothing new was reached for so long",
     .man = "End, as with `--for`, when for *TIME* no block and no edge was reached that had not "
	    "been reached before: `--until=stable:30s`. What is recorded counts when it is "
	    "decoded. Goes without `--cover`, too."},
    {0},
};

/* The format of the file's name. NULL: it says none. */
static const struct format *format_of(const char *file)
{
	const struct format *found = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		const size_t n = strlen(file), k = strlen(formats[i].extension);

		if (n > k && !strcmp(file + n - k, formats[i].extension))
			found = &formats[i];
	}
	return found;
}

static int check_format(struct live_options *o)
{
	const struct format *f =
	    o->cover_format < 0 ? format_of(o->cover) : &formats[o->cover_format];

	if (!strcmp(o->cover, "-"))
		return fail_usage(&command_live,
				  "--cover=-: standard output has the lines; name a file");
	if (o->per_process && f && f->kind != KIND_TABLE)
		return fail_usage(&command_live,
				  "--per-process writes a table, not what %s says: --cover=FILE.db",
				  o->cover_format < 0 ? "the file's name" : "--cover-format");
	if (!f && !o->per_process)
		return fail_usage(&command_live,
				  "--cover=%s: the name does not say the format: --cover-format",
				  o->cover);
	o->cover_format = f ? (int)(f - formats) : (int)ARRAY_SIZE(formats) - 1;
	return EXIT_OK;
}

int live_cover_check(struct live_options *o)
{
	if (o->until && (strncmp(o->until, "stable:", 7) != 0 ||
			 !live_parse_time(o->until + 7, &o->stable) || o->stable <= 0))
		return fail_usage(&command_live,
				  "--until=%s: it is stable: and a time, as stable:30s", o->until);
	if (!o->cover && (o->per_process || o->cover_format >= 0))
		return fail_usage(&command_live,
				  "--per-process and --cover-format need --cover=FILE");
	return o->cover ? check_format(o) : EXIT_OK;
}

/* Beginning */

int live_cover_new(const struct live_options *o, struct live_cover **cover)
{
	struct live_cover *c;

	if (!o->cover && !o->until)
		return EXIT_OK;
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(&command_live, "%s", ptah_strerror(PTAH_E_NOMEM));
	*cover = c;
	c->options = o;
	c->format = o->cover ? &formats[o->cover_format] : NULL;
	c->commands = live_commands_new(!o->record.input.path);
	if (!c->commands ||
	    (c->format && c->format->kind == KIND_COUNTS && ptah_counts_new(&c->counts) < 0))
		return fail(&command_live, "%s", ptah_strerror(PTAH_E_NOMEM));
	/* The table is opened when there is a session. */
	return c->format && c->format->kind != KIND_TABLE
		   ? output_create(&command_live, o->cover, &c->out)
		   : EXIT_OK;
}

void live_cover_free(struct live_cover *c)
{
	if (!c)
		return;
	if (c->out)
		out_abort(c->out);
	cover_table_abort(c->table);
	if (c->code == &c->own)
		cover_code_free(&c->own);
	ptah_counts_free(c->counts);
	ptah_counts_free(c->folded);
	names_free(c->names);
	live_commands_free(c->commands);
	free(c->rows.row);
	free(c->parts);
	free(c->seen);
	free(c);
}

static enum kind kind_of(const struct live_cover *c)
{
	return c->format ? c->format->kind : KIND_NOTHING;
}

int live_cover_begin(struct live_cover *c, struct ptah_live *live)
{
	const struct ptah_session *session = ptah_live_session(live);
	struct ptah_message why = {""};
	int status;

	if (!c)
		return EXIT_OK;
	c->live = live;
	c->rows.session = session;
	c->rows.edges = c->format && c->format->cover != COVER_BLOCKS;
	status = input_names(&c->options->record.input, session, &c->names);
	if (status >= 0 && kind_of(c) == KIND_TABLE) {
		status = cover_table_open(c->options->cover, session, c->names, &c->table, &why);
		if (status >= 0)
			c->code = cover_table_code(c->table);
	} else if (status >= 0) {
		cover_code_init(&c->own, session, c->names, false);
		c->code = &c->own;
	}
	return status < 0 ? fail(&command_live, "%s", *why.text ? why.text : ptah_strerror(status))
			  : EXIT_OK;
}

void live_cover_take_piece(struct live_cover *c, const struct ptah_record_piece *piece)
{
	if (c)
		live_commands_take(c->commands, piece);
}

/* Counts that are complete */

static int keep_rows(struct live_cover *c, size_t stream, struct ptah_profile *profile)
{
	if (!LIST_ROOM(c->parts, c->part_count, c->part_room))
		return PTAH_E_NOMEM;
	c->parts[c->part_count++] = (struct part){stream, c->rows.count};
	return cover_add_profile(&c->rows, NULL, stream, profile);
}

static int keep_hits(struct live_cover *c, size_t stream, struct ptah_profile *profile)
{
	int status;

	c->rows.count = 0;
	status = cover_add_profile(&c->rows, NULL, stream, profile);
	if (status >= 0)
		cover_fill_bitmap(c->bitmap, sizeof(c->bitmap), &c->rows);
	return status;
}

/* The processes of one program become one, so that a thousand of them need no more memory. */
static int fold(struct live_cover *c)
{
	int status = c->folded ? 0 : ptah_counts_new(&c->folded);

	if (status >= 0)
		status = ptah_counts_fold(c->folded, c->counts);
	ptah_counts_free(c->counts);
	c->counts = NULL;
	return status < 0 ? status : ptah_counts_new(&c->counts);
}

static int keep_counts(struct live_cover *c, size_t stream, struct ptah_profile *profile)
{
	struct ptah_counts_process p;
	struct ptah_counts *counts;
	int status = ptah_counts_new(&counts);

	if (status < 0)
		return status;
	status = ptah_counts_add_stream(counts, c->rows.session, stream, profile);
	/* At once: the space of the process becomes another number later. */
	if (status >= 0)
		status = ptah_counts_locate(counts, names_find_file, c->names);
	if (status >= 0)
		status = ptah_counts_merge(c->counts, counts);
	ptah_counts_free(counts);
	if (status >= 0 && ptah_counts_process(c->counts, MOST_APART, &p))
		status = fold(c);
	return status;
}

/* Adds the counts of a stream, which nobody adds again. 0 or an error. */
static int keep_stream_counts(struct live_cover *c, size_t stream, struct ptah_profile *profile)
{
	int status = 0;

	switch (kind_of(c)) {
	case KIND_TABLE:
		return cover_table_add(c->table, stream, profile);
	case KIND_ROWS:
		status = keep_rows(c, stream, profile);
		break;
	case KIND_BITMAP:
		status = keep_hits(c, stream, profile);
		break;
	case KIND_COUNTS:
		status = keep_counts(c, stream, profile);
		break;
	case KIND_NOTHING:
		break;
	}
	return status < 0 ? status : cover_code_add(c->code, stream, profile, NULL, NULL);
}

int live_cover_take_counts(void *context, const struct ptah_live_thread *thread,
			   struct ptah_profile *profile)
{
	const int status = keep_stream_counts(context, thread->number, profile);

	return status < 0 ? status : 1;
}

/* Looking */

/* How many instructions had been decoded of the stream at the last look. NULL: out of memory. */
static uint64_t *seen_of(struct live_cover *c, size_t stream)
{
	return LIST_REACH(c->seen, c->seen_count, stream) ? &c->seen[stream] : NULL;
}

/* A callback of ptah_live_counts(). */
static int look_at(void *context, size_t stream, struct ptah_profile *profile)
{
	struct live_cover *c = context;
	struct ptah_profile_totals totals;
	uint64_t *seen = seen_of(c, stream);
	int status = seen ? ptah_profile_totals(profile, &totals) : PTAH_E_NOMEM;

	if (status < 0 || totals.instructions == *seen)
		return status;
	*seen = totals.instructions;
	return cover_code_add(c->code, stream, profile, NULL, NULL);
}

/* Compares what has been reached with the last time. */
static void take_figures(struct live_cover *c)
{
	const struct live_coverage figures = {c->code->branches.count, c->code->edges.count,
					      c->code->functions.count};

	if (figures.blocks != c->now.blocks || figures.edges != c->now.edges)
		c->reached = c->looked;
	c->now = figures;
}

void live_cover_take_end(struct live_cover *c, int32_t pid, int wait_status)
{
	if (c && c->commands)
		live_commands_ended(c->commands, pid, wait_status);
}

int live_cover_look(struct live_cover *c, bool at_once)
{
	double every = LOOK_EVERY;
	int status;

	if (!c)
		return 0;
	if (c->options->stable > 0 && c->options->stable / 4 < every)
		every = c->options->stable / 4;
	if (!at_once && now() < c->looked + (every > LOOK_LEAST ? every : LOOK_LEAST))
		return 0;
	ptah_live_hold(c->live);
	status = ptah_live_counts(c->live, look_at, c);
	c->looked = now();
	take_figures(c);
	ptah_live_release(c->live);
	live_commands_look(c->commands);
	return status;
}

bool live_cover_is_stable(const struct live_cover *c)
{
	return c && c->options->stable > 0 && c->reached > 0 &&
	       c->looked - c->reached >= c->options->stable;
}

void live_cover_measure(struct live_cover *c, struct live_measure *m, bool final)
{
	if (!c)
		return;
	m->covers = true;
	m->coverage = c->now;
	m->fresh = c->now;
	if (!final) {
		m->fresh.blocks -= c->before.blocks;
		m->fresh.edges -= c->before.edges;
		m->fresh.functions -= c->before.functions;
	}
	m->quiet = c->reached > 0 ? c->looked - c->reached : 0;
	c->before = c->now;
}

/* The end */

/* A callback of ptah_live_counts(). */
static int keep_rest(void *context, size_t stream, struct ptah_profile *profile)
{
	return keep_stream_counts(context, stream, profile);
}

/* Spaces of processes have become other numbers since their rows were added. */
static void correct_spaces(struct live_cover *c)
{
	struct ptah_stream_info info;

	for (size_t i = 0; i < c->part_count; i++) {
		const size_t end = i + 1 < c->part_count ? c->parts[i + 1].first : c->rows.count;

		if (ptah_session_stream_info(c->rows.session, c->parts[i].stream, &info) < 0 ||
		    info.cpu >= 0)
			continue;
		for (size_t k = c->parts[i].first; k < end; k++)
			c->rows.row[k].space = info.space;
	}
}

static int write_rows(struct live_cover *c)
{
	const struct input *input = &c->options->record.input;
	const struct cover_output output = {.format = c->format->cover,
					    .quiet = c->options->record.quiet};
	struct names *names = NULL;
	int status = input_names(input, c->rows.session, &names);

	if (status >= 0) {
		names_show_all(names);
		correct_spaces(c);
		cover_merge(&c->rows);
		status = cover_write(&output, c->out, names, &c->rows);
	}
	names_free(names);
	return status < 0 ? fail(&command_live, "%s", ptah_strerror(status)) : EXIT_OK;
}

static int write_counts(struct live_cover *c)
{
	const struct ptah_counts *counts;
	struct export_options options = {.input = c->options->record.input};
	const struct export_format *format;
	struct names *names = NULL;
	char file[32];
	int status = input_names(&options.input, NULL, &names);

	options.input.quiet = c->options->record.quiet;
	/* That of a file with this name. */
	snprintf(file, sizeof(file), "a%s", c->format->extension);
	format = export_find_by_file(file);
	if (status >= 0 && c->folded)
		status = fold(c);
	counts = c->folded ? c->folded : c->counts;
	if (status >= 0)
		status = names_use_counts(names, counts, false);
	if (status >= 0)
		status =
		    export_write_counts(&command_live, &options, format, counts, names, c->out);
	names_free(names);
	return status < 0 ? fail(&command_live, "%s", ptah_strerror(status)) : status;
}

static int write_table(struct live_cover *c, int32_t pid, int wait_status)
{
	struct ptah_message why = {""};
	struct cover_table *table = c->table;
	struct cover_process *processes;
	size_t n;
	int status;

	processes = cover_table_processes(table, &n);
	status = live_commands_describe(c->commands, pid, wait_status, processes, n);
	if (status >= 0) {
		c->table = NULL;
		status = cover_table_close(table, &why);
	}
	return status < 0 ? fail(&command_live, "%s", *why.text ? why.text : ptah_strerror(status))
			  : EXIT_OK;
}

/* Completes the file that is not a table. Returns an exit code. */
static int end_file(struct live_cover *c, int code)
{
	struct ptah_message why = {""};
	struct out *out = c->out;

	c->out = NULL;
	if (code) {
		out_abort(out);
		return code;
	}
	return out_close(out, &why) < 0 ? fail(&command_live, "%s", why.text) : EXIT_OK;
}

int live_cover_end(struct live_cover *c, int32_t pid, int wait_status)
{
	int status;

	if (!c || !c->format)
		return EXIT_OK;
	status = ptah_live_counts(c->live, keep_rest, c);
	if (status < 0)
		return fail(&command_live, "%s", ptah_strerror(status));
	switch (c->format->kind) {
	case KIND_TABLE:
		return write_table(c, pid, wait_status);
	case KIND_ROWS:
		return end_file(c, write_rows(c));
	case KIND_COUNTS:
		return end_file(c, write_counts(c));
	default:
		out_bytes(c->out, (const char *)c->bitmap, sizeof(c->bitmap));
		return end_file(c, EXIT_OK);
	}
}
