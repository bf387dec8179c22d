/* SPDX-License-Identifier: MIT */
/* ptah stat: what each stream of a trace consists of, and what was lost. */
#include "output/json.h"
#include "output/rows.h"
#include "progress.h"
#include "render.h"
#include "stream_packets.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
};

struct counts {
	uint64_t bytes, packets[PTAH_PACKET_TYPE_MAX], bad_bytes;
	uint64_t blocks, instructions, classes[PTAH_INSN_CLASS_MAX];
	uint64_t errors, overflows, gaps, lost_bytes;
	struct ptah_item first_error;
	double seconds;
};

/* What a process ran on a CPU that several share. */
struct share {
	int32_t pid;
	uint64_t instructions;
};

/* A stream as it is shown. */
struct row {
	const struct ptah_stream_info *info;
	const struct counts *counts;
	const struct share *shares; /* of a CPU that processes share */
	size_t share_count;
};

struct stat {
	const struct renderer *renderer;
	const struct ptah_session *session;
	struct out *out;
	struct json json;
	struct counts sum;
	unsigned streams;
	double since; /* when the last one was done */
};

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static bool is_shared(const struct ptah_stream_info *info)
{
	return info->pid < 0 && info->tid < 0 && info->cpu >= 0;
}

/* JSON */

/* The key is the text's word in snake_case: TIP.PGE is tip_pge. */
static void put_number(struct json *j, const char *name, uint64_t value)
{
	char key[32];
	size_t i;

	for (i = 0; i < sizeof(key) - 1 && name[i]; i++)
		key[i] =
		    isalnum((unsigned char)name[i]) ? (char)tolower((unsigned char)name[i]) : '_';
	key[i] = '\0';
	json_number(j, key, value);
}

static void put_counts_json(struct json *j, const struct counts *c)
{
	json_number(j, "bytes", c->bytes);
	json_number(j, "bad_bytes", c->bad_bytes);
	json_number(j, "lost_bytes", c->lost_bytes);
	json_number(j, "blocks", c->blocks);
	json_number(j, "instructions", c->instructions);
	json_real(j, "bits_per_instruction",
		  ratio(8.0 * (double)c->bytes, (double)c->instructions));
	json_number(j, "errors", c->errors);
	json_number(j, "overflows", c->overflows);
	json_number(j, "gaps", c->gaps);
	json_real(j, "seconds", c->seconds);
	json_real(j, "mb_per_second", ratio((double)c->bytes / 1e6, c->seconds));
	json_real(j, "million_instructions_per_second",
		  ratio((double)c->instructions / 1e6, c->seconds));
	json_object(j, "branches", false);
	for (unsigned i = 1; i < PTAH_INSN_CLASS_MAX; i++)
		put_number(j, ptah_insn_class_name(i), c->classes[i]);
	json_end_object(j);
	json_object(j, "packets", false);
	for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++)
		if (c->packets[i])
			put_number(j, ptah_packet_name(i), c->packets[i]);
	json_end_object(j);
}

static void begin_json(void *view)
{
	struct stat *s = view;

	json_init(&s->json, s->out);
	json_object(&s->json, NULL, false);
	json_array(&s->json, "streams");
}

static void put_json(void *view, const void *stream)
{
	struct stat *s = view;
	const struct row *row = stream;

	json_object(&s->json, NULL, false);
	json_string(&s->json, "comm", row->info->comm);
	json_signed(&s->json, "pid", row->info->pid);
	json_signed(&s->json, "tid", row->info->tid);
	json_signed(&s->json, "cpu", row->info->cpu);
	put_counts_json(&s->json, row->counts);
	if (is_shared(row->info))
		json_array(&s->json, "processes");
	for (size_t i = 0; i < row->share_count; i++) {
		json_object(&s->json, NULL, true);
		json_signed(&s->json, "pid", row->shares[i].pid);
		json_number(&s->json, "instructions", row->shares[i].instructions);
		json_end_object(&s->json);
	}
	if (is_shared(row->info))
		json_end_array(&s->json);
	json_end_object(&s->json);
}

static void end_json(void *view)
{
	struct stat *s = view;

	json_end_array(&s->json);
	put_counts_json(&s->json, &s->sum);
	json_end_object(&s->json);
	json_finish(&s->json);
}

/* TSV */

struct tsv_row {
	int32_t pid, tid;
	const char *comm;
	uint64_t bytes, blocks, instructions, errors, overflows;
};

