/* SPDX-License-Identifier: MIT */
/* Packets to 16-byte records and back, field by field as <ptah/packets.def> says. */
#include "packet/record.h"
#include "base/bits.h"

void packet_pack(struct ptah_packet_record *record, const struct ptah_packet *packet)
{
	uint8_t detail = 0;
	uint64_t payload = 0;

	switch (packet->type) {
#define INTO_DETAIL(bit)  detail |= (uint8_t)(value << (bit))
#define INTO_PAYLOAD(bit) payload |= value << (bit)
#define PTAH_NUMBER(member, word, style, wire, place)                                              \
	{                                                                                          \
		const uint64_t value = packet->u.member;                                           \
		INTO_##place;                                                                      \
	}
#define PTAH_FLAG(member, word, wire, place)	     PTAH_NUMBER(member, word, HIDDEN, wire, place)
#define PTAH_SIZED(member, word, bytes, byte, place) PTAH_NUMBER(member, word, HIDDEN, wire, place)
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, text,        \
		    example, fields)                                                               \
	case PTAH_PACKET_##name:                                                                   \
		fields break;
#include <ptah/packets.def>
#undef INTO_DETAIL
#undef INTO_PAYLOAD
	default:
		break;
	}
	record->type = packet->type;
	record->size = packet->size;
	record->detail = detail;
	record->reserved = 0;
	record->payload = payload;
}

void ptah_packet_unpack(struct ptah_packet *packet, const struct ptah_packet_record *record)
{
	memset(packet, 0, sizeof(*packet));
	packet->type = record->type;
	packet->size = record->size;
	switch (record->type) {
/* A member takes as many of the bits from there on as it has. */
#define OUT_OF_DETAIL(bit)			      (record->detail >> (bit))
#define OUT_OF_PAYLOAD(bit)			      (record->payload >> (bit))
#define PTAH_NUMBER(member, word, style, wire, place) packet->u.member = OUT_OF_##place;
#define PTAH_FLAG(member, word, wire, place)	      packet->u.member = OUT_OF_##place & 1;
#define PTAH_SIZED(member, word, bytes, byte, place)                                               \
	packet->u.bytes = (uint8_t)(record->size - (byte));                                        \
	packet->u.member = OUT_OF_##place;
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, text,        \
		    example, fields)                                                               \
	case PTAH_PACKET_##name:                                                                   \
		fields break;
#include <ptah/packets.def>
#undef OUT_OF_DETAIL
#undef OUT_OF_PAYLOAD
	default:
		break;
	}
}
