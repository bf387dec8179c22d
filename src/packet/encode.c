/* SPDX-License-Identifier: MIT */
/*
 * Encodes one packet: opcode and fields as <ptah/packets.def> says, and where
 * that leaves something open, the function of the packet's shape.
 */
#include "base/bits.h"
#include "base/compiler.h"
#include "packet/ip.h"
#include "packet/opcode.h"

/*
 * A packet under construction, all 0 at first. There is room for the longest packet and a
 * word after it, so the functions below do not check for room.
 */
struct draft {
	uint8_t bytes[24];
	unsigned size;
};

static bool fits(uint64_t value, unsigned bits)
{
	return bits >= 64 || value >> bits == 0;
}

/* A field, of whose value the low `shift` bits are not sent. False when it does not fit. */
static ALWAYS_INLINE bool put_bits(struct draft *d, unsigned byte, unsigned bit, unsigned width,
				   unsigned shift, uint64_t value)
{
	const uint64_t sent = value >> shift;
	uint8_t *p = d->bytes + byte;

	if (sent << shift != value || !fits(sent, width))
		return false;
	store_le64(p, load_le64(p) | sent << bit);
	return true;
}

/* SIZE_4_8: the bit is set for a size of 4. */
static ALWAYS_INLINE bool put_size(struct draft *d, unsigned byte, unsigned bit, unsigned size)
{
	return (size == 4 || size == 8) && put_bits(d, byte, bit, 1, 0, size == 4);
}

/* A number of `size` bytes, 4 or 8, that ends the packet. */
static bool put_sized(struct draft *d, unsigned byte, unsigned size, uint64_t value)
{
	if ((size != 4 && size != 8) || !fits(value, 8 * size))
		return false;
	store_le64(d->bytes + byte, value);
	d->size = byte + size;
	return true;
}

static ALWAYS_INLINE void put_opcode(struct draft *d, enum packet_page page, unsigned opcode)
{
	uint32_t bytes = opcode;

	if (page == PAGE_ext)
		bytes = OPCODE_EXT | opcode << 8;
	else if (page == PAGE_ext2)
		bytes = OPCODE_EXT | EXT_EXT2 << 8 | opcode << 16;
	else if (page == PAGE_mode)
		bytes = OPCODE_MODE | opcode << 8;
	store_le32(d->bytes, bytes);
}

/*
 * Shapes. encode_<shape>() completes a packet whose opcode and other fields have been written,
 * and whose size is the smallest one. False when the packet cannot be encoded.
 */

static bool encode_fixed(struct draft *d, const struct ptah_packet *packet)
{
	(void)d;
	(void)packet;
	return true;
}

static bool encode_psb(struct draft *d, const struct ptah_packet *packet)
{
	(void)packet;
	store_le64(d->bytes, PSB_WORD);
	store_le64(d->bytes + 8, PSB_WORD);
	return true;
}

/* The outcomes below a stop bit, from bit `bit` of byte `byte` on. */
static bool put_outcomes(struct draft *d, const struct ptah_packet *packet, unsigned byte,
			 unsigned bit, unsigned most)
{
	unsigned count = packet->u.tnt.count;

	if (count < 1 || count > most || !fits(packet->u.tnt.bits, count))
		return false;
	return put_bits(d, byte, bit, most + 1, 0, UINT64_C(1) << count | packet->u.tnt.bits);
}

static bool encode_tnt_8(struct draft *d, const struct ptah_packet *packet)
{
	return put_outcomes(d, packet, 0, 1, 6);
}

static bool encode_tnt_64(struct draft *d, const struct ptah_packet *packet)
{
	return put_outcomes(d, packet, 2, 0, 47);
}

static bool encode_ip(struct draft *d, const struct ptah_packet *packet)
{
	unsigned bytes = packet_ip_bytes[packet->u.ip.ipc & 7];

	if (bytes > 8 || !fits(packet->u.ip.ip, 8 * bytes))
		return false;
	store_le64(d->bytes + d->size, packet->u.ip.ip);
	d->size += bytes;
	return true;
}