static const struct field fields[] = {
    FIELD_TSV(struct tsv_row, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct tsv_row, "tid", FIELD_SIGNED, tid),
    FIELD_TSV(struct tsv_row, "comm", FIELD_STRING, comm),
    FIELD_TSV(struct tsv_row, "bytes", FIELD_NUMBER, bytes),
    FIELD_TSV(struct tsv_row, "blocks", FIELD_NUMBER, blocks),
    FIELD_TSV(struct tsv_row, "instructions", FIELD_NUMBER, instructions),
    FIELD_TSV(struct tsv_row, "errors", FIELD_NUMBER, errors),
    FIELD_TSV(struct tsv_row, "overflows", FIELD_NUMBER, overflows),
};

static const struct row_type row_type = ROW_TYPE(fields);

static void begin_tsv(void *view)
{
	rows_tsv_head(((struct stat *)view)->out, &row_type, 0);
}

static void put_tsv(void *view, const void *stream)
{
	const struct row *row = stream;
	const struct counts *c = row->counts;
	const struct tsv_row tsv = {.pid = row->info->pid,
				    .tid = row->info->tid,
				    .comm = row->info->comm,
				    .bytes = c->bytes,
				    .blocks = c->blocks,
				    .instructions = c->instructions,
				    .errors = c->errors,
				    .overflows = c->overflows};

	rows_tsv(((struct stat *)view)->out, &row_type, 0, &tsv);
}

/* Text */

static void put_line(struct out *out, const char *what, uint64_t value)
{
	out_format(out, "  %-24s %16" PRIu64 "\n", what, value);
}

static void put_counts_text(struct out *out, const struct counts *c)
{
	put_line(out, "bytes", c->bytes);
	if (c->bad_bytes)
		put_line(out, "bad bytes", c->bad_bytes);
	if (c->lost_bytes)
		put_line(out, "lost bytes", c->lost_bytes);
	put_line(out, "blocks", c->blocks);
	put_line(out, "instructions", c->instructions);
	for (unsigned i = 1; i < PTAH_INSN_CLASS_MAX; i++)
		if (c->classes[i])
			out_format(out, "    %-22s %16" PRIu64 "\n", ptah_insn_class_name(i),
				   c->classes[i]);
	out_format(out, "  %-24s %16.3f\n", "bits per instruction",
		   ratio(8.0 * (double)c->bytes, (double)c->instructions));
	put_line(out, "errors", c->errors);
	if (c->errors)
		out_format(out, "    the first at offset 0x%" PRIx64 ", ip 0x%" PRIx64 ": %s\n",
			   c->first_error.offset, c->first_error.ip,
			   ptah_strerror(c->first_error.status));
	put_line(out, "overflows", c->overflows);
	if (c->gaps)
		put_line(out, "gaps without TNT packets", c->gaps);
	out_format(out, "  %-24s %16.1f\n  %-24s %16.1f\n", "decoded, MB/s",
		   ratio((double)c->bytes / 1e6, c->seconds), "decoded, Minsn/s",
		   ratio((double)c->instructions / 1e6, c->seconds));
	out_text(out, "  packets\n");
	for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++)
		if (c->packets[i])
			out_format(out, "    %-22s %16" PRIu64 "\n", ptah_packet_name(i),
				   c->packets[i]);
}

static void put_text(void *view, const void *stream)
{
	struct out *out = ((struct stat *)view)->out;
	const struct row *row = stream;

	if (is_shared(row->info))
		out_format(out, "CPU %d\n", row->info->cpu);
	else
		out_format(out, "%s %d/%d\n", row->info->comm[0] ? row->info->comm : "trace",
			   row->info->pid, row->info->tid);
	put_counts_text(out, row->counts);
	for (size_t i = 0; i < row->share_count; i++)
		out_format(out, "  process %-16d %16" PRIu64 " instructions\n", row->shares[i].pid,
			   row->shares[i].instructions);
}

static void end_text(void *view)
{
	struct stat *s = view;

	if (s->streams < 2)
		return;
	out_format(s->out, "all %u streams\n", s->streams);
	put_counts_text(s->out, &s->sum);
}

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.row = put_text, .end = end_text, .offered = true},
    [FORMAT_JSON] = {.begin = begin_json, .row = put_json, .end = end_json, .offered = true},
    [FORMAT_TSV] = {.begin = begin_tsv, .row = put_tsv, .offered = true},
};

/* Counting */

