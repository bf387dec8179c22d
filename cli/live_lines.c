/* SPDX-License-Identifier: MIT */
/* Prints what a live session has measured: a line for each interval, and a table at the end. */
#include "function_table.h"
#include "interrupt.h"
#include "live_view.h"
#include "render.h"

#include "output/fields.h"
#include "output/pager.h"
#include "output/pretty.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How many functions are shown without --limit. */
#define IN_LINE	 5
#define IN_TABLE 20

/* A row as TSV and JSON have it. */
struct flat {
	uint64_t time; /* nanoseconds */
	bool final, timed, waits;
	double percent, calls_per_second;
	uint64_t instructions, calls, total_instructions, total_calls, p50, p99, max, waited, ip;
	const char *object, *label, *name, *times;
};

static const struct field fields[] = {
    FIELD_TSV(struct flat, "time", FIELD_SECONDS, time),
    FIELD_TSV(struct flat, "final", FIELD_BOOL, final),
    FIELD_JSON(struct flat, "function", FIELD_STRING, name),
    FIELD_JSON(struct flat, "object", FIELD_STRING, object),
    FIELD_JSON(struct flat, "ip", FIELD_ADDRESS, ip),
    FIELD(struct flat, "percent", FIELD_REAL, percent),
    FIELD(struct flat, "instructions", FIELD_NUMBER, instructions),
    FIELD(struct flat, "calls", FIELD_NUMBER, calls),
    FIELD(struct flat, "calls_per_second", FIELD_REAL, calls_per_second),
    FIELD(struct flat, "total_instructions", FIELD_NUMBER, total_instructions),
    FIELD(struct flat, "total_calls", FIELD_NUMBER, total_calls),
    {"p50", "p50", FIELD_NUMBER, offsetof(struct flat, p50), 0, offsetof(struct flat, timed)},
    {"p99", "p99", FIELD_NUMBER, offsetof(struct flat, p99), 0, offsetof(struct flat, timed)},
    {"max", "max", FIELD_NUMBER, offsetof(struct flat, max), 0, offsetof(struct flat, timed)},
    FIELD_TSV(struct flat, "object", FIELD_STRING, object),
    FIELD_TSV(struct flat, "function", FIELD_STRING, label),
    FIELD_TSV(struct flat, "times", FIELD_STRING, times),
    {"waited", "waited", FIELD_NUMBER, offsetof(struct flat, waited), 0,
     offsetof(struct flat, waits)},
};

static const struct row_type type = ROW_TYPE(fields);

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static double rate(uint64_t n, double seconds)
{
	return seconds > 0 ? (double)n / seconds : 0;
}

static struct flat flatten(const struct live_view *v, const struct live_row *row, char text[32])
{
	const struct live_measure *m = &v->measure;

	return (struct flat){
	    .time = (uint64_t)(m->seconds * 1e9),
	    .final = m->final,
	    .timed = m->timed && row->timed,
	    .waits = m->waits && row->timed,
	    .percent = share(row->now, m->now),
	    .calls_per_second = rate(row->calls_now, m->length),
	    .instructions = row->now,
	    .calls = row->calls_now,
	    .total_instructions = row->instructions,
	    .total_calls = row->calls,
	    .p50 = row->p50,
	    .p99 = row->p99,
	    .max = row->max,
	    .waited = row->waited,
	    .ip = row->address,
	    .object = row->path ? row->path : "[unknown]",
	    .label = live_label(v, row, text),
	    .name = row->name ? live_label(v, row, text) : NULL,
	    .times = live_times(v),
	};
}

/* How many rows may be shown, of which those are that ran in the interval. */
static size_t shown(const struct live_view *v, size_t usual)
{
	const uint64_t limit = v->options->limit == LIVE_NO_LIMIT ? usual : v->options->limit;

	return limit && limit < v->measure.count ? (size_t)limit : v->measure.count;
}

static bool has_run(const struct live_row *row)
{
	return row->now || row->calls_now;
}

/* JSON */

static void put_coverage_json(const struct live_measure *m, struct json *j)
{
	json_object(j, "coverage", true);
	json_number(j, "blocks", m->coverage.blocks);
	json_number(j, "new_blocks", m->fresh.blocks);
	json_number(j, "edges", m->coverage.edges);
	json_number(j, "new_edges", m->fresh.edges);
	json_number(j, "functions", m->coverage.functions);
	json_number(j, "new_functions", m->fresh.functions);
	json_real(j, "nothing_new_for", m->quiet);
	json_end_object(j);
}

