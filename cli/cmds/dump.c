/* SPDX-License-Identifier: MIT */
/* ptah dump: the packets of a trace, and the bytes that are no packets. */
#include "dump_view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct options {
	struct input input;
	bool no_pad, no_timing, no_sync, bytes, time;
	const char *packets, *range;
};

static const struct option_def dump_options[] = {
    {.name = "no-pad",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, no_pad),
     .help = "leave PAD packets out",
     .man = "Leave PAD packets out."},
    {.name = "no-timing",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, no_timing),
     .help = "leave TSC, TMA, MTC, CYC and CBR packets out",
     .man = "Leave TSC, TMA, MTC, CYC and CBR packets out."},
    {.name = "packets",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, packets),
     .arg = "LIST",
     .complete = COMPLETE_PACKETS,
     .help = "only these: names, with commas between them",
     .man = "Only the packets that are named, with commas between them and in any "
	    "case: *tip,tip.pge,ovf*. *tnt* stands for TNT-8 and TNT-64, *mode* for "
	    "MODE.Exec and MODE.TSX, *bad* for bytes that are no packet."},
    {.name = "range",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, range),
     .arg = "FROM:TO",
     .help = "only packets that begin at these offsets, TO not among them",
     .man = "Only what begins at these offsets of a stream, *TO* excluded; decimal, "
	    "or hexadecimal with 0x. Either may be left out. Addresses are correct, "
	    "because the packets before the range are decoded too."},
    {.name = "since",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, input.since),
     .arg = "TIME",
     .help = "only from then on: seconds, +SECONDS, -SECONDS or 25%",
     .man = "Only the packets from the last PSB with a time stamp before *TIME* on. *TIME* is in "
	    "seconds as `ptah script --time` and `perf script` print it (12.345678901); "
	    "+*LENGTH* after the first time in the trace or -*LENGTH* before the last one, in "
	    "seconds or with s, ms, us or ns; or a percentage of the time between them (25%). "
	    "What is before is not read."},
    {.name = "until",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, input.until),
     .arg = "TIME",
     .help = "only up to then; what --since takes",
     .man = "Only the packets up to the first PSB with a time stamp after *TIME*, which is as for "
	    "`--since`."},
    {.name = "around",
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, input.around),
     .arg = "TIME[,LENGTH]",
     .man_arg = "*TIME*[`,`*LENGTH*]",
     .help = "only this long around then (default: 1ms)",
     .man = "The same as `--since` and `--until` half of *LENGTH* before and after *TIME*. "
	    "*LENGTH* is in seconds or with s, ms, us or ns."},
    {.name = "raw-bytes",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, bytes),
     .help = "show each packet's bytes",
     .man = "Show the bytes of each packet."},
    {.name = "no-sync",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, no_sync),
     .help = "take the first byte for a packet's, PSB or not",
     .man = "Decode from the first byte. Without this option, packets begin at the "
	    "first PSB."},
    {.name = "time",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, time),
     .help = "show the estimated TSC, and what has passed",
     .man = "Show the estimated TSC where it changes, and the ticks since it was "
	    "last shown. The units of MTC, CYC and CBR packets are taken from the "
	    "recording, or from `--mtc-freq`, `--nom-freq` and `--cpuid-0x15`. TSC packets "
	    "need none. Rows of JSON also have a bound of the estimate's error, "
	    "*tsc_error*, where there is one."},
    {0},
};

/* Which packets */

static bool is_timing(unsigned type)
{
	return type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA || type == PTAH_PACKET_MTC ||
	       type == PTAH_PACKET_CYC || type == PTAH_PACKET_CBR;
}

/* Chooses the packets of a name, or of a family: "tnt" means TNT-8 and TNT-64. */
static bool show_named(struct dump *d, const char *name, size_t n)
{
	bool known = false;

	if (n == 3 && !strncasecmp(name, "bad", n))
		return d->bad_shown = true;
	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++) {
		const char *full = ptah_packet_name(type);
		bool family = (n == 3 && !strncasecmp(full, "TNT-", 4)) ||
			      (n == 4 && !strncasecmp(full, "MODE.", 5));

		if (!strncasecmp(full, name, n) && (!full[n] || family))
			d->shown[type] = known = true;
	}
	return known;
}

