/* SPDX-License-Identifier: MIT */
/*
 * <ptah/packets.def> as data, for what looks at packets one field after the other
 * and need not be fast: packet text in both directions, tests, seeds. Freestanding.
 */
#ifndef PTAH_PACKET_TABLE_H
#define PTAH_PACKET_TABLE_H

#include "packet/opcode.h"

#include <ptah/packet.h>

enum packet_field_kind {
	PACKET_FIELD_END = 0,
	PACKET_FIELD_NUMBER,
	PACKET_FIELD_OPTIONAL, /* a number that text may leave out */
	PACKET_FIELD_FLAG,     /* a word that sets a bool */
	PACKET_FIELD_CHOICE,   /* a word that sets a byte to `value` */
};

enum packet_field_style {
	PACKET_STYLE_DECIMAL = 0,
	PACKET_STYLE_HEX,
	PACKET_STYLE_BARE,   /* hexadecimal, without the word */
	PACKET_STYLE_HIDDEN, /* not in the text */
};

struct packet_field {
	const char *word;
	uint8_t kind;  /* enum packet_field_kind */
	uint8_t style; /* enum packet_field_style */
	uint8_t at;    /* the member: where in struct ptah_packet, and its bytes */
	uint8_t width;
	uint8_t value;	 /* of a choice */
	uint8_t bits;	 /* sent; 0: the packet's shape knows */
	uint8_t shift;	 /* low bits that are not sent */
	uint8_t present; /* a bool, in struct ptah_packet: whether it is there; 0: always */
	uint8_t size;	 /* a byte, in struct ptah_packet: its bytes, 4 or 8; 0: `bits` says */
};

#define PACKET_FIELDS 5

struct packet_entry {
	const char *name, *text, *example;
	struct packet_field fields[PACKET_FIELDS + 1]; /* those that text has; then an END */
};

extern const struct packet_entry packet_entries[PTAH_PACKET_TYPE_MAX];

/* A field's value. */
uint64_t packet_get_field(const struct ptah_packet *packet, const struct packet_field *field);

/* Sets a field; false when the number is too large for the member. */
bool packet_set_field(struct ptah_packet *packet, const struct packet_field *field, uint64_t value);

#endif
