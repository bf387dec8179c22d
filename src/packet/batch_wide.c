/* SPDX-License-Identifier: MIT */
/*
 * Decodes packets 64 bytes at a time with AVX-512 VBMI.
 *
 * Where packets of many sizes alternate, a loop that branches on the size waits for mispredicted
 * branches, and one that adds a loaded size waits for two loads for each packet. Here no packet
 * waits for the one before it. Each byte of a window gets the size that a packet would have that
 * began there. So each position has a next one, and a permutation by itself gives the position that
 * is two packets ahead, then four, and so on: after six of them the positions of all packets are
 * known. Their records are then made eight at a time, in the same way for all sizes.
 */
#include "packet/batch.h"

#include "base/compiler.h"
#include "packet/opcode.h"

#if HAS_WIDE_BATCHES
#include <immintrin.h>

#define WINDOW 64
/* No packet at this position is taken. */
#define LAST (WINDOW - 1)
/* What one window reads: also the byte after it. */
#define READS (WINDOW + 1)
/* Records are written in groups, the last one with some that are overwritten later. */
#define GROUP 8

#define WIDE __attribute__((__target__("avx512f,avx512bw,avx512vl,avx512vbmi,bmi,bmi2")))

/* A packet for each of the first `count` lanes: where it begins, and its first byte and size. */
struct window {
	__m512i bytes; /* of the trace */
	__m512i at, first, size;
	uint64_t long_cycles; /* a bit for each CYC of two bytes */
	unsigned count;
	unsigned end; /* of the last packet */
	bool single;  /* 64 packets of one byte: there are only `bytes`, `count` and `end` */
};

/* What the first bytes say. */
struct first_bytes {
	__m512i type, detail, payload;
};

static const _Alignas(64) uint8_t lane_numbers[WINDOW] = {
    0,	1,  2,	3,  4,	5,  6,	7,  8,	9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* A value for each byte. */
WIDE static ALWAYS_INLINE __m512i look_up(const uint8_t table[256], __m512i bytes)
{
	const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table), bytes,
						     _mm512_load_si512(table + 64));
	const __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(table + 128), bytes,
						      _mm512_load_si512(table + 192));

	return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(bytes), high);
}

/* In a table of odd or of even bytes: the instruction reads 7 bits, here the upper ones. */
WIDE static ALWAYS_INLINE __m512i look_up_half(const uint8_t table[128], __m512i bytes)
{
	return _mm512_permutex2var_epi8(_mm512_load_si512(table), _mm512_srli_epi16(bytes, 1),
					_mm512_load_si512(table + 64));
}

WIDE static ALWAYS_INLINE __mmask64 find_long_cycles(__m512i bytes)
{
	return _mm512_cmpeq_epi8_mask(
	    _mm512_and_si512(bytes, _mm512_set1_epi8(CYC_MASK | CYC_MORE)),
	    _mm512_set1_epi8(OPCODE_CYC | CYC_MORE));
}

/*
 * The position of the packet after the one that begins at each position: the same one where that is
 * not taken, because it does not end before the last byte or is left to others. `next` has the byte
 * after each one.
 */
WIDE static ALWAYS_INLINE __m512i find_steps(__m512i bytes, __m512i next, __m512i sizes,
					     __mmask64 extended)
{
	const __m512i lanes = _mm512_load_si512(lane_numbers);
	const __m512i ends = _mm512_adds_epu8(lanes, sizes);
	const __mmask64 longer = _mm512_mask_test_epi8_mask(find_long_cycles(bytes), next,
							    _mm512_set1_epi8(CYC_MORE_STILL));
	const __mmask64 beyond = _mm512_cmpgt_epu8_mask(ends, _mm512_set1_epi8(LAST));

	return _mm512_mask_mov_epi8(ends, longer | beyond | extended, lanes);
}

/*
 * Where the packets begin, in order, and then, for the other lanes, where the last one ends. `step`
 * leads from each position to that of the packet after it; then to that of the second, 4th, 8th,
 * 16th and 32nd after it. A lane takes those whose bits its number has. At last `step` leads to the
 * end: as the next window waits for that, nothing else is asked for it.
 */
