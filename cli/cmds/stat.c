/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

struct options {
	struct input input;
};

static const struct option_def option_defs[] = {
    INPUT_JOBS_OPTION(struct options),
    INPUT_OPTIONS(struct options),
    {0},
};

struct counts {
	uint64_t bytes, packets[PTAH_PACKET_TYPE_MAX], bad_bytes;
	uint64_t blocks, instructions, classes[PTAH_INSN_CLASS_MAX];
	uint64_t errors, overflows, gaps, lost_bytes;
	struct ptah_item first_error;
	double seconds;
};

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

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

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

static void put_json(struct json *j, const struct counts *c)
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

static void put_row(struct out *out, const char *what, uint64_t value)
{
	out_format(out, "  %-24s %16" PRIu64 "\n", what, value);
}

static void put_text(struct out *out, const struct counts *c)
{
	put_row(out, "bytes", c->bytes);
	if (c->bad_bytes)
		put_row(out, "bad bytes", c->bad_bytes);
	if (c->lost_bytes)
		put_row(out, "lost bytes", c->lost_bytes);
	put_row(out, "blocks", c->blocks);
	put_row(out, "instructions", c->instructions);
	for (unsigned i = 1; i < PTAH_INSN_CLASS_MAX; i++)
		if (c->classes[i])
			out_format(out, "    %-22s %16" PRIu64 "\n", ptah_insn_class_name(i),
				   c->classes[i]);
	out_format(out, "  %-24s %16.3f\n", "bits per instruction",
		   ratio(8.0 * (double)c->bytes, (double)c->instructions));
	put_row(out, "errors", c->errors);
	if (c->errors)
		out_format(out, "    the first at offset 0x%" PRIx64 ", ip 0x%" PRIx64 ": %s\n",
			   c->first_error.offset, c->first_error.ip,
			   ptah_strerror(c->first_error.status));
	put_row(out, "overflows", c->overflows);
	if (c->gaps)
		put_row(out, "gaps without TNT packets", c->gaps);
	out_format(out, "  %-24s %16.1f\n  %-24s %16.1f\n", "decoded, MB/s",
		   ratio((double)c->bytes / 1e6, c->seconds), "decoded, Minsn/s",
		   ratio((double)c->instructions / 1e6, c->seconds));
	out_text(out, "  packets\n");
	for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++)
		if (c->packets[i])
			out_format(out, "    %-22s %16" PRIu64 "\n", ptah_packet_name(i),
				   c->packets[i]);
}

static void put_tsv(struct out *out, const struct ptah_stream_info *info, const struct counts *c)
{
	out_format(out,
		   "%d\t%d\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\n",
		   info->pid, info->tid, info->comm, c->bytes, c->blocks, c->instructions,
		   c->errors, c->overflows);
}

/* What the streams are shown with, one by one. */
struct stat {
	const struct options *o;
	const struct ptah_session *session;
	struct out *out;
	struct json json;
	struct counts sum;
	unsigned streams;
	double since; /* when the last one was done */
};

/* What a process ran on a CPU that several share. */
struct share {
	int32_t pid;
	uint64_t instructions;
};

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

static bool is_shared(const struct ptah_stream_info *info)
{
	return info->pid < 0 && info->tid < 0 && info->cpu >= 0;
}

static int put_shares(struct stat *s, const struct ptah_stream_info *info, size_t stream,
		      struct ptah_profile *profile)
{
	struct share *shares;
	size_t n;
	int status;

	if (!is_shared(info) || s->o->input.format == FORMAT_TSV)
		return 0;
	status = list_shares(s, stream, profile, &shares, &n);
	if (status < 0)
		return status;
	if (s->o->input.format == FORMAT_JSON)
		json_array(&s->json, "processes");
	for (size_t i = 0; i < n; i++) {
		if (s->o->input.format == FORMAT_JSON) {
			json_object(&s->json, NULL, true);
			json_signed(&s->json, "pid", shares[i].pid);
			json_number(&s->json, "instructions", shares[i].instructions);
			json_end_object(&s->json);
		} else {
			out_format(s->out, "  process %-16d %16" PRIu64 " instructions\n",
				   shares[i].pid, shares[i].instructions);
		}
	}
	if (s->o->input.format == FORMAT_JSON)
		json_end_array(&s->json);
	free(shares);
	return 0;
}

static int put(struct stat *s, const struct ptah_stream_info *info, size_t stream,
	       struct ptah_profile *profile, const struct counts *c)
{
	int status = 0;

	if (s->o->input.format == FORMAT_JSON) {
		json_object(&s->json, NULL, false);
		json_string(&s->json, "comm", info->comm);
		json_signed(&s->json, "pid", info->pid);
		json_signed(&s->json, "tid", info->tid);
		json_signed(&s->json, "cpu", info->cpu);
		put_json(&s->json, c);
		status = put_shares(s, info, stream, profile);
		json_end_object(&s->json);
	} else if (s->o->input.format == FORMAT_TSV) {
		put_tsv(s->out, info, c);
	} else {
		if (is_shared(info))
			out_format(s->out, "CPU %d\n", info->cpu);
		else
			out_format(s->out, "%s %d/%d\n", info->comm[0] ? info->comm : "trace",
				   info->pid, info->tid);
		put_text(s->out, c);
		status = put_shares(s, info, stream, profile);
	}
	return status;
}

/* As input_count() wants it. */
static int take_stream(void *stat, const struct ptah_stream_info *info, size_t stream,
		       struct ptah_profile *profile)
{
	struct stat *s = stat;
	struct counts c = {.bytes = info->bytes, .lost_bytes = info->lost};
	int status = take_totals(profile, &c);

	if (status < 0)
		return status;
	c.seconds = now() - s->since;
	c.bad_bytes = packets_count(s->session, stream, c.packets);
	s->since = now();
	add(&s->sum, &c);
	s->streams++;
	return put(s, info, stream, profile, &c);
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct stat s = {.o = &o};
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
	json_init(&s.json, s.out);
	if (o.input.format == FORMAT_JSON) {
		json_object(&s.json, NULL, false);
		json_array(&s.json, "streams");
	} else if (o.input.format == FORMAT_TSV) {
		out_text(s.out, "pid\ttid\tcomm\tbytes\tblocks\tinstructions\terrors\toverflows\n");
	}
	s.since = now();
	problem = input_count(&o.input, session, take_stream, &s);
	if (o.input.format == FORMAT_JSON) {
		json_end_array(&s.json);
		put_json(&s.json, &s.sum);
		json_end_object(&s.json);
		json_finish(&s.json);
	} else if (o.input.format == FORMAT_TEXT && s.streams > 1) {
		out_format(s.out, "all %u streams\n", s.streams);
		put_text(s.out, &s.sum);
	}
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
    .options = option_defs,
    .run = run,
};
