/* SPDX-License-Identifier: MIT */
/* The packets of `ptah dump` as text, JSON and TSV. */
#include "dump_view.h"

#include "output/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The most bytes that a line of text, or a row, shows. */
#define LINE_BYTES 16

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

/* Text */

/* The time stands in a comment, so that `ptah asm` can still read the line. */
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

/* Shows every byte, so that `ptah asm` can restore them; the first line also has the reason. */
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

static void put_text(void *view, const void *row)
{
	const struct packet_place *place = row;
	struct dump *d = view;
	char text[256];

	if (place->status < 0) {
		put_bad_text(d, place);
		return;
	}
	out_format(d->out, "%016" PRIx64 "  ", place->offset);
	if (d->bytes) {
		put_bytes(text, place);
		out_format(d->out, "%-*s", 2 * LINE_BYTES + 2, text);
	}
	ptah_packet_format_line(&place->packet, place->bytes, place->size, text, sizeof(text));
	out_text(d->out, text);
	if (place->has_ip)
		out_format(d->out, "  %016" PRIx64, place->ip);
	if (d->time)
		put_time(d);
	out_char(d->out, '\n');
}

static void begin_stream_text(void *view, const void *stream)
{
	const struct dump_stream *s = stream;
	struct dump *d = view;

	if (d->input->pt && s->count == 1)
		return;
	out_format(d->out, "# stream %zu: %s pid %d tid %d cpu %d, %" PRIu64 " bytes\n", s->number,
		   s->info->comm[0] ? s->info->comm : "-", s->info->pid, s->info->tid, s->info->cpu,
		   s->info->bytes);
}

/* Rows of TSV and JSON */

#define ASKED_BYTES 1u
#define ASKED_TIME  2u

struct row {
	uint64_t offset, size, ip, tsc, tsc_error;
	bool has_ip, has_tsc, has_tsc_error;
	const char *packet, *payload, *bytes;
};

static const struct field fields[] = {
    FIELD(struct row, "offset", FIELD_NUMBER, offset),
    FIELD(struct row, "size", FIELD_NUMBER, size),
    FIELD(struct row, "packet", FIELD_STRING, packet),
    FIELD(struct row, "payload", FIELD_STRING, payload),
    {"ip", "ip", FIELD_ADDRESS, offsetof(struct row, ip), 0, offsetof(struct row, has_ip)},
    {"bytes", "bytes", FIELD_STRING, offsetof(struct row, bytes), ASKED_BYTES, 0},
    {"tsc", "tsc", FIELD_NUMBER, offsetof(struct row, tsc), ASKED_TIME,
     offsetof(struct row, has_tsc)},
    {NULL, "tsc_error", FIELD_NUMBER, offsetof(struct row, tsc_error), ASKED_TIME,
     offsetof(struct row, has_tsc_error)},
};

static const struct row_type row_type = ROW_TYPE(fields);

static unsigned asked(const struct dump *d)
{
	return (d->bytes ? ASKED_BYTES : 0) | (d->time ? ASKED_TIME : 0);
}

/* The texts that a row points to. */
struct texts {
	char payload[128], bytes[2 * LINE_BYTES + 4];
};

static struct row make_row(const struct dump *d, const struct packet_place *place,
			   struct texts *texts)
{
	struct row row = {
	    .offset = place->offset,
	    .size = place->size,
	    .ip = place->ip,
	    .has_ip = place->has_ip,
	    .tsc = d->now.tsc,
	    .has_tsc = d->now.tsc != 0,
	    .tsc_error = d->now.error,
	    .has_tsc_error = d->now.tsc && d->now.error != UINT64_MAX,
	    .packet = "(bad)",
	    .payload = texts->payload,
	    .bytes = texts->bytes,
	};

	if (place->status < 0) {
		why_bad(place, texts->payload, sizeof(texts->payload));
	} else {
		row.packet = ptah_packet_name(place->packet.type);
		ptah_packet_format(&place->packet, texts->payload, sizeof(texts->payload));
	}
	put_bytes(texts->bytes, place);
	return row;
}

static void begin_tsv(void *view)
{
	struct dump *d = view;

	fields_tsv_head(d->out, &row_type, asked(d));
}

static void put_tsv(void *view, const void *place)
{
	struct dump *d = view;
	struct texts texts = {.payload = ""};
	const struct row row = make_row(d, place, &texts);

	fields_tsv(d->out, &row_type, asked(d), &row);
}

static void begin_json(void *view)
{
	struct dump *d = view;

	json_init(&d->json, d->out);
	json_object(&d->json, NULL, false);
	json_array(&d->json, "streams");
}

static void begin_stream_json(void *view, const void *stream)
{
	const struct ptah_stream_info *info = ((const struct dump_stream *)stream)->info;
	struct dump *d = view;

	json_object(&d->json, NULL, false);
	json_string(&d->json, "comm", info->comm);
	json_signed(&d->json, "pid", info->pid);
	json_signed(&d->json, "tid", info->tid);
	json_signed(&d->json, "cpu", info->cpu);
	json_array(&d->json, "packets");
}

static void put_json(void *view, const void *place)
{
	struct dump *d = view;
	struct texts texts = {.payload = ""};
	const struct row row = make_row(d, place, &texts);

	fields_json(&d->json, &row_type, asked(d), &row);
}

static void end_array_json(void *view)
{
	struct dump *d = view;

	json_end_array(&d->json);
	json_end_object(&d->json);
}

static void end_json(void *view)
{
	end_array_json(view);
	json_finish(&((struct dump *)view)->json);
}

const struct renderer dump_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin_stream = begin_stream_text, .row = put_text, .offered = true},
    [FORMAT_JSON] = {.begin = begin_json,
		     .begin_stream = begin_stream_json,
		     .row = put_json,
		     .end_stream = end_array_json,
		     .end = end_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_tsv, .row = put_tsv, .offered = true},
};
