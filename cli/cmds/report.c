/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "output/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	bool blocks;
	uint64_t limit;
	int sort;
};

static const char *const sort_choices[] = {"instructions", "calls", "name", NULL};

static const struct option_def option_defs[] = {
    {"blocks", 0, OPTION_FLAG, offsetof(struct options, blocks), NULL,
     "the hottest blocks instead of functions", NULL},
    {"limit", 'n', OPTION_NUMBER, offsetof(struct options, limit), "N",
     "rows to show (default: 20; 0: all)", NULL},
    {"sort", 's', OPTION_CHOICE, offsetof(struct options, sort), "KEY",
     "instructions, calls or name (default: instructions)", sort_choices},
    INPUT_OPTIONS(struct options),
    {0},
};

static void put_summary_json(struct json *j, const struct ptah_session *session,
			     const struct profile_totals *t)
{
	json_string(j, "command", ptah_session_command(session));
	json_number(j, "threads", t->streams);
	json_number(j, "bytes", t->bytes);
	json_number(j, "instructions", t->instructions);
	json_number(j, "blocks", t->blocks);
	json_number(j, "branches", t->branches);
	json_number(j, "errors", t->errors);
	json_number(j, "overflows", t->overflows);
	json_number(j, "gaps", t->gaps);
	json_number(j, "lost_bytes", t->lost_bytes);
	json_array(j, "notes");
	for (size_t i = 0; ptah_session_note(session, i); i++)
		json_string(j, NULL, ptah_session_note(session, i));
	json_end_array(j);
}

/* 12345678 as "12,345,678". */
static const char *grouped(uint64_t value, char text[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, value), k = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			text[k++] = ',';
		text[k++] = digits[i];
	}
	text[k] = '\0';
	return text;
}

static void put_remark(struct out *out, const char *head, const char *text)
{
	out_text(out, head);
	out_clean(out, text);
	out_char(out, '\n');
}

