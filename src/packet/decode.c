/* SPDX-License-Identifier: MIT */
/*
 * Decodes one packet: finds its type by the opcodes of <ptah/packets.def>, its
 * size with the function of its shape, and its fields by the table again. Also the
 * PEBS block state, and the addresses of IP packets.
 */
#include "packet/ip.h"
#include "packet/opcode.h"

/*
 * Shapes. decode_<shape>() returns the size of the packet at p, of which n bytes
 * can be read, or an error. It fills the fields that are BY_SHAPE in the table.
 */

static ALWAYS_INLINE int decode_fixed(struct ptah_packet *packet, const uint8_t *p, size_t n,
				      unsigned size, unsigned block)
{
	(void)packet;
	(void)p;
	(void)block;
	return n < size ? PTAH_E_MORE : (int)size;
}

static int decode_psb(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		      unsigned block)
{
	for (size_t i = 2; i < size && i < n; i++)
		if (p[i] != (i & 1 ? EXT_PSB : OPCODE_EXT))
			return PTAH_E_BAD_PACKET;
	return decode_fixed(packet, p, n, size, block);
}

static ALWAYS_INLINE int decode_tnt_8(struct ptah_packet *packet, const uint8_t *p, size_t n,
				      unsigned size, unsigned block)
{
	unsigned count = highest_bit(p[0]) - 1;

	(void)n;
	(void)block;
	packet->u.tnt.count = (uint8_t)count;
	packet->u.tnt.bits = (p[0] >> 1) & ((1u << count) - 1);
	return (int)size;
}

static ALWAYS_INLINE int decode_tnt_64(struct ptah_packet *packet, const uint8_t *p, size_t n,
				       unsigned size, unsigned block)
{
	uint64_t payload;
	unsigned count;

	(void)block;
	if (n < size)
		return PTAH_E_MORE;
	payload = load_le(p + 2, 6);
	if (payload <= 1) /* no stop bit, or nothing below it */
		return PTAH_E_BAD_PACKET;
	count = highest_bit(payload);
	packet->u.tnt.count = (uint8_t)count;
	packet->u.tnt.bits = payload & ((UINT64_C(1) << count) - 1);
	return (int)size;
}

static ALWAYS_INLINE int decode_ip(struct ptah_packet *packet, const uint8_t *p, size_t n,
				   unsigned size, unsigned block)
{
	unsigned bytes = packet_ip_bytes[p[0] >> 5];

	(void)block;
	if (bytes > 8)
		return PTAH_E_BAD_PACKET;
	if (n < size + bytes)
		return PTAH_E_MORE;
	if (n > 8 && bytes < 8)
		packet->u.ip.ip = load_le64(p + 1) & ((UINT64_C(1) << 8 * bytes) - 1);
	else
		packet->u.ip.ip = load_le(p + 1, bytes);
	return (int)(size + bytes);
}

static int decode_exec(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		       unsigned block)
{
	static const uint8_t modes[4] = {
	    PTAH_EXEC_16,
	    [MODE_EXEC_L] = PTAH_EXEC_64,
	    [MODE_EXEC_D] = PTAH_EXEC_32,
	    [MODE_EXEC_L | MODE_EXEC_D] = PTAH_EXEC_UNKNOWN,
	};

	(void)n; /* the opcode has taken both bytes */
	(void)block;
	packet->u.exec.mode = modes[p[1] & (MODE_EXEC_L | MODE_EXEC_D)];
	return packet->u.exec.mode == PTAH_EXEC_UNKNOWN ? PTAH_E_BAD_PACKET : (int)size;
}

static int decode_tsx(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		      unsigned block)
{
	(void)packet;
	(void)n;
	(void)block;
	return (p[1] & 3) == 3 ? PTAH_E_BAD_PACKET : (int)size; /* in a transaction, and aborted */
}

/* SDM "Cycle Count (CYC) Packet": 5 bits, then 7 more in each further byte. */
static int decode_cyc(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		      unsigned block)
{
	uint64_t cycles = p[0] >> 3;
	bool more = p[0] & CYC_MORE;
	unsigned shift = 5;

	(void)block;
	while (more) {
		uint64_t bits;

		if (size >= n)
			return shift < 64 ? PTAH_E_MORE : PTAH_E_BAD_PACKET;
		bits = p[size] >> 1;
		if (shift >= 64 || bits << shift >> shift != bits)
			return PTAH_E_BAD_PACKET;
		cycles |= bits << shift;
		more = p[size] & CYC_MORE_STILL;
		shift += 7;
		size++;
	}
	packet->u.cyc.cycles = cycles;
	return (int)size;
}

