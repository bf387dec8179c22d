/* SPDX-License-Identifier: MIT */
/*
 * Decodes packets in batches. The packets that make up nearly all of a trace (PAD, TNT-8 and
 * TNT-64, the IP packets, TSC, MTC, CYC of one or two bytes) are decoded with a table over
 * their first byte. All others, and the last bytes of a buffer, are left to
 * ptah_packet_decode(), so that both ways of decoding mean the same.
 *
 * The loop branches on sizes instead of loading them from the table: the processor then
 * predicts the address of the next packet and need not wait for the load. With loaded sizes
 * the loop took 1.2 times as long on mruby, a real trace, though less on random packets
 * (gcc 12, Zen 5; docs/benchmarks.md).
 *
 * Processors with AVX-512 VBMI decode most packets in another way, in which no packet waits for the
 * one before it: batch_wide.c. This loop is what all others have.
 */
#include "packet/batch.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "packet/ip.h"
#include "packet/opcode.h"
#include "packet/record.h"

/* The most that one step of the fast loop reads, and writes. */
#define STEP_BYTES   16 /* 7 packets of one byte and then one of 9 */
#define STEP_RECORDS 8

/* See take_windows(). */
#define LEAD_BYTES 32

/* Offsets have 32 bits, and the count returned is an int. */
#define MAX_RECORDS ((size_t)1 << 27)

/* How the fast loop treats a first byte: its packet's size, or one of these. */
enum {
	CAREFUL = 0,
	CYC_2 = 10,
	EXT = 11,
};

/* The tables, by first byte. */
#define TOP_BIT(b)                                                                                 \
	((b) >= 128                                                                                \
	     ? 7                                                                                   \
	     : ((b) >= 64                                                                          \
		    ? 6                                                                            \
		    : ((b) >= 32 ? 5 : ((b) >= 16 ? 4 : ((b) >= 8 ? 3 : ((b) >= 4 ? 2 : 1))))))
#define IS_IP(b)                                                                                   \
	(((b)&OPCODE_IP_MASK) == OPCODE_TIP || ((b)&OPCODE_IP_MASK) == OPCODE_TIP_PGE ||           \
	 ((b)&OPCODE_IP_MASK) == OPCODE_TIP_PGD || ((b)&OPCODE_IP_MASK) == OPCODE_FUP)
#define IP_TYPE(b)                                                                                 \
	(((b)&OPCODE_IP_MASK) == OPCODE_TIP	  ? PTAH_PACKET_TIP                                \
	 : ((b)&OPCODE_IP_MASK) == OPCODE_TIP_PGE ? PTAH_PACKET_TIP_PGE                            \
	 : ((b)&OPCODE_IP_MASK) == OPCODE_TIP_PGD ? PTAH_PACKET_TIP_PGD                            \
						  : PTAH_PACKET_FUP)
/* IPBytes are bits 7:5 of the opcode byte. Reserved values are left to the decoder. */
#define IP_SIZE(b) (PACKET_IP_BYTES((b) >> 5) > 8 ? CAREFUL : SIZE_TIP + PACKET_IP_BYTES((b) >> 5))
#define IS_CYC(b)  (((b)&CYC_MASK) == OPCODE_CYC)

#define TYPE(b) ((b) == OPCODE_EXT ? PTAH_PACKET_TNT_64 : TYPE_BUT_EXT(b))
#define TYPE_BUT_EXT(b)                                                                            \
	((b) == OPCODE_PAD   ? PTAH_PACKET_PAD                                                     \
	 : (b) == OPCODE_TSC ? PTAH_PACKET_TSC                                                     \
	 : (b) == OPCODE_MTC ? PTAH_PACKET_MTC                                                     \
	 : IS_CYC(b)	     ? PTAH_PACKET_CYC                                                     \
	 : IS_IP(b)	     ? IP_TYPE(b)                                                          \
			     : PTAH_PACKET_TNT_8)
#define KIND(b)                                                                                    \
	((b) == OPCODE_EXT   ? EXT                                                                 \
	 : !((b)&1)	     ? 1                                                                   \
	 : (b) == OPCODE_TSC ? SIZE_TSC                                                            \
	 : (b) == OPCODE_MTC ? SIZE_MTC                                                            \
	 : IS_CYC(b)	     ? ((b)&CYC_MORE ? CYC_2 : 1)                                          \
	 : IS_IP(b)	     ? IP_SIZE(b)                                                          \
			     : CAREFUL)