static void put_status_json(const struct live_view *v, struct json *j)
{
	const struct live_measure *m = &v->measure;
	const struct ptah_live_status *s = &m->status;
	const uint64_t bytes = s->bytes - m->before.bytes;

	json_real(j, "time", m->seconds);
	json_bool(j, "final", m->final);
	json_real(j, "interval", m->length);
	json_number(j, "threads", s->threads);
	json_number(j, "processes", s->processes);
	json_number(j, "bytes", bytes);
	json_number(j, "total_bytes", s->bytes);
	json_real(j, "bytes_per_second", rate(bytes, m->length));
	json_number(j, "instructions", m->now);
	json_number(j, "total_instructions", m->instructions);
	json_real(j, "instructions_per_second", rate(m->now, m->length));
	json_number(j, "calls", s->calls - m->before.calls);
	json_number(j, "behind", s->behind);
	json_seconds(j, "lag", s->lag);
	json_seconds(j, "worst_lag", s->worst_lag);
	json_number(j, "dropped", s->dropped);
	json_number(j, "losses", s->losses);
	json_number(j, "errors", s->errors);
	json_number(j, "overflows", s->overflows);
	if (m->covers)
		put_coverage_json(m, j);
	json_string(j, "recorder", v->recorder);
	json_string(j, "times", live_times(v));
	json_bool(j, "estimated", ptah_session_times(ptah_live_session(v->live)).estimated);
}

static void put_live_json(const struct live_view *v, struct out *out)
{
	struct json j;
	char text[32];

	json_init(&j, out);
	json_object(&j, NULL, true);
	put_status_json(v, &j);
	json_array(&j, "functions");
	for (size_t i = 0; i < shown(v, IN_TABLE); i++) {
		const struct live_row *row = &v->measure.rows[i];

		if (!has_run(row))
			continue;
		json_object(&j, NULL, true);
		fields_json_members(&j, &type, 0, &(struct flat[]){flatten(v, row, text)}[0]);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

/* TSV */

static void put_live_tsv(const struct live_view *v, struct out *out)
{
	char text[32];

	for (size_t i = 0; i < shown(v, IN_TABLE); i++) {
		const struct flat row = flatten(v, &v->measure.rows[i], text);

		if (has_run(&v->measure.rows[i]))
			fields_tsv(out, &type, 0, &row);
	}
}

/* Hits */

static void put_hit_json(const struct live_view *v, struct out *out)
{
	const struct live_hit_line *hit = &v->hit;
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL, true);
	json_number(&j, "hit", hit->number);
	json_string(&j, "text", hit->text);
	if (hit->time)
		json_seconds(&j, "time_s", hit->time);
	if (hit->pid > 0)
		json_signed(&j, "pid", hit->pid);
	if (hit->tid > 0)
		json_signed(&j, "tid", hit->tid);
	if (*hit->file)
		json_string(&j, "file", hit->file);
	json_end_object(&j);
	json_finish(&j);
}

static void put_hit_text(const struct live_view *v, struct out *out)
{
	const struct live_hit_line *hit = &v->hit;

	out_format(out, "hit %" PRIu64 ": ", hit->number);
	out_clean(out, hit->text);
	if (hit->tid > 0)
		out_format(out, ", thread %d", hit->tid);
	if (*hit->file) {
		out_text(out, ", in ");
		out_clean(out, hit->file);
	}
	out_char(out, '\n');
}

/* Text */

static void put_live_rates(const struct live_view *v, struct out *out)
{
	const struct live_measure *m = &v->measure;
	const struct ptah_live_status *s = &m->status;
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER];

	out_format(out, "%7.1f s  ", m->seconds);
	out_format(out, "%s/s  ",
		   pretty_bytes((uint64_t)rate(s->bytes - m->before.bytes, m->length), a));
	out_format(out, "%s instructions/s  ", pretty_number((uint64_t)rate(m->now, m->length), b));
	out_format(out, "%zu thread%s  lag %s", s->threads, s->threads == 1 ? "" : "s",
		   pretty_time(s->lag, a));
	if (s->dropped != m->before.dropped)
		out_format(out, "  %s left out", pretty_bytes(s->dropped - m->before.dropped, a));
	if (s->errors != m->before.errors)
		out_format(out, "  %" PRIu64 " errors", s->errors - m->before.errors);
}

static void put_live_coverage(const struct live_measure *m, struct out *out)
{
	char a[PRETTY_NUMBER];

	out_format(out, "  %s blocks", pretty_number(m->coverage.blocks, a));
	out_format(out, " (+%s)", pretty_number(m->fresh.blocks, a));
	out_format(out, "  %s edges", pretty_number(m->coverage.edges, a));
	out_format(out, " (+%s)", pretty_number(m->fresh.edges, a));
	out_format(out, "  %s functions", pretty_number(m->coverage.functions, a));
	out_format(out, " (+%s)", pretty_number(m->fresh.functions, a));
}

static void put_live_line(const struct live_view *v, struct out *out)
{
	const struct live_measure *m = &v->measure;
	char text[32];

	put_live_rates(v, out);
	if (m->covers)
		put_live_coverage(m, out);
	for (size_t i = 0; i < shown(v, IN_LINE); i++) {
		const struct live_row *row = &m->rows[i];

		if (!has_run(row))
			continue;
		out_text(out, i ? ", " : " | ");
		pretty_percent(out, row->now, m->now);
		out_char(out, ' ');
		out_clean(out, live_label(v, row, text));
		out_text(out, " (");
		out_clean(out, live_object(row));
		out_char(out, ')');
	}
	out_char(out, '\n');
}