static int decode_ptw(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		      unsigned block)
{
	unsigned encoded = p[1] >> PTW_SIZE_SHIFT & PTW_SIZE_MASK;

	if (encoded > 1)
		return PTAH_E_BAD_PACKET;
	return decode_fixed(packet, p, n, size + 4 * encoded, block);
}

static int decode_bip(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		      unsigned block)
{
	return decode_fixed(packet, p, n, block == PTAH_BLOCK_ITEMS_4 ? size : size + 4, block);
}

static int decode_trig(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned size,
		       unsigned block)
{
	bool has_icnt;

	if (n < 2)
		return PTAH_E_MORE;
	has_icnt = p[1] & TRIG_HAS_ICNT;
	packet->u.trig.icnt = has_icnt && n >= 5 ? load_le16(p + 3) : 0;
	return decode_fixed(packet, p, n, has_icnt ? size + 2 : size, block);
}

/* A field at that place: `width` bits from bit `bit` of byte `byte` on. */
static ALWAYS_INLINE uint64_t bits_at(const uint8_t *p, unsigned byte, unsigned bit, unsigned width)
{
	uint64_t value = load_le(p + byte, (bit + width + 7) / 8) >> bit;

	return width < 64 ? value & ((UINT64_C(1) << width) - 1) : value;
}

/* take_<NAME>(): decodes the packet at p, whose opcode is complete. Its size or an error. */
#define FROM_AT(byte, bit, width)	      = bits_at(p, byte, bit, width)
#define FROM_SHIFTED(byte, bit, width, shift) = bits_at(p, byte, bit, width) << (shift)
#define FROM_SIZE_4_8(byte, bit)	      = bits_at(p, byte, bit, 1) ? 4 : 8
#define FROM_BY_SHAPE
#define PTAH_NUMBER(member, word, style, wire, record) (void)(packet->u.member FROM_##wire);
#define PTAH_FLAG(member, word, wire, record)	       (void)(packet->u.member FROM_##wire);
#define PTAH_SIZED(member, word, bytes, byte, record)                                              \
	packet->u.bytes = (uint8_t)(size - (byte));                                                \
	packet->u.member = size - (byte) == 4 ? load_le32(p + (byte)) : load_le64(p + (byte));
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, text,        \
		    example, fields)                                                               \
	static int take_##name(struct ptah_packet *packet, const uint8_t *p, size_t n,             \
			       unsigned block)                                                     \
	{                                                                                          \
		int size = decode_##shape(packet, p, n, least, block);                             \
                                                                                                   \
		if (size < 0)                                                                      \
			return size;                                                               \
		packet->type = PTAH_PACKET_##name;                                                 \
		packet->size = (uint8_t)size;                                                      \
		fields return size;                                                                \
	}
#include <ptah/packets.def>

typedef int taker(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block);

static int take_nothing(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	(void)packet;
	(void)p;
	(void)n;
	(void)block;
	return PTAH_E_BAD_OPCODE;
}

/* Behind OPCODE_MODE. */
static int take_mode(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	if (n < 2)
		return PTAH_E_MORE;
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...)                             \
	if (PAGE_##page == PAGE_mode && (p[1] & (mask)) == (opcode))                               \
		return take_##name(packet, p, n, block);
#include <ptah/packets.def>
	return PTAH_E_BAD_PACKET;
}

/* Behind OPCODE_EXT and EXT_EXT2. */
static int take_ext2(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	if (n < 3)
		return PTAH_E_MORE;
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...)                             \
	if (PAGE_##page == PAGE_ext2 && (p[2] & (mask)) == (opcode))                               \
		return take_##name(packet, p, n, block);
#include <ptah/packets.def>
	return PTAH_E_BAD_OPCODE;
}

/*
 * Opcodes. Two tables hold the function for each first byte, and for each byte after
 * OPCODE_EXT. Each line of packets.def writes its function to the places whose index
 * its opcode matches, and to place 256, which nobody reads, for all others. The opcodes
 * that are a whole byte are written last, over those with fields in the byte.
 */
#define PLACE(b, when, name, opcode, mask)                                                         \
	[(when) && ((b) & (mask)) == (opcode) ? (b) : 256] = take_##name,
#ifdef __cppcheck__ /* One place of each: expanding them all takes it most of a minute. */
#define PLACES(...) PLACE(0, __VA_ARGS__)
#else
#define PLACES_4(b, ...)                                                                           \
	PLACE(b, __VA_ARGS__)                                                                      \
	PLACE((b) + 1, __VA_ARGS__) PLACE((b) + 2, __VA_ARGS__) PLACE((b) + 3, __VA_ARGS__)
#define PLACES_16(b, ...)                                                                          \
	PLACES_4(b, __VA_ARGS__)                                                                   \
	PLACES_4((b) + 4, __VA_ARGS__)                                                             \
	PLACES_4((b) + 8, __VA_ARGS__) PLACES_4((b) + 12, __VA_ARGS__)
