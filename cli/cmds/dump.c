/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct options {
	struct input input;
	bool no_pad, no_timing, no_sync, bytes, time;
	const char *packets, *range, *crystal;
	uint64_t mtc_freq, nominal_ratio;
};

static const struct option_def option_defs[] = {
    {"no-pad", 0, OPTION_FLAG, offsetof(struct options, no_pad), NULL, "leave PAD packets out",
     NULL},
    {"no-timing", 0, OPTION_FLAG, offsetof(struct options, no_timing), NULL,
     "leave TSC, TMA, MTC, CYC and CBR packets out", NULL},
    {"packets", 0, OPTION_TEXT, offsetof(struct options, packets), "LIST",
     "only these: names, with commas between them", NULL},
    {"range", 0, OPTION_TEXT, offsetof(struct options, range), "FROM:TO",
     "only packets that begin at these offsets, TO not among them", NULL},
    {"raw-bytes", 0, OPTION_FLAG, offsetof(struct options, bytes), NULL, "show each packet's bytes",
     NULL},
    {"no-sync", 0, OPTION_FLAG, offsetof(struct options, no_sync), NULL,
     "take the first byte for a packet's, PSB or not", NULL},
    {"time", 0, OPTION_FLAG, offsetof(struct options, time), NULL,
     "show the estimated TSC, and what has passed", NULL},
    {"mtc-freq", 0, OPTION_NUMBER, offsetof(struct options, mtc_freq), "N",
     "with --time: IA32_RTIT_CTL.MTCFreq of the recording", NULL},
    {"nom-freq", 0, OPTION_NUMBER, offsetof(struct options, nominal_ratio), "N",
     "with --time: maximum non-turbo ratio of the processor", NULL},
    {"cpuid-0x15", 0, OPTION_TEXT, offsetof(struct options, crystal), "EAX,EBX",
     "with --time: the TSC's ratio to the crystal clock", NULL},
    INPUT_OPTIONS(struct options),
    {0},
};

struct dump {
	const struct options *o;
	struct out *out;
	struct json json;
	struct progress progress;
	struct ptah_event_config timing; /* what packets are counted in */
	struct ptah_clock *clock;
	struct ptah_time now;
	uint64_t from, to;
	bool shown[PTAH_PACKET_TYPE_MAX], bad_shown;
	bool synced;  /* in this stream */
	bool no_psb;  /* in all of a stream */
	uint64_t bad; /* places */
	uint64_t shown_time;
	unsigned count;
};

/* The bytes of one line of text, and of a row. */
#define LINE_BYTES 16

/* Which packets */

static bool is_timing(unsigned type)
{
	return type == PTAH_PACKET_TSC || type == PTAH_PACKET_TMA || type == PTAH_PACKET_MTC ||
	       type == PTAH_PACKET_CYC || type == PTAH_PACKET_CBR;
}

/* A packet's name, or that of a family: "tnt" for TNT-8 and TNT-64. */
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

static int choose_packets(struct dump *d)
{
	const char *list = d->o->packets;

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
		if ((d->o->no_pad && type == PTAH_PACKET_PAD) ||
		    (d->o->no_timing && is_timing(type)))
			d->shown[type] = false;
	return EXIT_OK;
}

/* "N<between>M"; either may be missing and leaves its value as it was. */
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

static int choose_range(struct dump *d)
{
	d->to = UINT64_MAX;
	if (!d->o->range || parse_pair(d->o->range, ':', &d->from, &d->to))
		return EXIT_OK;
	fail(&command_dump, "--range=%s: it takes FROM:TO, offsets in the trace", d->o->range);
	return EXIT_USAGE;
}

/* Time */

static int set_clock(struct dump *d)
{
	uint64_t eax = 0, ebx = 0;

	if (d->o->mtc_freq > 15 || d->o->nominal_ratio > 255) {
		fail(&command_dump, "--mtc-freq is 15 at most, --nom-freq 255");
		return EXIT_USAGE;
	}
	if (d->o->crystal && (!parse_pair(d->o->crystal, ',', &eax, &ebx) || !eax || !ebx ||
			      eax > UINT32_MAX || ebx > UINT32_MAX)) {
		fail(&command_dump, "--cpuid-0x15=%s: it takes EAX,EBX", d->o->crystal);
		return EXIT_USAGE;
	}
	d->timing.size = sizeof(d->timing);
	d->timing.mtc_freq = (uint8_t)d->o->mtc_freq;
	d->timing.nominal_ratio = (uint8_t)d->o->nominal_ratio;
	d->timing.tsc_ctc_d = (uint32_t)eax;
	d->timing.tsc_ctc_n = (uint32_t)ebx;
	return EXIT_OK;
}

