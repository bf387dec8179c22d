/* SPDX-License-Identifier: MIT */
/* ptah stat: what each stream of a trace consists of, and what was lost. */
#include "progress.h"
#include "stat_view.h"
#include "stream_packets.h"
#include "window.h"

#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	bool per_thread;
};

static const struct option_def stat_options[] = {
    {.name = "per-thread",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, per_thread),
     .help = "after the summary, each thread's own counts",
     .man = "After the summary, show the counts of each thread or, where a stream is that "
	    "of a CPU which several processes share, of each CPU and the instructions of its "
	    "processes; then the namespaces that threads were in and the control groups, where "
	    "perf recorded them (`--namespaces`, `--all-cgroups`). JSON has all of it in any case, "
	    "TSV the streams."},
    {0},
};

static int take_totals(struct ptah_profile *profile, struct stat_counts *c)
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

static void add_stat_counts(struct stat_counts *sum, const struct stat_counts *c)
{
	sum->part = c->part;
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

/* A callback of input_count(): counts the packets too, and shows the stream. */
static int take_stream(void *stat, const struct ptah_stream_info *info, size_t stream,
		       struct ptah_profile *profile)
{
	struct stat_view *s = stat;
	struct stat_counts c = {
	    .bytes = info->bytes, .lost_bytes = info->lost, .part = window_is_wanted(s->input)};
	struct process_share *shares = NULL;
	struct stat_row row = {.info = info, .counts = &c};
	int status = take_totals(profile, &c);

	if (status < 0)
		return status;
	c.seconds = now() - s->since;
	if (!s->sum.errors && c.errors)
		s->first_bad = *info;
	/* The edges of a window are anywhere between packets. */
	if (!c.part)
		c.bad_bytes = packets_count(s->session, stream, c.packets);
	s->since = now();
	add_stat_counts(&s->sum, &c);
	s->streams++;
	if (shares_has(info))
		status = shares_list(s->session, stream, profile, &shares, &row.share_count);
	if (status < 0)
		return status;
	row.shares = shares;
	s->renderer->row(s, &row);
	free(shares);
	return s->status;
}

static int run_stat(int argc, char **argv)
{
	struct options o = {.input.format = FORMAT_TEXT};
	struct stat_view s = {.streams = 0};
	struct ptah_session *session;
	int status, first = options_parse(&command_stat, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
	s.renderer = renderer_choose(&command_stat, stat_renderers, o.input.format, "");
	if (!s.renderer)
		return EXIT_USAGE;
	o.input.samples = true;
	status = input_open(&command_stat, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_stat, &o.input, &s.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	s.session = session;
	s.input = &o.input;
	s.per_thread = o.per_thread;
	RENDER(s.renderer, begin, &s);
	s.since = now();
	problem = input_count(&o.input, session, take_stream, &s);
	RENDER(s.renderer, end, &s);
	stat_view_free(&s);
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
	"Counts packets by type, blocks, instructions, branches by kind, errors and losses of\n"
	"all streams together, and how fast they were decoded. Remarks about the recording come\n"
	"first: what was not recorded, and whether it was cut. --per-thread shows each stream.",
    .options = (const struct option_def *const[]){stat_options, jobs_options, input_options,
						  raw_options, ptxed_options, window_options,
						  decode_options, output_options, format_options,
						  quiet_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_stat,
};