#define PLACES_64(b, ...)                                                                          \
	PLACES_16(b, __VA_ARGS__)                                                                  \
	PLACES_16((b) + 16, __VA_ARGS__)                                                           \
	PLACES_16((b) + 32, __VA_ARGS__) PLACES_16((b) + 48, __VA_ARGS__)
#define PLACES(...)                                                                                \
	PLACES_64(0, __VA_ARGS__)                                                                  \
	PLACES_64(64, __VA_ARGS__) PLACES_64(128, __VA_ARGS__) PLACES_64(192, __VA_ARGS__)
#endif

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"

static taker *const ext_takers[257] = {
    PLACES(true, nothing, 0, 0)
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...)                             \
	PLACES(PAGE_##page == PAGE_ext && (mask) != 0xff, name, opcode, mask)
#include <ptah/packets.def>
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...)                             \
	PLACES(PAGE_##page == PAGE_ext && (mask) == 0xff, name, opcode, mask)
#include <ptah/packets.def>
	[EXT_EXT2] = take_ext2,
};

static int take_ext(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	return n < 2 ? PTAH_E_MORE : ext_takers[p[1]](packet, p, n, block);
}

static taker *const first_takers[257] = {
    PLACES(true, nothing, 0, 0)
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...)                             \
	PLACES(PAGE_##page == PAGE_first && (mask) != 0xff, name, opcode, mask)
#include <ptah/packets.def>
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, ...)                             \
	PLACES(PAGE_##page == PAGE_first && (mask) == 0xff, name, opcode, mask)
#include <ptah/packets.def>
	[OPCODE_EXT] = take_ext,
    [OPCODE_MODE] = take_mode,
};

#pragma GCC diagnostic pop

int ptah_packet_decode(struct ptah_packet *packet, const uint8_t *p, size_t n, unsigned block)
{
	if (!n)
		return PTAH_E_MORE;
	if (UNLIKELY(block != PTAH_BLOCK_NONE) && (p[0] & MASK_BIP) == ITEM_BIP)
		return take_BIP(packet, p, n, block);
	/*
	 * The most frequent packets are branched on, because branches are predicted better than
	 * calls through a table. With the table alone a real trace (mruby) took 1.2 times as long,
	 * and one of clock packets 1.3 times (gcc 12, Zen 5, one packet after the other).
	 */
	if ((p[0] & MASK_TNT_8) == OPCODE_TNT_8) {
		if (p[0] == OPCODE_EXT)
			return take_ext(packet, p, n, block);
		if (p[0] == OPCODE_PAD)
			return take_PAD(packet, p, n, block);
		return take_TNT_8(packet, p, n, block);
	}
	if ((p[0] & MASK_CYC) == OPCODE_CYC)
		return take_CYC(packet, p, n, block);
	if ((p[0] & MASK_TIP) == OPCODE_TIP)
		return take_TIP(packet, p, n, block);
	if (p[0] == OPCODE_MTC)
		return take_MTC(packet, p, n, block);
	return first_takers[p[0]](packet, p, n, block);
}

unsigned ptah_packet_block_state(const struct ptah_packet *packet, unsigned block)
{
	switch (packet->type) {
	case PTAH_PACKET_BBP:
		return packet->u.bbp.item_size == 4 ? PTAH_BLOCK_ITEMS_4 : PTAH_BLOCK_ITEMS_8;
	/* These may come between BBP and BEP. */
	case PTAH_PACKET_PAD:
	case PTAH_PACKET_TSC:
	case PTAH_PACKET_TMA:
	case PTAH_PACKET_MTC:
	case PTAH_PACKET_CYC:
	case PTAH_PACKET_CBR:
	case PTAH_PACKET_MNT:
	case PTAH_PACKET_FUP:
	case PTAH_PACKET_EXSTOP:
	case PTAH_PACKET_PWRE:
	case PTAH_PACKET_PWRX:
	case PTAH_PACKET_BIP:
		return block;
	default:
		return PTAH_BLOCK_NONE;
	}
}

bool ptah_packet_ip(uint64_t *last_ip, unsigned ipc, uint64_t payload, uint64_t *ip)
{
	if (ipc == PTAH_IPC_SUPPRESSED)
		return false;
	*last_ip = packet_expand_ip(*last_ip, ipc, payload);
	*ip = *last_ip;
	return true;
}

unsigned ptah_packet_compress_ip(uint64_t *last_ip, uint64_t ip, uint64_t *payload)
{
	unsigned ipc = packet_compress_ip(*last_ip, ip);
	unsigned bytes = packet_ip_bytes[ipc];

	*payload = bytes < 8 ? ip & ((UINT64_C(1) << 8 * bytes) - 1) : ip;
	*last_ip = ip;
	return ipc;
}
