/* SPDX-License-Identifier: MIT */
/* Packets to text, field by field as <ptah/packets.def> says. Freestanding. */
#include "base/compiler.h"
#include "packet/ip.h"
#include "packet/table.h"

#include <string.h>

const char *ptah_packet_name(unsigned type)
{
	return type < ARRAY_SIZE(packet_entries) ? packet_entries[type].name : NULL;
}

/* The width of the column of names, before a payload. */
#define NAME_COLUMN 10

/* Text that grows. What does not fit in the caller's n bytes is counted all the same. */
struct text {
	char *bytes;
	size_t n, length;
};

static void put_char(struct text *text, char c)
{
	if (text->length + 1 < text->n)
		text->bytes[text->length] = c;
	text->length++;
}

static void put_string(struct text *text, const char *string)
{
	while (*string)
		put_char(text, *string++);
}

/* With leading zeros, at least so many digits. */
static void put_number(struct text *text, uint64_t value, unsigned base, unsigned digits)
{
	char buffer[20]; /* of 2^64 in decimal */
	unsigned n = 0;

	for (; value || n < digits; value /= base)
		buffer[n++] = "0123456789abcdef"[value % base];
	while (n)
		put_char(text, buffer[--n]);
}

static void put_hex(struct text *text, uint64_t value, unsigned digits)
{
	put_string(text, "0x");
	put_number(text, value, 16, digits);
}

/* Ends the text with a NUL; its length. */
static int end_text(struct text *text)
{
	if (text->n)
		text->bytes[text->length < text->n ? text->length : text->n - 1] = '\0';
	return (int)text->length;
}

static void put_outcomes(struct text *text, const struct ptah_packet *packet)
{
	for (unsigned i = packet->u.tnt.count < 64 ? packet->u.tnt.count : 64; i-- > 0;)
		put_char(text, packet->u.tnt.bits >> i & 1 ? 'T' : 'N');
}

/* "2: ????????00401000" */
static void put_ip(struct text *text, const struct ptah_packet *packet)
{
	unsigned ipc = packet->u.ip.ipc & 7;
	unsigned digits = packet_ip_bytes[ipc] > 8 ? 0 : 2 * packet_ip_bytes[ipc];

	put_number(text, ipc, 10, 1);
	put_string(text, ": ");
	for (unsigned i = digits; i < 16; i++)
		put_char(text, '?');
	if (digits)
		put_number(text, packet->u.ip.ip, 16, digits);
}

static void put_number_field(struct text *text, const struct ptah_packet *packet,
			     const struct packet_field *f)
{
	uint64_t value = packet_get_field(packet, f);

	if (f->style != PACKET_STYLE_BARE) {
		put_string(text, f->word);
		put_char(text, ' ');
	}
	if (f->style == PACKET_STYLE_DECIMAL)
		put_number(text, value, 10, 1);
	else
		put_hex(text, value, f->size ? 2 * ((const uint8_t *)packet)[f->size] : 1);
}

/* Whether the field is in this packet's text. */
static bool is_shown(const struct ptah_packet *packet, const struct packet_field *f)
{
	switch (f->kind) {
	case PACKET_FIELD_FLAG:
	case PACKET_FIELD_CHOICE:
		return packet_get_field(packet, f) == f->value;
	default:
		return !f->present || ((const uint8_t *)packet)[f->present];
	}
}

static void put_fields(struct text *text, const struct ptah_packet *packet)
{
	const struct packet_field *f = packet_entries[packet->type].fields;
	const size_t begin = text->length;
	bool chosen = false;

	for (; f->kind; f++) {
		/* Of several words for a value the first that fits. */
		if (!is_shown(packet, f) || (f->kind == PACKET_FIELD_CHOICE && chosen))
			continue;
		if (text->length > begin)
			put_char(text, ' ');
		if (f->kind == PACKET_FIELD_FLAG || f->kind == PACKET_FIELD_CHOICE)
			put_string(text, f->word);
		else
			put_number_field(text, packet, f);
		chosen |= f->kind == PACKET_FIELD_CHOICE;
	}
}

static void put_payload(struct text *text, const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		put_outcomes(text, packet);
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		put_ip(text, packet);
		break;
	default:
		if (packet->type < ARRAY_SIZE(packet_entries))
			put_fields(text, packet);
		break;
	}
}

int ptah_packet_format(const struct ptah_packet *packet, char *text, size_t n)
{
	struct text t = {text, n, 0};

	put_payload(&t, packet);
	return end_text(&t);
}

/* Whether the encoder writes the same bytes for this packet. */
static bool is_canonical(const struct ptah_packet *packet, const uint8_t *bytes)
{
	struct ptah_packet plain = *packet;
	uint8_t ours[PTAH_PACKET_MAX_SIZE];
	int size;

	plain.size = 0; /* CYC: the shortest form */
	size = ptah_packet_encode(&plain, ours, sizeof(ours));
	return size == packet->size && !memcmp(ours, bytes, (size_t)size);
}

int ptah_packet_format_line(const struct ptah_packet *packet, const uint8_t *bytes, size_t size,
			    char *text, size_t n)
{
	struct text t = {text, n, 0};

	if (packet) {
		size_t name, payload;

		put_string(&t, ptah_packet_name(packet->type));
		name = t.length;
		while (t.length < NAME_COLUMN)
			put_char(&t, ' ');
		put_char(&t, ' ');
		payload = t.length;
		put_payload(&t, packet);
		if (t.length == payload) /* none: then no blanks, either */
			t.length = name;
		if (is_canonical(packet, bytes))
			return end_text(&t);
	}
	put_string(&t, t.length ? " .bytes" : ".bytes");
	for (size_t i = 0; i < size; i++) {
		put_char(&t, ' ');
		put_number(&t, bytes[i], 16, 2);
	}
	return end_text(&t);
}