/* The head of the table, which is that of `ptah report`. */
static void put_live_head(const struct live_view *v, struct out *out)
{
	const struct ptah_live_status *s = &v->measure.status;
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER], c[PRETTY_NUMBER];

	out_text(out, "# ");
	out_clean(out, v->command);
	out_format(out, "\n# %s instructions, %zu thread%s",
		   pretty_number(v->measure.instructions, a), s->threads,
		   s->threads == 1 ? "" : "s");
	if (s->processes > 1)
		out_format(out, " of %zu processes", s->processes);
	out_format(out, ", %s of trace, lag at most %s\n", pretty_bytes(s->bytes, b),
		   pretty_time(s->worst_lag, c));
	if (v->measure.covers) {
		out_format(out, "# reached: %s blocks",
			   pretty_number(v->measure.coverage.blocks, a));
		out_format(out, ", %s edges", pretty_number(v->measure.coverage.edges, a));
		out_format(out, ", %s functions\n",
			   pretty_number(v->measure.coverage.functions, a));
	}
	if (s->errors)
		out_format(out, "# %" PRIu64 " decoding error%s: parts of the path are missing\n",
			   s->errors, s->errors == 1 ? "" : "s");
	if (s->overflows)
		out_format(out, "# %" PRIu64 " overflows: the processor lost packets\n",
			   s->overflows);
	if (s->losses)
		out_format(out, "# %s of trace were left out (--drop), in %" PRIu64 " pieces\n",
			   pretty_bytes(s->dropped, a), s->losses);
	out_char(out, '\n');
}

static void put_table(const struct live_view *v, struct out *out)
{
	const struct live_measure *m = &v->measure;
	struct hotspot *rows = calloc(m->count + 1, sizeof(*rows));
	struct table table = {.rows = rows, .count = m->count, .total = m->instructions};
	char text[32];

	if (!rows)
		return;
	for (size_t i = 0; i < m->count; i++) {
		const struct live_row *row = &m->rows[i];

		rows[i] = (struct hotspot){.ip = row->address,
					   .instructions = row->instructions,
					   .calls = row->calls,
					   .name.dso = live_object(row)};
		if (row->name || !row->address)
			rows[i].name.symbol = live_label(v, row, text);
	}
	table_sort(rows, m->count, TABLE_BY_INSTRUCTIONS);
	table.shown = shown(v, IN_TABLE);
	table_text(out, &table);
	free(rows);
}

/* Output */

/* Writes all, also where the descriptor does not wait. False: errno says why not, EINTR that a
 * signal has ended the waiting. */
static bool write_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		const ssize_t written = write(fd, bytes, n);

		if (written < 0 && errno == EAGAIN)
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		else if (written < 0 && errno != EINTR)
			return false;
		if (written < 0 && consumer_given_up()) {
			errno = EINTR;
			return false;
		}
		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		}
	}
	return true;
}

static bool print_to_file(const struct live_view *v, int fd,
			  void (*print)(const struct live_view *v, struct out *out))
{
	struct out_look look;
	struct out *out;
	size_t n = 0;
	char *text;
	bool written;
	int problem;

	errno = ENOMEM;
	if (out_open_memory(&out) < 0)
		return false;
	terminal_look(fd, (enum color_when)v->options->record.input.color, &look);
	out_set_look(out, &look);
	print(v, out);
	text = out_take(out, &n);
	errno = ENOMEM;
	written = text && write_all(fd, text, n);
	problem = errno;
	free(text);
	errno = problem;
	return written;
}

static void put_tsv_head(const struct live_view *v, struct out *out)
{
	(void)v;
	fields_tsv_head(out, &type, 0);
}

static void put_end(const struct live_view *v, struct out *out)
{
	put_live_head(v, out);
	put_table(v, out);
}

bool live_put_hit(const struct live_view *v, int fd)
{
	switch (v->options->format) {
	case FORMAT_JSON:
		return print_to_file(v, fd, put_hit_json);
	case FORMAT_TSV: /* its rows are functions */
		print_to_file(v, STDERR_FILENO, put_hit_text);
		return true;
	default:
		return print_to_file(v, fd, put_hit_text);
	}
}

bool live_put_head(const struct live_view *v, int fd)
{
	return v->options->format != FORMAT_TSV || print_to_file(v, fd, put_tsv_head);
}

bool live_put_line(const struct live_view *v, int fd)
{
	switch (v->options->format) {
	case FORMAT_JSON:
		return print_to_file(v, fd, put_live_json);
	case FORMAT_TSV:
		return print_to_file(v, fd, put_live_tsv);
	default:
		return print_to_file(v, fd, put_live_line);
	}
}

bool live_put_summary(const struct live_view *v, int fd)
{
	if (v->options->format == FORMAT_JSON || v->options->format == FORMAT_TSV)
		return live_put_line(v, fd);
	return print_to_file(v, fd, put_end);
}