WIDE static ALWAYS_INLINE void find_packets(struct window *w, __m512i step)
{
	static const uint64_t lanes[] = {0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc,
					 0xf0f0f0f0f0f0f0f0, 0xff00ff00ff00ff00,
					 0xffff0000ffff0000, 0xffffffff00000000};
	__m512i at = _mm512_setzero_si512();

	for (unsigned i = 0; i < ARRAY_SIZE(lanes); i++) {
		at = _mm512_mask_permutexvar_epi8(at, lanes[i], at, step);
		step = _mm512_permutexvar_epi8(step, step);
	}
	w->at = at;
	w->end = (unsigned)_mm_cvtsi128_si32(_mm512_castsi512_si128(step)) & 0xff;
	w->count = (unsigned)__builtin_ctzll(
	    _mm512_cmpeq_epi8_mask(at, _mm512_broadcastb_epi8(_mm512_castsi512_si128(step))));
}

/*
 * A window of nothing but one-byte packets needs no division: a branch, which is predicted where
 * they are many, lets the processor begin with the next window at once.
 */
WIDE static ALWAYS_INLINE void divide_window(struct window *w, const uint8_t *p)
{
	__mmask64 odd, extended;
	__m512i sizes;

	w->bytes = _mm512_loadu_si512(p);
	odd = _mm512_test_epi8_mask(w->bytes, _mm512_set1_epi8(1));
	extended = _mm512_cmpeq_epi8_mask(w->bytes, _mm512_set1_epi8(OPCODE_EXT));
	w->single = !(odd | extended);
	if (w->single) {
		w->count = w->end = WINDOW;
		w->long_cycles = 0;
		return;
	}
	sizes = _mm512_mask_mov_epi8(_mm512_set1_epi8(1), odd,
				     look_up_half(batch_bytes.odd_size, w->bytes));
	find_packets(w, find_steps(w->bytes, _mm512_loadu_si512(p + 1), sizes, extended));
	w->size = _mm512_permutexvar_epi8(w->at, sizes);
	w->first = _mm512_permutexvar_epi8(w->at, w->bytes);
	w->long_cycles = _bzhi_u64(find_long_cycles(w->first), w->count);
}

/*
 * Writes the records of eight lanes. `lanes` has each of their numbers eight times, in the order in
 * which the two halves of a record are joined: 0, 4, 1, 5, 2, 6, 3, 7.
 */
WIDE static ALWAYS_INLINE void put_group(struct ptah_packet_record *records, const struct window *w,
					 const struct first_bytes *by, __m512i lanes,
					 uint32_t offset)
{
	/* Masks of the bytes of a half: the offset's first, type, size, detail; the payload's first. */
	const __mmask64 byte_0 = 0x0101010101010101, type = byte_0 << 4, size = byte_0 << 5,
			detail = byte_0 << 6;
	const __m512i count_up = _mm512_set1_epi64(0x0807060504030201);
	const __m512i at = _mm512_permutexvar_epi8(lanes, w->at);
	const __m512i sizes = _mm512_permutexvar_epi8(lanes, w->size);
	const __mmask64 sent = _mm512_cmplt_epu8_mask(count_up, sizes);
	const __m512i rest =
	    _mm512_maskz_permutexvar_epi8(sent, _mm512_add_epi8(at, count_up), w->bytes);
	const __m512i payload =
	    _mm512_or_si512(rest, _mm512_maskz_permutexvar_epi8(byte_0, lanes, by->payload));
	__m512i head = _mm512_add_epi64(_mm512_maskz_mov_epi8(byte_0, at),
					_mm512_set1_epi64((long long)offset));

	head = _mm512_mask_permutexvar_epi8(head, type, lanes, by->type);
	head = _mm512_mask_permutexvar_epi8(head, detail, lanes, by->detail);
	head = _mm512_mask_mov_epi8(head, size, sizes);
	_mm512_storeu_si512(records, _mm512_unpacklo_epi64(head, payload));
	_mm512_storeu_si512(records + 4, _mm512_unpackhi_epi64(head, payload));
}

/* The second byte of a CYC is no payload as it is. */
static NOINLINE void put_long_cycles(struct ptah_packet_record *records, const uint8_t *base,
				     uint64_t lanes)
{
	for (; lanes; lanes &= lanes - 1) {
		struct ptah_packet_record *record = &records[__builtin_ctzll(lanes)];
		const uint8_t *p = base + record->offset;

		record->payload = (uint64_t)(p[1] >> 1) << 5 | p[0] >> 3;
	}
}

