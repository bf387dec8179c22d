/* SPDX-License-Identifier: MIT */
/* The entries of <ptah/packets.def> as data. */
#include "packet/table.h"

#include <string.h>

#define MEMBER(member) offsetof(struct ptah_packet, u.member)
#define WIDTH(member)  sizeof(((struct ptah_packet *)0)->u.member)

const struct packet_entry packet_entries[PTAH_PACKET_TYPE_MAX] = {
#define BITS_AT(byte, bit, width)	     .bits = (width),
#define BITS_SHIFTED(byte, bit, width, down) .bits = (width), .shift = (down),
#define BITS_SIZE_4_8(byte, bit)
#define BITS_BY_SHAPE
#define FIELD(sort, word_, shown, member, ...)                                                     \
	{.word = (word_),                                                                          \
	 .kind = PACKET_FIELD_##sort,                                                              \
	 .style = PACKET_STYLE_##shown,                                                            \
	 .at = MEMBER(member),                                                                     \
	 .width = WIDTH(member),                                                                   \
	 __VA_ARGS__},
#define PTAH_NUMBER(member, word, style, wire, record)                                             \
	FIELD(NUMBER, word, style, member, BITS_##wire)
#define PTAH_OPTIONAL(member, word, style, wire, record)                                           \
	FIELD(OPTIONAL, word, style, member, BITS_##wire)
#define PTAH_NUMBER_IF(member, word, style, wire, record, flag)                                    \
	FIELD(OPTIONAL, word, style, member, BITS_##wire.present = MEMBER(flag))
#define PTAH_SIZED(member, word, bytes, byte, record)                                              \
	FIELD(NUMBER, word, BARE, member, .size = MEMBER(bytes))
#define PTAH_FLAG(member, word, wire, record) FIELD(FLAG, word, DECIMAL, member, .value = 1)
#define PTAH_CHOICE(member, number, word)     FIELD(CHOICE, word, DECIMAL, member, .value = (number))
#define PTAH_HIDDEN(member, wire, record)
#define PTAH_HIDDEN_FLAG(member, wire, record)
#define PTAH_PACKET(name_, sdm, what, section, page, opcode, mask, shape, least, most, text_,      \
		    example_, list)                                                                \
	[PTAH_PACKET_##name_] = {                                                                  \
	    .name = sdm, .text = (text_), .example = (example_), .fields = {list{.word = NULL}}},
#include <ptah/packets.def>
};

uint64_t packet_get_field(const struct ptah_packet *packet, const struct packet_field *field)
{
	uint64_t value = 0;

	memcpy(&value, (const uint8_t *)packet + field->at, field->width);
	return value;
}

bool packet_set_field(struct ptah_packet *packet, const struct packet_field *field, uint64_t value)
{
	memcpy((uint8_t *)packet + field->at, &value, field->width);
	return field->width == 8 || value >> 8 * field->width == 0;
}
