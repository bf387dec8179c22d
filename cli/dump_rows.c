/* SPDX-License-Identifier: MIT */
/* The packets of `ptah dump` as text, JSON and TSV. */
#include "dump_view.h"

#include "base/hash.h"
#include "output/fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The most bytes that a line of text, or a row, shows. */
#define LINE_BYTES 16

static void put_packet_bytes(char *text, const struct packet_place *place)
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
static void put_packet_time(struct dump *d)
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

/* The line of a packet after the offset, except for what stands behind it. */
static size_t make_line(const struct dump *d, const struct packet_place *place, char *text,
			size_t room)
{
	size_t n = 0;

	if (d->bytes) {
		put_packet_bytes(text, place);
		for (n = strlen(text); n < 2 * LINE_BYTES + 2; n++)
			text[n] = ' ';
	}
	ptah_packet_format_line(&place->packet, place->bytes, place->size, text + n, room - n);
	return n + strlen(text + n);
}

/*
 * The same, for packets of at most 8 bytes from the cache: nearly all bytes of a trace are packets
 * that come again and again. *n: the length of what is returned.
 */
static struct dump_line *line_of(struct dump *d, uint64_t bytes)
{
	return &d->lines[(hash_number(bytes) >> 48) % DUMP_LINES];
}

static const char *find_packet_line(struct dump *d, const struct packet_place *place, size_t *n)
{
	struct dump_line *line = &d->other;
	uint64_t bytes = 0;

	if (place->size <= sizeof(bytes)) {
		memcpy(&bytes, place->bytes, place->size);
		line = line_of(d, bytes);
	}
	if (line == &d->other || line->bytes != bytes || line->size != place->size ||
	    line->type != place->packet.type) {
		line->length = (uint16_t)make_line(d, place, line->text, sizeof(line->text));
		line->bytes = bytes;
		line->size = (uint8_t)place->size;
		line->type = place->packet.type;
	}
	*n = line->length;
	return line->text;
}

static void put_packet_text(void *view, const void *row)
{
	const struct packet_place *place = row;
	struct dump *d = view;
	const char *line;
	char *at;
	size_t n;

	if (place->status < 0) {
		put_bad_text(d, place);
		return;
	}
	line = find_packet_line(d, place, &n);
	at = out_room(d->out, sizeof(d->other.text) + 64);
	at = text_hex(at, place->offset);
	memcpy(at, "  ", 2);
	at += 2;
	/* Most lines are shorter than this, and a copy of a fixed length is faster. */
	memcpy(at, line, 32);
	if (n > 32)
		memcpy(at + 32, line + 32, n - 32);
	at += n;
	if (place->has_ip) {
		memcpy(at, "  ", 2);
		at = text_hex(at + 2, place->ip);
	}
	if (d->time) {
		out_advance(d->out, at);
		put_packet_time(d);
		at = out_room(d->out, 1);
	}
	*at = '\n';
	out_advance(d->out, at + 1);
}

/* Writes 16 digits, most of which are those of the last offset. */
static char *put_offset(struct dump *d, char *at, uint64_t offset)
{
	static const char digits[] = "0123456789abcdef";

	if (offset >> 8 != d->offset >> 8 || !d->offset_text[0])
		text_hex(d->offset_text, offset);
	d->offset = offset;
	memcpy(at, d->offset_text, 14);
	at[14] = digits[offset >> 4 & 15];
	at[15] = digits[offset & 15];
	return at + 16;
}

/* The line of a packet of a batch, whose bytes at `p` are followed by at least 8 if `whole`. */
static const char *find_record_line(struct dump *d, const struct packet_batch *batch, size_t i,
				    bool whole, size_t *n)
{
	const struct ptah_packet_record *r = &batch->records[i];
	const uint8_t *p = batch->bytes + r->offset;
	struct packet_place place;
	const struct dump_line *line;
	uint64_t bytes;

	if (whole && r->size <= sizeof(bytes)) {
		memcpy(&bytes, p, sizeof(bytes));
		bytes &= UINT64_MAX >> (64 - 8 * r->size);
		line = line_of(d, bytes);
		if (line->bytes == bytes && line->size == r->size && line->type == r->type) {
			*n = line->length;
			return line->text;
		}
	}
	place =
	    (struct packet_place){.offset = batch->offset + r->offset, .bytes = p, .size = r->size};
	ptah_packet_decode(&place.packet, p, r->size, PTAH_BLOCK_NONE);
	return find_packet_line(d, &place, n);
}

static char *put_packet_ip(char *at, const struct ptah_packet_record *r, uint64_t *last_ip)
{
	uint64_t ip;

	if (!ptah_packet_ip(last_ip, r->detail, r->payload, &ip))
		return at;
	memcpy(at, "  ", 2);
	return text_hex(at + 2, ip);
}

static bool has_ip(unsigned type)
{
	return type == PTAH_PACKET_TIP || type == PTAH_PACKET_TIP_PGE ||
	       type == PTAH_PACKET_TIP_PGD || type == PTAH_PACKET_FUP;
}

/* A part of a batch, for which there is room. */
static char *put_packet_records(struct dump *d, const struct packet_batch *batch, size_t first,
				size_t last, char *at)
{
	const uint32_t end = batch->records[batch->count - 1].offset;

	for (size_t i = first; i < last; i++) {
		const struct ptah_packet_record *r = &batch->records[i];
		const char *line;
		char *start = at;
		size_t n;

		if (r->type == PTAH_PACKET_PSB)
			*batch->last_ip = 0;
		line = find_record_line(d, batch, i, end - r->offset >= 8, &n);
		at = put_offset(d, at, batch->offset + r->offset);
		memcpy(at, "  ", 2);
		memcpy(at + 2, line, 32);
		if (n > 32)
			memcpy(at + 34, line + 32, n - 32);
		at += 2 + n;
		if (has_ip(r->type))
			at = put_packet_ip(at, r, batch->last_ip);
		*at++ = '\n';
		if (!d->shown[r->type])
			at = start;
	}
	return at;
}

void dump_text_batch(struct dump *d, const struct packet_batch *batch)
{
	const size_t room = sizeof(d->other.text) + 64, most = OUT_ROOM / room;

	for (size_t i = 0; i < batch->count;) {
		const size_t n = batch->count - i < most ? batch->count - i : most;

		out_advance(d->out,
			    put_packet_records(d, batch, i, i + n, out_room(d->out, n * room)));
		i += n;
	}
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
	put_packet_bytes(texts->bytes, place);
	return row;
}

static void begin_packet_tsv(void *view)
{
	struct dump *d = view;

	fields_tsv_head(d->out, &row_type, asked(d));
}

static void put_packet_tsv(void *view, const void *place)
{
	struct dump *d = view;
	struct texts texts = {.payload = ""};
	const struct row row = make_row(d, place, &texts);

	fields_tsv(d->out, &row_type, asked(d), &row);
}

static void begin_packet_json(void *view)
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

static void put_packet_json(void *view, const void *place)
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

static void end_packet_json(void *view)
{
	end_array_json(view);
	json_finish(&((struct dump *)view)->json);
}

const struct renderer dump_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.begin_stream = begin_stream_text, .row = put_packet_text, .offered = true},
    [FORMAT_JSON] = {.begin = begin_packet_json,
		     .begin_stream = begin_stream_json,
		     .row = put_packet_json,
		     .end_stream = end_array_json,
		     .end = end_packet_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_packet_tsv, .row = put_packet_tsv, .offered = true},
};