WIDE static ALWAYS_INLINE void put_window(struct ptah_packet_record *records,
					  const struct window *w, uint32_t offset)
{
	static const _Alignas(64)
	    uint8_t order[] = {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 1, 1, 1, 1, 1, 1,
			       1, 1, 5, 5, 5, 5, 5, 5, 5, 5, 2, 2, 2, 2, 2, 2, 2, 2, 6, 6, 6, 6,
			       6, 6, 6, 6, 3, 3, 3, 3, 3, 3, 3, 3, 7, 7, 7, 7, 7, 7, 7, 7};
	const struct first_bytes by = {look_up(batch_bytes.type, w->first),
				       look_up(batch_bytes.detail, w->first),
				       look_up(batch_bytes.payload, w->first)};
	__m512i lanes = _mm512_load_si512(order);

	for (unsigned i = 0; i < w->count; i += GROUP) {
		put_group(records + i, w, &by, lanes, offset);
		lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(GROUP));
	}
}

/*
 * Writes the records of 64 packets of one byte, four at a time. Unpacking brings what is known of
 * each packet together: a lane of parts[k] has the packets 4k to 4k + 3 of each 16.
 */
WIDE static ALWAYS_INLINE void put_singles(struct ptah_packet_record *records, __m512i bytes,
					   uint32_t offset)
{
	/* Of each record the type and detail, and the first byte of the payload. */
	const __mmask64 known = 0x0150015001500150;
	const __m512i type = _mm512_mask_mov_epi8(_mm512_set1_epi8(PTAH_PACKET_PAD),
						  _mm512_test_epi8_mask(bytes, bytes),
						  _mm512_set1_epi8(PTAH_PACKET_TNT_8));
	const __m512i detail = look_up_half(batch_bytes.single_detail, bytes);
	const __m512i payload = look_up_half(batch_bytes.single_payload, bytes);
	const __m512i low = _mm512_unpacklo_epi8(type, detail);
	const __m512i high = _mm512_unpackhi_epi8(type, detail);
	const __m512i low_payload = _mm512_unpacklo_epi8(payload, payload);
	const __m512i high_payload = _mm512_unpackhi_epi8(payload, payload);
	const __m512i parts[] = {
	    _mm512_unpacklo_epi16(low, low_payload), _mm512_unpackhi_epi16(low, low_payload),
	    _mm512_unpacklo_epi16(high, high_payload), _mm512_unpackhi_epi16(high, high_payload)};
	/* Where a record finds its bytes: type, detail and payload of part 0, then 4, 8, 12. */
	__m512i from = _mm512_set_epi64(14, 0x000d000c00000000, 10, 0x0009000800000000, 6,
					0x0005000400000000, 2, 0x0001000000000000);
	/* The offsets and sizes. */
	__m512i head = _mm512_add_epi64(
	    _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0),
	    _mm512_maskz_set1_epi64(0x55, (long long)((uint64_t)1 << 40 | offset)));

	for (unsigned i = 0; i < WINDOW / 4; i++) {
		_mm512_storeu_si512(records + (size_t)i * 4,
				    _mm512_or_si512(head, _mm512_maskz_permutexvar_epi8(
							      known, from, parts[i % 4])));
		head = _mm512_add_epi64(head, _mm512_maskz_set1_epi64(0x55, 4));
		if (i % 4 == 3)
			from = _mm512_add_epi8(from, _mm512_set1_epi8(16));
	}
}

/*
 * Each window is divided before the records of the one before it are made: dividing is one chain of
 * dependent instructions, and making records has many independent ones.
 */
WIDE void batch_take_windows(struct batch *batch)
{
	const uint8_t *p = batch->p, *const limit = batch->end - READS;
	struct ptah_packet_record *r = batch->r;
	struct window w;

	if (batch->end - p < READS)
		return;
	divide_window(&w, p);
	while (w.count && batch->limit - r >= WINDOW) {
		const struct window done = w;
		const uint32_t offset = (uint32_t)(p - batch->base);

		p += w.end;
		w.count = 0;
		if (p <= limit && batch_bytes.size[*p] != BATCH_CAREFUL)
			divide_window(&w, p);
		if (done.single)
			put_singles(r, done.bytes, offset);
		else
			put_window(r, &done, offset);
		if (UNLIKELY(done.long_cycles))
			put_long_cycles(r, batch->base, done.long_cycles);
		r += done.count;
	}
	batch->p = p;
	batch->r = r;
}

bool batch_can_wide(void)
{
	return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("bmi2");
}

bool batch_prefers_wide(void)
{
	return batch_can_wide() && __builtin_cpu_is("intel");
}

#else
void batch_take_windows(struct batch *batch)
{
	(void)batch;
}

bool batch_can_wide(void)
{
	return false;
}

bool batch_prefers_wide(void)
{
	return false;
}
#endif
