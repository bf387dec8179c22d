/* SPDX-License-Identifier: MIT */
#include "packet/opcode.h"
#include "base/bits.h"
#include "base/compiler.h"

#include <ptah/packet.h>

#define PSB_SIZE 16

static bool is_psb(const uint8_t *p)
{
	return load_le64(p) == PSB_WORD && load_le64(p + 8) == PSB_WORD;
}

/*
 * The PSB around a hit at p: the bytes before it may end with its pattern by
 * chance (an IP payload ...02 82), the bytes behind it cannot: so of a run of
 * less than two PSBs the last 16 bytes are the packet.
 */
static const uint8_t *settle(const uint8_t *p, const uint8_t *end)
{
	size_t run = PSB_SIZE;

	while (run < 2 * PSB_SIZE && (size_t)(end - p) >= run + 2 &&
	       load_le16(p + run) == (uint16_t)PSB_WORD)
		run += 2;
	return run < 2 * PSB_SIZE ? p + run - PSB_SIZE : p;
}

/* Whichever way a PSB lies, an 8-byte step hits one word wholly inside it. */
const uint8_t *ptah_packet_find_psb(const uint8_t *begin, const uint8_t *end)
{
	const uint8_t *p = begin;

	while ((size_t)(end - p) >= 8) {
		uint64_t word = load_le64(p);

		if (LIKELY(word != PSB_WORD && word != rotate_left(PSB_WORD, 8))) {
			p += 8;
			continue;
		}
		/* The packet begins in the 8 bytes up to here, or not at all. */
		const uint8_t *q = (size_t)(p - begin) < 8 ? begin : p - 8;

		for (; q <= p && (size_t)(end - q) >= PSB_SIZE; q++)
			if (is_psb(q))
				return settle(q, end);
		p += 8;
	}
	return NULL;
}

const uint8_t *ptah_packet_find_last_psb(const uint8_t *begin, const uint8_t *end)
{
	const uint8_t *p;

	if ((size_t)(end - begin) < PSB_SIZE)
		return NULL;
	for (p = end - PSB_SIZE;; p--) {
		if (is_psb(p))
			return p;
		if (p == begin)
			return NULL;
	}
}
