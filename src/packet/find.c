/* SPDX-License-Identifier: MIT */
/*
 * The search for PSBs. A PSB (SDM "Packet Stream Boundary (PSB) Packet") is 16 bytes, 02 82
 * eight times, so a search that looks at 4 bytes in every 12 finds each one. Its bytes differ
 * in bit 7 alone: one AND and one comparison find either phase (02 first or 82 first). Only
 * what passes is compared in full.
 */
#include "packet/opcode.h"
#include "base/bits.h"
#include "base/compiler.h"

#include <ptah/packet.h>

#define PSB_SIZE 16
#define PROBE	 4
#define STRIDE	 (PSB_SIZE - PROBE)
#define UNROLL	 8

static inline unsigned is_candidate(const uint8_t *p)
{
	return (load_le32(p) & 0x7f7f7f7f) == 0x02020202;
}

/* Whether one of the UNROLL probes from p on is a candidate. Written out because gcc -O2 does not
 * unroll loops. */
static inline unsigned has_candidate(const uint8_t *p)
{
	return is_candidate(p) | is_candidate(p + STRIDE) | is_candidate(p + 2 * STRIDE) |
	       is_candidate(p + 3 * STRIDE) | is_candidate(p + 4 * STRIDE) |
	       is_candidate(p + 5 * STRIDE) | is_candidate(p + 6 * STRIDE) |
	       is_candidate(p + 7 * STRIDE);
}

static bool is_alternating(const uint8_t *p)
{
	uint32_t word = load_le32(p);

	return word == (uint32_t)PSB_WORD || word == (uint32_t)(PSB_WORD >> 8);
}

/*
 * The run of 02 82 02 82... around the probe at p: from its first 02 to the byte after its
 * last 82.
 */
struct run {
	const uint8_t *begin, *end;
};

static struct run widen(const uint8_t *p, const uint8_t *begin, const uint8_t *end)
{
	struct run run = {p, p + PROBE};

	while (run.begin > begin && (run.begin[-1] ^ run.begin[0]) == 0x80)
		run.begin--;
	/* A run as long as two PSBs need not be followed further: see settle(). */
	while (run.end < end && run.end - run.begin <= 2 * PSB_SIZE &&
	       (run.end[-1] ^ run.end[0]) == 0x80)
		run.end++;
	run.begin += run.begin[0] != OPCODE_EXT;
	run.end -= run.end[-1] != EXT_PSB;
	return run;
}

/*
 * The bytes before a PSB may end with its pattern by chance (an IP payload ...02 82), the
 * bytes after it cannot. So in a run that is shorter than two PSBs the last 16 bytes are the
 * packet.
 */
static const uint8_t *settle(struct run run)
{
	return run.end - run.begin < 2 * PSB_SIZE ? run.end - PSB_SIZE : run.begin;
}

static NOINLINE const uint8_t *first_in_run(const uint8_t *p, const uint8_t *begin,
					    const uint8_t *end)
{
	struct run run;

	if (!is_alternating(p))
		return NULL;
	run = widen(p, begin, end);
	return run.end - run.begin < PSB_SIZE ? NULL : settle(run);
}

static NOINLINE const uint8_t *last_in_run(const uint8_t *p, const uint8_t *begin,
					   const uint8_t *end)
{
	const uint8_t *last = p + PROBE;

	if (!is_alternating(p))
		return NULL;
	while (last < end && (last[-1] ^ last[0]) == 0x80)
		last++;
	last -= last[-1] != EXT_PSB;
	if (last - begin < PSB_SIZE || load_le64(last - 8) != PSB_WORD ||
	    load_le64(last - 16) != PSB_WORD)
		return NULL;
	return last - PSB_SIZE;
}

const uint8_t *ptah_packet_find_psb(const uint8_t *begin, const uint8_t *end)
{
	const uint8_t *p = begin, *found;

	while ((size_t)(end - p) >= PROBE) {
		/* Bounds are paid once in eight probes. */
		while ((size_t)(end - p) >= UNROLL * STRIDE && LIKELY(!has_candidate(p)))
			p += UNROLL * STRIDE;
		for (unsigned i = 0; i < UNROLL && (size_t)(end - p) >= PROBE; i++) {
			if (is_candidate(p) && (found = first_in_run(p, begin, end)))
				return found;
			if ((size_t)(end - p) < STRIDE)
				return NULL;
			p += STRIDE;
		}
	}
	return NULL;
}

const uint8_t *ptah_packet_find_last_psb(const uint8_t *begin, const uint8_t *end)
{
	const uint8_t *p = end, *found;

	while ((size_t)(p - begin) >= PROBE) {
		while ((size_t)(p - begin) >= UNROLL * STRIDE &&
		       LIKELY(!has_candidate(p - PROBE - (UNROLL - 1) * STRIDE)))
			p -= UNROLL * STRIDE;
		for (unsigned i = 0; i < UNROLL && (size_t)(p - begin) >= PROBE; i++) {
			if (is_candidate(p - PROBE) && (found = last_in_run(p - PROBE, begin, end)))
				return found;
			if ((size_t)(p - begin) < STRIDE)
				return NULL;
			p -= STRIDE;
		}
	}
	return NULL;
}