#define SIZE(b)	       (KIND(b) == CYC_2 ? 2 : KIND(b) == EXT ? SIZE_TNT_64 : KIND(b))
#define WIDE_SIZE(b)   (KIND(b) == CAREFUL || KIND(b) == EXT ? BATCH_CAREFUL : SIZE(b))
#define IS_TNT(b)      (!((b)&1) && (b) > OPCODE_EXT)
#define DETAIL(b)      (IS_TNT(b) ? TOP_BIT(b) - 1 : IS_IP(b) ? (b) >> 5 : 0)
#define PAYLOAD(b)     (IS_TNT(b) ? ((b) ^ 1 << TOP_BIT(b)) >> 1 : IS_CYC(b) ? (b) >> 3 : 0)
#define ODD_SIZE(half) WIDE_SIZE((half)*2 + 1)
/* By half of an even first byte. */
#define SINGLE_DETAIL(half)  DETAIL((half)*2)
#define SINGLE_PAYLOAD(half) PAYLOAD((half)*2)

#define RECORD(b)                                                                                  \
	{                                                                                          \
		0, TYPE(b), SIZE(b), DETAIL(b), 0, PAYLOAD(b)                                      \
	}

#ifdef __cppcheck__ /* One of each: expanding them all takes it twelve seconds. */
#define BYTES(of)      of(0)
#define HALF_BYTES(of) of(0)
#else
#define TIMES_4(of, b)	of((b)), of((b) + 1), of((b) + 2), of((b) + 3)
#define TIMES_16(of, b) TIMES_4(of, b), TIMES_4(of, b + 4), TIMES_4(of, b + 8), TIMES_4(of, b + 12)
#define TIMES_64(of, b)                                                                            \
	TIMES_16(of, b), TIMES_16(of, b + 16), TIMES_16(of, b + 32), TIMES_16(of, b + 48)
#define HALF_BYTES(of) TIMES_64(of, 0), TIMES_64(of, 64)
#define BYTES(of)      HALF_BYTES(of), TIMES_64(of, 128), TIMES_64(of, 192)
#endif

static const uint8_t kinds[256] = {BYTES(KIND)};
static const struct ptah_packet_record table[256] = {BYTES(RECORD)};

const struct batch_bytes batch_bytes = {{BYTES(WIDE_SIZE)},
					{BYTES(TYPE)},
					{BYTES(DETAIL)},
					{BYTES(PAYLOAD)},
					{HALF_BYTES(SINGLE_DETAIL)},
					{HALF_BYTES(SINGLE_PAYLOAD)},
					{HALF_BYTES(ODD_SIZE)}};

_Static_assert(sizeof(struct ptah_packet_record) == 16, "a record is two words");

/* A record as two words, with the offset in the low half of the first. Compilers use SSE2 or NEON.
 */
typedef uint64_t words __attribute__((vector_size(16)));

/* Writes the record of the packet that begins with `byte`: the table's, plus `more`, which has the
 * offset and the rest of the payload. */
static ALWAYS_INLINE void put_batch_record(struct ptah_packet_record *record, unsigned byte,
					   const words *more)
{
	words w;

	memcpy(&w, &table[byte], sizeof(w));
	w += *more;
	memcpy(record, &w, sizeof(w));
}

/* Packets of one byte, PAD and TNT-8, are even. */
static inline bool is_single(unsigned byte)
{
	return !(byte & 1) && byte != OPCODE_EXT;
}

/* Not 0 if one of the 8 bytes is not a packet of one byte. */
static inline uint64_t find_longer(uint64_t w)
{
	const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
	uint64_t ext = w ^ OPCODE_EXT * ones;

	return (w << 7 & tops) | ((ext - ones) & ~ext & tops);
}

/* Eight packets of one byte. */
static ALWAYS_INLINE void put_8(struct ptah_packet_record *record, uint64_t bytes, words more)
{
	const words next = {1, 0};

	put_batch_record(record, bytes & 0xff, &more);
	more += next;
	put_batch_record(record + 1, bytes >> 8 & 0xff, &more);
	more += next;
	put_batch_record(record + 2, bytes >> 16 & 0xff, &more);
	more += next;
	put_batch_record(record + 3, bytes >> 24 & 0xff, &more);
	more += next;
	put_batch_record(record + 4, bytes >> 32 & 0xff, &more);
	more += next;
	put_batch_record(record + 5, bytes >> 40 & 0xff, &more);
	more += next;
	put_batch_record(record + 6, bytes >> 48 & 0xff, &more);
	more += next;
	put_batch_record(record + 7, bytes >> 56, &more);
}

/* Decodes up to a packet that careful() has to decode, or until bytes or records may not be enough
 * for a step. */