static int choose_packets(struct dump *d, const struct options *o)
{
	const char *list = o->packets;

	d->bad_shown = !list;
	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++)
		d->shown[type] = !list;
	while (list && *list) {
		size_t n = strcspn(list, ",");

		if (!show_named(d, list, n)) {
			fail(&command_dump, "--packets: there is no packet \"%.*s\"", (int)n, list);
			return EXIT_USAGE;
		}
		list += n + (list[n] == ',');
	}
	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++)
		if ((o->no_pad && type == PTAH_PACKET_PAD) || (o->no_timing && is_timing(type)))
			d->shown[type] = false;
	return EXIT_OK;
}

/* Parses two numbers with `between` between them. Either may be missing, and its value is then not
 * changed. */
static bool parse_pair(const char *text, char between, uint64_t *first, uint64_t *second)
{
	char *end = (char *)text;

	if (*text >= '0' && *text <= '9')
		*first = strtoull(text, &end, 0);
	if (*end != between)
		return false;
	text = end + 1;
	if (*text >= '0' && *text <= '9')
		*second = strtoull(text, &end, 0);
	else
		end++;
	return !*end;
}

static int choose_range(struct dump *d, const struct options *o)
{
	d->to = UINT64_MAX;
	if (!o->range || parse_pair(o->range, ':', &d->from, &d->to))
		return EXIT_OK;
	fail(&command_dump, "--range=%s: it takes FROM:TO, offsets in the trace", o->range);
	return EXIT_USAGE;
}

/* Time */

/* Takes the units of timing packets from the recording, or from options. */
static void set_clock(struct dump *d, const struct ptah_session *session)
{
	struct ptah_flow_config config;
	const struct ptah_event_config *events = &config.events;

	ptah_session_get_flow(session, &config);
	d->timing = (struct ptah_event_config){
	    .size = sizeof(d->timing),
	    .trace.cyc_threshold = events->trace.cyc_threshold,
	    .trace.mtc_period = events->trace.mtc_period,
	    .nominal_ratio = events->nominal_ratio,
	    .tsc_n = events->tsc_n,
	    .tsc_d = events->tsc_d,
	};
}

static void move_clock(struct dump *d, const struct packet_place *place)
{
	ptah_packet_clock_feed(d->clock, place->status < 0 ? NULL : &place->packet, &d->now);
}

/* The streams */

/* Bytes before the first PSB are not counted as bad: a ring buffer may begin inside a packet. */
bool dump_each(void *dump, const struct packet_place *place)
{
	struct dump *d = dump;

	if (!(++d->count & 0xfff)) {
		progress_at(&d->progress, place->offset);
		if (interrupted() || out_failed(d->out))
			return false;
	}
	if (place->status >= 0)
		d->synced = true;
	else if (place->status != PTAH_E_NO_SYNC && !place->goes_on)
		d->bad++;
	if (d->time)
		move_clock(d, place);
	if (place->offset >= d->to || place->offset >= d->end)
		return false;
	if (place->offset < d->from &&
	    (place->status >= 0 || place->size <= d->from - place->offset))
		return true;
	if (!(place->status < 0 ? d->bad_shown : d->shown[place->packet.type]))
		return true;
	d->renderer->row(d, place);
	return true;
}

/* Packets as text, one of which is like the other but for its offset and address. */
bool dump_many(void *dump, const struct packet_batch *batch)
{
	struct dump *d = dump;

	progress_at(&d->progress, batch->offset);
	if (interrupted() || out_failed(d->out))
		return false;
	d->synced = true;
	dump_text_batch(d, batch);
	return true;
}

bool dump_is_plain_text(const struct dump *d)
{
	return d->input->format == FORMAT_TEXT && !d->time && !d->from && d->to == UINT64_MAX &&
	       d->end == UINT64_MAX;
}

