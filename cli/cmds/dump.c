/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct options {
	struct input input;
	bool no_pad, bytes;
};

static const struct option_def option_defs[] = {
    {"no-pad", 0, OPTION_FLAG, offsetof(struct options, no_pad), NULL, "leave PAD packets out",
     NULL},
    {"raw-bytes", 0, OPTION_FLAG, offsetof(struct options, bytes), NULL, "show each packet's bytes",
     NULL},
    INPUT_OPTIONS(struct options),
    {0},
};

struct dump {
	const struct options *o;
	struct out *out;
	struct json json;
	struct progress progress;
	uint64_t bad;
	unsigned count;
};

static void put_bytes(struct out *out, const struct packet_place *place)
{
	for (size_t i = 0; i < place->size && i < 16; i++)
		out_format(out, "%02x", place->bytes[i]);
	if (place->size > 16)
		out_text(out, "...");
}

static void put_text(struct dump *d, const struct packet_place *place, const char *name,
		     const char *payload)
{
	out_format(d->out, "%016" PRIx64 "  ", place->offset);
	if (d->o->bytes) {
		put_bytes(d->out, place);
		for (size_t i = place->size < 16 ? place->size : 16; i < 17; i++)
			out_text(d->out, "  ");
	}
	if (payload[0] || place->has_ip)
		out_format(d->out, "%-10s %s", name, payload);
	else
		out_text(d->out, name);
	if (place->has_ip)
		out_format(d->out, "  %016" PRIx64, place->ip);
	out_char(d->out, '\n');
}

static void put_json(struct dump *d, const struct packet_place *place, const char *name,
		     const char *payload)
{
	json_object(&d->json, NULL, true);
	json_number(&d->json, "offset", place->offset);
	json_number(&d->json, "size", place->size);
	json_string(&d->json, "packet", name);
	json_string(&d->json, "payload", payload);
	if (place->has_ip)
		json_address(&d->json, "ip", place->ip);
	json_end_object(&d->json);
}

static bool each(void *context, const struct packet_place *place)
{
	struct dump *d = context;
	char payload[128] = "";
	const char *name = "(bad)";

	if (!(++d->count & 0xfff)) {
		progress_at(&d->progress, place->offset);
		if (interrupted() || out_failed(d->out))
			return false;
	}
	if (place->status < 0) {
		d->bad++;
		snprintf(payload, sizeof(payload), "%s; skipped %zu bytes",
			 ptah_strerror(place->status), place->size);
	} else {
		if (place->packet.type == PTAH_PACKET_PAD && d->o->no_pad)
			return true;
		name = ptah_packet_name(place->packet.type);
		ptah_packet_format(&place->packet, payload, sizeof(payload));
	}
	switch (d->o->input.format) {
	case FORMAT_JSON:
		put_json(d, place, name, payload);
		break;
	case FORMAT_TSV:
		out_format(d->out, "%" PRIu64 "\t%zu\t%s\t%s\t", place->offset, place->size, name,
			   payload);
		if (place->has_ip)
			out_format(d->out, "0x%" PRIx64, place->ip);
		out_char(d->out, '\n');
		break;
	default:
		put_text(d, place, name, payload);
		break;
	}
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
	packets_each(session, i, each, d);
	if (d->o->input.format == FORMAT_JSON) {
		json_end_array(&d->json);
		json_end_object(&d->json);
	}
	progress_next(&d->progress, info.bytes);
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct dump d = {.o = &o};
	struct ptah_session *session;
	int status, first = options_parse(&command_dump, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = input_open(&command_dump, &o.input, argc - first, argv + first, false, &session);
	if (status)
		return status;
	status = output_open(&command_dump, &o.input, &d.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	json_init(&d.json, d.out);
	progress_begin(&d.progress, &o.input, session, false);
	if (o.input.format == FORMAT_JSON) {
		json_object(&d.json, NULL, false);
		json_array(&d.json, "streams");
	} else if (o.input.format == FORMAT_TSV) {
		out_text(d.out, "offset\tsize\tpacket\tpayload\tip\n");
	}
	for (size_t i = 0; i < ptah_session_streams(session) && !interrupted(); i++)
		if (input_wants(&o.input, session, i))
			dump_stream(&d, session, i);
	if (o.input.format == FORMAT_JSON) {
		json_end_array(&d.json);
		json_end_object(&d.json);
		json_finish(&d.json);
	}
	progress_end(&d.progress);
	status = d.bad || ptah_session_truncated(session) ? EXIT_FAILED : EXIT_OK;
	input_notes(&o.input, session);
	ptah_session_close(session);
	if (d.bad)
		fail(&command_dump, "%" PRIu64 " place%s with bad bytes", d.bad,
		     d.bad == 1 ? "" : "s");
	return output_close(&command_dump, d.out, status);
}

const struct command command_dump = {
    .name = "dump",
    .usage = "[OPTIONS] [FILE]",
    .summary = "the packets of a trace",
    .details =
	"Prints every packet with its offset, name and payload; packets with an IP also show\n"
	"the address it means. Bytes that are no packet are shown as (bad), and reading goes\n"
	"on at the next PSB; the exit status is then 1, as with a recording that was cut short.",
    .options = option_defs,
    .run = run,
};