/* What the recording says, unless an option says otherwise. */
static void ask_recording(struct dump *d, const struct ptah_session *session)
{
	struct ptah_flow_config config;
	const struct ptah_event_config *said = &config.events;

	ptah_session_get_flow(session, &config);
	d->timing.cyc_thresh = said->cyc_thresh;
	if (!d->timing.mtc_freq)
		d->timing.mtc_freq = said->mtc_freq;
	if (!d->timing.nominal_ratio)
		d->timing.nominal_ratio = said->nominal_ratio;
	if (d->timing.tsc_ctc_n)
		return;
	d->timing.tsc_ctc_n = said->tsc_ctc_n;
	d->timing.tsc_ctc_d = said->tsc_ctc_d;
}

static void move_clock(struct dump *d, const struct packet_place *place)
{
	if (place->status < 0)
		ptah_clock_lost(d->clock);
	else
		ptah_clock_packet(d->clock, &place->packet);
	ptah_clock_time(d->clock, &d->now);
}

/* A comment, so that the line can still be assembled. */
static void put_time(struct dump *d)
{
	uint64_t now = d->now.tsc;

	if (!now || now == d->shown_time)
		return;
	out_format(d->out, "  # tsc 0x%" PRIx64, now);
	if (d->shown_time)
		out_format(d->out, " +%" PRIu64, now - d->shown_time);
	d->shown_time = now;
}

/* Lines and rows */

static void put_bytes(char *text, const struct packet_place *place)
{
	size_t n = place->size < LINE_BYTES ? place->size : LINE_BYTES;

	for (size_t i = 0; i < n; i++)
		sprintf(text + 2 * i, "%02x", place->bytes[i]);
	strcpy(text + 2 * n, n < place->size ? "..." : "");
}

static void why_bad(const struct packet_place *place, char *text, size_t n)
{
	int status = place->status == PTAH_E_MORE ? PTAH_E_TRUNCATED : place->status;

	if (status == PTAH_E_NO_SYNC)
		snprintf(text, n, "no PSB yet; skipped %zu bytes", place->size);
	else
		snprintf(text, n, "%s; skipped %zu bytes", ptah_strerror(status), place->size);
}

/* All of the bytes, so that they can be assembled; why stands in the first line. */
static void put_bad_text(struct dump *d, const struct packet_place *place)
{
	char text[128];

	for (size_t i = 0; i < place->size; i += LINE_BYTES) {
		size_t n = place->size - i < LINE_BYTES ? place->size - i : LINE_BYTES;

		ptah_packet_format_line(NULL, place->bytes + i, n, text, sizeof(text));
		out_format(d->out, "%016" PRIx64 "  %s", place->offset + i, text);
		if (!i) {
			why_bad(place, text, sizeof(text));
			out_format(d->out, "  # (bad) %s", text);
		}
		out_char(d->out, '\n');
	}
}

static void put_text(struct dump *d, const struct packet_place *place)
{
	char text[256];

	if (place->status < 0) {
		put_bad_text(d, place);
		return;
	}
	out_format(d->out, "%016" PRIx64 "  ", place->offset);
	if (d->o->bytes) {
		put_bytes(text, place);
		out_format(d->out, "%-*s", 2 * LINE_BYTES + 2, text);
	}
	ptah_packet_format_line(&place->packet, place->bytes, place->size, text, sizeof(text));
	out_text(d->out, text);
	if (place->has_ip)
		out_format(d->out, "  %016" PRIx64, place->ip);
	if (d->o->time)
		put_time(d);
	out_char(d->out, '\n');
}

struct row {
	const char *name;
	char payload[128];
	char bytes[2 * LINE_BYTES + 4];
};

static void put_json(struct dump *d, const struct packet_place *place, const struct row *row)
{
	json_object(&d->json, NULL, true);
	json_number(&d->json, "offset", place->offset);
	json_number(&d->json, "size", place->size);
	json_string(&d->json, "packet", row->name);
	json_string(&d->json, "payload", row->payload);
	if (place->has_ip)
		json_address(&d->json, "ip", place->ip);
	if (d->o->bytes)
		json_string(&d->json, "bytes", row->bytes);
	if (d->o->time && d->now.tsc) {
		json_number(&d->json, "tsc", d->now.tsc);
		if (d->now.error != UINT64_MAX)
			json_number(&d->json, "tsc_error", d->now.error);
	}
	json_end_object(&d->json);
}

static void put_tsv(struct dump *d, const struct packet_place *place, const struct row *row)
{
	out_format(d->out, "%" PRIu64 "\t%zu\t%s\t%s\t", place->offset, place->size, row->name,
		   row->payload);
	if (place->has_ip)
		out_format(d->out, "0x%" PRIx64, place->ip);
	if (d->o->bytes)
		out_format(d->out, "\t%s", row->bytes);
	if (d->o->time && d->now.tsc)
		out_format(d->out, "\t%" PRIu64, d->now.tsc);
	else if (d->o->time)
		out_char(d->out, '\t');
	out_char(d->out, '\n');
}