static void put_summary(struct out *out, const struct ptah_session *session,
			const struct profile_totals *t)
{
	const char *command = ptah_session_command(session);
	char a[32], b[32];

	if (command)
		put_remark(out, "# ", command);
	out_format(out, "# %s instructions, %s branches, ", grouped(t->instructions, a),
		   grouped(t->branches, b));
	out_format(out, "%u thread%s, %.2f MB of trace (%.3f bits per instruction)\n",
		   (unsigned)t->streams, t->streams == 1 ? "" : "s", (double)t->bytes / 1e6,
		   t->instructions ? 8.0 * (double)t->bytes / (double)t->instructions : 0.0);
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

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static int by_choice;

static int compare(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (by_choice == 1 && x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	if (by_choice == 2) {
		int order = strcmp(x->name.symbol ? x->name.symbol : x->name.dso,
				   y->name.symbol ? y->name.symbol : y->name.dso);

		if (order)
			return order;
	}
	if (x->instructions != y->instructions)
		return x->instructions < y->instructions ? 1 : -1;
	return x->ip < y->ip ? -1 : x->ip > y->ip;
}

static void put_name(struct out *out, const struct profile_row *row, bool offset)
{
	if (!row->name.symbol) {
		out_format(out, "0x%" PRIx64, row->ip);
		return;
	}
	out_text(out, row->name.symbol);
	if (offset && row->name.offset)
		out_format(out, "+0x%" PRIx64, row->name.offset);
}

/* As wide as the widest, within reason. */
static int object_width(const struct profile_row *rows, size_t n)
{
	size_t width = strlen("object");

	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(rows[i].name.dso);

		if (length > width && length <= 40)
			width = length;
	}
	return (int)width;
}

static void put_rows_text(struct out *out, const struct profile_row *rows, size_t n, size_t shown,
			  uint64_t total, bool blocks)
{
	int width = object_width(rows, shown);
	char a[32], b[32];

	out_format(out, "%7s %17s %13s  %-*s %s\n", "percent", "instructions",
		   blocks ? "executions" : "calls", width, "object", blocks ? "block" : "function");
	for (size_t i = 0; i < shown; i++) {
		const struct profile_row *row = &rows[i];

		out_format(out, "%6.2f%% %17s %13s  %-*s ", percent(row->instructions, total),
			   grouped(row->instructions, a),
			   grouped(blocks ? row->executions : row->calls, b), width, row->name.dso);
		put_name(out, row, blocks);
		if (blocks)
			out_format(out, "  [%u instruction%s]", row->ninsn,
				   row->ninsn == 1 ? "" : "s");
		out_char(out, '\n');
	}
	if (shown < n)
		out_format(out, "%zu more (--limit=0 shows all)\n", n - shown);
}

static void put_rows_json(struct json *j, const struct profile_row *rows, size_t shown,
			  uint64_t total, bool blocks)
{
	json_array(j, blocks ? "hottest_blocks" : "functions");
	for (size_t i = 0; i < shown; i++) {
		const struct profile_row *row = &rows[i];

		json_object(j, NULL, true);
		json_string(j, blocks ? "symbol" : "function", row->name.symbol);
		json_string(j, "object", row->name.path ? row->name.path : row->name.dso);
		json_address(j, "ip", row->ip);
		if (blocks) {
			json_number(j, "offset", row->name.offset);
			json_number(j, "size", row->size);
			json_number(j, "executions", row->executions);
		} else {
			json_number(j, "calls", row->calls);
		}
		json_number(j, "instructions", row->instructions);
		json_real(j, "percent", percent(row->instructions, total));
		json_end_object(j);
	}
	json_end_array(j);
}

static void put_rows_tsv(struct out *out, const struct profile_row *rows, size_t shown,
			 uint64_t total, bool blocks)
{
	out_format(out, "percent\tinstructions\t%s\tobject\t%s\tip\n",
		   blocks ? "executions" : "calls", blocks ? "block" : "function");
	for (size_t i = 0; i < shown; i++) {
		const struct profile_row *row = &rows[i];

		out_format(out, "%.3f\t%" PRIu64 "\t%" PRIu64 "\t%s\t",
			   percent(row->instructions, total), row->instructions,
			   blocks ? row->executions : row->calls,
			   row->name.path ? row->name.path : row->name.dso);
		put_name(out, row, blocks);
		out_format(out, "\t0x%" PRIx64 "\n", row->ip);
	}
}

static void put_report(struct out *out, const struct options *o, const struct ptah_session *session,
		       struct profile_row *rows, size_t n, const struct profile_totals *totals)
{
	size_t shown = o->limit && o->limit < n ? (size_t)o->limit : n;
	struct json json;

	by_choice = o->sort;
	qsort(rows, n, sizeof(*rows), compare);
	if (o->input.format == FORMAT_JSON) {
		json_init(&json, out);
		json_object(&json, NULL, false);
		put_summary_json(&json, session, totals);
		put_rows_json(&json, rows, shown, totals->instructions, o->blocks);
		json_end_object(&json);
		json_finish(&json);
	} else if (o->input.format == FORMAT_TSV) {
		put_rows_tsv(out, rows, shown, totals->instructions, o->blocks);
	} else {
		put_summary(out, session, totals);
		put_rows_text(out, rows, n, shown, totals->instructions, o->blocks);
	}
}

static int add_profile(void *counter, const struct ptah_stream_info *info,
		       struct ptah_profile *profile)
{
	return profile_add(counter, info, profile);
}

static int run(int argc, char **argv)
{
	struct options o = {.limit = 20};
	struct profile_counter *counter = NULL;
	struct ptah_session *session;
	struct names *names = NULL;
	struct profile_row *rows = NULL;
	struct out *out;
	size_t n = 0;
	int status, first = options_parse(&command_report, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
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
		problem = profile_new(&counter);
	if (problem >= 0)
		problem = input_count(&o.input, session, add_profile, counter);
	if (problem >= 0)
		problem = o.blocks ? profile_blocks(counter, names, &rows, &n)
				   : profile_functions(counter, names, &rows, &n);
	if (problem >= 0)
		put_report(out, &o, session, rows, n, profile_totals(counter));
	else
		status = fail(&command_report, "%s", ptah_strerror(problem));
	if (problem >= 0 && profile_totals(counter)->errors)
		status = fail_errors(&command_report, profile_totals(counter)->errors);
	free(rows);
	profile_free(counter);
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
	"tables and named by their address. Calls are entries by a call or a tail jump.",
    .options = option_defs,
    .run = run,
};