static int take_totals(struct ptah_profile *profile, struct counts *c)
{
	struct ptah_profile_totals t;
	int status = ptah_profile_totals(profile, &t);

	if (status < 0)
		return status;
	c->blocks = t.blocks;
	c->instructions = t.instructions;
	c->errors = t.errors;
	c->overflows = t.overflows;
	c->gaps = t.gaps;
	c->first_error = t.first_error;
	memcpy(c->classes, t.classes, sizeof(c->classes));
	return 0;
}

static void add(struct counts *sum, const struct counts *c)
{
	sum->bytes += c->bytes;
	sum->bad_bytes += c->bad_bytes;
	sum->blocks += c->blocks;
	sum->instructions += c->instructions;
	if (!sum->errors)
		sum->first_error = c->first_error;
	sum->errors += c->errors;
	sum->overflows += c->overflows;
	sum->gaps += c->gaps;
	sum->lost_bytes += c->lost_bytes;
	sum->seconds += c->seconds;
	for (size_t i = 0; i < PTAH_PACKET_TYPE_MAX; i++)
		sum->packets[i] += c->packets[i];
	for (size_t i = 0; i < PTAH_INSN_CLASS_MAX; i++)
		sum->classes[i] += c->classes[i];
}

static int by_pid(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Each process once. *shares is for the caller to free. */
static int list_shares(const struct stat *s, size_t stream, struct ptah_profile *profile,
		       struct share **shares, size_t *count)
{
	struct ptah_profile_block *blocks;
	size_t n, last = 0;
	int status = ptah_profile_blocks(profile, &blocks, &n);

	if (status < 0)
		return status;
	*count = 0;
	*shares = calloc(n + 1, sizeof(**shares));
	for (size_t i = 0; *shares && i < n; i++)
		(*shares)[i] = (struct share){
		    ptah_session_profile_pid(s->session, stream, profile, blocks[i].space),
		    blocks[i].count * blocks[i].ninsn};
	free(blocks);
	if (!*shares)
		return PTAH_E_NOMEM;
	qsort(*shares, n, sizeof(**shares), by_pid);
	for (size_t i = 1; i < n; i++) {
		if ((*shares)[last].pid == (*shares)[i].pid)
			(*shares)[last].instructions += (*shares)[i].instructions;
		else
			(*shares)[++last] = (*shares)[i];
	}
	*count = n ? last + 1 : 0;
	return 0;
}

/* As input_count() wants it. */
static int take_stream(void *stat, const struct ptah_stream_info *info, size_t stream,
		       struct ptah_profile *profile)
{
	struct stat *s = stat;
	struct counts c = {.bytes = info->bytes, .lost_bytes = info->lost};
	struct share *shares = NULL;
	struct row row = {.info = info, .counts = &c};
	int status = take_totals(profile, &c);

	if (status < 0)
		return status;
	c.seconds = now() - s->since;
	c.bad_bytes = packets_count(s->session, stream, c.packets);
	s->since = now();
	add(&s->sum, &c);
	s->streams++;
	if (is_shared(info))
		status = list_shares(s, stream, profile, &shares, &row.share_count);
	if (status < 0)
		return status;
	row.shares = shares;
	s->renderer->row(s, &row);
	free(shares);
	return 0;
}

static int run(int argc, char **argv)
{
	struct options o = {.input.format = FORMAT_TEXT};
	struct stat s = {.streams = 0};
	struct ptah_session *session;
	int status, first = options_parse(&command_stat, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
	status = input_open(&command_stat, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_stat, &o.input, &s.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	s.session = session;
	s.renderer = &renderers[o.input.format];
	RENDER(s.renderer, begin, &s);
	s.since = now();
	problem = input_count(&o.input, session, take_stream, &s);
	RENDER(s.renderer, end, &s);
	input_notes(&o.input, session);
	ptah_session_close(session);
	if (problem < 0)
		status = fail(&command_stat, "%s", ptah_strerror(problem));
	else if (s.sum.errors)
		status = fail_errors(&command_stat, s.sum.errors);
	return output_close(&command_stat, s.out, status);
}

const struct command command_stat = {
    .name = "stat",
    .usage = "[OPTIONS] [FILE]",
    .summary = "what a trace consists of, and what was lost",
    .details =
	"Counts packets by type, blocks, instructions, branches by kind, errors and losses, for\n"
	"each stream and all together, and tells how fast they were decoded; for a CPU that\n"
	"several processes share, also what each of them ran.",
    .options = (const struct option_def *const[]){jobs_options, input_options, raw_options,
						  decode_options, output_options, format_options,
						  quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run,
};
