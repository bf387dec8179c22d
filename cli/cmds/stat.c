/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct options {
	struct input input;
};

static const struct option_def option_defs[] = {
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

static bool count_packet(void *context, const struct packet_place *place)
{
	struct counts *c = context;

	if (place->status < 0)
		c->bad_bytes += place->size;
	else
		c->packets[place->packet.type]++;
	return !interrupted();
}

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

static int count_stream(const struct ptah_session *session, size_t i, struct counts *c,
			struct progress *progress)
{
	struct ptah_stream_info info;
	struct ptah_stream *stream;
	double start;
	int n;

	memset(c, 0, sizeof(*c));
	input_stream_info(session, i, &info);
	c->bytes = info.bytes;
	c->lost_bytes = info.lost;
	packets_each(session, i, false, count_packet, c);
	start = now();
	n = ptah_stream_new(session, i, &stream);
	if (n < 0)
		return n;
	while (!interrupted() && (n = ptah_stream_count(stream)) > 0)
		progress_at(progress, ptah_stream_offset(stream));
	if (n >= 0)
		n = take_totals(ptah_stream_profile(stream), c);
	c->seconds = now() - start;
	ptah_stream_free(stream);
	progress_next(progress, info.bytes);
	return n < 0 ? n : 0;
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

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct counts sum = {0}, c;
	struct progress progress;
	struct ptah_session *session;
	struct json json;
	struct out *out;
	unsigned streams = 0;
	int status, first = options_parse(&command_stat, argc, argv, &o, &status), problem = 0;

	if (first < 0)
		return status;
	status = input_open(&command_stat, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_stat, &o.input, &out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	json_init(&json, out);
	progress_begin(&progress, &o.input, session, true);
	if (o.input.format == FORMAT_JSON) {
		json_object(&json, NULL, false);
		json_array(&json, "streams");
	} else if (o.input.format == FORMAT_TSV) {
		out_text(out, "pid\ttid\tcomm\tbytes\tblocks\tinstructions\terrors\toverflows\n");
	}
	for (size_t i = 0; i < ptah_session_streams(session) && !interrupted() && !problem; i++) {
		struct ptah_stream_info info;

		if (!input_wants(&o.input, session, i))
			continue;
		problem = count_stream(session, i, &c, &progress);
		input_stream_info(session, i, &info);
		add(&sum, &c);
		streams++;
		if (o.input.format == FORMAT_JSON) {
			json_object(&json, NULL, false);
			json_string(&json, "comm", info.comm);
			json_signed(&json, "pid", info.pid);
			json_signed(&json, "tid", info.tid);
			json_signed(&json, "cpu", info.cpu);
			put_json(&json, &c);
			json_end_object(&json);
		} else if (o.input.format == FORMAT_TSV) {
			put_tsv(out, &info, &c);
		} else {
			out_format(out, "%s %d/%d\n", info.comm[0] ? info.comm : "trace", info.pid,
				   info.tid);
			put_text(out, &c);
		}
	}
	progress_end(&progress);
	if (o.input.format == FORMAT_JSON) {
		json_end_array(&json);
		put_json(&json, &sum);
		json_end_object(&json);
		json_finish(&json);
	} else if (o.input.format == FORMAT_TEXT && streams > 1) {
		out_format(out, "all %u streams\n", streams);
		put_text(out, &sum);
	}
	input_notes(&o.input, session);
	ptah_session_close(session);
	if (problem < 0)
		status = fail(&command_stat, "%s", ptah_strerror(problem));
	else if (sum.errors)
		status = fail_errors(&command_stat, sum.errors);
	return output_close(&command_stat, out, status);
}

const struct command command_stat = {
    .name = "stat",
    .usage = "[OPTIONS] [FILE]",
    .summary = "what a trace consists of, and what was lost",
    .details =
	"Counts packets by type, blocks, instructions, branches by kind, errors and losses, for\n"
	"each stream and all together, and tells how fast they were decoded.",
    .options = option_defs,
    .run = run,
};