static bool encode_exec(struct draft *d, const struct ptah_packet *packet)
{
	switch (packet->u.exec.mode) {
	case PTAH_EXEC_16:
		return true;
	case PTAH_EXEC_32:
		d->bytes[1] |= MODE_EXEC_D;
		return true;
	case PTAH_EXEC_64:
		d->bytes[1] |= MODE_EXEC_L;
		return true;
	default:
		return false;
	}
}

static bool encode_tsx(struct draft *d, const struct ptah_packet *packet)
{
	(void)d;
	return !(packet->u.tsx.in_tx && packet->u.tsx.aborted);
}

/* SDM "Cycle Count (CYC) Packet": 5 bits, then 7 more in each further byte. */
static bool encode_cyc(struct draft *d, const struct ptah_packet *packet)
{
	uint64_t rest = packet->u.cyc.cycles >> 5;
	unsigned wanted = packet->size;

	if (wanted > 10)
		return false;
	d->bytes[0] |= (uint8_t)((packet->u.cyc.cycles & 0x1f) << 3);
	if (rest || wanted > 1)
		d->bytes[0] |= CYC_MORE;
	while (rest || d->size < wanted) {
		uint64_t bits = rest & 0x7f;

		rest >>= 7;
		d->bytes[d->size] = (uint8_t)(bits << 1);
		d->size++;
		if (rest || d->size < wanted)
			d->bytes[d->size - 1] |= CYC_MORE_STILL;
	}
	return true;
}

static bool encode_ptw(struct draft *d, const struct ptah_packet *packet)
{
	d->bytes[1] |= (uint8_t)((packet->u.ptw.size == 8 ? 1u : 0) << PTW_SIZE_SHIFT);
	return true;
}

static bool encode_bip(struct draft *d, const struct ptah_packet *packet)
{
	return encode_fixed(d,
			    packet); /* the size of items is not in a BIP but in the BBP before */
}

static bool encode_trig(struct draft *d, const struct ptah_packet *packet)
{
	if (!packet->u.trig.has_icnt)
		return !packet->u.trig.icnt;
	store_le16(d->bytes + d->size, packet->u.trig.icnt);
	d->size += 2;
	return true;
}

/* False when a field does not fit, or there is no such packet. */
static bool encode(struct draft *d, const struct ptah_packet *packet)
{
	switch (packet->type) {
#define PUT_AT(byte, bit, width)	     put_bits(d, byte, bit, width, 0, value)
#define PUT_SHIFTED(byte, bit, width, shift) put_bits(d, byte, bit, width, shift, value)
#define PUT_SIZE_4_8(byte, bit)		     put_size(d, byte, bit, (unsigned)value)
#define PUT_BY_SHAPE			     ((void)value, true)
#define PTAH_NUMBER(member, word, style, wire, record)                                             \
	{                                                                                          \
		const uint64_t value = packet->u.member;                                           \
		if (!PUT_##wire)                                                                   \
			return false;                                                              \
	}
#define PTAH_FLAG(member, word, wire, record) PTAH_NUMBER(member, word, HIDDEN, wire, record)
#define PTAH_SIZED(member, word, bytes, byte, record)                                              \
	if (!put_sized(d, byte, packet->u.bytes, packet->u.member))                                \
		return false;
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, text,        \
		    example, fields)                                                               \
	case PTAH_PACKET_##name:                                                                   \
		put_opcode(d, PAGE_##page, opcode);                                                \
		d->size = least;                                                                   \
		fields return encode_##shape(d, packet);
#include <ptah/packets.def>
#undef PUT_AT
#undef PUT_SHIFTED
#undef PUT_SIZE_4_8
#undef PUT_BY_SHAPE
	default:
		return false;
	}
}

int ptah_packet_encode(const struct ptah_packet *packet, uint8_t *bytes, size_t n)
{
	struct draft d = {.size = 0};

	if (!encode(&d, packet))
		return PTAH_E_INVAL;
	if (n < d.size)
		return PTAH_E_NOSPACE;
	memcpy(bytes, d.bytes, d.size);
	return (int)d.size;
}