static void fast(struct batch *batch)
{
	const words next = {1, 0};
	const uint8_t *base = batch->base, *p = batch->p, *end = batch->end;
	struct ptah_packet_record *r = batch->r, *limit = batch->limit;

	while ((size_t)(end - p) >= STEP_BYTES && limit - r >= STEP_RECORDS) {
		words more = {(uint64_t)(p - base), 0};
		unsigned byte = p[0];

		if (is_single(byte)) {
			uint64_t w = load_le64(p);

			if (!find_longer(w)) {
				put_8(r, w, more);
				r += 8;
				p += 8;
				continue;
			}
			do {
				put_batch_record(r++, byte, &more);
				more += next;
				p++;
				w >>= 8;
				byte = w & 0xff;
			} while (is_single(byte));
		}
		switch (kinds[byte]) {
#define PACKET(size, payload)                                                                      \
	more[1] = payload;                                                                         \
	put_batch_record(r++, byte, &more);                                                        \
	p += size;                                                                                 \
	break
		case 1:
			PACKET(1, 0);
		case 2:
			PACKET(2, p[1]);
		case 3:
			PACKET(3, load_le16(p + 1));
		case 5:
			PACKET(5, load_le32(p + 1));
		case 7:
			PACKET(7, load_le64(p + 1) << 16 >> 16);
		case 8:
			PACKET(8, load_le64(p) >> 8);
		case 9:
			PACKET(9, load_le64(p + 1));
		case CYC_2:
			if (p[1] & CYC_MORE_STILL)
				goto careful;
			PACKET(2, (uint64_t)(p[1] >> 1) << 5);
		case EXT: {
			uint64_t payload = load_le64(p) >> 16;
			unsigned count;

			/* Only TNT-64 is frequent among these. It needs a stop bit and an outcome.
			 */
			if (p[1] != EXT_TNT_64 || payload <= 1)
				goto careful;
			count = highest_bit(payload);
			more[0] |= (uint64_t)count << 48; /* detail */
			PACKET(8, payload ^ UINT64_C(1) << count);
		}
#undef PACKET
		default:
			goto careful;
		}
	}
careful:
	batch->p = p;
	batch->r = r;
}

/* Decodes one packet with ptah_packet_decode(). Returns its size or an error. */
static NOINLINE int careful(struct batch *batch, unsigned *block)
{
	struct ptah_packet packet;
	int size = ptah_packet_decode(&packet, batch->p, (size_t)(batch->end - batch->p), *block);

	if (size < 0)
		return size;
	*block = ptah_packet_block_state(&packet, *block);
	batch->r->offset = (uint32_t)(batch->p - batch->base);
	packet_pack(batch->r, &packet);
	batch->p += size;
	batch->r++;
	return size;
}

/*
 * Windows, as long as they pay. Packets that careful() has to decode come several at a time (PSB+),
 * each would end a window, and dividing one costs as much as decoding ten packets: so the first
 * bytes after such a packet are the loop's. Returns false if the loop has nothing left to do.
 */
static bool take_windows(struct batch *batch)
{
	const uint8_t *const end = batch->end, *const lead = batch->p + LEAD_BYTES;

	if ((size_t)(end - batch->p) < LEAD_BYTES + STEP_BYTES)
		return true;
	batch->end = lead + STEP_BYTES;
	fast(batch);
	batch->end = end;
	if (batch->p <= lead)
		return false;
	batch_take_windows(batch);
	return true;
}

int packet_decode_batch(struct ptah_packet_cursor *cursor, struct ptah_packet_record *records,
			size_t capacity, bool wide)
{
	size_t most = capacity < MAX_RECORDS ? capacity : MAX_RECORDS;
	struct batch batch = {cursor->next, cursor->next, cursor->end, records, records + most};
	int status = 0;

	while (batch.r < batch.limit) {
		if (cursor->block == PTAH_BLOCK_NONE) {
			if (!wide || take_windows(&batch))
				fast(&batch);
		}
		/* Returning fewer records is faster than filling the last few one by one. */
		if (batch.r != records && batch.limit - batch.r < STEP_RECORDS)
			break;
		status = careful(&batch, &cursor->block);
		if (status < 0)
			break;
	}
	cursor->next = batch.p;
	return batch.r == records ? status : (int)(batch.r - records);
}

int ptah_packet_decode_batch(struct ptah_packet_cursor *cursor, struct ptah_packet_record *records,
			     size_t capacity)
{
	return packet_decode_batch(cursor, records, capacity, batch_prefers_wide());
}