static void dump_stream(struct dump *d, const struct ptah_session *session, size_t i)
{
	struct ptah_stream_info info, whole;
	const struct dump_stream stream = {i, ptah_session_streams(session), &info};
	struct packet_walk walk = {.lost = d->sync ? PTAH_E_NO_SYNC : 0};

	input_stream_info(session, i, &info);
	if (ptah_session_stream_info(session, i, &whole) >= 0)
		info.bytes = whole.bytes;
	ptah_session_window_packets(session, i, &walk.offset, &d->end);
	RENDER(d->renderer, begin_stream, d, &stream);
	d->synced = false;
	ptah_packet_clock_reset(d->clock);
	d->now = (struct ptah_time){0};
	d->shown_time = 0;
	if (walk.offset < d->end && !dump_with_jobs(d, session, i, &walk, info.bytes))
		packets_walk(session, i, &walk, UINT64_MAX, dump_each,
			     dump_is_plain_text(d) ? dump_many : NULL, d);
	d->no_psb |= info.bytes && !d->synced && !interrupted() && d->to == UINT64_MAX &&
		     d->end == UINT64_MAX;
	RENDER(d->renderer, end_stream, d);
	progress_next(&d->progress, info.bytes);
}

static void dump_streams(struct dump *d, const struct ptah_session *session)
{
	progress_begin(&d->progress, d->input, session, false);
	RENDER(d->renderer, begin, d);
	for (size_t i = 0; i < ptah_session_streams(session) && !interrupted(); i++)
		if (input_wants(d->input, session, i))
			dump_stream(d, session, i);
	RENDER(d->renderer, end, d);
	progress_end(&d->progress);
}

static int complain_dump(const struct dump *d)
{
	if (d->bad)
		fail(&command_dump, "%" PRIu64 " place%s with bad bytes", d->bad,
		     d->bad == 1 ? "" : "s");
	if (d->no_psb)
		fail(&command_dump, "%s (--no-sync reads it all the same)",
		     ptah_strerror(PTAH_E_NO_SYNC));
	return d->bad || d->no_psb ? EXIT_FAILED : EXIT_OK;
}

/* Takes over the options. Returns an exit code. */
static int choose_dump_options(struct dump *d, const struct options *o)
{
	int status = choose_packets(d, o);

	d->input = &o->input;
	if ((o->input.since && *o->input.since == '@') ||
	    (o->input.until && *o->input.until == '@') ||
	    (o->input.around && *o->input.around == '@'))
		return fail_usage(&command_dump, "packets are not counted by instructions: give a "
						 "time, or --range=FROM:TO");
	d->renderer = renderer_choose(&command_dump, dump_renderers, o->input.format, "");
	if (!d->renderer)
		return EXIT_USAGE;
	d->bytes = o->bytes;
	d->time = o->time;
	d->sync = !o->no_sync;
	return status ? status : choose_range(d, o);
}

static int run_dump(int argc, char **argv)
{
	struct options o = {0};
	struct dump d = {.end = UINT64_MAX};
	struct ptah_session *session;
	int status, first = options_parse(&command_dump, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = choose_dump_options(&d, &o);
	if (!status)
		status = input_open(&command_dump, &o.input, argc - first, argv + first, false,
				    &session);
	if (status)
		return status;
	status = output_open(&command_dump, &o.input, &d.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	set_clock(&d, session);
	if (ptah_packet_clock_new(&d.timing, &d.clock) < 0) {
		status = fail(&command_dump, "%s", ptah_strerror(PTAH_E_NOMEM));
	} else {
		dump_streams(&d, session);
		input_notes(&o.input, session);
		status = complain_dump(&d);
	}
	ptah_packet_clock_free(d.clock);
	if (ptah_session_truncated(session))
		status = EXIT_FAILED;
	ptah_session_close(session);
	return output_close(&command_dump, d.out, status);
}

const struct command command_dump = {
    .name = "dump",
    .usage = "[OPTIONS] [FILE]",
    .summary = "the packets of a trace",
    .details =
	"Prints every packet with its offset, name and payload; packets with an IP also show\n"
	"the address it means. Bytes that are no packet are shown as such (.bytes), and reading\n"
	"goes on at the next PSB; the exit status is then 1, as with a recording that was cut\n"
	"short. 'ptah asm' makes the trace of the text again, byte for byte.",
    .options = (const struct option_def *const[]){dump_options, ordered_jobs_options, input_options,
						  raw_options, ptxed_options, decode_options,
						  output_options, format_options, quiet_options,
						  help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_dump,
};