static void put_row(struct dump *d, const struct packet_place *place)
{
	struct row row = {.name = "(bad)"};

	if (place->status < 0) {
		why_bad(place, row.payload, sizeof(row.payload));
	} else {
		row.name = ptah_packet_name(place->packet.type);
		ptah_packet_format(&place->packet, row.payload, sizeof(row.payload));
	}
	put_bytes(row.bytes, place);
	if (d->o->input.format == FORMAT_JSON)
		put_json(d, place, &row);
	else
		put_tsv(d, place, &row);
}

/* Bytes before the first PSB are no damage: a ring buffer begins in the middle of a packet. */
static bool each(void *context, const struct packet_place *place)
{
	struct dump *d = context;

	if (!(++d->count & 0xfff)) {
		progress_at(&d->progress, place->offset);
		if (interrupted() || out_failed(d->out))
			return false;
	}
	if (place->status >= 0)
		d->synced = true;
	else if (place->status != PTAH_E_NO_SYNC && !place->goes_on)
		d->bad++;
	if (d->o->time)
		move_clock(d, place);
	if (place->offset >= d->to)
		return false;
	if (place->offset < d->from &&
	    (place->status >= 0 || place->size <= d->from - place->offset))
		return true;
	if (!(place->status < 0 ? d->bad_shown : d->shown[place->packet.type]))
		return true;
	if (d->o->input.format == FORMAT_TEXT)
		put_text(d, place);
	else
		put_row(d, place);
	return true;
}

static void dump_stream(struct dump *d, const struct ptah_session *session, size_t i)
{
	struct ptah_stream_info info;

	input_stream_info(session, i, &info);
	if (d->o->input.format == FORMAT_JSON) {
		json_object(&d->json, NULL, false);
		json_string(&d->json, "comm", info.comm);
		json_signed(&d->json, "pid", info.pid);
		json_signed(&d->json, "tid", info.tid);
		json_signed(&d->json, "cpu", info.cpu);
		json_array(&d->json, "packets");
	} else if (d->o->input.format == FORMAT_TEXT && !d->o->input.pt) {
		out_format(d->out, "# stream %zu: %s pid %d tid %d cpu %d, %" PRIu64 " bytes\n", i,
			   info.comm[0] ? info.comm : "-", info.pid, info.tid, info.cpu,
			   info.bytes);
	}
	d->synced = false;
	ptah_clock_reset(d->clock);
	d->now = (struct ptah_time){0};
	d->shown_time = 0;
	packets_each(session, i, !d->o->no_sync, each, d);
	d->no_psb |= info.bytes && !d->synced && !interrupted() && d->to == UINT64_MAX;
	if (d->o->input.format == FORMAT_JSON) {
		json_end_array(&d->json);
		json_end_object(&d->json);
	}
	progress_next(&d->progress, info.bytes);
}

static void dump_streams(struct dump *d, const struct ptah_session *session)
{
	const struct options *o = d->o;

	json_init(&d->json, d->out);
	progress_begin(&d->progress, &o->input, session, false);
	if (o->input.format == FORMAT_JSON) {
		json_object(&d->json, NULL, false);
		json_array(&d->json, "streams");
	} else if (o->input.format == FORMAT_TSV) {
		out_format(d->out, "offset\tsize\tpacket\tpayload\tip%s%s\n",
			   o->bytes ? "\tbytes" : "", o->time ? "\ttsc" : "");
	}
	for (size_t i = 0; i < ptah_session_streams(session) && !interrupted(); i++)
		if (input_wants(&o->input, session, i))
			dump_stream(d, session, i);
	if (o->input.format == FORMAT_JSON) {
		json_end_array(&d->json);
		json_end_object(&d->json);
		json_finish(&d->json);
	}
	progress_end(&d->progress);
}

static int complain(const struct dump *d)
{
	if (d->bad)
		fail(&command_dump, "%" PRIu64 " place%s with bad bytes", d->bad,
		     d->bad == 1 ? "" : "s");
	if (d->no_psb)
		fail(&command_dump, "%s (--no-sync reads it all the same)",
		     ptah_strerror(PTAH_E_NO_SYNC));
	return d->bad || d->no_psb ? EXIT_FAILED : EXIT_OK;
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct dump d = {.o = &o};
	struct ptah_session *session;
	int status, first = options_parse(&command_dump, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = choose_packets(&d);
	if (!status)
		status = choose_range(&d);
	if (!status)
		status = set_clock(&d);
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
	ask_recording(&d, session);
	if (ptah_clock_new(&d.timing, &d.clock) < 0) {
		status = fail(&command_dump, "%s", ptah_strerror(PTAH_E_NOMEM));
	} else {
		dump_streams(&d, session);
		status = complain(&d);
	}
	ptah_clock_free(d.clock);
	input_notes(&o.input, session);
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
    .options = option_defs,
    .run = run,
};
